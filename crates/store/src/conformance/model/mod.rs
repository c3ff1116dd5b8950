//! Random operations, done to the store under test and to the memory store, and compared row by row.
//!
//! L1: whatever sequence of submits, turns, heartbeats, chores, crashes and clock jumps is thrown at a store,
//! it answers and stores exactly what the executable specification does. Every answer is compared, with every
//! task it names; from time to time, and at the end, everything that can be read.
//!
//! A sequence follows from its seed alone. A failure names it; `WINDLASS_SEED=n` runs that one again and
//! compares everything after each operation, so that it stops at the first difference. `WINDLASS_COMMANDS=n`
//! says how many operations there are in all, or in the one sequence that was named.

mod invent;
mod invent_schedule;
mod invent_task;
mod invent_workflow;
#[cfg(test)]
mod liar;
mod operation;
mod pair;
pub(in crate::conformance) mod random;
#[cfg(test)]
mod tests;
mod world;

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use windlass_core::Timestamp;

use self::operation::{Answer, Operation};
use self::pair::Pair;
use self::random::Random;
use self::world::World;
use super::events::Ear;
use super::{Case, START, scenarios};

/// Each part is a scenario of its own, so that they run side by side. Part `n` has the seeds that end in `n`.
macro_rules! parts {
    ($($name:ident $part:literal),+ $(,)?) => {
        scenarios![$($name),+];
        $(
            /// L1 (and with it I1 to I13, I15, I18 to I20): no difference from the memory store can be seen.
            async fn $name(case: &Case) {
                run_part(case, $part).await;
            }
        )+
    };
}

parts![
    random_commands_0 0,
    random_commands_1 1,
    random_commands_2 2,
    random_commands_3 3,
    random_commands_4 4,
    random_commands_5 5,
    random_commands_6 6,
    random_commands_7 7,
    random_commands_8 8,
    random_commands_9 9,
];

const PARTS: u64 = 10;

/// Operations of one sequence. Long enough for a task to live, die and be pruned; short enough to be read.
const LENGTH: usize = 260;

/// Operations of all parts together, unless the lab or `WINDLASS_COMMANDS` says otherwise: 40 sequences for
/// each part.
pub(super) const OPERATIONS: usize = 104_000;

/// Operations between two comparisons of everything.
const EVERY: usize = 52;

/// Operations shown when a sequence fails.
const SHOWN: usize = 20;

/// What one run of sequences compared.
#[derive(Default, Debug)]
struct Tally {
    operations: usize,
    commands: usize,
    /// How often each answer was met.
    met: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn add(&mut self, operation: &Operation, answer: &Answer) {
        self.operations += 1;
        self.commands += operation.commands(answer);
        for word in answer.words() {
            *self.met.entry(word).or_default() += 1;
        }
    }
}

async fn run_part(case: &Case, part: u64) {
    let (seed, asked) = (number("WINDLASS_SEED"), number("WINDLASS_COMMANDS"));
    let asked = asked.map(|asked| usize::try_from(asked).unwrap());
    let (pair, mut tally) = (Pair::new(case), Tally::default());
    match seed {
        Some(seed) if seed % PARTS == part => {
            run_sequence(&pair, seed, asked.unwrap_or(LENGTH), 1, &mut tally).await;
        }
        Some(_) => {}
        None => {
            let mut left = asked.unwrap_or(case.operations()).div_ceil(usize::try_from(PARTS).unwrap());
            for seed in (part..).step_by(usize::try_from(PARTS).unwrap()) {
                let length = left.min(LENGTH);
                run_sequence(&pair, seed, length, EVERY, &mut tally).await;
                left -= length;
                if left == 0 {
                    break;
                }
            }
        }
    }
    let Tally { operations, commands, .. } = tally;
    println!("model::random_commands_{part}: {operations} operations ({commands} commands) compared");
}

/// The number in an environment variable, if it is set.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}; expected a number")))
}

/// The operations of a sequence as far as it came, for people.
#[derive(Default)]
struct Trace {
    number: usize,
    last: VecDeque<String>,
}

impl Trace {
    fn add(&mut self, operation: &Operation) {
        let mut line = format!("{:>5}  {operation}", self.number + 1);
        line.truncate(line.floor_char_boundary(1000));
        self.number += 1;
        self.last.push_back(line);
        if self.last.len() > SHOWN {
            self.last.pop_front();
        }
    }
}

/// Runs one sequence and, whatever goes wrong in it, panics with its seed and the last operations.
async fn run_sequence(pair: &Pair<'_>, seed: u64, length: usize, every: usize, tally: &mut Tally) {
    let trace = Mutex::new(Trace::default());
    if let Err(fault) = caught(sequence(pair, seed, length, every, tally, &trace)).await {
        let Trace { number, last } = &*trace.lock().unwrap();
        let last = last.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
        panic!(
            "seed {seed}, operation {number}: {fault}\n\nThe last operations:\n{last}\n\n\
             To see it again, run this test with WINDLASS_SEED={seed}."
        );
    }
}

async fn sequence(
    pair: &Pair<'_>,
    seed: u64,
    length: usize,
    every: usize,
    tally: &mut Tally,
    trace: &Mutex<Trace>,
) {
    let start = start_of(seed);
    pair.set_clock(start);
    let mut world = World::new(seed, start, pair.term().await);
    // In some sequences somebody listens, and knows in the end from events where everything is.
    let mut ear = if seed % 3 == 1 { Some(Ear::new(&*pair.store()).await) } else { None };
    for number in 1..=length {
        let operation = world.invent();
        trace.lock().unwrap().add(&operation);
        let answer = pair.carry_out(&operation).await;
        world.learn(&operation, &answer);
        tally.add(&operation, &answer);
        if operation.is_sweeping(&answer) {
            pair.compare_rows().await;
        }
        if let Some(ear) = &mut ear
            && matches!(operation, Operation::Clock(_))
        {
            ear.ask(&*pair.store()).await;
        }
        if number % every == 0 || number == length {
            // Chance of its own, so that looking more often does not change what happens.
            let mut random = Random::new(seed.rotate_left(32) ^ u64::try_from(number).unwrap());
            pair.compare(&world, &mut random).await;
            if let Some(ear) = &mut ear {
                ear.agrees(&*pair.store()).await;
            }
        }
    }
    pair.check_invariants().await;
    for operation in pair.wiping(start.plus(invent::REACH + Duration::from_secs(1))).await {
        trace.lock().unwrap().add(&operation);
        pair.carry_out(&operation).await;
    }
    let mut random = world.random.clone();
    pair.compare(&world, &mut random).await;
}

/// Where the clock stands when a sequence begins: a place of its own for each seed, with room on both sides,
/// so that a sequence is the same whether others came before it or not.
fn start_of(seed: u64) -> Timestamp {
    // Up to the year 8600; after that the places come again, and a leader's lease may outlive its sequence.
    let place = u32::try_from(1 + seed % 80_000).unwrap();
    START.plus((2 * invent::REACH + Duration::from_secs(48 * 3600)) * place)
}

/// The outcome of `future`, or the message it panicked with.
async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    let mut future = pin!(future);
    let poll = |context: &mut Context<'_>| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.map_or_else(|panic| Poll::Ready(Err(message(&*panic))), |poll| poll.map(Ok))
    };
    poll_fn(poll).await
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()))
        .unwrap_or_else(|| "a panic without a message".into())
}
