//! Lists threads in any order, from any place in it.

use std::ops::ControlFlow;

use deepagents_core::env::Timestamp;
use deepagents_core::journal::{
    JournalError, ParentFilter, RunStatus, SortDirection, ThreadCursor, ThreadInfo, ThreadQuery, ThreadSort,
};

use crate::convert::Page;
use crate::error::DatabaseError;
use crate::executor::{Executor, Param};
use crate::row::Row;
use crate::statement::Statement;
use crate::thread_row::ThreadRow;

/// The statements of a listing, one for each order. The listing starts after the name `$7` and, for orders by time, the
/// time `$8`.
struct Listing {
    updated: Directions,
    created: Directions,
    id: Directions,
}

struct Directions {
    ascending: Statement,
    descending: Statement,
}

macro_rules! list {
    ($which:literal, $after:literal, $order:literal) => {
        Statement::new(concat!(
            "SELECT {thread} FROM thread WHERE ",
            $which,
            " AND {listed} AND ",
            $after,
            " ORDER BY ",
            $order,
            " LIMIT $6"
        ))
    };
}

/// For conditions with their own index, which finds few threads: these are sorted. The sort keys are chosen so that the
/// planner does not walk the index of an order instead.
macro_rules! sort {
    ($which:literal) => {
        Listing {
            updated: Directions {
                ascending: list!($which, "{after time asc}", "updated_at, id"),
                descending: list!($which, "{after time desc}", "updated_at DESC, id"),
            },
            created: Directions {
                ascending: list!($which, "{after start asc}", "+created_at, id"),
                descending: list!($which, "{after start desc}", "+created_at DESC, id"),
            },
            id: Directions {
                ascending: list!($which, "id > $7", "id"),
                descending: list!($which, "id < $7", "id DESC"),
            },
        }
    };
}

/// Each order has an index, which is read only as far as threads are wanted.
static LIST: Listing = Listing {
    updated: Directions {
        ascending: list!(
            "{top level} AND minute >= CAST($8 AS bigint) / 60000",
            "{after time asc}",
            "minute, updated_at, id"
        ),
        descending: list!(
            "{top level} AND minute <= CAST($8 AS bigint) / 60000",
            "{after time desc}",
            "minute DESC, updated_at DESC, id"
        ),
    },
    created: Directions {
        ascending: list!("{top level} AND created_at >= CAST($8 AS bigint)", "{after start asc}", "created_at, id"),
        descending: list!(
            "{top level} AND created_at <= CAST($8 AS bigint)",
            "{after start desc}",
            "created_at DESC, id"
        ),
    },
    id: Directions {
        ascending: list!("{top level}", "id > $7", "id"),
        descending: list!("{top level}", "id < $7", "id DESC"),
    },
};
/// Uses the index of claimable threads.
static LIST_CLAIMABLE: Listing = sort!("status IN ('empty', 'open') AND lease_until <= {now} AND {by parent}");
static LIST_CHILDREN: Listing = sort!("parent = $5 AND {by parent}");

impl Listing {
    fn sorted(&self, sort: ThreadSort, direction: SortDirection) -> &Statement {
        let directions = match sort {
            ThreadSort::UpdatedAt => &self.updated,
            ThreadSort::CreatedAt => &self.created,
            ThreadSort::Id => &self.id,
        };
        match direction {
            SortDirection::Ascending => &directions.ascending,
            SortDirection::Descending => &directions.descending,
        }
    }
}

/// Returns the name and the time after which a listing starts. Without a cursor, they precede all threads.
fn place(query: &ThreadQuery) -> (String, i64) {
    let time = |of: fn(&ThreadCursor) -> Timestamp| match (&query.after, query.direction) {
        (Some(after), _) => of(after).as_millisecond(),
        (None, SortDirection::Ascending) => i64::MIN,
        (None, SortDirection::Descending) => i64::MAX,
    };
    let id = match (&query.after, query.sort, query.direction) {
        (Some(after), ..) => after.id.clone(),
        // No name sorts after 512 bytes of the last character.
        (None, ThreadSort::Id, SortDirection::Descending) => char::MAX.to_string().repeat(128),
        (None, ..) => String::new(),
    };
    let time = match query.sort {
        ThreadSort::CreatedAt => time(|after| after.created_at),
        ThreadSort::UpdatedAt | ThreadSort::Id => time(|after| after.updated_at),
    };
    (id, time)
}

pub(crate) async fn list(db: &dyn Executor, query: ThreadQuery) -> Result<Vec<ThreadInfo>, JournalError> {
    let mut page = Page::new(query.offset, query.limit);
    let (any, parent) = match &query.parent {
        ParentFilter::TopLevel => (0_i64, None),
        ParentFilter::ChildrenOf(parent) => (0, Some(parent.as_str())),
        ParentFilter::Any => (1, None),
    };
    let (after, time) = place(&query);
    // No thread has such a name, and Postgres text cannot contain NUL.
    if [query.prefix.as_str(), parent.unwrap_or_default(), &after].iter().any(|name| name.contains('\0')) {
        return Ok(page.items);
    }
    let listing = match &query.parent {
        _ if query.claimable => &LIST_CLAIMABLE,
        ParentFilter::ChildrenOf(_) => &LIST_CHILDREN,
        _ => &LIST,
    };
    // Metadata is filtered here, so the database cannot apply the limit.
    let enough = if query.metadata.is_empty() { query.limit.saturating_add(query.offset) } else { usize::MAX };
    let enough = i64::try_from(enough).unwrap_or(i64::MAX);
    let status = query.status.map(RunStatus::as_str);
    let by_name: [&dyn Param; 7] = [&db.now(), &status, &query.prefix, &any, &parent, &enough, &after];
    let by_time: [&dyn Param; 8] = [&db.now(), &status, &query.prefix, &any, &parent, &enough, &after, &time];
    let values = if query.sort == ThreadSort::Id { by_name.as_slice() } else { by_time.as_slice() };
    let mut visit = |row: Row| -> Result<_, DatabaseError> {
        let info = ThreadRow::read_damaged(row)?.info();
        Ok(if query.matches(&info) { page.push(info) } else { ControlFlow::Continue(()) })
    };
    db.scan(listing.sorted(query.sort, query.direction), values, &mut visit).await?;
    Ok(page.items)
}
