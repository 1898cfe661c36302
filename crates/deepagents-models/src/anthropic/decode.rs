//! Decodes responses of the Messages API, complete and streamed.

use deepagents_core::message::{Block, Origin, Usage};
use deepagents_core::model::{ModelError, ModelEvent, StopReason};
use serde_json::{Map, Value};

use super::blocks::{block, block_with_json, mark_cut, string};
use crate::decoded::Decoded;
use crate::exact;
use crate::http::{AnswerDecoder, Flow, from_stream, merge_delta, parse_answer, parse_json};

/// Decodes a complete response.
pub(super) fn whole(origin: &Origin, body: &[u8]) -> Result<Decoded, ModelError> {
    let mut value = parse_answer(body)?;
    exact::keep(&mut value, body, &["content", "input"]);
    if value.get("type").is_some_and(|kind| kind == "error") {
        return Err(from_stream(&value));
    }
    let Value::Object(mut answer) = value else {
        return Err(ModelError::protocol("the answer is not an object"));
    };
    let stop = answer.get("stop_reason").and_then(Value::as_str).map(str::to_owned);
    let items = match answer.remove("content") {
        Some(Value::Array(items)) => items,
        // No output, but a stop reason.
        Some(Value::Null) if stop.is_some() => Vec::new(),
        _ => return Err(ModelError::protocol("the answer has no content")),
    };
    let usage = answer.remove("usage").unwrap_or_default();
    let items = items.into_iter().filter_map(|item| if let Value::Object(item) = item { Some(item) } else { None });
    let mut content: Vec<Block> = items.map(block).collect();
    if stop_reason(stop.as_deref()) == StopReason::MaxTokens {
        mark_cut(&mut content);
    }
    Ok(decoded(origin.clone(), string(&answer, "id"), content, usage, stop))
}

fn decoded(origin: Origin, id: String, content: Vec<Block>, reported: Value, stop: Option<String>) -> Decoded {
    let reason = stop_reason(stop.as_deref());
    Decoded::new(id, origin, content, usage(&reported), reason, stop, reported)
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

/// `input_tokens` excludes cached tokens; ours counts all prompt tokens.
fn usage(reported: &Value) -> Usage {
    let count = |key: &str| reported.get(key).and_then(Value::as_u64).unwrap_or_default();
    let (read, write) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
    Usage {
        input: count("input_tokens").saturating_add(read).saturating_add(write),
        output: count("output_tokens"),
        cache_read: read,
        cache_write: write,
        reasoning: 0,
    }
}

/// Accumulates a streamed response. Blocks keep the order in which they started.
#[derive(Default)]
pub(super) struct MessageDecoder {
    origin: Origin,
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
    pub(super) fn new(origin: Origin) -> Self {
        Self { origin, ..Self::default() }
    }

    fn start(&mut self, event: &mut Map<String, Value>) {
        self.started = true;
        if let Some(Value::Object(message)) = event.get_mut("message") {
            self.id = string(message, "id");
            self.merge_usage(message.remove("usage"));
        }
    }

    /// Later counts replace earlier ones; missing or null counts are ignored.
    fn merge_usage(&mut self, usage: Option<Value>) {
        if let Some(Value::Object(usage)) = usage {
            self.usage.extend(usage.into_iter().filter(|(_, value)| !value.is_null()));
        }
    }

    fn block_start(&mut self, index: u64, event: &mut Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let Some(Value::Object(item)) = event.remove("content_block") else { return };
        let at = self.blocks.len();
        match item.get("type").and_then(Value::as_str) {
            Some("tool_use") => {
                out.push(ModelEvent::ToolCall { block: at, id: string(&item, "id"), name: string(&item, "name") });
            }
            Some("text") => push_delta(&item, "text", out, |delta| ModelEvent::Text { block: at, delta }),
            Some("thinking") => push_delta(&item, "thinking", out, |delta| ModelEvent::Reasoning { block: at, delta }),
            _ => {}
        }
        self.blocks.push(Part { index, item, json: String::new(), open: true });
    }

    fn block_delta(&mut self, index: u64, event: &mut Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let Some(Value::Object(mut delta)) = event.remove("delta") else { return };
        let Some((at, part)) = self.blocks.iter_mut().enumerate().rfind(|(_, part)| part.index == index) else {
            return;
        };
        let kind = string(&delta, "type");
        match kind.as_str() {
            "text_delta" => push_delta(&delta, "text", out, |delta| ModelEvent::Text { block: at, delta }),
            "thinking_delta" => {
                push_delta(&delta, "thinking", out, |delta| ModelEvent::Reasoning { block: at, delta });
            }
            "input_json_delta" => {
                if let Some(Value::String(json)) = delta.remove("partial_json") {
                    part.json.push_str(&json);
                    if part.item.get("type").is_some_and(|kind| kind == "tool_use") {
                        out.push(ModelEvent::ToolArgs { block: at, delta: json });
                    }
                }
                return;
            }
            "citations_delta" => {
                if let Some(citation) = delta.remove("citation") {
                    delta.insert("citations".to_owned(), Value::Array(vec![citation]));
                }
            }
            _ => {}
        }
        delta.remove("type");
        for (key, value) in delta {
            merge_delta(part.item.entry(key).or_insert(Value::Null), value);
        }
    }

    fn message_delta(&mut self, event: &mut Map<String, Value>) {
        if let Some(stop) = event.get("delta").and_then(|delta| delta.get("stop_reason")).and_then(Value::as_str) {
            self.stop = Some(stop.to_owned());
        }
        self.merge_usage(event.remove("usage"));
    }
}

fn push_delta(item: &Map<String, Value>, key: &str, out: &mut Vec<ModelEvent>, event: impl Fn(String) -> ModelEvent) {
    if let Some(text) = item.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()) {
        out.push(event(text.to_owned()));
    }
}

impl AnswerDecoder for MessageDecoder {
    fn event(&mut self, _name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        // Some gateways end the stream with `[DONE]`, as in another wire.
        if data.is_empty() || data == "[DONE]" {
            return Ok(Flow::More);
        }
        let mut event = parse_json("an event of the answer", data.as_bytes())?;
        exact::keep(&mut event, data.as_bytes(), &["content_block", "input"]);
        let Value::Object(mut event) = event else { return Ok(Flow::More) };
        let index = event.get("index").and_then(Value::as_u64).unwrap_or_default();
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_start" => self.start(&mut event),
            "content_block_start" => self.block_start(index, &mut event, out),
            "content_block_delta" => self.block_delta(index, &mut event, out),
            "content_block_stop" => {
                if let Some(part) = self.blocks.iter_mut().rfind(|part| part.index == index) {
                    part.open = false;
                }
            }
            "message_delta" => self.message_delta(&mut event),
            "message_stop" => {
                self.ended = true;
                return Ok(Flow::Complete);
            }
            "error" => return Err(from_stream(&Value::Object(event))),
            // `ping`, and future event types.
            _ if event.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(from_stream(&Value::Object(event)));
            }
            _ => {}
        }
        Ok(Flow::More)
    }

    fn finish(&mut self) -> Result<Decoded, ModelError> {
        // With a stop reason and no open block, the response is complete even if the last frame is missing.
        let complete = self.ended || (self.stop.is_some() && self.blocks.iter().all(|part| !part.open));
        if !self.started || !complete {
            return Err(ModelError::truncated("the stream ended before the answer did"));
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
        Ok(decoded(std::mem::take(&mut self.origin), std::mem::take(&mut self.id), content, usage, self.stop.take()))
    }
}
