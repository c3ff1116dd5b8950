//! Programs that submit, and operators who intervene.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass::{
    Ageing, Backoff, By, Client, Entity, Filter, Jitter, Lane, Missed, Name, NewTask, OnConflict, Overlap,
    Page, RetryPolicy, Start, State, Task, TaskId, Windlass,
};

use super::line::{Line, pass};
use super::process::Process;
use super::random::Random;
use super::work::{Act, KINDS, Script};
use super::world::World;

/// The queues that there are.
pub(crate) const QUEUES: [&str; 2] = ["default", "bulk"];

/// A client of `process`.
pub(crate) fn client(world: &Arc<World>, process: &Arc<Process>) -> Client {
    Windlass::new(Arc::new(Line::new(world, process))).client()
}

fn script(random: &mut Random) -> Script {
    let act = random.weighted(&[
        (40, Act::Succeed),
        (12, Act::Fail(1)),
        (6, Act::Fail(3)),
        (4, Act::FailAlways),
        (4, Act::GiveUp),
        (6, Act::Panic(1)),
        (6, Act::Snooze(2)),
        (3, Act::Cancel),
        (5, Act::Overtime(1)),
        (6, Act::Endless),
        (8, Act::Parent),
    ]);
    let work = match random.weighted(&[(30, 0), (40, 1), (20, 2), (10, 3)]) {
        0 => 0,
        1 => random.between(1, 400),
        2 => random.between(400, 6_000),
        // Past the time after which a silent worker counts as dead.
        _ => random.between(31_000, 45_000),
    };
    Script { act, work, polite: random.chance(60), talks: random.chance(25) }
}

/// A task to submit.
pub(crate) fn task(world: &World, random: &mut Random) -> NewTask {
    let script = script(random);
    let mut task = NewTask::new(world.new_id(), Name::kind(random.pick(&KINDS)).unwrap(), script.to_json());
    task.queue = Name::queue(random.weighted(&[(70, QUEUES[0]), (30, QUEUES[1])])).unwrap();
    task.priority = i32::try_from(random.between(0, 3)).unwrap();
    if random.chance(10) {
        task.ageing = Ageing { per_hour: 60_000, per_retry: 1_000 };
    }
    if random.chance(20) {
        task.key = Some(format!("key {}", random.between(1, 8)));
        task.on_conflict = random.weighted(&[(80, OnConflict::Return), (20, OnConflict::Reject)]);
    }
    task.lane = match random.weighted(&[(55, 0), (25, 1), (10, 2), (10, 3)]) {
        0 => None,
        1 => Some(Lane::of(&entity(random))),
        2 => Some(Lane::new("two at once", 2).unwrap()),
        _ => Some(Lane::new("in order", 1).unwrap().strict()),
    };
    if random.chance(15) {
        task.start = Start::After(random.millis(1, 20_000));
    }
    if matches!(script.act, Act::Overtime(_)) || random.chance(10) {
        task.timeout = Some(random.millis(500, 8_000));
    }
    task.max_attempts = NonZeroU32::new(random.weighted(&[(10, 1), (15, 2), (50, 3), (15, 5), (10, 0)]));
    if script.act == Act::FailAlways || task.timeout.is_some() {
        task.max_attempts = task.max_attempts.or(NonZeroU32::new(3));
    }
    task.retry = RetryPolicy {
        backoff: random.pick(&[Backoff::None, Backoff::Fixed, Backoff::Linear, Backoff::Fibonacci]),
        base: random.millis(10, 2_000),
        cap: Duration::from_secs(5),
        jitter: random.pick(&[Jitter::None, Jitter::Full, Jitter::Percent(20)]),
    };
    task
}

fn entity(random: &mut Random) -> Entity {
    format!("planner:{}", random.between(1, 3)).parse().unwrap()
}

/// Submits until `end`, about `tasks` in all.
pub(crate) async fn submit(
    world: Arc<World>,
    process: Arc<Process>,
    mut random: Random,
    tasks: u64,
    end: Instant,
) {
    let client = client(&world, &process);
    let pause = (end - Instant::now()) / u32::try_from(tasks.max(1)).unwrap();
    let pause = u64::try_from(pause.as_millis()).unwrap();
    let mut waiters = Vec::new();
    while Instant::now() < end {
        let many = random.weighted(&[(70, 1), (20, 2), (10, 5)]);
        let batch: Vec<_> = (0..many).map(|_| task(&world, &mut random)).collect();
        let ids: Vec<_> = batch.iter().map(|task| task.id).collect();
        world.book().tally.add("tasks", many);
        let answer = client.submit_all(batch).await;
        for (index, id) in ids.iter().enumerate() {
            let answer = answer.as_ref().map(|all| all[index]).map_err(Clone::clone);
            world.told.lock().unwrap().insert(*id, answer);
        }
        if let Ok(submitted) = &answer
            && random.chance(10)
        {
            let (client, id) = (client.clone(), submitted[0].id);
            waiters.push(tokio::spawn(async move { client.wait(id).await }));
        }
        pass(random.millis(0, many * 2 * pause)).await;
    }
    world.waiters.lock().unwrap().extend(waiters);
}

/// Intervenes until `end`.
pub(crate) async fn operate(world: Arc<World>, process: Arc<Process>, mut random: Random, end: Instant) {
    let client = client(&world, &process);
    if random.chance(60) {
        schedule(&client, &mut random).await;
    }
    while Instant::now() < end {
        pass(random.seconds(0, 12)).await;
        match random.weighted(&[(80, 0), (12, 1), (8, 2)]) {
            0 => intervene(&world, &client, &mut random).await,
            1 => {
                let paused = random.chance(50);
                world.count(if paused { "queues paused" } else { "queues resumed" });
                drop(client.pause(random.pick(&QUEUES), paused).await);
            }
            _ => match random.weighted(&[(50, 0), (30, 1), (20, 2)]) {
                0 => schedule(&client, &mut random).await,
                1 => drop(client.pause_schedule("tick", random.chance(50)).await),
                _ => drop(client.remove_schedule("tick").await),
            },
        }
    }
}

/// Sets a schedule, or changes it.
async fn schedule(client: &Client, random: &mut Random) {
    let act = random.pick(&[Act::Succeed, Act::Fail(1), Act::Snooze(1)]);
    let work = random.weighted(&[(60, 20), (40, 15_000)]);
    let script = Script { act, work, polite: random.chance(50), talks: false };
    let submit = client.submit_json(KINDS[1], script.to_json().as_str());
    let missed = random.pick(&[Missed::Skip, Missed::One, Missed::All(NonZeroU32::new(3).unwrap())]);
    let overlap = random.pick(&Overlap::ALL);
    let cron = random.pick(&["*/5 * * * * *", "*/10 * * * * *", "*/20 * * * * *"]);
    drop(client.schedule("tick", cron, submit).missed(missed).overlap(overlap).await);
}

/// Does something to one of the tasks.
async fn intervene(world: &World, client: &Client, random: &mut Random) {
    let Ok(listing) = client.list(Filter::default(), Page { limit: 60, ..Page::default() }).await else {
        return;
    };
    if listing.tasks.is_empty() {
        return;
    }
    let Task { id, status, .. } = random.pick(&listing.tasks);
    let by = By { actor: Some("operator".into()), note: None };
    drop(match (random.weighted(&[(40, 0), (30, 1), (10, 2), (20, 3)]), status.state) {
        (0, _) => client.cancel(id, by).await,
        (1, _) => client.retry(id, random.chance(40), by).await,
        (2, _) => client.resolve(id, None, by).await,
        (_, State::Completed | State::Cancelled) if is_told(world, id) => client.delete(id).await,
        _ => client.retry(id, false, by).await,
    });
}

/// Whether who submitted a task knows that it is there. Deleted before that, it would be submitted again.
fn is_told(world: &World, id: TaskId) -> bool {
    world.told.lock().unwrap().get(&id).is_some_and(Result::is_ok)
}
