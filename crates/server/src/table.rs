//! Tables for people: aligned columns under headers, no borders. What is in them is shown, never obeyed.

use windlass::{State, WorkflowState};

use crate::escape::plain;
use crate::paint::Paint;

/// One cell.
#[derive(Debug)]
pub(crate) enum Cell {
    /// From the left.
    Text(String),
    /// From the right.
    Number(String),
    /// In its colour.
    State(State),
    /// In its colour.
    Workflow(WorkflowState),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(plain(text).into_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::from(&*text)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(number.to_string())
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        Self::from(u64::from(number))
    }
}

impl From<State> for Cell {
    fn from(state: State) -> Self {
        Self::State(state)
    }
}

impl From<WorkflowState> for Cell {
    fn from(state: WorkflowState) -> Self {
        Self::Workflow(state)
    }
}

impl Cell {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Number(text) => text,
            Self::State(state) => state.word(),
            Self::Workflow(state) => state.word(),
        }
    }

    fn width(&self) -> usize {
        self.text().chars().count()
    }
}

/// Rows under headers.
#[derive(Debug)]
pub(crate) struct Table {
    headers: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// With these headers, in upper case.
    pub(crate) fn new(headers: &[&'static str]) -> Self {
        Self { headers: headers.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a cell for each header.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Leaves columns out in which no row has anything to say.
    pub(crate) fn without_empty(mut self) -> Self {
        let is_said =
            |column: usize| self.rows.iter().any(|row| row.get(column).is_some_and(|cell| cell.width() > 0));
        let said: Vec<bool> = (0..self.headers.len()).map(is_said).collect();
        let mut flags = said.iter();
        self.headers.retain(|_| flags.next().copied().unwrap_or(true));
        for row in &mut self.rows {
            let mut flags = said.iter();
            row.retain(|_| flags.next().copied().unwrap_or(true));
        }
        self
    }

    /// The table as lines, each beginning with `indent`. The last column is not padded.
    pub(crate) fn render(&self, paint: Paint, indent: &str) -> String {
        let column = |place: usize| self.rows.iter().filter_map(move |row| row.get(place));
        let widths: Vec<usize> = self
            .headers
            .iter()
            .enumerate()
            .map(|(place, header)| column(place).map(Cell::width).chain([header.len()]).max().unwrap_or(0))
            .collect();
        let is_number: Vec<bool> = (0..widths.len())
            .map(|place| column(place).any(|cell| matches!(cell, Cell::Number(_))))
            .collect();
        let headers = self.headers.iter().map(|header| (*header).to_owned().into());
        let mut text = String::new();
        for row in std::iter::once(&headers.collect::<Vec<Cell>>()).chain(&self.rows) {
            let mut line = String::from(indent);
            for (place, cell) in row.iter().enumerate() {
                let space =
                    " ".repeat(widths.get(place).map_or(0, |width| width.saturating_sub(cell.width())));
                let shown = match cell {
                    Cell::State(state) => paint.state(*state),
                    Cell::Workflow(state) => paint.workflow(*state),
                    other => other.text().into(),
                };
                let from_right = is_number.get(place).copied().unwrap_or(false);
                let is_last = place + 1 == row.len();
                line += &match (from_right, is_last) {
                    (true, true) => format!("{space}{shown}"),
                    (true, false) => format!("{space}{shown}  "),
                    (false, true) => shown,
                    (false, false) => format!("{shown}{space}  "),
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_the_last_is_not_padded() {
        let mut table = Table::new(&["KIND", "STATE", "TASKS", "NOTE", "NEVER"]);
        table.row(["email:send".into(), State::Failed.into(), 7_u64.into(), "a\nb".into(), "".into()]);
        table.row(["x".into(), State::Pending.into(), 1234_u64.into(), "".into(), "".into()]);
        let table = table.without_empty();
        let expected = "KIND        STATE    TASKS  NOTE\n\
                        email:send  failed       7  a\\nb\n\
                        x           pending   1234\n";
        assert_eq!(table.render(Paint::Plain, ""), expected);
        let coloured = table.render(Paint::Colour, "  ");
        assert!(coloured.contains("  email:send  \u{1b}[31mfailed\u{1b}[0m       7"), "{coloured}");
    }
}
