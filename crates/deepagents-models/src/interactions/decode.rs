//! Decodes responses of the Interactions API, complete and streamed.

use deepagents_core::message::Block;
use deepagents_core::model::{ModelError, ModelEvent, StopReason};
use serde_json::{Map, Value, json};

use super::steps::block;
use crate::blocks::has_calls;
use crate::decoded::{Decoded, google_usage};
use crate::http::{AnswerDecoder, Flow, cut_short, from_stream};
use crate::json::{is_given, merge_fields, objects, parse_event, parse_object, text};
use crate::{args, exact};

/// A step being received.
struct Part {
    index: u64,
    step: Map<String, Value>,
    /// Arguments of a call, which arrive as pieces of JSON.
    json: String,
}

/// Accumulates a streamed response. Steps keep the order in which they started.
#[derive(Default)]
pub(super) struct InteractionDecoder {
    parts: Vec<Part>,
    /// The interaction without its steps, once its end has arrived.
    interaction: Option<Map<String, Value>>,
}

impl InteractionDecoder {
    fn start(&mut self, index: u64, step: Map<String, Value>, out: &mut Vec<ModelEvent>) {
        if text(step.get("type")) == "function_call" {
            let [id, name] = ["id", "name"].map(|key| text(step.get(key)).to_owned());
            out.push(ModelEvent::ToolCall { block: self.parts.len(), id, name });
        }
        self.parts.push(Part { index, step, json: String::new() });
    }

    fn delta(&mut self, index: u64, mut delta: Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let Some((block, part)) = self.parts.iter_mut().enumerate().rfind(|(_, part)| part.index == index) else {
            return;
        };
        match text(delta.get("type")) {
            "arguments_delta" => {
                let delta = text(delta.get("arguments")).to_owned();
                part.json.push_str(&delta);
                out.push(ModelEvent::ToolArgs { block, delta });
            }
            "text" => {
                let delta = text(delta.get("text")).to_owned();
                push_text(part.step.entry("content").or_insert_with(|| json!([])), &delta);
                out.push(ModelEvent::Text { block, delta });
            }
            "thought_summary" => {
                let delta = text(delta.get("content").and_then(|content| content.get("text"))).to_owned();
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
                merge_fields(&mut part.step, delta);
            }
        }
    }

    /// Processes the complete interaction, which comes last. In a stream, its steps were sent before.
    fn end(&mut self, mut interaction: Map<String, Value>) -> Result<(), ModelError> {
        if is_given(interaction.get("error")) {
            return Err(from_stream(&Value::Object(interaction)));
        }
        match text(interaction.get("status")) {
            "completed" | "requires_action" | "incomplete" | "" => {}
            other => return Err(ModelError::protocol(format!("the answer is not finished: its status is `{other}`"))),
        }
        match interaction.remove("steps") {
            Some(Value::Array(steps)) if self.parts.is_empty() => {
                (0..).zip(objects(steps)).for_each(|(index, step)| self.start(index, step, &mut Vec::new()));
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

/// Fields of a report with the tokens of the input, the tools, the cached input, the output and the thoughts.
const USAGE: [&str; 5] = [
    "total_input_tokens",
    "total_tool_use_tokens",
    "total_cached_tokens",
    "total_output_tokens",
    "total_thought_tokens",
];

impl AnswerDecoder for InteractionDecoder {
    fn whole(&mut self, body: &[u8]) -> Result<Decoded, ModelError> {
        self.end(parse_object(body, &["steps", "arguments"])?)?;
        self.finish()
    }

    fn event(&mut self, name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        let Some(mut event) = parse_event(data, &["step", "arguments"])? else { return Ok(Flow::More) };
        let kind = Some(text(event.get("event_type"))).filter(|kind| !kind.is_empty()).unwrap_or(name).to_owned();
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
            // The end of a step, and future event types.
            _ => {}
        }
        Ok(Flow::More)
    }

    fn finish(&mut self) -> Result<Decoded, ModelError> {
        let Some(mut interaction) = self.interaction.take() else {
            return Err(cut_short());
        };
        let finished = |mut part: Part| {
            if !part.json.is_empty() {
                let args = match args::parse(&part.json) {
                    Ok(args) => exact::verbatim(&part.json, &args).unwrap_or(args),
                    Err(_) => Value::String(part.json),
                };
                part.step.insert("arguments".to_owned(), args);
            }
            block(part.step)
        };
        let content: Vec<Block> = std::mem::take(&mut self.parts).into_iter().map(finished).collect();
        let word = text(interaction.get("status")).to_owned();
        let stop = match word.as_str() {
            "incomplete" => StopReason::MaxTokens,
            _ if has_calls(&content) => StopReason::ToolCalls,
            _ => StopReason::End,
        };
        let reported = interaction.remove("usage").unwrap_or_default();
        let id = text(interaction.get("id")).to_owned();
        Ok(Decoded::new(id, content, (stop, Some(word)), (google_usage(&reported, USAGE), reported)))
    }
}
