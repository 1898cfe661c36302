//! Builds spans from events.

mod agent;
mod run;
mod words;

use std::sync::Arc;

use deepagents_core::env::Timestamp;
use deepagents_core::event::{Event, EventKind};
use deepagents_core::model::{ModelError, ModelEvent, ModelRequest, ModelServer};

use crate::content::Content;
use crate::{Operation, Span, SpanContext, SpanError, TraceId};
use run::{OpenRun, Outcome};

/// Builds spans from the events of a run and of the runs that resume it, in any process.
///
/// It does no I/O. Its memory grows with the open spans and the number of calls of a run. The events of a live run and
/// those of a log give the same spans, except for what a log lacks: the models, and the start of model requests, for
/// which the end of the preceding operation is used.
///
/// ```
/// use deepagents_core::event::Event;
/// use deepagents_otel::TraceBuilder;
///
/// let events = [
///     r#"{"v":1,"seq":0,"run":"run_1","path":[],"time":"2026-11-22T16:00:00Z","type":"run_started","thread":"t1"}"#,
///     r#"{"v":1,"seq":1,"run":"run_1","path":[],"time":"2026-11-22T16:00:00Z","type":"agent_started","name":"main"}"#,
///     r#"{"v":1,"seq":2,"run":"run_1","path":[],"time":"2026-11-22T16:00:07Z","type":"run_finished","stop":"done","usage":{"input":9,"output":2},"model_calls":1}"#,
/// ];
/// let (mut builder, mut spans) = (TraceBuilder::default(), Vec::new());
/// for line in events {
///     builder.event(&serde_json::from_str::<Event>(line)?, &mut spans);
/// }
/// assert_eq!(spans.first().map(|span| (span.name(), span.seconds())), Some(("invoke_agent main".to_owned(), 7.0)));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct TraceBuilder {
    /// The parent span of runs, in another process.
    parent: Option<SpanContext>,
    /// The trace of the process that started the run, if it is not derived from the run's id.
    previous: Option<TraceId>,
    content: Option<Content>,
    run: Option<OpenRun>,
    /// The id of the last run that started here, and its span.
    last: Option<(Arc<str>, SpanContext)>,
}

impl TraceBuilder {
    pub(crate) fn new(parent: Option<SpanContext>, previous: Option<TraceId>, content: Option<Content>) -> Self {
        Self { parent, previous, content, ..Self::default() }
    }

    /// Sets a span of another process as the parent of runs.
    #[must_use]
    pub fn with_parent(mut self, parent: SpanContext) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Sets the trace of an earlier process' part of the run, if that process used its caller's trace rather than the
    /// one derived from the run's id.
    #[must_use]
    pub fn with_previous_trace(mut self, trace: TraceId) -> Self {
        self.previous = Some(trace);
        self
    }

    /// Adds content to spans.
    #[must_use]
    pub fn with_content(mut self, content: Content) -> Self {
        self.content = Some(content);
        self
    }

    /// Handles an event. Appends the spans that it ends to `ended`, children before their parents.
    pub fn event(&mut self, event: &Event, ended: &mut Vec<Span>) {
        let now = nanos(event.at);
        match &event.kind {
            EventKind::Lagged { .. } | EventKind::Unknown => return,
            EventKind::RunStarted { thread } => {
                self.finish(ended);
                self.begin(event, thread.as_deref(), now);
            }
            _ if self.run.is_none() => self.begin(event, None, now),
            _ => {}
        }
        let Some(mut run) = self.run.take() else { return };
        let content = self.content.as_ref();
        match &event.kind {
            EventKind::RunFinished { stop, usage, .. } => run.end(now, Outcome::finished(stop, *usage), ended),
            EventKind::RunFailed { kind, error } => run.end(now, Outcome::failed(kind, error, content), ended),
            _ => {
                run.last = run.last.max(now);
                run.agent_event(event, now, content, ended);
                self.run = Some(run);
            }
        }
    }

    /// Records the description of a running agent.
    pub fn describe(&mut self, path: &Arc<[String]>, description: Option<&Arc<str>>) {
        if let Some(agent) = self.run.as_mut().and_then(|run| run.agent(path)) {
            agent.description = description.cloned();
        }
    }

    /// Records a model request: its settings, its content and the server it is sent to. Call this after the event that
    /// reports the request.
    pub fn request(&mut self, path: &Arc<[String]>, request: &ModelRequest, server: Option<ModelServer>) {
        let content = self.content.as_ref();
        if let Some(chat) = self.run.as_mut().and_then(|run| run.chat(path)) {
            chat.requested(request, server, content);
        }
    }

    /// Records a response of a model: why an attempt failed, and an answer's own metadata. Call this before the event
    /// that reports the response.
    pub fn response(&mut self, path: &Arc<[String]>, event: &Result<ModelEvent, ModelError>) {
        let Some(chat) = self.run.as_mut().and_then(|run| run.chat(path)) else { return };
        match event {
            Ok(ModelEvent::Retry { error, .. }) | Err(error) => chat.record_error(error),
            Ok(ModelEvent::Finished(output)) => chat.record_answer(&output.message),
            Ok(_) => {}
        }
    }

    /// Returns the span of an agent's model request in flight, for propagation to the model's server.
    pub fn open_chat(&self, path: &Arc<[String]>) -> Option<SpanContext> {
        self.run.as_ref()?.open_chat(path)
    }

    /// Returns the span of the current run's main agent.
    pub fn context(&self) -> Option<SpanContext> {
        self.run.as_ref().map(|run| run.root)
    }

    /// Builds the span of a request outside an agent's conversation, which no event reports.
    pub(crate) fn aside(
        &self,
        path: &Arc<[String]>,
        number: u64,
        operation: Operation,
        times: (u64, u64),
        failed: Option<&ModelError>,
    ) -> Option<Span> {
        let error = failed.map(|error| SpanError::new(error.kind()));
        self.run.as_ref()?.aside(path, number, operation, times, error)
    }

    /// Ends all open spans. Call this when no further event arrives, because the run's process or handle is gone.
    pub fn finish(&mut self, ended: &mut Vec<Span>) {
        if let Some(run) = self.run.take() {
            let last = run.last;
            run.end(last, Outcome::unfinished(), ended);
        }
    }

    fn begin(&mut self, event: &Event, thread: Option<&str>, now: u64) {
        let mut run = OpenRun::new(event, thread, self.parent, now);
        if event.attempt > 0 {
            let here = self.last.as_ref().filter(|(id, _)| *id == event.run).map(|(_, span)| *span);
            run.link = Some(here.unwrap_or_else(|| run.earlier(self.previous)));
        }
        self.last = Some((event.run.clone(), run.root));
        self.run = Some(run);
    }
}

/// Returns nanoseconds since 1970.
pub(crate) fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.as_nanosecond()).unwrap_or(0)
}
