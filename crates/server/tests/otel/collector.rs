//! A collector: takes what is posted to `/v1/traces` and reads as much of the protobuf as tests look at.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Longer than anything takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// A span as it was sent. Ids are in hexadecimal digits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) service: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    /// 2 is a server, 4 a producer, 5 a consumer.
    pub(crate) kind: u64,
    /// 2 is an error.
    pub(crate) status: u64,
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Sent {
    /// What those within it are part of.
    pub(crate) fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace, self.id)
    }
}

/// Listens, and keeps what it is sent.
pub(crate) struct Collector {
    address: SocketAddr,
    scheme: &'static str,
    arrivals: Receiver<()>,
    spans: Arc<Mutex<Vec<Sent>>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::with(None)
    }

    /// By TLS.
    pub(crate) fn secure(config: ServerConfig) -> Self {
        Self::with(Some(Arc::new(config)))
    }

    fn with(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, scheme) =
            (listener.local_addr().unwrap(), if tls.is_some() { "https" } else { "http" });
        let (arrived, arrivals) = channel();
        let spans = Arc::new(Mutex::new(Vec::new()));
        let kept = spans.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (tls, arrived, kept) = (tls.clone(), arrived.clone(), kept.clone());
                std::thread::spawn(move || match tls {
                    Some(config) => {
                        let connection = ServerConnection::new(config).unwrap();
                        serve(StreamOwned::new(connection, stream), &kept, &arrived);
                    }
                    None => serve(stream, &kept, &arrived),
                });
            }
        });
        Self { address, scheme, arrivals, spans }
    }

    /// As the environment names it.
    pub(crate) fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Everything that has arrived.
    pub(crate) fn all(&self) -> Vec<Sent> {
        self.spans.lock().unwrap().clone()
    }

    /// Waits for a span with this name.
    pub(crate) fn until(&self, name: &str) -> Sent {
        loop {
            if let Some(found) = self.all().into_iter().find(|span| span.name == name) {
                return found;
            }
            self.arrivals
                .recv_timeout(DEADLINE)
                .unwrap_or_else(|_| panic!("no {name:?} in {:?}", self.all()));
        }
    }
}

/// Takes one request.
fn serve(stream: impl Read + Write, kept: &Mutex<Vec<Sent>>, arrived: &Sender<()>) {
    let mut stream = BufReader::new(stream);
    let (mut line, mut length, mut is_for_us) = (String::new(), 0, false);
    loop {
        line.clear();
        if stream.read_line(&mut line).unwrap_or(0) == 0 {
            // Somebody who did not trust this collector.
            return;
        }
        let head = line.trim_end().to_lowercase();
        is_for_us |= head == "post /v1/traces http/1.1";
        if let Some(given) = head.strip_prefix("content-length: ") {
            length = given.parse().unwrap();
        }
        if head.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    if is_for_us {
        kept.lock().unwrap().extend(spans(&body));
        let _ = arrived.send(());
    }
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
    let _ = stream.get_mut().write_all(answer.as_bytes());
    let _ = stream.get_mut().flush();
}

/// What listens on this address takes connections and never says a word.
pub(crate) fn mute() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    (listener, endpoint)
}

/// Where nothing listens.
pub(crate) fn nobody() -> String {
    let (listener, endpoint) = mute();
    drop(listener);
    // A program that took the port since would have answered.
    assert!(TcpStream::connect(endpoint.trim_start_matches("http://")).is_err());
    endpoint
}

/// One field of a message.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(number) => panic!("{number} is not bytes"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }

    fn hex(&self) -> String {
        self.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(bytes) => panic!("{bytes:?} is not a number"),
        }
    }
}

/// The fields of a message, with their numbers.
fn fields(mut rest: &[u8]) -> Vec<(u64, Value<'_>)> {
    fn varint(rest: &mut &[u8]) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (byte, more) = rest.split_first().unwrap();
            *rest = more;
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return number;
            }
        }
    }
    fn take<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
        let (taken, more) = rest.split_at(length);
        *rest = more;
        taken
    }
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut rest)),
            1 => Value::Bytes(take(&mut rest, 8)),
            2 => {
                let length = usize::try_from(varint(&mut rest)).unwrap();
                Value::Bytes(take(&mut rest, length))
            }
            5 => Value::Bytes(take(&mut rest, 4)),
            form => panic!("there is no form {form}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

/// Those fields of a message that have this number.
fn each(message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(message).into_iter().filter(move |(other, _)| *other == number).map(|(_, value)| value.bytes())
}

/// The spans of an `ExportTraceServiceRequest`.
fn spans(request: &[u8]) -> Vec<Sent> {
    let mut all = Vec::new();
    for resource_spans in each(request, 1) {
        let resource: BTreeMap<_, _> =
            each(resource_spans, 1).flat_map(|resource| each(resource, 1).map(attribute)).collect();
        let service = resource.get("service.name").cloned().unwrap_or_default();
        for scope_spans in each(resource_spans, 2) {
            all.extend(each(scope_spans, 2).map(|one| Sent { service: service.clone(), ..span(one) }));
        }
    }
    all
}

fn span(message: &[u8]) -> Sent {
    let mut span = Sent::default();
    for (number, value) in fields(message) {
        match number {
            1 => span.trace = value.hex(),
            2 => span.id = value.hex(),
            4 => span.parent = value.hex(),
            5 => span.name = value.text(),
            6 => span.kind = value.number(),
            9 => span.attributes.extend([attribute(value.bytes())]),
            15 => {
                let code = fields(value.bytes()).into_iter().find(|(number, _)| *number == 3);
                span.status = code.map_or(0, |(_, code)| code.number());
            }
            _ => {}
        }
    }
    span
}

/// A key and its value, if that is a text or a number.
fn attribute(message: &[u8]) -> (String, String) {
    let key = each(message, 1).next().map(|key| String::from_utf8(key.to_vec()).unwrap());
    let value = each(message, 2).next().and_then(|value| fields(value).pop());
    let value = match value {
        Some((1, text)) => text.text(),
        Some((_, Value::Number(number))) => number.to_string(),
        _ => String::new(),
    };
    (key.unwrap(), value)
}
