//! What is open to a token that is for some queues only. The same as by the other routes: what is of one queue is open if that queue is, and what is of
//! none is refused where it would show or change what others have.

use windlass::remote::Call;
use windlass::{Filter, Name, NewWorkflow, Source, TaskId, WorkerId};

use super::super::super::{Answered, App, Caller, Problem};
use super::super::workflows::check_queues;

/// Whether everything that the call is about is open to the caller.
pub(super) async fn check(app: &App, caller: &Caller, call: &Call) -> Answered<()> {
    if !caller.is_limited() {
        return Ok(());
    }
    match call {
        Call::Submit { tasks } => {
            let of_batch = |index: usize| (tasks.len() > 1).then_some(index);
            tasks.iter().enumerate().try_for_each(|(index, task)| {
                let check = caller.check_queue(&task.queue);
                check.map_err(|problem| Problem { index: of_batch(index), ..problem })
            })
        }
        Call::Fire { firing, .. } => firing.tasks.iter().try_for_each(|task| caller.check_queue(&task.queue)),
        Call::SetSchedule { schedule } => caller.check_queue(&schedule.template.task().queue),
        Call::Pause { queue, .. } => caller.check_queue(queue),
        Call::Register { worker } => worker.queues.iter().try_for_each(|queue| caller.check_queue(queue)),
        Call::Turn { turn } => {
            let queues = turn.claim.iter().flat_map(|claim| &claim.queues);
            queues.into_iter().try_for_each(|queue| caller.check_queue(queue))?;
            for command in turn.commands.iter().filter(|command| !command.is_by_holder()) {
                task(app, caller, command.task(), false).await?;
            }
            Ok(())
        }
        Call::Task { id } | Call::Facts { id } => task(app, caller, *id, false).await,
        Call::Find { namespace, kind, key } => match app.windlass.store().find(namespace, kind, key).await? {
            Some(id) => task(app, caller, id, false).await,
            None => Ok(()),
        },
        Call::Results { tasks } => {
            for id in tasks {
                // What steps have returned belongs to their workflow.
                task(app, caller, *id, true).await?;
            }
            Ok(())
        }
        Call::Tasks { filter, .. } => listing(app, caller, filter).await,
        Call::Start { workflow } => start(app, caller, workflow).await,
        Call::Events { .. }
        | Call::Steer { .. }
        | Call::RemoveSchedule { .. }
        | Call::Reconcile { .. }
        | Call::Prune { .. }
        | Call::PutAccessToken { .. }
        | Call::AccessTokens {}
        | Call::RevokeAccessToken { .. }
        | Call::Audit { .. } => caller.check_unlimited(),
        Call::Hello {}
        | Call::Watch { .. }
        | Call::Heartbeat { .. }
        | Call::Deregister { .. }
        | Call::Workers {}
        | Call::Campaign { .. }
        | Call::Resign { .. }
        | Call::Leader {}
        | Call::Due { .. }
        | Call::Counts {}
        | Call::Paused {}
        | Call::SetEntity { .. }
        | Call::HasEntity { .. }
        | Call::Entities { .. }
        | Call::Schedules {}
        | Call::Define { .. }
        | Call::Definition { .. }
        | Call::Definitions { .. }
        | Call::Workflow { .. }
        | Call::FindWorkflow { .. }
        | Call::Workflows { .. }
        | Call::WorkflowCounts {}
        | Call::ReadyWorkflows { .. }
        | Call::Activity { .. }
        | Call::Executions { .. }
        | Call::Describe {}
        | Call::Audits { .. } => Ok(()),
    }
}

/// Whether a task is open to the caller; one that is not there hides nothing.
async fn task(app: &App, caller: &Caller, id: TaskId, as_step: bool) -> Answered<()> {
    match app.windlass.store().facts(id).await? {
        Some(facts) if !(as_step && facts.task.spec.workflow.is_some()) => {
            caller.check_queue(&facts.task.spec.queue)
        }
        _ => Ok(()),
    }
}

/// Whether a listing shows only what is open to the caller: of one queue, or what a worker of such queues holds.
async fn listing(app: &App, caller: &Caller, filter: &Filter) -> Answered<()> {
    if let (None, Some(worker)) = (&filter.queue, &filter.worker)
        && let Some(queues) = queues_of(app, worker).await?
    {
        return queues.iter().try_for_each(|queue| caller.check_queue(queue));
    }
    caller.check_listing(filter.queue.as_ref())
}

async fn queues_of(app: &App, worker: &WorkerId) -> Answered<Option<Vec<Name>>> {
    let workers = app.windlass.store().workers().await?;
    Ok(workers.into_iter().find(|row| row.id == *worker).map(|row| row.queues))
}

/// Whether the steps of a workflow are in queues that are open to the caller.
async fn start(app: &App, caller: &Caller, workflow: &NewWorkflow) -> Answered<()> {
    match &workflow.source {
        Source::AdHoc(definition) => check_queues(caller, definition),
        Source::Named { name, version } => {
            let store = app.windlass.store();
            match store.definition(&workflow.namespace, name, version.as_deref()).await? {
                Some(found) => check_queues(caller, found.blueprint.definition()),
                None => Ok(()),
            }
        }
    }
}
