//! Spans as a collector sees them: one trace from a request over its submit to the run, across processes; and
//! what becomes of tasks when the collector is none.
#![cfg(all(target_os = "linux", feature = "otel"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod collector;
#[allow(dead_code, reason = "not every test needs all of it")]
#[path = "../http/kit.rs"]
mod kit;
#[path = "../support/mod.rs"]
mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use rcgen::generate_simple_self_signed;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use collector::{Collector, Sent, mute, nobody};
use kit::{Server, text};
use support::{Place, Running, Said};

const FIRST: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Tells what it is part of.
const TELL: &str = r#"tell=printf '"%s"' "$TRACEPARENT""#;

/// The program, with its spans going to `endpoint`: only when it ends, so that it is seen that what is left
/// is sent then.
fn sending(place: &Place, endpoint: &str) -> Command {
    let mut command = place.program();
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_BSP_SCHEDULE_DELAY", "600000");
    command
}

fn serve(place: Place, endpoint: &str) -> Server {
    let mut command = sending(&place, endpoint);
    let mut running = Running::start(command.args(["serve", "--listen", "127.0.0.1:0"]));
    running.until("spans go to");
    let line = running.until("serving http");
    let address = line.rsplit("//").next().unwrap().parse().unwrap();
    Server { place, running, address }
}

/// Ends as asked.
fn stop(server: &mut Server) {
    server.running.signal(Signal::TERM);
    assert_eq!(server.running.end().code, 0);
}

/// Works everything off.
fn drain(place: &Place, endpoint: &str) -> Said {
    let mut running =
        Running::start(sending(place, endpoint).args(["work", "--drain", "--workflows", "--exec", TELL]));
    let said = running.end();
    assert_eq!(said.code, 0, "{}", said.err);
    said
}

/// Submits as part of `trace`.
fn submit(server: &Server, trace: &str, body: &Value) -> String {
    let headers = [("content-type", "application/json"), ("traceparent", trace)];
    let answer = server.ask_with("POST", "/v1/tasks", &headers, Some(body.to_string().as_bytes()));
    text(&answer.told(201)["id"])
}

/// The one span of this name that is part of the trace.
fn only(collector: &Collector, name: &str, trace: &str) -> Sent {
    let mut all = collector.all();
    all.retain(|span| span.name == name && trace.contains(&span.trace));
    assert_eq!(all.len(), 1, "{name}: {:?}", collector.all());
    all.remove(0)
}

#[test]
fn a_request_its_submit_and_the_run_are_one_trace() {
    let collector = Collector::start();
    let mut server = serve(Place::new(), &collector.endpoint());
    let id = submit(&server, FIRST, &json!({ "kind": "tell", "queue": "default" }));
    let shown = text(&server.task(&id)["traceparent"]);
    drain(&server.place, &collector.endpoint());
    let run = collector.until("run tell");
    let told = text(&server.task(&id)["result"]);
    server.get("/health");
    stop(&mut server);
    let request = only(&collector, "POST /v1/tasks", FIRST);
    let submit = only(&collector, "submit tell", FIRST);
    assert_eq!((&*request.parent, request.kind), (&FIRST[36..52], 2), "{request:?}");
    assert_eq!((&submit.parent, submit.kind), (&request.id, 4), "{submit:?}");
    assert_eq!((&run.parent, &run.trace, run.kind), (&submit.id, &submit.trace, 5), "{run:?}");
    assert_eq!(shown, submit.traceparent(), "the task carries the span that submitted it");
    assert_eq!(told, run.traceparent(), "the program is part of the run");
    let has = |span: &Sent, name: &str, value: &str| {
        assert_eq!(span.attributes.get(name).map(String::as_str), Some(value), "{name}: {span:?}");
    };
    has(&request, "http.route", "/v1/tasks");
    has(&request, "http.request.method", "POST");
    has(&request, "http.response.status_code", "201");
    for (name, value) in
        [("id", &*id), ("kind", "tell"), ("queue", "default"), ("attempt", "1"), ("outcome", "completed")]
    {
        has(&run, name, value);
    }
    assert!(collector.all().iter().all(|span| span.service == "windlass"), "{:?}", collector.all());
    assert!(!collector.all().iter().any(|span| span.name.contains("/health")), "nobody wants to see that");
}

#[test]
fn what_a_task_says_itself_wins() {
    let collector = Collector::start();
    let server = serve(Place::new(), &collector.endpoint());
    let id = submit(&server, FIRST, &json!({ "kind": "tell", "traceparent": OTHER }));
    assert_eq!(server.task(&id)["traceparent"], OTHER);
    drain(&server.place, &collector.endpoint());
    let run = collector.until("run tell");
    assert_eq!((&*run.trace, &*run.parent), (&OTHER[3..35], &OTHER[36..52]));
}

#[test]
fn steps_are_part_of_the_request_that_started_them() {
    let collector = Collector::start();
    let mut server = serve(Place::new(), &collector.endpoint());
    let steps = json!({ "a": { "task": "tell" }, "b": { "task": "tell", "needs": ["a"] } });
    let headers = [("content-type", "application/json"), ("traceparent", FIRST)];
    let body = json!({ "definition": "two", "steps": steps }).to_string();
    server.ask_with("POST", "/v1/workflows", &headers, Some(body.as_bytes())).told(201);
    drain(&server.place, &collector.endpoint());
    stop(&mut server);
    let start = only(&collector, "start two", FIRST);
    assert_eq!(start.parent, only(&collector, "POST /v1/workflows", FIRST).id);
    let mut runs = collector.all();
    runs.retain(|span| span.name == "run tell");
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert!(runs.iter().all(|run| run.parent == start.id && run.trace == start.trace), "{runs:?}");
}

/// Who began the trace decided that it is not worth recording.
#[test]
fn what_is_not_sampled_is_carried_and_not_sent() {
    let collector = Collector::start();
    let mut server = serve(Place::new(), &collector.endpoint());
    let id = submit(&server, &FIRST.replace("-01", "-00"), &json!({ "kind": "tell" }));
    submit(&server, OTHER, &json!({ "kind": "tell" }));
    let carried = text(&server.task(&id)["traceparent"]);
    assert!(carried.starts_with(&FIRST[..36]) && carried.ends_with("-00"), "{carried}");
    drain(&server.place, &collector.endpoint());
    stop(&mut server);
    only(&collector, "run tell", OTHER);
    assert!(!collector.all().iter().any(|span| FIRST.contains(&span.trace)), "{:?}", collector.all());
}

/// A failure is told as one; so is the name of the service.
#[test]
fn a_run_that_fails_is_an_error() {
    let collector = Collector::start();
    let place = Place::new();
    place.submit(&["bad", "--traceparent", FIRST]);
    let mut command = sending(&place, &collector.endpoint());
    command.env("OTEL_SERVICE_NAME", "billing").args(["work", "--drain", "--exec", "bad=exit 1"]);
    assert_eq!(Running::start(&mut command).end().code, 0);
    let run = collector.until("run bad");
    assert_eq!((&*run.service, run.status, &*run.attributes["outcome"]), ("billing", 2, "failed"));
}

/// A workflow that is run here is part of what the command is part of.
#[test]
fn a_run_of_a_file_goes_on() {
    let collector = Collector::start();
    let place = Place::new();
    place.file("flow.yaml", "{ name: flow, steps: { a: { run: 'true' } } }");
    let mut command = sending(&place, &collector.endpoint());
    let output = command.env("TRACEPARENT", FIRST).args(["run", "flow.yaml", "--json"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let run = collector.until("run windlass.run");
    assert_eq!((&*run.trace, &*run.parent), (&FIRST[3..35], &FIRST[36..52]));
}

/// Tasks do not wait for a collector, and neither does the end of the program for long.
#[test]
fn a_collector_that_is_gone_or_mute_holds_up_nothing() {
    let (_listener, mute) = mute();
    for (endpoint, told) in [(nobody(), "spans cannot be sent"), (mute, "the last spans could not be sent")] {
        let place = Place::new();
        let id = place.submit(&["tell", "--traceparent", FIRST]);
        let begun = Instant::now();
        let said = drain(&place, &endpoint);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert!(said.err.contains(told), "{}", said.err);
        assert_eq!(place.task(&id)["state"], "completed");
    }
}

#[test]
fn without_a_collector_a_task_carries_what_it_was_given() {
    for (name, value) in
        [("OTEL_EXPORTER_OTLP_ENDPOINT", ""), ("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")]
    {
        let (place, collector) = (Place::new(), Collector::start());
        let id = place.submit(&["tell", "--traceparent", FIRST]);
        let mut command = sending(&place, &collector.endpoint());
        command.env(name, value).args(["work", "--drain", "--exec", TELL]);
        let said = Running::start(&mut command).end();
        assert!(said.code == 0 && !said.err.contains("spans"), "{}", said.err);
        assert_eq!(place.task(&id)["result"], FIRST, "{name}");
        assert!(collector.all().is_empty(), "{name}: {:?}", collector.all());
    }
}

#[test]
fn an_address_that_is_none_is_told_before_anything_is_done() {
    let place = Place::new();
    let output = sending(&place, "http://[oops").args(["work", "--drain", "--exec", TELL]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{said}");
    assert_eq!(place.files(), [""; 0]);
}

/// By TLS, to whom the environment, or everybody, trusts.
#[test]
fn a_collector_is_trusted_or_told_nothing() {
    let made = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let (place, collector) = (Place::new(), Collector::secure(config));
    place.file("authority.pem", made.cert.pem());
    place.submit(&["tell", "--traceparent", FIRST]);
    let said = drain(&place, &collector.endpoint());
    assert!(said.err.contains("invalid peer certificate"), "{}", said.err);
    assert!(collector.all().is_empty());
    place.submit(&["tell", "--traceparent", OTHER]);
    let mut command = sending(&place, &collector.endpoint());
    command.env("OTEL_EXPORTER_OTLP_CERTIFICATE", "authority.pem").args(["work", "--drain", "--exec", TELL]);
    assert_eq!(Running::start(&mut command).end().code, 0);
    assert_eq!(collector.until("run tell").trace, OTHER[3..35]);
}
