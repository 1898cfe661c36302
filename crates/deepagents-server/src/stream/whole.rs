//! The `messages` mode of older clients: each chunk repeats the whole message so far.

use std::collections::HashMap;

use deepagents_core::message::Message;
use serde_json::{Value, json};

use super::event::{Delta, Kind, OpenBlock, RunIdentity, StreamEvent};
use super::metadata::message_metadata;
use super::v1::shown;
use crate::json::{remove, set};
use crate::wire::{chunk_text, message, named};

/// The messages being streamed, by id.
#[derive(Debug, Default)]
pub(super) struct WholeMessages(HashMap<String, Growing>);

#[derive(Debug, Default)]
struct Growing {
    text: String,
    /// The calls, by block index.
    calls: Vec<(usize, Call)>,
}

#[derive(Debug)]
struct Call {
    id: Option<String>,
    name: Option<String>,
    args: String,
}

impl WholeMessages {
    /// Returns the stream events for an event, each with its name.
    pub(super) fn write(&mut self, identity: &RunIdentity, event: &StreamEvent) -> Vec<(&'static str, Value)> {
        let metadata = |id: &str, node| {
            let metadata = json!({"metadata": message_metadata(identity, event, node)});
            ("messages/metadata", json!({id: metadata}))
        };
        match &event.kind {
            Kind::MessageStarted(id) => {
                self.0.insert(id.clone(), Growing::default());
                vec![metadata(id, "model")]
            }
            Kind::BlockStarted { message, index, block: OpenBlock::Call { id, name } } => {
                let call = Call { id: id.clone(), name: name.clone(), args: String::new() };
                let growing = self.0.entry(message.to_string()).or_default();
                growing.calls.push((*index, call));
                vec![growing.partial(message, event)]
            }
            Kind::BlockDelta { message, index, delta } => {
                let growing = self.0.entry(message.to_string()).or_default();
                match delta {
                    Delta::Text(text) => growing.text.push_str(text),
                    Delta::Args(args) => {
                        let call = growing.calls.iter_mut().find(|(at, _)| at == index);
                        call.into_iter().for_each(|(_, call)| call.args.push_str(args));
                    }
                    Delta::Reasoning(_) => return Vec::new(),
                }
                vec![growing.partial(message, event)]
            }
            Kind::MessageFinished(answer) => {
                self.0.remove(&answer.id);
                let answer = shown(&Message::Assistant((**answer).clone()), &event.agent);
                vec![("messages/partial", json!([answer]))]
            }
            Kind::ToolFinished { message: result, .. } => {
                let result = message(&Message::Tool((**result).clone()));
                let id = result.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
                vec![metadata(&id, "tools"), ("messages/complete", json!([result]))]
            }
            _ => Vec::new(),
        }
    }
}

impl Growing {
    fn partial(&self, id: &str, event: &StreamEvent) -> (&'static str, Value) {
        let mut answer = chunk_text(id, &self.text);
        let calls = self.calls.iter().map(|(_, call)| {
            let args = partial_object(&call.args);
            json!({"name": call.name, "args": args, "id": call.id, "type": "tool_call"})
        });
        remove(&mut answer, "tool_call_chunks");
        set(&mut answer, "type", "ai");
        set(&mut answer, "tool_calls", calls.collect::<Value>());
        named(&mut answer, &event.agent);
        ("messages/partial", json!([answer]))
    }
}

/// Parses incomplete JSON as an object, closing what is open and leaving out what is incomplete.
fn partial_object(text: &str) -> Value {
    // Where the text can be cut without an incomplete value, and the brackets open there.
    let (mut open, mut cut) = (String::new(), (0, String::new()));
    let (mut in_string, mut escaped) = (false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ if in_string => {}
            '{' | '[' => {
                open.push(if letter == '{' { '}' } else { ']' });
                cut = (at + 1, open.clone());
            }
            '}' | ']' => {
                open.pop();
            }
            ',' => cut = (at, open.clone()),
            _ => {}
        }
    }
    let close = |text: &str, quote: &str, open: &str| {
        let closed: String = text.chars().chain(quote.chars()).chain(open.chars().rev()).collect();
        serde_json::from_str(&closed).ok().filter(Value::is_object)
    };
    let (at, open_there) = cut;
    close(text, if in_string { "\"" } else { "" }, &open)
        .or_else(|| close(text.get(..at)?, "", &open_there))
        .unwrap_or_else(|| json!({}))
}
