//! Decodes responses of the Messages API, complete and streamed.

use std::borrow::Cow;

use deepagents_core::message::Block;
use deepagents_core::model::{ModelError, ModelEvent, StopReason};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::blocks::{block, block_with_json, mark_cut};
use crate::decoded::{Decoded, usage_without_cache};
use crate::http::{AnswerDecoder, Flow, cut_short, from_stream, mended};
use crate::json::{count, merge_fields, objects, parse_answer, parse_event, parse_object, text};

fn decoded(id: String, content: Vec<Block>, stop: Option<String>, reported: Value) -> Decoded {
    let reason = stop_reason(stop.as_deref());
    let mut usage = usage_without_cache(&reported, USAGE);
    usage.cache_write_hour = reported.get("cache_creation").map_or(0, |written| count(written, HOUR));
    Decoded::new(id, content, (reason, stop), (usage, reported))
}

fn stop_reason(word: Option<&str>) -> StopReason {
    match word {
        Some("end_turn") | None => StopReason::End,
        Some("tool_use") => StopReason::ToolCalls,
        Some("max_tokens") => StopReason::MaxTokens,
        Some("stop_sequence") => StopReason::StopSequence,
        Some("refusal") => StopReason::Refusal,
        Some("pause_turn") => StopReason::Pause,
        Some("model_context_window_exceeded") => StopReason::ContextWindow,
        Some(other) => StopReason::Other(other.to_owned()),
    }
}

/// Fields of a report with the tokens of the input, the output, and those read from and written to the cache.
const USAGE: [&str; 4] = ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];

/// Field with the tokens that were written to the cache for an hour.
const HOUR: &str = "ephemeral_1h_input_tokens";

/// An event of a streamed response. Nearly all are deltas, which are read without building a [`Value`] of them.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    index: Value,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(default)]
    message: Value,
    #[serde(default)]
    usage: Value,
    #[serde(default)]
    error: Value,
}

/// What is new in a block, or in the message.
#[derive(Deserialize)]
struct Delta<'a> {
    /// As written: reading it allocates nothing, and one of another type is as unknown as a new one.
    #[serde(borrow, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(default)]
    text: Value,
    #[serde(default)]
    thinking: Value,
    #[serde(default)]
    partial_json: Value,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Accumulates a streamed response. Blocks keep the order in which they started.
#[derive(Default)]
pub(super) struct MessageDecoder {
    id: String,
    blocks: Vec<Part>,
    usage: Map<String, Value>,
    stop: Option<String>,
    started: bool,
    ended: bool,
}

struct Part {
    /// The provider's index of the block.
    index: u64,
    item: Map<String, Value>,
    /// Input of a call, which arrives as pieces of JSON.
    json: String,
    open: bool,
}

impl MessageDecoder {
    fn start(&mut self, mut message: Value) {
        self.started = true;
        text(message.get("id")).clone_into(&mut self.id);
        self.merge_usage(message.get_mut("usage").map(Value::take).unwrap_or_default());
    }

    /// Later counts replace earlier ones; missing or null counts are ignored.
    fn merge_usage(&mut self, usage: Value) {
        if let Value::Object(usage) = usage {
            self.usage.extend(usage.into_iter().filter(|(_, value)| !value.is_null()));
        }
    }

    fn block_start(&mut self, index: u64, item: Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let block = self.blocks.len();
        let field = |key: &str| text(item.get(key)).to_owned();
        match text(item.get("type")) {
            "tool_use" => out.push(ModelEvent::ToolCall { block, id: field("id"), name: field("name") }),
            "text" => push_text(block, field("text"), out),
            "thinking" => push_thought(block, field("thinking"), out),
            _ => {}
        }
        self.blocks.push(Part { index, item, json: String::new(), open: true });
    }

    fn block_delta(&mut self, index: u64, mut delta: Delta<'_>, out: &mut Vec<ModelEvent>) {
        let Some((block, part)) = self.blocks.iter_mut().enumerate().rfind(|(_, part)| part.index == index) else {
            return;
        };
        let kind = delta.kind.map_or("", |kind| kind.get().trim_matches('"'));
        match kind {
            "input_json_delta" => {
                if let Value::String(delta) = delta.partial_json {
                    part.json.push_str(&delta);
                    if part.item.get("type").is_some_and(|kind| kind == "tool_use") {
                        out.push(ModelEvent::ToolArgs { block, delta });
                    }
                }
                return;
            }
            "citations_delta" => {
                if let Some(citation) = delta.others.remove("citation") {
                    delta.others.insert("citations".to_owned(), Value::Array(vec![citation]));
                }
            }
            _ => {}
        }
        if let Value::String(more) = delta.text {
            append(&mut part.item, "text", &more);
            if kind == "text_delta" {
                push_text(block, more, out);
            }
        }
        if let Value::String(more) = delta.thinking {
            append(&mut part.item, "thinking", &more);
            if kind == "thinking_delta" {
                push_thought(block, more, out);
            }
        }
        merge_fields(&mut part.item, delta.others);
    }
}

/// Appends to a text of an item.
fn append(item: &mut Map<String, Value>, key: &str, more: &str) {
    match item.get_mut(key) {
        Some(Value::String(text)) => text.push_str(more),
        _ => drop(item.insert(key.to_owned(), more.into())),
    }
}

fn push_text(block: usize, delta: String, out: &mut Vec<ModelEvent>) {
    if !delta.is_empty() {
        out.push(ModelEvent::Text { block, delta });
    }
}

fn push_thought(block: usize, delta: String, out: &mut Vec<ModelEvent>) {
    if !delta.is_empty() {
        out.push(ModelEvent::Reasoning { block, delta });
    }
}

impl AnswerDecoder for MessageDecoder {
    fn whole(&mut self, body: &[u8]) -> Result<Decoded, ModelError> {
        let mut answer = parse_object(body, &["content", "input"])?;
        if answer.get("type").is_some_and(|kind| kind == "error") {
            return Err(from_stream(&Value::Object(answer)));
        }
        let stop = answer.get("stop_reason").and_then(Value::as_str).map(str::to_owned);
        let items = match answer.remove("content") {
            Some(Value::Array(items)) => items,
            // No output, but a stop reason.
            Some(Value::Null) if stop.is_some() => Vec::new(),
            _ => return Err(ModelError::protocol("the answer has no content")),
        };
        let mut content: Vec<Block> = objects(items).map(block).collect();
        if stop_reason(stop.as_deref()) == StopReason::MaxTokens {
            mark_cut(&mut content);
        }
        let usage = answer.remove("usage").unwrap_or_default();
        Ok(decoded(text(answer.get("id")).to_owned(), content, stop, usage))
    }

    fn event(&mut self, _name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        let repaired;
        let read: serde_json::Result<Event<'_>> = match serde_json::from_str(data) {
            Ok(event) => Ok(event),
            Err(_) => {
                repaired = mended(data);
                serde_json::from_str(&repaired)
            }
        };
        // What is not an event says nothing, unless it is an error or no JSON at all.
        let Ok(event) = read else { return parse_event(data, &[]).map(|_| Flow::More) };
        if event.kind == "error" || !event.error.is_null() {
            let whole = parse_event(data, &[])?.unwrap_or_default();
            if event.kind == "error" {
                return Err(from_stream(&Value::Object(whole)));
            }
        }
        let index = event.index.as_u64().unwrap_or_default();
        match &*event.kind {
            "message_start" => self.start(event.message),
            "content_block_start" => {
                let Some(item) = event.content_block else { return Ok(Flow::More) };
                if let Value::Object(item) = parse_answer(item.get().as_bytes(), &["input"])? {
                    self.block_start(index, item, out);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    self.block_delta(index, delta, out);
                }
            }
            "content_block_stop" => {
                if let Some(part) = self.blocks.iter_mut().rfind(|part| part.index == index) {
                    part.open = false;
                }
            }
            "message_delta" => {
                if let Some(Value::String(stop)) = event.delta.and_then(|mut delta| delta.others.remove("stop_reason"))
                {
                    self.stop = Some(stop);
                }
                self.merge_usage(event.usage);
            }
            "message_stop" => {
                self.ended = true;
                return Ok(Flow::Complete);
            }
            // `ping`, and future event types.
            _ => {}
        }
        Ok(Flow::More)
    }

    fn finish(&mut self) -> Result<Decoded, ModelError> {
        // With a stop reason and no open block, the response is complete even if the last frame is missing.
        let complete = self.ended || (self.stop.is_some() && self.blocks.iter().all(|part| !part.open));
        if !self.started || !complete {
            return Err(cut_short());
        }
        // A block that was closed has all its arguments, even if there are none.
        let without_args = self.blocks.last().is_some_and(|part| part.json.trim().is_empty());
        let content = std::mem::take(&mut self.blocks).into_iter().map(|part| {
            // Some gateways omit the empty input at the start of a block.
            let takes_json = part.item.contains_key("input") || !part.json.is_empty();
            if takes_json { block_with_json(part.item, &part.json) } else { block(part.item) }
        });
        let mut content: Vec<Block> = content.collect();
        if without_args && stop_reason(self.stop.as_deref()) == StopReason::MaxTokens {
            mark_cut(&mut content);
        }
        let usage = Value::Object(std::mem::take(&mut self.usage));
        Ok(decoded(std::mem::take(&mut self.id), content, self.stop.take(), usage))
    }
}
