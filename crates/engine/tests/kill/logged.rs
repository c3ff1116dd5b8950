//! What writes down what is asked of a store and what it answers, and says so aloud, for the checker and the
//! watcher.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use windlass::{
    Command, Firing, NewTask, NewWorkflow, Retention, Started, Store, Submitted, Term, Turn, Turned,
    Windlass, Wrap, Wrapped,
};
use windlass_store::conformance::checker::{Journal, Op};
use windlass_store::{Error, Result};

use super::gates::{Gates, say};

/// The log of a store, and the places where its caller may have to wait.
#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) journal: Journal,
    pub(crate) gates: Arc<Gates>,
    /// Whether to say aloud what happens.
    pub(crate) aloud: bool,
}

impl Logged {
    /// A log of everything that is asked of a store.
    pub(crate) fn quiet(journal: Journal) -> Self {
        Self { journal, gates: Arc::default(), aloud: false }
    }

    /// The engine on `inner`, with this in between.
    pub(crate) fn around(self, inner: Arc<dyn Store>) -> Windlass {
        Windlass::new(Arc::new(Wrapped::new(inner, self)))
    }

    fn say(&self, line: &str) {
        if self.aloud {
            say(line);
        }
    }
}

#[async_trait]
impl Wrap for Logged {
    async fn call<T: Send>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let answer = match verb {
            "heartbeat" => {
                self.gates.heartbeats.fetch_add(1, Ordering::SeqCst);
                call.await
            }
            "deregister" | "resign" => {
                self.gates.reach(&format!("before {verb}")).await;
                let answer = call.await;
                self.gates.reach(&format!("after {verb}")).await;
                answer
            }
            _ => call.await,
        };
        if let Err(error @ (Error::Unavailable(_) | Error::Unknown(_))) = &answer {
            *self.gates.troubles.lock().unwrap().entry((verb, error.code())).or_default() += 1;
        }
        answer
    }

    async fn submit(&self, inner: &dyn Store, tasks: Vec<NewTask>) -> Result<Vec<Submitted>> {
        self.journal.submit(inner, tasks).await
    }

    async fn turn(&self, inner: &dyn Store, turn: Turn) -> Result<Turned> {
        for command in &turn.commands {
            if matches!(command, Command::Finish { .. }) && self.gates.is_held_back(command.task()) {
                let task = command.task().to_string();
                say(&format!("holding {task}"));
                self.gates.pass(&task).await;
            }
        }
        let commands = turn.commands.clone();
        if !commands.is_empty() {
            self.say("telling");
            self.gates.reach("before turn").await;
        }
        let turned = self.journal.turn(inner, turn).await?;
        if !commands.is_empty() {
            self.say("told");
            self.gates.reach("after turn").await;
        }
        for (command, receipt) in commands.iter().zip(&turned.receipts) {
            if let (Command::Finish { token, .. }, Err(rejected)) = (command, receipt) {
                say(&format!("refused {} {} {}", token.task, token.lease, rejected.code()));
            }
        }
        if turned.claimed.as_ref().is_ok_and(|claimed| !claimed.is_empty()) {
            self.say("claimed");
        }
        Ok(turned)
    }

    async fn start(&self, inner: &dyn Store, workflow: NewWorkflow) -> Result<Started> {
        self.say("telling");
        let started = self.journal.start(inner, workflow).await;
        self.say("told");
        started
    }

    /// A schedule's submit is a submit like any other.
    async fn fire(&self, inner: &dyn Store, firing: Firing, term: Option<Term>) -> Result<Vec<Submitted>> {
        let pending = self.journal.invoke(Op::submit(&firing.tasks));
        let submitted = inner.fire(firing, term).await;
        pending.end(submitted.as_ref().map(Vec::as_slice));
        submitted
    }

    async fn prune(&self, inner: &dyn Store, retention: Retention, limit: usize) -> Result<usize> {
        self.journal.prune(inner, &retention, limit).await
    }
}
