//! The tokens that a server knows: read from the store, and again every few seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::Mutex;
use tokio::time::Instant;
use windlass::{AccessToken, Error, Store, Timestamp};

use super::{Answered, Caller, Problem};
use crate::secret::Sent;

/// How long what was read holds: so long a token that was revoked elsewhere may still be used.
const HOLDS: Duration = Duration::from_secs(3);

/// How soon a token that is not known makes the server read them again.
const UNKNOWN: Duration = Duration::from_millis(250);

/// How long what was read holds if the store does not answer.
const IN_NEED: Duration = Duration::from_secs(60);

/// All tokens, as they were read.
#[derive(Clone, Debug)]
struct Read {
    at: Instant,
    /// The store's present then.
    now: Timestamp,
    tokens: Arc<HashMap<String, Arc<AccessToken>>>,
}

/// The tokens of a store.
#[derive(Debug)]
pub(super) struct Tokens {
    store: Arc<dyn Store>,
    read: Mutex<Option<Read>>,
    /// What is left of each caller's requests, and since when.
    rates: StdMutex<HashMap<String, (f64, Instant)>>,
}

impl Tokens {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, read: Mutex::new(None), rates: StdMutex::default() }
    }

    /// What holds; read again if that is older than `age`.
    async fn read(&self, age: Duration) -> Result<Read, Error> {
        let mut known = self.read.lock().await;
        if let Some(read) = known.as_ref().filter(|read| read.at.elapsed() < age) {
            return Ok(read.clone());
        }
        let reading = async { Ok((self.store.access_tokens().await?, self.store.now().await?)) };
        match (reading.await, known.as_ref()) {
            (Ok((tokens, now)), _) => {
                let tokens = tokens.into_iter().map(|token| (token.id.clone(), Arc::new(token))).collect();
                let read = Read { at: Instant::now(), now, tokens: Arc::new(tokens) };
                *known = Some(read.clone());
                Ok(read)
            }
            (Err(_), Some(read)) if read.at.elapsed() < IN_NEED => Ok(read.clone()),
            (Err(error), _) => Err(error),
        }
    }

    /// Whether there are any.
    pub(super) async fn are_there(&self) -> Result<bool, Error> {
        Ok(!self.read(HOLDS).await?.tokens.is_empty())
    }

    /// Who calls, with what stands in `Authorization`. Without any tokens anybody may, if `open`.
    pub(super) async fn recognise(&self, authorization: Option<&str>, open: bool) -> Answered<Caller> {
        let unknown = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail);
        let mut read = self.read(HOLDS).await?;
        if read.tokens.is_empty() && open {
            // Who has a token knows of one: the first may have been made just now.
            if authorization.is_some() {
                read = self.read(Duration::ZERO).await?;
            }
            if read.tokens.is_empty() {
                return Ok(Caller::anybody());
            }
        }
        let given = authorization.ok_or_else(|| unknown("send a token as `Authorization: Bearer …`"))?;
        let given = given.strip_prefix("Bearer ").or_else(|| given.strip_prefix("bearer "));
        let sent = given.and_then(|text| Sent::read(text.trim()));
        let sent = sent.ok_or_else(|| unknown("what was sent is not a token of Windlass"))?;
        if !read.tokens.contains_key(sent.id) {
            // It may have been made just now.
            read = self.read(UNKNOWN).await?;
        }
        let token = read.tokens.get(sent.id).filter(|token| sent.is(token));
        let token = token.ok_or_else(|| unknown("the token is not known; it may have been revoked"))?;
        if token.has_expired(read.now.plus(read.at.elapsed())) {
            return Err(unknown("the token has expired; make another with `windlass token create`"));
        }
        Ok(Caller::with(token.clone()))
    }

    /// Whether who was recognised before still would be: without tokens, if there are still none; with one that has neither been revoked nor expired.
    pub(super) async fn still_knows(&self, caller: &Caller, open: bool) -> bool {
        let Ok(read) = self.read(HOLDS).await else { return false };
        match caller.token() {
            None => open && read.tokens.is_empty(),
            Some(token) => {
                let is_good = |known: &AccessToken| {
                    known.digest == token.digest && !known.has_expired(read.now.plus(read.at.elapsed()))
                };
                read.tokens.get(&token.id).is_some_and(|known| is_good(known))
            }
        }
    }

    /// Counts a request of a caller; refused if there were more than `rate` in a second.
    pub(super) fn count(&self, caller: &Caller, rate: u32) -> Answered<()> {
        if rate == 0 {
            return Ok(());
        }
        let (most, now) = (f64::from(rate), Instant::now());
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, since) = rates.entry(caller.id().to_owned()).or_insert((most, now));
        *left = (*left + now.duration_since(*since).as_secs_f64() * most).min(most);
        *since = now;
        if *left < 1.0 {
            let detail = format!("more than {rate} requests in a second; slow down, or send batches");
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail));
        }
        *left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Fresh;
    use std::collections::BTreeSet;
    use windlass::access::Scope;
    use windlass::{MemoryStore, Name};

    fn token(name: &str, fresh: &Fresh) -> AccessToken {
        AccessToken {
            name: Name::stored(name),
            id: fresh.id.clone(),
            digest: fresh.digest,
            scopes: BTreeSet::from([Scope::Read]),
            queues: vec!["mail-*".parse().unwrap()],
            created_at: Timestamp::MIN,
            created_by: None,
            expires_at: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_recognised_and_forgotten() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let tokens = Tokens::new(store.clone());
        assert!(tokens.recognise(None, true).await.is_ok());
        assert_eq!(tokens.recognise(None, false).await.unwrap_err().status, 401);
        let fresh = Fresh::make().unwrap();
        store.put_access_token(token("ci", &fresh)).await.unwrap();
        let bearer = format!("Bearer {}", fresh.text);
        let caller = tokens.recognise(Some(&bearer), true).await.unwrap();
        assert_eq!(caller.actor(Some("ada")).as_deref(), Some("ci for ada"));
        assert!(caller.check(Scope::Read).is_ok() && caller.check(Scope::Submit).is_err());
        assert!(caller.check_queue(&Name::stored("mail-in")).is_ok());
        assert_eq!(caller.check_queue(&Name::stored("other")).unwrap_err().status, 403);
        assert_eq!(caller.check_listing(None).unwrap_err().status, 403);
        for bad in [None, Some("Bearer x"), Some("Basic x"), Some(&*fresh.text)] {
            assert_eq!(tokens.recognise(bad, true).await.unwrap_err().status, 401, "{bad:?}");
        }
        store.revoke_access_token(&Name::stored("ci")).await.unwrap();
        store.put_access_token(token("other", &Fresh::make().unwrap())).await.unwrap();
        tokio::time::sleep(HOLDS).await;
        assert_eq!(tokens.recognise(Some(&bearer), true).await.unwrap_err().status, 401);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_holds_while_the_store_does_not_answer() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let fresh = Fresh::make().unwrap();
        store.put_access_token(token("ci", &fresh)).await.unwrap();
        let (tokens, bearer) = (Tokens::new(store.clone()), format!("Bearer {}", fresh.text));
        tokens.recognise(Some(&bearer), true).await.unwrap();
        store.close().await.unwrap();
        tokio::time::sleep(IN_NEED / 2).await;
        assert!(tokens.recognise(Some(&bearer), true).await.is_ok());
        tokio::time::sleep(IN_NEED).await;
        assert_eq!(tokens.recognise(Some(&bearer), true).await.unwrap_err().status, 503);
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_too_often_is_told_to_wait() {
        let tokens = Tokens::new(Arc::new(MemoryStore::default()));
        let caller = Caller::anybody();
        let asked = (0..10).filter(|_| tokens.count(&caller, 5).is_ok()).count();
        assert_eq!(asked, 5);
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!((0..10).filter(|_| tokens.count(&caller, 5).is_ok()).count(), 2);
        assert!((0..100).all(|_| tokens.count(&caller, 0).is_ok()));
    }
}
