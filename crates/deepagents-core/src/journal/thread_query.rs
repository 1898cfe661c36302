//! Which threads to list.

use serde_json::{Map, Value};

use super::ThreadInfo;
use crate::ids::ThreadId;
use crate::status::RunStatus;

/// Which threads to list.
///
/// ```
/// use deepagents_core::journal::{RunStatus, ThreadQuery};
/// let query = ThreadQuery::default().metadata("user", "ada").status(RunStatus::Open).limit(20);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadQuery {
    /// Only those whose name begins so.
    pub prefix: String,
    /// Only those whose metadata has all of these.
    pub metadata: Map<String, Value>,
    /// Only those with this status.
    pub status: Option<RunStatus>,
    /// Whose children.
    pub parent: ParentFilter,
    /// Only those that a worker may claim to go on with, the one that changed last at the end.
    pub claimable: bool,
    /// At most so many.
    pub limit: usize,
    /// Leaving out so many first.
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

/// Which threads to list, by their parents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ParentFilter {
    /// Threads without a parent.
    #[default]
    TopLevel,
    /// The children of this thread, without theirs.
    ChildrenOf(ThreadId),
    /// All threads.
    Any,
}

impl ParentFilter {
    /// Whether a thread with this parent is one of those.
    pub fn matches(&self, parent: Option<&str>) -> bool {
        match self {
            Self::TopLevel => parent.is_none(),
            Self::ChildrenOf(id) => parent == Some(id),
            Self::Any => true,
        }
    }
}

impl ThreadQuery {
    /// Only those whose name begins so.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Only those whose metadata has this.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Only those with this status.
    #[must_use]
    pub fn status(mut self, status: RunStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Only the children of this thread; without it, only threads that have no parent.
    #[must_use]
    pub fn parent(mut self, parent: impl Into<ThreadId>) -> Self {
        self.parent = ParentFilter::ChildrenOf(parent.into());
        self
    }

    /// Threads with and without a parent.
    #[must_use]
    pub fn any_parent(mut self) -> Self {
        self.parent = ParentFilter::Any;
        self
    }

    /// Only those that a worker may claim to go on with: their last run is open, or no run of theirs has begun, and
    /// nobody owns them (a lease that ran out counts for nothing). The one that changed last comes last.
    #[must_use]
    pub fn claimable(mut self) -> Self {
        self.claimable = true;
        self
    }

    /// At most so many.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Leaving out so many first.
    #[must_use]
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Whether a thread is one of those, limit and offset aside; a key that is missing counts as null.
    pub fn matches(&self, thread: &ThreadInfo) -> bool {
        let has = |(key, value): (&String, &Value)| thread.metadata.get(key).unwrap_or(&Value::Null) == value;
        thread.id.starts_with(&self.prefix)
            && self.status.is_none_or(|status| status == thread.status)
            && self.parent.matches(thread.parent.as_deref())
            && (!self.claimable || (thread.status.is_claimable() && thread.owner.is_none()))
            && self.metadata.iter().all(has)
    }
}
