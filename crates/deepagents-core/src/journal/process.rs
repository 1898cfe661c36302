//! Identifies the process that works on a thread.

use serde_json::{Map, Value};

use super::ThreadInfo;

/// Identifies a process, so that the threads of a killed process become free at once and not only when its leases
/// expire.
///
/// ```
/// use deepagents_core::journal::{ProcessIdentity, ThreadInfo};
/// use serde_json::{Map, Value, json};
///
/// /// Workers have numbers, and a supervisor knows which of them live.
/// struct Worker { number: u64, is_alive: fn(u64) -> bool }
///
/// impl ProcessIdentity for Worker {
///     fn metadata(&self) -> Map<String, Value> {
///         Map::from_iter([("worker".to_owned(), json!(self.number))])
///     }
///
///     fn is_gone(&self, thread: &ThreadInfo) -> bool {
///         let worker = thread.metadata.get("worker").and_then(Value::as_u64);
///         worker.is_some_and(|number| !(self.is_alive)(number))
///     }
/// }
/// ```
pub trait ProcessIdentity: Send + Sync + 'static {
    /// Returns the metadata that identifies this process on each thread it works on.
    fn metadata(&self) -> Map<String, Value>;

    /// Returns whether the owner of a thread is known to be gone. Called only for threads whose metadata is from their
    /// [current owner](ThreadInfo::is_noted_by_owner). Must not block.
    fn is_gone(&self, thread: &ThreadInfo) -> bool;
}
