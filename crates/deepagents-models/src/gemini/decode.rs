//! Decodes responses of Gemini's API, complete and streamed. A complete response is decoded as one large piece.

use deepagents_core::message::{Block, InvalidToolCall, Origin, Usage};
use deepagents_core::model::{ModelError, ModelEvent, StopReason};
use serde_json::{Map, Value};

use super::parts::{SIGNATURE, asides, blocks};
use crate::decoded::Decoded;
use crate::exact;
use crate::http::{AnswerDecoder, Flow, from_stream, parse_answer, parse_json};

/// Path of the call arguments in a response or one of its chunks.
const ARGS: [&str; 5] = ["candidates", "content", "parts", "functionCall", "args"];

/// Decodes a complete response. Some gateways send a stream as a list.
pub(super) fn whole(origin: &Origin, body: &[u8]) -> Result<Decoded, ModelError> {
    let mut answer = parse_answer(body)?;
    exact::keep(&mut answer, body, &ARGS);
    let pieces = match answer {
        Value::Array(pieces) => pieces,
        piece => vec![piece],
    };
    let mut answer = ContentDecoder::new(origin.clone());
    for piece in pieces {
        answer.piece(piece, &mut Vec::new())?;
    }
    answer.ended = true;
    answer.finish()
}

/// Accumulates a streamed response.
pub(super) struct ContentDecoder {
    origin: Origin,
    id: String,
    parts: Vec<Map<String, Value>>,
    /// Fields of the candidate other than its content; later ones replace earlier ones.
    candidate: Map<String, Value>,
    /// Reason the prompt was blocked, if it was.
    blocked: Option<String>,
    usage: Map<String, Value>,
    started: bool,
    ended: bool,
}

impl ContentDecoder {
    pub(super) fn new(origin: Origin) -> Self {
        Self {
            origin,
            id: String::new(),
            parts: Vec::new(),
            candidate: Map::new(),
            blocked: None,
            usage: Map::new(),
            started: false,
            ended: false,
        }
    }

    fn piece(&mut self, piece: Value, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let Value::Object(mut piece) = piece else {
            return Err(ModelError::protocol("a piece of the answer is not an object"));
        };
        if piece.get("error").is_some_and(|error| !error.is_null()) {
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
            for part in parts {
                if let Value::Object(part) = part {
                    self.part(part, out);
                }
            }
        }
        self.candidate.extend(candidate);
        Ok(())
    }

    fn part(&mut self, part: Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let text = part.get("text").and_then(Value::as_str);
        if text == Some("") && !part.contains_key(SIGNATURE) {
            return;
        }
        // A piece of text is appended to the previous one; a part with a signature remains separate.
        let joins = |last: &Map<String, Value>| {
            last.contains_key("text")
                && !last.contains_key(SIGNATURE)
                && !part.contains_key(SIGNATURE)
                && last.get("thought") == part.get("thought")
        };
        let joins = text.is_some() && self.parts.last().is_some_and(joins);
        let block = if joins { self.parts.len() - 1 } else { self.parts.len() };
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            let delta = text.to_owned();
            out.push(match part.get("thought") {
                Some(Value::Bool(true)) => ModelEvent::Reasoning { block, delta },
                _ => ModelEvent::Text { block, delta },
            });
        }
        if let Some(call) = part.get("functionCall") {
            let field = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let id = Some(field("id")).filter(|id| !id.is_empty()).unwrap_or_else(|| self.call_id(block));
            out.push(ModelEvent::ToolCall { block, id, name: field("name") });
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
            None => self.parts.push(part),
        }
    }

    /// Returns a deterministic ID for a call without one.
    fn call_id(&self, at: usize) -> String {
        let answer: String = self.id.chars().filter(char::is_ascii_alphanumeric).collect();
        if answer.is_empty() { format!("call_{at}") } else { format!("call_{answer}_{at}") }
    }

    fn stop_reason(&self, word: Option<&str>, calls: bool) -> StopReason {
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
}

fn usage(reported: &Map<String, Value>) -> Usage {
    let count = |key: &str| reported.get(key).and_then(Value::as_u64).unwrap_or_default();
    let thoughts = count("thoughtsTokenCount");
    Usage {
        input: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
        output: count("candidatesTokenCount").saturating_add(thoughts),
        cache_read: count("cachedContentTokenCount"),
        cache_write: 0,
        reasoning: thoughts,
    }
}

impl AnswerDecoder for ContentDecoder {
    fn event(&mut self, _name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        if !data.trim().is_empty() && data != "[DONE]" {
            let mut piece = parse_json("a piece of the answer", data.as_bytes())?;
            exact::keep(&mut piece, data.as_bytes(), &ARGS);
            match piece {
                Value::Array(pieces) => pieces.into_iter().try_for_each(|piece| self.piece(piece, out))?,
                piece => self.piece(piece, out)?,
            }
        }
        // There is no end frame, and pieces may follow the one with the finish reason.
        Ok(Flow::More)
    }

    fn finish(&mut self) -> Result<Decoded, ModelError> {
        let word = self.candidate.get("finishReason").and_then(Value::as_str).map(str::to_owned);
        if !self.started {
            return Err(if self.ended {
                ModelError::protocol("the answer has no candidates")
            } else {
                ModelError::truncated("the stream ended before the answer did")
            });
        }
        if word.is_none() && self.blocked.is_none() && !self.ended {
            return Err(ModelError::truncated("the stream ended before the answer did"));
        }
        if word.as_deref() == Some("MALFORMED_RESPONSE") {
            return Err(ModelError::Overloaded(
                "the provider could not read its model's answer (MALFORMED_RESPONSE)".into(),
            ));
        }
        let parts = std::mem::take(&mut self.parts);
        let mut content: Vec<Block> = Vec::with_capacity(parts.len());
        for (at, part) in parts.into_iter().enumerate() {
            content.extend(blocks(part, || self.call_id(at)));
        }
        if let Some(word @ ("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL")) = word.as_deref() {
            // The model is told about it as about any call that cannot be parsed.
            let raw = self.candidate.get("finishMessage").and_then(Value::as_str).unwrap_or_default().to_owned();
            let error = format!("the provider could not read the call ({word})");
            content.push(Block::InvalidToolCall(InvalidToolCall {
                id: self.call_id(content.len()),
                name: String::new(),
                raw,
                error,
                native: None,
            }));
        }
        let calls = content.iter().any(|block| matches!(block, Block::ToolCall(_) | Block::InvalidToolCall(_)));
        let stop = match (&self.blocked, word.as_deref()) {
            (Some(_), None) => StopReason::Refusal,
            (None, None) if content.is_empty() => StopReason::Other("no candidates".to_owned()),
            (_, word) => self.stop_reason(word, calls),
        };
        content.extend(asides(&self.candidate));
        let usage_counts = usage(&self.usage);
        let reported = Value::Object(std::mem::take(&mut self.usage));
        let word = word.or_else(|| self.blocked.take());
        let (id, origin) = (std::mem::take(&mut self.id), self.origin.clone());
        Ok(Decoded::new(id, origin, content, usage_counts, stop, word, reported))
    }
}
