//! Decodes responses of Ollama's API: lines with a piece of the message each, or one with the whole message.

use std::borrow::Cow;

use deepagents_core::message::{Block, InvalidToolCall, Origin, ProviderItem, Reasoning, ToolCall, Usage};
use deepagents_core::model::{ModelError, ModelEvent, StopReason};
use serde_json::{Value, json};

use crate::decoded::Decoded;
use crate::http::{AnswerDecoder, Flow, from_stream};
use crate::{args, exact};

/// Path of the call arguments in a line of the response.
const ARGS: [&str; 4] = ["message", "tool_calls", "function", "arguments"];

/// Maximum number of bytes of a value that spans several lines; it is parsed again with each line.
const MAX_INDENTED_BYTES: usize = 1 << 20;

/// Decodes a complete response.
pub(super) fn whole(origin: &Origin, body: &[u8]) -> Result<Decoded, ModelError> {
    let mut answer = ChatDecoder::new(origin.clone());
    // Some intermediate servers do not declare that these are lines, or spread a value over several.
    let mut values = serde_json::Deserializer::from_slice(body).into_iter();
    let mut from = 0;
    while let Some(value) = values.next() {
        let mut value =
            value.map_err(|error| ModelError::protocol(format!("the answer is not valid JSON: {error}")))?;
        exact::keep(&mut value, body.get(from..values.byte_offset()).unwrap_or_default(), &ARGS);
        from = values.byte_offset();
        answer.line(value, &mut Vec::new())?;
    }
    answer.finish()
}

/// Accumulates a streamed response: reasoning, text and calls, in the order in which they started.
pub(super) struct ChatDecoder {
    origin: Origin,
    content: Vec<Block>,
    /// Lines of an unfinished value.
    partial: String,
    /// The last line, with the token counts.
    end: Option<Value>,
}

impl ChatDecoder {
    pub(super) fn new(origin: Origin) -> Self {
        Self { origin, content: Vec::new(), partial: String::new(), end: None }
    }

    fn line(&mut self, mut line: Value, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        if line.get("error").is_some_and(|error| !error.is_null()) {
            return Err(from_stream(&line));
        }
        if let Some(message) = line.get_mut("message") {
            let mut take = |key: &str| message.get_mut(key).map(Value::take).unwrap_or_default();
            if let Value::String(thought) = take("thinking") {
                self.thought(thought, out);
            }
            if let Value::String(text) = take("content") {
                self.text(text, out);
            }
            if let Value::Array(calls) = take("tool_calls") {
                calls.iter().for_each(|call| self.call(call, out));
            }
        }
        if line.get("done").is_some_and(|done| done == true) {
            self.end = Some(line);
            return Ok(Flow::Complete);
        }
        Ok(Flow::More)
    }

    fn thought(&mut self, delta: String, out: &mut Vec<ModelEvent>) {
        if delta.is_empty() {
            return;
        }
        let at = self.content.iter().position(|block| matches!(block, Block::Reasoning(_)));
        let block = at.unwrap_or(self.content.len());
        match self.content.get_mut(block) {
            Some(Block::Reasoning(thought)) => thought.text.push_str(&delta),
            _ => self.content.push(Block::Reasoning(Reasoning { text: delta.clone(), native: None })),
        }
        out.push(ModelEvent::Reasoning { block, delta });
    }

    fn text(&mut self, delta: String, out: &mut Vec<ModelEvent>) {
        if delta.is_empty() {
            return;
        }
        let at = self.content.iter().position(|block| matches!(block, Block::Text(_)));
        let block = at.unwrap_or(self.content.len());
        match self.content.get_mut(block) {
            Some(Block::Text(text)) => text.text.push_str(&delta),
            _ => self.content.push(Block::text(delta.clone())),
        }
        out.push(ModelEvent::Text { block, delta });
    }

    /// Handles a complete call. Older servers send no ID; IDs need to be unique only within a response, so the position
    /// suffices.
    fn call(&mut self, call: &Value, out: &mut Vec<ModelEvent>) {
        let block = self.content.len();
        let field = |value: Option<&Value>, key: &str| {
            value.and_then(|value| value.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let function = call.get("function");
        let name = field(function, "name");
        let id = Some(field(Some(call), "id")).filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{block}"));
        let given = function.and_then(|function| function.get("arguments"));
        let args = match given {
            None | Some(Value::Null) => Ok(json!({})),
            Some(Value::String(raw)) => args::parse(raw).map_err(|error| (raw.clone(), error)),
            Some(args @ Value::Object(_)) => Ok(args.clone()),
            Some(other) => Err((other.to_string(), "the arguments are not an object".to_owned())),
        };
        out.push(ModelEvent::ToolCall { block, id: id.clone(), name: name.clone() });
        let (raw, made) = match args {
            Ok(args) => {
                let text = given.and_then(Value::as_str).unwrap_or_default();
                let (arguments, is_exact) = exact::kept(text, &args);
                let raw = exact::text(&arguments);
                let item = || json!({"id": id, "function": {"name": name, "arguments": arguments}});
                let native = is_exact.then(|| ProviderItem::new(item()));
                (raw, Block::ToolCall(ToolCall { id, name, args, native }))
            }
            Err((raw, error)) => {
                (raw.clone(), Block::InvalidToolCall(InvalidToolCall { id, name, raw, error, native: None }))
            }
        };
        out.push(ModelEvent::ToolArgs { block, delta: raw });
        self.content.push(made);
    }
}

impl AnswerDecoder for ChatDecoder {
    fn event(&mut self, _name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        let text =
            if self.partial.is_empty() { Cow::Borrowed(data) } else { Cow::Owned(format!("{}\n{data}", self.partial)) };
        match serde_json::from_str(&text) {
            Ok(mut line) => {
                exact::keep(&mut line, text.as_bytes(), &ARGS);
                self.partial.clear();
                self.line(line, out)
            }
            Err(error) if error.is_eof() && text.len() < MAX_INDENTED_BYTES => {
                self.partial = text.into_owned();
                Ok(Flow::More)
            }
            Err(error) => Err(ModelError::protocol(format!("a line of the answer is not valid JSON: {error}"))),
        }
    }

    fn finish(&mut self) -> Result<Decoded, ModelError> {
        let Some(mut end) = self.end.take() else {
            return Err(ModelError::truncated("the stream ended before the answer did"));
        };
        let content = std::mem::take(&mut self.content);
        let word = end.get("done_reason").and_then(Value::as_str).map(str::to_owned);
        let calls = content.iter().any(|block| matches!(block, Block::ToolCall(_) | Block::InvalidToolCall(_)));
        let stop = match word.as_deref() {
            Some("length") => StopReason::MaxTokens,
            Some("stop") | None if calls => StopReason::ToolCalls,
            Some("stop") | None => StopReason::End,
            Some(other) => StopReason::Other(other.to_owned()),
        };
        if let Some(end) = end.as_object_mut() {
            end.retain(|key, value| key.ends_with("_count") && value.is_u64());
        }
        let count = |key: &str| end.get(key).and_then(Value::as_u64).unwrap_or_default();
        let usage = Usage { input: count("prompt_eval_count"), output: count("eval_count"), ..Usage::default() };
        Ok(Decoded::new(String::new(), self.origin.clone(), content, usage, stop, word, end))
    }
}
