//! Which process works on a thread, as far as others can tell.

use serde_json::{Map, Value};

use super::ThreadInfo;

/// What tells a process from others, so that threads whose process was killed are free at once and not only when its
/// lease has run out.
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
    /// What each thread says of its owner while this process works on it, in its metadata.
    fn metadata(&self) -> Map<String, Value>;

    /// Whether the owner of a thread is known to be gone. It is asked only about a thread whose metadata are of its
    /// [owner of now](ThreadInfo::is_noted_by_owner), and must not block.
    fn is_gone(&self, thread: &ThreadInfo) -> bool;
}
