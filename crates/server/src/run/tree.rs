//! The tree of steps as lines for a terminal of a size: a pure function of what is shown and the time.

use std::collections::BTreeMap;

use windlass::Timestamp;

use super::view::{Line, Mode, View, took};
use crate::escape::plain;
use crate::paint::Paint;

/// How much room there is, in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size {
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Default for Size {
    fn default() -> Self {
        Self { width: 80, height: 24 }
    }
}

/// The lines, as many as fit with one to spare for the cursor, none wider than the terminal.
pub(crate) fn lines(view: &View, size: Size, now: Timestamp, paint: Paint) -> Vec<String> {
    // The last column stays empty: some terminals begin a new line when it is written.
    let width = size.width.saturating_sub(1);
    let mut lines = vec![cut(&head(view, now), width)];
    let room = size.height.saturating_sub(2);
    let shown = shown(&view.lines, room);
    let names =
        shown.iter().map(|line| 2 * indent(line, width) + 2 + self::width(&line.name)).max().unwrap_or(0);
    let names = names.min(width / 2);
    lines.extend(shown.iter().map(|line| step(line, names, width, now, paint)));
    let left = rest(&view.lines, &shown);
    if !left.is_empty() && room > 0 {
        lines.push(cut(&format!("… {left}"), width));
    }
    lines
}

fn head(view: &View, now: Timestamp) -> String {
    let is_over =
        |line: &&Line| matches!(line.mode, Mode::Completed | Mode::Skipped | Mode::Cancelled | Mode::Failed);
    let own = || view.lines.iter().filter(|line| !line.is_within);
    let over = own().filter(is_over).count();
    let paused = if view.paused { ", paused" } else { "" };
    format!("{}  {over}/{} steps  {}{paused}", plain(&view.name), own().count(), took(now.since(view.began)))
}

/// Those that fit: what fails and runs before what is ready, what has ended last before what waits; in their
/// order. One row is kept for the sum of the others, if there are any.
fn shown(lines: &[Line], room: usize) -> Vec<&Line> {
    if lines.len() <= room {
        return lines.iter().collect();
    }
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by_key(|place| {
        let line = &lines[*place];
        // All that has ended is alike, and the last of it comes first.
        let mode =
            if matches!(line.mode, Mode::Skipped | Mode::Cancelled) { Mode::Completed } else { line.mode };
        (mode, std::cmp::Reverse(line.ended))
    });
    order.truncate(room.saturating_sub(1));
    order.sort_unstable();
    order.into_iter().map(|place| &lines[place]).collect()
}

/// How many others there are, by what they do.
fn rest(lines: &[Line], shown: &[&Line]) -> String {
    let mut left: BTreeMap<Mode, usize> = BTreeMap::new();
    lines.iter().for_each(|line| *left.entry(line.mode).or_default() += 1);
    for line in shown {
        left.entry(line.mode).and_modify(|count| *count -= 1);
    }
    let left = left.iter().filter(|(_, count)| **count > 0);
    left.map(|(mode, count)| format!("{count} {}", mode.word())).collect::<Vec<_>>().join(", ")
}

/// A long chain must leave room for names.
fn indent(line: &Line, width: usize) -> usize {
    usize::try_from(line.level).unwrap_or(usize::MAX).min(width / 8)
}

fn step(line: &Line, names: usize, width: usize, now: Timestamp, paint: Paint) -> String {
    let mark = match line.mode {
        Mode::Completed => '✓',
        Mode::Failed => '✗',
        Mode::Running => '▸',
        Mode::Retrying => '↻',
        Mode::Ready => '·',
        Mode::Skipped => '–',
        Mode::Cancelled => '×',
        Mode::Waiting => '○',
    };
    let name = format!("{}{mark} {}", "  ".repeat(indent(line, width)), line.name);
    let name = cut(&name, names.min(width));
    let pad = " ".repeat(names.saturating_sub(self::width(&name)));
    let more = format!("{pad}{}", more(line, now));
    let more = cut(more.trim_end(), width.saturating_sub(self::width(&name)));
    format!("{}{}", paint.dress(line.mode.state(), &name), more)
}

/// What stands beside the name.
fn more(line: &Line, now: Timestamp) -> String {
    let end = line.ended.unwrap_or(now);
    let is_timed = matches!(line.mode, Mode::Running | Mode::Completed | Mode::Failed);
    let time = line.began.filter(|_| is_timed).map(|began| took(end.since(began)));
    let mut words = vec![format!("{:>9}", time.unwrap_or_default())];
    if let Some((over, all)) = line.items {
        words.push(format!("{over}/{all}"));
    }
    if line.mode == Mode::Retrying {
        let wait = line.due.map_or_else(String::new, |due| format!("retrying in {}", took(due.since(now))));
        words.push(wait);
    }
    if line.attempt > 1 {
        let of = line.attempts.map(|attempts| format!(" of {attempts}")).unwrap_or_default();
        words.push(format!("attempt {}{of}", line.attempt));
    }
    if line.mode == Mode::Skipped {
        words.push("skipped".into());
    }
    if let Some(said) = &line.said
        && matches!(line.mode, Mode::Running | Mode::Retrying | Mode::Failed)
    {
        words.push(plain(said).into_owned());
    }
    words.join("  ")
}

/// How many columns a text takes. Colours take none.
pub(crate) fn width(text: &str) -> usize {
    let (mut columns, mut in_code) = (0, false);
    for c in text.chars() {
        match c {
            '\u{1b}' => in_code = true,
            'm' if in_code => in_code = false,
            _ if in_code => {}
            _ => columns += columns_of(c),
        }
    }
    columns
}

/// Two for what is drawn twice as wide: the scripts of East Asia, and pictures.
fn columns_of(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// As much of a text, which has no colours, as takes at most so many columns; an ellipsis stands for what is
/// left out.
fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.into();
    }
    let (mut columns, mut end) = (0, 0);
    for (place, c) in text.char_indices() {
        columns += columns_of(c);
        if columns + 1 > most {
            break;
        }
        end = place + c.len_utf8();
    }
    if most == 0 { String::new() } else { format!("{}…", &text[..end]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    fn line(level: u32, name: &str, mode: Mode) -> Line {
        let is_begun = !matches!(mode, Mode::Waiting | Mode::Ready | Mode::Skipped);
        let is_over = matches!(mode, Mode::Completed | Mode::Failed);
        Line {
            level,
            name: name.into(),
            mode,
            began: is_begun.then(|| at(0)),
            ended: is_over.then(|| at(1_200)),
            attempt: 1,
            attempts: Some(3),
            ..Line::default()
        }
    }

    fn view(lines: Vec<Line>) -> View {
        View { name: "nightly".into(), began: at(0), paused: false, lines }
    }

    fn drawn(view: &View, width: usize, height: usize) -> Vec<String> {
        lines(view, Size { width, height }, at(3_456), Paint::Plain)
    }

    #[test]
    fn a_step_is_a_line() {
        let mut mapped = Line { items: Some((340, 1000)), ..line(1, "regions", Mode::Running) };
        mapped.said = Some("region 340\u{1b}[2J".into());
        let retrying = Line {
            attempt: 2,
            due: Some(at(5_456)),
            said: Some("the store is busy".into()),
            ..line(1, "upload", Mode::Retrying)
        };
        let view = view(vec![
            line(0, "extract", Mode::Completed),
            mapped,
            line(1, "alert", Mode::Skipped),
            retrying,
            Line { said: Some("exit code 3".into()), ..line(1, "mail", Mode::Failed) },
            line(2, "publish", Mode::Waiting),
        ]);
        assert_eq!(
            drawn(&view, 80, 24),
            [
                "nightly  3/6 steps  3.4 s",
                "✓ extract        1.2 s",
                "  ▸ regions      3.4 s  340/1000  region 340\\u{1b}[2J",
                "  – alert               skipped",
                "  ↻ upload              retrying in 2.0 s  attempt 2 of 3  the store is busy",
                "  ✗ mail         1.2 s  exit code 3",
                "    ○ publish",
            ]
        );
    }

    #[test]
    fn only_its_own_steps_are_counted() {
        let within = |level, name, mode| Line { is_within: true, ..line(level, name, mode) };
        let view = view(vec![
            line(0, "nest", Mode::Running),
            within(1, "a", Mode::Completed),
            within(1, "b", Mode::Running),
            line(1, "after", Mode::Waiting),
        ]);
        assert_eq!(
            drawn(&view, 80, 24),
            [
                "nightly  0/2 steps  3.4 s",
                "▸ nest       3.4 s",
                "  ✓ a        1.2 s",
                "  ▸ b        3.4 s",
                "  ○ after",
            ]
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut long = line(30, &"ñandú-".repeat(20), Mode::Running);
        long.said = Some("漢字".repeat(100));
        let view = view(vec![line(0, "extract", Mode::Completed), long]);
        for wide in 0..130_usize {
            for paint in [Paint::Plain, Paint::Colour] {
                for text in lines(&view, Size { width: wide, height: 24 }, at(3_456), paint) {
                    assert!(width(&text) <= wide.saturating_sub(1), "{wide}: {text:?}");
                }
            }
        }
        let narrow = drawn(&view, 20, 24);
        assert_eq!(narrow[1], "✓ extract    1.2 s");
        assert_eq!(narrow[2], "    ▸ ña…    3.4 s…");
    }

    #[test]
    fn there_are_no_more_lines_than_rows_and_the_rest_is_summed_up() {
        let mut steps: Vec<Line> = (0..50).map(|n| line(0, &format!("done-{n}"), Mode::Completed)).collect();
        steps[7].ended = Some(at(3_000));
        steps.push(line(1, "works", Mode::Running));
        steps.push(line(1, "broken", Mode::Failed));
        steps.extend((0..50).map(|n| line(2, &format!("later-{n}"), Mode::Waiting)));
        let view = view(steps);
        for height in 0..120_usize {
            let most = height.saturating_sub(1).max(1);
            assert!(drawn(&view, 80, height).len() <= most, "{height}");
        }
        assert_eq!(
            drawn(&view, 80, 6),
            [
                "nightly  51/102 steps  3.4 s",
                "✓ done-7      3.0 s",
                "  ▸ works     3.4 s",
                "  ✗ broken    1.2 s",
                "… 49 completed, 50 waiting",
            ]
        );
        assert_eq!(drawn(&view, 80, 104).len(), 103, "all of them fit");
    }

    #[test]
    fn colours_follow_the_state_and_take_no_room() {
        let view = view(vec![line(0, "a", Mode::Failed)]);
        let coloured = lines(&view, Size::default(), at(3_456), Paint::Colour);
        assert_eq!(coloured[1], "\u{1b}[31m✗ a\u{1b}[0m    1.2 s");
        assert_eq!(width(&coloured[1]), width(&drawn(&view, 80, 24)[1]));
    }

    #[test]
    fn a_cut_text_ends_with_an_ellipsis() {
        for (text, most, expected) in
            [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("漢字漢", 4, "漢…"), ("ab", 1, "…"), ("ab", 0, "")]
        {
            assert_eq!(cut(text, most), expected);
        }
    }
}
