//! Which run this is: one that was stopped and goes on, one that failed and is tried again, or a new one.
//!
//! A run has a key: the file, the input, the version of the definition, and a number. So the same command
//! finds the run that it began, and two that are typed at the same moment are one.

use std::path::Path;

use anyhow::{Result, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
use uuid::Uuid;
use windlass::{
    By, Client, Definition, Entity, Error, Json, Name, Page, Rejected, Steering, Store, WorkerId, Workflow,
    WorkflowFilter, WorkflowId, WorkflowState, limits,
};

use super::flow::Flow;
use super::voice::Voice;
use crate::work::farewell;
use crate::{actor, trace};

/// What the ids of workers of `windlass run` end with.
pub(crate) const MARK: &str = "-run";

/// A run that somebody wants.
#[derive(Debug)]
pub(crate) struct Wish<'a> {
    name: &'a Name,
    version: &'a str,
    input: &'a Json,
    /// What the keys of all runs of the file begin with.
    file: String,
    /// What the keys of those with this input begin with.
    same_input: String,
    namespace: Name,
    /// Whether the store has nothing but runs of this file.
    is_private: bool,
}

/// The run that was found or started.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) id: WorkflowId,
    pub(crate) name: Name,
    pub(crate) version: String,
    /// Whether it began before.
    pub(crate) goes_on: bool,
    /// Whether it is over, and nobody was told how it ended.
    pub(crate) is_over: bool,
}

/// Whether a workflow's key begins so.
fn begins(workflow: &Workflow, with: &str) -> bool {
    workflow.key.as_ref().is_some_and(|key| key.starts_with(with))
}

fn by(note: &str) -> By {
    By { actor: actor::from_environment(), note: Some(note.into()) }
}

fn digest(text: &[u8]) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, text).simple().to_string()
}

impl<'a> Wish<'a> {
    pub(crate) fn new(
        path: &Path,
        name: &'a Name,
        version: &'a str,
        input: &'a Json,
        namespace: Name,
        is_private: bool,
    ) -> Self {
        let file = format!("run {} ", digest(path.as_os_str().as_encoded_bytes()));
        // However it is written: without blanks, and with sorted keys.
        let value: serde_json::Value = serde_json::from_str(input.as_str()).unwrap_or_default();
        let same_input = format!("{file}{} ", digest(value.to_string().as_bytes()));
        Self { name, version, input, file, same_input, namespace, is_private }
    }

    /// What the keys of all runs that this command may go on with begin with.
    fn base(&self) -> String {
        format!("{}{} #", self.same_input, self.version)
    }

    /// Runs of this file that are in one of these states, newest first.
    async fn runs(&self, client: &Client, states: Vec<WorkflowState>) -> Result<Vec<Workflow>> {
        let namespace = Some(self.namespace.clone());
        let name = (!self.is_private).then(|| self.name.clone());
        let filter = WorkflowFilter { states, namespace, name, parent: None };
        let mut page = Page { limit: limits::PAGE, ..Page::default() };
        let mut found = Vec::new();
        loop {
            let listing = client.workflows(filter.clone(), page).await?;
            let is_ours =
                |workflow: &Workflow| workflow.key.as_ref().is_some_and(|key| key.starts_with(&self.file));
            found.extend(listing.workflows.into_iter().filter(is_ours));
            page.after = listing.next;
            if page.after.is_none() {
                return Ok(found);
            }
        }
    }

    /// The unfinished run, or a new one. With `fresh` always a new one: what is unfinished with this input is
    /// cancelled.
    pub(crate) async fn started(&self, client: &Client, fresh: bool, voice: &mut Voice) -> Result<Chosen> {
        let unfinished = WorkflowState::ALL.into_iter().filter(|state| !state.is_settled()).collect();
        let mut unfinished = self.runs(client, unfinished).await?;
        if fresh {
            // What was not shown is not wanted any more.
            if let Some(id) = self.last_unshown(client).await? {
                set_unshown(client, &self.namespace, id, false).await?;
            }
            for workflow in unfinished.extract_if(.., |workflow| begins(workflow, &self.same_input)) {
                client.steer(workflow.id, Steering::Cancel, by("started over")).await?;
                voice.warn(&format!("run {} is cancelled", workflow.id));
            }
        }
        let base = self.base();
        let mut ours = None;
        for workflow in unfinished.extract_if(.., |workflow| begins(workflow, &base)).collect::<Vec<_>>() {
            // One that has failed within the workflows that it waits for is over, as far as this command is
            // concerned.
            let is_over = workflow.state == WorkflowState::WaitingForDependencies
                && Flow::of(client, workflow.id).await?.is_settled();
            if ours.is_none() && !is_over {
                ours = Some(workflow);
            }
        }
        if self.is_private && !others_work(client).await? {
            set_aside(client, &unfinished, voice).await?;
        }
        match ours {
            Some(workflow) => {
                if workflow.paused {
                    client.steer(workflow.id, Steering::Resume, by("its command was given again")).await?;
                }
                Ok(self.chosen(workflow.id, true))
            }
            None => match self.last_unshown(client).await? {
                Some(id) => Ok(Chosen { is_over: true, ..self.chosen(id, true) }),
                None => self.anew(client, &base).await,
            },
        }
    }

    fn chosen(&self, id: WorkflowId, goes_on: bool) -> Chosen {
        Chosen { id, name: self.name.clone(), version: self.version.into(), goes_on, is_over: false }
    }

    /// The last run that this command may go on with, if it is over and its end was not shown: whoever ran it
    /// was killed before.
    async fn last_unshown(&self, client: &Client) -> Result<Option<WorkflowId>> {
        let base = self.base();
        let last = self.free_number(client, &base).await? - 1;
        let key = format!("{base}{last}");
        let Some(id) =
            client.store().find_workflow(self.namespace.clone(), self.name.clone(), key.clone()).await?
        else {
            return Ok(None);
        };
        let is_unshown = client.store().has_entity(self.namespace.clone(), mark(id)).await?;
        Ok(Some(id).filter(|_| is_unshown))
    }

    /// Starts a run with the next number.
    async fn anew(&self, client: &Client, base: &str) -> Result<Chosen> {
        let mut number = self.free_number(client, base).await?;
        loop {
            let start = client.start(self.name).version(self.version).input_json(self.input.as_str());
            let start = start.key(format!("{base}{number}"));
            let start = match trace::from_environment() {
                Some(traceparent) => start.traceparent(traceparent),
                None => start,
            };
            let started = match actor::from_environment() {
                Some(actor) => start.actor(actor).await?,
                None => start.await?,
            };
            // Somebody may have been quicker with the same command; then it is one run, unless it is over
            // already.
            if started.created || !started.state.is_settled() {
                return Ok(self.chosen(started.id, !started.created));
            }
            number += 1;
        }
    }

    /// A number that no run has. Looks at few: numbers are given in order, and where old runs were deleted
    /// any will do.
    async fn free_number(&self, client: &Client, base: &str) -> Result<u64> {
        let is_taken = async |number: u64| -> Result<bool> {
            let key = format!("{base}{number}");
            Ok(client
                .store()
                .find_workflow(self.namespace.clone(), self.name.clone(), key.clone())
                .await?
                .is_some())
        };
        let (mut taken, mut free) = (0, 1);
        while is_taken(free).await? {
            (taken, free) = (free, free * 2);
        }
        while free - taken > 1 {
            let middle = taken + (free - taken) / 2;
            if is_taken(middle).await? { taken = middle } else { free = middle }
        }
        Ok(free)
    }

    /// The last run that failed, with its failed steps to be tried again.
    pub(crate) async fn retried(&self, client: &Client) -> Result<Chosen> {
        use WorkflowState::{BlockedByFailures, Error, WaitingForDependencies};
        let failed = self.runs(client, vec![BlockedByFailures, Error, WaitingForDependencies]).await?;
        let base = self.base();
        for workflow in failed.iter().filter(|workflow| begins(workflow, &base)) {
            let flow = Flow::of(client, workflow.id).await?;
            if flow.is_settled() {
                for task in flow.to_retry() {
                    client.retry(task, true, by("windlass run --retry")).await?;
                }
                return Ok(self.chosen(workflow.id, true));
            }
        }
        Err(anyhow!(
            "no run of this file, as it is now, with this input has failed; start one without --retry"
        ))
    }
}

/// What is registered in the store from the start of a run until its end was shown.
fn mark(id: WorkflowId) -> Entity {
    Entity::stored(format!("windlass-run:{id}"))
}

/// Remembers that the end of a run is still to be shown; or, when it was, forgets that. Who may not, which a
/// server decides, does without.
pub(crate) async fn set_unshown(
    client: &Client,
    namespace: &Name,
    id: WorkflowId,
    is_unshown: bool,
) -> Result<()> {
    match client.store().set_entity(namespace.clone(), mark(id), is_unshown).await {
        Ok(_) | Err(Error::Forbidden(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Keeps the definition and gives its version. Where nobody else refers to versions, a file that was changed
/// but says the same version is no reason to refuse.
pub(crate) async fn define(
    client: &Client,
    definition: &Definition,
    is_private: bool,
    voice: &mut Voice,
) -> Result<String> {
    match client.define(definition.clone()).await {
        Ok(defined) => Ok(defined.version),
        Err(Error::Rejected(Rejected::DefinitionConflict { version, .. })) if is_private => {
            let defined = client.define(Definition { version: None, ..definition.clone() }).await?;
            voice.warn(&format!(
                "version {version} was something else before; this one is kept as version {}",
                defined.version
            ));
            Ok(defined.version)
        }
        Err(error) => Err(error.into()),
    }
}

/// Pauses runs that are not wanted now, so that their steps do not run beside.
async fn set_aside(client: &Client, others: &[Workflow], voice: &mut Voice) -> Result<()> {
    for workflow in others.iter().filter(|workflow| !workflow.paused) {
        client.steer(workflow.id, Steering::Pause, by("another run of the file began")).await?;
        voice.warn(&format!(
            "run {} of {} (version {}) is unfinished and paused: its own file and input let it go on, --fresh cancels it",
            workflow.id, workflow.name, workflow.version
        ));
    }
    Ok(())
}

/// Whether another `windlass run` works on the same store.
async fn others_work(client: &Client) -> Result<bool> {
    let now = client.store().now().await?;
    Ok(client
        .workers()
        .await?
        .iter()
        .any(|worker| worker.id.as_str().ends_with(MARK) && worker.is_alive(now)))
}

/// Lets go what runs that were killed on this machine held, instead of when they count as dead.
pub(crate) async fn bury_the_dead(store: &dyn Store, own: &WorkerId) -> Result<()> {
    let Some((host, _)) = host_and_process(own.as_str()) else { return Ok(()) };
    for worker in store.workers().await? {
        let Some((its_host, process)) = host_and_process(worker.id.as_str()) else { continue };
        if its_host == host && is_gone(process) {
            farewell(store, &worker.id).await?;
        }
    }
    Ok(())
}

/// Whether a process of this machine has ended, even if nobody has taken note of that yet.
fn is_gone(process: &str) -> bool {
    let Some(id) = process.parse().ok().and_then(Pid::from_raw) else { return false };
    match pidfd_open(id, PidfdFlags::empty()) {
        Ok(process) => {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&now)) == Ok(1)
        }
        Err(Errno::SRCH) => true,
        // Where processes cannot be watched.
        Err(_) => test_kill_process(id) == Err(Errno::SRCH),
    }
}

/// From the id of a worker of `windlass run`: `host-process-random-run`.
fn host_and_process(id: &str) -> Option<(&str, &str)> {
    let (rest, _random) = id.strip_suffix(MARK)?.rsplit_once('-')?;
    let (host, process) = rest.rsplit_once('-')?;
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some((host, process))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_files_inputs_and_versions_apart() {
        let name = Name::default();
        let wish = |path: &str, input: &str, version: &str| {
            Wish::new(Path::new(path), &name, version, &Json::stored(input), Name::default(), true).base()
        };
        let base = wish("/a/flow.yaml", r#"{"a": 1, "b": 2}"#, "1");
        assert_eq!(base, wish("/a/flow.yaml", r#"{"b":2,"a":1}"#, "1"));
        for other in [
            wish("/b/flow.yaml", r#"{"a": 1, "b": 2}"#, "1"),
            wish("/a/flow.yaml", r#"{"a": 1, "b": 3}"#, "1"),
            wish("/a/flow.yaml", r#"{"a": 1, "b": 2}"#, "11"),
        ] {
            assert!(!other.starts_with(&base) && !base.starts_with(&other), "{other}");
        }
        let longest = wish("/a", "{}", &"v".repeat(limits::VERSION_BYTES));
        assert!(longest.len() + 20 <= limits::KEY_BYTES, "{longest}");
    }

    #[test]
    fn a_process_that_has_ended_is_gone_though_nobody_took_note() {
        assert!(!is_gone(&std::process::id().to_string()));
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let id = child.id().to_string();
        assert!(!is_gone(&id));
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        drop(child.stdin.take());
        poll(&mut [PollFd::new(&process, PollFlags::IN)], None).unwrap();
        assert!(is_gone(&id), "a zombie");
        child.wait().unwrap();
        assert!(is_gone(&id) && !is_gone("x"));
    }

    #[test]
    fn a_worker_of_a_run_tells_its_process() {
        assert_eq!(host_and_process("my-host-123-abc-run"), Some(("my-host", "123")));
        for other in ["my-host-123-abc", "run", "a-b-run", "h-1x-abc-run", "h--abc-run"] {
            assert_eq!(host_and_process(other), None, "{other}");
        }
    }
}
