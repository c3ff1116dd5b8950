//! Servers that break on purpose: what was not done, and what is not known, are told apart.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::super::options::Options;
use super::super::protocol::PROTOCOL;
use super::super::responder::Responder;
use super::super::{RemoteStore, STORE_PATH};
use super::task;
use crate::{Error, MemoryStore, Reads, Store, Writes};

/// What a server does with a connection.
#[derive(Clone, Debug)]
enum Act {
    /// Answers calls as it should.
    Serve,
    /// Answers one call, then closes the connection before the next.
    ServeOne,
    /// Reads one call and closes without an answer.
    Swallow,
    /// Carries one call out and closes without an answer.
    SwallowDone,
    /// Reads one call and is silent.
    Hang,
    /// Reads one call and says this.
    Say(String),
}

/// A server that does one thing after another, with one connection each, and then serves. It tells when a
/// connection was closed.
struct Script {
    url: String,
    store: Arc<MemoryStore>,
    closed: mpsc::UnboundedReceiver<()>,
}

impl Script {
    async fn start(acts: impl IntoIterator<Item = Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let store = Arc::new(MemoryStore::default());
        let answering = Arc::new(Responder::new(store.clone(), 7, "test"));
        let (closing, closed) = mpsc::unbounded_channel();
        let mut acts: Vec<Act> = acts.into_iter().collect();
        acts.reverse();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let act = acts.pop().unwrap_or(Act::Serve);
                let (answering, closing) = (answering.clone(), closing.clone());
                tokio::spawn(async move {
                    play(stream, act, &answering).await;
                    let _ = closing.send(());
                });
            }
        });
        Self { url, store, closed }
    }

    async fn open(&self) -> Result<RemoteStore, Error> {
        Options::new(&self.url).unwrap().answer_within(Duration::from_secs(20)).open().await
    }
}

/// The body of the next request; none at the end of the connection.
async fn body(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        let end = text.windows(4).position(|part| part == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&text[..end]).to_lowercase();
            assert!(head.starts_with(&format!("post {STORE_PATH} ")), "{head}");
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let length: usize = length.parse().unwrap();
            while text.len() < end + 4 + length {
                if stream.read_buf(&mut text).await.ok()? == 0 {
                    return None;
                }
            }
            return Some(text.split_off(end + 4));
        }
        if stream.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
    }
}

async fn play(mut stream: TcpStream, act: Act, answering: &Responder) {
    while let Some(body) = body(&mut stream).await {
        let answer = match &act {
            Act::Swallow => return,
            Act::Hang => std::future::pending().await,
            Act::Say(text) => text.clone().into_bytes(),
            Act::Serve | Act::ServeOne | Act::SwallowDone => {
                let answer = answering.answer(Responder::read(&body).unwrap()).await;
                if matches!(act, Act::SwallowDone) {
                    return;
                }
                let head = format!(
                    "HTTP/1.1 200 OK\r\nwindlass-protocol: {PROTOCOL}\r\ncontent-length: {}\r\n\r\n",
                    answer.len()
                );
                [head.into_bytes(), answer].concat()
            }
        };
        stream.write_all(&answer).await.unwrap();
        if matches!(act, Act::ServeOne | Act::Say(_)) {
            return;
        }
    }
}

fn problem(status: &str, code: &str) -> Act {
    let body = format!(r#"{{"status":0,"code":"{code}","title":"x","detail":"because"}}"#);
    Act::Say(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

fn said(status: &str, headers: &str, body: &str) -> Act {
    Act::Say(format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()))
}

#[tokio::test]
async fn who_is_not_there_is_unavailable() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let error = Options::new(&url).unwrap().open().await.unwrap_err();
    assert!(
        matches!(&error, Error::Unavailable(why) if why.contains(&url) && why.contains("windlass serve"))
    );
}

/// The first connection is kept after opening; the act is for the second call on it, or for the second
/// connection.
#[tokio::test]
async fn what_was_sent_and_not_answered_is_unknown_if_it_writes() {
    for act in [Act::Swallow, Act::SwallowDone] {
        let mut script = Script::start([Act::ServeOne, act.clone(), act.clone(), Act::Serve]).await;
        let store = script.open().await.unwrap();
        script.closed.recv().await.unwrap();
        let error = store.submit(vec![task(1)]).await.unwrap_err();
        assert!(matches!(error, Error::Unknown(_)), "{act:?}: {error}");
        let error = store.task(task(1).id).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{act:?}: {error}");
        let found = store.task(task(1).id).await.unwrap();
        assert_eq!(found.is_some(), matches!(act, Act::SwallowDone), "it goes on, and reading tells");
    }
}

#[tokio::test]
async fn who_is_silent_for_too_long_is_given_up() {
    let mut script = Script::start([Act::ServeOne, Act::Hang, Act::Hang]).await;
    let options = Options::new(&script.url).unwrap().answer_within(Duration::from_millis(200));
    let store = options.open().await.unwrap();
    script.closed.recv().await.unwrap();
    assert!(matches!(store.submit(vec![task(1)]).await, Err(Error::Unknown(why)) if why.contains("200ms")));
    assert!(matches!(store.counts().await, Err(Error::Unavailable(why)) if why.contains("200ms")));
}

/// A connection that the server has closed meanwhile is no reason to fail: nothing was sent.
#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_replaced() {
    let acts = std::iter::repeat_n(Act::ServeOne, 20);
    let mut script = Script::start(acts).await;
    let store = script.open().await.unwrap();
    for n in 1..20 {
        script.closed.recv().await.unwrap();
        store.submit(vec![task(n)]).await.unwrap();
    }
    assert_eq!(script.store.counts().await.unwrap()[0].tasks, 19, "each once");
}

/// Connections are kept: a hundred calls need one.
#[tokio::test]
async fn calls_share_a_connection() {
    let script = Script::start([Act::Serve, Act::Swallow]).await;
    let store = script.open().await.unwrap();
    for n in 1..100 {
        store.submit(vec![task(n)]).await.unwrap();
    }
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    for (status, code, word, told) in [
        ("401 Unauthorized", "unauthenticated", "forbidden", "WINDLASS_TOKEN"),
        ("403 Forbidden", "forbidden", "forbidden", "because"),
        ("413 Payload Too Large", "too_large", "forbidden", "--max-body-bytes"),
        ("429 Too Many Requests", "rate_limited", "unavailable", "because"),
        ("503 Service Unavailable", "overloaded", "unavailable", "because"),
        ("408 Request Timeout", "timeout", "unavailable", "because"),
        ("404 Not Found", "route_not_found", "unusable", "same version"),
        ("500 Internal Server Error", "fault", "unknown_outcome", "because"),
    ] {
        let mut script = Script::start([Act::ServeOne, problem(status, code)]).await;
        let store = script.open().await.unwrap();
        script.closed.recv().await.unwrap();
        let error = store.submit(vec![task(1)]).await.unwrap_err();
        assert!(error.code() == word && error.to_string().contains(told), "{status}: {error}");
    }
}

#[tokio::test]
async fn what_is_no_windlass_server_is_told_so() {
    let html = "content-type: text/html\r\n";
    for (act, word, told) in [
        (said("200 OK", html, "<html>"), "unusable", "not a Windlass server"),
        (said("404 Not Found", html, "<html>"), "unusable", "not a Windlass server"),
        (said("302 Found", "location: http://x\r\n", ""), "unusable", "not a Windlass server"),
        (Act::Say("220 smtp.example.org\r\n".into()), "unavailable", "is it a Windlass server"),
        (said("200 OK", "windlass-protocol: 99\r\n", "{}"), "unusable", "speaks protocol 99, this program"),
        (said("409 Conflict", "windlass-protocol: 99\r\n", "{}"), "unusable", "use the same version of both"),
        (
            said("200 OK", &format!("windlass-protocol: {PROTOCOL}\r\n"), "{}"),
            "unusable",
            "use the same version of both",
        ),
    ] {
        let script = Script::start([act.clone()]).await;
        let error = script.open().await.unwrap_err();
        assert!(error.code() == word && error.to_string().contains(told), "{act:?}: {error}");
    }
    // What stands before a server may have passed on what it then could not answer.
    let mut script = Script::start([Act::ServeOne, said("502 Bad Gateway", html, "<html>")]).await;
    let store = script.open().await.unwrap();
    script.closed.recv().await.unwrap();
    assert_eq!(store.submit(vec![task(1)]).await.unwrap_err().code(), "unknown_outcome");
}

#[tokio::test]
async fn a_token_that_cannot_be_one_is_not_sent_and_not_shown() {
    for token in ["", "wl_ s3cret", "wl_\r\ns3cret"] {
        let error = Options::new("http://127.0.0.1:1").unwrap().token(token).open().await.unwrap_err();
        assert!(error.to_string().contains("windlass token create"), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
    let options = Options::new("http://127.0.0.1:1").unwrap().token("wl_s3cret");
    assert!(!format!("{options:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_closed_store_asks_nothing() {
    let script = Script::start([]).await;
    let store = script.open().await.unwrap();
    store.close().await.unwrap();
    store.close().await.unwrap();
    assert_eq!(store.counts().await, Err(Error::Closed));
    assert!(script.store.counts().await.is_ok(), "the server's store is not closed");
    script.store.close().await.unwrap();
    let other = script.open().await.unwrap();
    assert!(matches!(other.counts().await, Err(Error::Unavailable(_))), "a server that stops may come back");
}
