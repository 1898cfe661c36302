//! Converts complete responses to stream events.

use deepagents_core::message::{AssistantMessage, Block};
use deepagents_core::model::ModelEvent;

/// Returns the events that streaming the message would have produced, with `chunk` characters in each delta.
pub(crate) fn events_of(message: &AssistantMessage, chunk: usize) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    for (block, content) in message.content.iter().enumerate() {
        match content {
            Block::Text(b) => events.extend(pieces(&b.text, chunk).map(|delta| ModelEvent::Text { block, delta })),
            Block::Reasoning(b) => {
                events.extend(pieces(&b.text, chunk).map(|delta| ModelEvent::Reasoning { block, delta }));
            }
            Block::ToolCall(b) => call(&mut events, block, (&b.id, &b.name, &b.args.to_string()), chunk),
            Block::InvalidToolCall(b) => call(&mut events, block, (&b.id, &b.name, &b.raw), chunk),
            // Media and provider items arrive only in the final message.
            _ => {}
        }
    }
    events
}

fn call(events: &mut Vec<ModelEvent>, block: usize, (id, name, args): (&String, &String, &str), chunk: usize) {
    events.push(ModelEvent::ToolCall { block, id: id.clone(), name: name.clone() });
    events.extend(pieces(args, chunk).map(|delta| ModelEvent::ToolArgs { block, delta }));
}

/// Splits a text into pieces of `chunk` characters.
fn pieces(text: &str, chunk: usize) -> impl Iterator<Item = String> {
    let mut rest = text.chars();
    std::iter::from_fn(move || {
        let piece: String = rest.by_ref().take(chunk).collect();
        (!piece.is_empty()).then_some(piece)
    })
}
