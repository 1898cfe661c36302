//! Decodes responses of the Converse API, complete and streamed.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use deepagents_core::message::Block;
use deepagents_core::model::{ModelError, ModelEvent, StopReason};
use serde_json::{Map, Value, json};

use super::blocks::{block, call, is_servers};
use crate::blocks::has_calls;
use crate::decoded::{Decoded, usage_without_cache};
use crate::http::{AnswerDecoder, Flow, cut_short};
use crate::json::{count, objects, parse, parse_answer, text};
use crate::{args, exact};

fn decoded(content: Vec<Block>, stop: Option<String>, reported: Value) -> Result<Decoded, ModelError> {
    let reason = stop_reason(stop.as_deref());
    match stop.as_deref() {
        // The response lacks what the provider could not parse.
        Some(word @ "malformed_model_output") => Err(unread(word)),
        Some(word @ "malformed_tool_use") if !has_calls(&content) => Err(unread(word)),
        _ => {
            let mut usage = usage_without_cache(&reported, USAGE);
            usage.cache_write_hour = written_for_an_hour(&reported);
            Ok(Decoded::new(String::new(), content, (reason, stop), (usage, reported)))
        }
    }
}

/// Returns the number of tokens that were written to the cache for an hour.
fn written_for_an_hour(reported: &Value) -> u64 {
    let details = reported.get("cacheDetails").and_then(Value::as_array).into_iter().flatten();
    details
        .filter(|detail| text(detail.get("ttl")) == "1h")
        .map(|detail| count(detail, "inputTokens"))
        .fold(0, u64::saturating_add)
}

fn unread(word: &str) -> ModelError {
    ModelError::Overloaded(format!("the provider could not read its model's answer ({word})").into())
}

fn stop_reason(word: Option<&str>) -> StopReason {
    match word {
        Some("end_turn") | None => StopReason::End,
        Some("tool_use" | "malformed_tool_use") => StopReason::ToolCalls,
        Some("max_tokens") => StopReason::MaxTokens,
        Some("stop_sequence") => StopReason::StopSequence,
        Some("guardrail_intervened" | "content_filtered") => StopReason::Refusal,
        Some("model_context_window_exceeded") => StopReason::ContextWindow,
        Some(other) => StopReason::Other(other.to_owned()),
    }
}

/// Fields of a report with the tokens of the input, the output, and those read from and written to the cache.
const USAGE: [&str; 4] = ["inputTokens", "outputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"];

/// A block being received.
#[derive(Default)]
struct Part {
    /// The provider's index of the block.
    index: u64,
    text: String,
    /// ID and name of a call.
    call: Option<(String, String)>,
    thought: Option<Thought>,
    /// Sources cited by a text.
    citations: Vec<Value>,
    /// Another kind of block: a call that the provider executes itself, whose input arrives as text, or its result.
    other: Map<String, Value>,
}

#[derive(Default)]
struct Thought {
    signature: Option<String>,
    redacted: Option<String>,
}

impl Part {
    fn into_block(self, was_cut: bool) -> Option<Block> {
        if let Some((id, name)) = self.call {
            return Some(call(id, name, &self.text, was_cut));
        }
        let item = match self.thought {
            Some(Thought { redacted: Some(data), .. }) => json!({"reasoningContent": {"redactedContent": data}}),
            Some(Thought { signature: Some(signature), .. }) => {
                json!({"reasoningContent": {"reasoningText": {"text": self.text, "signature": signature}}})
            }
            Some(_) => json!({"reasoningContent": {"reasoningText": {"text": self.text}}}),
            None if !self.other.is_empty() => with_input(self.other, &self.text),
            None if !self.citations.is_empty() => {
                json!({"citationsContent": {"content": [{"text": self.text}], "citations": self.citations}})
            }
            None => json!({"text": self.text}),
        };
        item.as_object().cloned().map(block)
    }
}

/// Returns a provider's own block with the input received for it.
fn with_input(mut item: Map<String, Value>, raw: &str) -> Value {
    if let Some(Value::Object(made)) = item.get_mut("toolUse") {
        // Truncated input cannot be sent as an object.
        let input = args::parse(raw).map_or_else(|_| json!({}), |input| exact::verbatim(raw, &input).unwrap_or(input));
        made.entry("input").or_insert(input);
    }
    Value::Object(item)
}

/// Adds a piece of the result of a call that the provider executed itself.
fn add_result(item: &mut Map<String, Value>, piece: &Value) {
    let result = item.entry("toolResult").or_insert_with(|| json!({}));
    let Some(result) = result.as_object_mut() else { return };
    let content = result.entry("content").or_insert_with(|| json!([]));
    let Some(content) = content.as_array_mut() else { return };
    for part in piece.as_array().into_iter().flatten() {
        match (content.last_mut().and_then(|last| last.get_mut("text")), part.get("text").and_then(Value::as_str)) {
            (Some(Value::String(text)), Some(more)) => text.push_str(more),
            _ => content.push(part.clone()),
        }
    }
}

/// Adds a piece of Base64, of which each piece is encoded separately.
fn add_encoded(text: &mut String, more: &str) {
    match (BASE64_STANDARD.decode(&*text), BASE64_STANDARD.decode(more)) {
        (Ok(bytes), Ok(more)) => *text = BASE64_STANDARD.encode([bytes, more].concat()),
        _ => text.push_str(more),
    }
}

/// Accumulates a streamed response. Blocks keep the order in which they started.
#[derive(Default)]
pub(super) struct ConverseDecoder {
    parts: Vec<Part>,
    stop: Option<String>,
    usage: Value,
    started: bool,
}

impl ConverseDecoder {
    /// Returns the block with an index; a text starts without a start event.
    fn part(&mut self, event: &Value) -> (usize, Option<&mut Part>) {
        let index = event.get("contentBlockIndex").and_then(Value::as_u64).unwrap_or_default();
        let at = self.parts.iter().position(|part| part.index == index).unwrap_or(self.parts.len());
        if at == self.parts.len() {
            self.parts.push(Part { index, ..Part::default() });
        }
        (at, self.parts.get_mut(at))
    }

    fn start(&mut self, mut event: Value, out: &mut Vec<ModelEvent>) {
        let Some(Value::Object(start)) = event.get_mut("start").map(Value::take) else { return };
        let (block, Some(part)) = self.part(&event) else { return };
        match start.get("toolUse") {
            Some(made) if !is_servers(made) => {
                let [id, name] = ["toolUseId", "name"].map(|key| text(made.get(key)).to_owned());
                out.push(ModelEvent::ToolCall { block, id: id.clone(), name: name.clone() });
                part.call = Some((id, name));
            }
            _ => part.other = start,
        }
    }

    fn delta(&mut self, event: &Value, out: &mut Vec<ModelEvent>) {
        let Some(delta) = event.get("delta") else { return };
        let text = |pointer: &str| delta.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let (block, Some(part)) = self.part(event) else { return };
        if let Some(delta) = text("/text") {
            part.text.push_str(&delta);
            if !delta.is_empty() {
                out.push(ModelEvent::Text { block, delta });
            }
        } else if let Some(delta) = text("/toolUse/input") {
            part.text.push_str(&delta);
            if part.call.is_some() {
                out.push(ModelEvent::ToolArgs { block, delta });
            }
        } else if let Some(citation) = delta.get("citation") {
            part.citations.push(citation.clone());
        } else if let Some(piece) = delta.get("toolResult") {
            add_result(&mut part.other, piece);
        } else if delta.get("reasoningContent").is_some() {
            let thought = part.thought.get_or_insert_default();
            if let Some(more) = text("/reasoningContent/signature") {
                thought.signature.get_or_insert_default().push_str(&more);
            }
            if let Some(more) = text("/reasoningContent/redactedContent") {
                add_encoded(thought.redacted.get_or_insert_default(), &more);
            }
            if let Some(delta) = text("/reasoningContent/text").filter(|delta| !delta.is_empty()) {
                part.text.push_str(&delta);
                out.push(ModelEvent::Reasoning { block, delta });
            }
        }
    }
}

impl AnswerDecoder for ConverseDecoder {
    fn whole(&mut self, body: &[u8]) -> Result<Decoded, ModelError> {
        let mut answer = parse_answer(body, &["output", "message", "content", "toolUse", "input"])?;
        let stop = answer.get("stopReason").and_then(Value::as_str).map(str::to_owned);
        let items = match answer.pointer_mut("/output/message/content").map(Value::take) {
            Some(Value::Array(items)) => items,
            // No output, but a stop reason.
            None | Some(Value::Null) if stop.is_some() => Vec::new(),
            _ => return Err(ModelError::protocol("the answer has no message")),
        };
        let usage = answer.get_mut("usage").map(Value::take).unwrap_or_default();
        decoded(objects(items).map(block).collect(), stop, usage)
    }

    fn event(&mut self, name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        let mut event = parse("an event of the answer", data.as_bytes())?;
        match name {
            "messageStart" => self.started = true,
            "contentBlockStart" => self.start(event, out),
            "contentBlockDelta" => self.delta(&event, out),
            "messageStop" => {
                self.stop = event.get("stopReason").and_then(Value::as_str).map(str::to_owned);
            }
            "metadata" => {
                self.usage = event.get_mut("usage").map(Value::take).unwrap_or_default();
                return Ok(Flow::Complete);
            }
            // The end of a block, and future event types.
            _ => {}
        }
        Ok(Flow::More)
    }

    fn finish(&mut self) -> Result<Decoded, ModelError> {
        // The usage comes after the end, so a response is complete without it.
        if !self.started || self.stop.is_none() {
            return Err(cut_short());
        }
        let was_cut = stop_reason(self.stop.as_deref()) == StopReason::MaxTokens;
        let parts = std::mem::take(&mut self.parts);
        let last = parts.len().saturating_sub(1);
        let parts = parts.into_iter().enumerate();
        let content = parts.filter_map(|(at, part)| part.into_block(was_cut && at == last)).collect();
        decoded(content, self.stop.take(), self.usage.take())
    }
}
