//! `windlass`, the program.
//!
//! What it does *not* do: it decides nothing. A command is: decode, calls to the store, encode.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod demo;
mod show;
mod task;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// A durable task queue: work that was accepted is never lost, never finished twice, and you can always see why it is where it
/// is.
#[derive(Parser, Debug)]
#[command(name = "windlass", version, arg_required_else_help = true)]
#[command(
    after_help = "Examples:\n  windlass demo\n  windlass task list --state failed\n  windlass why 01890a5d-ac96-774b-bcce-b302099a8057"
)]
struct Args {
    /// Where tasks live: `memory:`, `sqlite:PATH` or `sqlite:PATH?durability=normal`.
    #[arg(long, global = true, env = "WINDLASS_STORE", default_value = "sqlite:windlass.db")]
    store: String,
    /// Print one JSON value on standard output, and nothing else there.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Submit a few tasks, work them off, lose a worker on the way, and show what happened.
    Demo,
    /// Look at tasks.
    #[command(subcommand)]
    Task(task::Command),
    /// Say why a task is not running.
    Why {
        /// The task's id.
        id: windlass::TaskId,
    },
    /// How many tasks there are, by queue, kind and state.
    Stats,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("windlass: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let store = windlass::open(&args.store).await?;
        let answer = match &args.command {
            Command::Demo => demo::run(&*store, args.json).await?,
            Command::Task(command) => task::run(&*store, command).await?,
            Command::Why { id } => task::why(&*store, *id).await?,
            Command::Stats => task::stats(&*store).await?,
        };
        store.close().await?;
        if args.json {
            println!("{}", answer.json);
        } else {
            print!("{}", answer.text);
        }
        Ok(())
    })
}
