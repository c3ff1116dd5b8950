//! Workflows from their start to their end, next to counters of parents that are kept by hand: one
//! connection, one transaction for each batch of steps that end, their children's counters, and the next
//! claim.

mod postgres;
mod sqlite;

use std::path::Path;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use windlass_testbed::postgres::Server;

use crate::program::{self, answer, figure};
use crate::table::{Row, Table};
use crate::{Args, median};

/// Steps of one claim by hand.
const BATCH: usize = 500;

/// Steps beside one another in a layer.
const LAYER: usize = 100;

const CHAINS: [Shape; 2] = [Shape::Chain(40), Shape::Chain(400)];
const WIDE: [Shape; 7] = [
    Shape::Fan(1_000),
    Shape::Fan(10_000),
    Shape::Fan(99_998),
    Shape::Map(100_000),
    Shape::Layers(1_000),
    Shape::Layers(10_000),
    Shape::Layers(100_000),
];

/// What `windlass bench --workflow` calls chain, fan, map and layers.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Shape {
    Chain(usize),
    Fan(usize),
    Map(usize),
    Layers(usize),
}

impl Shape {
    fn name(self) -> String {
        match self {
            Self::Chain(n) => format!("chain:{n}"),
            Self::Fan(n) => format!("fan:{n}"),
            Self::Map(n) => format!("map:{n}"),
            Self::Layers(n) => format!("layers:{n}"),
        }
    }

    fn steps(self) -> usize {
        match self {
            Self::Chain(n) | Self::Layers(n) => n,
            // By hand, a list is a step for each of its items.
            Self::Fan(n) | Self::Map(n) => n + 2,
        }
    }

    /// Which steps the one at `at` needs.
    fn needs(self, at: usize) -> Vec<usize> {
        match self {
            Self::Chain(_) => at.checked_sub(1).into_iter().collect(),
            Self::Fan(n) | Self::Map(n) if at > n => (1..=n).collect(),
            Self::Fan(_) | Self::Map(_) => {
                if at == 0 {
                    vec![]
                } else {
                    vec![0]
                }
            }
            Self::Layers(_) if at < LAYER => Vec::new(),
            Self::Layers(_) => {
                let (row, column) = (at / LAYER - 1, at % LAYER);
                vec![row * LAYER + column, row * LAYER + (column + 1) % LAYER]
            }
        }
    }
}

/// What the engine took for one workflow.
#[derive(Clone, Copy, Default, Debug)]
struct Taken {
    steps_per_second: f64,
    micros_a_step: f64,
    peak_megabytes: f64,
}

/// The engine in a process of its own, so that its memory can be told from ours.
fn through_engine(at: &Path, store: &[&str], shape: Shape) -> Result<Taken> {
    let mut command = program::windlass()?;
    command
        .current_dir(at)
        .args(["bench", "--json", "--rounds", "1", "--workflow", &shape.name()])
        .args(store);
    let figures = &answer(&mut command)?["figures"][0];
    Ok(Taken {
        steps_per_second: figure(figures, "steps_per_second")?,
        micros_a_step: figure(figures, "seconds_per_step")? * 1e6,
        peak_megabytes: figure(figures, "peak_bytes").unwrap_or(0.0) / 1e6,
    })
}

/// One store: how the engine is told to use it, and the same by hand.
struct Ground<'a> {
    name: &'static str,
    store: Vec<&'a str>,
    by_hand: &'a dyn Fn(Shape, usize) -> Result<f64>,
}

/// All of it.
pub(crate) fn measure(runtime: &Runtime, at: &Path, args: &Args, table: &mut Table) -> Result<()> {
    if args.postgres {
        let server = Server::start().context("no PostgreSQL to measure with")?;
        let url = server.url();
        let by_hand = |shape: Shape, round: usize| {
            runtime.block_on(postgres::measure(
                &url,
                &format!("hand_{}_{round}", shape.name().replace(':', "_")),
                shape,
            ))
        };
        let ground = Ground { name: "PostgreSQL", store: vec!["--store", &url], by_hand: &by_hand };
        return ground.measure(at, args, table);
    }
    for (name, durability) in [("SQLite NORMAL", "normal"), ("SQLite FULL", "full")] {
        let by_hand = |shape: Shape, round: usize| {
            sqlite::measure(&at.join(format!("{durability}-{}-{round}.db", shape.name())), durability, shape)
        };
        let ground = Ground { name, store: vec!["--durability", durability], by_hand: &by_hand };
        ground.measure(at, args, table)?;
    }
    Ok(())
}

impl Ground<'_> {
    fn measure(&self, at: &Path, args: &Args, table: &mut Table) -> Result<()> {
        let mut all = Vec::new();
        for shape in CHAINS.into_iter().chain(WIDE) {
            let what = format!("{}, {}", self.name, shape.name());
            if !what.contains(&args.only) {
                continue;
            }
            let (mut hand, mut ours) = (Vec::new(), Vec::new());
            for round in 0..args.rounds {
                hand.push((self.by_hand)(shape, round)?);
                ours.push(through_engine(at, &self.store, shape)?);
            }
            let of = |figure: fn(&Taken) -> f64| median(ours.iter().map(figure).collect());
            let taken = Taken {
                steps_per_second: of(|it| it.steps_per_second),
                micros_a_step: of(|it| it.micros_a_step),
                peak_megabytes: of(|it| it.peak_megabytes),
            };
            let Taken { micros_a_step, peak_megabytes, .. } = taken;
            eprintln!("{what}: {micros_a_step:.0} µs a step, at most {peak_megabytes:.0} MB");
            let (ours, base) = (taken.steps_per_second, median(hand));
            table.push(Row { what, ours, base, base_is: "by hand" }, args.json);
            all.push((shape, taken));
        }
        let find = |shape: Shape| all.iter().find(|(known, _)| *known == shape).map(|(_, taken)| *taken);
        for (small, large) in
            [(Shape::Fan(1_000), Shape::Fan(99_998)), (Shape::Layers(1_000), Shape::Layers(100_000))]
        {
            if let (Some(few), Some(many)) = (find(small), find(large)) {
                let what = format!("{}, {} next to {}", self.name, large.name(), small.name());
                let (ours, base) = (many.steps_per_second, few.steps_per_second);
                table.push(Row { what, ours, base, base_is: "the small one" }, args.json);
            }
        }
        Ok(())
    }
}
