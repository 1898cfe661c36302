//! Message content as attributes, which is opt-in.

use std::fmt;
use std::sync::Arc;

use deepagents_core::message::{Block, Message};
use deepagents_core::model::{ModelRequest, ToolSpec};
use serde_json::{Value, json};

use crate::conventions as names;
use crate::fit;

/// Replaces a text before it becomes part of a span, or omits it. The first argument is the name of the attribute.
pub type Redaction = Arc<dyn Fn(&'static str, String) -> Option<String> + Send + Sync>;

/// Adds content to spans: the conversation, the system prompt, tools, answers, arguments and results of calls, and
/// error messages. API keys are never included, but the contents of messages and files are, so the receiver must be
/// trusted.
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

/// Maximum bytes of an attribute.
const MAX_ATTRIBUTE_BYTES: usize = 64 * 1024;
/// How many long messages fit into an attribute.
const LONG_MESSAGES: usize = 4;

impl Default for Content {
    fn default() -> Self {
        Self { limit: MAX_ATTRIBUTE_BYTES, redaction: None }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content").field("limit", &self.limit).field("redacts", &self.redaction.is_some()).finish()
    }
}

impl Content {
    /// Sets the maximum bytes of an attribute; 64 KiB by default. The latest messages of a conversation are kept. JSON
    /// remains valid JSON, as texts within it are cut.
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

    /// Redacts the whole text, before it is cut, so that the function can find what it looks for.
    fn redacted(&self, name: &'static str, text: String) -> Option<String> {
        match &self.redaction {
            Some(redaction) => redaction(name, text),
            None => Some(text),
        }
    }

    pub(crate) fn text(&self, name: &'static str, text: &str) -> Option<(&'static str, String)> {
        Some((name, fit::text(self.redacted(name, text.to_owned())?, self.limit)))
    }

    /// Returns an error message as content.
    pub(crate) fn error(&self, text: &str) -> Option<String> {
        self.text(names::REASON, text).map(|(_, text)| text)
    }

    pub(crate) fn json(&self, name: &'static str, value: &Value) -> Option<(&'static str, String)> {
        self.list(name, value, self.limit)
    }

    /// Returns a value as JSON. If it is too long, each item of a list is cut to `item` bytes.
    fn list(&self, name: &'static str, value: &Value, item: usize) -> Option<(&'static str, String)> {
        let text = self.redacted(name, value.to_string())?;
        if text.len() <= self.limit {
            return Some((name, text));
        }
        let text = match serde_json::from_str(&text) {
            Ok(Value::Array(items)) => {
                let items = items.into_iter().map(|value| fit::value(value, item)).collect();
                fit::value(Value::Array(items), self.limit).to_string()
            }
            Ok(value) => fit::value(value, self.limit).to_string(),
            // The redaction did not return JSON.
            Err(_) => fit::text(text, self.limit),
        };
        Some((name, text))
    }

    /// Returns the conversation, the system prompt and the tools.
    pub(crate) fn request(&self, request: &ModelRequest) -> Vec<(&'static str, String)> {
        // A long message is cut to make room for those before it, including the task.
        let share = self.limit / LONG_MESSAGES;
        let (mut messages, mut left) = (Vec::new(), self.limit);
        for message in request.messages.iter().rev() {
            let told = to_conventions(message);
            let Some(rest) = left.checked_sub(told.to_string().len().min(share) + 1) else { break };
            left = rest;
            messages.push(told);
        }
        messages.reverse();
        let system = request.system_text();
        let system = (!system.is_empty()).then(|| json!([{"type": "text", "content": system}]));
        let system = system.and_then(|system| self.json(names::SYSTEM_INSTRUCTIONS, &system));
        let tools: Vec<Value> = request.tools.iter().map(|tool| defined(tool)).collect();
        let tools = (!tools.is_empty()).then_some(Value::Array(tools));
        let tools = tools.and_then(|tools| self.json(names::TOOL_DEFINITIONS, &tools));
        let messages = self.list(names::INPUT_MESSAGES, &Value::Array(messages), share);
        messages.into_iter().chain(system).chain(tools).collect()
    }

    /// Returns a model's answer.
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

/// A model's answer, assembled from its pieces.
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

/// Converts a message to the format of the conventions.
fn to_conventions(message: &Message) -> Value {
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
        // Media are large, and reasoning is meant for its provider.
        _ => None,
    };
    json!({"role": role, "parts": message.content().iter().filter_map(part).collect::<Vec<_>>()})
}

/// Converts a tool to the format of the conventions.
fn defined(tool: &ToolSpec) -> Value {
    json!({"type": "function", "name": tool.name, "description": tool.description, "parameters": &*tool.schema})
}
