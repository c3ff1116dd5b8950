//! The comparison is itself tested: it finds one lie among thousands of true answers, and it meets
//! everything.

use super::liar::{LiarLab, Lie};
use super::*;
use windlass_core::State;

/// Runs the sequences of `seeds` against a store that lies.
fn run_against(lie: Lie, seeds: std::ops::Range<u64>) -> Result<Tally, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let sequences = async {
        let case = Case::new(Box::new(LiarLab::new(lie))).await;
        let (pair, mut tally) = (Pair::new(&case), Tally::default());
        for seed in seeds {
            run_sequence(&pair, seed, LENGTH, EVERY, &mut tally).await;
        }
        tally
    };
    runtime.block_on(caught(sequences))
}

#[test]
fn one_lie_is_found() {
    for lie in [
        Lie::LosesSubmit,
        Lie::DropsHistory,
        Lie::Miscounts,
        Lie::AcceptsStaleToken,
        Lie::Misorders,
        Lie::IgnoresTerm,
        Lie::ForgetsDue,
        Lie::SkipsListed,
        Lie::PrunesTooFew,
        Lie::IgnoresPause,
        Lie::RevivesWorker,
        Lie::HidesHolder,
        Lie::LosesNotes,
        Lie::KeepsDetails,
        Lie::FiresTwice,
        Lie::ForgetsSlot,
        Lie::RepairsInVain,
        Lie::PausesNothing,
        Lie::DropsCarried,
    ] {
        let fault = run_against(lie, 0..20).expect_err(&format!("{lie:?} was not noticed"));
        let tells = ["seed ", "operation ", "The last operations:", "WINDLASS_SEED="];
        assert!(tells.iter().all(|part| fault.contains(part)), "{lie:?}: {fault}");
    }
}

#[test]
fn the_truth_passes() {
    run_against(Lie::Nothing, 0..5).unwrap();
}

/// A model that never meets an answer does not compare it. These are all answers there are, but for workflows
/// that are within too many others.
#[test]
fn every_answer_is_met() {
    let met = run_against(Lie::Nothing, 1000..1300).unwrap().met;
    let states = State::ALL.into_iter();
    let refusals = [
        "task_not_found",
        "already_claimed",
        "not_claimed",
        "task_completed",
        "task_failed",
        "task_settled",
        "max_attempts_reached",
        "invalid_task",
        "invalid_worker",
        "wrong_worker",
        "lease_lost",
        "key_conflict",
        "id_conflict",
        "not_final",
        "lane_full",
        "queue_paused",
        "not_due",
        "not_timed",
        "not_retrying",
        "lease_alive",
        "unknown_entity",
        "schedule_not_found",
        "schedule_moved",
        "not_leader",
        "waiting",
        "is_step",
        "not_step",
        "workflow_not_found",
        "workflow_over",
        "workflow_moved",
        "workflow_owned",
        "workflow_id_conflict",
        "workflow_key_conflict",
        "definition_not_found",
        "definition_conflict",
        "cycle",
        "invalid_definition",
    ];
    let others =
        ["ok", "existing", "done before", "claimed from a queue", "told of a loss", "told of a cancel"];
    let more = [
        "another leads",
        "pruned",
        "lost to another holder",
        "refused with its batch",
        "claimed with details",
        "a slot has come",
        "defined",
        "defined before",
        "started",
        "started before",
        "steered",
        "complete",
        "error",
        "blocked_by_failures",
        "evaluating_results",
        "waiting_for_dependencies",
    ];
    let others = others.into_iter().chain(more);
    for word in states.map(State::word).chain(refusals).chain(others) {
        assert!(met.get(word).is_some_and(|times| *times >= 3), "{word:?} is met {:?} times", met.get(word));
    }
}
