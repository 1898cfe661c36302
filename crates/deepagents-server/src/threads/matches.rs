//! Finds the threads that a search matches, reading only as much of the journal as needed.

use std::collections::VecDeque;

use deepagents_core::journal::{SortDirection, ThreadInfo, ThreadQuery, ThreadSort};
use serde_json::{Map, Value};

use super::page::{SortOrder, contains};
use super::record::{ThreadRecord, ThreadStatus, shown};
use super::search::{Search, SortBy};
use crate::app::App;
use crate::auth::{OWNER, caller, owns_thread};
use crate::error::{ApiError, Result};
use crate::ids;

/// Number of threads read at once.
const PAGE_THREADS: usize = 500;

/// Iterates over the threads that match a search, in the order of the journal closest to that of the search.
pub(super) struct Matches<'a> {
    app: &'a App,
    search: &'a Search,
    query: ThreadQuery,
    /// Threads that were read but not examined yet.
    read: VecDeque<ThreadInfo>,
    /// Whether the journal may have more threads.
    has_more: bool,
}

impl<'a> Matches<'a> {
    /// # Errors
    /// Returns an error if the search is invalid or the storage fails.
    pub(super) async fn new(app: &'a App, search: &'a Search) -> Result<Self> {
        let mut query = ThreadQuery::default().sorted(sort(search), direction(search)).limit(PAGE_THREADS);
        query.metadata = known_to_journal(search.metadata.as_ref());
        if let Some(caller) = caller().filter(|caller| !caller.is_admin()) {
            query.metadata.extend([caller.mark()]);
        }
        let mut matches = Self { app, search, query, read: VecDeque::new(), has_more: true };
        // An empty list does not filter.
        if let Some(ids) = search.ids.as_ref().filter(|ids| !ids.is_empty()) {
            matches.read = matches.named(ids).await?;
            matches.has_more = false;
        }
        Ok(matches)
    }

    /// Returns the listed threads, each once, in the order of the search.
    async fn named(&self, named: &[String]) -> Result<VecDeque<ThreadInfo>> {
        let check = |id: &String| ids::check("thread ID", id);
        let named = named.iter().map(check).collect::<Result<Vec<_>>>();
        let mut named = named.map_err(|error| ApiError::bad_request(error.to_string()))?;
        named.sort_unstable();
        named.dedup();
        let mut found = Vec::new();
        for id in &named {
            found.extend(self.app.journal.threads().get(id).await?);
        }
        found.sort_by(|a, b| self.query.compare(a, b));
        Ok(found.into())
    }

    /// Returns the next match, or `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<ThreadInfo>> {
        loop {
            while let Some(info) = self.read.pop_front() {
                if self.is_meant(&info).await? {
                    return Ok(Some(info));
                }
            }
            if !std::mem::take(&mut self.has_more) {
                return Ok(None);
            }
            let read = self.app.journal.threads().list(&self.query).await?;
            self.has_more = read.len() == PAGE_THREADS;
            self.query.after = read.last().map(Into::into);
            self.read = read.into();
        }
    }

    async fn is_meant(&self, info: &ThreadInfo) -> Result<bool> {
        let Search { metadata, status: wanted, values, .. } = self.search;
        let is_meant = owns_thread(info)
            && metadata.as_ref().is_none_or(|wanted| contains(&self.app.shown_metadata(info), wanted))
            && wanted.is_none_or(|wanted| ThreadRecord::read(info).status(self.app, info) == wanted);
        let Some(values) = values.as_ref().filter(|values| is_meant && !values.is_empty()) else { return Ok(is_meant) };
        let thread = shown(self.app, info, true).await?;
        Ok(thread.get("values").and_then(Value::as_object).is_some_and(|has| contains(has, values)))
    }
}

/// Returns the wanted metadata that the journal compares as clients expect. The threads that it finds are checked
/// against all of it.
fn known_to_journal(wanted: Option<&Map<String, Value>>) -> Map<String, Value> {
    let is_known = |(key, value): &(&String, &Value)| (value.is_string() || value.is_boolean()) && *key != OWNER;
    wanted.into_iter().flatten().filter(is_known).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn sort(search: &Search) -> ThreadSort {
    match search.sort_by.unwrap_or_default() {
        SortBy::ThreadId => ThreadSort::Id,
        SortBy::CreatedAt => ThreadSort::CreatedAt,
        SortBy::UpdatedAt | SortBy::StateUpdatedAt | SortBy::Status => ThreadSort::UpdatedAt,
    }
}

fn direction(search: &Search) -> SortDirection {
    match search.sort_order.unwrap_or_default() {
        SortOrder::Asc => SortDirection::Ascending,
        SortOrder::Desc => SortDirection::Descending,
    }
}

/// The place of a thread in an order that the journal does not have: by status, or by time.
type Rank = (Option<ThreadStatus>, String);

/// Returns at most the first `most` matches, in the order of the search.
pub(super) async fn first_of(app: &App, search: &Search, most: usize) -> Result<Vec<ThreadInfo>> {
    let mut matches = Matches::new(app, search).await?;
    let mut found = Vec::new();
    let rank: fn(&App, &ThreadInfo) -> Rank = match search.sort_by.unwrap_or_default() {
        SortBy::ThreadId | SortBy::CreatedAt | SortBy::UpdatedAt => {
            while found.len() < most
                && let Some(info) = matches.next().await?
            {
                found.push(info);
            }
            return Ok(found);
        }
        // The journal cannot sort by these two, so all matches are read, but no more kept than needed.
        SortBy::StateUpdatedAt => |_, info| (None, ThreadRecord::read(info).state_updated_at(info)),
        SortBy::Status => |app, info| (Some(ThreadRecord::read(info).status(app, info)), String::new()),
    };
    let mut ranked: Vec<(Rank, ThreadInfo)> = Vec::new();
    let shorten = |ranked: &mut Vec<(Rank, ThreadInfo)>| {
        // A stable sort: equal threads keep the order of the journal.
        ranked.sort_by(|(a, _), (b, _)| match direction(search) {
            SortDirection::Ascending => a.cmp(b),
            SortDirection::Descending => b.cmp(a),
        });
        ranked.truncate(most);
    };
    while let Some(info) = matches.next().await? {
        ranked.push((rank(app, &info), info));
        if ranked.len() >= most.saturating_mul(2).max(PAGE_THREADS) {
            shorten(&mut ranked);
        }
    }
    shorten(&mut ranked);
    Ok(ranked.into_iter().map(|(_, info)| info).collect())
}
