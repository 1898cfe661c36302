//! Traces and metrics of agents, following OpenTelemetry's semantic conventions for generative AI.
//!
//! A [`Tracer`] observes runs through the events that every subscriber gets. A run of an agent is an `invoke_agent`
//! span, a model request a `chat` span and a tool call an `execute_tool` span. A sub-agent is a child of the call that
//! started it, and a run that resumes an earlier one links to it.
//!
//! Content is not part of spans unless it is [requested](Content). Spans, and the metrics derived from them, are
//! exported over OTLP: HTTP with protobuf or JSON, gRPC, or JSON lines in a file.
//!
//! ```
//! use deepagents_otel::{ExportConfig, TraceOptions, Tracer};
//! use std::time::Duration;
//!
//! # let folder = tempfile::tempdir()?;
//! # let file = std::fs::File::create(folder.path().join("trace.jsonl"))?;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let tracer = Tracer::new(ExportConfig::default().file(file), TraceOptions::default())?;
//! // agent.invoke(tracer.observe("Tidy up.")).await?;
//! let report = tracer.shutdown(Duration::from_secs(5)).await;
//! assert_eq!(report.dropped, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! No run waits for an exporter. Finished spans go into a bounded queue. Spans that do not fit, or that a receiver does
//! not accept in time, are dropped and counted. Spans are created when they end, so a killed process loses its open
//! ones.
//!
//! [`TraceBuilder`] builds spans from any events, including those of a
//! [log](deepagents_core::agent::ThreadAccess::events), without an exporter.

mod builder;
mod config;
mod content;
pub mod conventions;
mod export;
mod fit;
mod ids;
mod metrics;
mod otlp;
mod span;
mod tracer;

pub use builder::TraceBuilder;
pub use config::{ConfigError, OtelConfig, Variables};
pub use content::{Content, Redaction};
pub use export::{Endpoint, ExportConfig, ExportError, ExportReport, LineFile, Protocol, Temporality};
pub use ids::{HexId, SpanContext, SpanId, TraceId};
pub use span::{
    AttributeValue, Chat, DiscardedAttempt, ModelName, Operation, RequestSettings, ResponseInfo, Span, SpanError,
    SpanKind,
};
pub use tracer::{RunTrace, Sampler, TraceOptions, Tracer};
