//! Tool calls made without a model.

use serde_json::Value;

use super::Agent;
use crate::context::ContextBuilder;
use crate::error::{Error, Result};
use crate::ids::CallId;
use crate::interrupt::{ActionRequestChange, ActionRequests, ActionReview};
use crate::message::ToolCall;
use crate::middleware::{ToolNext, ToolRequest, ToolResponse};
use crate::panics::caught_async;
use crate::run::{join_offered, offered_tools};
use crate::state::{State, Update};
use crate::tool::{ToolContext, ToolOutput, coerce_call};

impl Agent {
    /// Calls one of the agent's tools directly, through all the middlewares that wrap tool calls in a run, and returns
    /// its output and update. No model is called. The tool sees the state of the thread, or an empty state. The thread
    /// is not changed: store the update with [`update_state`](Self::update_state).
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
    /// Returns [`Error::Interrupted`] with the action requests if the call needs a person's decision; repeat the call
    /// with the decisions using [`call_reviewed_tool`](Self::call_reviewed_tool). Returns an error if the tool ends the
    /// run, a middleware fails, or the thread cannot be read. Other failures of the call are returned as an output that
    /// [is an error](ToolOutput::is_error).
    pub async fn call_tool(&self, name: &str, args: Value, thread: Option<&str>) -> Result<ToolOutput> {
        self.call_reviewed_tool(name, args, thread, &[]).await
    }

    /// Repeats a direct call that was interrupted, with the decisions on everything it has asked so far. A decision
    /// applies if the call makes the same request again, with the same arguments. As for decisions in a run, the text
    /// of decisions passes through [`Middleware::receive_text`](crate::middleware::Middleware::receive_text).
    ///
    /// ```
    /// use deepagents_core::agent::Agent;
    /// use deepagents_core::error::Error;
    /// use deepagents_core::interrupt::{ActionReview, Decision, DecisionKind};
    /// use deepagents_core::model::NoModel;
    /// use deepagents_core::tool::{ToolContext, json_tool};
    /// use serde_json::json;
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let pay = json_tool("pay", "Pays a bill.", json!({"type": "object"}), |_args, cx: ToolContext| async move {
    ///     cx.interrupt("Pay?", [DecisionKind::Approve])?;
    ///     Ok("Paid.")
    /// });
    /// let agent = Agent::builder(NoModel).tool(pay).build().unwrap();
    /// let Err(Error::Interrupted(waiting)) = agent.call_tool("pay", json!({}), None).await else { panic!("it asks") };
    /// let reviews: Vec<ActionReview> = waiting
    ///     .action_requests()
    ///     .iter()
    ///     .map(|request| ActionReview::new(request.clone(), Decision::Approve))
    ///     .collect();
    /// let output = agent.call_reviewed_tool("pay", json!({}), None, &reviews).await?;
    /// assert_eq!(output.content[0].as_text(), Some("Paid."));
    /// # Ok::<(), Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`call_tool`](Self::call_tool): a call may be interrupted more than once.
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
        // Reuse the identity of the interrupted call.
        let run = reviews.iter().find_map(|review| review.request.call.path.first().cloned());
        let run = run.unwrap_or_else(|| definition.ids.next("run"));
        let builder = ContextBuilder::for_agent(definition).run_id(run.clone()).state(state);
        let mut cx = thread.into_iter().fold(builder, ContextBuilder::thread).build();
        // Adds the tools that middlewares offer at this point.
        let offered = offered_tools(&cx).await?;
        cx.tools = join_offered(definition, &offered, &cx.tools)?;
        // No call of the thread has this key.
        let id = CallId { path: vec![run.clone()], turn: 0, index: 0 };
        let mut call = ToolCall::new(run, name, args);
        let tool = cx.tool(name).cloned();
        if let Some(tool) = &tool {
            coerce_call(&mut call, &**tool);
        }
        let tool_cx = ToolContext::for_call(cx, id, call.id.clone(), name.to_owned(), call.args.clone());
        let next = ToolNext::around(definition.stack.clone());
        let response = match caught_async(next.run(ToolRequest::new(call, tool, tool_cx))).await {
            Ok(Ok(response)) => response,
            Ok(Err(Error::ToolCall { text, .. })) => ToolResponse::error(text),
            Ok(Err(error)) => return Err(error),
            Err(panic) => ToolResponse::error(format!("Error: the tool crashed: {panic}")),
        };
        let ToolResponse { content, is_error, update, artifact, child_state, .. } = response;
        Ok(ToolOutput { content, is_error, update, artifact, child_state })
    }
}
