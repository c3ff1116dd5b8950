//! What is submitted here is part of: a W3C trace context, from a flag or from the environment.

use clap::Args;
use windlass::TraceParent;

/// Where a program finds what it is part of, and where its own programs do.
pub(crate) const VARIABLE: &str = "TRACEPARENT";

/// What a task or workflow is part of.
#[derive(Args, Clone, Debug)]
pub(crate) struct TraceArgs {
    /// What it is part of, a W3C trace context [default: $TRACEPARENT]
    #[arg(long, value_name = "00-TRACE-SPAN-FLAGS")]
    traceparent: Option<TraceParent>,
}

impl TraceArgs {
    pub(crate) fn traceparent(&self) -> Option<TraceParent> {
        self.traceparent.or_else(from_environment)
    }
}

/// What this program is part of. Who set the variable may have meant another program: what cannot be read is
/// as if it were not there.
pub(crate) fn from_environment() -> Option<TraceParent> {
    std::env::var(VARIABLE).ok()?.parse().ok()
}
