//! The tools.

use std::sync::Arc;

use deepagents_core::tool::{DynTool, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::START;
use super::task::TaskStatus;
use super::tasks::{Tasks, owner};
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
    /// What to say to it.
    message: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {
    /// Only tasks of this status; all without it.
    #[serde(default)]
    status_filter: Option<Filter>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Filter {
    All,
    Running,
    #[serde(rename = "waiting")]
    Interrupted,
    Success,
    Error,
    Cancelled,
}

impl Filter {
    fn status(self) -> Option<TaskStatus> {
        match self {
            Self::All => None,
            Self::Running => Some(TaskStatus::Running),
            Self::Interrupted => Some(TaskStatus::Interrupted),
            Self::Success => Some(TaskStatus::Success),
            Self::Error => Some(TaskStatus::Error),
            Self::Cancelled => Some(TaskStatus::Cancelled),
        }
    }
}

pub(super) fn all(tasks: &Arc<Tasks>, listing: &ListingTool) -> Vec<Arc<dyn DynTool>> {
    let t = tasks.clone();
    let start = tool_fn(START, listing.description(), move |args: Start, cx| {
        let id = t.start(&args.subagent_type, args.description, &cx);
        async move { id.map(|id| format!("Started. task_id: {id}")) }
    });
    let t = tasks.clone();
    let check = tool_fn(
        "check_async_task",
        "Says how a background task stands, with its result if it has ended. If it waits for a person's decision, the \
         person is asked.",
        move |args: One, cx| {
            let t = t.clone();
            async move {
                let (owner, id) = (owner(&cx), args.task_id);
                // Where nothing is kept, nobody can be asked.
                if let Some(open) = t.waits_for(&owner, &id)?.filter(|open| open.is_empty() || cx.thread().is_some()) {
                    let decisions = cx.interrupt_for(&open)?;
                    t.answer(&owner, &id, open.into_iter().map(|q| q.id).zip(decisions).collect())?;
                }
                t.check(&owner, &id)
            }
        },
    );
    let t = tasks.clone();
    let update = tool_fn(
        "update_async_task",
        "Says more to a background task; one that has ended goes on with it.",
        move |args: More, cx| {
            let said = t.update(&args.task_id, args.message, &cx);
            async move { said }
        },
    );
    let t = tasks.clone();
    let cancel = tool_fn("cancel_async_task", "Cancels a background task.", move |args: One, cx| {
        let was = t.cancel(&owner(&cx), &args.task_id);
        async move {
            Ok(match was? {
                TaskStatus::Running | TaskStatus::Interrupted => "Cancelled.".to_owned(),
                ended => format!("Nothing to cancel: it has ended with {}.", ended.as_str()),
            })
        }
    });
    let t = tasks.clone();
    let list = tool_fn("list_async_tasks", "Lists the background tasks.", move |args: List, cx| {
        let lines = t.lines(&owner(&cx), args.status_filter.and_then(Filter::status));
        async move { Ok(if lines.is_empty() { "There are no such tasks.".to_owned() } else { lines.join("\n") }) }
    });
    vec![Arc::new(start), Arc::new(check), Arc::new(update), Arc::new(cancel), Arc::new(list)]
}
