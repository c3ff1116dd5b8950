//! Bodies of requests: read within limits of size and time, and of all the memory that bodies may have
//! together.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::BytesMut;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::{Limits, Problem};

/// Kilobytes of all bodies that are here at once.
const BUDGET: usize = 256 * 1024;

/// How long to wait for the next piece of a body that nobody reads.
const LINGER: Duration = Duration::from_secs(1);

/// The memory for bodies.
#[derive(Debug)]
pub(super) struct Bodies {
    kilobytes: Arc<Semaphore>,
}

/// What one body takes of the memory for all, until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Share(Option<OwnedSemaphorePermit>);

impl Share {
    /// Grows with the body as a whole: it is one text, however small the pieces are that it comes in.
    fn grow(&mut self, bodies: &Bodies, bytes: usize) -> Result<(), Problem> {
        let has = self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = bytes.div_ceil(1024).saturating_sub(has);
        let more = bodies.kilobytes.clone().try_acquire_many_owned(u32::try_from(more).unwrap_or(u32::MAX));
        let more = more.map_err(|_| Problem::overloaded("no memory for more bodies; try again"))?;
        match &mut self.0 {
            Some(share) => share.merge(more),
            None => self.0 = Some(more),
        }
        Ok(())
    }
}

impl Bodies {
    pub(super) fn new() -> Self {
        Self::of(BUDGET)
    }

    fn of(kilobytes: usize) -> Self {
        Self { kilobytes: Arc::new(Semaphore::new(kilobytes)) }
    }

    /// All of a body, and its share of the memory. One that says it is too large is refused before any of it
    /// is read; one that dawdles takes no other's place.
    pub(super) async fn read(&self, body: &mut Body, limits: &Limits) -> Result<(Bytes, Share), Problem> {
        let most = limits.body_bytes;
        let too_large = || {
            let detail = format!("the body is longer than {most} bytes; send less at once");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
        };
        if body.size_hint().lower() > u64::try_from(most).unwrap_or(u64::MAX) {
            return Err(too_large());
        }
        let reading = async {
            let (mut bytes, mut share) = (BytesMut::new(), Share::default());
            while let Some(frame) = body.frame().await {
                let unread = |error| Problem::bad_request(format!("the body could not be read: {error}"));
                let Ok(data) = frame.map_err(unread)?.into_data() else { continue };
                if bytes.len() + data.len() > most {
                    return Err(too_large());
                }
                share.grow(self, bytes.len() + data.len())?;
                bytes.extend_from_slice(&data);
            }
            Ok((bytes.freeze(), share))
        };
        timeout(limits.body_time, reading).await.unwrap_or_else(|_| {
            let detail = format!("the body did not arrive within {:?}", limits.body_time);
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail))
        })
    }
}

/// Lets a body that nobody reads come and go while the answer is sent: a peer that is hung up on in the
/// middle of its request may not hear why. As long as it keeps coming, and no longer than a body may take: it
/// costs no memory.
pub(super) fn ignore(mut body: Body, headers: &HeaderMap, limits: &Limits) {
    // Who waits to be told to go on need not send it at all.
    if body.is_end_stream() || headers.contains_key(header::EXPECT) {
        return;
    }
    tokio::spawn(timeout(limits.body_time, async move {
        while let Ok(Some(Ok(_))) = timeout(LINGER, body.frame()).await {}
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::convert::Infallible;

    fn limits() -> Limits {
        Limits {
            body_bytes: 10_000,
            definition_bytes: 10_000,
            body_time: Duration::from_secs(30),
            requests: 1,
            polls: 1,
            rate: 0,
            open: true,
            without_tokens: false,
            listeners: 32,
            origins: Vec::new(),
        }
    }

    /// A body that comes in pieces of so many bytes, and does not say how long it is.
    fn pieces(of: usize, many: usize) -> Body {
        let piece = move |_| Ok::<_, Infallible>(Bytes::from(vec![b'x'; of]));
        Body::from_stream(stream::iter((0..many).map(piece)))
    }

    fn free(bodies: &Bodies) -> usize {
        bodies.kilobytes.available_permits()
    }

    #[tokio::test]
    async fn a_body_costs_what_it_has_in_all_and_gives_it_back() {
        let (bodies, limits) = (Bodies::of(16), limits());
        for (of, many, cost) in [(1, 0, 0), (1, 1, 1), (1, 1024, 1), (1, 1025, 2), (3000, 3, 9)] {
            let (bytes, share) = bodies.read(&mut pieces(of, many), &limits).await.unwrap();
            assert_eq!((bytes.len(), 16 - free(&bodies)), (of * many, cost), "{many} of {of}");
            drop(share);
            assert_eq!(free(&bodies), 16);
        }
    }

    #[tokio::test]
    async fn who_finds_no_memory_is_told_to_come_again_and_keeps_none() {
        let (bodies, limits) = (Bodies::of(9), limits());
        let (_, held) = bodies.read(&mut pieces(1000, 6), &limits).await.unwrap();
        let refused = bodies.read(&mut pieces(1000, 4), &limits).await.unwrap_err();
        assert_eq!((refused.status, &*refused.code), (503, "overloaded"));
        assert_eq!(free(&bodies), 3, "what was refused holds nothing");
        drop(held);
        bodies.read(&mut pieces(1000, 4), &limits).await.unwrap();
    }

    #[tokio::test]
    async fn many_small_bodies_in_many_pieces_fit() {
        let (bodies, limits) = (Bodies::new(), limits());
        let mut held = Vec::new();
        for _ in 0..300 {
            held.push(bodies.read(&mut pieces(1, 1000), &limits).await.unwrap());
        }
        assert_eq!(BUDGET - free(&bodies), 300);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_says_it_is_too_large_is_not_read() {
        let (bodies, limits) = (Bodies::of(16), limits());
        let mut large = Body::from(vec![b'x'; 10_001]);
        let refused = bodies.read(&mut large, &limits).await.unwrap_err();
        assert_eq!((refused.status, &*refused.code), (413, "too_large"));
        assert_eq!(large.size_hint().exact(), Some(10_001), "all of it is still there");
        assert_eq!(bodies.read(&mut pieces(1000, 11), &limits).await.unwrap_err().status, 413);
        bodies.read(&mut pieces(1000, 10), &limits).await.unwrap();
        let mut silent = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        assert_eq!(bodies.read(&mut silent, &limits).await.unwrap_err().status, 408);
        assert_eq!(free(&bodies), 16);
    }
}
