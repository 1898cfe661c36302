//! A running run.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use deepagents_core::event::{Event, EventKind};
use deepagents_core::message::Usage;
use deepagents_core::run::FinishReason;

use super::agent::{Done, OpenAgent, OpenChat};
use super::words;
use crate::content::Content;
use crate::{Operation, Span, SpanContext, SpanError, SpanId, TraceId};

/// A process' part of a run.
#[derive(Debug)]
pub(super) struct OpenRun {
    run: Arc<str>,
    attempt: u32,
    thread: Option<Arc<str>>,
    /// The span of the main agent.
    pub(super) root: SpanContext,
    parent: Option<SpanId>,
    /// The span of an earlier part of the run.
    pub(super) link: Option<SpanContext>,
    start: u64,
    /// The time of the last event.
    pub(super) last: u64,
    agents: HashMap<Arc<[String]>, OpenAgent>,
}

impl OpenRun {
    pub(super) fn new(event: &Event, thread: Option<&str>, parent: Option<SpanContext>, now: u64) -> Self {
        let trace = parent.map_or_else(|| TraceId::of_run(thread, &event.run), |parent| parent.trace);
        let span = SpanId::of_run(thread, &event.run, event.attempt);
        Self {
            run: event.run.clone(),
            attempt: event.attempt,
            thread: thread.map(Arc::from),
            root: SpanContext { trace, span, sampled: parent.is_none_or(|parent| parent.sampled) },
            parent: parent.map(|parent| parent.span),
            link: None,
            start: now,
            last: now,
            agents: HashMap::new(),
        }
    }

    /// Returns the span of the previous part of the run. Its trace is that of its caller, if given, or derived from the
    /// run's id.
    pub(super) fn earlier(&self, trace: Option<TraceId>) -> SpanContext {
        let thread = self.thread.as_deref();
        let trace = trace.unwrap_or_else(|| TraceId::of_run(thread, &self.run));
        let span = SpanId::of_run(thread, &self.run, self.attempt.saturating_sub(1));
        SpanContext { trace, span, sampled: self.root.sampled }
    }

    pub(super) fn agent(&mut self, path: &Arc<[String]>) -> Option<&mut OpenAgent> {
        self.agents.get_mut(path)
    }

    pub(super) fn chat(&mut self, path: &Arc<[String]>) -> Option<&mut OpenChat> {
        self.agents.get_mut(path)?.chat.as_mut()
    }

    pub(super) fn open_chat(&self, path: &Arc<[String]>) -> Option<SpanContext> {
        let span = self.agents.get(path)?.chat.as_ref()?.id;
        Some(SpanContext { span, ..self.root })
    }

    pub(super) fn aside(
        &self,
        path: &Arc<[String]>,
        number: u64,
        operation: Operation,
        (start, end): (u64, u64),
        error: Option<SpanError>,
    ) -> Option<Span> {
        let agent = self.agents.get(path)?;
        let id = agent.id.below(("aside", number));
        let done = Done { id, start, end, operation, error, content: Vec::new() };
        Some(self.span(agent, Some(agent.id), done))
    }

    /// Handles an event of an agent of the run.
    pub(super) fn agent_event(&mut self, event: &Event, now: u64, content: Option<&Content>, ended: &mut Vec<Span>) {
        match &event.kind {
            EventKind::AgentStarted { name } => self.agent_started(&event.path, name, now, ended),
            EventKind::AgentFinished { stop, usage } => {
                self.agent_ended(&event.path, now, Outcome::finished(stop, *usage), ended);
            }
            EventKind::AgentFailed { kind, error } => {
                self.agent_ended(&event.path, now, Outcome::failed(kind, error, content), ended);
            }
            kind => {
                // A log does not record the start and the name of the main agent.
                if event.path.is_empty() && !self.agents.contains_key(&event.path) {
                    self.agent_started(&event.path, "", self.start, ended);
                }
                let done = self.agents.get_mut(&event.path).and_then(|agent| agent.event(kind, now, content));
                let (Some(done), Some(agent)) = (done, self.agents.get(&event.path)) else { return };
                ended.push(self.span(agent, Some(agent.id), done));
            }
        }
    }

    fn agent_started(&mut self, path: &Arc<[String]>, name: &str, now: u64, ended: &mut Vec<Span>) {
        // An agent that resumes after a decision reports its start again.
        if self.agents.contains_key(path) {
            self.agent_ended(path, now, Outcome::default(), ended);
        }
        let (id, parent, start) = match path.split_last() {
            None => (self.root.span, self.parent, self.start),
            Some((own, above)) => {
                let parent = match self.agents.get(above) {
                    Some(above) => above.call_named(own).unwrap_or(above.id),
                    None => self.root.span,
                };
                (self.root.span.below((path, now)), Some(parent), now)
            }
        };
        self.agents.insert(path.clone(), OpenAgent::new(name, path.clone(), id, parent, start));
    }

    /// Ends an agent.
    fn agent_ended(&mut self, path: &Arc<[String]>, now: u64, outcome: Outcome, ended: &mut Vec<Span>) {
        // The main agent's span ends with the run.
        if path.is_empty() {
            if let Some(main) = self.agents.get_mut(path) {
                main.usage_told = outcome.usage;
            }
            return;
        }
        let Some(agent) = self.agents.remove(path) else { return };
        let usage = self.close(agent, now, outcome, ended);
        if let Some(above) = path.split_last().and_then(|(_, above)| self.agents.get_mut(above)) {
            above.usage += usage;
        }
    }

    /// Ends the run.
    pub(super) fn end(mut self, now: u64, outcome: Outcome, ended: &mut Vec<Span>) {
        let mut below: Vec<_> = self.agents.keys().filter(|path| !path.is_empty()).cloned().collect();
        below.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        for path in below {
            // A background agent may continue; a run that takes it over reports its end.
            let outcome = Outcome { error: outcome.error.clone(), ..Outcome::default() };
            self.agent_ended(&path, now, outcome, ended);
        }
        let path: Arc<[String]> = Arc::from([]);
        let main = self.agents.remove(&path);
        let main = main.unwrap_or_else(|| OpenAgent::new("", path, self.root.span, self.parent, self.start));
        self.close(main, now, outcome, ended);
    }

    /// Ends the open operations of an agent and the agent itself. Returns its tokens.
    fn close(&self, mut agent: OpenAgent, now: u64, outcome: Outcome, ended: &mut Vec<Span>) -> Usage {
        for done in agent.close(now) {
            ended.push(self.span(&agent, Some(agent.id), done));
        }
        let usage = sum(outcome.usage.or(agent.usage_told), agent.usage);
        let operation = Operation::InvokeAgent {
            description: agent.description.take(),
            run: self.run.clone(),
            attempt: self.attempt,
            model: agent.model.clone(),
            usage,
            finish: outcome.finish,
        };
        let (id, start, error) = (agent.id, agent.start, outcome.error);
        let done = Done { id, start, end: now, operation, error, content: Vec::new() };
        let link = self.link.filter(|_| agent.path.is_empty());
        ended.push(Span { link, ..self.span(&agent, agent.parent, done) });
        usage
    }

    fn span(&self, agent: &OpenAgent, parent: Option<SpanId>, done: Done) -> Span {
        let Done { id, start, end, operation, error, content } = done;
        Span {
            context: SpanContext { span: id, ..self.root },
            parent,
            link: None,
            start,
            end,
            agent: agent.name.clone(),
            path: agent.path.clone(),
            thread: self.thread.clone(),
            operation,
            error,
            content,
        }
    }
}

/// How an agent ended.
#[derive(Default)]
pub(super) struct Outcome {
    finish: Option<Cow<'static, str>>,
    /// Tokens of the agent and those below it, if they were reported.
    usage: Option<Usage>,
    error: Option<SpanError>,
}

impl Outcome {
    pub(super) fn finished(reason: &FinishReason, usage: Usage) -> Self {
        let error = words::failure(reason).map(SpanError::new);
        Self { finish: Some(words::finish(reason)), usage: Some(usage), error }
    }

    pub(super) fn failed(kind: &str, error: &str, content: Option<&Content>) -> Self {
        let message = content.and_then(|content| content.error(error));
        Self { error: Some(SpanError { message, ..SpanError::new(kind.to_owned()) }), ..Self::default() }
    }

    /// The run's process or handle is gone.
    pub(super) fn unfinished() -> Self {
        Self { error: Some(SpanError::new("unfinished")), ..Self::default() }
    }
}

/// Returns the tokens of an agent and those below it. The reported number counts, unless it covers only the agent's own
/// requests, as in a log.
fn sum(told: Option<Usage>, counted: Usage) -> Usage {
    told.filter(|told| told.total() >= counted.total()).unwrap_or(counted)
}
