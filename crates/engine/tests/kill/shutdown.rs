//! Kills in the middle of a graceful shutdown: wherever the store is asked for something.

use std::collections::BTreeSet;
use std::time::Duration;

use super::account;
use super::chores::{self, Deaf};
use super::part::{Handlers, Role, Work};
use super::stage::Stage;

/// How long a worker may be silent.
const DEAD_AFTER: Duration = Duration::from_secs(1);

/// What a worker that shuts down does with the store, in that order.
const POINTS: [&str; 6] =
    ["before turn", "after turn", "before resign", "after resign", "before deregister", "after deregister"];

/// Chores of one shutdown.
const CHORES: u64 = 100;

fn work(freeze_at: Option<&str>) -> Role {
    let freeze_at = freeze_at.map(Into::into);
    Role::Work(Work { freeze_at, ..Work::new(Handlers::Worker, 4, DEAD_AFTER) })
}

/// Kills a leading worker at each point of its shutdown. The next one finishes what it held.
pub(crate) async fn is_killed_everywhere(stage: &mut Stage, seed: u64) {
    let (mut killed, mut tasks) = (BTreeSet::new(), 0);
    for (point, round) in POINTS.into_iter().zip(0..) {
        let mut victim = stage.start("victim", work(Some(point)));
        stage.until(async |stage| stage.leads(&victim.who).await).await;
        // One handler runs until it may end, so that there is something to wait for.
        let deaf = stage.client.submit(&Deaf).max_attempts(None).await.unwrap().id;
        victim.hear(&format!("running {deaf} 1")).await;
        let chores = round * CHORES..(round + 1) * CHORES;
        let batch = chores.map(|n| chores::planned(&stage.client, seed, n)).collect();
        stage.client.submit_all(batch).await.unwrap();
        tasks += CHORES + 1;
        victim.tell_to_stop();
        victim.hear("stopping").await;
        victim.open(&format!("{deaf} 1"));
        victim.hear(&format!("frozen {point}")).await;
        victim.kill();
        killed.insert(victim.who.clone());

        let mut heir = stage.start("heir", work(None));
        heir.open(&format!("{deaf} 2"));
        stage.until_final(tasks).await;
        heir.ended().await;
        let lease = stage.client.get(deaf).await.unwrap().unwrap().task.status.lease;
        match point {
            "before turn" => assert_eq!(lease, 2, "it was killed before it could report"),
            // What it reported may have been a chore.
            "after turn" => assert!([1, 2].contains(&lease)),
            _ => assert_eq!(lease, 1, "{point}: it had reported, so that nobody did it again"),
        }
    }
    let (events, records) = stage.over().await;
    let sums = account::of(&events, &records, CHORES * (tasks / (CHORES + 1)));
    account::check_attempts(&events, &records, &killed, false);
    println!("killed during {} shutdowns: {sums:?}", killed.len());
}
