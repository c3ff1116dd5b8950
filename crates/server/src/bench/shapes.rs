//! Workflows of a shape, run from their start to their end by a worker whose handlers do nothing.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use windlass::{Definition, TaskError, WorkflowState, limits};

use super::ground::{Ground, Plot};
use super::{KIND, durability_of};

/// Steps beside one another in a layer.
const LAYER: usize = 100;

/// How the steps of a workflow come after one another, and how many there are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Shape {
    /// One after the other.
    Chain(usize),
    /// One, then so many beside one another, then one.
    Fan(usize),
    /// The same, with so many items of one step.
    Map(usize),
    /// Layers of a hundred, each of which needs two of the layer before.
    Layers(usize),
}

impl Shape {
    fn number(self) -> usize {
        let (Self::Chain(n) | Self::Fan(n) | Self::Map(n) | Self::Layers(n)) = self;
        n
    }

    /// Tasks that it is in all.
    pub(crate) fn tasks(self) -> usize {
        match self {
            Self::Chain(n) | Self::Layers(n) => n,
            Self::Fan(n) => n + 2,
            Self::Map(n) => n + 3,
        }
    }

    fn definition(self) -> Result<Definition> {
        let above = |at: usize| {
            let (row, column) = (at / LAYER, at % LAYER);
            [column, column + 1].map(|column| (row - 1) * LAYER + column % LAYER).to_vec()
        };
        let step = |at: usize, needs: Vec<usize>| {
            let needs: Vec<String> = needs.into_iter().map(|at| format!("s{at}")).collect();
            (format!("s{at}"), json!({ "task": KIND, "needs": needs, "input": {} }))
        };
        let steps: Vec<(String, Value)> = match self {
            Self::Chain(n) => (0..n).map(|at| step(at, at.checked_sub(1).into_iter().collect())).collect(),
            Self::Fan(n) => {
                let middle = (1..=n).map(|at| step(at, vec![0]));
                let last = step(n + 1, (1..=n).collect());
                std::iter::once(step(0, Vec::new())).chain(middle).chain([last]).collect()
            }
            Self::Map(_) => {
                let (name, mut items) = step(1, vec![0]);
                items["map"] = json!({ "over": "${input}" });
                vec![step(0, Vec::new()), (name, items), step(2, vec![1])]
            }
            Self::Layers(n) => {
                (0..n).map(|at| step(at, if at < LAYER { Vec::new() } else { above(at) })).collect()
            }
        };
        let steps: serde_json::Map<String, Value> = steps.into_iter().collect();
        Ok(serde_json::from_value(json!({ "name": "bench", "steps": steps }))?)
    }

    fn input(self) -> Value {
        match self {
            Self::Map(n) => (0..n).collect(),
            _ => json!({}),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Self::Chain(_) => "chain",
            Self::Fan(_) => "fan",
            Self::Map(_) => "map",
            Self::Layers(_) => "layers",
        };
        write!(f, "{word}:{}", self.number())
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "chain:N, fan:N, map:N or layers:N, such as fan:10000".to_owned();
        let (word, number) = text.split_once(':').ok_or_else(expected)?;
        let number: usize = number.parse().map_err(|_| expected())?;
        let shape = match word {
            "chain" => Self::Chain(number),
            "fan" => Self::Fan(number),
            "map" => Self::Map(number),
            "layers" => Self::Layers(number),
            _ => return Err(expected()),
        };
        let least = if matches!(shape, Self::Layers(_)) { LAYER } else { 1 };
        let steps = if matches!(shape, Self::Map(_)) { number } else { shape.tasks() };
        if number < least || steps > limits::STEPS {
            return Err(format!("{word} of {least} at least, and {} steps at most", limits::STEPS));
        }
        Ok(shape)
    }
}

/// What one workflow took.
pub(super) struct Taken {
    pub(super) shape: Shape,
    pub(super) durability: String,
    /// Until it was started.
    pub(super) start: Duration,
    /// From then on, until it was complete.
    pub(super) run: Duration,
    /// Most memory that the process had meanwhile, where the system tells.
    pub(super) peak_bytes: Option<u64>,
}

impl Taken {
    pub(super) fn per_second(&self) -> f64 {
        self.shape.tasks() as f64 / (self.start + self.run).as_secs_f64()
    }

    pub(super) fn per_step(&self) -> Duration {
        self.run.div_f64(self.shape.tasks() as f64)
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "shape": self.shape.to_string(), "steps": self.shape.tasks(), "durability": self.durability,
            "start_seconds": self.start.as_secs_f64(), "run_seconds": self.run.as_secs_f64(),
            "steps_per_second": self.per_second(), "seconds_per_step": self.per_step().as_secs_f64(),
            "peak_bytes": self.peak_bytes,
        })
    }
}

/// Runs one workflow.
pub(super) async fn measure(
    shape: Shape,
    pool: usize,
    ground: &Ground,
    durability: Option<&str>,
) -> Result<Taken> {
    let plot = ground.plot(durability).await?;
    let Plot { windlass, .. } = &plot;
    let client = windlass.client();
    let (definition, input) = (shape.definition()?, shape.input());
    let worker =
        windlass.worker().pool(pool).handle_kind(KIND, |_| async { Ok::<_, TaskError>(Value::Null) });
    let worker = worker.start().await?;
    forget_peak();
    client.define(definition).await?;
    let begun = Instant::now();
    let started = client.start("bench").input(&input).await?;
    let start = begun.elapsed();
    let record = tokio::select! {
        record = client.wait_for_workflow(started.id) => record?,
        ended = worker.ended() => { ended?; return Err(anyhow::anyhow!("the worker has stopped")); }
    };
    let run = begun.elapsed() - start;
    let peak_bytes = peak();
    ensure!(record.workflow.state == WorkflowState::Complete, "{shape} is {}", record.workflow.state);
    let done = u64::try_from(shape.tasks())?;
    ensure!(u64::from(record.workflow.counts.done) == done, "not all steps of {shape} are done");
    worker.stop().await.context("the worker")?;
    let durability = durability_of(&**windlass.store()).await?;
    windlass.close().await?;
    Ok(Taken { shape, durability, start, run, peak_bytes })
}

/// Lets the system forget how much memory this process once had. Where that cannot be, the peak includes what
/// came before.
fn forget_peak() {
    drop(std::fs::write("/proc/self/clear_refs", "5"));
}

fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}
