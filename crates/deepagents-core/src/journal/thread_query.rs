//! Queries for listing threads.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::ThreadInfo;
use crate::env::Timestamp;
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
    /// Only those that a worker may claim to go on with.
    pub claimable: bool,
    /// By what they are sorted. Those that are equal in it come in the order of their names.
    pub sort: ThreadSort,
    /// From which end they are sorted.
    pub direction: SortDirection,
    /// Only those that come after this place in that order.
    pub after: Option<ThreadCursor>,
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
            sort: ThreadSort::default(),
            direction: SortDirection::default(),
            after: None,
            limit: usize::MAX,
            offset: 0,
        }
    }
}

/// By what threads are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadSort {
    /// When their log or metadata changed last.
    #[default]
    UpdatedAt,
    /// When they began.
    CreatedAt,
    /// Their names.
    Id,
}

/// From which end threads are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortDirection {
    /// The earliest first, or the names from their beginning.
    Ascending,
    /// The latest first, or the names from their end.
    #[default]
    Descending,
}

/// A thread's place in every order, from which a listing is gone on with. See [`ThreadQuery::after`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadCursor {
    /// The thread.
    pub id: ThreadId,
    /// When the task was created.
    pub created_at: Timestamp,
    /// When it had changed last.
    pub updated_at: Timestamp,
}

impl From<&ThreadInfo> for ThreadCursor {
    fn from(thread: &ThreadInfo) -> Self {
        Self { id: thread.id.clone(), created_at: thread.created_at, updated_at: thread.updated_at }
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
    /// Only threads whose name has this prefix.
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

    /// Only threads with this status.
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

    /// Only those that a worker may claim to go on with: their last run is open, or no run of theirs has begun, and
    /// nobody owns them (a lease that ran out counts for nothing). The one that changed last comes last, unless another
    /// order is said after this.
    #[must_use]
    pub fn claimable(mut self) -> Self {
        self.claimable = true;
        self.sorted(ThreadSort::UpdatedAt, SortDirection::Ascending)
    }

    /// In this order; without it the one that changed last comes first.
    #[must_use]
    pub fn sorted(mut self, sort: ThreadSort, direction: SortDirection) -> Self {
        (self.sort, self.direction) = (sort, direction);
        self
    }

    /// Only those that come after a thread in the order of the query: the last one of a page leads to the next page.
    /// Pages cost the same wherever they are, which those of an offset do not. A thread that changes meanwhile has
    /// another place.
    #[must_use]
    pub fn after(mut self, last: impl Into<ThreadCursor>) -> Self {
        self.after = Some(last.into());
        self
    }

    /// Maximum number of threads.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Number of threads to skip.
    #[must_use]
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Which of two threads comes first.
    pub fn compare(&self, a: &ThreadInfo, b: &ThreadInfo) -> Ordering {
        self.order((&a.id, a.created_at, a.updated_at), (&b.id, b.created_at, b.updated_at))
    }

    fn order(&self, a: (&str, Timestamp, Timestamp), b: (&str, Timestamp, Timestamp)) -> Ordering {
        let (by_sort, by_name) = match self.sort {
            ThreadSort::UpdatedAt => (a.2.cmp(&b.2), a.0.cmp(b.0)),
            ThreadSort::CreatedAt => (a.1.cmp(&b.1), a.0.cmp(b.0)),
            ThreadSort::Id => (a.0.cmp(b.0), Ordering::Equal),
        };
        match self.direction {
            SortDirection::Ascending => by_sort.then(by_name),
            SortDirection::Descending => by_sort.reverse().then(by_name),
        }
    }

    /// Returns whether a thread matches, apart from limit and offset. A missing metadata key counts as null.
    pub fn matches(&self, thread: &ThreadInfo) -> bool {
        let has = |(key, value): (&String, &Value)| thread.metadata.get(key).unwrap_or(&Value::Null) == value;
        let place = (thread.id.as_str(), thread.created_at, thread.updated_at);
        let is_after =
            |after: &ThreadCursor| self.order(place, (&after.id, after.created_at, after.updated_at)).is_gt();
        thread.id.starts_with(&self.prefix)
            && self.status.is_none_or(|status| status == thread.status)
            && self.parent.matches(thread.parent.as_deref())
            && (!self.claimable || (thread.status.is_claimable() && thread.owner.is_none()))
            && self.after.as_ref().is_none_or(is_after)
            && self.metadata.iter().all(has)
    }
}
