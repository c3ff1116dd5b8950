//! Text from outside on its way to a terminal. Whatever somebody put into a payload, a note or a name, it is
//! shown and not obeyed: it can neither move the cursor, nor pass for another line, nor turn the reading
//! direction.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal would do something else with it than show it.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text on one line, with what is unsafe written as Rust writes it: `\n`, `\u{1b}`.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

/// The first `most` characters of [`plain`] text.
pub(crate) fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", plain(&text[..end])),
        None => plain(text).into_owned(),
    }
}

/// JSON on one line: without space between its parts, and with what is unsafe in strings escaped as JSON
/// escapes it. It means the same.
pub(crate) fn json(text: &str) -> String {
    let (mut safe, mut in_string, mut escaped) = (String::with_capacity(text.len()), false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            ' ' | '\t' | '\n' | '\r' if !in_string => continue,
            _ => {}
        }
        if is_unsafe(c) {
            // All of them are in the first plane, so that one escape is enough.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_driven() {
        assert_eq!(plain("plain ünïcödé 👍"), "plain ünïcödé 👍");
        assert_eq!(plain("\u{1b}[31mred\r\n\u{9b}0m\u{7f}"), "\\u{1b}[31mred\\r\\n\\u{9b}0m\\u{7f}");
        assert_eq!(plain("a\u{202e}b\u{2028}c"), "a\\u{202e}b\\u{2028}c");
        assert_eq!(short("1234567", 3), "123…");
        assert_eq!(short("12\n", 3), "12\\n");
    }

    #[test]
    fn json_stays_the_same_value() {
        let text = "{ \"a b\" :\t[1e400, \"\u{9b}\\\" \u{202e}\"] }\n";
        let shown = json(text);
        assert_eq!(shown, r#"{"a b":[1e400,"\u009b\" \u202e"]}"#);
        let whole = "{\"a\": \"x \u{85}\\\\\", \"b\" : [ ]}";
        let (before, after): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(whole).unwrap(), serde_json::from_str(&json(whole)).unwrap());
        assert_eq!(before, after);
    }
}
