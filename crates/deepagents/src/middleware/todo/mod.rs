//! The todo list: a small state machine with its rules in code.
//!
//! Always: at most one write a turn, legal statuses, ids and times kept by the harness. The rest is [`TodoPolicy`]. A
//! [`Planner`] lays out the list before the model is asked.

mod explicit;
mod lines;
mod planner;
mod policy;
mod sequence;
mod tools;

use std::sync::Arc;

use deepagents_core::error::Result;
use deepagents_core::message::{Message, MessageOp, ToolMessage};
use deepagents_core::middleware::{Go, Middleware, Step};
use deepagents_core::run::{Context, Stop};
use deepagents_core::state::{ChannelSpec, MessagesChannel};
use deepagents_core::tool::DynTool;

use crate::channels::Todos;
use policy::{Memo, TodoMemo};
use tools::{ReadTodos, WriteTodos};

pub use explicit::ExplicitList;
pub use planner::{DynPlanner, Planner, PlannerFn, planner_fn};
pub use policy::TodoPolicy;

const WRITE: &str = "write_todos";

/// Gives the agent a todo list with the tools `write_todos` and `read_todos`.
///
/// ```
/// use deepagents::middleware::todo::{TodoList, TodoPolicy};
/// let strict = TodoList::default();
/// let free = TodoList::new(TodoPolicy::off());
/// ```
#[derive(Clone, Default)]
pub struct TodoList {
    policy: TodoPolicy,
    planner: Option<Arc<dyn DynPlanner>>,
}

impl TodoList {
    /// A todo list under a policy.
    pub fn new(policy: TodoPolicy) -> Self {
        Self { policy, planner: None }
    }

    /// Has the list laid out in code before the model is asked.
    #[must_use]
    pub fn planner(self, planner: impl Planner) -> Self {
        self.dyn_planner(Arc::new(planner))
    }

    pub(crate) fn dyn_planner(mut self, planner: Arc<dyn DynPlanner>) -> Self {
        self.planner = Some(planner);
        self
    }
}

impl std::fmt::Debug for TodoList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TodoList")
            .field("policy", &self.policy)
            .field("planner", &self.planner.is_some())
            .finish_non_exhaustive()
    }
}

impl Middleware for TodoList {
    fn name(&self) -> &str {
        "TodoList"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::of::<Todos>(), ChannelSpec::of::<TodoMemo>()]
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        vec![Arc::new(WriteTodos { keep_finished: self.policy.keep_finished }), Arc::new(ReadTodos)]
    }

    fn system_prompt(&self) -> Option<&str> {
        Some(include_str!("../../prompts/todo.md").trim_end())
    }

    async fn before_agent(&self, cx: &Context) -> Result<Step> {
        Ok(match &self.planner {
            Some(planner) => planner::lay_out(&**planner, cx).await,
            None => Step::next(),
        })
    }

    async fn before_model(&self, cx: &Context) -> Result<Step> {
        let Some(limit) = self.policy.remind_after else { return Ok(Step::next()) };
        let memo = cx.get::<TodoMemo>();
        let idle = policy::calls_since_write(cx, memo.reminded_at, limit);
        if idle < limit || !policy::has_open(cx) {
            return Ok(Step::next());
        }
        let reminder = Message::harness(format!(
            "Reminder: the todo list has not changed for {idle} tool calls. Its open items:\n{}\nUpdate it if it is out of date; otherwise go on.",
            policy::open_items(cx)
        ));
        let memo = Memo { reminded_at: cx.messages().len() + 1, ..memo };
        Ok(Step { update: Step::message(reminder).update.with::<TodoMemo>(memo), go: Go::Continue })
    }

    async fn after_model(&self, cx: &Context) -> Result<Step> {
        let messages = cx.messages();
        let Some(answer) = messages.last_assistant().and_then(|at| messages.get(at)) else { return Ok(Step::next()) };
        let Some(answer) = answer.as_assistant() else { return Ok(Step::next()) };
        let writes: Vec<_> = answer.tool_calls().filter(|call| call.name == WRITE).collect();
        if writes.len() < 2 {
            return Ok(Step::next());
        }
        let text = format!(
            "Error: {WRITE} was called {} times in one turn, so none of the calls was carried out. Call it once, with the whole list.",
            writes.len()
        );
        let refusals = writes
            .iter()
            .map(|call| MessageOp::put(Message::Tool(ToolMessage::error(call.id.clone(), WRITE, text.clone()))));
        Ok(Step::set::<MessagesChannel>(refusals.collect()))
    }

    async fn after_agent(&self, cx: &Context) -> Result<Step> {
        let memo = cx.get::<TodoMemo>();
        let ended = cx.stop() == Some(&Stop::Done);
        if !self.policy.ask_before_end || !ended || memo.asked_in == cx.run_id() || !policy::has_open(cx) {
            return Ok(Step::next());
        }
        let question = Message::harness(format!(
            "The todo list still has open items:\n{}\nIf they are done or no longer needed, update the list and give your answer again; otherwise finish them.",
            policy::open_items(cx)
        ));
        let memo = Memo { asked_in: cx.run_id().to_owned(), ..memo };
        Ok(Step { update: Step::message(question).update.with::<TodoMemo>(memo), go: Go::Model })
    }
}
