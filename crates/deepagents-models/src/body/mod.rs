//! Request bodies: what all wires write the same way.
//!
//! A body is an object whose last field is the array that holds the conversation. Each request sends the whole
//! conversation again, so what was written for the request before is kept and copied, and only what was added is
//! written ([`Written`]).

mod extra;
mod parts;
mod written;

use deepagents_core::model::{ModelError, ModelRequest};
use serde::Serialize;

pub(crate) use self::extra::{Extra, Fields};
pub(crate) use self::parts::{
    CacheControl, TextPart, has_own_call, is_from, is_wire_name, joined, last_answer, wire_name,
};
pub(crate) use self::written::{RunStart, Written};

/// One element of the array that holds the conversation.
pub(crate) struct Turn<T> {
    /// What is written.
    pub(crate) item: T,
    /// How many messages of the conversation there are up to its end.
    pub(crate) upto: usize,
    /// Whether it is written the same way in every request that has the same messages up to its end, and so is all
    /// before it.
    pub(crate) settled: bool,
}

/// Writes a body: the object `head`, the array `field` in it, and in that array `lead`, what is known of the
/// conversation already and the turns that follow it.
pub(crate) fn write<T: Serialize>(
    written: &Written,
    mut known: RunStart,
    request: &ModelRequest,
    head: &impl Serialize,
    (field, lead): (&str, &[T]),
    turns: impl Iterator<Item = Turn<T>>,
) -> Result<Vec<u8>, ModelError> {
    let failed = |error| ModelError::invalid(format!("the request cannot be written: {error}"));
    // Most of a body is conversation: room for it at once saves copying it as it grows.
    let mut out = Vec::with_capacity(known.text().len() + (16 << 10));
    serde_json::to_writer(&mut out, head).map_err(failed)?;
    // The conversation comes last, so that the object can be opened again for it.
    out.pop();
    let comma = if out.len() > 1 { "," } else { "" };
    out.extend_from_slice(format!("{comma}\"{field}\":[").as_bytes());
    for item in lead {
        serde_json::to_writer(&mut out, item).map_err(failed)?;
        out.push(b',');
    }
    let start = out.len();
    out.extend_from_slice(known.text());
    let mut cuts = Vec::new();
    for turn in turns {
        if out.len() > start {
            out.push(b',');
        }
        serde_json::to_writer(&mut out, &turn.item).map_err(failed)?;
        if turn.settled {
            cuts.push((turn.upto, out.len() - start));
        }
    }
    if out.len() == start {
        return Err(ModelError::invalid("there is nothing to send: add at least one message with content"));
    }
    known.extend(&request.messages, out.get(start..).unwrap_or_default(), cuts.into_iter());
    written.keep(known);
    out.extend_from_slice(b"]}");
    // It is there for as long as the model takes, for every agent that waits.
    out.shrink_to_fit();
    Ok(out)
}

/// A body without a conversation of its own: an extra field takes its place.
pub(crate) fn write_head(head: &impl Serialize) -> Result<Vec<u8>, ModelError> {
    serde_json::to_vec(head).map_err(|error| ModelError::invalid(format!("the request cannot be written: {error}")))
}
