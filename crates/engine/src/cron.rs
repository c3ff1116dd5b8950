//! Cron expressions: which moments they name, also on the days when clocks change.
//!
//! `croner` knows the fields and finds the readings of a clock that match them. What a reading means in time
//! is decided here, because a clock that is set forward skips readings and one that is set back shows them
//! twice; `docs/schedules.md` has the rules. This module knows neither the present nor what to do about a
//! missed slot.

use std::fmt;

use croner::parser::{CronParser, Seconds, Year};
use croner::{CronComponent, CronDateTime as _, CronPattern};
use jiff::civil::{Date, DateTime, date};
use jiff::tz::{Offset, TimeZone};
use windlass_core::{Invalid, Timestamp, limits};

/// 4000-01-01T00:00:00Z, in seconds. No slot is found from here on: croner stops at the year 5000.
const END: i64 = 64_060_588_800;

/// Seconds. No clock was ever changed by more.
const DAY: i64 = 86_400;

/// A cron expression in a time zone: the moments ("slots") at which something is due. Slots are whole
/// seconds.
///
/// A time that a clock skips is made up for once, right after; a time that it shows twice is taken once; and
/// what runs every so many minutes goes on doing so.
///
/// ```
/// use windlass::{Cron, Timestamp};
///
/// let nightly = Cron::parse("30 2 * * *", "Europe/Berlin")?;
/// let slot = nightly.next_after(Timestamp::from_micros(1_743_206_400_000_000)); // 2025-03-29T00:00:00Z
/// assert_eq!(slot.map(|at| at.to_string()).as_deref(), Some("2025-03-29T01:30:00.000000Z"));
/// # Ok::<(), windlass::Invalid>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Cron {
    expression: String,
    zone: String,
    time_zone: TimeZone,
    readings: croner::Cron,
    /// Whether readings that the clock skips are made up for.
    makes_up: bool,
    /// Whether readings that the clock shows again are taken again.
    repeats: bool,
}

/// Only what was given: croner's fields are 20 kB of text.
impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expression, zone, .. } = self;
        f.debug_struct("Cron").field("expression", expression).field("zone", zone).finish_non_exhaustive()
    }
}

/// Time between two changes of the clock. Seconds since 1970.
struct Stretch {
    /// When it begins.
    start: i64,
    /// When the next one begins.
    end: i64,
    /// Of the clock, from UTC.
    offset: Offset,
    /// The first reading that belongs to it. Not always what the clock shows at its start: see
    /// `Cron::stretch`.
    first: DateTime,
}

impl Cron {
    /// Reads an expression of five fields (minute, hour, day of month, month, day of week), of six with the
    /// second first, or a nickname such as `@hourly`. The zone is an IANA name such as `Europe/Berlin`, or
    /// `UTC`.
    ///
    /// An expression that can never fire, such as one for 30 February, is refused.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, Invalid> {
        let refused = |expected: String| Invalid::new("cron", expression, expected);
        if expression.len() > limits::CRON_BYTES {
            return Err(refused(format!("at most {} bytes", limits::CRON_BYTES)));
        }
        let text = expression.to_ascii_uppercase();
        let nickname = NICKNAMES.iter().find(|(name, _)| *name == text.trim_ascii());
        let mut fields: Vec<&str> =
            nickname.map_or(&*text, |(_, meaning)| meaning).split_ascii_whitespace().collect();
        if fields.len() == FIELDS.len() - 1 {
            fields.insert(0, "0");
        }
        if fields.len() != FIELDS.len() {
            return Err(refused(SHAPE.to_owned()));
        }
        for (place, (field, (name, accepted))) in fields.iter().zip(FIELDS).enumerate() {
            let mut alone = ["*"; FIELDS.len()];
            alone[place] = field;
            if !is_understood(name, field) || read(&alone).is_none() {
                return Err(refused(format!("{accepted} as the {name}, not {field:?}")));
            }
        }
        let readings = read(&fields).ok_or_else(|| refused(SHAPE.to_owned()))?;
        let pattern = &readings.pattern;
        if !has_a_day(pattern) {
            return Err(refused("a cron expression that fires at some time; no such day exists".to_owned()));
        }
        let every_hour = pattern.hours.values().len() == 24;
        let is_wild = |field: &CronComponent| field.from_wildcard && field.values().len() > 1;
        let repeats = every_hour || is_wild(&pattern.minutes) || is_wild(&pattern.seconds);
        let (expression, (zone, time_zone)) = (expression.to_owned(), time_zone(zone)?);
        Ok(Self { expression, zone, time_zone, readings, makes_up: !every_hour, repeats })
    }

    /// The first slot strictly after `moment`; none if there never is one, which is so only from the year
    /// 4000 on.
    #[must_use]
    pub fn next_after(&self, moment: Timestamp) -> Option<Timestamp> {
        let mut from = whole_seconds(moment) + 1;
        while from < END {
            let stretch = self.stretch(from)?;
            let begin = match clock(stretch.offset, from)? {
                _ if from == stretch.start => stretch.first,
                shown => shown.max(stretch.first),
            };
            let found = self.readings.find_next_occurrence(&begin, true).ok()?;
            let slot = second(stretch.offset, found)?.max(from);
            if slot < stretch.end {
                return (slot < END).then(|| timestamp(slot));
            }
            // Nothing before `found` matches, unless the clock is about to show again what it has shown. So a
            // rare slot is reached without a look at every change of the clock on the way.
            from = stretch.end.max(if stretch.end - from > DAY { slot - 2 * DAY } else { 0 });
        }
        None
    }

    /// The slots after `after` and not after `until`, oldest first, but only the last `most` of them. The
    /// work grows with the number of slots returned and not with the time between.
    #[must_use]
    pub fn last_slots(&self, after: Timestamp, until: Timestamp, most: usize) -> Vec<Timestamp> {
        let (after, mut until) = (whole_seconds(after), whole_seconds(until).min(END - 1));
        let mut slots = Vec::new();
        while slots.len() < most
            && let Some(slot) = self.latest(after, until)
        {
            slots.push(timestamp(slot));
            until = slot - 1;
        }
        slots.reverse();
        slots
    }

    /// The expression, as it was given.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The IANA name of the time zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// The last slot after `after` and not after `until`.
    fn latest(&self, after: i64, mut until: i64) -> Option<i64> {
        while until > after {
            let stretch = self.stretch(until)?;
            let shown = clock(stretch.offset, until)?;
            let found = self.readings.find_previous_occurrence(&shown, true).ok()?;
            if found >= stretch.first {
                let slot = second(stretch.offset, found)?.max(stretch.start);
                return (slot > after).then_some(slot);
            }
            let close =
                if until - stretch.start > DAY { second(stretch.offset, found)? + 2 * DAY } else { until };
            until = close.min(stretch.start - 1);
        }
        None
    }

    /// The stretch that `moment` is in. One that goes on where the clock stood before it was changed has
    /// readings that the clock skipped, which count as its start; or lacks those that the clock has shown
    /// before.
    fn stretch(&self, moment: i64) -> Option<Stretch> {
        let at = jiff::Timestamp::from_second(moment).ok()?;
        let offset = self.time_zone.to_offset(at);
        let end = self.time_zone.following(at).next().map_or(i64::MAX, |next| next.timestamp().as_second());
        let soon = jiff::Timestamp::from_second(moment + 1).ok()?;
        let Some(change) = self.time_zone.preceding(soon).next() else {
            return Some(Stretch { start: i64::MIN, end, offset, first: DateTime::MIN });
        };
        let start = change.timestamp().as_second();
        let before = self.time_zone.to_offset(jiff::Timestamp::from_second(start - 1).ok()?);
        let goes_on = if offset > before { self.makes_up } else { !self.repeats };
        let first = clock(if goes_on { before } else { offset }, start)?;
        Some(Stretch { start, end, offset, first })
    }
}

const SHAPE: &str = "5 fields (minute, hour, day of month, month, day of week), 6 with the second first, or one of \
                     @yearly, @monthly, @weekly, @daily, @hourly";

const NICKNAMES: [(&str, &str); 7] = [
    ("@YEARLY", "0 0 1 1 *"),
    ("@ANNUALLY", "0 0 1 1 *"),
    ("@MONTHLY", "0 0 1 * *"),
    ("@WEEKLY", "0 0 * * 0"),
    ("@DAILY", "0 0 * * *"),
    ("@MIDNIGHT", "0 0 * * *"),
    ("@HOURLY", "0 * * * *"),
];

/// Each field's name, and what is accepted there.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0 to 59 with * , - /"),
    ("minute", "0 to 59 with * , - /"),
    ("hour", "0 to 23 with * , - /"),
    ("day of month", "1 to 31 with * , - /, ?, L, LW or 15W"),
    ("month", "1 to 12 or JAN to DEC with * , - /"),
    ("day of week", "0 to 7 or SUN to SAT with * , - /, ?, 5L, 5#2, or + before all"),
];
const MONTHS: &str = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC";
const WEEKDAYS: &str = "SUN MON TUE WED THU FRI SAT";

/// Whether a field is made of the right words; that numbers are in range is left to croner. Croner alone
/// takes `,` for a field that never matches, `MON` for the minute 1, `JANFEB` for December, and drops the L
/// of `L,LW`.
fn is_understood(name: &str, field: &str) -> bool {
    let names = match name {
        "month" => MONTHS,
        "day of week" => WEEKDAYS,
        _ => "",
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_value =
        |text: &str| is_number(text) || names.split(' ').any(|name| name == text && !text.is_empty());
    let is_special = |part: &str| match (name, part.split_once('#')) {
        ("day of month", _) => matches!(part, "L" | "LW") || part.strip_suffix('W').is_some_and(is_number),
        ("day of week", Some((day, nth))) => is_value(day) && is_number(nth),
        ("day of week", None) => part.strip_suffix('L').is_some_and(is_value),
        _ => false,
    };
    let is_part = |part: &str| {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        is_number(step) && (range == "*" || is_value(from) && is_value(to)) || is_special(part)
    };
    let field = if name == "day of week" { field.strip_prefix('+').unwrap_or(field) } else { field };
    let has = |word: &str| field.split(',').any(|part| part == word);
    let is_left_open = field == "?" && name.starts_with("day");
    is_left_open || field.split(',').all(is_part) && !(has("L") && has("LW"))
}

/// Croner forgets that 7 is Sunday when it is the last one of a month, hence the replacement.
fn read(fields: &[&str]) -> Option<croner::Cron> {
    let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build();
    parser.parse(&fields.join(" ").replace("7L", "0L")).ok()
}

/// Whether any date matches. There are only 14 calendars (a first weekday, leap or not), and these 28 years
/// have them all; croner would look as far as the year 5000.
fn has_a_day(pattern: &CronPattern) -> bool {
    let days = std::iter::successors(Some(date(2000, 1, 1)), |day: &Date| day.tomorrow().ok());
    days.take_while(|day| day.year() < 2028).any(|day| {
        let midnight = day.at(0, 0, 0, 0);
        let (civil, weekday) = (midnight.to_civil(), midnight.civil_weekday());
        pattern.month_match(civil.month()).unwrap_or(false)
            && pattern.day_match(civil.year(), civil.month(), civil.day(), weekday).unwrap_or(false)
    })
}

/// The zone and its name as IANA writes it. Names that mean something else on each machine are refused.
fn time_zone(name: &str) -> Result<(String, TimeZone), Invalid> {
    let zone = match name {
        "UTC" => Some(TimeZone::UTC), // Also where there is no database.
        _ if name.len() > limits::CRON_BYTES => None,
        _ => TimeZone::get(name).ok(),
    };
    zone.and_then(|zone| Some((zone.iana_name()?.to_owned(), zone)))
        .filter(|(name, _)| !matches!(&**name, "localtime" | "posixrules" | "Factory"))
        .ok_or_else(|| Invalid::new("time zone", name, "an IANA name such as Europe/Berlin, or UTC"))
}

/// What a clock with this offset shows at a second.
fn clock(offset: Offset, second: i64) -> Option<DateTime> {
    Some(offset.to_datetime(jiff::Timestamp::from_second(second).ok()?))
}

/// When a clock with this offset shows this.
fn second(offset: Offset, shown: DateTime) -> Option<i64> {
    Some(offset.to_timestamp(shown).ok()?.as_second())
}

fn whole_seconds(moment: Timestamp) -> i64 {
    moment.as_micros().div_euclid(1_000_000)
}

fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_micros(second.saturating_mul(1_000_000))
}
