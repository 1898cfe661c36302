//! Decodes responses of Chat Completions, complete and streamed. A complete message is decoded as one large delta.

use deepagents_core::message::Block;
use deepagents_core::model::{ModelError, ModelEvent, StopReason};
use serde_json::{Map, Value, json};

use super::dialect::{Dialect, ReasoningForm};
use super::part::{Part, Thought, Whole, add_piece, merge_detail};
use crate::blocks::provider_item;
use crate::decoded::{Decoded, openai_usage};
use crate::exact;
use crate::http::{AnswerDecoder, Flow, cut_short, from_stream};
use crate::json::{self, is_empty, is_given, merge_delta, merge_fields, objects};

/// Returns whether a chunk reports that the call failed; some servers do so without the usual key.
fn is_error(chunk: &Value) -> bool {
    chunk.get("error").is_some_and(says)
        || chunk.get("object").is_some_and(|kind| kind == "error")
        || (!is_given(chunk.get("choices")) && is_given(chunk.get("message")))
}

/// Returns whether the value of `error` is an error: some servers always send the field.
fn says(error: &Value) -> bool {
    !is_empty(error) && error != false
}

/// Finish reasons for a failure of the service; such responses are incomplete.
const FAILED: [&str; 4] = ["error", "network_error", "insufficient_system_resource", "abort"];

/// Accumulates a response.
pub(super) struct MessageDecoder {
    dialect: Dialect,
    id: String,
    pub(super) parts: Vec<Part>,
    /// Unknown fields of the message.
    fields: Map<String, Value>,
    usage: Value,
    stop: Option<String>,
    started: bool,
    done: bool,
    /// Whether the response is complete, so that calls are identified by position.
    pub(super) plain: bool,
}

/// Sources that some services send beside the response.
pub(super) const SOURCES: [&str; 2] = ["citations", "search_results"];

/// Message fields with reasoning as text.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

impl MessageDecoder {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            id: String::new(),
            parts: Vec::new(),
            fields: Map::new(),
            usage: Value::Null,
            stop: None,
            started: false,
            done: false,
            plain: false,
        }
    }

    fn chunk(&mut self, mut chunk: Value, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if is_error(&chunk) {
            return Err(from_stream(&chunk));
        }
        if let Some(id) = chunk.get("id").and_then(Value::as_str).filter(|_| self.id.is_empty()) {
            id.clone_into(&mut self.id);
        }
        if let Some(error) = chunk.get("x_groq").and_then(|more| more.get("error")).filter(|error| says(error)) {
            return Err(from_stream(&json!({"error": error})));
        }
        for pointer in ["/x_groq/usage", "/usage"] {
            if let Some(usage) = chunk.pointer_mut(pointer).map(Value::take).filter(Value::is_object) {
                self.usage = usage;
            }
        }
        for key in SOURCES {
            if let Some(sources) = chunk.get_mut(key).map(Value::take).filter(|sources| !is_empty(sources)) {
                self.fields.insert(key.to_owned(), sources);
            }
        }
        let Some(choices) = chunk.get_mut("choices").and_then(Value::as_array_mut) else { return Ok(()) };
        // One choice is requested; there are more only if an extra field asks for them.
        let first = choices.iter_mut().find(|c| c.get("index").and_then(Value::as_u64).unwrap_or_default() == 0);
        let Some(Value::Object(choice)) = first else { return Ok(()) };
        if choice.get("error").is_some_and(says) {
            return Err(from_stream(&Value::Object(std::mem::take(choice))));
        }
        if let Some(usage) = choice.remove("usage").filter(|usage| usage.is_object() && self.usage.is_null()) {
            self.usage = usage;
        }
        for key in ["delta", "message"] {
            if let Some(Value::Object(delta)) = choice.remove(key) {
                self.started = true;
                self.delta(delta, out);
            }
        }
        if let Some(stop) = choice.get("finish_reason").and_then(Value::as_str).filter(|stop| !stop.is_empty()) {
            // A response stopped by a filter may have no message.
            self.started = true;
            self.stop = Some(stop.to_owned());
        }
        Ok(())
    }

    fn delta(&mut self, mut delta: Map<String, Value>, out: &mut Vec<ModelEvent>) {
        self.reasoning(&mut delta, out);
        match delta.remove("content") {
            Some(Value::String(text)) => self.text(text, out),
            Some(Value::Array(items)) => items.into_iter().for_each(|item| self.item(item, out)),
            _ => {}
        }
        if let Some(Value::String(text)) = delta.remove("refusal") {
            self.refusal(text, out);
        }
        if let Some(Value::Object(audio)) = delta.remove("audio") {
            self.audio(audio, out);
        }
        let legacy = delta.remove("function_call");
        if let Some(Value::Array(calls)) = delta.remove("tool_calls") {
            objects(calls).enumerate().for_each(|(position, call)| self.call(position, call, out));
        }
        // The legacy form of tool calls: one per message, without an ID. Some servers send the same call in both forms.
        let has_calls = self.parts.iter().any(|part| matches!(part, Part::Call(call) if !call.id.is_empty()));
        if let (Some(Value::Object(function)), false) = (legacy, has_calls) {
            let fields = [("index", Value::from(0)), ("function", Value::Object(function))];
            self.call(0, fields.map(|(key, value)| (key.to_owned(), value)).into_iter().collect(), out);
        }
        delta.remove("role");
        delta.retain(|_, value| !is_empty(value));
        merge_fields(&mut self.fields, delta);
    }

    fn reasoning(&mut self, delta: &mut Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let usual = match self.dialect.reasoning {
            ReasoningForm::Field(field) => Some(field),
            _ => None,
        };
        // Some servers send the same text in both fields.
        let mut text = None;
        for field in usual.into_iter().chain(REASONING_FIELDS) {
            if let Some(Value::String(more)) = delta.remove(field)
                && !more.is_empty()
                && text.is_none()
            {
                text = Some((field, more));
            }
        }
        let first = |parts: &[Part]| parts.iter().position(|part| matches!(part, Part::Reasoning(_)));
        if let Some((field, more)) = text {
            let block = self.thought(first(&self.parts), |thought| {
                thought.field.get_or_insert(field);
                thought.text.push_str(&more);
            });
            out.push(ModelEvent::Reasoning { block, delta: more });
        }
        if let Some(Value::Array(details)) = delta.remove("reasoning_details")
            && !details.is_empty()
        {
            self.thought(first(&self.parts), |thought| {
                details.into_iter().for_each(|detail| merge_detail(&mut thought.details, detail));
            });
        }
    }

    /// Returns the position, or that of a new part at the end.
    fn position_or_new(&mut self, at: Option<usize>, new: Part) -> usize {
        at.unwrap_or_else(|| {
            self.parts.push(new);
            self.parts.len() - 1
        })
    }

    /// Adds to the reasoning at a position, or to a new one at the end.
    fn thought(&mut self, at: Option<usize>, add: impl FnOnce(&mut Thought)) -> usize {
        let block = self.position_or_new(at, Part::Reasoning(Thought::default()));
        if let Some(Part::Reasoning(thought)) = self.parts.get_mut(block) {
            add(thought);
        }
        block
    }

    fn text(&mut self, more: String, out: &mut Vec<ModelEvent>) {
        let is_text = |part: &Part| matches!(part, Part::Text(_));
        let at = match self.dialect.reasoning {
            // Items of a content array are in order, so text after reasoning is a separate text.
            ReasoningForm::Content => {
                self.parts.len().checked_sub(1).filter(|_| self.parts.last().is_some_and(is_text))
            }
            _ => self.parts.iter().position(is_text),
        };
        self.more_text(at, more, Part::Text(String::new()), out);
    }

    fn refusal(&mut self, more: String, out: &mut Vec<ModelEvent>) {
        let at = self.parts.iter().position(|part| matches!(part, Part::Refusal(_)));
        self.more_text(at, more, Part::Refusal(String::new()), out);
    }

    /// Merges a piece of audio output; its transcript is text.
    fn audio(&mut self, more: Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let at = self.parts.iter().position(|part| matches!(part, Part::Audio(_)));
        let block = self.position_or_new(at, Part::Audio(Map::new()));
        let Some(Part::Audio(audio)) = self.parts.get_mut(block) else { return };
        for (key, value) in more {
            if let (Value::String(delta), "transcript") = (&value, key.as_str()) {
                out.push(ModelEvent::Text { block, delta: delta.clone() });
            }
            if matches!(key.as_str(), "transcript" | "data") {
                merge_delta(audio.entry(key).or_insert(Value::Null), value);
            } else {
                audio.insert(key, value);
            }
        }
    }

    /// Appends to the text at a position, or to a new one at the end.
    fn more_text(&mut self, at: Option<usize>, delta: String, new: Part, out: &mut Vec<ModelEvent>) {
        if delta.is_empty() {
            return;
        }
        let block = self.position_or_new(at, new);
        if let Some(Part::Text(text) | Part::Refusal(text)) = self.parts.get_mut(block) {
            text.push_str(&delta);
        }
        out.push(ModelEvent::Text { block, delta });
    }

    /// Processes an item of a content array.
    fn item(&mut self, item: Value, out: &mut Vec<ModelEvent>) {
        let Value::Object(mut item) = item else { return };
        let kind = json::text(item.get("type")).to_owned();
        match (kind.as_str(), item.remove(kind.as_str())) {
            ("text", Some(Value::String(text))) => self.text(text, out),
            ("refusal", Some(Value::String(text))) => self.refusal(text, out),
            ("thinking", Some(thinking)) => {
                let pieces = match thinking {
                    Value::String(text) => vec![json!({"type": "text", "text": text})],
                    Value::Array(list) => list,
                    _ => Vec::new(),
                };
                let more: String = pieces.iter().filter_map(|piece| piece.get("text")?.as_str()).collect();
                item.remove("type");
                let add = |thought: &mut Thought| {
                    thought.text.push_str(&more);
                    pieces.into_iter().for_each(|piece| add_piece(&mut thought.pieces, piece));
                    thought.item.extend(item.into_iter().filter(|(_, value)| !is_empty(value)));
                };
                let continues = matches!(self.parts.last(), Some(Part::Reasoning(_)));
                let block = self.thought(self.parts.len().checked_sub(1).filter(|_| continues), add);
                if !more.is_empty() {
                    out.push(ModelEvent::Reasoning { block, delta: more });
                }
            }
            (_, value) => {
                if let Some(value) = value {
                    item.insert(kind, value);
                }
                self.parts.push(Part::Item(Value::Object(item)));
            }
        }
    }

    fn stop_reason(&self) -> StopReason {
        let calls = self.parts.iter().any(|part| matches!(part, Part::Call(_)));
        let refused = self.parts.iter().any(|part| matches!(part, Part::Refusal(_)));
        match self.stop.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("length" | "model_length" | "max_tokens" | "max_output_tokens") => StopReason::MaxTokens,
            Some("model_context_window_exceeded" | "context_window_exceeded") => StopReason::ContextWindow,
            Some("content_filter" | "refusal" | "sensitive" | "safety") => StopReason::Refusal,
            Some("tool_calls" | "tool_call" | "function_call") => StopReason::ToolCalls,
            Some("stop_sequence") => StopReason::StopSequence,
            word if !is_end(word.unwrap_or_default()) => StopReason::Other(self.stop.clone().unwrap_or_default()),
            _ if calls => StopReason::ToolCalls,
            _ if refused => StopReason::Refusal,
            _ => StopReason::End,
        }
    }
}

/// Returns whether a response with this finish reason is complete. Local servers use their own values.
fn is_end(word: &str) -> bool {
    matches!(
        word,
        "" | "stop"
            | "stopped"
            | "eos"
            | "eos_token"
            | "eosfound"
            | "end"
            | "end_turn"
            | "complete"
            | "completed"
            | "done"
            | "finish"
            | "finished"
            | "normal"
    )
}

impl AnswerDecoder for MessageDecoder {
    fn whole(&mut self, body: &[u8]) -> Result<Decoded, ModelError> {
        let answer = json::parse_answer(body, &["choices", "message", "tool_calls", "function", "arguments"])?;
        if !answer.get("choices").is_some_and(Value::is_array) && !is_error(&answer) {
            return Err(ModelError::protocol("the answer has no choices"));
        }
        self.plain = true;
        self.chunk(answer, &mut Vec::new())?;
        if !self.started {
            return Err(ModelError::protocol("the answer has no choice with a message"));
        }
        self.done = true;
        self.finish()
    }

    fn event(&mut self, name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        match data.trim() {
            "" => return Ok(Flow::More),
            "[DONE]" => {
                self.done = true;
                return Ok(Flow::Complete);
            }
            _ => {}
        }
        if name == "error" {
            return Err(from_stream(&serde_json::from_str(data).unwrap_or_else(|_| data.into())));
        }
        let mut piece = json::parse("a piece of the answer", data.as_bytes())?;
        exact::keep(&mut piece, data.as_bytes(), &["choices", "delta", "tool_calls", "function", "arguments"]);
        self.chunk(piece, out)?;
        Ok(Flow::More)
    }

    fn finish(&mut self) -> Result<Decoded, ModelError> {
        if !self.started || !(self.done || self.stop.is_some()) {
            return Err(cut_short());
        }
        if let Some(word) = self.stop.as_deref().filter(|word| FAILED.contains(&word.to_ascii_lowercase().as_str())) {
            return Err(ModelError::Overloaded(
                format!("the service broke off its answer (finish reason `{word}`)").into(),
            ));
        }
        let reason = self.stop_reason();
        let parts = std::mem::take(&mut self.parts);
        let was_cut = reason == StopReason::MaxTokens;
        let cut = parts.iter().rposition(|part| matches!(part, Part::Call(_))).filter(|_| was_cut);
        let whole = Whole { dialect: &self.dialect, answer: &self.id, cut };
        let mut content: Vec<Block> =
            parts.into_iter().enumerate().map(|(at, part)| part.into_block(at, &whole)).collect();
        let fields = std::mem::take(&mut self.fields);
        if !fields.is_empty() {
            content.push(provider_item(Value::Object(fields)));
        }
        let usage = openai_usage(&self.usage, ["prompt_tokens", "completion_tokens"]);
        let id = std::mem::take(&mut self.id);
        Ok(Decoded::new(id, content, (reason, self.stop.take()), (usage, self.usage.take())))
    }
}
