//! Schedules.

use serde::Serialize;
use utoipa::ToSchema;
use windlass::{Lane, NewTask, Schedule, State, Timestamp};

use super::task::{LaneJson, RetryJson, lane_text, retry_text};
use super::{Page, Seconds, Verbatim, json_text, time};
use crate::escape::plain;
use crate::paint::Paint;
use crate::table::Table;
use crate::{duration, moment};

/// A schedule, and where the task of its last run is, if it is still there.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) schedule: Schedule,
    pub(crate) last: Option<State>,
}

/// What a schedule submits.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = ScheduledTask)]
struct TemplateJson<'a> {
    kind: &'a str,
    payload: Verbatim<'a>,
    queue: &'a str,
    priority: i32,
    entity: Option<String>,
    require_entity: bool,
    lane: Option<LaneJson>,
    tags: &'a [String],
    max_attempts: Option<u32>,
    retry: RetryJson,
    timeout_seconds: Option<Seconds>,
}

impl<'a> TemplateJson<'a> {
    fn of(task: &'a NewTask) -> Self {
        Self {
            kind: &task.kind,
            payload: Verbatim(&task.payload),
            queue: &task.queue,
            priority: task.priority,
            entity: task.lane.as_ref().and_then(Lane::entity).map(|entity| entity.to_string()),
            require_entity: task.require_entity,
            lane: task.lane.as_ref().and_then(LaneJson::of),
            tags: &task.tags,
            max_attempts: task.max_attempts.map(std::num::NonZero::get),
            retry: RetryJson::of(&task.retry),
            timeout_seconds: task.timeout.map(Seconds),
        }
    }
}

/// A schedule.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = Schedule)]
pub(crate) struct ScheduleJson<'a> {
    name: &'a str,
    namespace: &'a str,
    cron: &'a str,
    zone: &'a str,
    missed: String,
    overlap: &'static str,
    paused: bool,
    next_at: Option<String>,
    last_at: Option<String>,
    last_task_id: Option<String>,
    last_task_state: Option<&'static str>,
    fired: u64,
    skipped: u64,
    left_out: Option<&'a str>,
    error: Option<&'a str>,
    updated_at: String,
    task: TemplateJson<'a>,
}

/// The next slot, unless there is none.
fn next(schedule: &Schedule) -> Option<Timestamp> {
    Some(schedule.next_at).filter(|at| *at != Timestamp::MAX && !schedule.paused)
}

impl<'a> ScheduleJson<'a> {
    pub(crate) fn of(Seen { schedule, last }: &'a Seen) -> Self {
        Self {
            name: &schedule.name,
            namespace: &schedule.namespace,
            cron: &schedule.cron,
            zone: &schedule.zone,
            missed: schedule.missed.to_string(),
            overlap: schedule.overlap.word(),
            paused: schedule.paused,
            next_at: time(next(schedule)),
            last_at: time(schedule.last_at),
            last_task_id: schedule.last_task.map(|id| id.to_string()),
            last_task_state: last.map(State::word),
            fired: schedule.fired,
            skipped: schedule.skipped,
            left_out: schedule.left_out.as_deref(),
            error: schedule.error.as_deref(),
            updated_at: schedule.updated_at.to_string(),
            task: TemplateJson::of(schedule.template.task()),
        }
    }
}

fn next_text(schedule: &Schedule, now: Timestamp) -> String {
    match next(schedule) {
        Some(at) => moment::both(at, now),
        None if schedule.paused => "paused".into(),
        None => "never".into(),
    }
}

/// Schedules, one on each line.
pub(crate) fn table(schedules: &[Seen], now: Timestamp, paint: Paint) -> String {
    let mut table =
        Table::new(&["NAME", "NAMESPACE", "CRON", "ZONE", "KIND", "NEXT", "LAST", "LAST TASK", "ERROR"]);
    for Seen { schedule, last } in schedules {
        let namespace = Some(&*schedule.namespace).filter(|namespace| *namespace != "default");
        table.row([
            (&*schedule.name).into(),
            namespace.unwrap_or_default().into(),
            (&*schedule.cron).into(),
            (&*schedule.zone).into(),
            (&*schedule.template.task().kind).into(),
            next_text(schedule, now).into(),
            schedule.last_at.map(|at| moment::relative(at, now)).unwrap_or_default().into(),
            match (last, schedule.last_task) {
                (Some(state), _) => (*state).into(),
                (None, Some(_)) => "gone".into(),
                (None, None) => "".into(),
            },
            schedule.error.as_deref().unwrap_or_default().into(),
        ]);
    }
    table.without_empty().render(paint, "")
}

/// A schedule and what it submits, as a page.
pub(crate) fn page(Seen { schedule, last }: &Seen, now: Timestamp, paint: Paint) -> String {
    let task = schedule.template.task();
    let entity = task.lane.as_ref().and_then(Lane::entity);
    let mut page = Page::default();
    page.text("Schedule", Some(&schedule.name));
    page.text("Namespace", Some(&*schedule.namespace).filter(|namespace| *namespace != "default"));
    page.line("Times", format!("{} in {}", plain(&schedule.cron), plain(&schedule.zone)));
    page.line("Next", next_text(schedule, now));
    page.line("Last", schedule.last_at.map(|at| moment::both(at, now)));
    page.line(
        "Last task",
        schedule.last_task.map(|id| match last {
            Some(state) => format!("{id} {}", paint.state(*state)),
            None => format!("{id}, gone"),
        }),
    );
    page.line("Missed", schedule.missed.to_string());
    page.line("Overlap", schedule.overlap.to_string());
    page.line("Runs", format!("{} submitted, {} left out", schedule.fired, schedule.skipped));
    page.text("Left out", schedule.left_out.as_deref());
    page.text("Error", schedule.error.as_deref());
    page.text("Kind", Some(&task.kind));
    page.text("Queue", Some(&task.queue));
    page.line("Priority", Some(task.priority.to_string()).filter(|_| task.priority != 0));
    page.text("Entity", entity.as_ref().map(windlass::Entity::as_str));
    page.line("Lane", task.lane.as_ref().filter(|_| entity.is_none()).map(lane_text));
    page.line("Tags", Some(plain(&task.tags.join(", ")).into_owned()).filter(|tags| !tags.is_empty()));
    page.line("Attempts", task.max_attempts.map_or_else(|| "no limit".into(), |max| max.to_string()));
    page.line("Retries", retry_text(&task.retry));
    page.line("Timeout", task.timeout.map(duration::exact));
    page.line("Payload", json_text(&task.payload));
    page.render()
}
