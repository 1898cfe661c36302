//! The open spans of an agent: its model requests and its tool calls.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use deepagents_core::event::EventKind;
use deepagents_core::message::{AssistantMessage, Usage};
use deepagents_core::model::{ModelError, ModelRequest, ModelServer};

use super::words;
use crate::content::{Answer, Content};
use crate::{
    Chat, DiscardedAttempt, ModelName, Operation, RequestSettings, ResponseInfo, SpanError, SpanId, conventions,
};

/// The error class of a request when only events are available.
const MODEL_ERROR: &str = "model_error";

/// A running agent.
#[derive(Debug)]
pub(super) struct OpenAgent {
    pub(super) name: Arc<str>,
    /// The agent's description.
    pub(super) description: Option<Arc<str>>,
    pub(super) path: Arc<[String]>,
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) start: u64,
    pub(super) model: Option<Arc<ModelName>>,
    /// The name that `model` was parsed from.
    model_text: String,
    /// Tokens of its own requests, and of the agents below it that have ended.
    pub(super) usage: Usage,
    /// Tokens of the agent and of those below it, as reported when it ended.
    pub(super) usage_told: Option<Usage>,
    pub(super) chat: Option<OpenChat>,
    tools: HashMap<(u32, u32), OpenTool>,
    /// The turns and indices of calls that have started.
    calls: HashSet<(u32, u32)>,
    /// When its last operation ended.
    last: u64,
}

/// A model request in flight.
#[derive(Debug)]
pub(super) struct OpenChat {
    pub(super) id: SpanId,
    start: u64,
    chat: Chat,
    /// Whether the last attempt failed and no output has arrived since.
    failing: bool,
    /// The error class of the last failed attempt, if known.
    error: Option<&'static str>,
    content: Vec<(&'static str, String)>,
    answer: Answer,
}

/// A tool call in flight.
#[derive(Debug)]
pub(super) struct OpenTool {
    id: SpanId,
    start: u64,
    tool: Arc<str>,
    call: String,
    content: Vec<(&'static str, String)>,
}

/// A finished operation of an agent.
pub(super) struct Done {
    pub(super) id: SpanId,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) operation: Operation,
    pub(super) error: Option<SpanError>,
    pub(super) content: Vec<(&'static str, String)>,
}

impl OpenAgent {
    pub(super) fn new(name: &str, path: Arc<[String]>, id: SpanId, parent: Option<SpanId>, start: u64) -> Self {
        Self {
            name: name.into(),
            description: None,
            path,
            id,
            parent,
            start,
            model: None,
            model_text: String::new(),
            usage: Usage::default(),
            usage_told: None,
            chat: None,
            tools: HashMap::new(),
            calls: HashSet::new(),
            last: start,
        }
    }

    /// Returns the span of the call that a sub-agent is named after: `LABEL:TURN.INDEX`.
    pub(super) fn call_named(&self, segment: &str) -> Option<SpanId> {
        let (_, call) = segment.rsplit_once(':')?;
        let (turn, index) = call.split_once('.')?;
        let key = (turn.parse().ok()?, index.parse().ok()?);
        self.calls.contains(&key).then(|| self.call_id(key))
    }

    fn call_id(&self, call: (u32, u32)) -> SpanId {
        self.id.below(("call", call))
    }

    /// Handles an event of the agent. Returns the operation that it ends, if any.
    pub(super) fn event(&mut self, kind: &EventKind, now: u64, content: Option<&Content>) -> Option<Done> {
        match kind {
            EventKind::ModelStarted { model, turn, attempt, .. } => {
                if self.model_text != *model {
                    (self.model, self.model_text) = (Some(Arc::new(ModelName::new(model))), model.clone());
                }
                // All attempts of the previous request failed, if it is still open.
                let id = self.id.below(("chat", turn, attempt));
                return self.chat.replace(OpenChat::new(id, now, self.model.clone())).map(OpenChat::failed);
            }
            EventKind::TextDelta { text, .. } => {
                let chat = self.chat.as_mut()?;
                chat.record_chunk(now);
                if content.is_some() {
                    chat.answer.text(text);
                }
            }
            EventKind::ReasoningDelta { .. } => self.chat.as_mut()?.record_chunk(now),
            EventKind::ToolCallDelta { block, name, args, .. } => {
                let chat = self.chat.as_mut()?;
                chat.record_chunk(now);
                if content.is_some() {
                    chat.answer.call(*block, name.as_deref(), args);
                }
            }
            EventKind::AttemptDiscarded { reason, retry_after_ms, .. } => {
                let reason = content.and_then(|content| content.error(reason));
                self.chat.as_mut()?.discard(now, *retry_after_ms, reason);
            }
            EventKind::ModelFinished { turn, message, usage, stop, .. } => {
                self.usage += *usage;
                let id = self.id.below(("chat", turn, 0));
                let chat = self.chat.take().unwrap_or_else(|| OpenChat::new(id, self.last, None));
                self.last = now;
                return Some(chat.answered(now, message, *usage, words::stop(stop), content));
            }
            EventKind::ToolStarted { call, id, name, args } => {
                let key = (call.turn, call.index);
                self.calls.insert(key);
                let mut tool = OpenTool::new(self.call_id(key), now, name, id);
                tool.content.extend(content.and_then(|content| content.json(conventions::TOOL_CALL_ARGUMENTS, args)));
                self.tools.insert(key, tool);
            }
            EventKind::ToolFinished { call, id, name, error, text } => {
                let key = (call.turn, call.index);
                // If another process started the call, only its end is known.
                let started = self.tools.remove(&key);
                let mut tool = started.unwrap_or_else(|| OpenTool::new(self.call_id(key), now, name, id));
                self.last = now;
                tool.content.extend(content.and_then(|content| content.text(conventions::TOOL_CALL_RESULT, text)));
                return Some(tool.ended(now, error.then(|| SpanError::new("tool_error"))));
            }
            _ => {}
        }
        None
    }

    /// Ends all open operations.
    pub(super) fn close(&mut self, now: u64) -> Vec<Done> {
        let mut tools: Vec<_> = self.tools.drain().collect();
        tools.sort_by_key(|(call, _)| *call);
        let tools = tools.into_iter().map(|(_, tool)| tool.ended(now, None));
        let chat = self.chat.take().map(|chat| if chat.failing { chat.failed() } else { chat.cut_off(now) });
        chat.into_iter().chain(tools).collect()
    }
}

impl OpenChat {
    fn new(id: SpanId, start: u64, model: Option<Arc<ModelName>>) -> Self {
        Self {
            id,
            start,
            chat: Chat { model, ..Chat::default() },
            failing: false,
            error: None,
            content: Vec::new(),
            answer: Answer::default(),
        }
    }

    pub(super) fn requested(&mut self, request: &ModelRequest, server: Option<ModelServer>, content: Option<&Content>) {
        let asked = &request.settings;
        let settings = RequestSettings {
            max_tokens: asked.max_tokens,
            temperature: asked.temperature,
            top_p: asked.top_p,
            stop: asked.stop.clone(),
            // Requests have no seed setting of their own; users pass it among the provider's extra fields.
            seed: asked.extra.get("seed").and_then(serde_json::Value::as_i64),
            server,
        };
        self.chat.settings = (settings != RequestSettings::default()).then(|| Box::new(settings));
        self.content = content.map(|content| content.request(request)).unwrap_or_default();
    }

    /// Records the error of a failed attempt.
    pub(super) fn record_error(&mut self, error: &ModelError) {
        self.error = Some(error.kind());
    }

    /// Records the model's answer.
    pub(super) fn record_answer(&mut self, answer: &AssistantMessage) {
        self.chat.response = ResponseInfo::of(answer, self.chat.model.as_deref());
    }

    /// Records the arrival of a piece of the answer.
    fn record_chunk(&mut self, now: u64) {
        self.failing = false;
        self.chat.first_chunk.get_or_insert(now.saturating_sub(self.start));
    }

    fn discard(&mut self, at: u64, retry_after_ms: u64, reason: Option<String>) {
        (self.failing, self.chat.first_chunk) = (true, None);
        self.answer = Answer::default();
        self.chat.discarded.push(DiscardedAttempt { at, retry_after_ms, reason });
    }

    fn answered(
        mut self,
        now: u64,
        message: &str,
        usage: Usage,
        stop: Cow<'static, str>,
        content: Option<&Content>,
    ) -> Done {
        let answer = std::mem::take(&mut self.answer);
        let told = content.and_then(|content| content.answer(answer, &stop));
        self.content.extend(told);
        (self.chat.message, self.chat.usage, self.chat.finish) = (message.to_owned(), usage, Some(stop));
        self.done(now, None)
    }

    /// Ends a request of which no attempt succeeded, at the time of the last one.
    fn failed(mut self) -> Done {
        let last = self.chat.discarded.pop();
        let (end, message) = last.map_or((self.start, None), |last| (last.at, last.reason));
        let error = SpanError { message, ..SpanError::new(self.error.unwrap_or(MODEL_ERROR)) };
        self.done(end, Some(error))
    }

    /// Ends a request whose agent ended first.
    fn cut_off(self, now: u64) -> Done {
        self.done(now, Some(SpanError::new("cancelled")))
    }

    fn done(self, end: u64, error: Option<SpanError>) -> Done {
        let Self { id, start, chat, content, .. } = self;
        Done { id, start, end, operation: Operation::Chat(chat), error, content }
    }
}

impl OpenTool {
    fn new(id: SpanId, start: u64, tool: &str, call: &str) -> Self {
        Self { id, start, tool: tool.into(), call: call.to_owned(), content: Vec::new() }
    }

    fn ended(self, end: u64, error: Option<SpanError>) -> Done {
        let operation = Operation::ExecuteTool { tool: self.tool, call: self.call };
        Done { id: self.id, start: self.start, end, operation, error, content: self.content }
    }
}
