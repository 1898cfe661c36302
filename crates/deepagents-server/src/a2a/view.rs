//! Tasks as clients see them.

use std::collections::HashSet;
use std::sync::Arc;

use deepagents::FinishReason;
use deepagents_core::message::{Message, Usage};
use serde_json::{Map, Value, json};

use super::record::TaskRecord;
use crate::app::App;
use crate::error::Result;
use crate::runs::{LiveRun, RunRecord, Status};
use crate::stream::{Delta, EventCursor, Kind, StreamEvent, past};
use crate::wire::{OpenInterrupt, open_interrupts, usage};

/// Id and name of the artifact that holds the agent's answer.
const ANSWER: &str = "answer";

/// The answer and usage accumulated from the events of a task's runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    /// The id of the message that the text belongs to.
    message: String,
    pub(super) usage: Usage,
    /// Whether the last piece started a new text.
    pub(super) is_new: bool,
}

impl Answer {
    /// Applies an event and returns the next piece of the answer, if the event adds one.
    pub(super) fn take(&mut self, event: &StreamEvent) -> Option<String> {
        match &event.kind {
            Kind::BlockDelta { message, delta: Delta::Text(text), .. } if event.agent.path.is_empty() => {
                self.is_new = **message != *self.message;
                if self.is_new {
                    (self.message, self.text) = (message.to_string(), String::new());
                }
                self.text.push_str(text);
                Some(text.clone())
            }
            Kind::MessageFinished(message) => {
                if let Some(spent) = message.usage {
                    self.usage += spent;
                }
                let whole = Message::Assistant((**message).clone()).text();
                let is_answer = event.agent.path.is_empty() && !whole.is_empty() && whole != self.text;
                // The text was not streamed, for example because the server restarted.
                is_answer.then(|| {
                    self.is_new = true;
                    (self.message, self.text) = (message.id.clone(), whole.clone());
                    whole
                })
            }
            _ => None,
        }
    }

    /// Builds the artifact for a piece of the answer.
    pub(super) fn artifact(&self, text: &str) -> Value {
        json!({"artifactId": ANSWER, "name": ANSWER, "parts": [{"kind": "text", "text": text}]})
    }

    /// Applies the events of a run so far and returns the position after them.
    pub(super) fn read(&mut self, run: Arc<LiveRun>) -> EventCursor {
        let mut events = EventCursor::new(run, 0);
        while let Some(event) = events.next_now() {
            self.take(&event);
        }
        events
    }
}

/// Returns the pending interrupts of a task's thread.
pub(super) async fn pauses(app: &App, task: &TaskRecord) -> Result<Vec<OpenInterrupt>> {
    let (info, state) = app.thread_state(&task.thread).await?;
    Ok(open_interrupts(&info.id, &state))
}

/// Returns the pending interrupts of a task's last run. Those of another task of the thread are not its own.
async fn own_pauses(app: &App, task: &TaskRecord, last: &RunRecord) -> Result<Vec<OpenInterrupt>> {
    let (info, state) = app.thread_state(&task.thread).await?;
    let mut open = open_interrupts(&info.id, &state);
    if !open.is_empty() && last.until.is_some_and(|until| until < info.end) {
        // What is asked may have been pruned from there.
        let asked = last.last_state(&app.threads_of(&info)?).await;
        let asked = asked.map(|state| open_interrupts(&info.id, &state)).unwrap_or_default();
        open.retain(|open| asked.iter().any(|asked| asked.task == open.task));
    }
    Ok(open)
}

/// A snapshot of a task.
pub(super) struct TaskView {
    task: TaskRecord,
    state: &'static str,
    at: String,
    status_message: Option<Value>,
    answer: Answer,
    history: Vec<Value>,
}

impl TaskView {
    /// Reads the current state of a task.
    pub(super) async fn read(app: &Arc<App>, task: &TaskRecord) -> Result<Self> {
        let mut answer = Answer::default();
        let records = task.records(app).await?;
        for record in &records {
            let run = match app.runs.get(&record.run_id) {
                Some(live) => Some(live),
                None => past(app, record).await?,
            };
            if let Some(run) = run {
                answer.read(run);
            }
        }
        let last = records.last();
        let asks = match last {
            Some(last) if last.status == Status::Success => own_pauses(app, task, last).await?,
            _ => Vec::new(),
        };
        let (state, status_message) = status(last, &asks, task);
        let at = last.map_or_else(crate::ids::now, |last| last.updated_at.clone());
        let history = history(app, task, &records).await.unwrap_or_default();
        Ok(Self { task: task.clone(), state, at, status_message, answer, history })
    }

    /// Truncates the answer in this view to the given one.
    pub(super) fn cut_to(&mut self, answer: &Answer) {
        self.answer.text.clone_from(&answer.text);
    }

    /// Returns the state in the terms of version 0.3.
    pub(super) fn state(&self) -> &'static str {
        self.state
    }

    /// Returns when the task entered its state.
    pub(super) fn changed(&self) -> Option<jiff::Timestamp> {
        self.at.parse().ok()
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.state == "input-required"
    }

    pub(super) fn is_over(&self) -> bool {
        !matches!(self.state, "submitted" | "working")
    }

    fn status(&self) -> Value {
        let mut status =
            Map::from_iter([("state".to_owned(), json!(self.state)), ("timestamp".to_owned(), json!(self.at))]);
        status.extend(self.status_message.iter().map(|said| ("message".to_owned(), said.clone())));
        Value::Object(status)
    }

    fn metadata(&self) -> Value {
        json!({"assistant_id": self.task.assistant, "usage": usage(&self.answer.usage)})
    }

    /// Builds the task object, with at most `history` messages of its conversation.
    pub(super) fn task(&self, history: Option<usize>) -> Value {
        let from = self.history.len().saturating_sub(history.unwrap_or(usize::MAX));
        let artifacts = match self.answer.text.as_str() {
            "" => Vec::new(),
            text => vec![self.answer.artifact(text)],
        };
        json!({
            "kind": "task", "id": self.task.id, "contextId": self.task.thread, "status": self.status(),
            "artifacts": artifacts, "history": self.history.get(from..).unwrap_or_default(), "metadata": self.metadata(),
        })
    }

    /// Builds the status update event.
    pub(super) fn update(&self) -> Value {
        json!({
            "kind": "status-update", "taskId": self.task.id, "contextId": self.task.thread, "status": self.status(),
            "final": self.is_over(), "metadata": self.metadata(),
        })
    }
}

/// Derives the state and the status message from the task's last run and the pending interrupts.
fn status(last: Option<&RunRecord>, asks: &[OpenInterrupt], task: &TaskRecord) -> (&'static str, Option<Value>) {
    let Some(last) = last else { return ("submitted", None) };
    match last.status {
        Status::Pending => ("submitted", None),
        Status::Running => ("working", None),
        // It waited for an answer, and its conversation went on without one.
        Status::Success if asks.is_empty() && (task.cancelled || last.stop == Some(FinishReason::Interrupted)) => {
            ("canceled", None)
        }
        Status::Success if asks.is_empty() => ("completed", None),
        Status::Success => {
            let interrupts: Vec<Value> = asks.iter().map(OpenInterrupt::to_json).collect();
            let parts = json!([
                {"kind": "text", "text": question(asks)}, {"kind": "data", "data": {"interrupts": interrupts}},
            ]);
            ("input-required", Some(status_message(task, &last.run_id, &parts)))
        }
        Status::Interrupted => ("canceled", None),
        Status::Error | Status::Timeout => {
            let why = last.error.as_ref().and_then(|error| error.get("message")?.as_str()).unwrap_or("the run failed");
            let parts = json!([{"kind": "text", "text": why}]);
            ("failed", Some(status_message(task, &last.run_id, &parts)))
        }
    }
}

fn status_message(task: &TaskRecord, run: &str, parts: &Value) -> Value {
    json!({
        "kind": "message", "role": "agent", "messageId": format!("{run}-status"), "taskId": task.id,
        "contextId": task.thread, "parts": parts,
    })
}

/// Describes the pending interrupts in words.
fn question(asks: &[OpenInterrupt]) -> String {
    let requests = asks.iter().filter_map(|open| open.value.get("action_requests")?.as_array()).flatten();
    let line = |request: &Value| {
        let word = |key: &str| request.get(key).and_then(Value::as_str).unwrap_or_default();
        let args = request.get("args").map(Value::to_string).unwrap_or_default();
        match word("description") {
            "" => format!("May `{}` be called with {args}?", word("name")),
            text => text.to_owned(),
        }
    };
    requests.map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the task's part of the conversation as text messages.
async fn history(app: &App, task: &TaskRecord, records: &[RunRecord]) -> Result<Vec<Value>> {
    let info = app.thread(&task.thread).await?;
    let threads = app.threads_of(&info)?;
    let mut before = HashSet::new();
    if let Some(from) = records.first().and_then(|first| first.from).filter(|from| *from > 0) {
        // Nothing is left out if the log was pruned.
        let state = threads.state_at(&task.thread, from).await.ok();
        before.extend(state.iter().flat_map(|state| state.messages().iter()).map(|message| message.id().to_owned()));
    }
    let state = match records.last() {
        Some(last) => last.last_state(&threads).await?,
        None => threads.state(&task.thread).await?,
    };
    let shown = |message: &Arc<Message>| {
        let role = match **message {
            Message::User(_) => "user",
            Message::Assistant(_) => "agent",
            _ => return None,
        };
        let text = message.text();
        (!text.is_empty() && !before.contains(message.id())).then(|| {
            json!({
                "kind": "message", "role": role, "messageId": message.id(), "contextId": task.thread,
                "parts": [{"kind": "text", "text": text}],
            })
        })
    };
    Ok(state.messages().iter().filter_map(shown).collect())
}
