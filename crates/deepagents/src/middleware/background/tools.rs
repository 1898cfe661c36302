//! The tools for background tasks.

use std::sync::Arc;

use deepagents_core::agent::{BackgroundError, BackgroundTasks};
use deepagents_core::interrupt::{Decision, DecisionKind};
use deepagents_core::run::RunInput;
use deepagents_core::state::Update;
use deepagents_core::tool::{DynTool, Tool, ToolContext, ToolError, ToolOutput, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::START;
use super::channel::KnownTasks;
use super::task::{TaskState, TaskStatus};
use super::tasks::{Tasks, ended_for_good};
use crate::subagents::ListingTool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Start {
    /// The whole task, what must be known for it, and what to report.
    description: String,
    /// Name of a sub-agent.
    subagent_type: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct One {
    /// The task.
    task_id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct More {
    /// The task.
    task_id: String,
    /// The message for it.
    message: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// Only tasks with this status; all if left out.
    #[serde(default)]
    status_filter: Option<Filter>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Filter {
    All,
    Running,
    #[serde(rename = "waiting", alias = "interrupted")]
    Interrupted,
    Success,
    Error,
    Cancelled,
    /// A status of other harnesses, which models may know; no task has it.
    #[serde(alias = "timeout")]
    #[schemars(skip)]
    Pending,
}

impl Filter {
    fn keeps(self, status: TaskStatus) -> bool {
        match self {
            Self::All => true,
            Self::Running => status == TaskStatus::Running,
            Self::Interrupted => status == TaskStatus::Interrupted,
            Self::Success => status == TaskStatus::Success,
            Self::Error => status == TaskStatus::Error,
            Self::Cancelled => status == TaskStatus::Cancelled,
            Self::Pending => false,
        }
    }
}

/// Starts a task. If the call is repeated after a crash, it finds the task that it has started.
struct StartTask {
    tasks: Arc<Tasks>,
    description: String,
}

impl Tool for StartTask {
    type Args = Start;

    fn name(&self) -> &str {
        START
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn idempotent(&self, args: &Start) -> bool {
        self.tasks.registry.is_idempotent(&args.subagent_type)
    }

    async fn call(&self, args: Start, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.tasks.start(&args.subagent_type, args.description, &cx).await
    }
}

impl Tasks {
    /// Returns the state of a task, including its log.
    async fn find(&self, home: &BackgroundTasks, cx: &ToolContext, id: &str) -> Result<TaskState, ToolError> {
        let tasks = self.survey(home, cx.state()).await?;
        let id = id.trim();
        let Some(mut task) = tasks.into_iter().find(|task| task.known.id == id) else {
            return Err(ToolError::model(format!(
                "Error: there is no task {id}; `list_async_tasks` names those there are."
            )));
        };
        if task.status != TaskStatus::Running {
            self.read(cx.state(), &mut task).await?;
        }
        Ok(task)
    }

    /// Returns the state of a task. If it is interrupted, asks the person.
    async fn check(&self, id: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let home = cx.background();
        let mut task = self.find(&home, cx, id).await?;
        let open = task.report.as_ref().map(|report| report.action_requests.clone()).unwrap_or_default();
        // Without a journal, nobody can be asked.
        if let (TaskStatus::Interrupted, true, Some(thread)) =
            (task.status, open.is_empty() || cx.thread().is_some(), task.task.clone())
        {
            let decisions = cx.interrupt_for(&open)?;
            let resume = RunInput::resume(thread.thread);
            let input =
                open.into_iter().zip(decisions).fold(resume, |input, (q, decision)| input.decide(q.id, decision));
            self.start_run(&home, &task, input, cx).await?;
            task.status = TaskStatus::Running;
        }
        if !task.is_news() {
            return Ok(ToolOutput::text(task.json()));
        }
        let (child_state, update, note) = self.changes(cx.state(), &task).await?;
        let delivered = Update::new::<KnownTasks>(vec![task.delivered(child_state.is_some())]);
        self.note_told(&home.thread(&task.known.id), task.status.is_ended());
        let output = ToolOutput::text(format!("{}{note}", task.json())).with_update(update).with_update(delivered);
        Ok(child_state.into_iter().fold(output, ToolOutput::with_child_state))
    }

    /// Sends a message to a task: a running one receives it with its next model call, an ended one as its next input.
    async fn send_message(&self, id: &str, text: String, cx: &ToolContext) -> Result<&'static str, ToolError> {
        let home = cx.background();
        let mut task = self.find(&home, cx, id).await?;
        let Some(thread) = task.task.clone() else {
            return Err(ended_for_good(&task.known.agent));
        };
        if task.status == TaskStatus::Running {
            match thread.steer(text.as_str()) {
                Ok(()) => return Ok("It hears this at its next model call."),
                Err(error @ BackgroundError::Elsewhere { .. }) => {
                    return Err(ToolError::model(format!("Error: {error}.")));
                }
                // It has ended meanwhile.
                Err(_) => {}
            }
            let _ = thread.outcome().await;
            task = self.find(&home, cx, id).await?;
        }
        if task.status == TaskStatus::Interrupted {
            let open = task.report.as_ref().map(|report| report.action_requests.as_slice()).unwrap_or_default();
            if open.iter().any(|question| !question.allowed.contains(&DecisionKind::Reject)) {
                return Err(ToolError::model(
                    "Error: it waits for what only a person can decide; check it, or cancel it.",
                ));
            }
            let refused = || Decision::Reject { message: Some("something else is to be done".to_owned()) };
            let resume = RunInput::resume(thread.thread);
            let input = open.iter().fold(resume, |input, question| input.decide(&question.id, refused()));
            self.start_run(&home, &task, input, cx).await?.steer(text.as_str());
            return Ok("What it waited for was refused; it goes on with this.");
        }
        if task.status == TaskStatus::Running {
            let resume = RunInput::resume(thread.thread);
            self.start_run(&home, &task, resume, cx).await?.steer(text.as_str());
        } else {
            self.start_run(&home, &task, RunInput::new(text.as_str()), cx).await?;
        }
        Ok("It goes on with this.")
    }

    /// Cancels a task.
    async fn cancel(&self, id: &str, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let home = cx.background();
        let mut task = self.find(&home, cx, id).await?;
        if task.status.is_ended() {
            let status = task.status.as_str();
            return Ok(ToolOutput::text(format!("Nothing to cancel: it has ended with {status}.")));
        }
        let thread = home.thread(&task.known.id);
        match &task.task {
            Some(running) => {
                running.cancel().await.map_err(|error| ToolError::model(format!("Error: {error}.")))?;
                task.end = running.refresh().await.map_or(task.end, |now| now.end);
            }
            None => self.closures.cancel(&thread),
        }
        task.status = TaskStatus::Cancelled;
        self.note_told(&thread, true);
        Ok(ToolOutput::text("Cancelled.").with_update(Update::new::<KnownTasks>(vec![task.delivered(false)])))
    }

    /// Returns a line for each task.
    async fn lines(&self, cx: &ToolContext, only: Filter) -> Result<Vec<String>, ToolError> {
        let mut lines = Vec::new();
        for mut task in self.survey(&cx.background(), cx.state()).await? {
            if task.is_news() {
                self.read(cx.state(), &mut task).await?;
            }
            if only.keeps(task.status) {
                lines.push(format!("- {}", task.heading()));
            }
        }
        Ok(lines)
    }
}

pub(super) fn all(tasks: &Arc<Tasks>, listing: &ListingTool) -> Vec<Arc<dyn DynTool>> {
    let start = StartTask { tasks: tasks.clone(), description: listing.description().to_owned() };
    let t = tasks.clone();
    let check = tool_fn(
        "check_async_task",
        "Says how a background task stands, with its result if it has ended. If it waits for a person's decision, the \
         person is asked.",
        move |args: One, cx| {
            let t = t.clone();
            async move { t.check(&args.task_id, &cx).await }
        },
    );
    let t = tasks.clone();
    let update = tool_fn(
        "update_async_task",
        "Says more to a background task; one that has ended goes on with it.",
        move |args: More, cx| {
            let t = t.clone();
            async move { t.send_message(&args.task_id, args.message, &cx).await }
        },
    );
    let t = tasks.clone();
    let cancel = tool_fn("cancel_async_task", "Cancels a background task.", move |args: One, cx| {
        let t = t.clone();
        async move { t.cancel(&args.task_id, &cx).await }
    });
    let t = tasks.clone();
    let list = tool_fn("list_async_tasks", "Lists the background tasks.", move |args: List, cx| {
        let t = t.clone();
        async move {
            let lines = t.lines(&cx, args.status_filter.unwrap_or(Filter::All)).await?;
            Ok(if lines.is_empty() { "There are no such tasks.".to_owned() } else { lines.join("\n") })
        }
    });
    vec![Arc::new(start), Arc::new(check), Arc::new(update), Arc::new(cancel), Arc::new(list)]
}
