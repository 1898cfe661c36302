//! Observes runs.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deepagents_core::env::{Clock, SystemClock};
use deepagents_core::error::Result;
use deepagents_core::event::Event;
use deepagents_core::message::Usage;
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
use deepagents_core::run::{ModelCall, RunInput, RunObserver};
use futures_core::stream::BoxStream;
use futures_util::StreamExt;

use crate::builder::nanos;
use crate::content::Content;
use crate::export::Exporter;
use crate::{
    Chat, ExportConfig, ExportError, ExportReport, ModelName, Operation, RequestSettings, ResponseInfo, Span,
    SpanContext, TraceBuilder, TraceId,
};

/// Decides which traces are exported. Metrics cover all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Sampler {
    /// Exports all traces.
    #[default]
    AlwaysOn,
    /// Exports no traces.
    AlwaysOff,
    /// Exports this share of traces, from 0 to 1. The trace id decides, so other processes make the same decision.
    Ratio(f64),
    /// Follows the caller's `traceparent`. Without one, exports this share of traces.
    ParentBased(f64),
}

impl Sampler {
    #[allow(clippy::cast_precision_loss, reason = "a ratio of ids needs no more than 53 bits")]
    fn takes(self, parent: Option<SpanContext>, trace: TraceId) -> bool {
        let within = |ratio: f64| {
            let low = trace.0.iter().skip(8).fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
            ratio >= 1.0 || ((low >> 1) as f64) < ratio * (1_u64 << 63) as f64
        };
        match self {
            Self::AlwaysOn => true,
            Self::AlwaysOff => false,
            Self::Ratio(ratio) => within(ratio),
            Self::ParentBased(ratio) => parent.map_or_else(|| within(ratio), |parent| parent.sampled),
        }
    }
}

/// The contents of spans, and how the traces of several processes are connected.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct TraceOptions {
    /// Adds content to spans; off by default.
    pub content: Option<Content>,
    /// Decides which traces are exported.
    pub sampler: Sampler,
    /// The parent span of runs, in another process: its `traceparent`.
    pub parent: Option<SpanContext>,
    /// The trace of an earlier process' part of the run, if that process used its caller's trace.
    pub previous_trace: Option<TraceId>,
    /// Whether the trace is sent to model servers, in the header `traceparent`.
    pub propagate: bool,
    /// The clock of the agents, if it is not the system clock.
    pub clock: Option<Arc<dyn Clock>>,
}

impl fmt::Debug for TraceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceOptions")
            .field("content", &self.content)
            .field("sampler", &self.sampler)
            .field("parent", &self.parent)
            .field("propagate", &self.propagate)
            .finish_non_exhaustive()
    }
}

/// Creates and exports the spans and metrics of runs. Clones share one exporter.
///
/// See the [crate](crate) for an example.
#[derive(Clone)]
pub struct Tracer(Arc<Inner>);

struct Inner {
    exporter: Exporter,
    options: TraceOptions,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracer").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl Tracer {
    /// Creates a tracer and starts its exporter on the current runtime.
    ///
    /// # Errors
    /// Returns an error if there is no runtime, or an address or a header is invalid. An unreachable receiver is not an
    /// error.
    pub fn new(export: ExportConfig, options: TraceOptions) -> Result<Self, ExportError> {
        let clock = options.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
        Ok(Self(Arc::new(Inner { exporter: Exporter::start(export)?, options, clock })))
    }

    /// Creates an observer for a run and the runs that resume it. Pass it to [`RunInput::observer`].
    pub fn observer(&self) -> Arc<RunTrace> {
        let TraceOptions { parent, previous_trace, content, .. } = &self.0.options;
        let builder = TraceBuilder::new(*parent, *previous_trace, content.clone());
        Arc::new(RunTrace { tracer: self.clone(), builder: Mutex::new(builder), asides: AtomicU64::new(0) })
    }

    /// Adds an observer to an input.
    pub fn observe(&self, input: impl Into<RunInput>) -> RunInput {
        input.into().observer(self.observer())
    }

    /// Returns the outcome of exporting spans so far.
    pub fn report(&self) -> ExportReport {
        self.0.exporter.report()
    }

    /// Exports the queued spans within a time limit, then stops. Spans not exported by then, and spans that end later,
    /// count as dropped.
    pub async fn shutdown(&self, within: Duration) -> ExportReport {
        self.0.exporter.shutdown(within).await
    }

    fn export(&self, mut spans: Vec<Span>) {
        let Some(first) = spans.first() else { return };
        let options = &self.0.options;
        let sampled = options.sampler.takes(options.parent, first.context.trace);
        spans.iter_mut().for_each(|span| span.context.sampled = sampled);
        self.0.exporter.take(spans, sampled);
    }
}

/// The [`RunObserver`] that creates the spans of a run. Dropping it ends the open spans.
#[derive(Debug)]
pub struct RunTrace {
    tracer: Tracer,
    builder: Mutex<TraceBuilder>,
    /// The number of requests outside the conversation.
    asides: AtomicU64,
}

impl RunTrace {
    fn builder(&self) -> MutexGuard<'_, TraceBuilder> {
        self.builder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the open spans. Call this when no further event arrives.
    pub fn finish(&self) {
        let mut spans = Vec::new();
        self.builder().finish(&mut spans);
        self.tracer.export(spans);
    }

    /// Returns the span of the run's main agent while it is open, as a parent for other spans.
    pub fn context(&self) -> Option<SpanContext> {
        self.builder().context()
    }

    /// Observes a request outside the conversation, such as for a summary, which no event reports.
    fn aside(
        self: Arc<Self>,
        call: ModelCall,
        model: &Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let (name, clock) = (Arc::new(ModelName::new(model.name())), self.tracer.0.clock.clone());
        let server = model.server();
        let settings = server.is_some().then(|| Box::new(RequestSettings { server, ..RequestSettings::default() }));
        let number = self.asides.fetch_add(1, Ordering::Relaxed);
        let start = nanos(clock.now());
        let watched = model.stream(request).map(move |event| {
            let (usage, response, failed) = match &event {
                Ok(ModelEvent::Finished(output)) => {
                    (output.usage, ResponseInfo::of(&output.message, Some(&*name)), None)
                }
                Err(error) => (Usage::default(), None, Some(error)),
                Ok(_) => return event,
            };
            let (model, settings) = (Some(name.clone()), settings.clone());
            let operation = Operation::Chat(Chat { model, usage, settings, response, ..Chat::default() });
            let times = (start, nanos(clock.now()));
            let span = self.builder().aside(&call.path, number, operation, times, failed);
            self.tracer.export(span.into_iter().collect());
            event
        });
        Box::pin(watched)
    }
}

impl RunObserver for RunTrace {
    fn model(
        self: Arc<Self>,
        call: ModelCall,
        model: &Arc<dyn ChatModel>,
        mut request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        if call.aside {
            return self.aside(call, model, request);
        }
        let mut builder = self.builder();
        builder.describe(&call.path, call.description.as_ref());
        builder.request(&call.path, &request, model.server());
        if let (true, Some(chat)) = (self.tracer.0.options.propagate, builder.open_chat(&call.path)) {
            let options = &self.tracer.0.options;
            let sampled = options.sampler.takes(options.parent, chat.trace);
            request.headers.push(("traceparent".to_owned(), SpanContext { sampled, ..chat }.to_string()));
        }
        drop(builder);
        let answer = model.stream(request).inspect(move |event| {
            // Events report the pieces of the answer, which are most of the stream.
            if matches!(event, Err(_) | Ok(ModelEvent::Retry { .. } | ModelEvent::Finished(_))) {
                self.builder().response(&call.path, event);
            }
        });
        Box::pin(answer)
    }

    fn event(&self, event: &Event) {
        let mut spans = Vec::new();
        self.builder().event(event, &mut spans);
        self.tracer.export(spans);
    }
}

impl Drop for RunTrace {
    fn drop(&mut self) {
        self.finish();
    }
}
