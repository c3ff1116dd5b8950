//! Traces: how what a program records about itself goes on from who submits a task to who runs it.
//!
//! Windlass makes spans with `tracing`, which knows nothing of traces that began in other programs; whoever
//! records the spans does. A program tells Windlass how to ask it, once, with [`set_tracer`]: from then on a
//! task that is given no trace is part of the span that submits it, and the span of an attempt is part of
//! what its task is part of.
//!
//! Without a tracer nothing is taken from anywhere: a task is part of what
//! [`Submit::traceparent`](crate::Submit::traceparent) says, or of nothing. This room knows no OpenTelemetry:
//! a library must not choose the version for its users. The program `windlass` has a tracer of fifty lines.

use std::fmt::Debug;
use std::sync::OnceLock;

use thiserror::Error;
use tracing::Span;
use windlass_core::TraceParent;

/// Who records spans, as far as traces go on in other programs.
pub trait Tracer: Debug + Send + Sync + 'static {
    /// What a span is, for those who are to be part of it; nothing, if it is not recorded.
    fn identify(&self, span: &Span) -> Option<TraceParent>;

    /// Makes a span, which was not entered or asked for before, part of something elsewhere.
    fn follow(&self, span: &Span, parent: TraceParent);
}

static TRACER: OnceLock<Box<dyn Tracer>> = OnceLock::new();

/// This program has a tracer already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("this program has a tracer already; set one, once")]
pub struct TracerIsSet;

/// Gives this program its tracer.
pub fn set_tracer(tracer: impl Tracer) -> Result<(), TracerIsSet> {
    TRACER.set(Box::new(tracer)).map_err(|_| TracerIsSet)
}

/// Whether this program has a tracer, so that it is worth making spans for it.
#[must_use]
pub fn is_on() -> bool {
    TRACER.get().is_some()
}

/// What a span is, for those who are to be part of it; nothing without a tracer, and nothing if it is not
/// recorded.
#[must_use]
pub fn identify(span: &Span) -> Option<TraceParent> {
    TRACER.get()?.identify(span)
}

/// Makes a new span part of something elsewhere, if it is to be.
pub fn follow(span: &Span, parent: Option<TraceParent>) {
    if let (Some(tracer), Some(parent)) = (TRACER.get(), parent) {
        tracer.follow(span, parent);
    }
}
