//! The tokens that a server knows: read from the store, and again every few seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use windlass::{AccessToken, Error, Name, Store, Timestamp, limits};

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
    /// By the ids of secrets.
    tokens: Arc<HashMap<String, KnownSecret>>,
    /// Whether there are no tokens, but were some.
    had: bool,
}

/// A secret that is accepted.
#[derive(Clone, Debug)]
struct KnownSecret {
    token: Arc<AccessToken>,
    digest: [u8; 32],
    /// Until when.
    ends: Option<Timestamp>,
}

impl Read {
    async fn from(store: &dyn Store, at: Instant) -> Result<Self, Error> {
        let (all, now) = (store.access_tokens().await?, store.now().await?);
        let had = all.is_empty() && store.had_access_tokens().await?;
        let mut tokens = HashMap::new();
        for token in all {
            let (end, token) = (token.expires_at, Arc::new(token));
            for former in &token.previous {
                let ends = Some(end.map_or(former.expires_at, |end| end.min(former.expires_at)));
                let known = KnownSecret { token: token.clone(), digest: former.digest, ends };
                tokens.insert(former.id.clone(), known);
            }
            let known = KnownSecret { digest: token.digest, ends: end, token: token.clone() };
            tokens.insert(token.id.clone(), known);
        }
        Ok(Self { at, now, tokens: Arc::new(tokens), had })
    }

    /// The store's present.
    fn present(&self) -> Timestamp {
        self.now.plus(self.at.elapsed())
    }

    fn is_good(&self, known: &KnownSecret) -> bool {
        known.ends.is_none_or(|ends| ends > self.present())
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
    /// Whether a store whose tokens were all revoked is open as one that never had any.
    without_tokens: bool,
    /// What is left of each caller's requests, and since when.
    rates: StdMutex<HashMap<String, (f64, Instant)>>,
    /// When tokens were last used, as far as the store has not been told.
    used: StdMutex<HashMap<Name, Timestamp>>,
}

impl Tokens {
    pub(super) fn new(store: Arc<dyn Store>, without_tokens: bool) -> Self {
        let known = watch::Sender::new(Known::default());
        Self { store, known, without_tokens, rates: StdMutex::default(), used: StdMutex::default() }
    }

    /// What holds; read again if that is older than `age`. A store that is slow, or gone, holds up nobody for
    /// longer than a moment: then what was read before holds, or there is no answer.
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

    /// Has the store asked, unless what is known is younger than `age`, somebody asks already, or it has
    /// failed just now. Since when it is being asked, if it is.
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
            let reading = tokio::spawn(async move { Read::from(&*store, now).await });
            tokio::spawn(async move {
                let fault = |_| Err(Error::Unavailable("reading the tokens was ended by a fault".into()));
                let answer = reading.await.unwrap_or_else(fault);
                known.send_modify(|known| {
                    known.asking = None;
                    match answer {
                        Ok(read) => (known.read, known.failed) = (Some(read), None),
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

    /// Whether nobody may call, because every token was revoked.
    pub(super) async fn are_all_revoked(&self) -> Result<bool, Error> {
        Ok(self.read(HOLDS).await?.had && !self.without_tokens)
    }

    /// Who calls, with what stands in `Authorization`. Without any tokens anybody may, if `open`.
    pub(super) async fn recognise(&self, authorization: Option<&str>, open: bool) -> Answered<Caller> {
        let unknown = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail);
        let mut read = self.read(HOLDS).await?;
        let given =
            authorization.map(|text| text.strip_prefix("Bearer ").or_else(|| text.strip_prefix("bearer ")));
        let sent = given.flatten().and_then(|text| Sent::read(text.trim()));
        if read.tokens.is_empty() && read.had && !self.without_tokens {
            // One may have been made just now.
            read = self.read(UNKNOWN).await?;
            if read.tokens.is_empty() {
                return Err(unknown(
                    "all tokens of this store were revoked; create one with `windlass token create` on the store itself, or start the server with `windlass serve --without-tokens`",
                ));
            }
        } else if read.tokens.is_empty() && open {
            // Who has a token knows of one: the first may have been made just now. All who ask at once are
            // one question to the store.
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
        let known = read.tokens.get(sent.id).filter(|known| sent.is(&known.digest));
        let known = known.ok_or_else(|| unknown("the token is not known; it may have been revoked"))?;
        if !read.is_good(known) {
            return Err(unknown(match known.token.has_expired(read.present()) {
                true => "the token has expired; make another with `windlass token create`",
                false => "the token was rotated, and this secret has ended; use the new one",
            }));
        }
        self.note_use(&known.token.name, read.present());
        Ok(Caller::with(known.token.clone(), sent.id))
    }

    /// Whether who was recognised before still would be: without tokens, if there are still none; with one
    /// that has neither been revoked nor expired.
    pub(super) async fn still_knows(&self, caller: &Caller, open: bool) -> bool {
        let Ok(read) = self.read(HOLDS).await else { return false };
        match caller.token() {
            None => open && read.tokens.is_empty() && (!read.had || self.without_tokens),
            Some((token, secret)) => read.tokens.get(secret).is_some_and(|known| {
                self.note_use(&token.name, read.present());
                known.token.created_at == token.created_at
                    && known.token.name == token.name
                    && read.is_good(known)
            }),
        }
    }

    fn note_use(&self, name: &Name, at: Timestamp) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match used.get_mut(name) {
            Some(last) => *last = at.max(*last),
            None => drop(used.insert(name.clone(), at)),
        }
    }

    /// Tells the store when tokens were last used. What it could not be told is told the next time.
    pub(super) async fn record_use(&self) -> Result<(), Error> {
        let used = std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        let used: Vec<_> = used.into_iter().collect();
        for some in used.chunks(limits::BATCH) {
            if let Err(error) = self.store.touch_access_tokens(some.to_vec()).await {
                used.iter().for_each(|(name, at)| self.note_use(name, *at));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Counts a request of a caller; refused if there were more than `rate` in a second.
    pub(super) fn count(&self, caller: &Caller, rate: u32) -> Answered<()> {
        if rate == 0 {
            return Ok(());
        }
        let (most, now) = (f64::from(rate), Instant::now());
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, since) = rates.entry(caller.name().to_owned()).or_insert((most, now));
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
    use windlass::{Catalog, MemoryStore, NewSecret, Wrap, Wrapped};

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
            previous: Vec::new(),
            last_used_at: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_recognised_and_forgotten() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let tokens = Tokens::new(store.clone(), false);
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
        let (tokens, bearer) = (Tokens::new(store.clone(), false), format!("Bearer {}", fresh.text));
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
        let tokens = Tokens::new(moody.store(), false);
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
        let (tokens, bearer) = (Tokens::new(store, false), format!("Bearer {}", fresh.text));
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
        let tokens = Tokens::new(moody.store(), false);
        for _ in 0..1_000 {
            assert!(tokens.recognise(Some("Bearer x"), true).await.is_ok());
        }
        assert_eq!(moody.asked(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_token_is_known_at_once() {
        let (store, fresh) = (Arc::new(MemoryStore::default()), Fresh::make().unwrap());
        let tokens = Tokens::new(store.clone(), false);
        assert!(tokens.recognise(None, true).await.unwrap().is_anybody());
        store.put_access_token(token("first", &fresh)).await.unwrap();
        let sent = format!("Bearer {}", fresh.text);
        assert!(!tokens.recognise(Some(&sent), true).await.unwrap().is_anybody());
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_had_tokens_stays_closed() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let fresh = Fresh::make().unwrap();
        store.put_access_token(token("last", &fresh)).await.unwrap();
        store.revoke_access_token(Name::stored("last")).await.unwrap();
        let tokens = Tokens::new(store.clone(), false);
        let sent = format!("Bearer {}", fresh.text);
        for given in [None, Some(&*sent), Some("Bearer x")] {
            let refused = tokens.recognise(given, true).await.unwrap_err();
            assert_eq!(refused.status, 401);
            assert!(refused.detail.contains("serve --without-tokens"), "{}", refused.detail);
        }
        assert!(tokens.are_all_revoked().await.unwrap());
        assert!(!tokens.still_knows(&Caller::anybody(), true).await);
        let told = Tokens::new(store.clone(), true);
        assert!(told.recognise(None, true).await.unwrap().is_anybody());
        assert_eq!(told.recognise(None, false).await.unwrap_err().status, 401, "to this machine alone");
        assert!(told.still_knows(&Caller::anybody(), true).await);
        store.put_access_token(token("new", &fresh)).await.unwrap();
        tokio::time::sleep(HOLDS).await;
        for tokens in [tokens, told] {
            assert!(!tokens.recognise(Some(&sent), true).await.unwrap().is_anybody());
            assert_eq!(tokens.recognise(None, true).await.unwrap_err().status, 401);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rotated_token_has_two_secrets_for_a_while() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let [old, new] = [Fresh::make().unwrap(), Fresh::make().unwrap()];
        store.put_access_token(token("ci", &old)).await.unwrap();
        let tokens = Tokens::new(store.clone(), false);
        let [sent, fresh] = [&old, &new].map(|one| format!("Bearer {}", one.text));
        let before = tokens.recognise(Some(&sent), true).await.unwrap();
        let secret = NewSecret { id: new.id.clone(), digest: new.digest };
        let keep = Duration::from_secs(60);
        store.rotate_access_token(Name::stored("ci"), secret, keep).await.unwrap();
        tokio::time::sleep(HOLDS).await;
        for sent in [&sent, &fresh] {
            assert_eq!(tokens.recognise(Some(sent), true).await.unwrap().name(), "ci");
        }
        assert!(tokens.still_knows(&before, true).await);
        let forged = format!("Bearer wl_{}_{}", old.id, "0".repeat(64));
        assert_eq!(tokens.recognise(Some(&forged), true).await.unwrap_err().status, 401);
        let secret = NewSecret { id: "01234567".into(), digest: [1; 32] };
        store.rotate_access_token(Name::stored("ci"), secret, Duration::ZERO).await.unwrap();
        tokio::time::sleep(HOLDS).await;
        for sent in [&sent, &fresh] {
            assert_eq!(tokens.recognise(Some(sent), true).await.unwrap_err().status, 401);
        }
        assert!(!tokens.still_knows(&before, true).await);
    }

    #[tokio::test(start_paused = true)]
    async fn the_use_of_tokens_is_recorded_apart_from_requests() {
        let moody = Moody::default();
        let (store, fresh) = (moody.store(), Fresh::make().unwrap());
        store.put_access_token(token("ci", &fresh)).await.unwrap();
        let (tokens, bearer) = (Tokens::new(store.clone(), false), format!("Bearer {}", fresh.text));
        for _ in 0..100 {
            tokens.recognise(Some(&bearer), true).await.unwrap();
        }
        let last = async || store.access_tokens().await.unwrap()[0].last_used_at;
        assert_eq!(last().await, None, "no request writes");
        let before = store.now().await.unwrap();
        tokens.record_use().await.unwrap();
        assert!(last().await.is_some_and(|at| at <= before), "{:?}", last().await);
        store.close().await.unwrap();
        tokens.note_use(&Name::stored("ci"), before);
        assert!(tokens.record_use().await.is_err());
        assert_eq!(tokens.used.lock().unwrap().len(), 1, "told the next time");
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_too_often_is_told_to_wait() {
        let tokens = Tokens::new(Arc::new(MemoryStore::default()), false);
        let caller = Caller::anybody();
        let asked = (0..10).filter(|_| tokens.count(&caller, 5).is_ok()).count();
        assert_eq!(asked, 5);
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!((0..10).filter(|_| tokens.count(&caller, 5).is_ok()).count(), 2);
        assert!((0..100).all(|_| tokens.count(&caller, 0).is_ok()));
    }
}
