//! Request bodies: encoding shared by all wires.
//!
//! A body is an object whose last field is the array with the conversation. Each request sends the whole conversation
//! again, so the encoded form of the previous request is cached, and only what was added is encoded ([`Written`]).
//! Tools and prompts rarely change and are encoded once ([`SharedField`]).
//!
//! A body consists of pieces that requests share, so that a long conversation is not copied for sending
//! ([`RequestBody`]). For signed requests, the hash of the body is continued in the same way.

mod digest;
mod edited;
mod extra;
mod head;
mod parts;
mod pieces;
mod shared;
mod written;

use std::borrow::Cow;

use bytes::Bytes;
use deepagents_core::model::{ModelError, ModelRequest};
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::extra::{Extra, Fields};
pub(crate) use self::head::{Head, filled};
pub(crate) use self::parts::{
    ATTACHED_BELOW, CacheControl, FNV_OFFSET, TextPart, attached_to, first_marked, fnv1a, has_own_call, is_from,
    is_thought_by, is_wire_name, joined, lacks_error, last_answer, mark_on, own_item, parts, stable_hash, wire_name,
    wire_name_within,
};
pub(crate) use self::pieces::RequestBody;
pub(crate) use self::shared::SharedField;
pub(crate) use self::written::{EncodedStart, Written};
use crate::exact::Exact;

/// An element of the conversation array.
pub(crate) struct Turn<T> {
    /// The value to encode.
    pub(crate) item: T,
    /// Number of messages of the conversation up to its end.
    pub(crate) upto: usize,
    /// Whether it, and everything before it, is encoded the same way in every request with the same messages up to its
    /// end.
    pub(crate) settled: bool,
}

/// Wraps turns so that the arguments at `path` are serialised as their provider wrote them.
pub(crate) fn exact<'a>(turns: Vec<Turn<Value>>, path: &'a [&'a str]) -> impl Iterator<Item = Turn<Exact<'a>>> {
    turns.into_iter().map(move |turn| Turn {
        item: Exact { item: Cow::Owned(turn.item), path },
        upto: turn.upto,
        settled: turn.settled,
    })
}

/// Already encoded fields after the head of a body, by name.
pub(crate) type WrittenFields = Vec<(&'static str, Bytes)>;

/// Encodes a body: the object `head`, the fields `shared`, and the array `field` with `lead`, the known start of the
/// conversation and the remaining turns.
pub(crate) fn write<T: Serialize>(
    written: &Written,
    mut known: EncodedStart,
    request: &ModelRequest,
    (head, shared): (&impl Serialize, WrittenFields),
    (field, lead): (&str, &[T]),
    turns: impl Iterator<Item = Turn<T>>,
) -> Result<RequestBody, ModelError> {
    let (mut pieces, mut out) = opened(head, shared)?;
    out.extend_from_slice(format!("{}\"{field}\":[", comma(&pieces, &out)).as_bytes());
    for item in lead {
        serde_json::to_writer(&mut out, item).map_err(failed)?;
        out.push(b',');
    }
    pieces.push(finished(out));
    if written.hashes {
        known.hash_behind(&pieces);
    }
    pieces.extend_from_slice(&known.pieces);
    let (mut out, mut cuts) = (Vec::new(), Vec::new());
    for turn in turns {
        if !(known.is_empty() && out.is_empty()) {
            out.push(b',');
        }
        serde_json::to_writer(&mut out, &turn.item).map_err(failed)?;
        if turn.settled {
            cuts.push((turn.upto, out.len()));
        }
    }
    if known.is_empty() && out.is_empty() {
        return Err(ModelError::invalid("there is nothing to send: add at least one message with content"));
    }
    out.extend_from_slice(b"]}");
    let added = finished(out);
    let hash = known.hash_with(&added);
    known.extend(&request.messages, &added, cuts.into_iter());
    written.keep(known);
    pieces.push(added);
    Ok(RequestBody::from_iter(pieces).with_hash(hash))
}

/// Encodes a body without a conversation of its own, because an extra field replaces it.
pub(crate) fn write_head(head: &impl Serialize, shared: WrittenFields) -> Result<RequestBody, ModelError> {
    let (mut pieces, mut out) = opened(head, shared)?;
    out.push(b'}');
    pieces.push(out.into());
    Ok(pieces.into_iter().collect())
}

/// Encodes the value of a field that is not shared.
pub(crate) fn write_value(value: Option<impl Serialize>) -> Result<Option<Bytes>, ModelError> {
    value.map(|value| serde_json::to_vec(&value).map(finished).map_err(failed)).transpose()
}

/// Opens an object with a head and already encoded fields, to be continued. Returns the complete pieces and the
/// unfinished one.
fn opened(head: &impl Serialize, shared: WrittenFields) -> Result<(Vec<Bytes>, Vec<u8>), ModelError> {
    let (mut pieces, mut out) = (Vec::new(), serde_json::to_vec(head).map_err(failed)?);
    out.pop();
    for (name, text) in shared {
        out.extend_from_slice(format!("{}\"{name}\":", comma(&pieces, &out)).as_bytes());
        pieces.push(finished(std::mem::take(&mut out)));
        pieces.push(text);
    }
    Ok((pieces, out))
}

/// Returns the separator before the next field of an object.
fn comma(pieces: &[Bytes], out: &[u8]) -> &'static str {
    if pieces.is_empty() && out.len() <= 1 { "" } else { "," }
}

/// Shrinks the buffer, since the piece lives as long as the call, for every waiting agent.
fn finished(out: Vec<u8>) -> Bytes {
    out.into_boxed_slice().into()
}

fn failed(error: impl std::fmt::Display) -> ModelError {
    ModelError::invalid(format!("the request cannot be written: {error}"))
}
