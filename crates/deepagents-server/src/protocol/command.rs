//! Commands to a thread.

use std::sync::Arc;

use deepagents_core::message::Message;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::errors::CommandError;
use crate::app::App;
use crate::assistants;
use crate::error::{ApiError, Result};
use crate::runs::{RunCreate, start};
use crate::threads::shown_status;
use crate::wire::{OpenInterrupt, open_interrupts};

/// A command as received.
#[derive(Debug, Deserialize)]
pub(super) struct Command {
    pub(super) id: u64,
    pub(super) method: String,
    #[serde(default)]
    pub(super) params: Value,
}

impl Command {
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|error| {
            ApiError::bad_request(format!("a command must be {{\"id\", \"method\", \"params\"}}: {error}"))
        })
    }

    /// Executes the command and returns the response.
    pub(super) async fn answer(&self, app: &Arc<App>, thread: &str) -> Value {
        // A client that has read up to this event reads the effects of the command next.
        let through = match app.journal.threads().get(thread).await {
            Ok(info) => info.map_or(0, |info| info.end) << 24,
            Err(_) => 0,
        };
        match self.result(app, thread).await {
            Ok(result) => json!({
                "type": "success", "id": self.id, "result": result, "meta": {"applied_through_seq": through},
            }),
            Err(error) => refusal(Some(self.id), &error),
        }
    }

    async fn result(&self, app: &Arc<App>, thread: &str) -> Result<Value, CommandError> {
        match self.method.as_str() {
            "run.start" => run_start(app, thread, &self.params).await,
            "input.respond" => input_respond(app, thread, &self.params).await,
            "input.inject" => input_inject(app, thread, &self.params),
            "agent.getTree" => agent_tree(app, thread).await,
            "state.get" => state_get(app, thread, &self.params).await,
            other => Err(CommandError::new("unknown_command", format!("`{other}` is not a command"))),
        }
    }
}

/// Builds the error response to a command.
pub(super) fn refusal(id: Option<u64>, error: &CommandError) -> Value {
    json!({"type": "error", "id": id, "error": error.code, "message": error.message})
}

async fn run_start(app: &Arc<App>, thread: &str, params: &Value) -> Result<Value, CommandError> {
    let Some(assistant) = params.get("assistant_id").and_then(Value::as_str) else {
        return Err(CommandError::invalid("run.start needs `assistant_id`"));
    };
    if assistants::find(app, assistant).await?.is_none() {
        return Err(CommandError::new("unknown_error", format!("Assistant {assistant} not found")));
    }
    let strategy = params.get("multitask_strategy").or_else(|| params.get("multitaskStrategy"));
    let mut body = Map::from_iter([
        ("if_not_exists".to_owned(), json!("create")),
        ("stream_subgraphs".to_owned(), json!(true)),
        ("stream_resumable".to_owned(), json!(true)),
    ]);
    body.extend(strategy.map(|strategy| ("multitask_strategy".to_owned(), strategy.clone())));
    for key in
        ["assistant_id", "input", "command", "config", "context", "metadata", "interrupt_before", "interrupt_after"]
    {
        body.extend(params.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    begin(app, thread, body).await
}

async fn begin(app: &Arc<App>, thread: &str, body: Map<String, Value>) -> Result<Value, CommandError> {
    let body: RunCreate =
        serde_json::from_value(Value::Object(body)).map_err(|error| CommandError::invalid(error.to_string()))?;
    let run = start(app, Some(thread), body).await?;
    Ok(json!({"run_id": run.id}))
}

#[derive(Deserialize)]
struct Response {
    interrupt_id: String,
    #[serde(default)]
    response: Value,
}

async fn input_respond(app: &Arc<App>, thread: &str, params: &Value) -> Result<Value, CommandError> {
    let read = |value: &Value| Response::deserialize(value).map_err(|error| CommandError::invalid(error.to_string()));
    let responses = match params.get("responses") {
        Some(Value::Array(several)) => several.iter().map(read).collect::<Result<Vec<_>, _>>()?,
        Some(_) => return Err(CommandError::invalid("`responses` must be a list")),
        None => vec![read(params)?],
    };
    let info = app.thread(thread).await?;
    let open = interrupts(app, thread).await?;
    let mut resume = Map::new();
    for Response { interrupt_id, response } in responses {
        if open.iter().all(|interrupt| interrupt.id != interrupt_id) {
            let message = format!("no interrupt {interrupt_id} is waiting for an answer");
            return Err(CommandError::new("no_such_interrupt", message));
        }
        resume.insert(interrupt_id, response);
    }
    let mut command = Map::from_iter([("resume".to_owned(), Value::Object(resume))]);
    for key in ["update", "goto"] {
        command.extend(params.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    let assistant = info.metadata.get("assistant_id").cloned();
    let mut body = Map::from_iter([
        ("assistant_id".to_owned(), assistant.unwrap_or_default()),
        ("command".to_owned(), Value::Object(command)),
        ("stream_subgraphs".to_owned(), json!(true)),
        ("stream_resumable".to_owned(), json!(true)),
    ]);
    for key in ["config", "metadata"] {
        body.extend(params.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    begin(app, thread, body).await
}

async fn interrupts(app: &App, thread: &str) -> Result<Vec<OpenInterrupt>> {
    let info = app.thread(thread).await?;
    let state = app.threads_of(&info)?.state(thread).await?;
    Ok(open_interrupts(thread, &state))
}

/// Sends a message to the run in flight.
fn input_inject(app: &App, thread: &str, params: &Value) -> Result<Value, CommandError> {
    let text = params.get("message").and_then(|message| message.get("content")?.as_str());
    let Some(text) = text else { return Err(CommandError::invalid("input.inject needs `message.content`, a string")) };
    let open = app.runs.open(thread);
    let taken = open.iter().any(|run| run.handle().is_some_and(|handle| handle.steer(Message::user(text))));
    if taken { Ok(json!({})) } else { Err(CommandError::new("no_such_run", "no run of this thread is in progress")) }
}

/// Returns the agents of a thread: the main agent and its sub-agents.
async fn agent_tree(app: &App, thread: &str) -> Result<Value, CommandError> {
    let info = app.thread(thread).await?;
    let status = match shown_status(app, &info) {
        "busy" => "running",
        "interrupted" => "interrupted",
        "error" => "failed",
        _ => "completed",
    };
    let graph = info.metadata.get("graph_id").cloned().unwrap_or_default();
    let below = app.threads_of(&info)?.sub_agents(thread).await.map_err(ApiError::from)?;
    let identity = app.identity_of(thread);
    let children: Vec<Value> = below
        .iter()
        .map(|agent| json!({"namespace": identity.namespace(&agent.path), "status": status, "graph_name": agent.agent}))
        .collect();
    Ok(json!({"tree": {"namespace": [], "status": status, "graph_name": graph, "children": children}}))
}

async fn state_get(app: &App, thread: &str, params: &Value) -> Result<Value, CommandError> {
    if params.get("namespace").and_then(Value::as_array).is_some_and(|namespace| !namespace.is_empty()) {
        return Err(CommandError::new(
            "no_such_namespace",
            "only the state of the main agent is available; its namespace is []",
        ));
    }
    let info = app.thread(thread).await?;
    let state = app.threads_of(&info)?.state(thread).await.map_err(ApiError::from)?;
    let mut values = crate::wire::values(&state)?;
    if let Some(keys) = params.get("keys").and_then(Value::as_array) {
        values.retain(|name, _| keys.iter().any(|key| key == name));
    }
    Ok(json!({"values": values}))
}
