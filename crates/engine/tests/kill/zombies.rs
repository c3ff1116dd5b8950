//! Workers that are stopped for longer than they may be silent, and go on.

use std::time::Duration;

use windlass::{Record, State};

use super::chores::{Chore, Deaf, Done, Endless, Late};
use super::part::{Handlers, Role, Work};
use super::process::Process;
use super::stage::Stage;

/// How long a worker may be silent.
const DEAD_AFTER: Duration = Duration::from_secs(1);

fn work(handlers: Handlers, pool: usize) -> Role {
    Role::Work(Work { handlers, pool, dead_after: DEAD_AFTER, leads: false, aloud: false, freeze_at: None })
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
    let running = stage.client.submit(&Endless).max_attempts(0).await.unwrap().id;
    zombie.hear(&format!("running {running}")).await;
    let late = stage.client.submit(&Late).max_attempts(0).await.unwrap().id;
    zombie.hear(&format!("holding {late}")).await;
    stage.stop_between_writes(zombie).await;

    let other = stage.start("other", work(Handlers::Worker, 4));
    let (late_record, running_record) =
        (stage.client.wait(late).await.unwrap(), stage.client.wait(running).await.unwrap());
    for record in [&late_record, &running_record] {
        assert_eq!(done(record).worker, other.who, "the other has finished it");
    }
    other.ended().await;

    // What it is about to say is refused.
    zombie.open(&late.to_string());
    zombie.signal("CONT");
    assert_eq!(zombie.hear(&format!("refused {late}")).await, "1 lease_lost");
    assert_eq!(zombie.hear(&format!("stopped {running}")).await, "1 LeaseLost");
    assert_eq!(stage.client.get(late).await.unwrap().unwrap(), *late_record, "and changes nothing");
    assert_eq!(stage.client.get(running).await.unwrap().unwrap(), *running_record, "and changes nothing");

    // It goes on working.
    let next = Chore { n: 0, millis: 0, fails: 0, snoozes: 0 };
    let next = stage.client.submit(&next).max_attempts(0).await.unwrap().id;
    assert_eq!(done(&*stage.client.wait(next).await.unwrap()).worker, zombie.who, "it goes on working");
}

/// A worker that was stopped is given again the task that it has lost, while its old handler has not ended yet. Two claims, two handlers:
/// both count.
pub(crate) async fn meet_themselves(stage: &mut Stage) {
    const POOL: usize = 2;
    let leader = stage.leader(DEAD_AFTER).await;
    let mut zombie = stage.start("zombie", work(Handlers::Zombie, POOL));
    let id = stage.client.submit(&Deaf).max_attempts(0).await.unwrap().id;
    zombie.hear(&format!("running {id} 1")).await;
    stage.stop_between_writes(&zombie).await;
    let expired = async |stage: &Stage| {
        stage.client.get(id).await.unwrap().unwrap().task.status.state == State::Pending
    };
    stage.until(expired).await;
    zombie.signal("CONT");
    zombie.hear(&format!("running {id} 2")).await;
    // The first handler ends, the second goes on, and there is room for one more.
    zombie.open(&format!("{id} 1"));
    let more = [(); 2].map(|()| stage.client.submit(&Deaf).max_attempts(0).build().unwrap());
    let [one, two] = more.each_ref().map(|task| task.id);
    stage.client.submit_all(more.to_vec()).await.unwrap();
    zombie.hear(&format!("running {one} 1")).await;
    zombie.open(&format!("{id} 2"));
    zombie.open(&format!("{one} 1"));
    zombie.open(&format!("{two} 1"));
    for task in [id, one, two] {
        assert_eq!(done(&*stage.client.wait(task).await.unwrap()).worker, zombie.who);
    }
    let said = zombie.ended().await;
    let most = said.iter().find_map(|line| line.strip_prefix("most ")).unwrap();
    assert_eq!(most.parse::<usize>().unwrap(), POOL, "no more handlers at once than its pool has");
    leader.ended().await;
    let (_, records) = stage.over().await;
    assert_eq!(records.len(), 3);
}
