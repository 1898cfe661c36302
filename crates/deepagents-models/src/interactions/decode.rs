//! Decodes responses of the Interactions API, complete and streamed.

use deepagents_core::message::{Block, Origin, Usage};
use deepagents_core::model::{ModelError, ModelEvent, StopReason};
use serde_json::{Map, Value, json};

use super::steps::{block, text};
use crate::decoded::Decoded;
use crate::http::{AnswerDecoder, Flow, from_stream, merge_delta, parse_answer, parse_json};
use crate::{args, exact};

/// Decodes a complete response.
pub(super) fn whole(origin: &Origin, body: &[u8]) -> Result<Decoded, ModelError> {
    let mut answer = parse_answer(body)?;
    exact::keep(&mut answer, body, &["steps", "arguments"]);
    let Value::Object(interaction) = answer else {
        return Err(ModelError::protocol("the answer is not an object"));
    };
    let mut decoder = InteractionDecoder::new(origin.clone());
    decoder.end(interaction)?;
    decoder.finish()
}

/// A step being received.
struct Part {
    index: u64,
    step: Map<String, Value>,
    /// Arguments of a call, which arrive as pieces of JSON.
    json: String,
}

/// Accumulates a streamed response. Steps keep the order in which they started.
pub(super) struct InteractionDecoder {
    origin: Origin,
    parts: Vec<Part>,
    /// The interaction without its steps, once its end has arrived.
    interaction: Option<Map<String, Value>>,
}

impl InteractionDecoder {
    pub(super) fn new(origin: Origin) -> Self {
        Self { origin, parts: Vec::new(), interaction: None }
    }

    fn start(&mut self, index: u64, step: Map<String, Value>, out: &mut Vec<ModelEvent>) {
        if text(&step, "type") == "function_call" {
            let (id, name) = (text(&step, "id").to_owned(), text(&step, "name").to_owned());
            out.push(ModelEvent::ToolCall { block: self.parts.len(), id, name });
        }
        self.parts.push(Part { index, step, json: String::new() });
    }

    fn delta(&mut self, index: u64, mut delta: Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let Some((block, part)) = self.parts.iter_mut().enumerate().rfind(|(_, part)| part.index == index) else {
            return;
        };
        let kind = text(&delta, "type").to_owned();
        match kind.as_str() {
            "arguments_delta" => {
                let delta = text(&delta, "arguments").to_owned();
                part.json.push_str(&delta);
                out.push(ModelEvent::ToolArgs { block, delta });
            }
            "text" => {
                let delta = text(&delta, "text").to_owned();
                push_text(part.step.entry("content").or_insert_with(|| json!([])), &delta);
                out.push(ModelEvent::Text { block, delta });
            }
            "thought_summary" => {
                let told = delta.get("content").and_then(|content| content.get("text")).and_then(Value::as_str);
                let delta = told.unwrap_or_default().to_owned();
                push_text(part.step.entry("summary").or_insert_with(|| json!([])), &delta);
                out.push(ModelEvent::Reasoning { block, delta });
            }
            _ if delta.contains_key("data") || delta.contains_key("uri") => {
                if let Value::Array(content) = part.step.entry("content").or_insert_with(|| json!([])) {
                    content.push(Value::Object(delta));
                }
            }
            // A signature, or fields of a provider's own step.
            _ => {
                delta.remove("type");
                for (key, value) in delta {
                    merge_delta(part.step.entry(key).or_insert(Value::Null), value);
                }
            }
        }
    }

    /// Processes the complete interaction, which comes last. In a stream, its steps were sent before.
    fn end(&mut self, mut interaction: Map<String, Value>) -> Result<(), ModelError> {
        if interaction.get("error").is_some_and(|error| !error.is_null()) {
            return Err(from_stream(&Value::Object(interaction)));
        }
        match text(&interaction, "status") {
            "completed" | "requires_action" | "incomplete" | "" => {}
            other => return Err(ModelError::protocol(format!("the answer is not finished: its status is `{other}`"))),
        }
        let steps = interaction.remove("steps");
        match steps {
            Some(Value::Array(steps)) if self.parts.is_empty() => {
                for (index, step) in (0..).zip(steps) {
                    if let Value::Object(step) = step {
                        self.start(index, step, &mut Vec::new());
                    }
                }
            }
            None if self.parts.is_empty() && !interaction.contains_key("usage") => {
                return Err(ModelError::protocol("the answer has no steps"));
            }
            _ => {}
        }
        self.interaction = Some(interaction);
        Ok(())
    }
}

/// Appends to the last text of a list.
fn push_text(list: &mut Value, more: &str) {
    let Value::Array(list) = list else { return };
    match list.last_mut().and_then(|last| last.get_mut("text")) {
        Some(Value::String(text)) => text.push_str(more),
        _ => list.push(json!({"text": more, "type": "text"})),
    }
}

fn usage(reported: &Value) -> Usage {
    let count = |key: &str| reported.get(key).and_then(Value::as_u64).unwrap_or_default();
    let thoughts = count("total_thought_tokens");
    Usage {
        input: count("total_input_tokens").saturating_add(count("total_tool_use_tokens")),
        output: count("total_output_tokens").saturating_add(thoughts),
        cache_read: count("total_cached_tokens"),
        cache_write: 0,
        reasoning: thoughts,
    }
}

impl AnswerDecoder for InteractionDecoder {
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        if data.is_empty() || data == "[DONE]" {
            return Ok(Flow::More);
        }
        let mut event = parse_json("an event of the answer", data.as_bytes())?;
        exact::keep(&mut event, data.as_bytes(), &["step", "arguments"]);
        let Value::Object(mut event) = event else { return Ok(Flow::More) };
        let kind = Some(text(&event, "event_type")).filter(|kind| !kind.is_empty()).unwrap_or(name).to_owned();
        let index = event.get("index").and_then(Value::as_u64).unwrap_or_default();
        match kind.as_str() {
            "step.start" => {
                if let Some(Value::Object(step)) = event.remove("step") {
                    self.start(index, step, out);
                }
            }
            "step.delta" => {
                if let Some(Value::Object(delta)) = event.remove("delta") {
                    self.delta(index, delta, out);
                }
            }
            "interaction.completed" => {
                if let Some(Value::Object(interaction)) = event.remove("interaction") {
                    self.end(interaction)?;
                }
                return Ok(Flow::Complete);
            }
            _ if event.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(from_stream(&Value::Object(event)));
            }
            // The end of a step, and future event types.
            _ => {}
        }
        Ok(Flow::More)
    }

    fn finish(&mut self) -> Result<Decoded, ModelError> {
        let Some(mut interaction) = self.interaction.take() else {
            return Err(ModelError::truncated("the stream ended before the answer did"));
        };
        let finished = |mut part: Part| {
            if !part.json.is_empty() {
                let args = match args::parse(&part.json) {
                    Ok(args) => exact::kept(&part.json, &args).0,
                    Err(_) => Value::String(part.json),
                };
                part.step.insert("arguments".to_owned(), args);
            }
            block(part.step)
        };
        let content: Vec<Block> = std::mem::take(&mut self.parts).into_iter().map(finished).collect();
        let calls = content.iter().any(|block| matches!(block, Block::ToolCall(_) | Block::InvalidToolCall(_)));
        let word = text(&interaction, "status").to_owned();
        let stop = match word.as_str() {
            "incomplete" => StopReason::MaxTokens,
            _ if calls => StopReason::ToolCalls,
            _ => StopReason::End,
        };
        let reported = interaction.remove("usage").unwrap_or_default();
        let id = text(&interaction, "id").to_owned();
        Ok(Decoded::new(id, self.origin.clone(), content, usage(&reported), stop, Some(word), reported))
    }
}
