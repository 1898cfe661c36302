//! Calling a tool without a model.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use serde_json::Value;

use super::Agent;
use crate::context::{Context, ContextBuilder};
use crate::error::{Error, Result};
use crate::ids::CallId;
use crate::interrupt::{ActionRequestChange, ActionRequests, ActionReview};
use crate::message::{PendingCall, ToolCall};
use crate::middleware::{ToolNext, ToolRequest, ToolResponse};
use crate::panics::panic_text;
use crate::run::join_offered;
use crate::state::{State, Update};
use crate::tool::{ToolContext, ToolOutput, coerce_call};

impl Agent {
    /// Calls one of the agent's tools by hand, with everything that stands around its calls in a run, and returns what it
    /// gives and changes. No model is asked. The tool sees the state of the thread, or an empty one; the thread stays as
    /// it is: what the tool changes may be stored with [`update_state`](Self::update_state).
    ///
    /// ```
    /// use deepagents_core::agent::Agent;
    /// use deepagents_core::model::NoModel;
    /// use deepagents_core::tool::json_tool;
    /// use serde_json::json;
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let now = json_tool("now", "Tells the time.", json!({"type": "object"}), |_args, _cx| async { Ok("noon") });
    /// let agent = Agent::builder(NoModel).tool(now).build().unwrap();
    /// let output = agent.call_tool("now", json!({}), None).await?;
    /// assert_eq!(output.content[0].as_text(), Some("noon"));
    /// # Ok::<(), deepagents_core::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Interrupted`] when a person would be asked first, with what is asked; nobody is, and
    /// [`call_reviewed_tool`](Self::call_reviewed_tool) makes the call with what was decided. When the tool ends the
    /// run, a middleware fails, or the thread cannot be read. A call that fails otherwise is an output that
    /// [is an error](ToolOutput::is_error).
    pub async fn call_tool(&self, name: &str, args: Value, thread: Option<&str>) -> Result<ToolOutput> {
        self.call_reviewed_tool(name, args, thread, &[]).await
    }

    /// Makes a call by hand again that has asked, with what was decided about all that it has asked so far. A decision
    /// counts where the call asks the same again, of the same arguments. Its words come in as the middlewares
    /// [let them](crate::middleware::Middleware::receive_text), as those of a decision in a run do.
    ///
    /// # Errors
    /// As [`call_tool`](Self::call_tool): a call may ask more than once.
    pub async fn call_reviewed_tool(
        &self,
        name: &str,
        args: Value,
        thread: Option<&str>,
        reviews: &[ActionReview],
    ) -> Result<ToolOutput> {
        let definition = &self.definition;
        let mut state = match thread {
            Some(thread) => self.state(thread).await?,
            None => State::new(definition.schema.clone()),
        };
        let mut asked = Vec::new();
        for review in reviews {
            asked.push(ActionRequestChange::Request(Box::new(review.request.clone())));
            if let Some(decided) = review.decision.clone() {
                let decided = definition.received_decision(decided)?;
                asked.push(ActionRequestChange::Decide(review.request.id.clone(), decided));
            }
        }
        if !asked.is_empty() {
            state.apply(&Update::new::<ActionRequests>(asked))?;
        }
        // The call that has asked is the same one.
        let run = reviews.iter().find_map(|review| review.request.call.path.first().cloned());
        let run = run.unwrap_or_else(|| definition.ids.next("run"));
        let builder = ContextBuilder::for_agent(definition).run_id(run.clone()).state(state);
        let cx = thread.into_iter().fold(builder, ContextBuilder::thread).build();
        let cx = with_offered(cx).await?;
        // A key that no call of the thread has.
        let id = CallId { path: vec![run.clone()], turn: 0, index: 0 };
        let call = ToolCall { id: run, name: name.to_owned(), args, native: None };
        let tool = cx.tool(name).cloned();
        let call = match coerce_call(PendingCall::Valid(call), tool.as_ref()) {
            PendingCall::Valid(call) => call,
            PendingCall::Invalid(call) => return Err(Error::Input(call.error)),
        };
        let tool_cx = ToolContext::for_call(cx, id, call.id.clone(), name.to_owned(), call.args.clone());
        let next = ToolNext::around(definition.stack.clone());
        let called = AssertUnwindSafe(next.run(ToolRequest::new(call, tool, tool_cx))).catch_unwind().await;
        let response = match called {
            Ok(Ok(response)) => response,
            Ok(Err(Error::ToolCall { text, .. })) => ToolResponse::error(text),
            Ok(Err(error)) => return Err(error),
            Err(panic) => ToolResponse::error(format!("Error: the tool crashed: {}", panic_text(&*panic))),
        };
        let ToolResponse { content, is_error, is_synthetic: _, update, artifact, child_state, source: _, decision: _ } =
            response;
        Ok(ToolOutput { content, is_error, update, artifact, child_state })
    }
}

/// The same with the tools that middlewares offer now.
async fn with_offered(mut cx: Context) -> Result<Context> {
    let offered = crate::run::offered_tools(&cx).await?;
    cx.tools = join_offered(&cx.shared.agent, &offered, &cx.tools)?;
    Ok(cx)
}
