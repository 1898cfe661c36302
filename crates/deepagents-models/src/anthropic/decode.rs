//! Decodes responses of the Messages API, complete and streamed.

use deepagents_core::message::Block;
use deepagents_core::model::{ModelError, ModelEvent, StopReason};
use serde_json::{Map, Value};

use super::blocks::{block, block_with_json, mark_cut};
use crate::decoded::{Decoded, usage_without_cache};
use crate::http::{AnswerDecoder, Flow, cut_short, from_stream};
use crate::json::{merge_fields, objects, parse_event, parse_object, text};

fn decoded(id: String, content: Vec<Block>, stop: Option<String>, reported: Value) -> Decoded {
    let reason = stop_reason(stop.as_deref());
    Decoded::new(id, content, (reason, stop), (usage_without_cache(&reported, USAGE), reported))
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
    fn start(&mut self, event: &mut Map<String, Value>) {
        self.started = true;
        if let Some(Value::Object(message)) = event.get_mut("message") {
            text(message.get("id")).clone_into(&mut self.id);
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

    fn block_delta(&mut self, index: u64, event: &mut Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let Some(Value::Object(mut delta)) = event.remove("delta") else { return };
        let Some((block, part)) = self.blocks.iter_mut().enumerate().rfind(|(_, part)| part.index == index) else {
            return;
        };
        match text(delta.get("type")) {
            "text_delta" => push_text(block, text(delta.get("text")).to_owned(), out),
            "thinking_delta" => push_thought(block, text(delta.get("thinking")).to_owned(), out),
            "input_json_delta" => {
                if let Some(Value::String(delta)) = delta.remove("partial_json") {
                    part.json.push_str(&delta);
                    if part.item.get("type").is_some_and(|kind| kind == "tool_use") {
                        out.push(ModelEvent::ToolArgs { block, delta });
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
        merge_fields(&mut part.item, delta);
    }

    fn message_delta(&mut self, event: &mut Map<String, Value>) {
        if let Some(stop) = event.get("delta").and_then(|delta| delta.get("stop_reason")).and_then(Value::as_str) {
            self.stop = Some(stop.to_owned());
        }
        self.merge_usage(event.remove("usage"));
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
        let Some(mut event) = parse_event(data, &["content_block", "input"])? else { return Ok(Flow::More) };
        let index = event.get("index").and_then(Value::as_u64).unwrap_or_default();
        match text(event.get("type")) {
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
