//! Which test programs may run side by side, and in which order they start. Nothing here starts a program.
//!
//! Most of the long programs wait: for a lease to end, for a server to start, for a process to die. Several
//! of them side by side take little longer than the longest of them. A program that measures time, or that
//! uses all cores, runs alone.

/// Programs that run with nothing beside them, each with the reason.
pub(crate) const ALONE: &[(&str, &str)] = &[
    ("windlass/cron", "the next time of a hostile expression must be found within 2 s of real time"),
    ("windlass/threads", "it watches how long a blocked thread keeps others from running"),
];

/// The programs that take longest, in this order: they start first, so that none of them is left for the end.
pub(crate) const LONGEST: &[&str] = &[
    "windlass-server/clients",
    "windlass-store/postgres",
    "windlass/postgres_faults",
    "windlass-server/postgres",
    "windlass/simulation",
    "windlass-server/http",
    "windlass-server/served",
    "windlass-store/remote",
    "windlass/functions",
    "windlass-store/sqlite",
    "windlass/kill",
    "windlass-server/remote",
    "windlass-store/memory",
    "windlass-store/windlass_store",
    "windlass-server/work",
    "windlass-store/postgres_tasker_changes",
    "windlass-store/postgres_tasker",
    "windlass-store/sqlite_crash",
    "windlass-store/postgres_answers",
];

/// The order of start: those that run alone, then the longest, then all others.
pub(crate) fn order(names: &[&str]) -> Vec<usize> {
    let rank = |name: &str| {
        let alone = ALONE.iter().position(|(alone, _)| *alone == name);
        let longest = LONGEST.iter().position(|longest| *longest == name);
        match (alone, longest) {
            (Some(place), _) => (0, place),
            (None, Some(place)) => (1, place),
            (None, None) => (2, 0),
        }
    };
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|&index| rank(names[index]));
    order
}

/// Whether the program may start beside those that run.
pub(crate) fn may_start(name: &str, running: &[&str], side_by_side: usize) -> bool {
    running.is_empty()
        || (running.len() < side_by_side && !is_alone(name) && !running.iter().any(|it| is_alone(it)))
}

fn is_alone(name: &str) -> bool {
    ALONE.iter().any(|(alone, _)| *alone == name)
}

/// The names in the lists above that no program has.
pub(crate) fn unknown(names: &[&str]) -> Vec<&'static str> {
    let listed = ALONE.iter().map(|(name, _)| *name).chain(LONGEST.iter().copied());
    listed.filter(|listed| !names.contains(listed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_alone_come_first_then_the_longest() {
        let names = ["x/quick", LONGEST[1], ALONE[0].0, LONGEST[0], "x/also quick"];
        assert_eq!(order(&names), [2, 3, 1, 0, 4]);
    }

    #[test]
    fn no_more_run_side_by_side_than_may() {
        assert!(may_start("x/a", &[], 1));
        assert!(!may_start("x/a", &["x/b"], 1));
        assert!(may_start("x/a", &["x/b"], 2));
        assert!(!may_start("x/a", &["x/b", "x/c"], 2));
    }

    #[test]
    fn a_program_that_runs_alone_has_nothing_beside_it() {
        let (alone, _) = ALONE[0];
        assert!(may_start(alone, &[], 3));
        assert!(!may_start(alone, &["x/b"], 3));
        assert!(!may_start("x/b", &[alone], 3));
    }

    #[test]
    fn a_program_is_listed_once_and_with_a_reason() {
        let names: Vec<&str> = ALONE.iter().map(|(name, _)| *name).chain(LONGEST.iter().copied()).collect();
        for (place, name) in names.iter().enumerate() {
            assert!(name.contains('/') && !names[..place].contains(name), "{name}");
        }
        assert!(ALONE.iter().all(|(_, reason)| reason.contains(' ')));
        assert!(unknown(&names).is_empty());
        assert_eq!(unknown(&names[1..]), [names[0]]);
    }
}
