//! What was said, as attributes: only where an application asks for it.

use std::fmt;
use std::sync::Arc;

use deepagents_core::message::{Block, Message};
use deepagents_core::model::ModelRequest;
use serde_json::{Value, json};

use crate::conventions as names;

/// Replaces a text before it becomes part of a span, or leaves it out. It is given the name of the attribute.
pub type Redaction = Arc<dyn Fn(&'static str, String) -> Option<String> + Send + Sync>;

/// How much of what was said becomes part of spans: the conversation, the system prompt, answers, arguments and results of
/// calls, and errors in words. Keys are never among it; what people and files say is, so a receiver is to be trusted with it.
///
/// ```
/// use deepagents_otel::Content;
/// use std::sync::Arc;
/// let content = Content::default().redact(|attribute, text| {
///     (attribute != "gen_ai.tool.call.result").then(|| text.replace("s3cr3t", "[redacted]"))
/// });
/// # let _ = content;
/// ```
#[derive(Clone)]
pub struct Content {
    limit: usize,
    redaction: Option<Redaction>,
}

/// Bytes of an attribute.
const LIMIT: usize = 64 * 1024;

impl Default for Content {
    fn default() -> Self {
        Self { limit: LIMIT, redaction: None }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("limit", &self.limit).field("redacts", &self.redaction.is_some()).finish()
    }
}

impl Content {
    /// So many bytes of a text at most, 64 KiB by default. Of conversations the latest messages stay.
    #[must_use]
    pub fn limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Passes every text through a function.
    #[must_use]
    pub fn redact(
        mut self,
        redaction: impl Fn(&'static str, String) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.redaction = Some(Arc::new(redaction));
        self
    }

    pub(crate) fn text(&self, name: &'static str, text: &str) -> Option<(&'static str, String)> {
        let text = match &self.redaction {
            // What is cut is not what the function looks for, so it sees all of it.
            Some(redaction) => redaction(name, text.to_owned())?,
            None => text.to_owned(),
        };
        Some((name, cut(text, self.limit)))
    }

    /// An error in words.
    pub(crate) fn error(&self, text: &str) -> Option<String> {
        self.text(names::REASON, text).map(|(_, text)| text)
    }

    pub(crate) fn json(&self, name: &'static str, value: &Value) -> Option<(&'static str, String)> {
        self.text(name, &value.to_string())
    }

    /// The conversation and the system prompt.
    pub(crate) fn request(&self, request: &ModelRequest) -> Vec<(&'static str, String)> {
        let (mut messages, mut left) = (Vec::new(), self.limit);
        for message in request.messages.iter().rev() {
            let told = said_by(message);
            let Some(rest) = left.checked_sub(told.to_string().len()) else { break };
            left = rest;
            messages.push(told);
        }
        messages.reverse();
        let system = request.system_text();
        let system = (!system.is_empty()).then(|| json!([{"type": "text", "content": cut(system, self.limit / 2)}]));
        let system = system.and_then(|system| self.json(names::SYSTEM_INSTRUCTIONS, &system));
        self.json(names::INPUT_MESSAGES, &Value::Array(messages)).into_iter().chain(system).collect()
    }

    /// A model's answer.
    pub(crate) fn answer(&self, answer: Answer, finish: &str) -> Option<(&'static str, String)> {
        let mut parts = Vec::new();
        if !answer.text.is_empty() {
            parts.push(json!({"type": "text", "content": answer.text}));
        }
        for (_, name, args) in answer.calls {
            let args = serde_json::from_str(&args).unwrap_or(Value::String(args));
            parts.push(json!({"type": "tool_call", "name": name, "arguments": args}));
        }
        let told = json!([{"role": "assistant", "parts": parts, "finish_reason": finish}]);
        self.json(names::OUTPUT_MESSAGES, &told)
    }
}

/// A model's answer as its pieces come.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    text: String,
    /// Position, name and arguments of calls.
    calls: Vec<(usize, String, String)>,
}

impl Answer {
    pub(crate) fn text(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    pub(crate) fn call(&mut self, block: usize, name: Option<&str>, piece: &str) {
        match self.calls.iter_mut().find(|(at, ..)| *at == block) {
            Some((.., args)) => args.push_str(piece),
            None => self.calls.push((block, name.unwrap_or_default().to_owned(), piece.to_owned())),
        }
    }
}

/// A message in the form of the conventions.
fn said_by(message: &Message) -> Value {
    let role = match message {
        Message::Assistant(_) => "assistant",
        Message::Tool(_) => "tool",
        _ => "user",
    };
    if let Message::Tool(result) = message {
        let parts = json!([{"type": "tool_call_response", "id": result.call_id, "response": message.text()}]);
        return json!({"role": role, "parts": parts});
    }
    let part = |block: &Block| match block {
        Block::Text(text) => Some(json!({"type": "text", "content": text.text})),
        Block::ToolCall(call) => {
            Some(json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.args}))
        }
        // Media are large, and reasoning is for its provider.
        _ => None,
    };
    json!({"role": role, "parts": message.content().iter().filter_map(part).collect::<Vec<_>>()})
}

/// The beginning of a text, whole letters.
fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let end = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
