//! A store that fails on plan: before a call, after it, or by never answering.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use windlass::{Error, Store, Wrap, Wrapped};

use super::pass;

/// What is done to a call.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It is not made, and this is the answer.
    Before(Error),
    /// It is made, and this is the answer all the same.
    After(Error),
    /// It is made, and the answer takes this long.
    Late(Duration),
    /// It is not made, and there is no answer.
    Silence,
}

/// The store is down.
pub(crate) fn down() -> Fault {
    Fault::Before(Error::Unavailable("down on purpose".into()))
}

/// The call is made, and the answer lost.
pub(crate) fn lost() -> Fault {
    Fault::After(Error::Unknown("lost on purpose".into()))
}

/// The call is not made, and nobody knows.
pub(crate) fn unsent() -> Fault {
    Fault::Before(Error::Unknown("lost on purpose".into()))
}

/// Which calls of a store fail, and how often each was made. Clones are the same plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    always: Vec<(Vec<&'static str>, Fault)>,
    once: Vec<(&'static str, Fault)>,
    calls: BTreeMap<&'static str, usize>,
    refusals: Vec<(&'static str, &'static str)>,
}

impl Plan {
    /// A plan around `store`.
    pub(crate) fn around(store: Arc<dyn Store>) -> (Self, Arc<dyn Store>) {
        let plan = Self::default();
        (plan.clone(), Arc::new(Wrapped::new(store, plan)))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// From now on all calls of these verbs, or of all if none is named, meet this.
    pub(crate) fn set(&self, verbs: &[&'static str], fault: Fault) {
        self.inner().always.push((verbs.to_vec(), fault));
    }

    /// The next call of this verb meets this; said again, the one after that.
    pub(crate) fn once(&self, verb: &'static str, fault: Fault) {
        self.inner().once.push((verb, fault));
    }

    /// From now on nothing fails.
    pub(crate) fn mend(&self) {
        self.inner().always.clear();
    }

    /// How often a verb was called.
    pub(crate) fn calls(&self, verb: &str) -> usize {
        self.inner().calls.get(verb).copied().unwrap_or(0)
    }

    /// How often each verb was called, since this was last asked.
    pub(crate) fn take_calls(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut self.inner().calls)
    }

    /// Which calls were refused, and with which code.
    pub(crate) fn refusals(&self) -> Vec<(&'static str, &'static str)> {
        self.inner().refusals.clone()
    }

    fn meet(&self, verb: &'static str) -> Option<Fault> {
        let mut inner = self.inner();
        *inner.calls.entry(verb).or_default() += 1;
        if let Some(at) = inner.once.iter().position(|(wanted, _)| *wanted == verb) {
            return Some(inner.once.remove(at).1);
        }
        let met = inner.always.iter().find(|(verbs, _)| verbs.is_empty() || verbs.contains(&verb));
        met.map(|(_, fault)| fault.clone())
    }
}

#[async_trait::async_trait]
impl Wrap for Plan {
    async fn call<T: Send>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let answer = match self.meet(verb) {
            None => call.await,
            Some(Fault::Before(error)) => Err(error),
            Some(Fault::After(error)) => call.await.and(Err(error)),
            Some(Fault::Late(delay)) => {
                let answer = call.await;
                pass(delay).await;
                answer
            }
            Some(Fault::Silence) => std::future::pending().await,
        };
        if let Err(error) = &answer
            && error.rejected().is_some()
        {
            self.inner().refusals.push((verb, error.code()));
        }
        answer
    }
}
