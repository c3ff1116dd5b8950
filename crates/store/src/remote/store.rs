//! The store that programs open: the calls of [`RemoteCalls`], with the four verbs that are done differently
//! here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::{Blueprint, Leadership, Term, Timestamp, WorkerId, WorkflowId};

use super::client::RemoteCalls;
use super::protocol::{SentBlueprint, SentWorkflow};
use super::transport::Transport;
use crate::error::{Error, Result};
use crate::verbs::{ConnectionCall, Store, Wrap};
use crate::workflow::WorkflowRecord;
use crate::wrap::Wrapped;

/// A server as a store.
pub type RemoteStore = Wrapped<RemoteOverrides>;

/// Workflows whose blueprints are remembered.
const FOLLOWED: usize = 256;

/// What a server tells of its store under the same name; the rest is told together.
const PASSED_ON: [&str; 3] = ["durability", "wake-up", "in the way"];

/// What a remote store does itself.
#[derive(Debug)]
pub struct RemoteOverrides {
    calls: Arc<RemoteCalls>,
    /// What workflows follow, with when they were created: that never changes.
    followed: Mutex<HashMap<WorkflowId, (Timestamp, Arc<Blueprint>)>>,
    /// Whether this process may lead, as only tests may.
    pub(super) leads: bool,
}

impl Wrapped<RemoteOverrides> {
    /// Connects, and asks the server what it is.
    pub(super) async fn open(transport: Arc<dyn Transport>, patience: Duration) -> Result<Self> {
        let calls = Arc::new(RemoteCalls::open(transport, patience).await?);
        let overrides = RemoteOverrides { calls: calls.clone(), followed: Mutex::default(), leads: false };
        Ok(Self::new(calls, overrides))
    }

    /// A store whose server is `store` in this very process, for tests. Its user may lead: there is no server
    /// that does.
    #[cfg(feature = "conformance")]
    pub async fn in_process(store: Arc<dyn Store>) -> Result<Self> {
        let transport = Arc::new(super::loopback::Loopback::new(store));
        let mut store = Self::open(transport, super::options::ANSWER).await?;
        store.wrap.leads = true;
        Ok(store)
    }
}

impl RemoteOverrides {
    fn followed(&self, id: WorkflowId) -> Option<(Timestamp, Arc<Blueprint>)> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn follow(&self, id: WorkflowId, created: Timestamp, blueprint: &Arc<Blueprint>) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if followed.len() >= FOLLOWED {
            followed.clear();
        }
        followed.insert(id, (created, blueprint.clone()));
    }
}

#[async_trait]
impl Wrap for RemoteOverrides {
    /// The server leads, or another one of the same store.
    async fn campaign(
        &self,
        inner: &dyn Store,
        candidate: WorkerId,
        lease: Duration,
    ) -> Result<Option<Leadership>> {
        if self.leads {
            return inner.campaign(candidate, lease).await;
        }
        self.calls.check_open().await.map(|()| None)
    }

    async fn resign(&self, inner: &dyn Store, candidate: WorkerId, term: Term) -> Result<()> {
        if self.leads {
            return inner.resign(candidate, term).await;
        }
        self.calls.check_open().await
    }

    async fn workflow(&self, _: &dyn Store, id: WorkflowId) -> Result<Option<WorkflowRecord>> {
        let known = self.followed(id);
        let call = ConnectionCall::GetWorkflow { id, known: known.as_ref().map(|(created, _)| *created) };
        let Some(sent) = self.calls.ask_connection::<Option<SentWorkflow>>(call).await? else {
            return Ok(None);
        };
        let SentWorkflow { workflow, blueprint, input, history } = sent;
        let known = known.map(|(_, blueprint)| blueprint);
        let Some(blueprint) = blueprint.map(|SentBlueprint(blueprint)| blueprint).or(known) else {
            return Err(Error::Unusable("the server did not say what the workflow follows".into()));
        };
        self.follow(id, workflow.created_at, &blueprint);
        Ok(Some(WorkflowRecord { workflow, blueprint, input, history }))
    }

    async fn describe(&self, inner: &dyn Store) -> Result<Vec<(String, String)>> {
        let (passed_on, rest): (Vec<_>, Vec<_>) =
            inner.describe().await?.into_iter().partition(|(name, _)| PASSED_ON.contains(&&**name));
        let rest: Vec<_> = rest.into_iter().map(|(name, value)| format!("{name} {value}")).collect();
        let mut described = vec![
            ("store".into(), "server".into()),
            ("server".into(), self.calls.place()),
            ("server version".into(), self.calls.version().into()),
            ("behind it".into(), rest.join(", ")),
        ];
        described.extend(passed_on);
        Ok(described)
    }
}
