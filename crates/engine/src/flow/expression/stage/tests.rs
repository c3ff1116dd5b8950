//! What patterns cost.

use super::*;

/// Numbers that look random, from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn text(&mut self, length: usize) -> String {
        let letters = ["a", "b", "c", "é", "\n"];
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }

    fn pattern(&mut self, depth: usize) -> String {
        match (self.below(8), depth) {
            (0, _) | (_, 0) => ["a", "b", "c", ".", r"\w", "[^a]", "^", "$", "é"][self.below(9)].into(),
            (1, _) => format!("({}|{})", self.pattern(depth - 1), self.pattern(depth - 1)),
            (2, _) => format!("({})*", self.pattern(depth - 1)),
            (3, _) => format!("({}){{{}}}", self.pattern(depth - 1), self.below(9)),
            (4, _) => format!("({})?", self.pattern(depth - 1)),
            _ => format!("{}{}", self.pattern(depth - 1), self.pattern(depth - 1)),
        }
    }
}

fn random() -> Random {
    let seed = std::env::var("WINDLASS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) << 16);
    println!("WINDLASS_SEED={seed}");
    Random(seed)
}

/// What one search costs, with its compilation or without.
fn cost(meter: &Meter, text: &str, pattern: &str) -> usize {
    let before = meter.used.load(Ordering::Relaxed);
    meter.matches(text, pattern).unwrap();
    meter.used.load(Ordering::Relaxed) - before
}

fn new_cost(text: &str, pattern: &str) -> usize {
    cost(&Meter::new(STEP_FUEL), text, pattern)
}

fn many_counts(n: usize) -> String {
    format!("(a|aa|aaa){{{n}}}c")
}

#[test]
fn the_cost_of_a_search_grows_with_the_text_and_with_the_pattern() {
    let mut random = random();
    for _ in 0..20 {
        // Twice the text is still shorter than what the pattern counts to, so all of it is new to the
        // automaton.
        let (n, length) = (200 + random.below(200), 50 + random.below(50));
        let (text, pattern) = ("a".repeat(length), many_counts(n));
        let search = |text: &str, pattern: &str| new_cost(text, pattern) - new_cost("", pattern);
        let one = search(&text, &pattern);
        let states = Pattern::compile(&pattern).unwrap().states();
        assert!(one >= length * states / 2, "{n} {length}: {one} units for {states} states");
        let twice = search(&text.repeat(2), &pattern);
        assert!((one * 9 / 5..one * 11 / 5).contains(&twice), "{n} {length}: {one} {twice}");
        let larger = search(&text, &many_counts(2 * n));
        assert!((one * 9 / 5..one * 11 / 5).contains(&larger), "{n} {length}: {one} {larger}");
    }
}

#[test]
fn a_pattern_costs_what_it_is_large() {
    let small = new_cost("", "a");
    let costs: Vec<usize> = [10, 100, 1_000].map(|n| new_cost("", &many_counts(n))).into();
    assert!(small < costs[0] && costs.is_sorted(), "{small} {costs:?}");
    assert!(costs[2] - costs[1] > 8 * (costs[1] - costs[0]), "{costs:?}");
    let meter = Meter::new(STEP_FUEL);
    let refused = meter.matches("", r"(\pL{50}){50}").unwrap_err().to_string();
    assert!(
        refused.contains("too large") && meter.used.load(Ordering::Relaxed) >= PATTERN_REFUSED,
        "{refused}"
    );
}

/// A list of a thousand addresses is no attack.
#[test]
fn what_is_known_of_a_pattern_is_not_paid_for_again() {
    let meter = Meter::new(STEP_FUEL);
    let pattern = r"^\w+@\w+\.\w+$";
    let first = cost(&meter, "ada@example.org", pattern);
    for n in 0..1_000 {
        cost(&meter, &format!("ada{n}@example.org"), pattern);
    }
    let rest = meter.used.load(Ordering::Relaxed) - first;
    // The end of a text is charged each time.
    assert!(first < 60_000 && rest < 600_000, "{first}, then {rest}");
}

/// The tenth item of a map costs what the first costs: what patterns are kept for others is seen by the clock
/// alone.
#[test]
fn an_evaluation_costs_the_same_whatever_was_evaluated_before() {
    let mut random = random();
    let patterns: Vec<String> = (0..2 * PATTERNS_KEPT).map(|_| random.pattern(4)).collect();
    let meter = Meter::new(usize::MAX);
    let mut told: Vec<Option<(usize, Option<bool>)>> = vec![None; patterns.len()];
    for _ in 0..500 {
        let at = random.below(patterns.len());
        meter.refuel();
        let found = meter.matches("abcabc\naé", &patterns[at]).ok();
        let this = (meter.used.load(Ordering::Relaxed), found);
        assert_eq!(*told[at].get_or_insert(this), this, "{}", patterns[at]);
    }
}

#[test]
fn the_meter_finds_what_the_library_finds() {
    let mut random = random();
    let mut found = [0_u32; 2];
    for _ in 0..3_000 {
        let pattern = random.pattern(5);
        let length = random.below(30);
        let text = random.text(length);
        let Some(Pattern { dfa, mut cache, .. }) = Pattern::compile(&pattern) else { continue };
        let Ok(expected) = dfa.try_search_fwd(&mut cache, &Input::new(&text)) else { continue };
        let meter = Meter::new(STEP_FUEL);
        let actual = meter.matches(&text, &pattern).unwrap();
        assert_eq!(actual, expected.is_some(), "{pattern:?} in {text:?}");
        found[usize::from(actual)] += 1;
    }
    assert!(found.iter().all(|count| *count > 300), "{found:?}");
}

#[test]
fn all_evaluations_of_a_step_have_a_limit_together() {
    let meter = Meter::new(STEP_FUEL);
    let refused = (0..).find(|_| {
        meter.refuel();
        meter.charge(FUEL).is_err()
    });
    assert_eq!(refused, Some(STEP_FUEL / FUEL));
}
