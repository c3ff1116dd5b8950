//! Text: made harmless, made to fit, and measured without a font.

use std::fmt::Write;

use windlass_core::State;

/// What takes the place of a character that has no picture of its own.
const REPLACEMENT: char = '\u{fffd}';

/// Text on one line that no reader obeys: control characters become their pictures (`␊`), and what would turn
/// the reading direction of the text around it, or is no character in XML, becomes `\u{fffd}`.
pub(super) fn visible(text: &str) -> String {
    let show = |c: char| match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or(REPLACEMENT),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => REPLACEMENT,
        '\u{fffe}' | '\u{ffff}' => REPLACEMENT,
        c => c,
    };
    text.chars().map(show).collect()
}

/// [`visible`] text for XML, between tags or in an attribute.
pub(super) fn xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            // Only `]]>` would need it.
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// The word of a state, with spaces.
pub(super) fn state(state: State) -> String {
    state.word().replace('_', " ")
}

/// A number with commas: "9,900".
pub(super) fn number(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number and what is counted: "1 step", "9,900 steps".
pub(super) fn count(count: usize, of: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {of}{plural}", number(count))
}

/// A coordinate, with at most one digit after the point.
pub(super) fn coordinate(to: &mut String, value: f64) {
    let tenths = (value * 10.0).round() / 10.0;
    // Adding zero turns -0 into 0.
    let _ = write!(to, "{}", tenths + 0.0);
}

/// What a text is set in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Font {
    /// In pixels.
    pub(super) size: f64,
    /// Whether all letters are equally wide.
    pub(super) is_mono: bool,
}

impl Font {
    pub(super) const fn sans(size: f64) -> Self {
        Self { size, is_mono: false }
    }

    pub(super) const fn mono(size: f64) -> Self {
        Self { size, is_mono: true }
    }

    /// The width of a character. Rather too much than too little for the usual fonts.
    fn advance(self, c: char) -> f64 {
        let em = em(c);
        self.size * if self.is_mono && em > 0.0 && c.is_ascii() { 0.62 } else { em }
    }

    /// How wide a text will be.
    pub(super) fn width(self, text: &str) -> f64 {
        text.chars().map(|c| self.advance(c)).sum()
    }
}

/// The text, or its beginning and end with `…` between, so that it is no wider than `most`.
pub(super) fn shorten(text: &str, font: Font, most: f64) -> String {
    // Whatever is beyond can't be seen, and measuring a megabyte takes time.
    const MOST_CHARACTERS: usize = 2_000;
    let is_long = text.char_indices().nth(MOST_CHARACTERS).is_some();
    if !is_long && font.width(text) <= most {
        return text.to_owned();
    }
    let (mut head, mut tail) = (0, text.len());
    let mut left = most - font.advance('…');
    for ((start, first), (end, last)) in
        text.char_indices().zip(text.char_indices().rev()).take(MOST_CHARACTERS / 2)
    {
        left -= font.advance(first);
        if left < 0.0 || start >= tail {
            break;
        }
        head = start + first.len_utf8();
        left -= font.advance(last);
        if left < 0.0 || end < head {
            break;
        }
        tail = end;
    }
    // An accent without its letter would sit on the `…`.
    let end = text[tail..].trim_start_matches(|c| em(c) == 0.0);
    format!("{}…{end}", text[..head].trim_end())
}

/// The width of a character in a font with letters of different widths, in its size.
fn em(c: char) -> f64 {
    match c {
        '\u{300}'..='\u{36f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' => 0.0,
        ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | 'i' | 'j' | 'l' | 'I' | '·' => 0.36,
        '(' | ')' | '[' | ']' | '-' | '/' | '\\' | '"' | 'f' | 't' | 'r' => 0.46,
        'm' | 'w' | '%' => 0.98,
        'M' | 'W' | '@' => 1.12,
        'A'..='Z' => 0.76,
        'a'..='z' => 0.62,
        '0'..='9' => 0.64,
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' => 1.05,
        '\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' => 1.05,
        '\u{ffe0}'..='\u{ffe6}' => 1.05,
        '\u{1f000}'..='\u{1faff}' | '\u{20000}'..='\u{3ffff}' => 1.25,
        '…' => 1.0,
        _ => 0.72,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_obeyed() {
        assert_eq!(visible("a\n\u{1b}[31m\u{7f}\u{9b}\u{202e}\u{ffff}é👍"), "a␊␛[31m␡���é👍");
        assert_eq!(
            xml("</text><script a='\"'>&]]>"),
            "&lt;/text&gt;&lt;script a=&#39;&quot;&#39;&gt;&amp;]]&gt;"
        );
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1_000, 9_900, 1_234_567].map(number),
            ["0", "999", "1,000", "9,900", "1,234,567"]
        );
        assert_eq!([count(1, "step"), count(2, "step")], ["1 step", "2 steps"]);
        let mut text = String::new();
        for value in [1.0, -0.01, 2.25, 1e6] {
            coordinate(&mut text, value);
            text.push(' ');
        }
        assert_eq!(text, "1 0 2.3 1000000 ");
    }

    #[test]
    fn long_text_keeps_both_ends() {
        assert_eq!(shorten("short", Font::sans(10.0), 100.0), "short");
        let name = "a-rather-long-name-with-much-to-say";
        let short = shorten(name, Font::sans(10.0), 100.0);
        let (head, tail) = short.split_once('…').unwrap();
        assert!(
            name.starts_with(head) && name.ends_with(tail) && head.len() > 3 && tail.len() > 3,
            "{short}"
        );
        assert!(Font::sans(10.0).width(&short) <= 100.0);
    }

    #[test]
    fn characters_are_never_split() {
        for text in [
            "日本語のとても長い名前です。さようなら",
            "👍👍👍👍👍👍👍👍👍👍👍👍👍",
            "e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}",
        ] {
            for most in 0..30 {
                let short = shorten(text, Font::sans(1.0), f64::from(most) / 2.0);
                assert!(short == text || short.contains('…'), "{short}");
                assert!(!short.contains("…\u{301}"), "{short}");
            }
        }
        assert!(Font::mono(10.0).width("iiii") > Font::sans(10.0).width("iiii"));
        let megabyte = "x\u{300}".repeat(500_000);
        assert!(shorten(&megabyte, Font::sans(10.0), 100.0).chars().count() < 40);
    }
}
