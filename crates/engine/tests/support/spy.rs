//! A store that is looked at, and that can be deaf: it writes down what it is asked and may hide what it
//! rings.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use windlass::{Command, Due, Error, Reconciled, Rings, Store, Turn, Turned, Wrap, Wrapped};

type Result<T, E = Error> = std::result::Result<T, E>;

/// The calls that are written down by their verb. Of a turn, its parts are.
const NOTED: [&str; 10] = [
    "submit",
    "register",
    "heartbeat",
    "deregister",
    "campaign",
    "resign",
    "fire",
    "reconcile",
    "prune",
    "close",
];

/// Who looks at a store. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spy(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    said: Mutex<Vec<String>>,
    /// Always among what is due.
    due: Mutex<Vec<Command>>,
    deaf: Option<watch::Sender<Rings>>,
    repairs: AtomicU64,
}

impl Spy {
    /// Looks at `store`.
    pub(crate) fn on(store: Arc<dyn Store>) -> (Self, Arc<dyn Store>) {
        let spy = Self::default();
        (spy.clone(), Arc::new(Wrapped::new(store, spy)))
    }

    /// Nothing is heard of what `store` rings.
    pub(crate) fn deaf(store: Arc<dyn Store>) -> Arc<dyn Store> {
        let deaf = Some(watch::Sender::default());
        Arc::new(Wrapped::new(store, Self(Arc::new(Inner { deaf, ..Inner::default() }))))
    }

    /// The next look of the reconcile chore will have put so much right.
    pub(crate) fn repair(&self, number: u64) {
        self.0.repairs.store(number, Ordering::SeqCst);
    }

    /// Adds commands that will always be due.
    pub(crate) fn always_due(&self, commands: impl IntoIterator<Item = Command>) {
        self.0.due.lock().unwrap().extend(commands);
    }

    /// What was asked: `claim`, `start`, `report`, `finish`, `release`, `promote`, … for the parts of turns;
    /// `resign`, `deregister`.
    pub(crate) fn said(&self) -> Vec<String> {
        self.0.said.lock().unwrap().clone()
    }

    /// How often something was asked.
    pub(crate) fn times(&self, word: &str) -> usize {
        self.0.said.lock().unwrap().iter().filter(|said| *said == word).count()
    }

    /// Forgets what was asked.
    pub(crate) fn forget(&self) {
        self.0.said.lock().unwrap().clear();
    }

    fn note(&self, word: &str) {
        self.0.said.lock().unwrap().push(word.into());
    }
}

fn word(command: &Command) -> &'static str {
    match command {
        Command::Claim { .. } => "take",
        Command::Start { .. } => "start",
        Command::Report { .. } => "report",
        Command::Finish { .. } => "finish",
        Command::Release { .. } => "release",
        Command::Cancel { .. } => "cancel",
        Command::Retry { .. } => "retry",
        Command::Postpone { .. } => "postpone",
        Command::Resolve { .. } => "resolve",
        Command::Skip { .. } => "skip",
        Command::Promote { .. } => "promote",
        Command::Expire { .. } => "expire",
        Command::Delete { .. } => "delete",
    }
}

#[async_trait::async_trait]
impl Wrap for Spy {
    async fn call<T: Send>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if NOTED.contains(&verb) {
            self.note(verb);
        }
        call.await
    }

    async fn turn(&self, inner: &dyn Store, turn: Turn) -> Result<Turned> {
        turn.commands.iter().for_each(|command| self.note(word(command)));
        if turn.claim.is_some() {
            self.note("claim");
        }
        inner.turn(turn).await
    }

    async fn due(&self, inner: &dyn Store, limit: usize) -> Result<Due> {
        let mut due = inner.due(limit).await?;
        let mut commands = self.0.due.lock().unwrap().clone();
        commands.append(&mut due.commands);
        commands.truncate(limit);
        if limit > 0 {
            self.note("due");
        }
        let next = due.next.filter(|_| commands.len() < limit);
        Ok(Due { commands, next, ..due })
    }

    async fn reconcile(&self, inner: &dyn Store, after: Option<String>, limit: usize) -> Result<Reconciled> {
        let found = inner.reconcile(after, limit).await?;
        Ok(Reconciled { repaired: found.repaired + self.0.repairs.swap(0, Ordering::SeqCst), ..found })
    }

    fn watch(&self, inner: &dyn Store) -> watch::Receiver<Rings> {
        self.0.deaf.as_ref().map_or_else(|| inner.watch(), watch::Sender::subscribe)
    }
}
