//! Who calls, and what they may do.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use windlass::access::Scope;
use windlass::{AccessToken, By, Name, NamePattern, WorkerSecret};

use super::{Answered, App, Problem};

/// How one is called who needs no token.
const ANYBODY: &str = "anybody";

/// Who calls. Without tokens, which is possible on this machine alone, anybody may do anything.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    token: Option<Arc<AccessToken>>,
    /// The id of the secret that was sent: a token that was rotated has several.
    secret: String,
    /// On whose behalf it says that it acts, and why.
    by: By,
    /// What it sent as the secret of the worker that it is.
    worker_secret: Option<WorkerSecret>,
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Answered<Self> {
        // A request that reaches a route has passed the guard.
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
        Self { token: None, secret: String::new(), by: By::default(), worker_secret: None }
    }

    /// One whose token was recognised.
    pub(super) fn with(token: Arc<AccessToken>, secret: &str) -> Self {
        Self { token: Some(token), secret: secret.into(), by: By::default(), worker_secret: None }
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

    /// What it was recognised by, if that was needed: the token, and the id of its secret.
    pub(super) fn token(&self) -> Option<(&AccessToken, &str)> {
        Some((self.token.as_deref()?, &self.secret))
    }

    /// What the history and the audit call it.
    pub(super) fn name(&self) -> &str {
        self.token.as_ref().map_or(ANYBODY, |token| &token.name)
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

    /// Whether only some queues or namespaces are open to it.
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited_to_queues() || self.limits(|token| &token.namespaces)
    }

    /// Whether only some queues are open to it.
    pub(crate) fn is_limited_to_queues(&self) -> bool {
        self.limits(|token| &token.queues)
    }

    fn limits(&self, patterns: impl Fn(&AccessToken) -> &[NamePattern]) -> bool {
        self.token.as_deref().map(patterns).is_some_and(|patterns| {
            !patterns.is_empty() && patterns.iter().all(|pattern| pattern.as_str() != "*")
        })
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

    /// Whether a namespace is open to it.
    pub(crate) fn check_namespace(&self, namespace: &Name) -> Answered<()> {
        match &self.token {
            Some(token) if !token.allows_namespace(namespace) => {
                Err(self.kept_from(&format!("the namespace {:?}", &**namespace)))
            }
            _ => Ok(()),
        }
    }

    /// Whether all of some queues of a namespace are open to it. A worker that takes from no queue, as a
    /// server does, is of none.
    pub(crate) fn check_queues(&self, namespace: &Name, queues: &[Name]) -> Answered<()> {
        if queues.is_empty() {
            return self.check_unlimited();
        }
        self.check_namespace(namespace)?;
        queues.iter().try_for_each(|queue| self.check_queue(queue))
    }

    /// Whether all queues are open to it.
    pub(crate) fn check_every_queue(&self) -> Answered<()> {
        match self.is_limited_to_queues() {
            true => Err(self.kept_from("what is not of one queue; name one, if that can be")),
            false => Ok(()),
        }
    }

    /// Whether all namespaces and queues are open to it.
    pub(crate) fn check_unlimited(&self) -> Answered<()> {
        self.check_every_queue()?;
        match self.is_limited() {
            true => Err(self.kept_from("what is not of one namespace; name one, if that can be")),
            false => Ok(()),
        }
    }

    /// Whether rows of a namespace and these queues are shown to it; without queues, rows of no queue.
    pub(crate) fn sees(&self, namespace: &Name, queues: &[Name]) -> bool {
        let queues_are_open = match queues {
            [] => !self.is_limited_to_queues(),
            queues => queues.iter().all(|queue| self.check_queue(queue).is_ok()),
        };
        queues_are_open && self.check_namespace(namespace).is_ok()
    }

    pub(super) fn kept_from(&self, what: &str) -> Problem {
        let words = |patterns: &[NamePattern]| -> String {
            patterns.iter().map(NamePattern::as_str).collect::<Vec<_>>().join(", ")
        };
        let (queues, namespaces) = match &self.token {
            Some(token) => (words(&token.queues), words(&token.namespaces)),
            None => Default::default(),
        };
        let limits = match (&*queues, &*namespaces) {
            (queues, "") => format!("the queues {queues}"),
            ("", namespaces) => format!("the namespaces {namespaces}"),
            (queues, namespaces) => format!("the queues {queues} in the namespaces {namespaces}"),
        };
        Problem::forbidden(format!("the token {:?} is for {limits}, and not for {what}", self.name()))
    }

    /// The same, acting on somebody's behalf and for a reason.
    pub(crate) fn because(self, actor: Option<String>, reason: Option<String>) -> Self {
        Self { by: By { actor, note: reason }, ..self }
    }

    /// The name that it acts under: the token's, and on whose behalf it says that it acts. Without tokens,
    /// the name that it says.
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
