//! Records as text, with versions.

use std::panic::AssertUnwindSafe;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{JournalError, Record};
use crate::ids::LogPosition;

/// Version of the JSON form of records. It grows when a field changes its meaning or goes away, not when one is added;
/// older forms are lifted to the present one as they are read.
///
/// Version 2: the todo list changes by items. The channel reads the lists of version 1 itself, so that nothing is lifted.
pub const RECORD_VERSION: u64 = 2;

/// Lifts a record of version `i` to `i + 1`; one for every version before the present.
type Lift = fn(&mut Map<String, Value>);
const LIFTS: [Lift; RECORD_VERSION as usize] = [
    // Before versions were noted, a record had the shape of version 1.
    |_record| {},
    // Changes of channels are the channels' own, and each reads its earlier forms.
    |_record| {},
];

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

/// A record as one line of JSON.
///
/// # Errors
/// When a value of the record cannot be written as JSON, also where its `Serialize` panics.
pub fn encode(record: &Record) -> Result<String, serde_json::Error> {
    guarded(|| serde_json::to_string(&Versioned { v: RECORD_VERSION, record }))
}

/// How long [`encode`] would make a record, in bytes.
pub(super) fn encoded_len(record: &Record) -> Result<u64, serde_json::Error> {
    let mut count = Count(0);
    guarded(|| serde_json::to_writer(&mut count, &Versioned { v: RECORD_VERSION, record }))?;
    Ok(count.0)
}

/// Values of channels are the application's, and so is what their `Serialize` does: a journal must outlive it.
fn guarded<T>(write: impl FnOnce() -> Result<T, serde_json::Error>) -> Result<T, serde_json::Error> {
    let written = std::panic::catch_unwind(AssertUnwindSafe(write));
    written.unwrap_or_else(|_| Err(serde::ser::Error::custom("the `Serialize` of a value panicked")))
}

/// Counts the bytes that are written.
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

/// Reads what [`encode`] wrote, in this version or an earlier one.
///
/// # Errors
/// [`JournalError::Newer`] for a later version, [`JournalError::Damaged`] for anything else that is no record.
pub fn decode(thread: &str, position: LogPosition, text: &str) -> Result<Record, JournalError> {
    let damaged = |error: serde_json::Error| JournalError::Damaged {
        thread: thread.to_owned(),
        position,
        reason: error.to_string(),
    };
    let Version { v: version } = serde_json::from_str(text).map_err(damaged)?;
    if version == RECORD_VERSION {
        return serde_json::from_str(text).map_err(damaged);
    }
    if version > RECORD_VERSION {
        return Err(JournalError::Newer { thread: thread.to_owned(), position, version });
    }
    let mut fields: Map<String, Value> = serde_json::from_str(text).map_err(damaged)?;
    for lift in LIFTS.iter().skip(usize::try_from(version).unwrap_or(usize::MAX)) {
        lift(&mut fields);
    }
    Record::deserialize(Value::Object(fields)).map_err(damaged)
}
