//! User code for a kind: how it is written, how it is found, and what is put around it.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::{Input, Invalid, Json, Name, Outcome};

use crate::context::Context;
use crate::error::TaskError;

/// A handler in progress.
pub type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A handler with its types erased.
type Erased = Arc<dyn Fn(Context) -> Running + Send + Sync>;

/// What is put around every handler.
type Around = Arc<dyn Fn(Context, Next) -> Running + Send + Sync>;

/// The handlers of a worker, what is put around them, and what they share.
#[derive(Clone, Default)]
pub(crate) struct Handlers {
    by_kind: BTreeMap<Name, Erased>,
    around: Vec<Around>,
    shared: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_kind.keys()).finish()
    }
}

impl Handlers {
    /// Adds a handler; a kind can have only one.
    pub(crate) fn add<O, F>(
        &mut self,
        kind: &str,
        handler: impl Fn(Context) -> F + Send + Sync + 'static,
    ) -> Result<(), Invalid>
    where
        O: Serialize,
        F: Future<Output = Result<O, TaskError>> + Send + 'static,
    {
        let kind = Name::kind(kind)?;
        if self.by_kind.contains_key(&kind) {
            return Err(Invalid::new("handler", &kind, "one handler for each kind; this one has two"));
        }
        let erased: Erased = Arc::new(move |context| {
            let running = handler(context);
            Box::pin(async move { running.await.map_or_else(TaskError::outcome, |output| done(&output)) })
        });
        self.by_kind.insert(kind, erased);
        Ok(())
    }

    /// Adds a handler of a typed input.
    pub(crate) fn add_typed<I, O, F>(
        &mut self,
        handler: impl Fn(Context, I) -> F + Send + Sync + 'static,
    ) -> Result<(), Invalid>
    where
        I: Input,
        O: Serialize,
        F: Future<Output = Result<O, TaskError>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.add(I::KIND, move |context| {
            let handler = handler.clone();
            async move {
                let input = decode(context.payload())?;
                handler(context, input).await
            }
        })
    }

    /// Puts something around all handlers, outside of what is there already.
    pub(crate) fn wrap<F>(&mut self, around: impl Fn(Context, Next) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.around.push(Arc::new(move |context, next| Box::pin(around(context, next))));
    }

    /// Gives all handlers something to share.
    pub(crate) fn share<T: Send + Sync + 'static>(&mut self, value: Arc<T>) {
        self.shared.insert(TypeId::of::<T>(), value);
    }

    /// What was shared of this type.
    pub(crate) fn shared<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.shared.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }

    /// The kinds that have handlers.
    pub(crate) fn kinds(&self) -> Vec<Name> {
        self.by_kind.keys().cloned().collect()
    }

    /// Runs the handler of the context's task, with everything around it.
    pub(crate) fn run(self: &Arc<Self>, context: Context) -> Running {
        Next { handlers: self.clone(), left: self.around.len() }.run(context)
    }
}

/// What is inside of something put around a handler: more of the kind, and finally the handler.
#[derive(Debug)]
pub struct Next {
    handlers: Arc<Handlers>,
    left: usize,
}

impl Next {
    /// Goes on inward.
    #[must_use]
    pub fn run(self, context: Context) -> Running {
        let Self { handlers, left } = self;
        if let Some(left) = left.checked_sub(1) {
            let around = handlers.around[left].clone();
            return around(context, Self { handlers, left });
        }
        match handlers.by_kind.get(&context.task().spec.kind) {
            Some(handler) => handler(context),
            None => {
                let error = format!("this worker has no handler for kind {:?}", &*context.task().spec.kind);
                Box::pin(async { TaskError::fail(error).outcome() })
            }
        }
    }
}

/// A payload as the handler's input. What does not decode never will, so it fails for good and names the
/// field.
fn decode<I: DeserializeOwned>(payload: &Json) -> Result<I, TaskError> {
    let mut reader = serde_json::Deserializer::from_str(payload.as_str());
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let field = error.path().to_string();
        let at = if field == "." { String::new() } else { format!(" at `{field}`") };
        TaskError::fail(format!("the payload does not fit the handler's input{at}: {}", error.inner()))
    })
}

fn done(output: &impl Serialize) -> Outcome {
    let text = serde_json::to_string(output).map_err(|error| error.to_string());
    match text.and_then(|text| Json::result(&text).map_err(|invalid| invalid.to_string())) {
        Ok(result) => Outcome::Completed { result },
        Err(why) => TaskError::fail(format!("the handler's output cannot be kept: {why}")).outcome(),
    }
}
