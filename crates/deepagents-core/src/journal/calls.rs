//! Calls started on a branch of a log.

use std::collections::{BTreeMap, BTreeSet};

use super::agents::Pages;
use super::{Journal, JournalError, LogEntry, Record, read_intact};
use crate::ids::{CallId, LogPosition};

/// Lists the calls that started between a position and the end of a thread's log, with the names of their tools: those
/// on the current branch, including those of sub-agents that share the log. A call that waits for a decision has had no
/// effect and is excluded.
///
/// # Errors
/// Returns an error if the log cannot be read.
pub async fn calls_since(
    journal: &dyn Journal,
    thread: &str,
    from: LogPosition,
) -> Result<Vec<(CallId, String)>, JournalError> {
    let (mut begun, mut asked, mut rewinds) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    let mut end = from;
    for page in Pages::from(journal, thread, from).await? {
        end = page.end;
        for LogEntry { position, record, .. } in read_intact(journal, thread, page).await? {
            let record = match record {
                Record::Child { entry, .. } => *entry,
                Record::Rewind { to, .. } => {
                    rewinds.push((position, to));
                    continue;
                }
                own => own,
            };
            match record {
                Record::ToolStarted { call, name, .. } => {
                    asked.remove(&call);
                    begun.insert(position, (call, name));
                }
                Record::ToolInterrupted { call } => drop(asked.insert(call)),
                _ => {}
            }
        }
    }
    let (mut calls, mut known) = (Vec::new(), BTreeSet::new());
    for (first, end) in branch(&rewinds, from, end) {
        for (call, name) in begun.range(first..end).map(|(_, begun)| begun) {
            if !asked.contains(call) && known.insert(call.clone()) {
                calls.push((call.clone(), name.clone()));
            }
        }
    }
    Ok(calls)
}

/// Returns the segments of a log that form the current branch, latest first and not before `from`. Each ends where the
/// segment before it in this list was rewound to.
fn branch(
    rewinds: &[(LogPosition, LogPosition)],
    from: LogPosition,
    mut end: LogPosition,
) -> Vec<(LogPosition, LogPosition)> {
    let mut parts = Vec::new();
    for (at, to) in rewinds.iter().rev() {
        if *at < end {
            parts.push((*at, end));
            end = *to;
        }
    }
    parts.extend((from < end).then_some((from, end)));
    parts
}
