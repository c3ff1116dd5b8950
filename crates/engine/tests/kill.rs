//! Real processes on one SQLite file, which are killed (`kill -9`), stopped (`SIGSTOP`) and continued while
//! they work. Whatever happens to them, nothing is lost, nothing is finished twice, no two handlers of an
//! entity run at once, attempts are counted, and a worker that was thought to be dead changes nothing.
//!
//! A process is this program again, told by its environment which part to play. Each logs what it asks of the
//! store and what it is answered; at the end the checker compares the logs with the store. `WINDLASS_KILLS`,
//! `WINDLASS_ZOMBIES` and `WINDLASS_SEED` make runs longer or repeat their plan: see `cargo xtask faults`.
#![cfg(all(unix, feature = "sqlite"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]
#![allow(dead_code)] // what is in `kill/` serves `postgres_faults.rs`, too

mod kill {
    pub(crate) mod account;
    pub(crate) mod chores;
    pub(crate) mod flows;
    pub(crate) mod gates;
    pub(crate) mod leader;
    pub(crate) mod links;
    pub(crate) mod load;
    pub(crate) mod logged;
    pub(crate) mod neighbours;
    pub(crate) mod part;
    pub(crate) mod plan;
    pub(crate) mod process;
    pub(crate) mod random;
    pub(crate) mod shutdown;
    pub(crate) mod stage;
    pub(crate) mod zombies;
}

use kill::load::Load;
use kill::part::play;
use kill::stage::{Stage, number, seed};
use kill::{flows, leader, load, neighbours, shutdown, zombies};

/// Kills of one run. A longer test is more runs, each with its own store.
const KILLS: u64 = 50;

/// L4. I1 to I9, I13, I17 with kills of workers and submitters: 10,000 tasks for 50 kills.
#[test]
fn killed_workers_lose_nothing() {
    play(|| async {
        let (kills, seed) = (number("WINDLASS_KILLS", KILLS), seed());
        for (run, first) in (0..).zip((0..kills).step_by(50)) {
            let kills = (kills - first).min(KILLS);
            let load = Load { tasks: 200 * kills, workers: 2, kills, stops: 0, seed: seed.wrapping_add(run) };
            let mut stage = Stage::on_sqlite("killed_workers_lose_nothing", false).await;
            let sums = load::run(&mut stage, load).await;
            assert!(sums.expired > 0, "kills cost attempts: {sums:?}");
            assert!(kills < KILLS || sums.dead_by_crash > 0, "some had no attempt left: {sums:?}");
        }
    });
}

/// L4 on the disk, with every commit written through.
#[test]
fn killed_workers_lose_nothing_with_full_durability() {
    play(|| async {
        let mut stage = Stage::on_sqlite("killed_workers_lose_nothing_with_full_durability", true).await;
        let sums =
            load::run(&mut stage, Load { tasks: 800, workers: 2, kills: 5, stops: 0, seed: seed() }).await;
        assert!(sums.expired > 0, "kills cost attempts: {sums:?}");
    });
}

/// L4. I10 to I12: a workflow of a thousand tasks, whose workers are killed 50 times, becomes what its plan
/// says.
#[test]
fn a_workflow_survives_kills() {
    play(|| async {
        let (kills, seed) = (number("WINDLASS_KILLS", KILLS), seed());
        for (run, first) in (0..).zip((0..kills).step_by(50)) {
            let mut stage = Stage::on_sqlite("a_workflow_survives_kills", false).await;
            flows::survive(&mut stage, (kills - first).min(KILLS), 3, seed.wrapping_add(run)).await;
        }
    });
}

/// L6. I5: what a worker reports after others have taken its task is refused. It is told, and goes on
/// working.
#[test]
fn zombies_are_refused() {
    play(|| async {
        let mut stage = Stage::on_sqlite("zombies_are_refused", false).await;
        zombies::are_refused(&mut stage, number("WINDLASS_ZOMBIES", 10)).await;
    });
}

/// L6 at random moments under load, also in the middle of a write, when nobody else can.
#[test]
fn zombies_under_load_change_nothing() {
    play(|| async {
        let (stops, seed) = (number("WINDLASS_ZOMBIES", 10).div_ceil(4), seed());
        for (run, first) in (0..).zip((0..stops).step_by(10)) {
            let stops = (stops - first).min(10);
            let load = Load {
                tasks: 1_000 + 500 * stops,
                workers: 2,
                kills: 0,
                stops,
                seed: seed.wrapping_add(run),
            };
            let mut stage = Stage::on_sqlite("zombies_under_load_change_nothing", false).await;
            load::run(&mut stage, load).await;
        }
    });
}

/// A worker that has lost a task may be given it again before its old handler has ended.
#[test]
fn a_zombie_may_meet_itself() {
    play(|| async {
        let mut stage = Stage::on_sqlite("a_zombie_may_meet_itself", false).await;
        zombies::meet_themselves(&mut stage).await;
    });
}

/// I14, I15, I17: another leads when the leader's term is over, and catches up.
#[test]
fn a_killed_leader_is_followed() {
    play(|| async {
        let mut stage = Stage::on_sqlite("a_killed_leader_is_followed", false).await;
        leader::is_followed(&mut stage, seed()).await;
    });
}

/// I3, I5, I17: a kill in the middle of a graceful shutdown costs no more than any other.
#[test]
fn a_shutdown_is_killed_at_every_point() {
    play(|| async {
        let mut stage = Stage::on_sqlite("a_shutdown_is_killed_at_every_point", false).await;
        shutdown::is_killed_everywhere(&mut stage, seed()).await;
    });
}

/// I4, I7, I13: two processes with 24 handlers each share the work, and nothing expires.
#[test]
fn two_processes_with_24_handlers_each() {
    play(|| async {
        let mut stage = Stage::on_sqlite("two_processes_with_24_handlers_each", false).await;
        neighbours::share(&mut stage, seed(), 2_000).await;
    });
}

/// A worker that is set to send a heartbeat every 10 s does not send ten in a second because another process
/// works too.
#[test]
fn neighbours_do_not_make_hearts_race() {
    play(|| async {
        let mut stage = Stage::on_sqlite("neighbours_do_not_make_hearts_race", false).await;
        neighbours::rest(&mut stage).await;
    });
}
