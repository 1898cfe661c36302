//! Commands to a thread.

use std::sync::Arc;

use axum::http::StatusCode;
use deepagents_core::message::Message;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::assistants;
use crate::auth::owns_thread;
use crate::deserialize::{from_ref, from_value};
use crate::error::{ApiError, Result};
use crate::json::{extend, set};
use crate::runs::{RunCreate, check_input, start};
use crate::stream::RunIdentity;
use crate::threads::{ThreadRecord, ThreadStatus};
use crate::wire::open_interrupts;

/// An error with one of the protocol's error codes.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct CommandError {
    code: &'static str,
    message: String,
}

impl CommandError {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid_argument", message)
    }
}

impl From<ApiError> for CommandError {
    fn from(error: ApiError) -> Self {
        let code = match error.status() {
            StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST => "invalid_argument",
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => "permission_denied",
            _ => "unknown_error",
        };
        Self::new(code, error.to_string())
    }
}

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
        let json = serde_json::from_slice(bytes).map_err(|error| error.to_string());
        json.and_then(from_value).map_err(|error| {
            ApiError::bad_request(format!("a command must be {{\"id\", \"method\", \"params\"}}: {error}"))
        })
    }

    /// Executes the command and returns the response.
    pub(super) async fn answer(&self, app: &Arc<App>, thread: &str) -> Value {
        // A client that has read up to this event reads the effects of the command next.
        let through = match app.journal.threads().get(thread).await {
            // The thread may have been deleted and created by another owner since the connection was opened.
            Ok(Some(info)) if !owns_thread(&info) => {
                return refusal(Some(self.id), &ApiError::not_found("Thread", thread).into());
            }
            Ok(info) => info.map_or(0, |info| info.end) << 24,
            Err(error) => return refusal(Some(self.id), &ApiError::from(error).into()),
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
    assistants::known(app, assistant).await?;
    let strategy = params.get("multitask_strategy").or_else(|| params.get("multitaskStrategy"));
    let mut body = json!({"if_not_exists": "create"});
    if let Some(strategy) = strategy {
        set(&mut body, "multitask_strategy", strategy.clone());
    }
    copy(params, &RUN_FIELDS, &mut body);
    begin(app, thread, body).await
}

/// The fields of a run request that a command may have.
const RUN_FIELDS: [&str; 8] =
    ["assistant_id", "input", "command", "config", "context", "metadata", "interrupt_before", "interrupt_after"];

/// Copies the fields that are there.
fn copy(from: &Value, fields: &[&str], to: &mut Value) {
    for field in fields {
        if let Some(value) = from.get(field) {
            set(to, field, value.clone());
        }
    }
}

/// Starts a run whose streams can be resumed and include sub-agents.
async fn begin(app: &Arc<App>, thread: &str, mut body: Value) -> Result<Value, CommandError> {
    extend(&mut body, json!({"stream_subgraphs": true, "stream_resumable": true}));
    body.as_object().map_or(Ok(()), check_input).map_err(CommandError::invalid)?;
    let body: RunCreate = from_value(body).map_err(CommandError::invalid)?;
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
    let read = |value: &Value| from_ref::<Response>(value).map_err(CommandError::invalid);
    let responses = match params.get("responses") {
        Some(Value::Array(several)) => several.iter().map(read).collect::<Result<Vec<_>, _>>()?,
        Some(_) => return Err(CommandError::invalid("`responses` must be a list")),
        None => vec![read(params)?],
    };
    let (info, state) = app.thread_state(thread).await?;
    let open = open_interrupts(thread, &state);
    let mut resume = Map::new();
    for Response { interrupt_id, response } in responses {
        if open.iter().all(|interrupt| interrupt.id != interrupt_id) {
            let message = format!("no interrupt {interrupt_id} is waiting for an answer");
            return Err(CommandError::new("no_such_interrupt", message));
        }
        if resume.insert(interrupt_id.clone(), response).is_some() {
            return Err(CommandError::invalid(format!("`responses` has two for the interrupt {interrupt_id}")));
        }
    }
    let mut command = json!({"resume": resume});
    copy(params, &["update", "goto"], &mut command);
    let mut body = json!({"assistant_id": info.metadata.get("assistant_id"), "command": command});
    copy(params, &["config", "metadata"], &mut body);
    begin(app, thread, body).await
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
    let status = match ThreadRecord::read(&info).status(app, &info) {
        ThreadStatus::Busy => "running",
        ThreadStatus::Interrupted => "interrupted",
        ThreadStatus::Error => "failed",
        ThreadStatus::Idle => "completed",
    };
    let graph = info.metadata.get("graph_id").cloned().unwrap_or_default();
    let below = app.threads_of(&info)?.sub_agents(thread).await.map_err(ApiError::from)?;
    let identity = RunIdentity { thread: thread.to_owned(), ..RunIdentity::default() };
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
    let (_, state) = app.thread_state(thread).await?;
    let mut values = crate::wire::values(&state)?;
    if let Some(keys) = params.get("keys").and_then(Value::as_array) {
        values.retain(|name, _| keys.iter().any(|key| key == name));
    }
    Ok(json!({"values": values}))
}
