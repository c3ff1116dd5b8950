//! `windlass`, the program.
//!
//! What it does *not* do: it decides nothing. A command is: decode, call the client, encode. It is a variant
//! of [`Command`] and an arm of [`dispatch`]; it opens the store through its [`Session`] once it has
//! understood what it was given, and returns an [`Answer`].

mod actor;
mod address;
mod backup;
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
mod http;
mod input;
mod manual;
mod migrate;
mod moment;
mod options;
#[cfg(feature = "otel")]
mod otel;
mod paint;
mod picture;
mod place;
mod programs;
mod progress;
mod prune;
mod queue;
mod run;
mod schedule;
mod secret;
mod serve;
mod session;
mod show;
mod signals;
mod stats;
mod streams;
mod submit;
mod table;
mod task;
mod telemetry;
mod teller;
mod token;
mod trace;
mod why;
mod wire;
mod work;
mod worker;
mod workflow;

use std::io::{Write, stderr};
use std::process::ExitCode;

use anyhow::Result;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use windlass::Name;

use failure::Usage;
use place::PlaceArgs;
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
    #[command(flatten)]
    place: PlaceArgs,
    /// Whose tasks [default: default]
    #[arg(long, global = true, help_heading = "Options of all commands", value_parser = Name::namespace)]
    namespace: Option<Name>,
    /// Print JSON on standard output and nothing else there: one value, or for `run` one line for each event
    #[arg(long, global = true, help_heading = "Options of all commands")]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Run(run::RunArgs),
    Serve(Box<serve::ServeArgs>),
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
    /// Say who may use a server
    #[command(subcommand, after_help = "Example:\n  windlass token create ci --scope submit")]
    Token(token::TokenCommand),
    Audit(token::AuditArgs),
    Stats(stats::StatsArgs),
    Prune(prune::PruneArgs),
    Migrate(migrate::MigrateArgs),
    Backup(backup::BackupArgs),
    Restore(backup::restore::RestoreArgs),
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
            Self::Serve(args) => args.default_store(),
            _ => Ok("sqlite:windlass.db".into()),
        }
    }

    /// How it is called, if it needs the store itself and no server can do it for it.
    fn needs_store(&self) -> Option<&'static str> {
        match self {
            Self::Serve(args) if args.needs_store() => Some("serve"),
            Self::Migrate(_) => Some("migrate"),
            Self::Backup(_) => Some("backup"),
            Self::Restore(_) => Some("restore"),
            Self::Bench(_) => Some("bench"),
            Self::Demo => Some("demo"),
            _ => None,
        }
    }
}

async fn dispatch(session: &Session, command: &Command) -> Result<Answer> {
    match command {
        Command::Run(args) => run::run(session, args).await,
        Command::Serve(args) => serve::run(session, args).await,
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
        Command::Token(command) => token::run(session, command).await,
        Command::Audit(args) => token::run_audit(session, args).await,
        Command::Stats(args) => stats::run(session, args).await,
        Command::Prune(args) => prune::run(session, args).await,
        Command::Migrate(args) => migrate::run(session, args).await,
        Command::Backup(args) => backup::run(session, args).await,
        Command::Restore(args) => backup::restore::run(session, args).await,
        Command::Doctor(args) => doctor::run(session, args).await,
        Command::Bench(args) => bench::run(session, args).await,
        Command::Demo => demo::run(session).await,
        Command::Completions(args) => manual::completions(Args::command(), args),
        Command::Man(args) => manual::man(Args::command(), args),
    }
}

fn main() -> ExitCode {
    let typed = Args::command().try_get_matches();
    let parsed = typed.and_then(|typed| Ok((Args::from_arg_matches(&typed)?, typed)));
    let (args, typed) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => match failure::usage_line(&error, &Args::command(), std::env::args_os().skip(1)) {
            Some(line) => return fail(&line, 2),
            None => error.exit(),
        },
    };
    match run(args, &typed) {
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
fn run(args: Args, typed: &ArgMatches) -> Result<Option<(String, u8)>> {
    let Args { place, namespace, json, command } = args;
    let place = place.place(typed, || command.default_store())?;
    if let Some(name) = command.needs_store().filter(|_| place::is_server(&place.address)) {
        let told = format!(
            "{name} needs the store itself and cannot work through a server; name a store with --store"
        );
        return Err(Usage::new(told).into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let session = Session::new(place, namespace, json);
        let answer = dispatch(&session, &command).await;
        let closed = session.close().await;
        let answer = answer?;
        closed?;
        if !answer.is_shown {
            session.show(&answer)?;
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
