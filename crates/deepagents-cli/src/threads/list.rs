//! `deepagents threads list`.

use anyhow::Result;
use deepagents::core::env::Timestamp;
use deepagents::core::journal::{Journal, RunStatus, ThreadInfo, ThreadQuery};
use serde_json::{Value, json};

use crate::render::style::first_line;

/// Threads, as lines or as JSON.
pub(super) async fn list(journal: &dyn Journal, limit: u32, as_json: bool) -> Result<String> {
    let limit = usize::try_from(limit)?;
    let mut threads = journal.threads().list(&ThreadQuery::default().limit(limit.saturating_add(1))).await?;
    let cut = threads.len() > limit;
    threads.truncate(limit);
    if as_json {
        return Ok(serde_json::to_string_pretty(&threads.iter().map(info).collect::<Vec<_>>())?);
    }
    if threads.is_empty() {
        return Ok("there are no threads yet".to_owned());
    }
    let now = Timestamp::now();
    let lines = threads.iter().map(|thread| {
        let (age, standing, title) = (age(now, thread.updated_at), standing(thread), title(thread));
        format!("{:<8}  {age:>4}  {standing:<11}  {title}", thread.id)
    });
    let more = cut.then(|| "… and more; --limit says how many are shown".to_owned());
    Ok(lines.chain(more).collect::<Vec<_>>().join("\n"))
}

/// A thread as JSON.
pub(super) fn info(thread: &ThreadInfo) -> Value {
    let mut info = json!({
        "id": thread.id,
        "status": standing(thread),
        "end": thread.end,
        "metadata": thread.metadata,
        "created_at": thread.created_at.to_string(),
        "updated_at": thread.updated_at.to_string(),
        "bytes": thread.bytes,
    });
    if let (Some(damage), Some(fields)) = (&thread.damage, info.as_object_mut()) {
        fields.insert("damage".to_owned(), Value::from(damage.as_str()));
    }
    info
}

/// How a thread stands, in a word.
pub(super) fn standing(thread: &ThreadInfo) -> &'static str {
    match (thread.status, &thread.owner) {
        _ if thread.damage.is_some() => "damaged",
        (RunStatus::Open, Some(_)) => "running",
        (RunStatus::Open, None) => "interrupted",
        (status, _) => status.as_str(),
    }
}

/// What a thread is about.
pub(super) fn title(thread: &ThreadInfo) -> String {
    if let Some(damage) = &thread.damage {
        return first_line(damage, 200);
    }
    first_line(thread.metadata.get("title").and_then(Value::as_str).unwrap_or_default(), 80)
}

/// `12s`, `5m`, `3h`, `4d`.
fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
