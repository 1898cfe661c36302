//! Traces and metrics of agents, after OpenTelemetry's conventions for generative AI.
//!
//! A [`Tracer`] watches runs through the events that every subscriber sees. An agent's run is a span `invoke_agent`, a
//! request to a model `chat`, a call of a tool `execute_tool`; a sub-agent is a child of the call that started it, and a run
//! that goes on with an earlier one links to it. What was said is not part of spans unless it is [asked for](Content).
//! Spans and the metrics made of them are exported over OTLP: HTTP with protobuf or JSON, gRPC, or lines of JSON in a file.
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
//! No run waits for an exporter. Finished spans go into a queue of bounded length; what does not fit, and what a receiver
//! does not take in time, is dropped and counted. Spans exist when they have ended, so a process that is killed leaves
//! those that had not out.
//!
//! [`TraceBuilder`] makes spans of any events, those of a [log](deepagents_core::agent::ThreadAccess::events) among them,
//! and needs no exporter.

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
pub use ids::{SpanContext, SpanId, TraceId};
pub use span::{
    AttributeValue, DiscardedAttempt, ModelName, Operation, RequestSettings, ResponseInfo, Span, SpanError, SpanKind,
};
pub use tracer::{RunTrace, Sampler, TraceOptions, Tracer};
