//! Whose a thing is.
//!
//! Who calls is known wherever a request is worked on. What runs on its own, such as a run that was accepted, is the server
//! itself and sees everything.

use std::future::Future;
use std::sync::Arc;

use deepagents_core::journal::ThreadInfo;
use serde_json::{Map, Value, json};

use super::{Identity, LimitTable};

/// Under which key of a thread's metadata its owner is kept.
pub(crate) const OWNER: &str = "deepagents_owner";

tokio::task_local! {
    pub(crate) static CALLER: Option<Arc<Identity>>;
}

/// Who calls; none where nobody is asked, and for the server itself.
pub(crate) fn caller() -> Option<Arc<Identity>> {
    CALLER.try_with(Clone::clone).ok().flatten()
}

/// Does something as who once asked for it.
pub(crate) async fn as_owner<T>(owner: Option<&str>, limits: &LimitTable, what: impl Future<Output = T>) -> T {
    let identity = owner.map(|owner| Arc::new(Identity::new(owner).limits(limits.of(owner))));
    CALLER.scope(identity, what).await
}

/// The owner that metadata name.
pub(crate) fn owner_of(metadata: &Map<String, Value>) -> Option<&str> {
    metadata.get(OWNER).and_then(Value::as_str)
}

/// Whether what belongs to somebody is there for who calls. What belongs to nobody was made before anybody was asked, and is
/// there for an administrator.
pub(crate) fn owns(owner: Option<&str>) -> bool {
    caller().is_none_or(|caller| caller.is_admin() || owner == Some(caller.id()))
}

impl Identity {
    /// What is put into the metadata of what they make.
    pub(crate) fn mark(&self) -> (String, Value) {
        (OWNER.to_owned(), json!(self.id()))
    }
}

/// Whether a thread is there for who calls.
pub(crate) fn owns_thread(info: &ThreadInfo) -> bool {
    owns(owner_of(&info.metadata))
}
