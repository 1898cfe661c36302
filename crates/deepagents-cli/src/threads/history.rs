//! `deepagents threads show --history`: the positions to which a thread can be rewound, and what led to each.

use std::ops::Range;

use anyhow::Result;
use deepagents::core::agent::ThreadAccess;
use deepagents::core::journal::{Checkpoint, CheckpointSource, Journal, Record, RecordUpdate, ThreadInfo};
use deepagents::core::message::{Author, Message, MessageOp};
use deepagents::core::state::{Channel, MessagesChannel};
use deepagents::fs::FileUndo;
use serde_json::{Value, json};

use crate::render::style::printable;
use crate::render::{json_text, tool_failure, tool_line};

/// Maximum length of a description in characters.
const MAX_CHARS: usize = 90;

/// Lists the positions to which the thread can be rewound, newest first.
pub(super) async fn history(
    threads: &ThreadAccess,
    journal: &dyn Journal,
    info: &ThreadInfo,
    as_json: bool,
) -> Result<String> {
    let checkpoints = threads.history(&info.id, None, usize::MAX).await?;
    let (mut list, mut lines) = (Vec::new(), Vec::new());
    for (at, checkpoint) in checkpoints.iter().enumerate() {
        let below = checkpoints.get(at + 1).map(|older| older.position);
        let what = describe_records(journal, &info.id, below.unwrap_or(0)..checkpoint.position).await?;
        if as_json {
            list.push(as_data(checkpoint, &what));
        } else if !what.is_empty() {
            // To a reader, the others do not differ from the position below.
            lines.push(line(checkpoint, below, &what));
        }
    }
    Ok(match (as_json, lines.is_empty()) {
        (true, _) => json_text(&list)?,
        (false, true) => format!("thread {} has no position to go back to", info.id),
        (false, false) => printable(&lines.join("\n")).into_owned(),
    })
}

fn as_data(checkpoint: &Checkpoint, what: &str) -> Value {
    json!({
        "position": checkpoint.position,
        "parent": checkpoint.parent,
        "at": checkpoint.at.to_string(),
        "run": checkpoint.run,
        "origin": checkpoint.origin,
        "what": what,
    })
}

/// Formats a checkpoint. Its parent is shown if it is neither the position below nor part of the description.
fn line(checkpoint: &Checkpoint, below: Option<u64>, what: &str) -> String {
    let parent =
        checkpoint.parent.filter(|parent| Some(*parent) != below && checkpoint.origin != CheckpointSource::Rewind);
    let parent = parent.map(|parent| format!("  (from {parent})")).unwrap_or_default();
    let at = checkpoint.at.strftime("%Y-%m-%d %H:%M:%SZ");
    format!("{:>6}  {at}  {what}{parent}", checkpoint.position).trim_end().to_owned()
}

/// Describes in one line what the records of a range did.
async fn describe_records(journal: &dyn Journal, thread: &str, range: Range<u64>) -> Result<String> {
    let mut parts: Vec<String> = Vec::new();
    for entry in journal.read(thread, range).await? {
        match entry.record {
            Record::Update { update } => parts.extend(describe_messages(&update)?),
            Record::StateUpdated { update, .. } => {
                let changed = entries(&update)?.into_iter().map(|(channel, _)| channel);
                let changed: Vec<String> = changed.filter(|channel| channel != FileUndo::NAME).collect();
                if !changed.is_empty() {
                    parts.push(format!("changed {}", changed.join(", ")));
                }
            }
            Record::ToolFinished { message, .. } => {
                let text = Message::Tool((*message).clone()).text();
                let failed = tool_failure(&message.name, message.is_error, &text).is_some();
                parts.push(format!("{} {}", if failed { '✗' } else { '✓' }, message.name));
            }
            Record::ToolInterrupted { .. } => parts.push("a call waits for a decision".to_owned()),
            Record::Rewind { to, .. } => parts.push(format!("went back to {to}")),
            Record::RunFinished { stop: None, .. } => parts.push("the run failed".to_owned()),
            _ => {}
        }
    }
    let text = parts.join("  ").replace(['\n', '\r'], " ");
    let mut short: String = text.chars().take(MAX_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    Ok(short)
}

/// Describes the messages of an update.
fn describe_messages(update: &RecordUpdate) -> Result<Vec<String>> {
    let mut parts = Vec::new();
    for (channel, change) in entries(update)? {
        if channel != MessagesChannel::NAME {
            continue;
        }
        for op in serde_json::from_value::<Vec<MessageOp>>(change)? {
            match op {
                MessageOp::Put(message) => parts.extend(one(&message)),
                MessageOp::Remove(_) => parts.push("removed a message".to_owned()),
                MessageOp::RemoveAll => parts.push("removed all messages".to_owned()),
                _ => {}
            }
        }
    }
    Ok(parts)
}

fn one(message: &Message) -> Vec<String> {
    let text = message.text();
    match message {
        Message::User(user) if user.author == Author::Harness => Vec::new(),
        Message::User(_) => vec![format!("> {}", text.trim())],
        Message::Assistant(answer) => {
            let text = (!text.trim().is_empty()).then(|| text.trim().to_owned());
            text.into_iter().chain(answer.tool_calls().map(|call| tool_line(&call.name, &call.args))).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns channels and their changes in their stored form.
pub(super) fn entries(update: &RecordUpdate) -> Result<Vec<(String, Value)>> {
    Ok(match update {
        RecordUpdate::Stored(entries) => entries.clone(),
        live => serde_json::from_value(serde_json::to_value(live)?)?,
    })
}
