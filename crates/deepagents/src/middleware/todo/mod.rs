//! The todo list: a small state machine with rules in code.
//!
//! Always enforced: at most one write per turn, valid statuses, ids and times set by the harness. [`TodoPolicy`]
//! defines the rest. A [`Planner`] fills the list before the first model call.

mod lines;
mod list_planner;
mod model_planner;
mod planner;
mod policy;
mod size_planner;
mod tools;

use std::sync::Arc;

use deepagents_core::error::Result;
use deepagents_core::message::{Message, MessageOp, ToolMessage};
use deepagents_core::middleware::{HookOutput, JumpTo, Middleware};
use deepagents_core::run::{Context, FinishReason};
use deepagents_core::state::{ChannelSpec, MessagesChannel, Update};
use deepagents_core::tool::DynTool;

use crate::channels::Todos;
use crate::shared::Shared;
use policy::{Memo, TodoMemo};

pub use list_planner::ListPlanner;
pub use model_planner::ModelPlanner;
pub use planner::{DynPlanner, Planner, planner_fn};
pub use policy::TodoPolicy;
pub use size_planner::{SizePlanner, TaskSize};

const WRITE: &str = "write_todos";

/// Gives the agent a todo list with the tools `write_todos` and `read_todos`.
///
/// ```
/// use deepagents::middleware::todo::{TodoList, TodoPolicy};
/// let strict = TodoList::default();
/// let free = TodoList::new(TodoPolicy::off());
/// ```
#[derive(Clone, Debug, Default)]
pub struct TodoList {
    policy: TodoPolicy,
    planner: Option<Shared<dyn DynPlanner>>,
}

impl TodoList {
    /// Creates a todo list with a policy.
    pub fn new(policy: TodoPolicy) -> Self {
        Self { policy, planner: None }
    }

    /// Fills the list in code before the first model call.
    #[must_use]
    pub fn planner(mut self, planner: impl DynPlanner) -> Self {
        self.planner = Some(Shared(Arc::new(planner)));
        self
    }
}

impl Middleware for TodoList {
    fn name(&self) -> &str {
        "TodoList"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Todos>(), ChannelSpec::new::<TodoMemo>()]
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        tools::all(self.policy.keep_finished)
    }

    fn system_prompt(&self) -> Option<&str> {
        Some(include_str!("../../prompts/todo.md").trim_end())
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        Ok(match &self.planner {
            Some(planner) => planner::lay_out(&*planner.0, cx).await,
            None => HookOutput::next(),
        })
    }

    async fn before_model(&self, cx: &Context) -> Result<HookOutput> {
        let Some(limit) = self.policy.remind_after else { return Ok(HookOutput::next()) };
        let memo = cx.get::<TodoMemo>();
        let idle = policy::calls_since_write(cx, memo.reminded_at, limit);
        if idle < limit || !policy::has_open(cx) {
            return Ok(HookOutput::next());
        }
        let reminder = Message::harness(format!(
            "Reminder: the todo list has not changed for {idle} tool calls. Its open items:\n{}\nUpdate it if it is out of date; otherwise go on.",
            policy::open_items(cx)
        ));
        let memo = Memo { reminded_at: cx.messages().len() + 1, ..memo };
        Ok(HookOutput::update(Update::message(reminder).with::<TodoMemo>(memo)))
    }

    async fn after_model(&self, cx: &Context) -> Result<HookOutput> {
        // A call that another middleware has answered is not made, and has its result.
        let writes: Vec<_> = cx.open_calls().into_iter().filter(|(_, call)| call.name == WRITE).collect();
        if writes.len() < 2 {
            return Ok(HookOutput::next());
        }
        let text = format!(
            "Error: {WRITE} was called {} times in one turn, so none of the calls was carried out. Call it once, with the whole list.",
            writes.len()
        );
        let refusals = writes
            .iter()
            .map(|(_, call)| MessageOp::put(Message::Tool(ToolMessage::error(call.id.clone(), WRITE, text.clone()))));
        Ok(HookOutput::set::<MessagesChannel>(refusals.collect()))
    }

    async fn after_agent(&self, cx: &Context) -> Result<HookOutput> {
        let memo = cx.get::<TodoMemo>();
        let ended = cx.stop() == Some(&FinishReason::Done);
        if !self.policy.ask_before_end || !ended || memo.asked_in == cx.run_id() || !policy::has_open(cx) {
            return Ok(HookOutput::next());
        }
        let question = Message::harness(format!(
            "The todo list still has open items:\n{}\nIf they are done or no longer needed, update the list and give your answer again; otherwise finish them.",
            policy::open_items(cx)
        ));
        let memo = Memo { asked_in: cx.run_id().to_owned(), ..memo };
        Ok(HookOutput::update(Update::message(question).with::<TodoMemo>(memo)).and_go(JumpTo::Model))
    }
}
