//! Helpers of many tests.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::agent::{Agent, AgentBuilder};
use deepagents_core::env::{FixedClock, SequentialIds, Timestamp};
use deepagents_core::event::{Event, EventKind};
use deepagents_core::journal::{Claim, Fence, Journal, JournalError, LogPosition, Record};
use deepagents_core::message::{Block, Message, Messages};
use deepagents_core::model::ChatModel;
use deepagents_core::run::{Outcome, Run, RunError};
use deepagents_core::tool::{DynTool, ToolContext, ToolError, ToolOutput, json_tool};
use deepagents_models::scripted::check_history;
use futures_util::StreamExt;
use serde_json::{Value, json};

/// An agent builder with deterministic IDs and times.
pub(crate) fn agent(model: impl ChatModel) -> AgentBuilder {
    Agent::builder(model).ids(SequentialIds::default()).clock(FixedClock(Timestamp::UNIX_EPOCH))
}

/// A tool that takes any object.
pub(crate) fn tool<F, Fut, O>(name: &str, call: F) -> impl DynTool
where
    F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, ToolError>> + Send + 'static,
    O: Into<ToolOutput> + 'static,
{
    json_tool(name, "A tool.", json!({"type": "object"}), call)
}

/// A tool that returns its arguments.
pub(crate) fn echo() -> impl DynTool {
    tool("echo", |args, _cx| async move { Ok(args.to_string()) })
}

/// A list shared by tests and closures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub(crate) fn add(&self, note: impl Into<String>) {
        self.0.lock().unwrap().push(note.into());
    }

    pub(crate) fn list(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A history in short form: `user: hi`, `assistant: [echo {"x":1}]`, `result: ok`, `error: no`.
pub(crate) fn lines(messages: &Messages) -> Vec<String> {
    messages.iter().map(|message| line(message)).collect()
}

fn line(message: &Message) -> String {
    let said: Vec<String> = message
        .content()
        .iter()
        .map(|block| match block {
            Block::Text(text) => text.text.clone(),
            Block::ToolCall(call) => format!("[{} {}]", call.name, call.args),
            Block::InvalidToolCall(call) => format!("[{}? {}]", call.name, call.raw),
            other => format!("{other:?}"),
        })
        .collect();
    let who = match message {
        Message::User(_) => "user",
        Message::Assistant(_) => "assistant",
        Message::Tool(result) if result.is_error => "error",
        _ => "result",
    };
    format!("{who}: {}", said.join(" "))
}

/// Panics unless providers would accept the history and message IDs are unique.
#[track_caller]
pub(crate) fn assert_sound(messages: &Messages) {
    check_history(messages).unwrap();
    let mut ids: Vec<&str> = messages.iter().map(|m| m.id()).collect();
    assert!(ids.iter().all(|id| !id.is_empty()), "a message has no id: {ids:?}");
    ids.sort_unstable();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all, "two messages share an id");
}

/// Reads a run to the end.
pub(crate) async fn watch(mut run: Run) -> (Vec<Event>, Result<Outcome, Box<RunError>>) {
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        events.push(event);
    }
    (events, run.outcome().await)
}

/// Reads a run until a wanted event.
pub(crate) async fn until(run: &mut Run, wanted: impl Fn(&EventKind) -> bool) -> Event {
    loop {
        let event = run.next().await.expect("the run ended before the event");
        if wanted(&event.kind) {
            return event;
        }
    }
}

/// The kinds of events in short form, of the events that tests check most.
pub(crate) fn kinds(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .map(|event| {
            let json = serde_json::to_value(event).unwrap();
            json["type"].as_str().unwrap().to_owned()
        })
        .collect()
}

/// The records of a thread.
pub(crate) async fn records(journal: &dyn Journal, thread: &str) -> Vec<Record> {
    journal.read(thread, 0..LogPosition::MAX).await.unwrap().into_iter().map(|entry| entry.record).collect()
}

/// Appends to a thread like a process that then ends.
pub(crate) async fn write(
    journal: &dyn Journal,
    thread: &str,
    expected: LogPosition,
    records: Vec<Record>,
) -> Result<LogPosition, JournalError> {
    let fence = own(journal, thread).await;
    let appended = journal.append(thread, fence, expected, records).await;
    journal.release(thread, fence).await.unwrap();
    Ok(appended?.end)
}

/// Claims a thread for a minute.
pub(crate) async fn own(journal: &dyn Journal, thread: &str) -> Fence {
    journal.claim(thread, Claim::new("test", Duration::from_secs(60))).await.unwrap()
}
