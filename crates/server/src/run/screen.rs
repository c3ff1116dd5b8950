//! The part of a terminal that is drawn again and again. The cursor is never hidden and stays below, so that
//! nothing has to be put right at the end, whatever that is.

use std::fmt::Write as _;
use std::io::stdout;

use rustix::termios::tcgetwinsize;

use super::tree::{Size, width};
use crate::session::print;

/// What was last drawn.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    drawn: Vec<String>,
    size: Size,
}

impl Screen {
    /// The size of the terminal, now.
    pub(crate) fn size() -> Size {
        match tcgetwinsize(stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Size { width: size.ws_col.into(), height: size.ws_row.into() }
            }
            _ => Size::default(),
        }
    }

    /// Draws lines in place of those that were drawn before, if they differ.
    pub(crate) fn draw(&mut self, lines: Vec<String>, size: Size) {
        if lines == self.drawn && size == self.size {
            return;
        }
        let text = self.erase(size) + &lines.iter().fold(String::new(), |text, line| text + line + "\n");
        (self.drawn, self.size) = (lines, size);
        // A terminal that is gone is no reason to stop.
        let _ = print(&text);
    }

    /// Writes a line above what is drawn.
    pub(crate) fn above(&mut self, line: &str) {
        let size = Self::size();
        let erase = self.erase(size);
        let _ = print(&format!("{erase}{line}\n"));
        let drawn = std::mem::take(&mut self.drawn);
        self.draw(drawn, size);
    }

    /// Goes to the beginning of what is drawn and clears from there. Lines that were drawn when the terminal
    /// was wider take more rows now.
    fn erase(&self, size: Size) -> String {
        let rows: usize = self.drawn.iter().map(|line| width(line).div_ceil(size.width.max(1)).max(1)).sum();
        let mut text = String::new();
        if rows > 0 {
            let _ = write!(text, "\r\u{1b}[{}A\u{1b}[J", rows.min(size.height.max(1)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_drawn_is_erased_even_if_the_terminal_is_narrower_now() {
        let drawn = vec!["x".repeat(70), "\u{1b}[31mfailed\u{1b}[0m".into()];
        let screen = Screen { drawn, size: Size { width: 80, height: 24 } };
        assert_eq!(screen.erase(Size { width: 80, height: 24 }), "\r\u{1b}[2A\u{1b}[J");
        assert_eq!(screen.erase(Size { width: 40, height: 24 }), "\r\u{1b}[3A\u{1b}[J");
        assert_eq!(screen.erase(Size { width: 5, height: 7 }), "\r\u{1b}[7A\u{1b}[J");
        assert_eq!(Screen::default().erase(Size::default()), "");
    }
}
