//! Workers that are stopped for longer than they may be silent, and go on.

use std::time::Duration;

use windlass::{Record, State};

use super::chores::{Chore, Deaf, Done, Endless, Late};
use super::part::{Handlers, Role, Work};
use super::process::Process;
use super::stage::Stage;

/// How long a worker may be silent.
const DEAD_AFTER: Duration = Duration::from_millis(1_500);

fn work(handlers: Handlers, pool: usize) -> Role {
    Role::Work(Work { leads: false, buffer: 0, ..Work::new(handlers, pool, DEAD_AFTER) })
}

fn done(record: &Record) -> Done {
    assert_eq!(record.task.status.state, State::Completed, "{:?}", record.task.status);
    serde_json::from_str(record.result.as_ref().unwrap().as_str()).unwrap()
}

/// One process leads, one is stopped again and again while others do its work.
pub(crate) async fn are_refused(stage: &mut Stage, zombies: u64) {
    let leader = stage.leader(DEAD_AFTER).await;
    let mut zombie = stage.start("zombie", work(Handlers::Zombie, 4));
    zombie.hear("started").await;
    for _ in 0..zombies {
        is_refused(stage, &mut zombie).await;
    }
    zombie.ended().await;
    leader.ended().await;
    let (events, _) = stage.over().await;
    assert!(events.len() > 10, "the log was read");
}

async fn is_refused(stage: &mut Stage, zombie: &mut Process) {
    let running = stage.client.submit(&Endless).max_attempts(None).await.unwrap().id;
    zombie.hear(&format!("running {running}")).await;
    let late = stage.client.submit(&Late).max_attempts(None).await.unwrap().id;
    zombie.hear(&format!("holding {late}")).await;
    stage.stop_between_writes(zombie).await;

    let other = stage.start("other", work(Handlers::Worker, 4));
    let (late_record, running_record) = (stage.finished(late).await, stage.finished(running).await);
    for record in [&late_record, &running_record] {
        assert_eq!(done(record).worker, other.who, "the other has finished it");
    }
    other.ended().await;

    // What it is about to say is refused.
    zombie.open(&late.to_string());
    zombie.signal("CONT");
    assert_eq!(zombie.hear(&format!("refused {late}")).await, "1 lease_lost");
    // It may find out by itself that it was silent for too long, before the store tells it.
    let told = zombie.hear(&format!("stopped {running}")).await;
    assert!(["1 LeaseLost", "1 Fenced"].contains(&&*told), "told {told}");
    assert_eq!(stage.client.get(late).await.unwrap().unwrap(), late_record, "and changes nothing");
    assert_eq!(stage.client.get(running).await.unwrap().unwrap(), running_record, "and changes nothing");

    works(stage, zombie).await;
}

/// The zombie does a task from beginning to end.
async fn works(stage: &Stage, zombie: &Process) {
    let chore = Chore { n: 0, millis: 0, fails: 0, snoozes: 0 };
    let chore = stage.client.submit(&chore).max_attempts(None).await.unwrap().id;
    assert_eq!(done(&stage.finished(chore).await).worker, zombie.who, "it goes on working");
}

/// A worker that was stopped is given again the task that it has lost, while its old handler has not ended
/// yet. Two claims, two handlers: both count, and the end of one is not the end of the other.
pub(crate) async fn meet_themselves(stage: &mut Stage) {
    let leader = stage.leader(DEAD_AFTER).await;
    let mut zombie = stage.start("zombie", work(Handlers::Zombie, 2));
    let id = stage.client.submit(&Deaf).max_attempts(None).await.unwrap().id;
    zombie.hear(&format!("running {id} 1")).await;
    stage.stop_between_writes(&zombie).await;
    stage.until(async |stage| stage.state(id).await == State::Pending).await;
    zombie.signal("CONT");
    zombie.hear(&format!("running {id} 2")).await;
    // The first handler ends and the second goes on. There is room for one more, and for no more than that.
    zombie.open(&format!("{id} 1"));
    zombie.hear(&format!("passed {id} 1")).await;
    works(stage, &zombie).await;
    let more = [(); 2].map(|()| stage.client.submit(&Deaf).max_attempts(None).build().unwrap());
    let [one, two] = more.each_ref().map(|task| task.id);
    stage.client.submit_all(more.to_vec()).await.unwrap();
    zombie.hear(&format!("running {one} 1")).await;
    assert_eq!(stage.state(two).await, State::Pending, "a pool of two that is full takes no more");
    for gate in [format!("{id} 2"), format!("{one} 1"), format!("{two} 1")] {
        zombie.open(&gate);
    }
    for task in [id, one, two] {
        assert_eq!(done(&stage.finished(task).await).worker, zombie.who);
    }
    let said = zombie.ended().await;
    assert!(said.contains(&"most 2".into()), "{said:?}");
    leader.ended().await;
    let (_, records) = stage.over().await;
    assert_eq!(records.len(), 4);
}
