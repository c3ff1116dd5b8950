//! Kinds as labels of metrics: a bounded number of words, however many kinds there are.

use std::collections::HashSet;
use std::sync::{OnceLock, PoisonError, RwLock};

use windlass_core::Name;

/// Kinds that have numbers of their own; of the rest there is one sum. Each is a dozen series or more, which
/// the process and whoever collects them keep for ever, and whoever may submit may invent kinds. Programs
/// have tens.
const MOST: usize = 200;

/// What kinds beyond those are called.
const OTHER: &str = "other";

/// Kinds that have numbers of their own: those that came first.
#[derive(Debug, Default)]
struct Kinds(RwLock<HashSet<Name>>);

impl Kinds {
    fn label(&self, kind: &Name) -> Name {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if known.contains(kind) {
            return kind.clone();
        }
        // The common case once there are too many: nobody waits for a writer.
        let is_full = known.len() >= MOST;
        drop(known);
        if !is_full {
            let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if known.len() < MOST || known.contains(kind) {
                known.insert(kind.clone());
                return kind.clone();
            }
        }
        Name::stored(OTHER)
    }
}

/// What a kind is called in metrics. One memory for the process, as there is one recorder.
pub(crate) fn label(kind: &Name) -> Name {
    static KINDS: OnceLock<Kinds> = OnceLock::new();
    KINDS.get_or_init(Kinds::default).label(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_kinds_are_told_apart_and_the_rest_is_one() {
        let kinds = Kinds::default();
        let kind = |n: usize| Name::stored(&format!("kind-{n}"));
        for _ in 0..2 {
            for n in 0..1_000 {
                let expected = if n < MOST { kind(n) } else { Name::stored(OTHER) };
                assert_eq!(kinds.label(&kind(n)), expected);
            }
        }
    }
}
