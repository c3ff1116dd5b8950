//! What the program tells about itself while it works: lines of log for people and, if it is built with the
//! feature `otel` and the environment names a collector, spans for machines.

use std::io::Write;

use anyhow::Result;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

#[cfg(feature = "otel")]
use crate::otel::Spans;

/// Telling, until it is ended.
#[derive(Debug)]
pub(crate) struct Telemetry {
    #[cfg(feature = "otel")]
    spans: Option<Spans>,
}

impl Telemetry {
    /// Warnings, and worse, go to what `log` gives; spans to where the environment says.
    pub(crate) fn start<W: Write + 'static>(log: impl Fn() -> W + Send + Sync + 'static) -> Result<Self> {
        let lines = fmt::layer().with_ansi(false).with_target(false).with_writer(log);
        let subscriber = tracing_subscriber::registry().with(lines.with_filter(LevelFilter::WARN));
        #[cfg(feature = "otel")]
        {
            let spans = Spans::from_environment()?;
            let _ = subscriber.with(spans.as_ref().map(Spans::layer)).try_init();
            Ok(Self { spans })
        }
        #[cfg(not(feature = "otel"))]
        {
            let _ = subscriber.try_init();
            Ok(Self {})
        }
    }

    /// Where spans go, or why they do not although somebody seems to expect it.
    pub(crate) fn remark(&self) -> Option<String> {
        #[cfg(feature = "otel")]
        return self.spans.as_ref().map(Spans::remark);
        #[cfg(not(feature = "otel"))]
        return std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").map(|_| {
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but this program is built without the feature otel".into()
        });
    }

    /// Sends what is left to send. Takes a few seconds at most, whatever the collector does.
    pub(crate) async fn end(self) {
        #[cfg(feature = "otel")]
        if let Some(spans) = self.spans {
            spans.end().await;
        }
    }
}
