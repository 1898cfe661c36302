//! The state of a single task.

use deepagents_core::agent::{BackgroundReport, BackgroundTask};
use deepagents_core::journal::{JournalError, LogPosition, RunStatus};
use deepagents_core::run::FinishReason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::channel::{KnownTask, KnownTaskChange};
use super::closure::ClosureResult;
use crate::subagents::result_text;
use crate::text::truncated;

/// Maximum number of characters of a result to show.
const MAX_RESULT_CHARS: usize = 80_000;
/// The log position for work without a log.
const UNLOGGED_POSITION: LogPosition = 1;

/// The status of a task.
///
/// ```
/// use deepagents::middleware::background::TaskStatus;
/// assert!(TaskStatus::Cancelled.is_ended() && !TaskStatus::Interrupted.is_ended());
/// assert_eq!(TaskStatus::Interrupted.as_str(), "waiting");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// It is running.
    Running,
    /// It waits for a person's decision.
    #[serde(rename = "waiting")]
    Interrupted,
    /// It has a result.
    Success,
    /// It failed, or stopped before it was done.
    Error,
    /// It was cancelled.
    Cancelled,
}

impl TaskStatus {
    /// Returns the name used in JSON and for the model.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Interrupted => "waiting",
            Self::Success => "success",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns `true` if nothing more can happen.
    pub fn is_ended(self) -> bool {
        !matches!(self, Self::Running | Self::Interrupted)
    }
}

/// The state of a task.
pub(super) struct TaskState {
    pub(super) known: KnownTask,
    pub(super) status: TaskStatus,
    /// The end of its log.
    pub(super) end: LogPosition,
    /// Its result or error.
    pub(super) text: String,
    /// Its thread, if it has one.
    pub(super) task: Option<BackgroundTask>,
    /// The report from its log, once read.
    pub(super) report: Option<BackgroundReport>,
    /// The result of work without a log.
    pub(super) result: Option<ClosureResult>,
    /// Whether its log is unreadable.
    pub(super) is_unreadable: bool,
}

impl TaskState {
    /// Derives the state from the head of the thread, without its result.
    pub(super) fn of_task(known: KnownTask, task: BackgroundTask) -> Self {
        let told = known.told.filter(|(at, _)| *at == task.end).map(|(_, status)| status);
        let status = match task.status {
            _ if task.handle().is_some() => TaskStatus::Running,
            RunStatus::Interrupted => TaskStatus::Interrupted,
            RunStatus::Ended => told.unwrap_or(TaskStatus::Success),
            // Nothing can resume it.
            _ if told == Some(TaskStatus::Error) && task.is_abandoned() => TaskStatus::Error,
            RunStatus::Failed => TaskStatus::Error,
            _ => TaskStatus::Running,
        };
        let end = task.end;
        let (text, task) = (String::new(), Some(task));
        Self { known, status, end, text, task, report: None, result: None, is_unreadable: false }
    }

    pub(super) fn of_closure(known: KnownTask, result: Option<ClosureResult>) -> Self {
        let (status, text) =
            result.as_ref().map_or((TaskStatus::Running, String::new()), |r| (r.status, r.text.clone()));
        Self { known, status, end: UNLOGGED_POSITION, text, task: None, report: None, result, is_unreadable: false }
    }

    /// Adds the report from its log.
    pub(super) fn read(&mut self, report: BackgroundReport) {
        let reason = self.task.as_ref().and_then(|task| task.error.clone());
        match (&report.ended, self.status) {
            (_, TaskStatus::Running) => {}
            (Some(Some(outcome)), _) => {
                let text = result_text(outcome);
                (self.status, self.text) = match &outcome.stop {
                    FinishReason::Done | FinishReason::ReturnDirect | FinishReason::Ended | FinishReason::Empty => {
                        (TaskStatus::Success, text)
                    }
                    FinishReason::Cancelled => (TaskStatus::Cancelled, text),
                    FinishReason::Interrupted => (TaskStatus::Interrupted, String::new()),
                    FinishReason::TokenLimit => (TaskStatus::Error, format!("Its answer was cut off: {text}")),
                    stop => {
                        let text = format!("It may not have finished: {}. It last said: {text}", stop.reason());
                        (TaskStatus::Error, text)
                    }
                };
            }
            (_, _) => {
                self.status = TaskStatus::Error;
                self.text = reason.unwrap_or_else(|| "It failed.".to_owned());
            }
        }
        self.report = Some(report);
    }

    /// Records that its log is unreadable.
    pub(super) fn cannot_be_read(&mut self, why: &JournalError) {
        (self.status, self.text, self.is_unreadable) = (TaskStatus::Error, format!("It is lost: {why}."), true);
    }

    /// Returns `true` if the conversation has not been notified of its current status.
    pub(super) fn is_news(&self) -> bool {
        self.status != TaskStatus::Running && self.known.told.map(|(at, _)| at) != Some(self.end)
    }

    /// Returns the change that records the delivery of its current status.
    pub(super) fn delivered(&self, joined: bool) -> KnownTaskChange {
        let (id, from, to) = (self.known.id.clone(), self.known.told, (self.end, self.status));
        KnownTaskChange::Deliver { id, from, to, joined }
    }

    pub(super) fn heading(&self) -> String {
        format!("task_id: {}  agent: {}  status: {}", self.known.id, self.known.agent, self.status.as_str())
    }

    /// Returns the message for when it has ended or starts to wait.
    pub(super) fn news(&self) -> String {
        let (what, rest) = match self.status {
            TaskStatus::Interrupted => (
                "waits for a person's decision.",
                "Check it with `check_async_task` to have the person asked; or cancel it.".to_owned(),
            ),
            _ => ("has ended.", self.cut()),
        };
        let heading = self.heading();
        format!("This is a message of the system, not of the user: a background task {what}\n{heading}\n\n{rest}")
    }

    fn cut(&self) -> String {
        truncated(&self.text, MAX_RESULT_CHARS, "\n[cut off here]")
    }

    pub(super) fn json(&self) -> String {
        let mut out = Map::new();
        let mut set = |name: &str, value: Value| out.insert(name.to_owned(), value);
        set("task_id", json!(self.known.id));
        set("agent", json!(self.known.agent));
        set("status", json!(self.status));
        if let Some(task) = &self.task {
            set("thread_id", json!(task.thread));
        }
        match self.status {
            TaskStatus::Running => {}
            TaskStatus::Interrupted => {
                let asked = self.report.iter().flat_map(|report| &report.action_requests);
                let asked = asked.map(|q| json!({"tool": q.tool, "args": q.args, "description": q.text}));
                set("interrupts", asked.collect());
                let note = "It waits for a person, and this run has no thread to ask one in; cancel it, or tell it to do \
                            something else with `update_async_task`.";
                set("note", note.into());
            }
            TaskStatus::Error => drop(set("error", self.cut().into())),
            _ => drop(set("result", self.cut().into())),
        }
        Value::Object(out).to_string()
    }
}
