//! Queries for listing threads.

use serde_json::{Map, Value};

use super::ThreadInfo;
use crate::ids::ThreadId;
use crate::status::RunStatus;

/// A query for listing threads.
///
/// ```
/// use deepagents_core::journal::{RunStatus, ThreadQuery};
/// let query = ThreadQuery::default().metadata("user", "ada").status(RunStatus::Open).limit(20);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadQuery {
    /// Only threads whose name has this prefix.
    pub prefix: String,
    /// Only threads whose metadata has all these values.
    pub metadata: Map<String, Value>,
    /// Only threads with this status.
    pub status: Option<RunStatus>,
    /// Only threads with this kind of parent.
    pub parent: ParentFilter,
    /// Only threads that a worker may claim, with the most recently changed last.
    pub claimable: bool,
    /// Maximum number of threads.
    pub limit: usize,
    /// Number of threads to skip.
    pub offset: usize,
}

impl Default for ThreadQuery {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            metadata: Map::new(),
            status: None,
            parent: ParentFilter::default(),
            claimable: false,
            limit: usize::MAX,
            offset: 0,
        }
    }
}

/// Selects threads by their parents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ParentFilter {
    /// Threads without a parent.
    #[default]
    TopLevel,
    /// The direct children of this thread.
    ChildrenOf(ThreadId),
    /// All threads.
    Any,
}

impl ParentFilter {
    /// Returns whether a thread with this parent is selected.
    pub fn matches(&self, parent: Option<&str>) -> bool {
        match self {
            Self::TopLevel => parent.is_none(),
            Self::ChildrenOf(id) => parent == Some(id),
            Self::Any => true,
        }
    }
}

impl ThreadQuery {
    /// Selects threads whose name has this prefix.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Selects threads whose metadata has this value.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Selects threads with this status.
    #[must_use]
    pub fn status(mut self, status: RunStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Selects the children of this thread. By default, only threads without a parent are selected.
    #[must_use]
    pub fn parent(mut self, parent: impl Into<ThreadId>) -> Self {
        self.parent = ParentFilter::ChildrenOf(parent.into());
        self
    }

    /// Selects threads with and without a parent.
    #[must_use]
    pub fn any_parent(mut self) -> Self {
        self.parent = ParentFilter::Any;
        self
    }

    /// Selects threads that a worker may claim: their last run is open, or they have had no run, and they have no owner
    /// (one with an expired lease does not count). The most recently changed thread comes last.
    #[must_use]
    pub fn claimable(mut self) -> Self {
        self.claimable = true;
        self
    }

    /// Sets the maximum number of threads.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the number of threads to skip.
    #[must_use]
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Returns whether a thread matches, apart from limit and offset. A missing metadata key counts as null.
    pub fn matches(&self, thread: &ThreadInfo) -> bool {
        let has = |(key, value): (&String, &Value)| thread.metadata.get(key).unwrap_or(&Value::Null) == value;
        thread.id.starts_with(&self.prefix)
            && self.status.is_none_or(|status| status == thread.status)
            && self.parent.matches(thread.parent.as_deref())
            && (!self.claimable || (thread.status.is_claimable() && thread.owner.is_none()))
            && self.metadata.iter().all(has)
    }
}
