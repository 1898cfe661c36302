//! `deepagents threads list`.

use anyhow::Result;
use deepagents::core::env::Timestamp;
use deepagents::core::journal::{Journal, RunStatus, ThreadInfo, ThreadQuery};
use serde_json::{Value, json};

use super::database::tasks_of;
use crate::render::json_text;
use crate::render::style::first_line;
use crate::run::is_gone;

/// Which threads are listed.
pub(super) enum Scope {
    /// Threads that are not background tasks, with their background tasks below them.
    TopLevel,
    /// The background tasks of a thread.
    TasksOf(String),
    /// All threads, background tasks included.
    All,
}

/// Lists threads, as lines or as JSON.
pub(super) async fn list(journal: &dyn Journal, scope: &Scope, limit: u32, as_json: bool) -> Result<String> {
    let limit = usize::try_from(limit)?;
    let query = ThreadQuery::default().limit(limit.saturating_add(1));
    let query = match scope {
        Scope::TopLevel => query,
        Scope::TasksOf(parent) => query.parent(parent.as_str()),
        Scope::All => query.any_parent(),
    };
    let mut threads = journal.threads().list(&query).await?;
    let cut = threads.len() > limit;
    threads.truncate(limit);
    let nested = !matches!(scope, Scope::All);
    if as_json {
        let mut list = Vec::new();
        for thread in &threads {
            list.push(if nested { tree(journal, thread).await? } else { info(thread) });
        }
        return Ok(json_text(&list)?);
    }
    if threads.is_empty() {
        return Ok(match scope {
            Scope::TasksOf(parent) => format!("thread {parent} has no background tasks"),
            _ => "there are no threads yet".to_owned(),
        });
    }
    let now = Timestamp::now();
    let mut rows = Vec::new();
    // A stack: the next thread to show is at the end.
    let mut left: Vec<(usize, ThreadInfo)> = threads.into_iter().rev().map(|thread| (0, thread)).collect();
    while let Some((depth, thread)) = left.pop() {
        let (age, standing, title) = (age(now, thread.updated_at), standing(&thread), title(&thread));
        let id = if depth == 0 { thread.id.as_str() } else { thread.id.rsplit('/').next().unwrap_or_default() };
        let id = format!("{}{id}", "  ".repeat(depth));
        rows.push((id, age, standing, title));
        if nested {
            left.extend(tasks_of(journal, &thread).await?.into_iter().map(|task| (depth + 1, task)));
        }
    }
    let width = rows.iter().map(|(_, _, standing, _)| standing.len()).max().unwrap_or(0).max(11);
    let line = |(id, age, standing, title)| format!("{id:<8}  {age:>4}  {standing:<width$}  {title}");
    let mut lines: Vec<String> = rows.into_iter().map(line).collect();
    lines.extend(cut.then(|| "… and more; --limit sets how many are shown".to_owned()));
    Ok(lines.join("\n"))
}

/// Returns a thread as JSON, with its background tasks, recursively.
async fn tree(journal: &dyn Journal, thread: &ThreadInfo) -> Result<Value> {
    let mut document = info(thread);
    let mut children = Vec::new();
    for task in tasks_of(journal, thread).await? {
        children.push(Box::pin(tree(journal, &task)).await?);
    }
    if let (Some(fields), false) = (document.as_object_mut(), children.is_empty()) {
        fields.insert("children".to_owned(), children.into());
    }
    Ok(document)
}

/// Returns a thread as JSON.
pub(super) fn info(thread: &ThreadInfo) -> Value {
    let mut document = json!({
        "id": thread.id,
        "status": status_word(thread),
        "end": thread.end,
        "metadata": thread.metadata,
        "created_at": thread.created_at.to_string(),
        "updated_at": thread.updated_at.to_string(),
        "bytes": thread.bytes,
    });
    if let Some(fields) = document.as_object_mut() {
        fields.extend(thread.stop.iter().map(|stop| ("stop".to_owned(), json!(stop))));
        fields.extend(thread.parent.iter().map(|parent| ("parent".to_owned(), json!(parent))));
        fields.extend(thread.damage.iter().map(|damage| ("damage".to_owned(), json!(damage))));
    }
    document
}

/// Returns a thread's status in one word, and instead of `ended` the reason if the task may be unfinished.
pub(super) fn standing(thread: &ThreadInfo) -> String {
    let status = status_word(thread);
    let stop = thread.stop.as_ref().filter(|stop| thread.status == RunStatus::Ended && !stop.is_complete());
    match stop.filter(|_| thread.damage.is_none()).map(|stop| json!(stop)) {
        Some(Value::String(reason)) => reason,
        _ => status.to_owned(),
    }
}

/// Returns a thread's status in one word.
fn status_word(thread: &ThreadInfo) -> &'static str {
    match (thread.status, &thread.owner) {
        _ if thread.damage.is_some() => "damaged",
        (RunStatus::Open, Some(_)) if !is_gone(thread) => "running",
        (RunStatus::Open, _) => "interrupted",
        (status, _) => status.as_str(),
    }
}

/// Returns a thread's title.
pub(super) fn title(thread: &ThreadInfo) -> String {
    if let Some(damage) = &thread.damage {
        return first_line(damage, 200);
    }
    let title = thread.metadata.get("title").or_else(|| thread.metadata.get("agent"));
    first_line(title.and_then(Value::as_str).unwrap_or_default(), 80)
}

/// Formats an age: `12s`, `5m`, `3h`, `4d`.
fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
