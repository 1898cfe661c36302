//! What was said, as attributes: only where an application asks for it.

use std::fmt;
use std::sync::Arc;

use deepagents_core::message::{Block, Message};
use deepagents_core::model::{ModelRequest, ToolSpec};
use serde_json::{Value, json};

use crate::conventions as names;
use crate::fit;

/// Replaces a text before it becomes part of a span, or leaves it out. It is given the name of the attribute.
pub type Redaction = Arc<dyn Fn(&'static str, String) -> Option<String> + Send + Sync>;

/// How much of what was said becomes part of spans: the conversation, the system prompt, tools, answers, arguments and
/// results of calls, and errors in words. Keys are never among it; what people and files say is, so a receiver is to be trusted with it.
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
/// How many long messages fit into an attribute.
const SHARE: usize = 4;

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
    /// So many bytes of an attribute at most, 64 KiB by default. Of conversations the latest messages stay, and what is JSON
    /// stays JSON: texts within it are cut.
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

    /// What is cut is not what the function looks for, so it sees all of it.
    fn redacted(&self, name: &'static str, text: String) -> Option<String> {
        match &self.redaction {
            Some(redaction) => redaction(name, text),
            None => Some(text),
        }
    }

    pub(crate) fn text(&self, name: &'static str, text: &str) -> Option<(&'static str, String)> {
        Some((name, fit::text(self.redacted(name, text.to_owned())?, self.limit)))
    }

    /// An error in words.
    pub(crate) fn error(&self, text: &str) -> Option<String> {
        self.text(names::REASON, text).map(|(_, text)| text)
    }

    pub(crate) fn json(&self, name: &'static str, value: &Value) -> Option<(&'static str, String)> {
        self.list(name, value, self.limit)
    }

    /// A value as JSON; where it is too long, items of a list have so many bytes at most.
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
            // The function has made something else of it.
            Err(_) => fit::text(text, self.limit),
        };
        Some((name, text))
    }

    /// The conversation, the system prompt and the tools.
    pub(crate) fn request(&self, request: &ModelRequest) -> Vec<(&'static str, String)> {
        // A long message is cut, so that those before it, the task among them, find room.
        let share = self.limit / SHARE;
        let (mut messages, mut left) = (Vec::new(), self.limit);
        for message in request.messages.iter().rev() {
            let told = said_by(message);
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

/// A tool in the form of the conventions.
fn defined(tool: &ToolSpec) -> Value {
    json!({"type": "function", "name": tool.name, "description": tool.description, "parameters": &*tool.schema})
}
