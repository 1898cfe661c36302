//! Parts of a response being decoded, and their conversion to blocks.

use deepagents_core::message::{Block, ProviderItem, Reasoning, Text};
use serde_json::{Map, Value, json};

use super::call_id::conform;
use super::dialect::{Dialect, ReasoningForm};
use crate::args::{self, InvalidArgs};
use crate::blocks::{self, generated_id, provider_item};
use crate::json::text;

/// A part of a response, which becomes one block.
pub(super) enum Part {
    Text(String),
    Refusal(String),
    /// Audio output with its transcript.
    Audio(Map<String, Value>),
    Reasoning(Thought),
    Call(Call),
    /// An unknown item of a content array.
    Item(Value),
}

/// Reasoning.
#[derive(Default)]
pub(super) struct Thought {
    pub(super) text: String,
    /// The message field it arrived in.
    pub(super) field: Option<&'static str>,
    /// Structured pieces beside the text, some of them signed or encrypted.
    pub(super) details: Vec<Value>,
    /// Further fields of an item of a content array.
    pub(super) item: Map<String, Value>,
    /// Content of the item in order: text, and references.
    pub(super) pieces: Vec<Value>,
}

/// A tool call.
#[derive(Default)]
pub(super) struct Call {
    /// The service's index.
    pub(super) index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    /// Arguments as text; some servers send them as an object.
    pub(super) raw: String,
    /// Unknown fields of the call.
    pub(super) fields: Map<String, Value>,
    /// Unknown fields of its `function`.
    pub(super) function: Map<String, Value>,
    /// Whether the tool takes free text as input, which none of our tools does.
    pub(super) is_custom: bool,
    /// Whether its start was reported.
    pub(super) announced: bool,
}

/// Error for a call with free text as input, which no tool here accepts.
const CUSTOM: &str = "the call is for a custom tool, whose input is not JSON";

/// Context of the response needed to convert a part to a block.
pub(super) struct Whole<'a> {
    pub(super) dialect: &'a Dialect,
    pub(super) answer: &'a str,
    /// Index of the call that the token limit cut off, if any.
    pub(super) cut: Option<usize>,
}

impl Part {
    pub(super) fn into_block(self, at: usize, whole: &Whole<'_>) -> Block {
        match self {
            Self::Text(text) => Block::text(text),
            Self::Refusal(text) => {
                let native = Some(ProviderItem::new(json!({"refusal": text})));
                Block::Text(Text { text, native })
            }
            Self::Audio(audio) => {
                let text = text(audio.get("transcript")).to_owned();
                Block::Text(Text { text, native: Some(ProviderItem::new(json!({"audio": audio}))) })
            }
            Self::Reasoning(thought) => thought.into_block(whole.dialect),
            Self::Call(call) => call.into_block(at, whole),
            Self::Item(item) => provider_item(item),
        }
    }
}

impl Thought {
    fn into_block(self, dialect: &Dialect) -> Block {
        let Self { text, field, details, mut item, pieces } = self;
        if pieces.iter().any(|piece| !is_words(piece)) {
            item.insert("thinking".to_owned(), Value::Array(pieces));
        }
        let native = if field.is_none() && details.is_empty() {
            // An item of a content array; its usual content is rebuilt from the text.
            (!item.is_empty()).then(|| {
                let mut native = thinking_item(&text);
                add(&mut native, &item);
                native
            })
        } else {
            let usual = field.is_some_and(|field| dialect.reasoning == ReasoningForm::Field(field));
            (!usual || !details.is_empty()).then(|| {
                let mut native = Map::new();
                if let Some(field) = field {
                    native.insert(field.to_owned(), Value::String(text.clone()));
                }
                if !details.is_empty() {
                    native.insert("reasoning_details".to_owned(), Value::Array(details));
                }
                Value::Object(native)
            })
        };
        Block::Reasoning(Reasoning { text, native: native.map(ProviderItem::new) })
    }
}

/// Returns whether a piece of reasoning is plain text.
fn is_words(piece: &Value) -> bool {
    piece.get("type").is_some_and(|kind| kind == "text")
}

/// Adds a piece of reasoning; consecutive texts are merged.
pub(super) fn add_piece(pieces: &mut Vec<Value>, piece: Value) {
    if let (Some(last), Some(more)) = (pieces.last_mut().filter(|last| is_words(last)), piece.get("text"))
        && let (true, Some(Value::String(text)), Value::String(more)) = (is_words(&piece), last.get_mut("text"), more)
    {
        text.push_str(more);
        return;
    }
    pieces.push(piece);
}

/// Merges a piece of structured reasoning. Pieces of the same item share an index and, if present, an ID: their texts
/// are appended, the rest is replaced.
pub(super) fn merge_detail(details: &mut Vec<Value>, detail: Value) {
    let same = |other: &&mut Value| {
        let ids = [other.get("id"), detail.get("id")].map(|id| id.filter(|id| !id.is_null()));
        // Pieces that belong to two calls are distinct, although some services give both the same index.
        let differ = matches!(ids, [Some(one), Some(two)] if one != two);
        let keys = ["index", "type"];
        !differ && detail.get("index").is_some() && keys.iter().all(|key| other.get(key) == detail.get(key))
    };
    match (details.iter_mut().rfind(same), detail) {
        (Some(Value::Object(target)), Value::Object(detail)) => {
            for (key, value) in detail {
                match (target.get_mut(&key), value) {
                    (_, Value::Null) => {}
                    (Some(Value::String(text)), Value::String(more))
                        if matches!(key.as_str(), "text" | "summary" | "data") =>
                    {
                        text.push_str(&more);
                    }
                    (_, value) => drop(target.insert(key, value)),
                }
            }
        }
        (_, detail) => details.push(detail),
    }
}

/// Returns reasoning as an item of a content array.
pub(super) fn thinking_item(text: &str) -> Value {
    json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]})
}

impl Call {
    fn into_block(mut self, at: usize, whole: &Whole<'_>) -> Block {
        if self.id.is_empty() {
            self.id = conform(whole.dialect.call_ids, &generated_id(whole.answer, at)).into_owned();
        }
        let is_empty = self.raw.trim().is_empty();
        let args = match self.is_custom {
            true => Err(InvalidArgs { raw: self.raw.clone(), error: CUSTOM.to_owned() }),
            false => args::from_text(&self.raw, is_empty && whole.cut == Some(at)),
        };
        let native = match &args {
            // It is sent back unchanged.
            _ if self.is_custom => Some(self.item("custom", json!({"name": self.name, "input": self.raw}))),
            Ok(args) => {
                let rewritten = args.to_string();
                // Repaired arguments are sent back in their repaired form.
                let told = if is_empty || args::is_json(&self.raw) { &self.raw } else { &rewritten };
                (self.says_more() || (!is_empty && rewritten != *told)).then(|| self.native(told))
            }
            Err(_) => {
                let sent = if whole.dialect.malformed_arguments { self.raw.as_str() } else { "{}" };
                (self.says_more() && !self.name.is_empty()).then(|| self.native(sent))
            }
        };
        blocks::call(self.id, self.name, args, native)
    }

    fn says_more(&self) -> bool {
        !self.fields.is_empty() || !self.function.is_empty()
    }

    fn native(&self, arguments: &str) -> ProviderItem {
        let arguments = if arguments.is_empty() { "{}" } else { arguments };
        self.item("function", json!({"name": self.name, "arguments": arguments}))
    }

    /// Returns the service's own item of this kind, with the unknown fields.
    fn item(&self, kind: &str, mut function: Value) -> ProviderItem {
        add(&mut function, &self.function);
        let mut item = json!({"id": self.id, "type": kind, kind: function});
        add(&mut item, &self.fields);
        ProviderItem::new(item)
    }
}

fn add(object: &mut Value, more: &Map<String, Value>) {
    if let Value::Object(object) = object {
        object.extend(more.clone());
    }
}
