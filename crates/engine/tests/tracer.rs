//! Traces with a tracer: what submits is the parent of what runs, and what was said wins. A tracer is for a
//! whole program, so this is one.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Once, OnceLock, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Instrument, Span, Subscriber};
use tracing_subscriber::layer::{Context as Layered, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use windlass::trace::{Tracer, set_tracer};
use windlass::{Definition, TaskError, TraceParent, Windlass, flow};

/// A span that was recorded: its trace, what it is part of, and its fields.
#[derive(Clone, Debug, Default)]
struct Seen {
    trace: u8,
    parent: Option<u64>,
    fields: HashMap<&'static str, String>,
}

/// Everything that was recorded, by the number of the span. The trace of a span that is part of none is its
/// number.
type Book = Mutex<HashMap<u64, Seen>>;

fn book() -> &'static Book {
    static BOOK: OnceLock<Book> = OnceLock::new();
    BOOK.get_or_init(Book::default)
}

fn write<T>(change: impl FnOnce(&mut HashMap<u64, Seen>) -> T) -> T {
    change(&mut book().lock().unwrap_or_else(PoisonError::into_inner))
}

/// Notes fields.
struct Fields<'a>(&'a mut Seen);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.fields.insert(field.name(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

struct Notes;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Notes {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Layered<'_, S>) {
        let parent = context.span(id).and_then(|span| span.parent()).map(|parent| parent.id().into_u64());
        write(|book| {
            let number = u8::try_from(id.into_u64() % 251).unwrap_or_default() + 1;
            let trace = parent.and_then(|parent| book.get(&parent)).map_or(number, |seen| seen.trace);
            let mut seen = Seen { trace, parent, ..Seen::default() };
            attributes.record(&mut Fields(&mut seen));
            book.insert(id.into_u64(), seen);
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Layered<'_, S>) {
        write(|book| values.record(&mut Fields(book.entry(id.into_u64()).or_default())));
    }
}

#[derive(Debug)]
struct Pencil;

impl Tracer for Pencil {
    fn identify(&self, span: &Span) -> Option<TraceParent> {
        let number = span.id()?.into_u64();
        let trace = write(|book| book.get(&number).map(|seen| seen.trace))?;
        TraceParent::new([trace; 16], number.to_be_bytes(), 1)
    }

    fn follow(&self, span: &Span, parent: TraceParent) {
        let Some(id) = span.id() else { return };
        write(|book| {
            let seen = book.entry(id.into_u64()).or_default();
            (seen.trace, seen.parent) = (parent.trace_id()[0], Some(u64::from_be_bytes(parent.span_id())));
        });
    }
}

/// The span that a task, or what else, is part of.
fn seen(parent: TraceParent) -> Seen {
    let number = u64::from_be_bytes(parent.span_id());
    write(|book| book.get(&number).cloned()).unwrap()
}

fn set_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Notes)).unwrap();
        set_tracer(Pencil).unwrap();
        assert!(set_tracer(Pencil).unwrap_err().to_string().contains("already"));
    });
}

/// A worker that notes what its handlers are part of.
async fn work(windlass: &Windlass) -> (windlass::RunningWorker, Arc<Mutex<Vec<TraceParent>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let (good, bad) = (told.clone(), told.clone());
    let worker = windlass
        .worker()
        .queues(["default", "q"])
        .handle_kind("good", move |context| {
            good.lock().unwrap().push(context.traceparent().unwrap());
            assert_eq!(windlass::trace::identify(&Span::current()), context.traceparent());
            async move {
                if context.payload().as_str() != "\"more\"" {
                    return Ok(String::new());
                }
                let more = context.client().submit_json("good", "null").await.map_err(TaskError::retry)?;
                Ok(more.id.to_string())
            }
        })
        .handle_kind("bad", move |context| {
            bad.lock().unwrap().push(context.traceparent().unwrap());
            async { Err::<(), _>(TaskError::fail("as asked")) }
        });
    (worker.start().await.unwrap(), told)
}

#[tokio::test]
async fn a_task_is_part_of_what_submits_it_and_its_attempt_of_that() {
    set_up();
    let windlass = Windlass::open("memory:").await.unwrap();
    let (worker, told) = work(&windlass).await;
    let client = windlass.client();
    let request = tracing::info_span!("request");
    let outermost = windlass::trace::identify(&request).unwrap();
    let id = client.submit_json("good", "1").queue("q").into_future().instrument(request).await.unwrap().id;
    let kept = client.get(id).await.unwrap().unwrap().task.spec.traceparent.unwrap();
    let submit = seen(kept);
    assert_eq!(submit.parent, Some(u64::from_be_bytes(outermost.span_id())), "{submit:?}");
    assert_eq!(submit.fields["otel.name"], "submit good");
    assert_eq!(submit.fields["otel.kind"], "producer");
    client.wait(id).await.unwrap();
    worker.stop().await.unwrap();
    let attempt = seen(told.lock().unwrap()[0]);
    assert_eq!(attempt.parent, Some(u64::from_be_bytes(kept.span_id())));
    assert_eq!(attempt.trace, outermost.trace_id()[0], "request, submit and attempt are one trace");
    let field = |name: &str| attempt.fields[name].clone();
    assert_eq!((field("id"), field("kind"), field("queue")), (id.to_string(), "good".into(), "q".into()));
    assert_eq!((field("attempt"), field("outcome")), ("1".into(), "completed".into()));
    assert_eq!((field("otel.name"), field("otel.kind")), ("run good".into(), "consumer".into()));
    assert!(!attempt.fields.contains_key("otel.status_code"));
}

#[tokio::test]
async fn what_was_said_wins() {
    set_up();
    let windlass = Windlass::open("memory:").await.unwrap();
    let (worker, told) = work(&windlass).await;
    let client = windlass.client();
    let given = TraceParent::new([255; 16], [9; 8], 0).unwrap();
    let id = client.submit_json("good", "1").traceparent(given).await.unwrap().id;
    client.wait(id).await.unwrap();
    worker.stop().await.unwrap();
    assert_eq!(client.get(id).await.unwrap().unwrap().task.spec.traceparent, Some(given));
    let own = told.lock().unwrap()[0];
    let attempt = seen(own);
    assert_eq!((attempt.trace, attempt.parent), (255, Some(u64::from_be_bytes([9; 8]))));
    assert_ne!(own, given, "a handler passes its own span on");
}

#[tokio::test]
async fn what_a_handler_submits_is_part_of_its_attempt() {
    set_up();
    let windlass = Windlass::open("memory:").await.unwrap();
    let (worker, told) = work(&windlass).await;
    let client = windlass.client();
    let id = client.submit_json("good", "\"more\"").await.unwrap().id;
    let more: String = client.wait(id).await.unwrap().output().unwrap();
    client.wait(more.parse().unwrap()).await.unwrap();
    worker.stop().await.unwrap();
    let told = told.lock().unwrap();
    let (first, second) = (told[0], seen(told[1]));
    assert_eq!(second.trace, first.trace_id()[0]);
    let submit = write(|book| book.get(&second.parent.unwrap()).cloned()).unwrap();
    assert_eq!(submit.parent, Some(u64::from_be_bytes(first.span_id())));
}

#[tokio::test]
async fn a_failure_is_an_error() {
    set_up();
    let windlass = Windlass::open("memory:").await.unwrap();
    let (worker, told) = work(&windlass).await;
    let client = windlass.client();
    let id = client.submit_json("bad", "1").await.unwrap().id;
    client.wait(id).await.unwrap();
    worker.stop().await.unwrap();
    let attempt = seen(told.lock().unwrap()[0]);
    assert_eq!((&*attempt.fields["outcome"], &*attempt.fields["otel.status_code"]), ("failed", "ERROR"));
}

#[tokio::test]
async fn steps_are_part_of_what_starts_their_workflow() {
    set_up();
    let windlass = Windlass::open("memory:").await.unwrap();
    let (worker, told) = work(&windlass).await;
    let client = windlass.client();
    let text = "{ name: two, steps: { a: { task: good }, b: { task: good, needs: a } } }";
    let definition: Definition = flow::check(text).unwrap().0.definition().clone();
    let id = client.start_ad_hoc(definition).await.unwrap().id;
    client.wait_for_workflow(id).await.unwrap();
    worker.stop().await.unwrap();
    let told = told.lock().unwrap();
    let (a, b) = (seen(told[0]), seen(told[1]));
    assert_eq!((a.trace, a.parent), (b.trace, b.parent));
    let start = write(|book| book.get(&a.parent.unwrap()).cloned()).unwrap();
    assert_eq!(start.fields["otel.name"], "start two");
    assert_eq!(start.fields["workflow"], id.to_string());
}
