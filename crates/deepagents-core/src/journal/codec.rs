//! The versioned JSON encoding of records.

use serde::{Deserialize, Serialize};

use super::{JournalError, Record};
use crate::ids::LogPosition;
use crate::panics::caught;

/// Version of the JSON form of records. It is incremented when a field changes meaning or is removed, not when one is
/// added. Records of all earlier versions, and those without a version, can be read.
///
/// Version 2: the todo list changes by items. The channel itself still reads the lists of version 1.
pub const RECORD_VERSION: u64 = 2;

#[derive(Serialize)]
struct Versioned<'a> {
    v: u64,
    #[serde(flatten)]
    record: &'a Record,
}

#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    v: u64,
}

/// Encodes a record as one line of JSON.
///
/// # Errors
/// Returns an error if a value of the record cannot be serialised as JSON, including when its `Serialize` panics.
pub fn encode(record: &Record) -> Result<String, serde_json::Error> {
    guarded(|| serde_json::to_string(&Versioned { v: RECORD_VERSION, record }))
}

/// Returns the length in bytes of a record encoded with [`encode`].
pub(super) fn encoded_len(record: &Record) -> Result<u64, serde_json::Error> {
    let mut count = Count(0);
    guarded(|| serde_json::to_writer(&mut count, &Versioned { v: RECORD_VERSION, record }))?;
    Ok(count.0)
}

/// Catches panics: `Serialize` of channel values is application code, and a journal must survive it.
fn guarded<T>(write: impl FnOnce() -> Result<T, serde_json::Error>) -> Result<T, serde_json::Error> {
    caught(write).unwrap_or_else(|_| Err(serde::ser::Error::custom("the `Serialize` of a value panicked")))
}

/// Counts the bytes written.
struct Count(u64);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Decodes the output of [`encode`], of this version or an earlier one.
///
/// # Errors
/// Returns [`JournalError::Newer`] for a later version, and [`JournalError::Damaged`] for anything else that is not a
/// record.
pub fn decode(thread: &str, position: LogPosition, text: &str) -> Result<Record, JournalError> {
    let damaged = |error: serde_json::Error| JournalError::damaged(thread, position, error);
    let Version { v: version } = serde_json::from_str(text).map_err(damaged)?;
    if version > RECORD_VERSION {
        return Err(JournalError::Newer { thread: thread.to_owned(), position, version });
    }
    serde_json::from_str(text).map_err(damaged)
}
