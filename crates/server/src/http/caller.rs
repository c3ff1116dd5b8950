//! Who calls, and what they may do.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use windlass::access::Scope;
use windlass::{AccessToken, By, Name, NewAuditEntry};

use super::{Answered, App, Problem};

/// How one is called who needs no token.
const ANYBODY: &str = "anybody";

/// Who calls. Without tokens, which is possible on this machine alone, anybody may do anything.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Option<Arc<AccessToken>>);

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
        Self(None)
    }

    /// One whose token was recognised.
    pub(super) fn with(token: Arc<AccessToken>) -> Self {
        Self(Some(token))
    }

    pub(super) fn is_anybody(&self) -> bool {
        self.0.is_none()
    }

    /// What it was recognised by, if that was needed.
    pub(super) fn token(&self) -> Option<&AccessToken> {
        self.0.as_deref()
    }

    /// What the history and the audit call it.
    fn name(&self) -> &str {
        self.0.as_ref().map_or(ANYBODY, |token| &token.name)
    }

    /// What requests are counted by.
    pub(super) fn id(&self) -> &str {
        self.0.as_ref().map_or(ANYBODY, |token| &token.id)
    }

    /// Whether it may do such things.
    pub(crate) fn check(&self, scope: Scope) -> Answered<()> {
        match &self.0 {
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
        self.0.as_ref().is_some_and(|token| !all(token))
    }

    /// Whether a queue is open to it.
    pub(crate) fn check_queue(&self, queue: &Name) -> Answered<()> {
        match &self.0 {
            Some(token) if !token.allows_queue(queue) => {
                Err(self.kept_from(&format!("the queue {:?}", &**queue)))
            }
            _ => Ok(()),
        }
    }

    /// Whether a listing of tasks or changes shows only what is open to it.
    pub(crate) fn check_listing(&self, queue: Option<&Name>) -> Answered<()> {
        match queue {
            Some(queue) => self.check_queue(queue),
            None => self.check_unlimited(),
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
        let queues: Vec<_> = self.0.iter().flat_map(|token| &token.queues).map(ToString::to_string).collect();
        let (name, queues) = (self.name(), queues.join(", "));
        Problem::forbidden(format!("the token {name:?} is for the queues {queues}, and not for {what}"))
    }

    /// Who acts, for the history: the token's name, and on whose behalf it says it is used. Without tokens, whoever it says.
    pub(crate) fn actor(&self, behalf: Option<&str>) -> Option<String> {
        match (&self.0, behalf) {
            (None, behalf) => behalf.map(Into::into),
            (Some(token), None) => Some(token.name.to_string()),
            (Some(token), Some(behalf)) => Some(format!("{} for {behalf}", token.name)),
        }
    }

    /// Who acts, and why.
    pub(crate) fn by(&self, behalf: Option<&str>, reason: Option<String>) -> By {
        By { actor: self.actor(behalf), note: reason }
    }

    /// Writes down that it asks for something that an operator does, before it is done: what cannot be written down is not done. `by` is who acts and
    /// why, as the history is told.
    pub(crate) async fn audit(&self, app: &App, action: &str, subject: &str, by: &By) -> Answered<()> {
        let By { actor, note } = by;
        let entry = NewAuditEntry {
            actor: actor.as_deref().filter(|actor| !actor.is_empty()).unwrap_or_else(|| self.name()).into(),
            action: action.into(),
            subject: subject.into(),
            reason: note.clone().filter(|reason| !reason.is_empty()),
        };
        Ok(app.windlass.store().audit(entry).await?)
    }
}
