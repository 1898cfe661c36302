//! What an answer is made of while it is read, and the blocks it becomes.

use deepagents_core::message::{Block, InvalidToolCall, ProviderBlock, ProviderItem, Reasoning, Text, ToolCall};
use serde_json::{Map, Value, json};

use super::call_id;
use super::dialect::{Dialect, ReasoningForm};
use crate::args;

/// A piece of an answer; each becomes one block.
pub(super) enum Part {
    Text(String),
    Refusal(String),
    /// What was said aloud, with its words.
    Audio(Map<String, Value>),
    Reasoning(Thought),
    Call(Call),
    /// An item of a content array that we do not know.
    Item(Value),
}

/// What the model thought.
#[derive(Default)]
pub(super) struct Thought {
    pub(super) text: String,
    /// The message field it came in.
    pub(super) field: Option<&'static str>,
    /// Structured pieces beside the text, some of them signed or encrypted.
    pub(super) details: Vec<Value>,
    /// More fields of an item of a content array.
    pub(super) item: Map<String, Value>,
    /// What the item holds, in its order: its words, and what they refer to.
    pub(super) pieces: Vec<Value>,
}

/// A tool call.
#[derive(Default)]
pub(super) struct Call {
    /// The service's index.
    pub(super) index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments, as text; some servers send them as an object.
    pub(super) raw: String,
    /// Fields of the call that we do not know.
    pub(super) fields: Map<String, Value>,
    /// Fields of its `function` that we do not know.
    pub(super) function: Map<String, Value>,
    /// Whether it is of a tool whose input is text in a form of its own, which no tool of ours takes.
    pub(super) is_custom: bool,
    /// Whether its beginning was told.
    pub(super) announced: bool,
}

/// What a part needs to know of its answer to become a block.
pub(super) struct Whole<'a> {
    pub(super) dialect: &'a Dialect,
    pub(super) answer: &'a str,
    /// The call that the token limit cut, if it did.
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
                let text = audio.get("transcript").and_then(Value::as_str).unwrap_or_default().to_owned();
                Block::Text(Text { text, native: Some(ProviderItem::new(json!({"audio": audio}))) })
            }
            Self::Reasoning(thought) => thought.into_block(whole.dialect),
            Self::Call(call) => call.into_block(at, whole),
            Self::Item(item) => Block::ProviderItem(ProviderBlock { native: ProviderItem::new(item) }),
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
            // An item of a content array; what it usually says is built from the text again.
            (!item.is_empty()).then(|| {
                let mut native = thinking_item(&text);
                add(&mut native, &item);
                native
            })
        } else {
            let usual = match dialect.reasoning {
                ReasoningForm::Field(usual) => field == Some(usual),
                _ => false,
            };
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

/// Whether a piece of a thought holds words alone.
fn is_words(piece: &Value) -> bool {
    piece.get("type").is_some_and(|kind| kind == "text")
}

/// Adds a piece of a thought; words that follow on words are one piece.
pub(super) fn add_piece(pieces: &mut Vec<Value>, piece: Value) {
    if let (Some(last), Some(more)) = (pieces.last_mut().filter(|last| is_words(last)), piece.get("text"))
        && let (true, Some(Value::String(text)), Value::String(more)) = (is_words(&piece), last.get_mut("text"), more)
    {
        text.push_str(more);
        return;
    }
    pieces.push(piece);
}

/// A thought as an item of a content array.
pub(super) fn thinking_item(text: &str) -> Value {
    json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]})
}

impl Call {
    fn into_block(mut self, at: usize, whole: &Whole<'_>) -> Block {
        if self.id.is_empty() {
            self.id = call_id::generated(whole.dialect.call_ids, whole.answer, at);
        }
        if self.is_custom {
            return self.custom();
        }
        let is_empty = self.raw.trim().is_empty();
        if is_empty && whole.cut == Some(at) {
            return self.invalid(args::CUT_OFF.to_owned(), whole.dialect);
        }
        match args::parse(&self.raw) {
            Ok(args) => {
                let more = self.says_more();
                let rewritten = args.to_string();
                // What had to be mended goes back as it was meant.
                let told = if is_empty || args::is_json(&self.raw) { &self.raw } else { &rewritten };
                let native = (more || (!is_empty && rewritten != *told)).then(|| self.native(told));
                Block::ToolCall(ToolCall { id: self.id, name: self.name, args, native })
            }
            Err(error) => self.invalid(error, whole.dialect),
        }
    }

    /// Nobody here takes such an input; it goes back as it came.
    fn custom(self) -> Block {
        let mut custom = json!({"name": self.name, "input": self.raw});
        add(&mut custom, &self.function);
        let mut item = json!({"id": self.id, "type": "custom", "custom": custom});
        add(&mut item, &self.fields);
        let error = "the call is for a custom tool, whose input is not JSON".to_owned();
        let native = Some(ProviderItem::new(item));
        Block::InvalidToolCall(InvalidToolCall { id: self.id, name: self.name, raw: self.raw, error, native })
    }

    fn says_more(&self) -> bool {
        !self.fields.is_empty() || !self.function.is_empty()
    }

    fn native(&self, arguments: &str) -> ProviderItem {
        let arguments = if arguments.is_empty() { "{}" } else { arguments };
        let mut function = json!({"name": self.name, "arguments": arguments});
        add(&mut function, &self.function);
        let mut item = json!({"id": self.id, "type": "function", "function": function});
        add(&mut item, &self.fields);
        ProviderItem::new(item)
    }

    fn invalid(self, error: String, dialect: &Dialect) -> Block {
        let sent = if dialect.malformed_arguments { self.raw.as_str() } else { "{}" };
        let native = (self.says_more() && !self.name.is_empty()).then(|| self.native(sent));
        Block::InvalidToolCall(InvalidToolCall { id: self.id, name: self.name, raw: self.raw, error, native })
    }
}

fn add(object: &mut Value, more: &Map<String, Value>) {
    if let Value::Object(object) = object {
        object.extend(more.clone());
    }
}
