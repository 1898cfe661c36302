//! Turns of a script.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::message::{AssistantMessage, Block, Reasoning, ToolCall, Usage};
use deepagents_core::model::{ModelError, ModelEvent, ModelOutput, ModelRequest, StopReason};
use serde_json::Value;

/// A response of a [`ScriptedModel`](super::ScriptedModel).
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

/// A resolved turn: what is played, and the delay before it.
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

/// Creates a tool call from `(name, args)` or `(id, name, args)`.
pub trait IntoCall {
    /// Returns the call; its ID is empty if none is given.
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

    /// Creates a response with these blocks; calls with an empty ID are numbered.
    pub fn blocks(content: impl IntoIterator<Item = Block>) -> Self {
        Self::new(Kind::Output { content: content.into_iter().collect(), usage: None, stop: None })
    }

    /// Creates a text response.
    pub fn text(text: impl Into<String>) -> Self {
        Self::blocks([Block::text(text)])
    }

    /// Creates a tool call. Its ID is `call_1`, `call_2`, … by its position among all calls of the script.
    pub fn call(name: impl Into<String>, args: Value) -> Self {
        Self::calls([(name.into(), args)])
    }

    /// Creates several tool calls, as `(name, args)` or `(id, name, args)`.
    pub fn calls<C: IntoCall>(calls: impl IntoIterator<Item = C>) -> Self {
        Self::blocks(calls.into_iter().map(IntoCall::into_call))
    }

    /// Creates a failure before any output.
    pub fn error(error: ModelError) -> Self {
        Self::raw([Err(error)])
    }

    /// Plays exactly these events: broken streams, retries, a response that ends without [`ModelEvent::Finished`].
    pub fn raw(events: impl IntoIterator<Item = Result<ModelEvent, ModelError>>) -> Self {
        Self::new(Kind::Raw(events.into_iter().collect()))
    }

    /// Computes a turn from the request. The delays of this turn and the computed one add up.
    pub fn with(answer: impl Fn(&ModelRequest) -> Self + Send + Sync + 'static) -> Self {
        Self::new(Kind::With(Arc::new(answer)))
    }

    /// Adds text before the calls. No effect on turns that fail, are raw or are computed.
    #[must_use]
    pub fn and_text(self, text: impl Into<String>) -> Self {
        let text = Block::text(text);
        self.change(|content, _, _| {
            let at = content.iter().position(|b| matches!(b, Block::ToolCall(_))).unwrap_or(content.len());
            content.insert(at, text);
        })
    }

    /// Adds reasoning before everything else. No effect on turns that fail, are raw or are computed.
    #[must_use]
    pub fn thinking(self, text: impl Into<String>) -> Self {
        let thought = Block::Reasoning(Reasoning { text: text.into(), native: None });
        self.change(|content, _, _| content.insert(0, thought))
    }

    /// Sets the stop reason; by default [`StopReason::ToolCalls`] if there are calls and [`StopReason::End`] otherwise.
    #[must_use]
    pub fn stop(self, reason: StopReason) -> Self {
        self.change(|_, _, stop| *stop = Some(reason))
    }

    /// Sets the token usage; zero by default.
    #[must_use]
    pub fn usage(self, tokens: Usage) -> Self {
        self.change(|_, usage, _| *usage = Some(tokens))
    }

    /// Sets a delay before any output, on tokio's clock.
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

    /// Resolves the turn to a response.
    pub(super) fn resolve(mut self, request: &ModelRequest) -> Answer {
        let body = loop {
            match self.kind {
                // A closure may return another closure; each is consumed, so this ends.
                Kind::With(answer) => {
                    let turn = answer(request);
                    self = Self { delay: turn.delay.saturating_add(self.delay), ..turn };
                }
                Kind::Raw(events) => break Body::Events(events),
                Kind::Output { content, usage, stop } => {
                    let message = AssistantMessage { usage, ..AssistantMessage::new(content) };
                    let natural = if message.has_calls() { StopReason::ToolCalls } else { StopReason::End };
                    let (usage, stop) = (usage.unwrap_or_default(), stop.unwrap_or(natural));
                    break Body::Output(Box::new(ModelOutput { message, usage, stop, price: None }));
                }
            }
        };
        Answer { delay: self.delay, body }
    }
}

impl Answer {
    /// Assigns IDs to calls without one.
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
