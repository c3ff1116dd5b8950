//! Figures as a table for people and as JSON for programs.

use serde_json::{Value, json};

/// Tasks per second of one thing next to another.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) ours: f64,
    pub(crate) base: f64,
    pub(crate) base_is: &'static str,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.ours / self.base
    }
}

/// With as many digits as mean something.
fn figure(number: f64) -> String {
    if number < 100.0 { format!("{number:.2}") } else { format!("{number:.0}") }
}

/// All figures of a run.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds a row and, unless it is kept for JSON, prints it at once: the next one takes a while.
    pub(crate) fn push(&mut self, row: Row, quiet: bool) {
        if !quiet {
            if self.rows.is_empty() {
                println!(
                    "{:<44} {:>10} {:>10}  {:<15} {:>6}",
                    "full cycles", "tasks/s", "tasks/s", "of", "ratio"
                );
            }
            let Row { what, ours, base, base_is } = &row;
            let (ours, base) = (figure(*ours), figure(*base));
            println!("{what:<44} {ours:>10} {base:>10}  {base_is:<15} {:>6.2}", row.ratio());
        }
        self.rows.push(row);
    }

    pub(crate) fn json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "what": row.what,
                "tasks_per_second": row.ours,
                "compared_with": row.base_is,
                "its_tasks_per_second": row.base,
                "ratio": row.ratio(),
            })
        };
        Value::Array(self.rows.iter().map(row).collect())
    }
}
