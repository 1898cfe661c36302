//! What an answer is made of while it is read, and the blocks it becomes.

use deepagents_core::message::{Block, InvalidToolCall, Native, Opaque, Reasoning, Text, ToolCall};
use serde_json::{Map, Value, json};

use super::call_id;
use super::dialect::{Dialect, ReasoningForm};
use crate::args;

/// A piece of an answer; each becomes one block.
pub(super) enum Part {
    Text(String),
    Refusal(String),
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
}

/// A tool call.
#[derive(Default)]
pub(super) struct Call {
    /// The service's index.
    pub(super) index: Option<u64>,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) args: Args,
    /// Fields of the call that we do not know.
    pub(super) fields: Map<String, Value>,
    /// Fields of its `function` that we do not know.
    pub(super) function: Map<String, Value>,
    /// Whether its beginning was told.
    pub(super) announced: bool,
}

/// The arguments, as text or, from some servers, as an object.
pub(super) enum Args {
    Raw(String),
    Object(Value),
}

impl Default for Args {
    fn default() -> Self {
        Self::Raw(String::new())
    }
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
                let native = Some(Native::new(json!({"refusal": text})));
                Block::Text(Text { text, native })
            }
            Self::Reasoning(thought) => thought.into_block(whole.dialect),
            Self::Call(call) => call.into_block(at, whole),
            Self::Item(item) => Block::Opaque(Opaque { native: Native::new(item) }),
        }
    }
}

impl Thought {
    fn into_block(self, dialect: &Dialect) -> Block {
        let Self { text, field, details, item } = self;
        let native = if field.is_none() && details.is_empty() {
            // An item of a content array; what it usually says is built from the text again.
            (!item.is_empty()).then(|| {
                let mut native = thinking_item(&text);
                if let Value::Object(native) = &mut native {
                    native.extend(item);
                }
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
        Block::Reasoning(Reasoning { text, native: native.map(Native::new) })
    }
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
        let raw = match &self.args {
            Args::Raw(raw) if raw.trim().is_empty() && whole.cut == Some(at) => {
                return self.invalid(args::CUT_OFF.to_owned());
            }
            Args::Raw(raw) => raw.clone(),
            Args::Object(args) => args.to_string(),
        };
        match args::parse(&raw) {
            Ok(args) => {
                let more = !self.fields.is_empty() || !self.function.is_empty();
                let again = args.to_string();
                let native = (more || (!raw.trim().is_empty() && again != raw)).then(|| self.native(raw));
                Block::ToolCall(ToolCall { id: self.id, name: self.name, args, native })
            }
            Err(error) => self.invalid(error),
        }
    }

    fn native(&mut self, raw: String) -> Native {
        let mut function = Map::new();
        function.insert("name".to_owned(), Value::String(self.name.clone()));
        function.insert("arguments".to_owned(), Value::String(if raw.is_empty() { "{}".to_owned() } else { raw }));
        function.extend(std::mem::take(&mut self.function));
        let mut item = Map::new();
        item.insert("id".to_owned(), Value::String(self.id.clone()));
        item.insert("type".to_owned(), Value::String("function".to_owned()));
        item.insert("function".to_owned(), Value::Object(function));
        item.extend(std::mem::take(&mut self.fields));
        Native::new(Value::Object(item))
    }

    fn invalid(self, error: String) -> Block {
        let raw = match self.args {
            Args::Raw(raw) => raw,
            Args::Object(args) => args.to_string(),
        };
        Block::InvalidToolCall(InvalidToolCall { id: self.id, name: self.name, raw, error })
    }
}
