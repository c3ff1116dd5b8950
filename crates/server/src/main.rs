//! `windlass`, the program.
//!
//! What it does *not* do: it decides nothing. A command is: decode, call the client, encode. It is a variant of [`Command`] and an
//! arm of [`dispatch`]; it opens the store through its [`Session`] once it has understood what it was given, and returns an [`Answer`].

mod actor;
mod address;
mod batch;
mod bench;
mod definition;
mod demo;
mod doctor;
mod duration;
mod entity;
mod escape;
mod exec;
mod failure;
mod input;
mod manual;
mod migrate;
mod moment;
mod options;
mod paint;
mod picture;
mod programs;
mod progress;
mod prune;
mod queue;
mod run;
mod schedule;
mod session;
mod show;
mod signals;
mod stats;
mod streams;
mod submit;
mod table;
mod task;
mod teller;
mod why;
mod wire;
mod work;
mod worker;
mod workflow;

use std::io::{Write, stderr};
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use windlass::Name;

use session::Session;
use show::Answer;

/// A durable task queue
///
/// Work that was accepted is never lost, never finished twice, and you can always see why it is where it is.
#[derive(Parser, Debug)]
#[command(name = "windlass", version, arg_required_else_help = true)]
#[command(after_help = "Examples:
  windlass demo
  windlass run flow.yaml
  windlass submit email:send '{\"to\": \"ada\"}'
  windlass task list --state failed
  windlass why 01890a5d-ac96-774b-bcce-b302099a8057

Exit codes: 0 done, 1 refused or failed, 2 not understood (and nothing was changed).")]
struct Args {
    /// Where tasks live: memory:, sqlite:PATH, sqlite:PATH?durability=normal or postgres://USER:PASSWORD@HOST/DATABASE
    /// [default: sqlite:windlass.db; for run, a file beside its own]
    #[arg(
        long,
        global = true,
        help_heading = "Options of all commands",
        value_name = "ADDRESS",
        env = "WINDLASS_STORE",
        hide_env_values = true
    )]
    store: Option<String>,
    /// Whose tasks [default: default]
    #[arg(long, global = true, help_heading = "Options of all commands", value_parser = Name::namespace)]
    namespace: Option<Name>,
    /// Print one JSON value on standard output, and nothing else there
    #[arg(long, global = true, help_heading = "Options of all commands")]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Run(run::RunArgs),
    Submit(Box<submit::SubmitArgs>),
    Work(work::WorkArgs),
    /// Look at tasks and intervene
    #[command(subcommand, after_help = "Example:\n  windlass task list --state failed")]
    Task(task::TaskCommand),
    /// Say why a task, or a step of a workflow, is not running
    #[command(after_help = "Examples:
  windlass why 01890a5d-ac96-774b-bcce-b302099a8057
  windlass why 01890a5d-ac96-774b-bcce-b30000000000/publish")]
    Why {
        /// The task's id, or WORKFLOW/STEP
        #[arg(value_name = "ID")]
        asked: why::Asked,
    },
    /// Describe workflows: keep, show and check their definitions
    #[command(subcommand, after_help = "Example:\n  windlass definition apply nightly.yaml")]
    Definition(definition::DefinitionCommand),
    /// Start workflows, look at them and intervene
    #[command(subcommand, after_help = "Example:\n  windlass workflow start nightly --wait")]
    Workflow(workflow::WorkflowCommand),
    /// Look at queues, pause and resume them
    #[command(subcommand, after_help = "Example:\n  windlass queue list")]
    Queue(queue::QueueCommand),
    /// Submit tasks again and again, at the times of a cron expression
    #[command(subcommand, after_help = "Example:\n  windlass schedule set nightly '0 3 * * *' report:make")]
    Schedule(schedule::ScheduleCommand),
    /// Look at workers
    #[command(subcommand, after_help = "Example:\n  windlass worker list")]
    Worker(worker::WorkerCommand),
    /// Register what tasks act on
    #[command(subcommand, after_help = "Example:\n  windlass entity add planner:42")]
    Entity(entity::EntityCommand),
    Stats(stats::StatsArgs),
    Prune(prune::PruneArgs),
    Migrate(migrate::MigrateArgs),
    Doctor(doctor::DoctorArgs),
    Bench(bench::BenchArgs),
    /// Submit a few tasks, work them off, lose a worker on the way, and show what happened
    #[command(after_help = "Example:\n  windlass demo")]
    Demo,
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
}

impl Command {
    /// Where its tasks live, if nobody says.
    fn default_store(&self) -> Result<String> {
        match self {
            Self::Run(args) => args.default_store(),
            _ => Ok("sqlite:windlass.db".into()),
        }
    }
}

async fn dispatch(session: &Session, command: &Command) -> Result<Answer> {
    match command {
        Command::Run(args) => run::run(session, args).await,
        Command::Submit(args) => submit::run(session, args).await,
        Command::Work(args) => work::run(session, args).await,
        Command::Task(command) => task::run(session, command).await,
        Command::Why { asked } => why::run(session, asked).await,
        Command::Definition(command) => definition::run(session, command).await,
        Command::Workflow(command) => workflow::run(session, command).await,
        Command::Queue(command) => queue::run(session, command).await,
        Command::Schedule(command) => schedule::run(session, command).await,
        Command::Worker(command) => worker::run(session, command).await,
        Command::Entity(command) => entity::run(session, command).await,
        Command::Stats(args) => stats::run(session, args).await,
        Command::Prune(args) => prune::run(session, args).await,
        Command::Migrate(args) => migrate::run(session, args).await,
        Command::Doctor(args) => doctor::run(session, args).await,
        Command::Bench(args) => bench::run(session, args).await,
        Command::Demo => demo::run(session).await,
        Command::Completions(args) => manual::completions(Args::command(), args),
        Command::Man(args) => manual::man(Args::command(), args),
    }
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => match failure::usage_line(&error, &Args::command(), std::env::args_os().skip(1)) {
            Some(line) => return fail(&line, 2),
            None => error.exit(),
        },
    };
    match run(args) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some((failure, code))) => fail(&format!("windlass: {}", escape::plain(&failure)), code),
        Err(error) => fail(&failure::line(&error), failure::exit_code(&error)),
    }
}

/// One line, and the exit code. If even that cannot be written, the code is all that is left.
fn fail(line: &str, code: u8) -> ExitCode {
    let _ = writeln!(stderr(), "{line}");
    ExitCode::from(code)
}

/// Prints the answer; says what else went wrong, if something did, and the exit code for it.
fn run(args: Args) -> Result<Option<(String, u8)>> {
    let Args { store, namespace, json, command } = args;
    let store = store.map_or_else(|| command.default_store(), Ok)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let session = Session::new(&store, namespace, json);
        let answer = dispatch(&session, &command).await;
        let closed = session.close().await;
        let answer = answer?;
        closed?;
        if json {
            session::print(&format!("{}\n", escape::json(&answer.json)))?;
        } else {
            session::print(&answer.text)?;
        }
        let code = answer.code;
        Ok(answer.failure.map(|failure| (failure, code)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(command: &clap::Command, path: &str, look: &mut impl FnMut(&str, &clap::Command)) {
        look(path, command);
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            walk(below, &format!("{path} {}", below.get_name()), look);
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        walk(&Args::command(), "windlass", &mut |path, command| {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Example"), "{path} --help has no example");
            assert!(command.get_about().is_some(), "{path} does not say what it does");
        });
    }

    #[test]
    fn every_argument_says_what_it_is() {
        walk(&Args::command(), "windlass", &mut |path, command| {
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{path}: {} has no help", argument.get_id());
            }
        });
    }
}
