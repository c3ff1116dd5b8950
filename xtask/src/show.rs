//! How durations, numbers of things and the summary are written.

use std::time::Duration;

/// `0.4 s`, `42 s` or `3 m 12 s`: as exact as one cares for at that length.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds >= 60 {
        format!("{} m {} s", seconds / 60, seconds % 60)
    } else if seconds >= 10 {
        format!("{seconds} s")
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

/// `1 file`, `2 files`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Two columns, the first as wide as its widest cell.
pub(crate) fn table(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("  {name:width$}  {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_exact_as_one_cares_for() {
        assert_eq!(duration(Duration::from_millis(440)), "0.4 s");
        assert_eq!(duration(Duration::from_secs(42)), "42 s");
        assert_eq!(duration(Duration::from_secs(192)), "3 m 12 s");
    }

    #[test]
    fn one_thing_is_not_plural() {
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(0, "file"), "0 files");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [("fmt", "0.4 s".to_owned()), ("clippy", "42 s".to_owned())];
        assert_eq!(table(&rows), "  fmt     0.4 s\n  clippy  42 s\n");
    }
}
