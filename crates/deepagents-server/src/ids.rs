//! Ids as clients see them.

use jiff::Timestamp;
use uuid::Uuid;

use crate::error::{ApiError, Result};

/// The namespace of assistants that stand for graphs, which clients work out themselves.
const GRAPHS: Uuid = Uuid::from_u128(0x6ba7b821_9dad_11d1_80b4_00c04fd430c8);

/// A time as clients are sent it: of one length, so that later ones are greater as text too.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string()
}

/// A time in milliseconds since 1970, as clients are sent it.
pub(crate) fn millis(at: i64) -> String {
    time(Timestamp::from_millisecond(at).unwrap_or_default())
}

/// Now, as clients are sent it.
pub(crate) fn now() -> String {
    time(Timestamp::now())
}

/// A fresh id; later ones are greater.
pub(crate) fn fresh() -> String {
    Uuid::now_v7().to_string()
}

/// The id of the assistant that stands for a graph.
pub(crate) fn system_assistant(graph: &str) -> String {
    Uuid::new_v5(&GRAPHS, graph.as_bytes()).to_string()
}

/// An id that is the same whenever it is worked out from the same words.
pub(crate) fn derived(words: &[&str]) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, words.join("\u{1f}").as_bytes())
}

/// Refuses what is no UUID.
pub(crate) fn check(what: &str, id: &str) -> Result<()> {
    match Uuid::try_parse(id) {
        Ok(_) => Ok(()),
        Err(_) => Err(ApiError::invalid(format!("Invalid {what}: must be a UUID"))),
    }
}
