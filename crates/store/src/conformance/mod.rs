//! The suite that holds every store to one meaning.
//!
//! A store's test file gives [`main`] a way to make a [`Lab`] and is done. The suite runs named scenarios by
//! topic, each citing the numbered lines of the requirements it shows; compares random command sequences with
//! the memory store row by row ([`model`]); runs real races; and checks, from rows alone, what must hold in
//! any store at any time ([`invariants`]) after every one of them. A question about meaning is answered by
//! adding a scenario here, never by a test of one store.
//!
//! It is test code: a broken promise panics.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::missing_panics_doc
)]

mod access;
mod activity;
mod batch;
mod bounds;
mod cancel;
mod case;
pub mod checker;
mod claim;
mod close;
mod counts;
mod definition;
mod delay;
mod describe;
mod entity;
mod events;
mod explain;
mod finish;
mod history;
mod hostile;
pub mod invariants;
mod keys;
mod lane;
mod leader;
mod lease;
mod list;
mod map;
mod model;
mod named;
mod nested;
mod nested_lanes;
mod notes;
mod operator;
mod prune;
mod queue;
mod races;
mod release;
mod reopen;
mod retry;
mod schedule;
mod set_back;
mod slot;
mod steer;
mod submit;
mod trace;
mod turn;
mod watch;
mod words;
mod worker;
mod workflow;

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use libtest_mimic::{Arguments, Trial};

pub use case::{Case, Snapshot};
pub use words::{
    KIND, STATES, ad_hoc, claim_of, completed, definition, definition_of, details, entity, expanded, failed,
    failed_for_good, finish, firing, hourly, id, ids, report, token, workflow_id,
};

use windlass_core::Timestamp;

use crate::{ManualClock, Store};

/// One place for one store, empty at first, that can be opened again and again.
#[async_trait]
pub trait Lab: Send + Sync {
    /// The clock of every store opened here.
    fn clock(&self) -> Arc<ManualClock>;

    /// Opens what is there. While another is open, this is a second process at the same data; after it was
    /// dropped without closing, this is what a new process finds after a crash. A store that lives in its
    /// process only gives the same one each time.
    async fn open(&self) -> Arc<dyn Store>;

    /// How many random operations are compared with the memory store's; fewer where each takes a trip to a
    /// server.
    fn operations(&self) -> usize {
        model::OPERATIONS
    }
}

/// Where a lab's clock starts: 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// Makes a fresh lab for each scenario.
pub type NewLab = fn() -> Box<dyn Lab>;

/// A named promise and the code that checks it.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// `topic::promise`.
    pub name: &'static str,
    /// Panics if the promise is broken.
    pub run: fn(Case) -> Running,
}

/// A scenario in progress; it gives the case back for the invariants.
pub type Running = std::pin::Pin<Box<dyn Future<Output = Case> + Send>>;

/// Lists functions of the form `async fn promise(case: &Case)` as scenarios of the topic that the module is
/// named after. A function that is not listed is dead code, which the compiler reports.
macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {
        /// The scenarios of this topic.
        pub(crate) const SCENARIOS: &[$crate::conformance::Scenario] = &[$(
            $crate::conformance::Scenario {
                name: concat!(module_path!(), "::", stringify!($name)),
                run: |case| Box::pin(async move {
                    $name(&case).await;
                    case
                }),
            }
        ),+];
    };
}
pub(crate) use scenarios;

/// All scenarios, by topic.
fn all() -> Vec<Scenario> {
    let topics: &[&[Scenario]] = &[
        submit::SCENARIOS,
        batch::SCENARIOS,
        keys::SCENARIOS,
        claim::SCENARIOS,
        named::SCENARIOS,
        finish::SCENARIOS,
        retry::SCENARIOS,
        release::SCENARIOS,
        notes::SCENARIOS,
        delay::SCENARIOS,
        set_back::SCENARIOS,
        schedule::SCENARIOS,
        worker::SCENARIOS,
        definition::SCENARIOS,
        workflow::SCENARIOS,
        map::SCENARIOS,
        nested::SCENARIOS,
        nested_lanes::SCENARIOS,
        activity::SCENARIOS,
        steer::SCENARIOS,
        lease::SCENARIOS,
        lane::SCENARIOS,
        slot::SCENARIOS,
        leader::SCENARIOS,
        cancel::SCENARIOS,
        operator::SCENARIOS,
        queue::SCENARIOS,
        list::SCENARIOS,
        history::SCENARIOS,
        counts::SCENARIOS,
        prune::SCENARIOS,
        explain::SCENARIOS,
        entity::SCENARIOS,
        trace::SCENARIOS,
        describe::SCENARIOS,
        events::SCENARIOS,
        access::SCENARIOS,
        close::SCENARIOS,
        turn::SCENARIOS,
        reopen::SCENARIOS,
        watch::SCENARIOS,
        hostile::SCENARIOS,
        bounds::SCENARIOS,
        model::SCENARIOS,
        races::SCENARIOS,
    ];
    topics.concat()
}

/// Runs the suite as a test program: the whole `main` of a store's test file.
#[must_use]
pub fn main(new_lab: NewLab) -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = all().into_iter().map(|scenario| {
        let name = scenario.name.rsplit("::").take(2).collect::<Vec<_>>();
        let name = name.into_iter().rev().collect::<Vec<_>>().join("::");
        Trial::test(name, move || {
            run(scenario, new_lab());
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Runs one scenario, then checks the invariants.
fn run(scenario: Scenario, lab: Box<dyn Lab>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async move {
        let case = (scenario.run)(Case::new(lab).await).await;
        if !case.is_gone().await {
            invariants::check(&*case.store(), case.clock.as_ref()).await;
            invariants::check_order(&*case.store()).await;
        }
    });
}
