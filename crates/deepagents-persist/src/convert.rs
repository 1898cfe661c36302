//! What both databases do with the columns of their rows.

use std::collections::HashMap;
use std::time::Duration;

use deepagents_core::env::Timestamp;
use deepagents_core::journal::{JournalError, Position, Status};
use serde_json::{Map, Value};

use crate::blob::{Hash, unpack};

/// Whose parts are kept apart.
#[derive(Clone, Copy)]
pub(crate) struct Apart {
    pub(crate) thread: i64,
    pub(crate) snapshot: bool,
}

/// The text of a record or a snapshot, with what was kept apart.
pub(crate) fn whole(
    thread: &str,
    position: i64,
    body: String,
    how: i64,
    blobs: &HashMap<Hash, String>,
) -> Result<String, JournalError> {
    unpack(body, how, blobs).ok_or_else(|| JournalError::Damaged {
        thread: thread.to_owned(),
        position: unsigned(position),
        reason: "a part of it that was kept apart is missing".to_owned(),
    })
}

/// A record or a snapshot that is no JSON.
pub(crate) fn damaged(thread: &str, position: Position, error: &serde_json::Error) -> JournalError {
    JournalError::Damaged { thread: thread.to_owned(), position, reason: error.to_string() }
}

/// The status of a thread, or what is wrong with its row.
pub(crate) fn status(thread: &str, word: &str) -> Result<Status, String> {
    let known = || Status::ALL.map(Status::word).join(", ");
    Status::from_word(word)
        .ok_or_else(|| format!("thread `{thread}` has the status `{word}`, which is none of {}", known()))
}

/// The metadata of a thread, or what is wrong with its row.
pub(crate) fn metadata(thread: &str, text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("thread `{thread}` has metadata that is no JSON object: {error}"))
}

pub(crate) fn time(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MIN)
}

/// Counts are never negative, and far from the limits.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Milliseconds, at least one.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4).clamp(1, i64::MAX / 4)
}
