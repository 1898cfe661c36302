//! Ownership checks.
//!
//! The caller is known throughout the handling of a request. Background work, such as an accepted run, acts as the
//! server itself and sees everything.

use std::future::Future;
use std::sync::Arc;

use deepagents_core::journal::ThreadInfo;
use serde_json::{Map, Value, json};

use super::{Identity, LimitTable};
use crate::app::App;

/// Key in a thread's metadata that holds its owner.
pub(crate) const OWNER: &str = "deepagents_owner";

tokio::task_local! {
    pub(crate) static CALLER: Option<Arc<Identity>>;
}

/// Returns the caller. `None` if authentication is off, and for the server itself.
pub(crate) fn caller() -> Option<Arc<Identity>> {
    CALLER.try_with(Clone::clone).ok().flatten()
}

/// Returns the id of the caller, which owns what the caller creates.
pub(crate) fn caller_id() -> Option<String> {
    caller().map(|caller| caller.id().to_owned())
}

/// Runs a future as the owner who requested the work.
pub(crate) async fn as_owner<T>(owner: Option<&str>, limits: &LimitTable, what: impl Future<Output = T>) -> T {
    let identity = owner.map(|owner| Arc::new(Identity::new(owner).limits(limits.of(owner))));
    CALLER.scope(identity, what).await
}

/// Returns the owner named in metadata.
pub(crate) fn owner_of(metadata: &Map<String, Value>) -> Option<&str> {
    metadata.get(OWNER).and_then(Value::as_str)
}

/// Whether the caller may see something with this owner. Things without an owner were created before authentication was
/// on and are visible to administrators.
pub(crate) fn owns(owner: Option<&str>) -> bool {
    caller().is_none_or(|caller| caller.is_admin() || owner == Some(caller.id()))
}

impl Identity {
    /// Returns the metadata entry that marks what the caller creates.
    pub(crate) fn mark(&self) -> (String, Value) {
        (OWNER.to_owned(), json!(self.id()))
    }
}

/// Whether the caller may see a thread.
pub(crate) fn owns_thread(info: &ThreadInfo) -> bool {
    owns(owner_of(&info.metadata))
}

/// The caller of a request whose response continues after the handler has returned.
#[derive(Debug)]
pub(crate) struct Reader(Option<Arc<Identity>>);

impl Reader {
    pub(crate) fn current() -> Self {
        Self(caller())
    }

    /// Whether the reader may still read a thread, which may have been deleted and created by another owner since.
    pub(crate) async fn may_read(&self, app: &App, thread: &str) -> bool {
        let Some(identity) = &self.0 else { return true };
        // If the storage fails, the reader is told to come back by the end of the stream.
        let info = app.journal.threads().get(thread).await.ok().flatten();
        CALLER.sync_scope(Some(identity.clone()), || info.is_some_and(|info| owns_thread(&info)))
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.0.is_some()
    }
}
