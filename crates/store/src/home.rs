//! The thread that connections live on. No handler can starve it, and whatever becomes of a caller, its call
//! goes on.

use std::thread;

use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};

use crate::error::{Error, Result};

/// Something to do there.
type Errand = Box<dyn FnOnce() + Send>;

/// The thread; it ends, with all that is in progress, when this is dropped.
#[derive(Debug)]
pub(crate) struct Home(mpsc::UnboundedSender<Errand>);

impl Home {
    /// A thread with this name.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let failed = |error| Error::Unavailable(format!("no thread for connections: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (errands, mut to_do) = mpsc::unbounded_channel::<Errand>();
        let living = async move {
            while let Some(errand) = to_do.recv().await {
                errand();
            }
        };
        let thread = thread::Builder::new().name(name.into());
        thread.spawn(move || LocalSet::new().block_on(&runtime, living)).map_err(failed)?;
        Ok(Self(errands))
    }

    /// Has `call` done.
    pub(crate) async fn run<T: Send + 'static, F: Future<Output = Result<T>> + 'static>(
        &self,
        call: impl FnOnce() -> F + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let errand = move || {
            let doing = call();
            // A caller who went away does not want the answer.
            spawn_local(async move { drop(answer.send(doing.await)) });
        };
        self.0.send(Box::new(errand)).map_err(|_| Error::Closed)?;
        let stopped = |_| Err(Error::Unknown("the call was stopped by a bug".into()));
        answered.await.unwrap_or_else(stopped)
    }

    /// The same for what need not be done if nobody waits for it any more.
    #[cfg(feature = "remote")]
    pub(crate) async fn run_while_wanted<T: Send + 'static, F: Future<Output = Result<T>> + 'static>(
        &self,
        call: impl FnOnce() -> F + Send + 'static,
    ) -> Result<T> {
        let (mut answer, answered) = oneshot::channel();
        let errand = move || {
            let doing = call();
            spawn_local(async move {
                tokio::select! {
                    biased;
                    () = answer.closed() => {}
                    done = doing => drop(answer.send(done)),
                }
            });
        };
        self.0.send(Box::new(errand)).map_err(|_| Error::Closed)?;
        let stopped = |_| Err(Error::Unavailable("the call was stopped by a bug".into()));
        answered.await.unwrap_or_else(stopped)
    }

    /// Has something done that nobody waits for.
    #[cfg(feature = "remote")]
    pub(crate) fn spawn(&self, doing: impl Future<Output = ()> + Send + 'static) {
        // A thread that is gone does nothing more.
        let _ = self.0.send(Box::new(move || drop(spawn_local(doing))));
    }
}
