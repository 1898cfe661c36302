//! A running run.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use deepagents_core::event::{Event, EventKind};
use deepagents_core::message::Usage;

use super::agent::{OpenAgent, OpenChat};
use super::{sum, words};
use crate::content::Content;
use crate::{Operation, Span, SpanContext, SpanError, SpanId, TraceId};

/// A process' part of a run.
#[derive(Debug)]
pub(super) struct OpenRun {
    run: Arc<str>,
    attempt: u32,
    thread: Option<Arc<str>>,
    /// The span of the main agent.
    root: SpanContext,
    parent: Option<SpanId>,
    link: Option<SpanContext>,
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

    /// Links to an earlier part of the run.
    pub(super) fn link_to(&mut self, earlier: SpanContext) {
        self.link = Some(earlier);
    }

    /// Returns the span of the previous part of the run. Its trace is that of its caller, if given, or derived from the
    /// run's id.
    pub(super) fn earlier(&self, trace: Option<TraceId>) -> SpanContext {
        let thread = self.thread.as_deref();
        let trace = trace.unwrap_or_else(|| TraceId::of_run(thread, &self.run));
        let span = SpanId::of_run(thread, &self.run, self.attempt.saturating_sub(1));
        SpanContext { trace, span, sampled: self.root.sampled }
    }

    pub(super) fn root(&self) -> SpanContext {
        self.root
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
    ) -> Option<Span> {
        let agent = self.agents.get(path)?;
        let id = agent.id.below(("aside", number));
        Some(Span { start, ..self.span(agent, id, agent.id, end, operation) })
    }

    /// Handles an event of an agent of the run.
    pub(super) fn agent_event(&mut self, event: &Event, now: u64, content: Option<&Content>, ended: &mut Vec<Span>) {
        match &event.kind {
            EventKind::AgentStarted { name } => self.agent_started(&event.path, name, now, ended),
            EventKind::AgentFinished { stop, usage } => {
                let error = words::failure(stop).map(|kind| SpanError { kind, message: None });
                self.agent_ended(&event.path, now, Some(words::finish(stop)), Some(*usage), error, ended);
            }
            EventKind::AgentFailed { kind, error } => {
                let message = content.and_then(|content| content.error(error));
                let error = SpanError { kind: kind.clone().into(), message };
                self.agent_ended(&event.path, now, None, None, Some(error), ended);
            }
            kind => {
                // A log does not record the start and the name of the main agent.
                if event.path.is_empty() && !self.agents.contains_key(&event.path) {
                    self.agent_started(&event.path, "", self.start, ended);
                }
                let done = self.agents.get_mut(&event.path).and_then(|agent| agent.event(kind, now, content));
                let (Some(done), Some(agent)) = (done, self.agents.get(&event.path)) else { return };
                let span = self.span(agent, done.id, agent.id, now, done.operation);
                ended.push(Span { start: done.start, end: done.end, error: done.error, content: done.content, ..span });
            }
        }
    }

    fn agent_started(&mut self, path: &Arc<[String]>, name: &str, now: u64, ended: &mut Vec<Span>) {
        // An agent that resumes after a decision reports its start again.
        if self.agents.contains_key(path) {
            self.agent_ended(path, now, None, None, None, ended);
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

    /// Ends the span of an agent, with its open operations.
    fn agent_ended(
        &mut self,
        path: &Arc<[String]>,
        now: u64,
        finish: Option<Cow<'static, str>>,
        usage: Option<Usage>,
        error: Option<SpanError>,
        ended: &mut Vec<Span>,
    ) {
        // The main agent's span ends with the run.
        if path.is_empty() {
            if let Some(main) = self.agents.get_mut(path) {
                (main.finish, main.usage_told) = (finish, usage);
            }
            return;
        }
        let Some(mut agent) = self.agents.remove(path) else { return };
        self.close(&mut agent, now, ended);
        let (id, parent) = (agent.id, agent.parent);
        let usage = sum(usage, agent.usage);
        if let Some(above) = path.split_last().and_then(|(_, above)| self.agents.get_mut(above)) {
            above.usage += usage;
        }
        let operation = Operation::InvokeAgent {
            description: agent.description.take(),
            run: self.run.clone(),
            attempt: self.attempt,
            model: agent.model.clone(),
            usage,
            finish: finish.or_else(|| agent.finish.take()),
        };
        let span = self.span(&agent, id, parent.unwrap_or(self.root.span), now, operation);
        ended.push(Span { start: agent.start, error, ..span });
    }

    /// Ends the run.
    pub(super) fn end(
        &mut self,
        now: u64,
        finish: Option<Cow<'static, str>>,
        usage: Option<Usage>,
        error: Option<SpanError>,
        ended: &mut Vec<Span>,
    ) {
        let mut below: Vec<_> = self.agents.keys().filter(|path| !path.is_empty()).cloned().collect();
        below.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        for path in below {
            // A background agent may continue; a run that takes it over reports its end.
            self.agent_ended(&path, now, None, None, error.clone(), ended);
        }
        let main: Arc<[String]> = Arc::from([]);
        let new = || OpenAgent::new("", main.clone(), self.root.span, self.parent, self.start);
        let mut agent = self.agents.remove(&main).unwrap_or_else(new);
        self.close(&mut agent, now, ended);
        let operation = Operation::InvokeAgent {
            description: agent.description.take(),
            run: self.run.clone(),
            attempt: self.attempt,
            model: agent.model.clone(),
            usage: sum(usage.or(agent.usage_told), agent.usage),
            finish,
        };
        let span = self.span(&agent, self.root.span, self.root.span, now, operation);
        ended.push(Span { start: self.start, parent: self.parent, link: self.link, error, ..span });
    }

    /// Ends the open operations of an agent.
    fn close(&self, agent: &mut OpenAgent, now: u64, ended: &mut Vec<Span>) {
        for done in agent.close(now) {
            let span = self.span(agent, done.id, agent.id, now, done.operation);
            ended.push(Span { start: done.start, end: done.end, error: done.error, content: done.content, ..span });
        }
    }

    fn span(&self, agent: &OpenAgent, id: SpanId, parent: SpanId, end: u64, operation: Operation) -> Span {
        Span {
            context: SpanContext { span: id, ..self.root },
            parent: Some(parent),
            link: None,
            start: end,
            end,
            agent: agent.name.clone(),
            path: agent.path.clone(),
            thread: self.thread.clone(),
            operation,
            error: None,
            content: Vec::new(),
        }
    }
}
