//! The sub-agents of a thread and their states.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::{ChildLog, Journal, JournalError, LogEntry, Record, Replay, ReplayedState, load_replay, read_intact};
use crate::ids::LogPosition;
use crate::state::Schema;
use crate::status::RunStatus;

/// Number of entries read at once.
const PAGE: u64 = 1_000;

/// A sub-agent of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubAgentInfo {
    /// The path in the tree of agents.
    pub path: Vec<String>,
    /// Its name.
    pub agent: String,
    /// The status of its last run.
    pub status: RunStatus,
    /// The position of its first record.
    pub start: LogPosition,
    /// The values it [recorded](crate::agent::ChildScope::record), by key.
    pub recorded: BTreeMap<String, Value>,
}

/// Lists the sub-agents that ran as part of a thread, in the order in which they started. Excludes sub-agents whose
/// start was pruned, and background agents, which have their own threads. Unreadable records are skipped.
///
/// # Errors
/// Returns an error if the log cannot be read.
pub async fn sub_agents(journal: &dyn Journal, thread: &str) -> Result<Vec<SubAgentInfo>, JournalError> {
    let mut found: BTreeMap<Vec<String>, SubAgentInfo> = BTreeMap::new();
    for page in Pages::from(journal, thread, 0).await? {
        for LogEntry { position, record, .. } in read_intact(journal, thread, page).await? {
            let Record::Child { path, entry } = record else { continue };
            if let Record::AgentStarted { agent, .. } = *entry {
                let (status, recorded) = (RunStatus::Open, BTreeMap::new());
                found.insert(path.clone(), SubAgentInfo { path, agent, status, start: position, recorded });
            } else if let Some(info) = found.get_mut(&path) {
                info.status = info.status.after([&*entry]);
                if let Record::ValueRecorded { key, value } = *entry {
                    info.recorded.insert(key, value);
                }
            }
        }
    }
    let mut found: Vec<SubAgentInfo> = found.into_values().collect();
    found.sort_by_key(|info| info.start);
    Ok(found)
}

/// Returns the state of a sub-agent of a thread at the end of the log. Channels that are not in the schema are left
/// out.
///
/// # Errors
/// Returns [`JournalError::NoAgent`] if the log has no sub-agent at that path, and an error if the log cannot be read.
pub async fn load_sub_agent(
    journal: &dyn Journal,
    thread: &str,
    schema: Arc<Schema>,
    path: &[String],
) -> Result<ReplayedState, JournalError> {
    let missing = || JournalError::NoAgent { thread: thread.to_owned(), path: path.join("/") };
    let Some((first, deeper)) = path.split_first() else { return Err(missing()) };
    let mut start = None;
    let mut records: Vec<(LogPosition, Record)> = Vec::new();
    for page in Pages::from(journal, thread, 0).await? {
        for LogEntry { position, record, .. } in journal.read(thread, page).await? {
            match record {
                Record::Child { path, entry } if path.first() == Some(first) => {
                    if path.len() == 1 && matches!(*entry, Record::AgentStarted { .. }) {
                        start = Some(position);
                        records.clear();
                    } else if path.len() == 1 {
                        records.push((position, *entry));
                    } else {
                        records.push((position, Record::Child { path, entry }));
                    }
                }
                // Records from the target of the rewind onwards are no longer on this branch.
                Record::Rewind { to, .. } => records.retain(|(position, _)| *position < to),
                _ => {}
            }
        }
    }
    let start = start.ok_or_else(missing)?;
    let mut above = load_replay(journal, thread, schema.clone(), Some(start + 1)).await?.replay;
    let mut child = above.children.remove(&vec![first.clone()]).ok_or_else(missing)?;
    records.into_iter().for_each(|(_, record)| child.push(record));
    for depth in 0..deeper.len() {
        let below = path.get(..depth + 2).unwrap_or_default();
        child = child.below(thread, schema.clone(), below)?.ok_or_else(missing)?;
    }
    child.replay(thread, schema)?.0.settled(thread)
}

impl ChildLog {
    /// Returns the log of a sub-agent of this one.
    fn below(mut self, thread: &str, schema: Arc<Schema>, path: &[String]) -> Result<Option<Self>, JournalError> {
        let is_start = |record: &Record| {
            matches!(record, Record::Child { path: own, entry }
                if own == path && matches!(**entry, Record::AgentStarted { .. }))
        };
        let Some(start) = self.records.iter().rposition(is_start) else { return Ok(None) };
        let later = self.records.split_off(start + 1);
        let mut replay: Replay = self.replay(thread, schema)?.0;
        let Some(mut child) = replay.children.remove(path) else { return Ok(None) };
        for record in later {
            match record {
                Record::Child { path: own, entry } if own == path => child.push(*entry),
                Record::Child { path: own, entry } if own.starts_with(path) => {
                    child.push(Record::Child { path: own, entry });
                }
                _ => {}
            }
        }
        Ok(Some(child))
    }
}

/// An iterator over the pages of a log.
pub(super) struct Pages {
    pub(super) next: LogPosition,
    pub(super) end: LogPosition,
}

impl Pages {
    /// The pages from a position onwards.
    pub(super) async fn from(journal: &dyn Journal, thread: &str, next: LogPosition) -> Result<Self, JournalError> {
        let end = journal.threads().get(thread).await?.map_or(0, |info| info.end);
        Ok(Self { next, end })
    }
}

impl Iterator for Pages {
    type Item = Range<LogPosition>;

    fn next(&mut self) -> Option<Range<LogPosition>> {
        let page = self.next..self.end.min(self.next + PAGE);
        self.next = page.end;
        (!page.is_empty()).then_some(page)
    }
}
