//! A PostgreSQL server that is killed, connections that end, answers that are lost, and processes that are
//! killed or stopped, all under a load of tasks and small workflows. Whatever happens, nothing is lost,
//! nothing is finished twice, no two handlers of an entity run at once, attempts are counted, and when the
//! faults are over everything drains.
//!
//! Processes, tasks and accounts are those of `kill.rs`. `WINDLASS_KILLS`, `WINDLASS_ZOMBIES`,
//! `WINDLASS_RESTARTS`, `WINDLASS_ANSWERS` and `WINDLASS_SEED` make runs longer or repeat their plan: see
//! `cargo xtask faults`.
#![cfg(all(unix, feature = "postgres"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]
#![allow(dead_code)] // what is in `kill/` serves `kill.rs`, too

#[path = "kill"]
mod kill {
    pub(crate) mod account;
    pub(crate) mod chores;
    pub(crate) mod flows;
    pub(crate) mod gates;
    pub(crate) mod links;
    pub(crate) mod load;
    pub(crate) mod logged;
    pub(crate) mod part;
    pub(crate) mod plan;
    pub(crate) mod process;
    pub(crate) mod random;
    pub(crate) mod stage;
    pub(crate) mod zombies;
}

mod postgres_faults {
    pub(crate) mod storm;
}

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kill::flows;
use kill::load::{self, Load};
use kill::part::play;
use kill::process::PATIENCE;
use kill::stage::{Stage, number, seed};
use kill::zombies;
use postgres_faults::storm::{self, Storm};
use tokio::task::block_in_place;
use tokio::time::{interval, timeout};
use windlass_testbed::postgres::{Mode, Server};
use windlass_testbed::proxy::Proxy;

/// Most faults of one run. A longer test is more runs, each with its own store.
const RUN: u64 = 100;

/// A server whose processes may be killed, but not the machine under it: nothing is gained by waiting for the
/// disk.
fn server() -> Server {
    Server::builder().setting("fsync", "off").start().unwrap()
}

/// The server of the tests that do nothing to it.
fn unharmed() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(server)
}

/// An empty store on `server`.
async fn stage(test: &'static str, server: &Server) -> Stage {
    static STAGES: AtomicU64 = AtomicU64::new(0);
    let schema = STAGES.fetch_add(1, Ordering::SeqCst);
    Stage::on_postgres(test, format!("{}?schema=stage_{schema}", server.url())).await
}

/// `faults` in runs of at most [`RUN`], each with a seed of its own.
fn runs(faults: u64) -> impl Iterator<Item = (u64, u64)> {
    let seed = seed();
    (0..)
        .zip((0..faults).step_by(100))
        .map(move |(run, first)| ((faults - first).min(RUN), seed.wrapping_add(run)))
}

/// L5. I1 to I13, I17: after a crash the server recovers what it had acknowledged, and everybody goes on by
/// themselves.
#[test]
fn a_killed_server_loses_nothing() {
    play(|| async {
        for (faults, seed) in runs(number("WINDLASS_RESTARTS", 10)) {
            let server = Server::start().unwrap();
            let stage = stage("a_killed_server_loses_nothing", &server).await;
            let storm = Storm { tasks: 80 * faults, faults, seed };
            let restart = async || {
                block_in_place(|| server.stop(Mode::Immediate).and_then(|()| server.start_again())).unwrap();
            };
            let seen = storm::run(&stage, &stage.address, storm, restart).await;
            assert!(seen.unavailable > 0, "somebody has noticed: {seen:?}");
        }
    });
}

/// L5. I1 to I13, I17: all connections end at once, some of them in the middle of a transaction.
#[test]
fn terminated_backends_lose_nothing() {
    play(|| async {
        for (faults, seed) in runs(2 * number("WINDLASS_RESTARTS", 10)) {
            let server = server();
            let stage = stage("terminated_backends_lose_nothing", &server).await;
            let storm = Storm { tasks: 40 * faults, faults, seed };
            let mut ended = 0;
            // Two may come at the same moment: the second finds nobody.
            let terminate = async || ended += block_in_place(|| server.terminate_backends()).unwrap();
            let seen = storm::run(&stage, &stage.address, storm, terminate).await;
            assert!(u64::try_from(ended).unwrap() >= faults, "there were connections");
            assert!(seen.unavailable > 0, "somebody has noticed: {seen:?}");
        }
    });
}

/// L7. I1 to I13, I17: the answer to a COMMIT is lost, again and again, and so are all connections now and
/// then.
#[test]
fn lost_answers_lose_nothing() {
    play(|| async {
        for (answers, seed) in runs(number("WINDLASS_ANSWERS", 100)) {
            let server = server();
            let stage = stage("lost_answers_lose_nothing", &server).await;
            let proxy = Proxy::start(server.addr()).unwrap();
            let there = stage.address.replace(&server.addr().to_string(), &proxy.addr().to_string());
            assert_ne!(there, stage.address, "it leads through the proxy");
            let (mut asked, mut count) = (0, 0);
            let storm = Storm { tasks: 16 * answers, faults: answers + answers / 4, seed };
            let lose = async || {
                count += 1;
                if count % 5 == 0 {
                    proxy.cut();
                    return;
                }
                asked += 1;
                proxy.drop_answer_after_commit(1);
                // There is no lack of commits, but nobody says when one is lost.
                let mut look = interval(Duration::from_millis(1));
                let lost = async {
                    while proxy.answers_dropped() < asked {
                        look.tick().await;
                    }
                };
                timeout(PATIENCE, lost).await.expect("somebody commits");
            };
            let seen = storm::run(&stage, &there, storm, lose).await;
            assert_eq!(u64::from(proxy.answers_dropped()), answers, "so many answers were lost");
            for verb in ["submit", "turn", "heartbeat"] {
                assert!(
                    answers < 50 || seen.unknown.contains_key(verb),
                    "no answer to {verb} was lost: {seen:?}"
                );
            }
        }
    });
}

/// L4. I1 to I9, I13, I17 with kills of workers and submitters: three worker processes on one database.
#[test]
fn killed_workers_lose_nothing() {
    play(|| async {
        for (kills, seed) in runs(number("WINDLASS_KILLS", 50)) {
            let mut stage = stage("killed_workers_lose_nothing", unharmed()).await;
            let load = Load { tasks: 40 * kills, workers: 3, kills, stops: 0, seed };
            let sums = load::run(&mut stage, load).await;
            assert!(sums.expired > 0, "kills cost attempts: {sums:?}");
        }
    });
}

/// L4. I10 to I12: a workflow of a thousand tasks, whose workers are killed 50 times, becomes what its plan
/// says.
#[test]
fn a_workflow_survives_kills() {
    play(|| async {
        let kills = number("WINDLASS_KILLS", 50);
        // Half as many as others have in a run: there are no more tasks in it.
        for (kills, seed) in runs(2 * kills).map(|(kills, seed)| (kills / 2, seed)) {
            let mut stage = stage("a_workflow_survives_kills", unharmed()).await;
            flows::survive(&mut stage, kills, 3, seed).await;
        }
    });
}

/// L6. I5: what a worker reports after others have taken its task is refused. It is told, and goes on
/// working.
#[test]
fn zombies_are_refused() {
    play(|| async {
        let mut stage = stage("zombies_are_refused", unharmed()).await;
        zombies::are_refused(&mut stage, number("WINDLASS_ZOMBIES", 10)).await;
    });
}
/// L6 at random moments under load, also in the middle of a transaction.
#[test]
fn zombies_under_load_change_nothing() {
    play(|| async {
        for (stops, seed) in runs(number("WINDLASS_ZOMBIES", 10).div_ceil(4)) {
            let mut stage = stage("zombies_under_load_change_nothing", unharmed()).await;
            let load = Load { tasks: 400 + 200 * stops, workers: 3, kills: 0, stops, seed };
            load::run(&mut stage, load).await;
        }
    });
}
