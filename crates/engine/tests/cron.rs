//! Cron expressions: what is accepted, what happens when clocks change, and a comparison with a reader that
//! looks at every second of some days.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::time::{Duration, Instant};

use jiff::ToSpan as _;
use jiff::civil::{Date, Weekday, date};
use jiff::tz::TimeZone;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;
use windlass::{Cron, Timestamp};

fn cron(expression: &str, zone: &str) -> Cron {
    Cron::parse(expression, zone).unwrap_or_else(|refused| panic!("{refused}"))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000)
}

fn second(moment: Timestamp) -> i64 {
    moment.as_micros() / 1_000_000
}

fn midnight(day: Date, zone: &str) -> i64 {
    day.to_zoned(TimeZone::get(zone).unwrap()).unwrap().timestamp().as_second()
}

/// The slots of a local day, as its clock shows them, found by stepping forward. Stepping back must agree.
fn on(day: Date, expression: &str, zone: &str) -> Vec<String> {
    let cron = cron(expression, zone);
    let (start, end) = (midnight(day, zone) - 1, midnight(day.tomorrow().unwrap(), zone) - 1);
    let slots = forward(&cron, start, end);
    assert_eq!(cron.last_slots(at(start), at(end), usize::MAX), slots, "{expression} {zone} {day}");
    let zone = TimeZone::get(zone).unwrap();
    let shown = |slot: &Timestamp| {
        let slot = jiff::Timestamp::from_second(second(*slot)).unwrap().to_zoned(zone.clone());
        slot.strftime("%H:%M%:::z").to_string()
    };
    slots.iter().map(shown).collect()
}

fn forward(cron: &Cron, after: i64, until: i64) -> Vec<Timestamp> {
    let next = |slot: &Timestamp| cron.next_after(*slot).filter(|slot| *slot <= at(until));
    std::iter::successors(next(&at(after)), next).collect()
}

const BERLIN: &str = "Europe/Berlin";
const NEW_YORK: &str = "America/New_York";
const LORD_HOWE: &str = "Australia/Lord_Howe";

#[test]
fn a_skipped_time_is_made_up_for_right_after() {
    let spring = date(2025, 3, 30);
    for (expression, slots) in [
        ("30 2 * * *", &["03:00+02"] as &[_]),
        ("0 2,14 * * *", &["03:00+02", "14:00+02"]),
        ("0,30 2 * * *", &["03:00+02"]),
        ("15 1-4 * * *", &["01:15+01", "03:00+02", "03:15+02", "04:15+02"]),
        ("0 */6 * * *", &["00:00+01", "06:00+02", "12:00+02", "18:00+02"]),
        ("0 2-23/9 * * *", &["03:00+02", "11:00+02", "20:00+02"]),
        ("*/15 2 * * *", &["03:00+02"]),
        ("*/20 1-3 * * *", &["01:00+01", "01:20+01", "01:40+01", "03:00+02", "03:20+02", "03:40+02"]),
        ("59 59 1 * * *", &["01:59+01"]),
        ("0 0 3 * * *", &["03:00+02"]),
    ] {
        assert_eq!(on(spring, expression, BERLIN), slots, "{expression}");
    }
    assert_eq!(on(date(2025, 3, 9), "30 2 * * *", NEW_YORK), ["03:00-04"]);
    assert_eq!(on(date(2025, 10, 5), "15 2 * * *", LORD_HOWE), ["02:30+11"]);
    assert_eq!(on(date(2025, 10, 5), "45 2 * * *", LORD_HOWE), ["02:45+11"]);
    assert_eq!(on(spring, "30 2 * * *", "UTC"), ["02:30+00"]);
    assert_eq!(on(date(2025, 4, 25), "@daily", "Africa/Cairo"), ["01:00+03"]);
}

#[test]
fn a_repeated_time_is_taken_once() {
    let autumn = date(2025, 10, 26);
    for (expression, slots) in [
        ("30 2 * * *", &["02:30+02"] as &[_]),
        ("0 2,14 * * *", &["02:00+02", "14:00+01"]),
        ("0,30 2 * * *", &["02:00+02", "02:30+02"]),
        ("15 1-4 * * *", &["01:15+02", "02:15+02", "03:15+01", "04:15+01"]),
        ("0 */6 * * *", &["00:00+02", "06:00+01", "12:00+01", "18:00+01"]),
        ("0 3 * * *", &["03:00+01"]),
    ] {
        assert_eq!(on(autumn, expression, BERLIN), slots, "{expression}");
    }
    assert_eq!(on(date(2025, 11, 2), "30 1 * * *", NEW_YORK), ["01:30-04"]);
    assert_eq!(on(date(2025, 4, 6), "45 1 * * *", LORD_HOWE), ["01:45+11"]);
    assert_eq!(on(date(2025, 4, 6), "15 1 * * *", LORD_HOWE), ["01:15+11"]);
    assert_eq!(on(autumn, "30 2 * * *", "UTC"), ["02:30+00"]);
    let second_time_round = 1_761_441_000; // 02:10+01
    let next = cron("30 2 * * *", BERLIN).next_after(at(second_time_round)).unwrap();
    assert_eq!(next.to_string(), "2025-10-27T01:30:00.000000Z");
}

#[test]
fn what_runs_every_so_many_minutes_goes_on_in_a_repeated_hour() {
    let autumn = date(2025, 10, 26);
    assert_eq!(on(autumn, "*/30 2 * * *", BERLIN), ["02:00+02", "02:30+02", "02:00+01", "02:30+01"]);
    assert_eq!(on(autumn, "*/30 5 2 * * *", BERLIN), ["02:05+02", "02:05+02", "02:05+01", "02:05+01"]);
    assert_eq!(on(autumn, "*/60 2 * * *", BERLIN), ["02:00+02"], "daily, in disguise");
    assert_eq!(on(autumn, "30 * * * *", BERLIN)[1..4], ["01:30+02", "02:30+02", "02:30+01"]);
    assert_eq!(on(autumn, "@hourly", BERLIN).len(), 25);
    assert_eq!(on(date(2025, 3, 30), "@hourly", BERLIN).len(), 23);
    assert_eq!(on(date(2025, 3, 30), "30 * * * *", BERLIN)[1..3], ["01:30+01", "03:30+02"]);
    // Half an hour is not a multiple of 20 minutes, so one step is longer, whichever way the clock goes.
    assert_eq!(on(date(2025, 10, 5), "*/20 * * * *", LORD_HOWE)[5..7], ["01:40+1030", "02:40+11"].map(colon));
    assert_eq!(on(date(2025, 4, 6), "*/20 * * * *", LORD_HOWE)[5..7], ["01:40+11", "01:40+1030"].map(colon));
}

/// Half hours of an offset are written with a colon.
fn colon(text: &str) -> String {
    text.replace("+1030", "+10:30")
}

#[test]
fn every_so_many_minutes_means_real_minutes() {
    let days = [date(2025, 3, 9), date(2025, 3, 30), date(2025, 10, 26), date(2025, 11, 2)];
    let lord_howe = [date(2025, 4, 6), date(2025, 10, 5)];
    for (zone, days) in [(BERLIN, &days[..]), (NEW_YORK, &days), ("UTC", &days), (LORD_HOWE, &lord_howe)] {
        for (expression, step) in [("*/5 * * * *", 300), ("*/15 * * * *", 900), ("*/10 * * * * *", 10)] {
            let cron = cron(expression, zone);
            for day in days {
                let noon = midnight(*day, zone) + 12 * 3600;
                let slots = forward(&cron, noon - 86_400, noon);
                let steps = slots.windows(2).all(|pair| second(pair[1]) - second(pair[0]) == step);
                assert!(steps, "{expression} {zone} {day}");
            }
        }
    }
}

#[test]
fn a_daily_time_comes_once_on_each_day() {
    for zone in [BERLIN, NEW_YORK, LORD_HOWE, "UTC", "Africa/Cairo", "America/Havana", "Antarctica/Troll"] {
        for (hour, minute) in
            [(0, 0), (0, 30), (1, 0), (1, 30), (1, 45), (2, 0), (2, 15), (2, 30), (3, 0), (23, 30)]
        {
            let cron = cron(&format!("{minute} {hour} * * *"), zone);
            let slots =
                forward(&cron, midnight(date(2025, 1, 1), zone) - 1, midnight(date(2026, 1, 1), zone) - 1);
            let zone = TimeZone::get(zone).unwrap();
            let day = |slot: &Timestamp| {
                jiff::Timestamp::from_second(second(*slot)).unwrap().to_zoned(zone.clone())
            };
            let days: Vec<Date> = slots.iter().map(|slot| day(slot).date()).collect();
            let all: Vec<Date> = date(2025, 1, 1).series(1.day()).take(365).collect();
            assert_eq!(days, all, "{hour}:{minute} {zone:?}");
        }
    }
}

#[test]
fn a_rare_time_is_found_from_afar_as_from_nearby() {
    let changes =
        [(BERLIN, 3, 30), (BERLIN, 10, 26), (NEW_YORK, 11, 2), (LORD_HOWE, 4, 6), (LORD_HOWE, 10, 5)];
    for (zone, month, day) in changes {
        for times in ["30 1-3", "*/15 1-2", "45 *"] {
            let cron = cron(&format!("{times} {day} {month} *"), zone);
            let near = (1990..2050).flat_map(|year| {
                let day = midnight(date(year, month, day), zone);
                forward(&cron, day - 3600, day + 40 * 3600)
            });
            let near: Vec<Timestamp> = near.collect();
            let (after, until) = (midnight(date(1990, 1, 1), zone), midnight(date(2050, 1, 1), zone));
            assert_eq!(forward(&cron, after, until), near, "{cron:?}");
            assert_eq!(cron.last_slots(at(after), at(until), usize::MAX), near, "{cron:?}");
            for slots in near.windows(2) {
                let afar = cron.last_slots(slots[0], Timestamp::from_micros(slots[1].as_micros() - 1), 1);
                assert!(afar.is_empty(), "{cron:?} {slots:?}");
            }
        }
    }
}

#[test]
fn a_day_that_a_country_skipped_is_made_up_for() {
    let apia = cron("0 9 * * *", "Pacific/Apia");
    let slots = forward(
        &apia,
        midnight(date(2011, 12, 29), "Pacific/Apia"),
        midnight(date(2012, 1, 1), "Pacific/Apia"),
    );
    let shown: Vec<String> = slots.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        ["2011-12-29T19:00:00.000000Z", "2011-12-30T10:00:00.000000Z", "2011-12-30T19:00:00.000000Z"]
    );
}

#[test]
fn fields_mean_what_the_manual_says() {
    for (expression, days) in [
        ("0 0 L 2 *", &["02-28"] as &[_]),
        ("0 0 LW 5 *", &["05-30"]),
        ("0 0 15W 6,11 ?", &["06-16", "11-14"]),
        ("0 0 1W 11 *", &["11-03"]),
        ("0 0 ? 1 MON#2", &["01-13"]),
        ("0 0 * 1 1#5", &[]),
        ("0 0 * 1 FRIL", &["01-31"]),
        ("0 0 * 1 7L", &["01-26"]),
        ("0 0 * 1 SUN#1", &["01-05"]),
        ("0 0 13 * +FRI", &["06-13"]),
        ("0 0 3 1 SUN", &["01-03", "01-05", "01-12", "01-19", "01-26"]),
        ("0 0 * feb sat-Sun", &["02-01", "02-02", "02-08", "02-09", "02-15", "02-16", "02-22", "02-23"]),
        ("0 0 1-31/10 DEC *", &["12-01", "12-11", "12-21", "12-31"]),
        (" 0\t0   29  2  *\n", &[]),
        ("@yearly", &["01-01"]),
        ("@Annually", &["01-01"]),
    ] {
        let year = forward(&cron(expression, "UTC"), 1_735_689_599, 1_767_225_599);
        let found: Vec<String> = year.iter().map(|slot| slot.to_string()[5..10].to_owned()).collect();
        assert_eq!(found, days, "{expression}");
    }
    for (nickname, same) in [
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        (" @HOURLY ", "0 * * * *"),
    ] {
        let year = |text| forward(&cron(text, BERLIN), 1_735_689_599, 1_767_225_599);
        assert_eq!(year(nickname), year(same));
    }
    let rare = cron("0 0 29 2 +MON", "UTC").next_after(at(1_709_251_200)).unwrap();
    assert_eq!(rare.to_string(), "2044-02-29T00:00:00.000000Z");
    let given = cron(" @Daily", "europe/BERLIN");
    assert_eq!((given.expression(), given.zone()), (" @Daily", "Europe/Berlin"));
    assert_eq!(cron("* * * * *", "utc").zone(), "UTC");
    assert_eq!(format!("{given:?}"), r#"Cron { expression: " @Daily", zone: "Europe/Berlin", .. }"#);
}

#[test]
fn senseless_expressions_are_refused_quickly_and_say_what_would_do() {
    let (huge, wide) = ("*".repeat(257), format!("0 0 {} * *", ["1"; 150].join(",")));
    for (expression, expected) in [
        ("", "5 fields"),
        (" \t ", "5 fields"),
        ("* * * *", "5 fields"),
        ("* * * * * * *", "5 fields"),
        ("@reboot", "@daily"),
        ("@hourly @daily", "5 fields"),
        ("every day", "5 fields"),
        (&huge, "at most 256 bytes"),
        (&wide, "at most 256 bytes"),
        ("61 * * * *", "0 to 59 with * , - / as the minute, not \"61\""),
        ("60 * * * * *", "as the second"),
        ("* 24 * * *", "0 to 23"),
        ("* * 0 * *", "1 to 31"),
        ("* * * 13 *", "JAN to DEC"),
        ("* * * * 8", "SUN to SAT"),
        (", * * * *", "0 to 59"),
        ("1,,2 * * * *", "0 to 59"),
        ("*/0 * * * *", "0 to 59"),
        ("/5 * * * *", "0 to 59"),
        ("5/10 * * * *", "0 to 59"),
        ("*-5 * * * *", "0 to 59"),
        ("5-1 * * * *", "0 to 59"),
        ("-1 * * * *", "0 to 59"),
        ("99999999999999999999 * * * *", "0 to 59"),
        ("MON * * * *", "0 to 59"),
        ("? * * * *", "0 to 59"),
        ("* * L,LW * *", "1 to 31"),
        ("* * 5L * *", "1 to 31"),
        ("* * W * *", "1 to 31"),
        ("* * * JANFEB *", "JAN to DEC"),
        ("* * * MON *", "JAN to DEC"),
        ("* * * * L", "5L"),
        ("* * * * FRI-MON", "SUN to SAT"),
        ("* * * * 1#6", "5#2"),
        ("* * * * 1-5#2", "5#2"),
        ("* * * * ++1", "SUN to SAT"),
        ("0 0 30 2 *", "fires at some time"),
        ("* * * 31 2,4,6,9,11 *", "fires at some time"),
        ("0 0 1 1 +MON#5", "fires at some time"),
        ("0 0 31W 2 *", "fires at some time"),
        ("* * * * ſun", "SUN to SAT"),
        ("* * *\u{a0}* *", "5 fields"),
        ("* * *\u{b}* *", "5 fields"),
        ("0 0 * * *\n0 1 * * *", "5 fields"),
        ("0 0 ?,5 * *", "1 to 31"),
        ("*\0 * * * *", "0 to 59"),
        ("٣ * * * *", "0 to 59"),
    ] {
        let refused = Cron::parse(expression, "UTC").unwrap_err();
        let spent = || {
            let start = Instant::now();
            Cron::parse(expression, "UTC").unwrap_err();
            start.elapsed()
        };
        // The best of three: other tests run beside this one.
        let spent = [spent(), spent(), spent()].into_iter().min();
        assert!(spent < Some(Duration::from_millis(50)), "{expression:?} took {spent:?}");
        assert_eq!(refused.field, "cron");
        assert!(refused.expected.contains(expected), "{refused}");
        assert!(refused.to_string().len() < 400, "{refused}");
    }
}

#[test]
fn zones_that_are_no_places_are_refused() {
    let long = "x".repeat(100_000);
    for zone in [
        "",
        " ",
        "Berlin",
        "Europe/Berlin ",
        "CEST",
        "+02:00",
        "local",
        "localtime",
        "posixrules",
        "Factory",
        "Etc/Unknown",
        "../../etc/passwd",
        "/usr/share/zoneinfo/UTC",
        "posix/UTC",
        "right/Europe/Berlin",
        "UTC\0",
        "EST5EDT,M3.2.0,M11.1.0",
        &long,
    ] {
        let refused = Cron::parse("@daily", zone).unwrap_err();
        assert_eq!(refused.field, "time zone");
        assert!(
            refused.to_string().ends_with("expected an IANA name such as Europe/Berlin, or UTC"),
            "{refused}"
        );
    }
}

#[test]
fn the_last_slots_of_a_long_time_cost_no_more_than_those_of_a_short_one() {
    let start = Instant::now();
    for zone in ["UTC", BERLIN] {
        let slots = cron("* * * * * *", zone).last_slots(Timestamp::MIN, at(4_000_000_000), 100);
        assert_eq!(slots, (3_999_999_901..=4_000_000_000).map(at).collect::<Vec<_>>());
        let rare = cron("0 0 29 2 +MON", zone).last_slots(Timestamp::MIN, Timestamp::MAX, 100);
        let mondays = (1972..4000).step_by(4).filter_map(|year| Date::new(year, 2, 29).ok());
        assert_eq!(rare.len(), mondays.filter(|day| day.weekday() == Weekday::Monday).count());
        assert!(cron("0 0 29 2 +MON", zone).last_slots(at(4_000_000_000), at(4_000_000_060), 100).is_empty());
    }
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let every = cron("* * * * * *", "UTC");
    assert!(every.last_slots(at(10), at(20), 0).is_empty());
    assert!(every.last_slots(at(10), at(10), 5).is_empty());
    assert!(every.last_slots(at(20), at(10), 5).is_empty());
    let (after, until) = (Timestamp::from_micros(10_000_001), Timestamp::from_micros(12_999_999));
    assert_eq!(every.last_slots(after, until, 5), [at(11), at(12)]);
    assert_eq!(every.next_after(until), Some(at(13)));
}

#[test]
fn there_is_an_end() {
    let end = 64_060_588_800;
    let every = cron("* * * * * *", LORD_HOWE);
    assert_eq!(every.next_after(at(end - 2)), Some(at(end - 1)));
    assert_eq!(every.next_after(at(end - 1)), None);
    assert_eq!(every.next_after(Timestamp::MAX), None);
    assert_eq!(cron("0 12 * * *", "UTC").next_after(at(end - 1000)), None);
    assert_eq!(every.last_slots(Timestamp::MIN, Timestamp::MAX, 2), [at(end - 2), at(end - 1)]);
    assert_eq!(every.next_after(Timestamp::MIN), Some(at(1)));
    assert_eq!(every.last_slots(Timestamp::MIN, at(3), 9), [at(1), at(2), at(3)]);
}

/// A field as it is written, and the values that it stands for.
#[derive(Clone, Debug)]
struct Field {
    text: String,
    values: Vec<i64>,
}

impl Field {
    fn new(text: String, values: impl IntoIterator<Item = i64>) -> Self {
        Self { text, values: values.into_iter().collect() }
    }

    fn is_star(&self) -> bool {
        self.text == "*"
    }

    fn is_wild(&self) -> bool {
        self.text.starts_with('*') && self.values.len() > 1
    }
}

/// Stars, steps, lists and ranges; low values are likelier, because clocks change at night.
fn field(low: i64, high: i64) -> impl Strategy<Value = Field> {
    let value = prop_oneof![low..=high, low..=(low + 3).min(high)];
    let list = |values: std::collections::BTreeSet<i64>| {
        let text: Vec<String> = values.iter().map(ToString::to_string).collect();
        Field::new(text.join(","), values)
    };
    prop_oneof![
        Just(Field::new("*".into(), low..=high)),
        value.clone().prop_map(|one| Field::new(one.to_string(), [one])),
        (1..=high + 5).prop_map(move |step| Field::new(format!("*/{step}"), steps(low, high, step))),
        btree_set(value.clone(), 1..4).prop_map(list),
        (value.clone(), value, 1..=high).prop_map(|(a, b, step)| {
            let (from, to) = (a.min(b), a.max(b));
            Field::new(format!("{from}-{to}/{step}"), steps(from, to, step))
        }),
    ]
}

fn steps(from: i64, to: i64, step: i64) -> impl Iterator<Item = i64> {
    (from..=to).step_by(usize::try_from(step).unwrap())
}

/// Second, minute, hour, day of month, day of week.
fn fields() -> impl Strategy<Value = [Field; 5]> {
    let second = prop_oneof![3 => Just(Field::new("0".into(), [0])), 1 => field(0, 59)];
    let days = |low, high| prop_oneof![3 => Just(Field::new("*".into(), low..=high)), 1 => field(low, high)];
    (second, field(0, 59), field(0, 23), days(1, 31), days(0, 6)).prop_map(Into::into)
}

/// Second by second: what a person with a list of times and a clock on the wall would do.
fn by_hand(fields: &[Field; 5], zone: &TimeZone, after: i64, until: i64) -> Vec<Timestamp> {
    let [seconds, minutes, hours, days, weekdays] = fields;
    let every_hour = hours.values.len() == 24;
    let repeats = every_hour || minutes.is_wild() || seconds.is_wild();
    let is_day = |day: i64| {
        let date = date(1970, 1, 1).checked_add(day.days()).unwrap();
        let month_day = days.values.contains(&i64::from(date.day()));
        let weekday = weekdays.values.contains(&i64::from(date.weekday().to_sunday_zero_offset()));
        match (days.is_star(), weekdays.is_star()) {
            (false, false) => month_day || weekday,
            _ => month_day && weekday,
        }
    };
    let mut days_known = std::collections::HashMap::new();
    let mut matches = |shown: i64| {
        seconds.values.contains(&shown.rem_euclid(60))
            && minutes.values.contains(&(shown.div_euclid(60).rem_euclid(60)))
            && hours.values.contains(&(shown.div_euclid(3600).rem_euclid(24)))
            && *days_known.entry(shown.div_euclid(86_400)).or_insert_with_key(|day| is_day(*day))
    };
    let clock = |moment: i64| {
        let offset = zone.to_offset(jiff::Timestamp::from_second(moment).unwrap());
        moment + i64::from(offset.seconds())
    };
    let (mut latest, mut slots) = (clock(after), Vec::new());
    for moment in after + 1..=until {
        let shown = clock(moment);
        let due = if shown > latest {
            matches(shown) || !every_hour && (latest + 1..shown).any(&mut matches)
        } else {
            repeats && matches(shown)
        };
        latest = latest.max(shown);
        if due {
            slots.push(at(moment));
        }
    }
    slots
}

const ZONES: [&str; 14] = [
    "UTC",
    BERLIN,
    NEW_YORK,
    LORD_HOWE,
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "America/Havana",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Kathmandu",
    "Europe/Dublin",
    "Pacific/Apia",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn slots_are_those_found_by_hand(
        fields in fields(),
        zone in select(&ZONES[..]),
        around in 200_000_i64..2_500_000_000,
        (before, behind) in (1_i64..100_000, 1_i64..100_000),
        most in 0_usize..50,
    ) {
        let [seconds, minutes, hours, days, weekdays] = fields.each_ref().map(|field| &field.text);
        let cron = match Cron::parse(&format!("{seconds} {minutes} {hours} {days} * {weekdays}"), zone) {
            Ok(cron) => cron,
            Err(refused) => return Err(TestCaseError::fail(refused.to_string())),
        };
        let zone = TimeZone::get(zone).unwrap();
        let change = zone.following(jiff::Timestamp::from_second(around).unwrap()).next();
        let change = change.map_or(around, |change| change.timestamp().as_second());
        let (after, until) = (change - before, change + behind);
        let slots = by_hand(&fields, &zone, after, until);
        prop_assert_eq!(&forward(&cron, after, until), &slots);
        prop_assert_eq!(&cron.last_slots(at(after), at(until), usize::MAX), &slots);
        let last = &slots[slots.len().saturating_sub(most)..];
        prop_assert_eq!(cron.last_slots(at(after), at(until), most), last);
    }
}

/// What expressions are made of, and some of what they are not.
#[rustfmt::skip]
const WORDS: [&str; 34] = [
    "*", "*", "0", "1", "5", "7", "23", "59", "60", "31", "65535", "-", "/", ",", "#", "?", "L", "W", "LW", "+", "@",
    "MON", "sun", "FEB", "é", "ß", "\0", "  ", " ", " ", " ", " ", " ", "@daily",
];

/// Text that looks like an expression from afar.
fn noise() -> impl Strategy<Value = String> {
    prop_oneof![
        vec(select(&WORDS[..]).prop_map(String::from), 0..24).prop_map(|words| words.concat()),
        vec(vec(select(&WORDS[..24]), 1..4).prop_map(|words| words.concat()), 5..7)
            .prop_map(|words| words.join(" ")),
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_is_typed_does_harm(
        expression in noise(),
        zone in prop_oneof![select(&ZONES[..]).prop_map(String::from), any::<String>()],
        moment in prop_oneof![any::<i64>(), 0_i64..4_000_000_000_000_000],
    ) {
        let moment = Timestamp::from_micros(moment);
        if let Ok(cron) = Cron::parse(&expression, &zone)
            && let Some(slot) = cron.next_after(moment)
        {
            prop_assert!(slot > moment);
            prop_assert_eq!(slot.as_micros() % 1_000_000, 0);
            prop_assert_eq!(cron.last_slots(moment, slot, 9), [slot]);
            prop_assert_eq!(cron.next_after(Timestamp::from_micros(slot.as_micros() - 1)), Some(slot));
        }
    }
}
