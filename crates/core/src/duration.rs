//! Lengths of time as people write and read them: `10s`, `1h30m`, `250ms`.

use std::time::Duration;

use crate::rejected::Invalid;

/// What is accepted, largest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads numbers with units, larger units first, each at most once.
pub fn parse(text: &str) -> Result<Duration, Invalid> {
    let refused =
        || Invalid::new("duration", text, "numbers with units, such as 10s, 5m, 2h, 1d, 250ms or 1h30m");
    let (mut rest, mut units, mut total) = (text, &UNITS[..], 0_u64);
    while !rest.is_empty() || total == 0 && units.len() == UNITS.len() {
        let (number, after) = split(rest, |c| c.is_ascii_digit());
        let (unit, after) = split(after, |c| !c.is_ascii_digit());
        let place = units.iter().position(|(name, _)| *name == unit).ok_or_else(refused)?;
        let number: u64 = number.parse().map_err(|_| refused())?;
        let part = number.checked_mul(units[place].1);
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(refused)?;
        (rest, units) = (after, &units[place + 1..]);
    }
    Ok(Duration::from_millis(total))
}

fn split(text: &str, is_first: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is_first(c)).unwrap_or(text.len()))
}

/// Writes what [`parse`] reads, to the millisecond; shorter than that, as microseconds.
#[must_use]
pub fn exact(duration: Duration) -> String {
    let mut left = duration.as_millis();
    if left == 0 {
        return if duration.is_zero() { "0s".into() } else { format!("{}us", duration.as_micros()) };
    }
    let mut text = String::new();
    for (unit, millis) in UNITS {
        let count = left / u128::from(millis);
        left %= u128::from(millis);
        if count > 0 {
            text += &format!("{count}{unit}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_understood() {
        for (text, millis) in [
            ("10s", 10_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("250ms", 250),
            ("1h30m", 5_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("90s", 90_000),
            ("0s", 0),
            ("007s", 7_000),
        ] {
            assert_eq!(parse(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
    }

    #[test]
    fn what_could_be_meant_otherwise_is_refused() {
        for bad in [
            "", "10", "s", "1.5s", "-1s", "+1s", "1 s", " 1s", "1s ", "30m1h", "1s1s", "1ms1s", "1x", "1S",
            "10s5",
        ] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.contains("1h30m"), "{bad}: {error}");
        }
        for far in ["18446744073709551615d", "99999999999999999999s", "18446744073709551615ms1ms"] {
            assert!(parse(far).is_err(), "{far}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["10s", "1h30m", "250ms", "1d2h3m4s5ms", "0s"] {
            assert_eq!(exact(parse(text).unwrap()), text);
        }
        assert_eq!(exact(parse("90s").unwrap()), "1m30s");
        assert_eq!(exact(Duration::from_micros(12)), "12us");
    }
}
