//! Who calls, and what they may do.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use windlass::access::Scope;
use windlass::{AccessToken, By, Name, WorkerSecret};

use super::{Answered, App, Problem};

/// How one is called who needs no token.
const ANYBODY: &str = "anybody";

/// Who calls. Without tokens, which is possible on this machine alone, anybody may do anything.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    token: Option<Arc<AccessToken>>,
    /// On whose behalf it says that it acts, and why.
    by: By,
    /// What it sent as the secret of the worker that it is.
    worker_secret: Option<WorkerSecret>,
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Answered<Self> {
        // Whoever gets as far as a route has passed the guard.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Problem::forbidden("it is not known who calls"))
    }
}

/// Lets only those through who may use a group of routes: any of the scopes will do.
pub(super) async fn require(scopes: &[Scope], request: Request, next: Next) -> Response {
    let allowed = match request.extensions().get::<Caller>() {
        Some(caller) => caller.check_any(scopes),
        None => Err(Problem::forbidden("it is not known who calls")),
    };
    match allowed {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Caller {
    /// One who needs no token.
    pub(super) fn anybody() -> Self {
        Self { token: None, by: By::default(), worker_secret: None }
    }

    /// One whose token was recognised.
    pub(super) fn with(token: Arc<AccessToken>) -> Self {
        Self { token: Some(token), by: By::default(), worker_secret: None }
    }

    /// The same, with the secret of a worker.
    pub(crate) fn with_worker_secret(self, secret: Option<WorkerSecret>) -> Self {
        Self { worker_secret: secret, ..self }
    }

    /// The secret of a worker that it sent.
    pub(crate) fn worker_secret(&self) -> Option<&WorkerSecret> {
        self.worker_secret.as_ref()
    }

    pub(super) fn is_anybody(&self) -> bool {
        self.token.is_none()
    }

    /// What it was recognised by, if that was needed.
    pub(super) fn token(&self) -> Option<&AccessToken> {
        self.token.as_deref()
    }

    /// What the history and the audit call it.
    pub(super) fn name(&self) -> &str {
        self.token.as_ref().map_or(ANYBODY, |token| &token.name)
    }

    /// What requests are counted by.
    pub(super) fn id(&self) -> &str {
        self.token.as_ref().map_or(ANYBODY, |token| &token.id)
    }

    /// Whether it may do such things.
    pub(crate) fn check(&self, scope: Scope) -> Answered<()> {
        match &self.token {
            Some(token) if !token.allows(scope) => {
                let has: Vec<_> = token.scopes.iter().map(|scope| scope.word()).collect();
                Err(Problem::forbidden(format!(
                    "the token {:?} is for {}; this needs {scope}",
                    &*token.name,
                    has.join(", ")
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether it may do any of these; the refusal is that of the first.
    pub(crate) fn check_any(&self, scopes: &[Scope]) -> Answered<()> {
        let mut checks = scopes.iter().map(|scope| self.check(*scope));
        let first = checks.next().unwrap_or(Ok(()));
        first.or_else(|refused| if checks.any(|check| check.is_ok()) { Ok(()) } else { Err(refused) })
    }

    /// Whether only some queues are open to it.
    pub(crate) fn is_limited(&self) -> bool {
        let all = |token: &AccessToken| {
            token.queues.is_empty() || token.queues.iter().any(|pattern| pattern.as_str() == "*")
        };
        self.token.as_ref().is_some_and(|token| !all(token))
    }

    /// Whether a queue is open to it.
    pub(crate) fn check_queue(&self, queue: &Name) -> Answered<()> {
        match &self.token {
            Some(token) if !token.allows_queue(queue) => {
                Err(self.kept_from(&format!("the queue {:?}", &**queue)))
            }
            _ => Ok(()),
        }
    }

    /// Whether all queues are open to it.
    pub(crate) fn check_unlimited(&self) -> Answered<()> {
        if self.is_limited() {
            Err(self.kept_from("what is not of one queue; name one, if that can be"))
        } else {
            Ok(())
        }
    }

    pub(super) fn kept_from(&self, what: &str) -> Problem {
        let queues: Vec<_> =
            self.token.iter().flat_map(|token| &token.queues).map(ToString::to_string).collect();
        let (name, queues) = (self.name(), queues.join(", "));
        Problem::forbidden(format!("the token {name:?} is for the queues {queues}, and not for {what}"))
    }

    /// The same, acting on somebody's behalf and for a reason.
    pub(crate) fn because(self, actor: Option<String>, reason: Option<String>) -> Self {
        Self { by: By { actor, note: reason }, ..self }
    }

    /// The name that it acts under: the token's, and on whose behalf it says that it acts. Without tokens, the name that it says.
    pub(crate) fn actor(&self, behalf: Option<&str>) -> Option<String> {
        match (&self.token, behalf.or(self.by.actor.as_deref())) {
            (None, behalf) => behalf.map(Into::into),
            (Some(token), None) => Some(token.name.to_string()),
            (Some(token), Some(behalf)) => Some(format!("{} for {behalf}", token.name)),
        }
    }

    /// Why it acts, for the history.
    pub(crate) fn reason(&self) -> Option<String> {
        self.by.note.clone()
    }

    /// Who acts and why, where a verb does not say it.
    pub(super) fn explained(&self, by: By) -> By {
        By { actor: by.actor.or_else(|| self.actor(None)), note: by.note.or_else(|| self.reason()) }
    }
}
