//! Who does it, for the history; and what operators do, written down before it is done.

use futures_util::future::try_join_all;
use windlass::remote::Call;
use windlass::{By, Command, Steering};

use super::super::super::{Answered, App, Caller};
use super::super::verb;

/// The call as it is carried out for this caller: whoever a program says acts, acts by its token.
pub(super) fn by(caller: &Caller, mut call: Call) -> Call {
    match &mut call {
        Call::Submit { tasks } => {
            tasks.iter_mut().for_each(|task| task.actor = caller.actor(task.actor.as_deref()));
        }
        // The workflow that a step is is started by the worker that holds the step.
        Call::Start { workflow } if workflow.parent.is_none() => {
            workflow.actor = caller.actor(workflow.actor.as_deref());
        }
        Call::Turn { turn } => turn.commands.iter_mut().filter_map(by_of).for_each(|by| rewrite(caller, by)),
        Call::Steer { by, .. } => rewrite(caller, by),
        Call::PutAccessToken { token } => token.created_by = caller.actor(token.created_by.as_deref()),
        Call::Audit { entry } => {
            entry.actor = caller.actor(Some(&entry.actor)).unwrap_or_default();
        }
        _ => {}
    }
    call
}

fn rewrite(caller: &Caller, by: &mut By) {
    by.actor = caller.actor(by.actor.as_deref());
}

/// Who intervenes, if somebody does.
fn by_of(command: &mut Command) -> Option<&mut By> {
    match command {
        Command::Cancel { by, .. }
        | Command::Retry { by, .. }
        | Command::Resolve { by, .. }
        | Command::Skip { by, .. } => Some(by),
        Command::Claim { .. }
        | Command::Start { .. }
        | Command::Report { .. }
        | Command::Finish { .. }
        | Command::Release { .. }
        | Command::Postpone { .. }
        | Command::Promote { .. }
        | Command::Expire { .. }
        | Command::Delete { .. } => None,
    }
}

/// Something that an operator does: what, to what, by whom and why. Who is not said in the call is the caller.
type Deed = (String, String, By);

/// Writes down what an operator asks for. What cannot be written down is not done.
pub(super) async fn write_down(app: &App, caller: &Caller, call: &Call) -> Answered<()> {
    let deeds = deeds(call);
    let written = deeds.iter().map(|(action, subject, by)| caller.audit(app, action, subject, by));
    try_join_all(written).await.map(drop)
}

fn deeds(call: &Call) -> Vec<Deed> {
    let by = |action: &str, subject: String, by: By| vec![(action.to_owned(), subject, by)];
    let one = |action: &str, subject: String| by(action, subject, By::default());
    let of = |actor: &Option<String>| By { actor: actor.clone(), note: None };
    match call {
        Call::Turn { turn } => turn.commands.iter().filter_map(of_command).collect(),
        Call::Pause { namespace, queue, paused } => {
            let action = if *paused { "queue.pause" } else { "queue.resume" };
            one(action, format!("{namespace}/{queue}"))
        }
        Call::SetEntity { entity, known, .. } => {
            one(if *known { "entity.register" } else { "entity.forget" }, entity.to_string())
        }
        Call::SetSchedule { schedule } => {
            one("schedule.set", format!("{}/{}", schedule.namespace, schedule.name))
        }
        Call::RemoveSchedule { namespace, name } => one("schedule.remove", format!("{namespace}/{name}")),
        Call::Fire { firing, .. } => one("schedule.run", format!("{}/{}", firing.namespace, firing.name)),
        Call::Define { definition, .. } => one("definition.apply", definition.name.to_string()),
        Call::Start { workflow } => match workflow.origin {
            Some(origin) => by("workflow.rerun", origin.to_string(), of(&workflow.actor)),
            None => Vec::new(),
        },
        Call::Steer { workflow, steering, by: acts } => {
            let action = match steering {
                Steering::Cancel => "workflow.cancel",
                Steering::Pause => "workflow.pause",
                Steering::Resume => "workflow.resume",
                Steering::Resolve => "workflow.resolve",
                Steering::GiveUp => "workflow.give_up",
                Steering::Move { .. } => "workflow.move",
            };
            by(action, workflow.to_string(), acts.clone())
        }
        Call::Prune { .. } => one("tasks.prune", "all".into()),
        Call::Reconcile { .. } => one("tasks.reconcile", "all".into()),
        Call::PutAccessToken { token } => by("token.create", token.name.to_string(), of(&token.created_by)),
        Call::RevokeAccessToken { name } => one("token.revoke", name.to_string()),
        // Who looks, submits or works is no operator, and who writes something down has.
        Call::Hello {}
        | Call::Watch { .. }
        | Call::Submit { .. }
        | Call::Register { .. }
        | Call::Heartbeat { .. }
        | Call::Deregister { .. }
        | Call::Workers {}
        | Call::Campaign { .. }
        | Call::Resign { .. }
        | Call::Leader {}
        | Call::Due { .. }
        | Call::Task { .. }
        | Call::Find { .. }
        | Call::Tasks { .. }
        | Call::Counts {}
        | Call::Facts { .. }
        | Call::Paused {}
        | Call::HasEntity { .. }
        | Call::Entities { .. }
        | Call::Schedules {}
        | Call::Definition { .. }
        | Call::Definitions { .. }
        | Call::Workflow { .. }
        | Call::FindWorkflow { .. }
        | Call::Workflows { .. }
        | Call::Results { .. }
        | Call::WorkflowCounts {}
        | Call::ReadyWorkflows { .. }
        | Call::Activity { .. }
        | Call::Executions { .. }
        | Call::Describe {}
        | Call::Events { .. }
        | Call::AccessTokens {}
        | Call::Audit { .. }
        | Call::Audits { .. } => Vec::new(),
    }
}

fn of_command(command: &Command) -> Option<Deed> {
    let by = match command {
        Command::Cancel { by, .. }
        | Command::Retry { by, .. }
        | Command::Resolve { by, .. }
        | Command::Skip { by, .. } => by.clone(),
        Command::Postpone { .. }
        | Command::Promote { .. }
        | Command::Expire { .. }
        | Command::Delete { .. } => By::default(),
        Command::Claim { .. }
        | Command::Start { .. }
        | Command::Report { .. }
        | Command::Finish { .. }
        | Command::Release { .. } => return None,
    };
    Some((format!("task.{}", verb(command)), command.task().to_string(), by))
}
