//! Moments as people write and read them.

use windlass::{Invalid, Timestamp};

use crate::duration;

/// Reads RFC 3339, in any offset.
pub(crate) fn parse(text: &str) -> Result<Timestamp, Invalid> {
    let refused = || Invalid::new("moment", text, "RFC 3339 from 1970 on, such as 2030-01-31T18:00:00Z");
    let micros = text.parse::<jiff::Timestamp>().map_err(|_| refused())?.as_microsecond();
    let moment = Timestamp::from_micros(micros);
    if moment.as_micros() == micros { Ok(moment) } else { Err(refused()) }
}

/// This machine's present. What a store decides, it decides by its own clock.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
}

/// `2030-01-31T18:00:00Z`: to the second, which is enough for people.
pub(crate) fn to_second(at: Timestamp) -> String {
    format!("{}Z", &at.to_string()[..19])
}

/// `2030-01-31T18:00:00.123Z`, where it matters what came first.
pub(crate) fn to_milli(at: Timestamp) -> String {
    format!("{}Z", &at.to_string()[..23])
}

/// `in 12 s`, `3 min ago`, `now`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    match (at.since(now), now.since(at)) {
        (ahead, behind) if ahead.as_millis() == 0 && behind.as_millis() == 0 => "now".into(),
        (ahead, behind) if ahead.is_zero() => format!("{} ago", duration::rough(behind)),
        (ahead, _) => format!("in {}", duration::rough(ahead)),
    }
}

/// Both: `2030-01-31T18:00:00Z, in 12 s`.
pub(crate) fn both(at: Timestamp, now: Timestamp) -> String {
    format!("{}, {}", to_second(at), relative(at, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rfc_3339_is_read_in_any_offset() {
        let noon = parse("2026-06-01T12:00:00Z").unwrap();
        assert_eq!(parse("2026-06-01T14:00:00+02:00").unwrap(), noon);
        assert_eq!(parse(&noon.to_string()).unwrap(), noon);
        assert_eq!(to_second(noon), "2026-06-01T12:00:00Z");
        assert_eq!(to_milli(noon), "2026-06-01T12:00:00.000Z");
        for bad in [
            "",
            "tomorrow",
            "2026-06-01",
            "2026-06-01T12:00:00",
            "1969-12-31T23:59:59Z",
            "2026-13-01T00:00:00Z",
        ] {
            assert!(parse(bad).unwrap_err().to_string().contains("RFC 3339"), "{bad}");
        }
    }

    #[test]
    fn relative_to_now() {
        let now = parse("2026-06-01T12:00:00Z").unwrap();
        assert_eq!(relative(now, now), "now");
        assert_eq!(relative(now.plus(Duration::from_secs(12)), now), "in 12 s");
        assert_eq!(relative(now.minus(Duration::from_secs(200)), now), "3 min ago");
        assert_eq!(both(now.plus(Duration::from_millis(5)), now), "2026-06-01T12:00:00Z, in 5 ms");
    }
}
