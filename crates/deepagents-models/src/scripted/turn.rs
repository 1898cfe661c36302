//! One turn of a script.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::message::{AssistantMessage, Block, Reasoning, ToolCall, Usage};
use deepagents_core::model::{ModelError, ModelEvent, ModelOutput, ModelRequest, StopReason};
use serde_json::Value;

/// One answer of a [`ScriptedModel`](super::ScriptedModel).
///
/// ```
/// use std::time::Duration;
/// use deepagents_core::model::ModelError;
/// use deepagents_models::scripted::Turn;
/// use serde_json::json;
///
/// let script = [
///     Turn::calls([("ls", json!({"path": "/"})), ("read_file", json!({"file_path": "/a"}))]).thinking("Two at once."),
///     Turn::error(ModelError::transport("connection reset")),
///     Turn::with(|request| Turn::text(format!("{} messages", request.messages.len()))),
///     Turn::text("Slowly.").delay(Duration::from_millis(5)),
/// ];
/// # assert_eq!(script.len(), 4);
/// ```
#[derive(Clone)]
pub struct Turn {
    kind: Kind,
    delay: Duration,
}

#[derive(Clone)]
enum Kind {
    Output { content: Vec<Block>, usage: Option<Usage>, stop: Option<StopReason> },
    Raw(Vec<Result<ModelEvent, ModelError>>),
    With(Arc<dyn Fn(&ModelRequest) -> Turn + Send + Sync>),
}

/// What a turn comes to, once computed: what is played, and how long the model waits before.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) delay: Duration,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Output(Box<ModelOutput>),
    Events(Vec<Result<ModelEvent, ModelError>>),
}

/// What makes a call: `(name, args)`, or `(id, name, args)`.
pub trait IntoCall {
    /// The call; its id is empty where none is given.
    fn into_call(self) -> Block;
}

impl<N: Into<String>> IntoCall for (N, Value) {
    fn into_call(self) -> Block {
        Block::call("", self.0, self.1)
    }
}

impl<I: Into<String>, N: Into<String>> IntoCall for (I, N, Value) {
    fn into_call(self) -> Block {
        Block::call(self.0, self.1, self.2)
    }
}

impl Turn {
    fn new(kind: Kind) -> Self {
        Self { kind, delay: Duration::ZERO }
    }

    /// An answer of these blocks, as they are; calls with an empty id are numbered.
    pub fn blocks(content: impl IntoIterator<Item = Block>) -> Self {
        Self::new(Kind::Output { content: content.into_iter().collect(), usage: None, stop: None })
    }

    /// An answer in words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::blocks([Block::text(text)])
    }

    /// One tool call. Its id is `call_1`, `call_2`, … by its place among all calls of its script.
    pub fn call(name: impl Into<String>, args: Value) -> Self {
        Self::calls([(name.into(), args)])
    }

    /// Several tool calls at once, as `(name, args)` or `(id, name, args)`.
    pub fn calls<C: IntoCall>(calls: impl IntoIterator<Item = C>) -> Self {
        Self::blocks(calls.into_iter().map(IntoCall::into_call))
    }

    /// A failure before anything was said.
    pub fn error(error: ModelError) -> Self {
        Self::raw([Err(error)])
    }

    /// These events and nothing more: broken streams, retries, an answer that ends without
    /// [`ModelEvent::Finished`].
    pub fn raw(events: impl IntoIterator<Item = Result<ModelEvent, ModelError>>) -> Self {
        Self::new(Kind::Raw(events.into_iter().collect()))
    }

    /// A turn computed from the request. A delay of this turn and of the one computed add up.
    pub fn with(answer: impl Fn(&ModelRequest) -> Self + Send + Sync + 'static) -> Self {
        Self::new(Kind::With(Arc::new(answer)))
    }

    /// Words before the calls. Nothing changes in a turn that fails, is raw or is computed.
    #[must_use]
    pub fn and_text(self, text: impl Into<String>) -> Self {
        let text = Block::text(text);
        self.change(|content, _, _| {
            let at = content.iter().position(|b| matches!(b, Block::ToolCall(_))).unwrap_or(content.len());
            content.insert(at, text);
        })
    }

    /// Reasoning before everything else. Nothing changes in a turn that fails, is raw or is computed.
    #[must_use]
    pub fn thinking(self, text: impl Into<String>) -> Self {
        let thought = Block::Reasoning(Reasoning { text: text.into(), native: None });
        self.change(|content, _, _| content.insert(0, thought))
    }

    /// Why the model stops; [`StopReason::ToolCalls`] where there are calls and [`StopReason::End`] otherwise.
    #[must_use]
    pub fn stop(self, reason: StopReason) -> Self {
        self.change(|_, _, stop| *stop = Some(reason))
    }

    /// What the turn costs; zero otherwise.
    #[must_use]
    pub fn usage(self, tokens: Usage) -> Self {
        self.change(|_, usage, _| *usage = Some(tokens))
    }

    /// How long the model waits before it says anything, on tokio's clock.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    fn change(mut self, change: impl FnOnce(&mut Vec<Block>, &mut Option<Usage>, &mut Option<StopReason>)) -> Self {
        if let Kind::Output { content, usage, stop } = &mut self.kind {
            change(content, usage, stop);
        }
        self
    }

    /// The answer, or the turn a closure came to.
    pub(super) fn resolve(self, request: &ModelRequest) -> Result<Answer, Self> {
        let delay = self.delay;
        let body = match self.kind {
            Kind::With(answer) => {
                let mut turn = answer(request);
                turn.delay = turn.delay.saturating_add(delay);
                return Err(turn);
            }
            Kind::Raw(events) => Body::Events(events),
            Kind::Output { content, usage, stop } => {
                let message = AssistantMessage::new(content);
                let natural = if message.has_calls() { StopReason::ToolCalls } else { StopReason::End };
                let mut output = ModelOutput::new(message);
                output.stop = stop.unwrap_or(natural);
                output.message.usage = usage;
                output.usage = usage.unwrap_or_default();
                Body::Output(Box::new(output))
            }
        };
        Ok(Answer { delay, body })
    }
}

impl Answer {
    /// Gives ids to the calls that have none.
    pub(super) fn number_calls(&mut self, count: &mut usize) {
        let Body::Output(output) = &mut self.body else { return };
        for block in &mut output.message.content {
            let Block::ToolCall(ToolCall { id, .. }) = block else { continue };
            *count += 1;
            if id.is_empty() {
                *id = format!("call_{count}");
            }
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Output { content, .. } => f.debug_tuple("Turn").field(content).finish(),
            Kind::Raw(events) => f.debug_tuple("Turn::raw").field(events).finish(),
            Kind::With(_) => f.write_str("Turn::with(..)"),
        }
    }
}
