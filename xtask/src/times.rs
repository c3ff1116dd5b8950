//! What test programs print: which tests ended when, how many passed and failed, and from that how long each
//! test took.
//!
//! Rust's test programs do not tell how long a test took. They print a line when a test ends, and start tests
//! in the order of their `--list`: as many as they have threads, and then one whenever one has ended. So test
//! number `i` of a program with `n` threads began when the `i - n`th line came.

use std::time::Duration;

/// What a program has printed so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Printed {
    /// Tests in the order in which they ended, with the time since the start of the program.
    ended: Vec<(String, Duration)>,
    /// What each line with sums says.
    sums: Vec<Sums>,
}

/// How many tests passed and failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

/// A test and how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Took {
    pub(crate) test: String,
    pub(crate) time: Duration,
}

impl Sums {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl Printed {
    /// A line that came so long after the start of the program.
    pub(crate) fn line(&mut self, line: &str, since_start: Duration) {
        if let Some(sums) = sums(line) {
            self.sums.push(sums);
        } else if let Some(name) = ended(line) {
            self.ended.push((name.to_owned(), since_start));
        }
    }

    /// The sums of one test program: those it says last. A test that starts the program again may print those
    /// of that one before.
    pub(crate) fn last_sums(&self) -> Sums {
        self.sums.last().copied().unwrap_or_default()
    }

    /// The sums of all test programs that cargo has run.
    pub(crate) fn all_sums(&self) -> Sums {
        self.sums.iter().fold(Sums::default(), |mut all, one| {
            all.add(*one);
            all
        })
    }

    /// How long each test took; `None` if the lines do not match the list, because something else was printed
    /// in between.
    pub(crate) fn took(&self, listed: &[String], threads: usize) -> Option<Vec<Took>> {
        if self.ended.len() != listed.len() {
            return None;
        }
        let took = |(place, test): (usize, &String)| {
            let end = self.ended.iter().find(|(ended, _)| ended == test)?.1;
            let begin = match place.checked_sub(threads) {
                Some(before) => self.ended[before].1,
                None => Duration::ZERO,
            };
            Some(Took { test: test.clone(), time: end.saturating_sub(begin) })
        };
        listed.iter().enumerate().map(took).collect()
    }
}

/// The tests that a program names with `--list`, in their order.
pub(crate) fn listed(printed: &str) -> Vec<String> {
    let tests = printed.lines().filter_map(|line| line.strip_suffix(": test"));
    tests.map(|test| test.trim().to_owned()).collect()
}

/// A line that is worth to be seen at once: a test that does not come to its end.
pub(crate) fn is_slow(line: &str) -> bool {
    line.starts_with("test ") && line.contains(" has been running for over ")
}

/// The slowest, longest first.
pub(crate) fn slowest(mut all: Vec<Took>, count: usize) -> Vec<Took> {
    all.sort_by_key(|it| std::cmp::Reverse(it.time));
    all.truncate(count);
    all
}

/// The test of a line `test NAME ... ok`.
fn ended(line: &str) -> Option<&str> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let is_outcome = ["ok", "FAILED", "ignored"].iter().any(|it| outcome.starts_with(it));
    let name = name.trim_end();
    is_outcome.then(|| name.strip_suffix(" - should panic").unwrap_or(name))
}

/// The numbers of a line `test result: ok. 36 passed; 0 failed; …`.
fn sums(line: &str) -> Option<Sums> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |what: &str| {
        let part = numbers.split("; ").find_map(|part| part.strip_suffix(what))?;
        part.trim().parse().ok()
    };
    Some(Sums { passed: number("passed")?, failed: number("failed")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    fn printed(lines: &[(&str, u64)]) -> Printed {
        let mut printed = Printed::default();
        for (line, at) in lines {
            printed.line(line, ms(*at));
        }
        printed
    }

    #[test]
    fn lines_are_understood() {
        assert_eq!(ended("test sums::work ... ok"), Some("sums::work"));
        assert_eq!(ended("test sums::work ... FAILED"), Some("sums::work"));
        assert_eq!(ended("test padded      ... ok"), Some("padded"));
        assert_eq!(ended("test it_panics - should panic ... ok"), Some("it_panics"));
        assert_eq!(ended("test src/lib.rs - now (line 3) ... ok"), Some("src/lib.rs - now (line 3)"));
        assert_eq!(ended("testing ... ok"), None);
        assert_eq!(ended("test it has been running for over 60 seconds"), None);
        assert!(is_slow("test it has been running for over 60 seconds"));
        let line = "test result: FAILED. 36 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.08s";
        assert_eq!(sums(line), Some(Sums { passed: 36, failed: 2 }));
        assert_eq!(sums("test result: who knows"), None);
        assert_eq!(
            listed("a: test\n[kind] b: test\nx: benchmark\n\n2 tests, 1 benchmark\n"),
            ["a", "[kind] b"]
        );
    }

    #[test]
    fn sums_of_several_programs_are_added() {
        let line =
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.08s";
        assert_eq!(printed(&[(line, 1), (line, 2)]).all_sums(), Sums { passed: 6, failed: 0 });
    }

    #[test]
    fn a_program_that_a_test_starts_again_does_not_count() {
        let said = printed(&[
            (
                "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.01s",
                1,
            ),
            (
                "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.08s",
                2,
            ),
        ]);
        assert_eq!(said.last_sums(), Sums { passed: 3, failed: 0 });
        assert_eq!(printed(&[]).last_sums(), Sums::default());
    }

    #[test]
    fn a_test_begins_when_a_thread_is_free() {
        // Two threads: a and b begin at once; c when b has ended, d when a has.
        let listed = ["a", "b", "c", "d"].map(str::to_owned);
        let said = printed(&[
            ("test b ... ok", 10),
            ("noise", 11),
            ("test a ... ok", 25),
            ("test c ... FAILED", 30),
            ("test d ... ok", 31),
        ]);
        let took = said.took(&listed, 2).unwrap();
        let times: Vec<_> = took.iter().map(|it| (&*it.test, it.time)).collect();
        assert_eq!(times, [("a", ms(25)), ("b", ms(10)), ("c", ms(20)), ("d", ms(6))]);
        let times: Vec<_> = slowest(took, 2).into_iter().map(|it| it.test).collect();
        assert_eq!(times, ["a", "c"]);
    }

    #[test]
    fn with_one_thread_a_test_begins_when_the_one_before_has_ended() {
        let said = printed(&[("test a ... ok", 10), ("test b ... ok", 25)]);
        let took = said.took(&["a", "b"].map(str::to_owned), 1).unwrap();
        assert_eq!(took.iter().map(|it| it.time).collect::<Vec<_>>(), [ms(10), ms(15)]);
    }

    #[test]
    fn what_does_not_match_the_list_has_no_times() {
        let said = printed(&[("test a ... ok", 10)]);
        assert_eq!(said.took(&["a", "b"].map(str::to_owned), 2), None);
        assert_eq!(said.took(&["b".to_owned()], 2), None);
    }
}
