//! Answers of Chat Completions, in one piece and streamed: a whole message is read as one large delta.

use deepagents_core::message::{AssistantMessage, Block, Native, Opaque, Origin};
use deepagents_core::model::{ModelError, ModelEvent, ModelOutput, StopReason};
use serde_json::{Map, Value};

use super::dialect::{Dialect, ReasoningForm};
use super::part::{Part, Thought, Whole};
use super::read::{is_empty, merge_detail, usage};
use crate::decoded::Decoded;
use crate::http::{Flow, Fold, from_stream};

/// An answer that came in one piece.
pub(super) fn whole(origin: &Origin, dialect: &Dialect, body: &[u8]) -> Result<Decoded, ModelError> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| ModelError::protocol(format!("the answer is not valid JSON: {error}")))?;
    if !value.get("choices").is_some_and(Value::is_array) && value.get("error").is_none() {
        return Err(ModelError::protocol("the answer has no choices"));
    }
    let mut fold = StreamFold::new(origin.clone(), dialect.clone());
    fold.plain = true;
    fold.chunk(value, &mut Vec::new())?;
    if !fold.started {
        return Err(ModelError::protocol("the answer has no choice with a message"));
    }
    fold.done = true;
    fold.finish()
}

/// Folds a streamed answer.
pub(super) struct StreamFold {
    origin: Origin,
    dialect: Dialect,
    id: String,
    pub(super) parts: Vec<Part>,
    /// Fields of the message that we do not know.
    fields: Map<String, Value>,
    usage: Value,
    stop: Option<String>,
    started: bool,
    done: bool,
    /// Whether the answer came in one piece, where positions of calls are what counts.
    pub(super) plain: bool,
}

/// The fields of a message in which reasoning comes as text.
const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

impl StreamFold {
    pub(super) fn new(origin: Origin, dialect: Dialect) -> Self {
        Self {
            origin,
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
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(from_stream(&chunk));
        }
        if let Some(id) = chunk.get("id").and_then(Value::as_str).filter(|_| self.id.is_empty()) {
            id.clone_into(&mut self.id);
        }
        let usage = chunk.get_mut("x_groq").and_then(|more| more.get_mut("usage")).map(Value::take);
        for usage in [usage, chunk.get_mut("usage").map(Value::take)].into_iter().flatten() {
            if usage.is_object() {
                self.usage = usage;
            }
        }
        let Some(choices) = chunk.get_mut("choices").and_then(Value::as_array_mut) else { return Ok(()) };
        // One answer is asked for; more come only where an extra field asks for them.
        let first = choices.iter_mut().find(|c| c.get("index").and_then(Value::as_u64).unwrap_or_default() == 0);
        let Some(Value::Object(choice)) = first else { return Ok(()) };
        if choice.get("error").is_some_and(|error| !error.is_null()) {
            return Err(from_stream(&Value::Object(std::mem::take(choice))));
        }
        for key in ["delta", "message"] {
            if let Some(Value::Object(delta)) = choice.remove(key) {
                self.started = true;
                self.delta(delta, out);
            }
        }
        if let Some(stop) = choice.get("finish_reason").and_then(Value::as_str).filter(|stop| !stop.is_empty()) {
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
        if let Some(Value::Array(calls)) = delta.remove("tool_calls") {
            for (position, call) in calls.into_iter().enumerate() {
                if let Value::Object(call) = call {
                    self.call(position, call, out);
                }
            }
        }
        if let Some(Value::Object(function)) = delta.remove("function_call") {
            // The predecessor of tool calls: one a message, without an id.
            let mut call = Map::new();
            call.insert("index".to_owned(), 0.into());
            call.insert("function".to_owned(), Value::Object(function));
            self.call(0, call, out);
        }
        delta.remove("role");
        for (key, value) in delta.into_iter().filter(|(_, value)| !is_empty(value)) {
            match (self.fields.get_mut(&key), value) {
                (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
                (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
                (Some(Value::Object(object)), Value::Object(more)) => object.extend(more),
                (_, value) => drop(self.fields.insert(key, value)),
            }
        }
    }

    fn reasoning(&mut self, delta: &mut Map<String, Value>, out: &mut Vec<ModelEvent>) {
        let usual = match self.dialect.reasoning {
            ReasoningForm::Field(field) => Some(field),
            _ => None,
        };
        // Some servers say the same thing in both fields.
        let mut text = None;
        for field in usual.into_iter().chain(REASONING_FIELDS) {
            if let Some(Value::String(more)) = delta.remove(field)
                && !more.is_empty()
                && text.is_none()
            {
                text = Some((field, more));
            }
        }
        if let Some((field, more)) = text {
            let block = self.thought(|thought| {
                thought.field.get_or_insert(field);
                thought.text.push_str(&more);
            });
            out.push(ModelEvent::Reasoning { block, delta: more });
        }
        if let Some(Value::Array(details)) = delta.remove("reasoning_details")
            && !details.is_empty()
        {
            self.thought(|thought| {
                details.into_iter().for_each(|detail| merge_detail(&mut thought.details, detail));
            });
        }
    }

    /// Adds to the message's one thought outside a content array.
    fn thought(&mut self, add: impl FnOnce(&mut Thought)) -> usize {
        let found = self.parts.iter_mut().enumerate().find_map(|(at, part)| match part {
            Part::Reasoning(thought) => Some((at, thought)),
            _ => None,
        });
        if let Some((at, thought)) = found {
            add(thought);
            return at;
        }
        self.new_thought(add)
    }

    fn new_thought(&mut self, add: impl FnOnce(&mut Thought)) -> usize {
        let mut thought = Thought::default();
        add(&mut thought);
        self.parts.push(Part::Reasoning(thought));
        self.parts.len() - 1
    }

    fn text(&mut self, more: String, out: &mut Vec<ModelEvent>) {
        if more.is_empty() {
            return;
        }
        let at = match self.dialect.reasoning {
            // Items of a content array are in order, so text after a thought is another text.
            ReasoningForm::Content => self.parts.len().checked_sub(1),
            _ => self.parts.iter().position(|part| matches!(part, Part::Text(_))),
        };
        match at.and_then(|at| Some((at, self.parts.get_mut(at)?))) {
            Some((block, Part::Text(text))) => {
                text.push_str(&more);
                out.push(ModelEvent::Text { block, delta: more });
            }
            _ => {
                out.push(ModelEvent::Text { block: self.parts.len(), delta: more.clone() });
                self.parts.push(Part::Text(more));
            }
        }
    }

    fn refusal(&mut self, more: String, out: &mut Vec<ModelEvent>) {
        if more.is_empty() {
            return;
        }
        let found = self.parts.iter_mut().enumerate().find_map(|(at, part)| match part {
            Part::Refusal(text) => Some((at, text)),
            _ => None,
        });
        let block = match found {
            Some((at, text)) => {
                text.push_str(&more);
                at
            }
            None => {
                self.parts.push(Part::Refusal(more.clone()));
                self.parts.len() - 1
            }
        };
        out.push(ModelEvent::Text { block, delta: more });
    }

    /// An item of a content array.
    fn item(&mut self, item: Value, out: &mut Vec<ModelEvent>) {
        let Value::Object(mut item) = item else { return };
        let kind = item.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match (kind.as_str(), item.remove(kind.as_str())) {
            ("text", Some(Value::String(text))) => self.text(text, out),
            ("refusal", Some(Value::String(text))) => self.refusal(text, out),
            ("thinking", Some(thinking)) => {
                let more = match thinking {
                    Value::String(text) => text,
                    Value::Array(list) => list.iter().filter_map(|t| t.get("text")?.as_str()).collect(),
                    _ => String::new(),
                };
                item.remove("type");
                let add = |thought: &mut Thought| {
                    thought.text.push_str(&more);
                    thought.item.extend(item.into_iter().filter(|(_, value)| !is_empty(value)));
                };
                let last = self.parts.len().saturating_sub(1);
                let block = match self.parts.last_mut() {
                    Some(Part::Reasoning(thought)) => {
                        add(thought);
                        last
                    }
                    _ => self.new_thought(add),
                };
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
        match self.stop.as_deref() {
            Some("length" | "model_length" | "max_tokens") => StopReason::MaxTokens,
            Some("content_filter" | "refusal") => StopReason::Refusal,
            Some("tool_calls" | "function_call") => StopReason::ToolCalls,
            Some("stop" | "eos" | "end_turn") | None if calls => StopReason::ToolCalls,
            Some("stop" | "eos" | "end_turn") | None if refused => StopReason::Refusal,
            Some("stop" | "eos" | "end_turn") | None => StopReason::End,
            Some(other) => StopReason::Other(other.to_owned()),
        }
    }
}

impl Fold for StreamFold {
    fn event(&mut self, _name: &str, data: &str, out: &mut Vec<ModelEvent>) -> Result<Flow, ModelError> {
        match data.trim() {
            "" => return Ok(Flow::More),
            "[DONE]" => {
                self.done = true;
                return Ok(Flow::Complete);
            }
            _ => {}
        }
        let chunk: Value = serde_json::from_str(data)
            .map_err(|error| ModelError::protocol(format!("a piece of the answer is not valid JSON: {error}")))?;
        self.chunk(chunk, out)?;
        Ok(Flow::More)
    }

    fn finish(&mut self) -> Result<Decoded, ModelError> {
        if !self.started || !(self.done || self.stop.is_some()) {
            return Err(ModelError::truncated("the stream ended before the answer did"));
        }
        let reason = self.stop_reason();
        let parts = std::mem::take(&mut self.parts);
        let cut = if reason == StopReason::MaxTokens {
            parts.iter().rposition(|part| matches!(part, Part::Call(_)))
        } else {
            None
        };
        let whole = Whole { dialect: &self.dialect, answer: &self.id, cut };
        let mut content: Vec<Block> =
            parts.into_iter().enumerate().map(|(at, part)| part.into_block(at, &whole)).collect();
        let fields = std::mem::take(&mut self.fields);
        if !fields.is_empty() {
            content.push(Block::Opaque(Opaque { native: Native::new(Value::Object(fields)) }));
        }
        let usage = usage(&self.usage);
        let message = AssistantMessage {
            id: std::mem::take(&mut self.id),
            content,
            origin: Some(self.origin.clone()),
            name: None,
            usage: Some(usage),
        };
        Ok(Decoded {
            output: ModelOutput { message, usage, stop: reason },
            stop: self.stop.take(),
            usage: self.usage.take(),
        })
    }
}
