//! Decodes responses of the Responses API, complete and streamed.

use deepagents_core::message::Block;
use deepagents_core::model::{ModelError, ModelEvent, StopReason};
use serde_json::{Map, Value};

use super::items::{Kind, block, is_refusal, name_of, text};
use super::part::{Part, is_same, may_be};
use crate::decoded::{Decoded, openai_usage};
use crate::http::{AnswerDecoder, Flow, cut_short, from_stream};
use crate::json::{is_given, objects, parse_event, parse_object};

/// Number of items that may start before one with a lower index.
const MAX_ITEMS_AHEAD: usize = 64;

/// Accumulates a response. Items keep the order in which they started.
#[derive(Default)]
pub(super) struct ResponseDecoder {
    parts: Vec<Part>,
    /// The response without its output, once its end has arrived.
    response: Option<Map<String, Value>>,
}

impl ResponseDecoder {
    /// Processes the start or end of the item at a position.
    fn item(&mut self, index: u64, item: Map<String, Value>, done: bool, out: &mut Vec<ModelEvent>) {
        let known = self.parts.iter().position(|part| is_same(&part.item, &item));
        // Some services give all items the same index, others change an item's ID at its end.
        let is_open = |part: &Part| part.index == index && !part.done && may_be(&part.item, &item);
        let known = known.or_else(|| self.parts.iter().position(is_open).filter(|_| done));
        if let Some(part) = known.and_then(|at| self.parts.get_mut(at)) {
            part.done |= done;
            part.item = item;
            return;
        }
        let block = self.block(index);
        if matches!(Kind::new(&item), Kind::Call | Kind::Unmade) {
            let (id, name) = name_of(&item);
            out.push(ModelEvent::ToolCall { block, id, name });
        }
        self.parts.push(Part::new(index, block, item, done));
    }

    /// Returns the number of the block of a new item: its index, because items may start in another order than that of
    /// the answer; for an index that cannot be one, the number of items before it, as in [`number`](Self::number).
    fn block(&self, index: u64) -> usize {
        let is_taken = |block| self.parts.iter().any(|part| part.block == block);
        let is_in_reach = |block: &usize| *block <= self.parts.len() + MAX_ITEMS_AHEAD;
        let given = usize::try_from(index).ok().filter(is_in_reach);
        let usual = given.unwrap_or(self.parts.len());
        (usual..).find(|block| !is_taken(*block)).unwrap_or(usual)
    }

    /// Reports a piece of an item; the item itself arrives complete at its end.
    fn delta(&mut self, kind: &str, event: &Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let index = event.get("output_index").and_then(Value::as_u64).unwrap_or_default();
        let id = text(event, "item_id");
        let named = self.parts.iter().position(|part| !id.is_empty() && text(&part.item, "id") == id);
        let known = named.or_else(|| self.parts.iter().rposition(|part| part.index == index));
        let Some(part) = known.and_then(|at| self.parts.get_mut(at)) else { return };
        let block = part.block;
        let mut delta = text(event, "delta").to_owned();
        part.add(kind, event);
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => out.push(ModelEvent::Text { block, delta }),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let section = event.get("summary_index").and_then(Value::as_u64).unwrap_or_default();
                if section > part.sections {
                    part.sections = section;
                    delta.insert_str(0, "\n\n");
                }
                out.push(ModelEvent::Reasoning { block, delta });
            }
            "response.function_call_arguments.delta" => out.push(ModelEvent::ToolArgs { block, delta }),
            _ => {}
        }
    }

    /// Numbers the items in the order in which they started, if the service reused an index.
    fn number(&mut self) {
        let mut indices: Vec<u64> = self.parts.iter().map(|part| part.index).collect();
        indices.sort_unstable();
        if indices.windows(2).any(|two| matches!(two, [one, two] if one == two)) {
            (0..).zip(&mut self.parts).for_each(|(index, part)| part.index = index);
        }
    }

    /// Processes the complete response, which comes last.
    fn end(&mut self, mut response: Map<String, Value>) -> Result<(), ModelError> {
        match response.get("status").and_then(Value::as_str) {
            Some("completed" | "incomplete") | None => {}
            Some("failed") => return Err(failure(response)),
            Some(other) => {
                return Err(ModelError::protocol(format!("the answer is not finished: its status is `{other}`")));
            }
        }
        if is_given(response.get("error")) {
            return Err(failure(response));
        }
        if let Some(Value::Array(output)) = response.remove("output") {
            self.number();
            let output: Vec<Map<String, Value>> = objects(output).collect();
            for (index, item) in (0..).zip(&output) {
                // Keep items that were received completely: some services omit items here, or parts of them.
                let is_another = |part: &Part| output.iter().any(|other| is_same(&part.item, other));
                let is_here = |part: &Part| part.index == index && may_be(&part.item, item) && !is_another(part);
                if !self.parts.iter().any(|part| part.done && (is_same(&part.item, item) || is_here(part))) {
                    self.item(index, item.clone(), true, &mut Vec::new());
                }
            }
        }
        self.response = Some(response);
        Ok(())
    }
}

fn failure(mut response: Map<String, Value>) -> ModelError {
    let error = response.remove("error").unwrap_or_default();
    from_stream(&Value::Object(Map::from_iter([("error".to_owned(), error)])))
}

fn stop_reason(response: &Map<String, Value>, parts: &[Part]) -> (StopReason, String) {
    let reason = response.get("incomplete_details").and_then(|details| details.get("reason")).and_then(Value::as_str);
    let word = reason.unwrap_or_else(|| text(response, "status")).to_owned();
    let stop = match reason {
        Some("max_output_tokens" | "max_tokens" | "length") => StopReason::MaxTokens,
        Some("content_filter") => StopReason::Refusal,
        Some(other) => StopReason::Other(other.to_owned()),
        None if word == "incomplete" => StopReason::Other(word.clone()),
        None if parts.iter().any(|part| matches!(Kind::new(&part.item), Kind::Call | Kind::Unmade)) => {
            StopReason::ToolCalls
        }
        None if parts.iter().any(|part| is_refusal(&part.item)) => StopReason::Refusal,
        None => StopReason::End,
    };
    (stop, word)
}

impl AnswerDecoder for ResponseDecoder {
    fn whole(&mut self, body: &[u8]) -> Result<Decoded, ModelError> {
        let response = parse_object(body, &[])?;
        if !response.contains_key("output") && !response.contains_key("error") {
            return Err(ModelError::protocol("the answer has no output"));
        }
        self.end(response)?;
        self.finish()
    }

    fn event(&mut self, name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        let Some(mut event) = parse_event(data, &[])? else { return Ok(Flow::More) };
        let kind = match text(&event, "type") {
            "" => name.to_owned(),
            kind => kind.to_owned(),
        };
        match kind.as_str() {
            "response.output_item.added" | "response.output_item.done" => {
                // Services without indices send one item after the other.
                let open = self.parts.iter().rposition(|part| !part.done).filter(|_| kind.ends_with("done"));
                let next = open.unwrap_or(self.parts.len()) as u64;
                let index = event.get("output_index").and_then(Value::as_u64).unwrap_or(next);
                if let Some(Value::Object(item)) = event.remove("item") {
                    self.item(index, item, kind.ends_with("done"), out);
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                if let Some(Value::Object(mut response)) = event.remove("response") {
                    let status = kind.strip_prefix("response.").unwrap_or_default();
                    response.entry("status").or_insert_with(|| status.into());
                    self.end(response)?;
                }
                return Ok(Flow::Complete);
            }
            "error" => return Err(from_stream(&Value::Object(event))),
            // Also repeated complete parts, progress of server tools, and future event types.
            kind => self.delta(kind, &event, out),
        }
        Ok(Flow::More)
    }

    fn finish(&mut self) -> Result<Decoded, ModelError> {
        let Some(mut response) = self.response.take() else {
            return Err(cut_short());
        };
        let mut parts = std::mem::take(&mut self.parts);
        parts.sort_by_key(|part| part.index);
        let (stop, word) = stop_reason(&response, &parts);
        let was_cut = stop == StopReason::MaxTokens;
        let content: Vec<Block> = parts.into_iter().map(|part| block(part.whole(), was_cut)).collect();
        let reported = response.remove("usage").unwrap_or_default();
        let id = text(&response, "id").to_owned();
        let usage = openai_usage(&reported, ["input_tokens", "output_tokens"]);
        Ok(Decoded::new(id, content, (stop, Some(word)), (usage, reported)))
    }
}
