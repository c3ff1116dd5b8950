//! One transaction on one connection. Statements are sent without waiting for the answers of those before
//! them, so that a whole transaction often takes one round trip.
//!
//! Statements have no names, so that any pooler may stand in between. Only where none does, as the doorbell
//! has found out, those of the hot paths are prepared.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use deadpool_postgres::Object;
use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error as PgError, Row, RowStream};

use super::Inner;
use super::failure::{Failure, at_commit, words};
use super::sql::{Sql, Statement};
use crate::error::{Error, Result};

/// The values of a statement's parameters, with their types.
pub(super) type Args = Vec<(Box<dyn ToSql + Sync + Send>, Type)>;

/// Values and their types: `args![1_i64 => INT8, names => TEXT_ARRAY]`.
macro_rules! args {
    ($($value:expr => $kind:ident),* $(,)?) => {
        vec![$((
            Box::new($value) as Box<dyn tokio_postgres::types::ToSql + Sync + Send>,
            tokio_postgres::types::Type::$kind,
        )),*]
    };
}
pub(super) use args;

/// Which statement.
pub(super) type Which = fn(&Sql) -> &Statement;

/// How often a transaction that stood in another's way is begun again.
const MOST_TRIES: u32 = 10;

/// The server does what it is told: statements read by index where there is one, whatever it believes about
/// the sizes of tables, by one plan for all values, which one that is prepared keeps: making a new one for a
/// claim takes longer than the claim. They are not compiled first, which it would do to all that this makes
/// look dear; nor are rows kept that are not asked for twice. Nobody waits for ever, and a client that stands
/// still in the middle of a transaction loses its locks sooner than those who wait for them lose their
/// patience, even behind several of its kind.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL enable_seqscan = off; \
    SET LOCAL enable_bitmapscan = off; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL jit = off; SET LOCAL lock_timeout = '20s'; \
    SET LOCAL statement_timeout = '30s'; SET LOCAL idle_in_transaction_session_timeout = '5s'";
const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL enable_seqscan = off; \
    SET LOCAL enable_bitmapscan = off; SET LOCAL enable_memoize = off; SET LOCAL jit = off; \
    SET LOCAL statement_timeout = '30s'; SET LOCAL idle_in_transaction_session_timeout = '5s'";

/// How long a transaction may take before the connection is given up.
const PATIENCE: Duration = Duration::from_secs(45);

/// What a statement answered.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    pub(super) affected: u64,
}

type Answering = Pin<Box<dyn Future<Output = Result<Answer, PgError>> + Send>>;

/// A statement on its way.
enum Sent {
    Waiting(Answering),
    Answered(Result<Answer, PgError>),
}

impl Sent {
    /// Sends it: the first poll of a call of the driver puts it on the wire.
    async fn new(mut answering: Answering) -> Self {
        let polled = poll_fn(|context| Poll::Ready(answering.as_mut().poll(context))).await;
        match polled {
            Poll::Ready(answer) => Self::Answered(answer),
            Poll::Pending => Self::Waiting(answering),
        }
    }

    async fn answer(self) -> Result<Answer, PgError> {
        match self {
            Self::Waiting(answering) => answering.await,
            Self::Answered(answer) => answer,
        }
    }
}

pub(super) struct Tx {
    pub(super) inner: Arc<Inner>,
    client: Arc<Object>,
    sent: Vec<Sent>,
    /// Whether the answer to BEGIN is among those to come.
    is_beginning: bool,
    is_committing: bool,
}

impl Tx {
    async fn begin(inner: &Arc<Inner>, client: Arc<Object>, how: &'static str) -> Self {
        let (inner, begun) = (inner.clone(), client.clone());
        let begin = async move { begun.batch_execute(how).await.map(|()| Answer::default()) };
        let sent = vec![Sent::new(Box::pin(begin)).await];
        Self { inner, client, sent, is_beginning: true, is_committing: false }
    }

    /// Sends a statement.
    pub(super) async fn send(&mut self, which: Which, args: Args) {
        let (inner, client) = (self.inner.clone(), self.client.clone());
        let answering = async move {
            let Statement { text, is_hot } = which(&inner.sql);
            if *is_hot && is_prepared(&client) {
                run_prepared(&client, text, args).await
            } else {
                run(&client, text, args).await
            }
        };
        self.sent.push(Sent::new(Box::pin(answering)).await);
    }

    async fn gather(&mut self) -> Result<Vec<Answer>, PgError> {
        let mut answers = Vec::with_capacity(self.sent.len());
        for sent in self.sent.drain(..) {
            answers.push(sent.answer().await?);
        }
        if std::mem::take(&mut self.is_beginning) {
            answers.remove(0);
        }
        Ok(answers)
    }

    /// The answers to all that was sent since the last time.
    pub(super) async fn answers(&mut self) -> Result<Vec<Answer>, Failure> {
        Ok(self.gather().await?)
    }

    /// The answer to one statement, after which nothing else is under way.
    pub(super) async fn ask(&mut self, which: Which, args: Args) -> Result<Answer, Failure> {
        self.send(which, args).await;
        Ok(self.answers().await?.pop().unwrap_or_default())
    }

    /// Makes it durable. Gives the answers that are still to come.
    pub(super) async fn commit(&mut self) -> Result<Vec<Answer>, Failure> {
        let client = self.client.clone();
        let commit = async move { client.batch_execute("COMMIT").await.map(|()| Answer::default()) };
        let commit = Sent::new(Box::pin(commit)).await;
        self.is_committing = true;
        match self.gather().await {
            Ok(answers) => {
                commit.answer().await.map_err(|error| at_commit(&error))?;
                Ok(answers)
            }
            // If the server gives its reasons, it has undone everything. If it says nothing, it may have done
            // all of it.
            Err(error) if error.as_db_error().is_none() => Err(Error::Unknown(words(&error)).into()),
            Err(error) => Err(error.into()),
        }
    }
}

/// What a transaction does: sends, decides, commits. It may be begun again.
pub(super) trait Work<T>: AsyncFn(&mut Tx) -> Result<T, Failure> {}
impl<T, W: AsyncFn(&mut Tx) -> Result<T, Failure>> Work<T> for W {}

impl Inner {
    /// A connection.
    async fn connection(&self) -> Result<Object> {
        self.pool.get().await.map_err(|error| self.address.unreachable(error))
    }

    /// Carries out `work` in a transaction; again, while it stands in the way of others.
    pub(super) async fn transaction<T>(self: &Arc<Self>, work: impl Work<T>) -> Result<T> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.try_transaction(&work).await {
                Err(Failure::Moved | Failure::Again(_)) if tries < MOST_TRIES => {
                    // Whoever stands in the way needs a moment; the longer it lasts, the longer.
                    tokio::time::sleep(Duration::from_millis(u64::from(tries * tries))).await;
                }
                done => return done.map_err(Failure::error),
            }
        }
    }

    /// Carries out `work` in a transaction, once.
    pub(super) async fn try_transaction<T>(self: &Arc<Self>, work: &impl Work<T>) -> Result<T, Failure> {
        self.with_connection(BEGIN, work).await
    }

    /// Answers several statements from one snapshot.
    pub(super) async fn read(
        self: &Arc<Self>,
        statements: impl Fn() -> Vec<(Which, Args)>,
    ) -> Result<Vec<Answer>> {
        let mut all = statements();
        if all.len() == 1
            && let Some((which, args)) = all.pop()
        {
            return Ok(vec![self.read_text(&which(&self.sql).text, args).await?]);
        }
        let work = async |tx: &mut Tx| {
            for (which, args) in statements() {
                tx.send(which, args).await;
            }
            tx.commit().await
        };
        match self.with_connection(BEGIN_READING, &work).await.map_err(Failure::error) {
            // A reader leaves nothing behind that could be unknown.
            Err(Error::Unknown(why)) => Err(Error::Unavailable(why)),
            done => done,
        }
    }

    /// Answers one statement.
    pub(super) async fn read_text(&self, text: &str, args: Args) -> Result<Answer> {
        let client = self.connection().await?;
        match timeout(PATIENCE, run(&client, text, args)).await {
            Ok(answer) => answer.map_err(|error| Failure::from(error).error()),
            Err(_) => {
                drop(Object::take(client));
                let why = format!("{} did not answer within {} s", self.address, PATIENCE.as_secs());
                Err(Error::Unavailable(why))
            }
        }
    }

    async fn with_connection<T>(
        self: &Arc<Self>,
        begin: &'static str,
        work: &impl Work<T>,
    ) -> Result<T, Failure> {
        let client = self.connection().await?;
        if begin == BEGIN && self.bell.is_listening() && !is_prepared(&client) {
            try_join_all(self.sql.hot().map(|text| client.prepare_cached(text))).await?;
        }
        let client = Arc::new(client);
        let mut tx = Tx::begin(self, client.clone(), begin).await;
        let done = timeout(PATIENCE, work(&mut tx)).await;
        let was_committing = tx.is_committing;
        drop(tx);
        // Nobody else has it: what was sent is answered or dropped.
        let object = Arc::into_inner(client);
        match done {
            Ok(Ok(done)) if was_committing => Ok(done),
            Ok(Ok(done)) => {
                // There was nothing to write after all.
                if let Some(object) = object {
                    clean(object).await;
                }
                Ok(done)
            }
            Ok(Err(failure)) => {
                if let Some(object) = object {
                    clean(object).await;
                }
                Err(failure)
            }
            Err(_) => {
                drop(object.map(Object::take));
                let why = format!("{} did not answer within {} s", self.address, PATIENCE.as_secs());
                let error = if was_committing { Error::Unknown(why) } else { Error::Unavailable(why) };
                Err(error.into())
            }
        }
    }
}

/// Ends a transaction that failed, so that the connection can be used again, or gives the connection up.
async fn clean(object: Object) {
    let ended = timeout(Duration::from_secs(5), object.batch_execute("ROLLBACK")).await;
    if !matches!(ended, Ok(Ok(()))) {
        drop(Object::take(object));
    }
}

/// Whether all statements of the hot paths have been prepared on a connection.
fn is_prepared(client: &Object) -> bool {
    client.statement_cache.size() >= Sql::HOT
}

/// Sends a statement that has been prepared and gathers its answer.
async fn run_prepared(client: &Object, sql: &str, args: Args) -> Result<Answer, PgError> {
    let statement = client.prepare_cached(sql).await?;
    gather(client.query_raw(&statement, args.into_iter().map(|(value, _)| value)).await?).await
}

/// Sends one statement and gathers its answer.
pub(super) async fn run(client: &tokio_postgres::Client, sql: &str, args: Args) -> Result<Answer, PgError> {
    gather(client.query_typed_raw(sql, args).await?).await
}

async fn gather(stream: RowStream) -> Result<Answer, PgError> {
    let mut stream = pin!(stream);
    let mut rows = Vec::new();
    while let Some(row) = stream.try_next().await? {
        rows.push(row);
    }
    Ok(Answer { rows, affected: stream.rows_affected().unwrap_or(0) })
}
