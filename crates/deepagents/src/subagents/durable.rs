//! Background work that survives its process: an agent whose only step is to forward its input.

use std::sync::Arc;

use deepagents_core::agent::{Agent, BuildError};
use deepagents_core::error::{Error, Result};
use deepagents_core::message::{AssistantMessage, Block, Message};
use deepagents_core::middleware::{Middleware, ModelNext, ModelResponse};
use deepagents_core::model::{ModelOutput, ModelRequest, NoModel};
use deepagents_core::tool::{Effect, Tool, ToolContext, ToolError, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{AgentSubAgent, Depth, DynSubAgent, SubAgentTask};
use crate::text;

const HAND_ON: &str = "hand_on";

/// Creates an agent that forwards its input to a sub-agent whose work may be restarted after a crash, and answers with
/// the result. It calls no model. Its thread is the conversation of the work, so later messages continue it.
pub(crate) fn durable(work: Arc<dyn DynSubAgent>) -> Result<AgentSubAgent, BuildError> {
    let (name, description) = (work.name().to_owned(), work.description().to_owned());
    let agent = Agent::builder(NoModel).name(name.as_str()).middleware(Handing).tool(Arc::new(HandOn(work)));
    Ok(AgentSubAgent::new(name, description, &agent.build()?))
}

/// Answers in place of a model: with a call of the tool for the last message, then with the tool's result.
struct Handing;

impl Middleware for Handing {
    fn name(&self) -> &str {
        "Handing"
    }

    async fn wrap_model_call(&self, request: ModelRequest, _next: ModelNext) -> Result<ModelResponse> {
        let messages = &request.messages;
        let block = match messages.iter().next_back().map(|last| &**last) {
            Some(Message::Tool(result)) if result.is_error => {
                let text = text::of_blocks(&result.content);
                return Err(Error::other(text.strip_prefix("Error: ").map(str::to_owned).unwrap_or(text)));
            }
            Some(Message::Tool(result)) => Block::text(text::of_blocks(&result.content)),
            _ => {
                let said = messages.iter().rev().take_while(|message| matches!(***message, Message::User(_)));
                let mut said: Vec<String> = said.map(|message| message.text()).collect();
                said.reverse();
                let id = format!("{HAND_ON}_{}", messages.len());
                Block::call(id, HAND_ON, json!({"description": said.join("\n\n")}))
            }
        };
        Ok(ModelOutput::new(AssistantMessage::new(vec![block])).into())
    }
}

#[derive(Deserialize, JsonSchema)]
struct HandOnArgs {
    /// The task to be done.
    description: String,
}

struct HandOn(Arc<dyn DynSubAgent>);

impl Tool for HandOn {
    type Args = HandOnArgs;

    fn name(&self) -> &str {
        HAND_ON
    }

    fn description(&self) -> &str {
        "Hands the task on."
    }

    fn effect(&self, _args: &HandOnArgs) -> Effect {
        Effect::External
    }

    fn idempotent(&self, _args: &HandOnArgs) -> bool {
        true
    }

    async fn call(&self, args: HandOnArgs, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let depth = cx.extension::<Depth>().map_or(1, |depth| depth.0);
        let conversation = cx.thread().unwrap_or_else(|| cx.run_id()).to_owned();
        let task = SubAgentTask::new(args.description, depth).in_conversation(conversation);
        tokio::select! {
            biased;
            result = self.0.run(task, cx.clone()) => Ok(result?.output),
            // The new message is forwarded next, and the remote work receives it.
            () = cx.steered() => Ok(ToolOutput::text("Something else was said meanwhile.")),
        }
    }
}
