//! What a token must be for.

use windlass::access::Scope;
use windlass::remote::Call;
use windlass::{Command, Turn};

use super::super::super::{Answered, Caller, Problem};

/// Whether the caller may do such a thing at all.
pub(super) fn check(caller: &Caller, call: &Call) -> Answered<()> {
    match call {
        // That there is a server, and that something has happened there, whoever is let in may know; and what time it is.
        Call::Hello {} | Call::Watch { .. } | Call::Due { limit: 0 } => Ok(()),
        // What a worker has to read so as to do its work: for that, being a worker is enough.
        Call::Describe {} | Call::Workflow { .. } | Call::Definition { .. } | Call::Results { .. } => {
            worker_or_reader(caller)
        }
        Call::Tasks { filter, .. } if filter.worker.is_some() => worker_or_reader(caller),
        Call::Workers {}
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
        | Call::Definitions { .. }
        | Call::FindWorkflow { .. }
        | Call::Workflows { .. }
        | Call::WorkflowCounts {}
        | Call::ReadyWorkflows { .. }
        | Call::Activity { .. }
        | Call::Executions { .. }
        | Call::Events { .. } => caller.check(Scope::Read),
        Call::Submit { .. } => caller.check(Scope::Submit),
        // One that takes over what another has done is an operator's.
        Call::Start { workflow } if workflow.origin.is_some() || !workflow.carried.is_empty() => {
            caller.check(Scope::Admin)
        }
        Call::Start { workflow } if workflow.parent.is_some() => caller.check(Scope::Work),
        Call::Start { .. } => caller.check(Scope::Submit),
        Call::Register { .. } | Call::Heartbeat { .. } | Call::Deregister { .. } => caller.check(Scope::Work),
        Call::Turn { turn } => of_turn(turn).into_iter().try_for_each(|scope| caller.check(scope)),
        Call::Campaign { .. } | Call::Resign { .. } => {
            Err(Problem::forbidden("whoever works through a server does not lead; the server does"))
        }
        Call::Pause { .. }
        | Call::SetEntity { .. }
        | Call::SetSchedule { .. }
        | Call::RemoveSchedule { .. }
        | Call::Fire { .. }
        | Call::Define { .. }
        | Call::Steer { .. }
        | Call::Reconcile { .. }
        | Call::Prune { .. }
        | Call::PutAccessToken { .. }
        | Call::AccessTokens {}
        | Call::RevokeAccessToken { .. }
        | Call::Audit { .. }
        | Call::Audits { .. } => caller.check(Scope::Admin),
    }
}

fn worker_or_reader(caller: &Caller) -> Answered<()> {
    caller.check_any(&[Scope::Read, Scope::Work])
}

/// All that a turn needs.
fn of_turn(turn: &Turn) -> Vec<Scope> {
    let of_command = |command: &Command| match command {
        Command::Claim { .. }
        | Command::Start { .. }
        | Command::Report { .. }
        | Command::Finish { .. }
        | Command::Release { .. } => Scope::Work,
        Command::Cancel { .. }
        | Command::Retry { .. }
        | Command::Postpone { .. }
        | Command::Resolve { .. }
        | Command::Skip { .. }
        | Command::Promote { .. }
        | Command::Expire { .. }
        | Command::Delete { .. } => Scope::Admin,
    };
    let mut scopes: Vec<Scope> = turn.commands.iter().map(of_command).collect();
    scopes.extend(turn.term.map(|_| Scope::Admin));
    if turn.claim.is_some() || scopes.is_empty() {
        scopes.push(Scope::Work);
    }
    scopes.sort_unstable();
    scopes.dedup();
    scopes
}
