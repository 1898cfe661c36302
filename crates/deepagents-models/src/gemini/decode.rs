//! Decodes responses of Gemini's API, complete and streamed. A complete response is decoded as one large piece.

use deepagents_core::message::Block;
use deepagents_core::model::{ModelError, ModelEvent, StopReason};
use serde_json::{Map, Value};

use super::parts::{SIGNATURE, asides, blocks, has_item_beside};
use crate::args::InvalidArgs;
use crate::blocks::{call, generated_id, has_calls};
use crate::decoded::{Decoded, google_usage};
use crate::exact;
use crate::http::{AnswerDecoder, Flow, cut_short, from_stream};
use crate::json::{self, is_given, objects, text};

/// Path of the call arguments in a response or one of its chunks.
const ARGS: [&str; 5] = ["candidates", "content", "parts", "functionCall", "args"];

/// Accumulates a response.
#[derive(Default)]
pub(super) struct ContentDecoder {
    id: String,
    parts: Vec<Map<String, Value>>,
    /// Number of blocks that the parts become beyond one each.
    more_blocks: usize,
    /// Fields of the candidate other than its content; later ones replace earlier ones.
    candidate: Map<String, Value>,
    /// Reason the prompt was blocked, if it was.
    blocked: Option<String>,
    usage: Map<String, Value>,
    started: bool,
    ended: bool,
}

impl ContentDecoder {
    /// Processes a piece. Some gateways send several as a list.
    fn pieces(&mut self, piece: Value, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match piece {
            Value::Array(pieces) => pieces.into_iter().try_for_each(|piece| self.piece(piece, out)),
            piece => self.piece(piece, out),
        }
    }

    fn piece(&mut self, piece: Value, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let Value::Object(mut piece) = piece else {
            return Err(ModelError::protocol("a piece of the answer is not an object"));
        };
        if is_given(piece.get("error")) {
            return Err(from_stream(&Value::Object(piece)));
        }
        self.started |= ["candidates", "promptFeedback", "usageMetadata"].iter().any(|key| piece.contains_key(*key));
        if let Some(id) = piece.get("responseId").and_then(Value::as_str).filter(|_| self.id.is_empty()) {
            id.clone_into(&mut self.id);
        }
        if let Some(Value::Object(usage)) = piece.remove("usageMetadata") {
            self.usage.extend(usage);
        }
        let reason = piece.get("promptFeedback").and_then(|feedback| feedback.get("blockReason"));
        if let Some(reason) = reason.and_then(Value::as_str) {
            self.blocked = Some(reason.to_owned());
        }
        let Some(candidates) = piece.get_mut("candidates").and_then(Value::as_array_mut) else { return Ok(()) };
        // One candidate is requested; there are more only if an extra field asks for them.
        let first = candidates.iter_mut().find(|c| c.get("index").and_then(Value::as_u64).unwrap_or_default() == 0);
        let Some(Value::Object(candidate)) = first else { return Ok(()) };
        let mut candidate = std::mem::take(candidate);
        if let Some(Value::Object(mut content)) = candidate.remove("content")
            && let Some(Value::Array(parts)) = content.remove("parts")
        {
            objects(parts).for_each(|part| self.part(part, out));
        }
        self.candidate.extend(candidate);
        Ok(())
    }

    fn part(&mut self, part: Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let words = part.get("text").and_then(Value::as_str);
        if words == Some("") && !part.contains_key(SIGNATURE) {
            return;
        }
        // A piece of text is appended to the previous one; a part with a signature remains separate.
        let joins = |last: &Map<String, Value>| {
            last.contains_key("text")
                && !last.contains_key(SIGNATURE)
                && !part.contains_key(SIGNATURE)
                && last.get("thought") == part.get("thought")
        };
        let joins = words.is_some() && self.parts.last().is_some_and(joins);
        let at = if joins { self.parts.len() - 1 } else { self.parts.len() };
        let block = at + self.more_blocks;
        if let Some(words) = words.filter(|words| !words.is_empty()) {
            let delta = words.to_owned();
            out.push(match part.get("thought") {
                Some(Value::Bool(true)) => ModelEvent::Reasoning { block, delta },
                _ => ModelEvent::Text { block, delta },
            });
        }
        if let Some(call) = part.get("functionCall") {
            let [id, name] = ["id", "name"].map(|key| text(call.get(key)).to_owned());
            let id = if id.is_empty() { generated_id(&self.id, at) } else { id };
            out.push(ModelEvent::ToolCall { block, id, name });
            let delta = call.get("args").filter(|args| !args.is_null()).map_or_else(|| "{}".into(), exact::text);
            out.push(ModelEvent::ToolArgs { block, delta });
        }
        match self.parts.last_mut().filter(|_| joins) {
            Some(last) => {
                if let (Some(Value::String(text)), Some(Value::String(more))) = (last.get_mut("text"), part.get("text"))
                {
                    text.push_str(more);
                }
            }
            None => {
                self.more_blocks += usize::from(has_item_beside(&part));
                self.parts.push(part);
            }
        }
    }
}

fn stop_reason(word: Option<&str>, calls: bool) -> StopReason {
    match word {
        Some("STOP") | None if calls => StopReason::ToolCalls,
        Some("STOP") | None => StopReason::End,
        Some("MAX_TOKENS") => StopReason::MaxTokens,
        Some(
            "SAFETY"
            | "RECITATION"
            | "LANGUAGE"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
            | "OTHER"
            | "MODEL_ARMOR",
        ) => StopReason::Refusal,
        Some("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL") if calls => StopReason::ToolCalls,
        Some(other) => StopReason::Other(other.to_owned()),
    }
}

/// Fields of a report with the tokens of the input, the tools, the cached input, the output and the thoughts.
const USAGE: [&str; 5] = [
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
];

impl AnswerDecoder for ContentDecoder {
    fn whole(&mut self, body: &[u8]) -> Result<Decoded, ModelError> {
        self.pieces(json::parse_answer(body, &ARGS)?, &mut Vec::new())?;
        if !self.started {
            return Err(ModelError::protocol("the answer has no candidates"));
        }
        self.ended = true;
        self.finish()
    }

    fn event(&mut self, _name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        if !data.trim().is_empty() && data != "[DONE]" {
            let mut piece = json::parse("a piece of the answer", data.as_bytes())?;
            exact::keep(&mut piece, data.as_bytes(), &ARGS);
            self.pieces(piece, out)?;
        }
        // There is no end frame, and pieces may follow the one with the finish reason.
        Ok(Flow::More)
    }

    fn finish(&mut self) -> Result<Decoded, ModelError> {
        let word = self.candidate.get("finishReason").and_then(Value::as_str).map(str::to_owned);
        if !self.started || (word.is_none() && self.blocked.is_none() && !self.ended) {
            return Err(cut_short());
        }
        if word.as_deref() == Some("MALFORMED_RESPONSE") {
            return Err(ModelError::Overloaded(
                "the provider could not read its model's answer (MALFORMED_RESPONSE)".into(),
            ));
        }
        let parts = std::mem::take(&mut self.parts);
        let mut content: Vec<Block> = Vec::with_capacity(parts.len());
        for (at, part) in parts.into_iter().enumerate() {
            content.extend(blocks(part, || generated_id(&self.id, at)));
        }
        if let Some(word @ ("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL")) = word.as_deref() {
            // The model is told about it as about any call that cannot be parsed.
            let raw = text(self.candidate.get("finishMessage")).to_owned();
            let error = format!("the provider could not read the call ({word})");
            content.push(call(
                generated_id(&self.id, content.len()),
                String::new(),
                Err(InvalidArgs { raw, error }),
                None,
            ));
        }
        let stop = match (&self.blocked, word.as_deref()) {
            (Some(_), None) => StopReason::Refusal,
            (None, None) if content.is_empty() => StopReason::Other("no candidates".to_owned()),
            (_, word) => stop_reason(word, has_calls(&content)),
        };
        content.extend(asides(&self.candidate));
        let reported = Value::Object(std::mem::take(&mut self.usage));
        let word = word.or_else(|| self.blocked.take());
        Ok(Decoded::new(
            std::mem::take(&mut self.id),
            content,
            (stop, word),
            (google_usage(&reported, USAGE), reported),
        ))
    }
}
