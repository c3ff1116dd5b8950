//! Colours. Few and calm: what went wrong and what is at work should be seen first.

use std::fmt::Write;

use windlass_core::State;

/// What states have in common to the eye.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Tone {
    /// No state.
    Plain,
    Waiting,
    Ready,
    Active,
    Retry,
    Done,
    Wrong,
    Gone,
    Manual,
}

/// Colours of a box.
#[derive(Clone, Copy, Debug)]
pub(super) struct Colours {
    pub(super) fill: &'static str,
    pub(super) line: &'static str,
    /// Of text and marks, readable on `fill`.
    pub(super) ink: &'static str,
}

impl Tone {
    const ALL: [Self; 9] = [
        Self::Plain,
        Self::Waiting,
        Self::Ready,
        Self::Active,
        Self::Retry,
        Self::Done,
        Self::Wrong,
        Self::Gone,
        Self::Manual,
    ];

    pub(super) fn of(state: Option<State>) -> Self {
        match state {
            None => Self::Plain,
            Some(State::Waiting) => Self::Waiting,
            Some(State::Scheduled | State::Pending) => Self::Ready,
            Some(State::Claimed | State::Running) => Self::Active,
            Some(State::WaitingForRetry) => Self::Retry,
            Some(State::Completed) => Self::Done,
            Some(State::Failed | State::DeadLetter) => Self::Wrong,
            Some(State::Cancelled | State::Skipped) => Self::Gone,
            Some(State::ResolvedManually) => Self::Manual,
        }
    }

    /// Its class, in Mermaid and SVG.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Waiting => "waiting",
            Self::Ready => "ready",
            Self::Active => "active",
            Self::Retry => "retry",
            Self::Done => "done",
            Self::Wrong => "wrong",
            Self::Gone => "gone",
            Self::Manual => "manual",
        }
    }

    pub(super) fn light(self) -> Colours {
        let (fill, line, ink) = match self {
            Self::Plain => ("#ffffff", "#b9c3d0", "#3d4a5c"),
            Self::Waiting => ("#f7f8fa", "#c8d0da", "#66717f"),
            Self::Ready => ("#f1f4fb", "#a9b8d8", "#4a5d8a"),
            Self::Active => ("#e6f0fe", "#5a97ec", "#1a5fc4"),
            Self::Retry => ("#fef4de", "#dfa63c", "#8c5a05"),
            Self::Done => ("#e9f6ee", "#6cb98a", "#217a47"),
            Self::Wrong => ("#fdebeb", "#e0797c", "#b4282e"),
            Self::Gone => ("#f4f4f5", "#d4d6da", "#656a72"),
            Self::Manual => ("#f3ecfc", "#a98bdc", "#6a41b0"),
        };
        Colours { fill, line, ink }
    }

    fn dark(self) -> Colours {
        let (fill, line, ink) = match self {
            Self::Plain => ("#1f2733", "#4a5768", "#b8c4d3"),
            Self::Waiting => ("#1b2129", "#3d4754", "#94a0ae"),
            Self::Ready => ("#1d2536", "#4a5d85", "#a3b5dc"),
            Self::Active => ("#14294a", "#3f7fdb", "#7db3ff"),
            Self::Retry => ("#35290f", "#a97c22", "#edbd5e"),
            Self::Done => ("#14301f", "#3c8a5a", "#74cf98"),
            Self::Wrong => ("#3a1a1d", "#b8484d", "#ff9a9d"),
            Self::Gone => ("#1c1f24", "#3a3f47", "#8b929c"),
            Self::Manual => ("#291f3d", "#7757b3", "#c0a3f2"),
        };
        Colours { fill, line, ink }
    }
}

/// All rules begin with this class of the picture, as a style inside an SVG holds for the page around it too.
pub(super) const ROOT: &str = "windlass-graph";

/// The colours of what isn't a box.
struct Page {
    back: &'static str,
    ink: &'static str,
    edge: &'static str,
    /// Of the mark inside a state's dot.
    mark: &'static str,
}

const LIGHT: Page = Page { back: "#fcfcfd", ink: "#1d2733", edge: "#a3adba", mark: "#ffffff" };
const DARK: Page = Page { back: "#12171e", ink: "#e4e9f0", edge: "#5d6978", mark: "#12171e" };

/// The style of a picture. Written out rule by rule: several programs that show SVG know no CSS variables.
pub(super) fn sheet() -> String {
    let mut css = format!(
        ".{ROOT} text{{font-family:system-ui,-apple-system,'Segoe UI','Helvetica Neue',Arial,sans-serif;font-size:11px}}\
         .{ROOT} .title{{font-size:15px;font-weight:600}}\
         .{ROOT} .name{{font-size:13px;font-weight:600}}\
         .{ROOT} .program{{font-family:ui-monospace,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace}}\
         .{ROOT} .middle{{text-anchor:middle}}\
         .{ROOT} .label{{opacity:.72}}\
         .{ROOT} .edge{{fill:none;stroke-width:1.4}}\
         .{ROOT} .box,.{ROOT} .inner,.{ROOT} .pill{{stroke-width:1.2}}\
         .{ROOT} .inner{{fill:none;stroke-opacity:.55}}\
         .{ROOT} .dashed{{stroke-dasharray:5 3.5}}\
         .{ROOT} .mark{{fill:none;stroke-width:1.6;stroke-linecap:round;stroke-linejoin:round}}"
    );
    rules(&mut css, &LIGHT, Tone::light);
    css.push_str("@media (prefers-color-scheme:dark){");
    rules(&mut css, &DARK, Tone::dark);
    css.push('}');
    css
}

fn rules(css: &mut String, page: &Page, colours: fn(Tone) -> Colours) {
    let Page { back, ink, edge, mark } = page;
    let _ = write!(
        css,
        ".{ROOT} .back{{fill:{back}}}.{ROOT} text{{fill:{ink}}}.{ROOT} .edge{{stroke:{edge}}}.{ROOT} .arrow{{fill:{edge}}}\
         .{ROOT} .pill{{fill:{back};stroke:{edge}}}.{ROOT} .mark{{stroke:{mark}}}"
    );
    for tone in Tone::ALL {
        let (class, Colours { fill, line, ink }) = (tone.class(), colours(tone));
        let _ = write!(
            css,
            ".{ROOT} .{class} .box{{fill:{fill};stroke:{line}}}.{ROOT} .{class} .inner{{stroke:{line}}}\
             .{ROOT} .{class} .dot{{fill:{ink}}}.{ROOT} .{class} .status,.{ROOT} .status.{class}{{fill:{ink}}}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance, as the Web Content Accessibility Guidelines define it.
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let part = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn text_can_be_read() {
        for (page, colours) in [(&LIGHT, Tone::light as fn(Tone) -> Colours), (&DARK, Tone::dark)] {
            for tone in Tone::ALL {
                let Colours { fill, ink, .. } = colours(tone);
                assert!(contrast(ink, fill) >= 4.5, "{tone:?}: {}", contrast(ink, fill));
                assert!(contrast(page.ink, fill) >= 7.0, "{tone:?}: {}", contrast(page.ink, fill));
                assert!(contrast(page.mark, ink) >= 3.0, "{tone:?}: {}", contrast(page.mark, ink));
            }
        }
    }
}
