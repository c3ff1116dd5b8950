//! The tokens that a server knows: read from the store, and again every few seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use windlass::{AccessToken, Error, Store, Timestamp};

use super::{Answered, Caller, Problem};
use crate::secret::Sent;

/// How long what was read holds: so long a token that was revoked elsewhere may still be used.
const HOLDS: Duration = Duration::from_secs(3);

/// How soon a token that is not known makes the server read them again.
const UNKNOWN: Duration = Duration::from_millis(250);

/// How long what was read holds if the store does not answer.
const IN_NEED: Duration = Duration::from_secs(60);

/// How long anybody waits for the store to answer; it goes on being asked, and who comes then does not wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// How soon a store that failed to answer is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// All tokens, as they were read.
#[derive(Clone, Debug)]
struct Read {
    /// When the store was asked.
    at: Instant,
    /// The store's present then.
    now: Timestamp,
    tokens: Arc<HashMap<String, Arc<AccessToken>>>,
}

impl Read {
    fn new(at: Instant, tokens: Vec<AccessToken>, now: Timestamp) -> Self {
        let tokens = tokens.into_iter().map(|token| (token.id.clone(), Arc::new(token))).collect();
        Self { at, now, tokens: Arc::new(tokens) }
    }
}

/// What is known of the tokens of a store.
#[derive(Debug, Default)]
struct Known {
    read: Option<Read>,
    /// When the store was last asked in vain, and what it said.
    failed: Option<(Instant, Error)>,
    /// Since when it is being asked.
    asking: Option<Instant>,
}

/// The tokens of a store.
#[derive(Debug)]
pub(super) struct Tokens {
    store: Arc<dyn Store>,
    known: watch::Sender<Known>,
    /// What is left of each caller's requests, and since when.
    rates: StdMutex<HashMap<String, (f64, Instant)>>,
}

impl Tokens {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, known: watch::Sender::new(Known::default()), rates: StdMutex::default() }
    }

    /// What holds; read again if that is older than `age`. A store that is slow, or gone, holds up nobody for longer than a moment: then what was
    /// read before holds, or there is no answer.
    async fn read(&self, age: Duration) -> Result<Read, Error> {
        let mut known = self.known.subscribe();
        if let Some(since) = self.ask(age) {
            // Whether it comes or not, what is known then holds.
            let _ = timeout_at(since + PATIENCE, known.wait_for(|known| known.asking.is_none())).await;
        }
        let known = known.borrow();
        match (&known.read, &known.failed) {
            (Some(read), _) if read.at.elapsed() < IN_NEED => Ok(read.clone()),
            (_, Some((_, error))) => Err(error.clone()),
            _ => Err(Error::Unavailable(format!(
                "the store did not say within {PATIENCE:?} which tokens there are"
            ))),
        }
    }

    /// Has the store asked, unless what is known is younger than `age`, somebody asks already, or it has failed just now. Since when it is being
    /// asked, if it is.
    fn ask(&self, age: Duration) -> Option<Instant> {
        let (now, mut since, mut is_first) = (Instant::now(), None, false);
        self.known.send_if_modified(|known| {
            let is_fresh = known.read.as_ref().is_some_and(|read| now - read.at < age);
            let has_failed = known.failed.as_ref().is_some_and(|(at, _)| now - *at < AGAIN);
            if !is_fresh && !has_failed {
                is_first = known.asking.is_none();
                since = Some(*known.asking.get_or_insert(now));
            }
            is_first
        });
        if is_first {
            let (store, known) = (self.store.clone(), self.known.clone());
            let reading = tokio::spawn(async move { Ok((store.access_tokens().await?, store.now().await?)) });
            tokio::spawn(async move {
                let fault = |_| Err(Error::Unavailable("reading the tokens was ended by a fault".into()));
                let answer = reading.await.unwrap_or_else(fault);
                known.send_modify(|known| {
                    known.asking = None;
                    match answer {
                        Ok((tokens, present)) => {
                            (known.read, known.failed) = (Some(Read::new(now, tokens, present)), None);
                        }
                        Err(error) => known.failed = Some((Instant::now(), error)),
                    }
                });
            });
        }
        since
    }

    /// Whether there are any.
    pub(super) async fn are_there(&self) -> Result<bool, Error> {
        Ok(!self.read(HOLDS).await?.tokens.is_empty())
    }

    /// Who calls, with what stands in `Authorization`. Without any tokens anybody may, if `open`.
    pub(super) async fn recognise(&self, authorization: Option<&str>, open: bool) -> Answered<Caller> {
        let unknown = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail);
        let mut read = self.read(HOLDS).await?;
        let given =
            authorization.map(|text| text.strip_prefix("Bearer ").or_else(|| text.strip_prefix("bearer ")));
        let sent = given.flatten().and_then(|text| Sent::read(text.trim()));
        if read.tokens.is_empty() && open {
            // Who has a token knows of one: the first may have been made just now. All who ask at once are one question to the store.
            if sent.is_some() {
                read = self.read(Duration::ZERO).await?;
            }
            if read.tokens.is_empty() {
                return Ok(Caller::anybody());
            }
        }
        given.ok_or_else(|| unknown("send a token as `Authorization: Bearer …`"))?;
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
    use async_trait::async_trait;
    use axum::http::header;
    use axum::response::IntoResponse;
    use futures_util::future::join_all;
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use windlass::access::Scope;
    use windlass::{Catalog, MemoryStore, Name, Wrap, Wrapped};

    fn token(name: &str, fresh: &Fresh) -> AccessToken {
        AccessToken {
            name: Name::stored(name),
            id: fresh.id.clone(),
            digest: fresh.digest,
            scopes: BTreeSet::from([Scope::Read]),
            queues: vec!["mail-*".parse().unwrap()],
            namespaces: Vec::new(),
            groups: Vec::new(),
            created_at: Timestamp::MIN,
            created_by: None,
            expires_at: None,
            previous: None,
            last_used_at: None,
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
        tokio::time::sleep(UNKNOWN).await;
        let bearer = format!("Bearer {}", fresh.text);
        let caller = tokens.recognise(Some(&bearer), true).await.unwrap();
        assert_eq!(caller.actor(Some("ada")).as_deref(), Some("ci for ada"));
        assert!(caller.check(Scope::Read).is_ok() && caller.check(Scope::Submit).is_err());
        assert!(caller.check_queue(&Name::stored("mail-in")).is_ok());
        assert_eq!(caller.check_queue(&Name::stored("other")).unwrap_err().status, 403);
        assert_eq!(caller.check_unlimited().unwrap_err().status, 403);
        for bad in [None, Some("Bearer x"), Some("Basic x"), Some(&*fresh.text)] {
            assert_eq!(tokens.recognise(bad, true).await.unwrap_err().status, 401, "{bad:?}");
        }
        store.revoke_access_token(Name::stored("ci")).await.unwrap();
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

    /// A store that may be made to hang, and counts how often it is asked for tokens.
    #[derive(Clone, Debug, Default)]
    struct Moody(Arc<(AtomicBool, AtomicUsize)>);

    #[async_trait]
    impl Wrap for Moody {
        async fn call<T: Send>(
            &self,
            verb: &'static str,
            call: impl Future<Output = Result<T, Error>> + Send,
        ) -> Result<T, Error> {
            if verb == "access_tokens" {
                self.0.1.fetch_add(1, Relaxed);
                if self.0.0.load(Relaxed) {
                    // As a store does whose connections take no answer.
                    tokio::time::sleep(Duration::from_secs(10)).await;
                    return Err(Error::Unavailable("gone".into()));
                }
            }
            call.await
        }
    }

    impl Moody {
        fn store(&self) -> Arc<dyn Store> {
            Arc::new(Wrapped::new(Arc::new(MemoryStore::default()), self.clone()))
        }

        fn hang(&self) {
            self.0.0.store(true, Relaxed);
        }

        fn asked(&self) -> usize {
            self.0.1.load(Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_hangs_is_asked_once_and_holds_up_nobody() {
        let (moody, begun) = (Moody::default(), Instant::now());
        moody.hang();
        let tokens = Tokens::new(moody.store());
        let all = join_all((0..1_000).map(|_| tokens.recognise(None, true))).await;
        assert!(all.into_iter().all(|one| one.unwrap_err().status == 503));
        assert_eq!((begun.elapsed(), moody.asked()), (PATIENCE, 1));
        // Who comes later does not wait at all, and who comes after it has failed neither.
        for _ in 0..100 {
            let refused = tokens.recognise(None, true).await.unwrap_err();
            assert!(refused.into_response().headers().contains_key(header::RETRY_AFTER));
        }
        assert_eq!((begun.elapsed(), moody.asked()), (PATIENCE, 1));
        tokio::time::sleep(Duration::from_millis(9_001)).await;
        assert_eq!(tokens.recognise(None, true).await.unwrap_err().detail, "the store is unavailable: gone");
        assert_eq!(moody.asked(), 1, "it has failed just now");
        tokio::time::sleep(AGAIN).await;
        let asked_at = Instant::now();
        assert!(tokens.recognise(None, true).await.is_err());
        assert_eq!((asked_at.elapsed(), moody.asked()), (PATIENCE, 2), "it is asked again");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_holds_while_the_store_hangs() {
        let moody = Moody::default();
        let (store, fresh) = (moody.store(), Fresh::make().unwrap());
        store.put_access_token(token("ci", &fresh)).await.unwrap();
        let (tokens, bearer) = (Tokens::new(store), format!("Bearer {}", fresh.text));
        tokens.recognise(Some(&bearer), true).await.unwrap();
        moody.hang();
        tokio::time::sleep(HOLDS).await;
        let asked_at = Instant::now();
        let all = join_all((0..1_000).map(|_| tokens.recognise(Some(&bearer), true))).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!((asked_at.elapsed(), moody.asked()), (PATIENCE, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn without_tokens_one_that_is_sent_costs_no_look_each() {
        let moody = Moody::default();
        let tokens = Tokens::new(moody.store());
        for _ in 0..1_000 {
            assert!(tokens.recognise(Some("Bearer x"), true).await.is_ok());
        }
        assert_eq!(moody.asked(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_token_is_known_at_once() {
        let (store, fresh) = (Arc::new(MemoryStore::default()), Fresh::make().unwrap());
        let tokens = Tokens::new(store.clone());
        assert!(tokens.recognise(None, true).await.unwrap().is_anybody());
        store.put_access_token(token("first", &fresh)).await.unwrap();
        let sent = format!("Bearer {}", fresh.text);
        assert!(!tokens.recognise(Some(&sent), true).await.unwrap().is_anybody());
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
