//! Calls started on a branch of a log.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::agents::Pages;
use super::{Journal, JournalError, LogEntry, Record, RecordUpdate, read_intact};
use crate::ids::{CallId, LogPosition};
use crate::interrupt::{ActionRequestChange, ActionRequests, Decision};
use crate::state::Channel;

/// The channel with decisions.
const NAME: &str = ActionRequests::NAME;

/// Lists the calls that started between a position and the end of a thread's log, with the names of their tools: those
/// on the current branch, including those of sub-agents that share the log. A call that waits for a decision, or that a
/// person or a rule has rejected or answered, was not made and is excluded.
///
/// # Errors
/// Returns an error if the log cannot be read.
pub async fn calls_since(
    journal: &dyn Journal,
    thread: &str,
    from: LogPosition,
) -> Result<Vec<(CallId, String)>, JournalError> {
    let (mut begun, mut asked, mut rewinds) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    let mut unmade = BTreeSet::new();
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
                Record::Update { update }
                | Record::StateUpdated { update, .. }
                | Record::ToolFinished { update, .. } => {
                    unmade.extend(rejected(&update));
                }
                _ => {}
            }
        }
    }
    let (mut calls, mut known) = (Vec::new(), BTreeSet::new());
    for (first, end) in branch(&rewinds, from, end) {
        for (call, name) in begun.range(first..end).map(|(_, begun)| begun) {
            let is_made = !asked.contains(call) && !unmade.contains(&call.to_string());
            if is_made && known.insert(call.clone()) {
                calls.push((call.clone(), name.clone()));
            }
        }
    }
    Ok(calls)
}

/// Returns the ids of the calls that are not made by a decision in an update. What cannot be read decides nothing.
fn rejected(update: &RecordUpdate) -> Vec<String> {
    let changes: Vec<Value> = match update {
        RecordUpdate::Live(update) => {
            let own = update.entries().iter().filter(|entry| entry.spec().name() == NAME);
            own.filter_map(|entry| entry.to_json().ok()).collect()
        }
        RecordUpdate::Stored(entries) => {
            entries.iter().filter(|(channel, _)| channel == NAME).map(|(_, change)| change.clone()).collect()
        }
    };
    let changes =
        changes.into_iter().filter_map(|change| serde_json::from_value::<Vec<ActionRequestChange>>(change).ok());
    let unmade = changes.flatten().filter_map(|change| match change {
        ActionRequestChange::Decide(id, decided) => is_refusal(&decided.decision).then_some(id),
        ActionRequestChange::Decided(call, decided) => is_refusal(&decided.decision).then(|| call.to_string()),
        _ => None,
    });
    unmade.collect()
}

fn is_refusal(decision: &Decision) -> bool {
    matches!(decision, Decision::Reject { .. } | Decision::Respond { .. })
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
