//! Decodes responses of Ollama's API: lines with a piece of the message each, or one with the whole message.

use std::borrow::Cow;

use deepagents_core::message::{Block, ProviderItem, Reasoning, Usage};
use deepagents_core::model::{ModelError, ModelEvent, StopReason};
use serde_json::{Value, json};

use crate::blocks::{self, has_calls};
use crate::decoded::Decoded;
use crate::http::{AnswerDecoder, Flow, cut_short, from_stream};
use crate::json::{count, is_given, text};
use crate::{args, exact};

/// Path of the call arguments in a line of the response.
const ARGS: [&str; 4] = ["message", "tool_calls", "function", "arguments"];

/// Maximum number of bytes of a value that spans several lines; it is parsed again with each line.
const MAX_INDENTED_BYTES: usize = 1 << 20;

/// Accumulates a streamed response: reasoning, text and calls, in the order in which they started.
#[derive(Default)]
pub(super) struct ChatDecoder {
    content: Vec<Block>,
    /// Lines of an unfinished value.
    partial: String,
    /// The last line, with the token counts.
    end: Option<Value>,
}

impl ChatDecoder {
    fn line(&mut self, mut line: Value, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        if is_given(line.get("error")) {
            return Err(from_stream(&line));
        }
        if let Some(message) = line.get_mut("message") {
            let mut take = |key: &str| message.get_mut(key).map(Value::take).unwrap_or_default();
            if let Value::String(thought) = take("thinking") {
                self.append(Block::Reasoning(Reasoning::default()), thought, out);
            }
            if let Value::String(text) = take("content") {
                self.append(Block::text(""), text, out);
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

    /// Appends to the block of the kind of `empty`, which begins with it.
    fn append(&mut self, empty: Block, delta: String, out: &mut Vec<ModelEvent>) {
        if delta.is_empty() {
            return;
        }
        let is_same = |block: &Block| std::mem::discriminant(block) == std::mem::discriminant(&empty);
        let block = self.content.iter().position(is_same).unwrap_or(self.content.len());
        if block == self.content.len() {
            self.content.push(empty);
        }
        match self.content.get_mut(block) {
            Some(Block::Reasoning(thought)) => {
                thought.text.push_str(&delta);
                out.push(ModelEvent::Reasoning { block, delta });
            }
            Some(Block::Text(text)) => {
                text.text.push_str(&delta);
                out.push(ModelEvent::Text { block, delta });
            }
            _ => {}
        }
    }

    /// Handles a complete call. Older servers send no ID; IDs need to be unique only within a response, so the position
    /// suffices.
    fn call(&mut self, call: &Value, out: &mut Vec<ModelEvent>) {
        let block = self.content.len();
        let function = call.get("function");
        let of_function = |key: &str| function.and_then(|function| function.get(key));
        let name = text(of_function("name")).to_owned();
        let id = Some(text(call.get("id"))).filter(|id| !id.is_empty());
        let id = id.map_or_else(|| format!("call_{block}"), str::to_owned);
        let given = of_function("arguments").filter(|args| !args.is_null());
        let args = match given {
            Some(Value::String(raw)) => args::from_text(raw, false),
            other => args::from_field(other),
        };
        out.push(ModelEvent::ToolCall { block, id: id.clone(), name: name.clone() });
        let (raw, native) = match &args {
            Ok(args) => match exact::verbatim(text(given), args) {
                Some(arguments) => {
                    let raw = exact::text(&arguments);
                    let item = json!({"id": id, "function": {"name": name, "arguments": arguments}});
                    (raw, Some(ProviderItem::new(item)))
                }
                None => (args.to_string(), None),
            },
            Err(args) => (args.raw.clone(), None),
        };
        let made = blocks::call(id, name, args, native);
        out.push(ModelEvent::ToolArgs { block, delta: raw });
        self.content.push(made);
    }
}

impl AnswerDecoder for ChatDecoder {
    fn whole(&mut self, body: &[u8]) -> Result<Decoded, ModelError> {
        // Some intermediate servers do not declare that these are lines, or spread a value over several.
        let mut values = serde_json::Deserializer::from_slice(body).into_iter();
        let mut from = 0;
        while let Some(value) = values.next() {
            let mut value =
                value.map_err(|error| ModelError::protocol(format!("the answer is not valid JSON: {error}")))?;
            exact::keep(&mut value, body.get(from..values.byte_offset()).unwrap_or_default(), &ARGS);
            from = values.byte_offset();
            self.line(value, &mut Vec::new())?;
        }
        self.finish()
    }

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
            return Err(cut_short());
        };
        let content = std::mem::take(&mut self.content);
        let word = end.get("done_reason").and_then(Value::as_str).map(str::to_owned);
        let calls = has_calls(&content);
        let stop = match word.as_deref() {
            Some("length") => StopReason::MaxTokens,
            Some("stop") | None if calls => StopReason::ToolCalls,
            Some("stop") | None => StopReason::End,
            Some(other) => StopReason::Other(other.to_owned()),
        };
        if let Some(end) = end.as_object_mut() {
            end.retain(|key, value| key.ends_with("_count") && value.is_u64());
        }
        let (input, output) = (count(&end, "prompt_eval_count"), count(&end, "eval_count"));
        Ok(Decoded::new(String::new(), content, (stop, word), (Usage { input, output, ..Usage::default() }, end)))
    }
}
