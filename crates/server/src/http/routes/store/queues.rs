//! What a call is about, for [`About`] to decide whether it is open to a token that is for some queues only.

use std::collections::BTreeSet;

use windlass::remote::Call;
use windlass::{Command, Filter, Turn, WorkerId};

use super::super::super::{About, Answered, App, Caller, Problem};

/// Whether everything that the call is about is open to the caller.
pub(super) async fn check(app: &App, caller: &Caller, call: &Call) -> Answered<()> {
    if !caller.is_limited() {
        return Ok(());
    }
    if let Call::Submit { tasks } = call {
        let of_batch = |index: usize| (tasks.len() > 1).then_some(index);
        return tasks.iter().enumerate().try_for_each(|(index, task)| {
            let check = caller.check_queue(&task.queue);
            check.map_err(|problem| Problem { index: of_batch(index), ..problem })
        });
    }
    if let Call::Find { namespace, kind, key } = call {
        return match app.windlass.store().find(namespace, kind, key).await? {
            Some(id) => caller.may(app, About::Task(id)).await,
            None => Ok(()),
        };
    }
    if let Call::FindWorkflow { namespace, name, key } = call {
        return match app.windlass.store().find_workflow(namespace, name, key).await? {
            Some(id) => caller.may(app, About::Workflow(id)).await,
            None => Ok(()),
        };
    }
    for about in abouts(call) {
        caller.may(app, about).await?;
    }
    Ok(())
}

fn abouts(call: &Call) -> Vec<About<'_>> {
    match call {
        // Decided above.
        Call::Submit { .. } | Call::Find { .. } | Call::FindWorkflow { .. } => vec![About::Everything],
        Call::Fire { firing, .. } => {
            let tasks = firing.tasks.iter().map(|task| About::Queues(std::slice::from_ref(&task.queue)));
            let schedule = About::Schedule { namespace: &firing.namespace, name: &firing.name };
            tasks.chain([schedule]).collect()
        }
        Call::SetSchedule { schedule } => vec![
            About::Queues(std::slice::from_ref(&schedule.template.task().queue)),
            // One that is there already is changed.
            About::Schedule { namespace: &schedule.namespace, name: &schedule.name },
        ],
        Call::RemoveSchedule { namespace, name } => vec![About::Schedule { namespace, name }],
        Call::Pause { queue, .. } => vec![About::Queues(std::slice::from_ref(queue))],
        // As above.
        Call::Register { worker } => vec![About::Queues(&worker.queues), About::Worker(&worker.id)],
        Call::Deregister { worker } => vec![About::Worker(worker)],
        Call::Heartbeat { worker, .. } => vec![About::Holder(worker)],
        Call::Turn { turn } => of_turn(turn),
        Call::Task { id } | Call::Facts { id } => vec![About::Task(*id)],
        Call::Results { tasks } => vec![About::Results(tasks)],
        Call::Tasks { filter, .. } => vec![of_listing(filter)],
        Call::Start { workflow } => {
            let start = About::Start { namespace: &workflow.namespace, source: &workflow.source };
            workflow.parent.iter().map(|token| About::Holder(&token.worker)).chain([start]).collect()
        }
        Call::Workflow { id, .. } => vec![About::Workflow(*id)],
        Call::Definition { namespace, name, version } => {
            vec![About::Definition { namespace, name, version: version.as_deref() }]
        }
        Call::Due { limit: 1.. }
        | Call::Campaign { .. }
        | Call::Resign { .. }
        | Call::SetEntity { .. }
        | Call::HasEntity { .. }
        | Call::Entities { .. }
        | Call::Define { .. }
        | Call::Definitions { .. }
        | Call::Steer { .. }
        | Call::Workflows { .. }
        | Call::WorkflowCounts {}
        | Call::ReadyWorkflows { .. }
        | Call::Activity { .. }
        | Call::Executions { .. }
        | Call::Events { .. }
        | Call::Reconcile { .. }
        | Call::Prune { .. }
        | Call::PutAccessToken { .. }
        | Call::AccessTokens {}
        | Call::RevokeAccessToken { .. }
        | Call::Audit { .. }
        | Call::Audits { .. } => vec![About::Everything],
        // What the server is and who leads, what time it is there, and lists that are answered in part.
        Call::Hello {}
        | Call::Leader {}
        | Call::Watch { .. }
        | Call::Describe {}
        | Call::Due { limit: 0 }
        | Call::Workers {}
        | Call::Counts {}
        | Call::Paused {}
        | Call::Schedules {} => Vec::new(),
    }
}

/// The claim, whoever speaks of what it holds, and the tasks that others speak of.
fn of_turn(turn: &Turn) -> Vec<About<'_>> {
    let mut abouts = Vec::new();
    let mut workers: BTreeSet<&WorkerId> = turn.commands.iter().filter_map(holder).collect();
    if let Some(claim) = &turn.claim {
        abouts.push(About::Queues(&claim.queues));
        workers.insert(&claim.worker);
    }
    abouts.extend(workers.into_iter().map(About::Holder));
    let others = turn.commands.iter().filter(|command| !command.is_by_holder());
    abouts.extend(others.map(|command| About::Task(command.task())));
    abouts
}

/// The worker that a command is of.
fn holder(command: &Command) -> Option<&WorkerId> {
    match command {
        Command::Claim { worker, .. } => Some(worker),
        Command::Start { token, .. }
        | Command::Report { token, .. }
        | Command::Finish { token, .. }
        | Command::Release { token, .. } => Some(&token.worker),
        _ => None,
    }
}

/// Of one queue, or what a worker holds.
fn of_listing(filter: &Filter) -> About<'_> {
    match (&filter.queue, &filter.worker) {
        (Some(queue), _) => About::Queues(std::slice::from_ref(queue)),
        (None, Some(worker)) => About::Holder(worker),
        (None, None) => About::Everything,
    }
}
