//! `windlass schedule`.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use serde_json::json;
use windlass::{Client, Cron, Invalid, Missed, Name, Overlap, Rejected, Schedule, Timestamp};

use crate::input::Source;
use crate::options::{TaskOptions, submit};
use crate::session::Session;
use crate::show::Answer;
use crate::show::schedule::{ScheduleJson, Seen, page, table};
use crate::table::Table;
use crate::{duration, moment};

#[derive(Subcommand, Debug)]
pub(crate) enum ScheduleCommand {
    /// List schedules: when each fires next, and how its last run went
    #[command(after_help = "Example:\n  windlass schedule list")]
    List {
        /// Of all namespaces
        #[arg(long)]
        all_namespaces: bool,
    },
    /// Show a schedule and what it submits
    #[command(after_help = "Example:\n  windlass schedule show nightly")]
    Show(NameArgs),
    /// Make a schedule, or change the one of that name
    Set(Box<SetArgs>),
    /// Forget a schedule; tasks that it submitted stay
    #[command(after_help = "Example:\n  windlass schedule remove nightly")]
    Remove(NameArgs),
    /// Let a schedule fire no more until it is resumed
    #[command(after_help = "Example:\n  windlass schedule pause nightly")]
    Pause(NameArgs),
    /// Let a paused schedule go on with the first slot from now on
    #[command(after_help = "Example:\n  windlass schedule resume nightly")]
    Resume(NameArgs),
    /// Submit what a schedule submits now, whatever its times say
    #[command(after_help = "Example:\n  windlass schedule run nightly")]
    Run(NameArgs),
    /// Print the next slots of a cron expression; no store is needed
    #[command(after_help = "Examples:
  windlass schedule preview '0 3 * * *' --zone Europe/Berlin
  windlass schedule preview '*/15 9-17 * * MON-FRI' -n 20")]
    Preview {
        /// The cron expression: minute, hour, day of month, month, day of week
        cron: String,
        /// The time zone that the expression is meant in
        #[arg(long, default_value = "UTC")]
        zone: String,
        /// How many slots, 1 to 1000
        #[arg(short = 'n', long = "slots", value_name = "N", default_value = "10", value_parser = crate::task::limit)]
        slots: usize,
    },
}

#[derive(Args, Debug)]
pub(crate) struct NameArgs {
    /// The schedule's name
    #[arg(value_parser = name)]
    name: Name,
}

fn name(text: &str) -> Result<Name, Invalid> {
    Name::new("schedule", text)
}

/// Make a schedule, or change the one of that name
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass schedule set nightly '0 3 * * *' report:make '{\"scope\": \"all\"}' --zone Europe/Berlin
  windlass schedule set poll '*/5 * * * *' feed:poll --overlap skip --missed skip --queue feeds")]
pub(crate) struct SetArgs {
    /// Its name
    #[arg(value_parser = name)]
    name: Name,
    /// The cron expression: minute, hour, day of month, month, day of week
    cron: String,
    /// The kind of the tasks that it submits
    #[arg(value_parser = Name::kind)]
    kind: Name,
    /// Their input: JSON, @FILE, or - for standard input [default: null]
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    payload: Option<Source>,
    /// The time zone that the expression is meant in
    #[arg(long, default_value = "UTC")]
    zone: String,
    /// What to do about slots that passed while nobody could fire them: skip, one, or all:N
    #[arg(long, default_value_t)]
    missed: Missed,
    /// What to do when the task of the slot before is not over: allow, skip, queue or replace
    #[arg(long, default_value_t)]
    overlap: Overlap,
    /// Begin paused
    #[arg(long)]
    paused: bool,
    #[command(flatten)]
    options: TaskOptions,
}

pub(crate) async fn run(session: &Session, command: &ScheduleCommand) -> Result<Answer> {
    match command {
        ScheduleCommand::List { all_namespaces } => list(session, *all_namespaces).await,
        ScheduleCommand::Show(NameArgs { name }) => show(session, name).await,
        ScheduleCommand::Set(args) => set(session, args).await,
        ScheduleCommand::Remove(NameArgs { name }) => remove(session, name).await,
        ScheduleCommand::Pause(NameArgs { name }) => pause(session, name, true).await,
        ScheduleCommand::Resume(NameArgs { name }) => pause(session, name, false).await,
        ScheduleCommand::Run(NameArgs { name }) => {
            let submitted = session.existing().await?.run_schedule(name).await?;
            Ok(crate::submit::answer(session, &submitted))
        }
        ScheduleCommand::Preview { cron, zone, slots } => preview(session, &Cron::parse(cron, zone)?, *slots),
    }
}

/// A schedule, with a look at its last task.
pub(crate) async fn look(client: &Client, schedule: Schedule) -> Result<Seen, windlass::Error> {
    let last = match schedule.last_task {
        Some(id) => client.get(id).await?.map(|record| record.task.status.state),
        None => None,
    };
    Ok(Seen { schedule, last })
}

async fn list(session: &Session, everywhere: bool) -> Result<Answer> {
    let scope = session.scope(everywhere)?;
    let client = session.existing().await?;
    let mut seen = Vec::new();
    for schedule in client.store().schedules().await? {
        if scope.as_ref().is_none_or(|wanted| *wanted == schedule.namespace) {
            seen.push(look(&client, schedule).await?);
        }
    }
    let now = client.store().now().await?;
    let text = if seen.is_empty() { "no schedules\n".into() } else { table(&seen, now, session.paint()) };
    let schedules: Vec<_> = seen.iter().map(ScheduleJson::of).collect();
    Ok(Answer::new(text, &Schedules { schedules }))
}

/// Not made with `json!`, which would read the payloads.
#[derive(serde::Serialize)]
struct Schedules<'a> {
    schedules: Vec<ScheduleJson<'a>>,
}

async fn show(session: &Session, name: &Name) -> Result<Answer> {
    let client = session.existing().await?;
    let found = client.schedules().await?.into_iter().find(|schedule| schedule.name == *name);
    let schedule = found.ok_or_else(|| unknown(name))?;
    answer(session, &client, schedule).await
}

fn unknown(name: &Name) -> Rejected {
    Rejected::UnknownSchedule { name: name.to_string() }
}

async fn answer(session: &Session, client: &Client, schedule: Schedule) -> Result<Answer> {
    let (seen, now) = (look(client, schedule).await?, client.store().now().await?);
    Ok(Answer::new(page(&seen, now, session.paint()), &ScheduleJson::of(&seen)))
}

/// Everything is checked before the store is opened.
async fn set(session: &Session, args: &SetArgs) -> Result<Answer> {
    Cron::parse(&args.cron, &args.zone)?;
    let payload = args.payload.as_ref().map(|source| source.json("payload")).transpose()?.unwrap_or_default();
    let task = args.options.task(session.namespace(), args.kind.clone(), payload)?;
    let client = session.client().await?;
    let mut schedule = client
        .schedule(&args.name, &args.cron, submit(&client, &task))
        .zone(&args.zone)
        .missed(args.missed)
        .overlap(args.overlap);
    if args.paused {
        schedule = schedule.paused(true);
    }
    let schedule = schedule.await?;
    answer(session, &client, schedule).await
}

async fn remove(session: &Session, name: &Name) -> Result<Answer> {
    if !session.existing().await?.remove_schedule(name).await? {
        return Err(unknown(name).into());
    }
    let json = json!({ "namespace": &*session.namespace(), "name": &**name, "removed": true });
    Ok(Answer::new(format!("schedule {name} is removed; tasks that it submitted stay\n"), &json))
}

async fn pause(session: &Session, name: &Name, paused: bool) -> Result<Answer> {
    let client = session.existing().await?;
    let schedule = client.pause_schedule(name, paused).await?;
    answer(session, &client, schedule).await
}

fn preview(session: &Session, cron: &Cron, most: usize) -> Result<Answer> {
    let now = moment::now();
    let slots: Vec<Timestamp> =
        std::iter::successors(cron.next_after(now), |at| cron.next_after(*at)).take(most).collect();
    let zone = TimeZone::get(cron.zone())?;
    let mut table = Table::new(&["SLOT", "IN ITS ZONE", "FROM NOW"]);
    for slot in &slots {
        let there = jiff::Timestamp::from_microsecond(slot.as_micros())?.to_zoned(zone.clone());
        let from_now = duration::rough(slot.since(now).max(Duration::from_secs(1)));
        table.row([
            moment::to_second(*slot).into(),
            there.strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string().into(),
            format!("in {from_now}").into(),
        ]);
    }
    let at: Vec<_> = slots.iter().map(ToString::to_string).collect();
    let json = json!({ "cron": cron.expression(), "zone": cron.zone(), "slots": at });
    Ok(Answer::new(table.render(session.paint(), ""), &json))
}
