//! Spans for an OpenTelemetry collector, over HTTP.
//!
//! The variables of the environment are the standard ones: `OTEL_EXPORTER_OTLP_ENDPOINT` names the collector,
//! and without it nothing is set up; `OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_SCHEDULE_DELAY`
//! and their like are read by the libraries. Spans are made with `tracing` all over Windlass; here they are
//! turned into OpenTelemetry's, and [`windlass::trace`] is told how traces go on in other programs. Metrics
//! and logs do not go this way.

mod collector;

use std::time::Duration;

use anyhow::{Context as _, Result};
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, Key};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Metadata, Span, Subscriber, warn};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, LevelFilter};
use tracing_subscriber::registry::LookupSpan;
use windlass::TraceParent;
use windlass::trace::{Tracer, set_tracer};

use crate::address::without_password;
use collector::Collector;

/// How long the end of the program waits for its last spans to be sent.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// Whose spans these are, unless the environment says.
const SERVICE: &str = "windlass";

/// Spans on their way to a collector.
#[derive(Debug)]
pub(crate) struct Spans {
    provider: SdkTracerProvider,
    endpoint: String,
}

impl Spans {
    /// Sets up what the environment asks for; nothing, if it names no collector or says that there is to be
    /// none.
    pub(crate) fn from_environment() -> Result<Option<Self>> {
        let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let endpoint =
            said("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| said("OTEL_EXPORTER_OTLP_ENDPOINT"));
        let is_off = said("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || said("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
        let Some(endpoint) = endpoint.filter(|_| !is_off) else { return Ok(None) };
        let exporter = SpanExporter::builder().with_http().with_http_client(Collector::new(&said)?);
        let exporter = exporter.build().context("OpenTelemetry, as the environment asks for it")?;
        let provider =
            SdkTracerProvider::builder().with_resource(resource()).with_batch_exporter(exporter).build();
        // Only tests start twice in one process, and then the first one will do.
        let _ = set_tracer(Joint);
        Ok(Some(Self { provider, endpoint }))
    }

    /// What turns the spans of Windlass into OpenTelemetry's.
    pub(crate) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> impl Layer<S> + use<S> {
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer(SERVICE));
        // Where in the code a span was made, and by which thread, is of no use to who looks at tasks.
        let layer = layer.with_location(false).with_threads(false).with_tracked_inactivity(false);
        layer.with_target(false).with_filter(FilterFn::new(is_ours).with_max_level_hint(LevelFilter::INFO))
    }

    /// Where spans go.
    pub(crate) fn remark(&self) -> String {
        format!("spans go to {}", without_password(&self.endpoint))
    }

    /// Sends what is left to send, within bounds.
    pub(crate) async fn end(self) {
        let ending = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(LAST_SPANS));
        // A thread that waits longer than it promised is left behind.
        match tokio::time::timeout(LAST_SPANS * 2, ending).await {
            Ok(Ok(Ok(()))) => {}
            _ => warn!("the last spans could not be sent"),
        }
    }
}

/// Spans of libraries, and those for debugging, are not for collectors.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::INFO && metadata.target().starts_with("windlass")
}

/// Who makes the spans. Who says nothing is `windlass`, not an unknown service.
fn resource() -> Resource {
    let told = Resource::builder();
    let name = Resource::builder().build().get(&Key::from_static_str("service.name"));
    match name.is_some_and(|name| !name.as_str().starts_with("unknown_service")) {
        true => told.build(),
        false => told.with_service_name(SERVICE).build(),
    }
}

/// Where Windlass' traces and OpenTelemetry's are joined.
#[derive(Debug)]
struct Joint;

impl Tracer for Joint {
    fn identify(&self, span: &Span) -> Option<TraceParent> {
        let context = span.context();
        let span = context.span();
        let it = span.span_context();
        TraceParent::new(it.trace_id().to_bytes(), it.span_id().to_bytes(), it.trace_flags().to_u8())
    }

    fn follow(&self, span: &Span, parent: TraceParent) {
        let (trace, parent, flags) = (
            TraceId::from_bytes(parent.trace_id()),
            SpanId::from_bytes(parent.span_id()),
            TraceFlags::new(parent.flags()),
        );
        let parent = SpanContext::new(trace, parent, flags, true, TraceState::default());
        // A span that is not recorded has no parent.
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    }
}
