//! The engine on a store: where clients and workers come from.

use std::sync::Arc;

use windlass_store::{Result, Store, Wrapped};

use crate::address;
use crate::client::Client;
use crate::observe::Observe;
use crate::rules::Rules;
use crate::steps::Flows;
use crate::worker::WorkerBuilder;

/// Windlass on one store. Cheap to clone.
///
/// ```
/// use windlass::{Context, Input, TaskError, Windlass};
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Greet {
///     name: String,
/// }
/// impl Input for Greet {
///     const KIND: &'static str = "greet";
/// }
///
/// async fn greet(_context: Context, input: Greet) -> Result<String, TaskError> {
///     Ok(format!("hello {}", input.name))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let windlass = Windlass::open("memory:").await?;
/// let worker = windlass.worker().handle(greet).start().await?;
/// let client = windlass.client();
/// let submitted = client.submit(&Greet { name: "Ada".into() }).await?;
/// let greeting: String = client.wait(submitted.id).await?.output()?;
/// assert_eq!(greeting, "hello Ada");
/// worker.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Windlass {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) rules: Arc<Rules>,
    /// What its clients and workers know of workflows.
    flows: Arc<Flows>,
}

impl Windlass {
    /// On the store at an address: `memory:`, `sqlite:PATH`, `sqlite:PATH?durability=normal`,
    /// `postgres://USER:PASSWORD@HOST/DATABASE?schema=windlass`, or `http://HOST:PORT` for a server
    /// ([`open`](crate::open) says more).
    pub async fn open(address: &str) -> Result<Self> {
        Ok(Self::new(address::open(address).await?))
    }

    /// On a store that is open.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store: Arc::new(Wrapped::new(store, Observe)), rules: Arc::default(), flows: Arc::default() }
    }

    /// With rules for kinds, which clients and workers from here on hold tasks to.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = Arc::new(rules);
        self
    }

    /// A client.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self.store.clone(), self.rules.clone(), self.flows.clone())
    }

    /// A worker to be: give it handlers, then start it.
    pub fn worker(&self) -> WorkerBuilder {
        WorkerBuilder::new(self.client())
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Ends what is in progress in the store and closes it. Stop the workers first.
    pub async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}
