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
    /// Only threads that a worker may claim.
    pub claimable: bool,
    /// The sort key. Threads with equal keys are sorted by name.
    pub sort: ThreadSort,
    /// The sort direction.
    pub direction: SortDirection,
    /// Only threads after this place in the order.
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

/// The sort key of a thread listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadSort {
    /// The last change of the log or metadata.
    #[default]
    UpdatedAt,
    /// The creation time.
    CreatedAt,
    /// The thread's id, as text.
    Id,
}

/// The direction of a thread listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortDirection {
    /// The earliest or the alphabetically first thread comes first.
    Ascending,
    /// The latest or the alphabetically last thread comes first.
    #[default]
    Descending,
}

/// The place of a thread in every order, from which a listing continues. See [`ThreadQuery::after`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadCursor {
    /// The name of the thread.
    pub id: ThreadId,
    /// When the thread was created.
    pub created_at: Timestamp,
    /// When the thread last changed.
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

    /// Only threads that a worker may claim: their last run is open, or no run has started, and they have no owner (an
    /// expired lease does not count). The most recently changed thread comes last, unless a later call sets another
    /// order.
    #[must_use]
    pub fn claimable(mut self) -> Self {
        self.claimable = true;
        self.sorted(ThreadSort::UpdatedAt, SortDirection::Ascending)
    }

    /// Sets the order. By default, the most recently changed thread comes first.
    #[must_use]
    pub fn sorted(mut self, sort: ThreadSort, direction: SortDirection) -> Self {
        (self.sort, self.direction) = (sort, direction);
        self
    }

    /// Only threads after this one in the order of the query: pass the last thread of a page to get the next page.
    /// Unlike with an offset, every page costs the same. A thread that changes between pages moves in the order.
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

    /// Compares two threads in the order of the query.
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
