//! Turns an answer into the events a provider would send.

use deepagents_core::message::Block;
use deepagents_core::model::{ModelError, ModelEvent, ModelOutput};
use futures_core::stream::BoxStream;
use futures_util::{FutureExt, stream};

use super::turn::{Answer, Body};

pub(super) fn play(answer: Answer, chunk: usize) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
    let events = match answer.body {
        Body::Events(events) => events,
        Body::Output(output) => events_of(output, chunk),
    };
    let events = stream::iter(events);
    if answer.delay.is_zero() {
        return Box::pin(events);
    }
    Box::pin(tokio::time::sleep(answer.delay).map(|()| events).flatten_stream())
}

fn events_of(output: Box<ModelOutput>, chunk: usize) -> Vec<Result<ModelEvent, ModelError>> {
    let mut events = Vec::new();
    for (block, content) in output.message.content.iter().enumerate() {
        match content {
            Block::Text(part) => {
                events.extend(pieces(&part.text, chunk).map(|delta| ModelEvent::Text { block, delta }));
            }
            Block::Reasoning(part) => {
                events.extend(pieces(&part.text, chunk).map(|delta| ModelEvent::Reasoning { block, delta }));
            }
            Block::ToolCall(call) => {
                events.push(ModelEvent::ToolCall { block, id: call.id.clone(), name: call.name.clone() });
                let args = call.args.to_string();
                events.extend(pieces(&args, chunk).map(|delta| ModelEvent::ToolArgs { block, delta }));
            }
            Block::InvalidToolCall(call) => {
                events.push(ModelEvent::ToolCall { block, id: call.id.clone(), name: call.name.clone() });
                events.extend(pieces(&call.raw, chunk).map(|delta| ModelEvent::ToolArgs { block, delta }));
            }
            // Media and provider items come whole, in the final message.
            _ => {}
        }
    }
    events.push(ModelEvent::Finished(output));
    events.into_iter().map(Ok).collect()
}

/// The text in parts of so many characters.
fn pieces(text: &str, chunk: usize) -> impl Iterator<Item = String> {
    let mut rest = text.chars();
    std::iter::from_fn(move || {
        let piece: String = rest.by_ref().take(chunk).collect();
        (!piece.is_empty()).then_some(piece)
    })
}
