//! Parsing of state updates from clients: channels by name.

use deepagents_core::message::MessageOp;
use deepagents_core::state::{ChannelError, ChannelSpec, MessagesChannel, Schema, Update};
use serde_json::{Map, Value};

use super::message_input::messages;

/// Marks a value that replaces a channel's value instead of changing it.
const OVERWRITE: &str = "__overwrite__";

/// Why an input is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("messages[{at}]: {reason}")]
    Message { at: usize, reason: String },
    #[error("{0}")]
    Channel(#[from] ChannelError),
}

/// Parses a state update.
pub(crate) fn read_update(schema: &Schema, input: &Map<String, Value>) -> Result<Update, InputError> {
    read_channels(schema, input, |_| true)
}

/// Parses the input of a run. Channels that a run does not accept as input are ignored, such as the todos in a state
/// that a client sends back.
pub(crate) fn read_input(schema: &Schema, input: &Map<String, Value>) -> Result<Update, InputError> {
    read_channels(schema, input, ChannelSpec::is_from_input)
}

/// Parses the channels of an update that are not input of a run.
pub(crate) fn read_other_channels(schema: &Schema, input: &Map<String, Value>) -> Result<Update, InputError> {
    read_channels(schema, input, |channel| !channel.is_from_input())
}

fn read_channels(
    schema: &Schema,
    channels: &Map<String, Value>,
    is_wanted: impl Fn(&ChannelSpec) -> bool,
) -> Result<Update, InputError> {
    let mut update = Update::none();
    for (channel, value) in channels {
        // A front end's own keys match no channel and are not stored.
        if schema.by_name(channel).is_none_or(|channel| channel.is_private() || !is_wanted(&channel)) {
            continue;
        }
        let (value, overwrites) = overwritten(value).map_or((value, false), |value| (value, true));
        match channel.as_str() {
            "messages" => {
                let all = overwrites.then_some(MessageOp::RemoveAll);
                update = update.with::<MessagesChannel>(all.into_iter().chain(messages(value)?).collect());
            }
            "files" => update.push_json(schema, channel, files(value))?,
            "todos" => update.push_json(schema, channel, todos(value))?,
            _ if value.is_null() => {}
            _ => update.push_json(schema, channel, value.clone())?,
        }
    }
    Ok(update)
}

/// Returns the value that replaces the whole value of a channel, in LangGraph's two JSON forms of an `Overwrite`.
pub(crate) fn overwritten(value: &Value) -> Option<&Value> {
    let fields = value.as_object()?;
    if fields.get("type").is_some_and(|kind| kind == OVERWRITE) {
        return fields.get("value");
    }
    fields.get(OVERWRITE).filter(|_| fields.len() == 1)
}

/// Normalises files, which may be a string, an object with lines, or an object with a text.
fn files(value: &Value) -> Value {
    let Value::Object(files) = value else { return value.clone() };
    let one = |(path, file): (&String, &Value)| {
        let file = match file {
            Value::String(text) => serde_json::json!({"content": text, "encoding": "utf-8"}),
            other => other.clone(),
        };
        (path.clone(), file)
    };
    Value::Object(files.iter().map(one).collect())
}

/// Normalises a todo list. Items may lack the fields that the harness adds: an id, and when they appeared. Null is an
/// empty list.
fn todos(value: &Value) -> Value {
    if value.is_null() {
        return Value::Array(Vec::new());
    }
    let Value::Array(items) = value else { return value.clone() };
    let one = |(at, item): (usize, &Value)| {
        let mut item = item.clone();
        if let Value::Object(fields) = &mut item {
            fields.entry("id").or_insert_with(|| (at + 1).to_string().into());
            fields.entry("created_at").or_insert_with(|| crate::ids::now().into());
        }
        item
    };
    Value::Array(items.iter().enumerate().map(one).collect())
}
