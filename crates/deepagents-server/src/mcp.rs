//! The agents as tools of an MCP server, over HTTP and without sessions.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::assistants;
use crate::body::Raw;
use crate::error::{ApiError, Result};
use crate::runs::{RunCreate, joined, start};

/// Versions of the protocol that are spoken, newest first.
const NEWEST: &str = "2025-06-18";
const VERSIONS: [&str; 3] = [NEWEST, "2025-03-26", "2024-11-05"];

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/mcp", post(message)).route("/mcp/", post(message))
}

/// A request, or a notification where it has no id.
#[derive(Deserialize)]
struct Request {
    id: Option<Value>,
    method: String,
    #[serde(default)]
    params: Value,
}

/// What JSON-RPC calls an error.
struct RpcError {
    code: i32,
    message: String,
}

impl From<ApiError> for RpcError {
    fn from(error: ApiError) -> Self {
        let code = if error.status().is_server_error() { -32603 } else { -32602 };
        Self { code, message: error.to_string() }
    }
}

async fn message(State(app): State<Arc<App>>, Raw(body): Raw) -> Response {
    let request: Request = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => {
            let error = json!({"code": -32700, "message": error.to_string()});
            let answer = json!({"jsonrpc": "2.0", "id": null, "error": error});
            return (StatusCode::BAD_REQUEST, Json(answer)).into_response();
        }
    };
    let Some(id) = request.id else { return StatusCode::ACCEPTED.into_response() };
    let answer = match result(&app, &request.method, &request.params).await {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(RpcError { code, message }) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
    };
    Json(answer).into_response()
}

async fn result(app: &Arc<App>, method: &str, params: &Value) -> Result<Value, RpcError> {
    match method {
        "initialize" => {
            let asked = params.get("protocolVersion").and_then(Value::as_str);
            let version = VERSIONS.into_iter().find(|version| Some(*version) == asked).unwrap_or(NEWEST);
            let info = json!({"name": "deepagents", "version": env!("CARGO_PKG_VERSION")});
            Ok(json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}))
        }
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": tools(app).await?})),
        "tools/call" => call(app, params).await,
        other => Err(RpcError { code: -32601, message: format!("`{other}` is no method") }),
    }
}

/// One tool for each assistant.
async fn tools(app: &App) -> Result<Vec<Value>> {
    let schema = json!({
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "What is said to the agent"},
            "thread_id": {"type": "string", "description": "A conversation to go on with"},
        },
        "required": ["message"],
    });
    let one = |assistant: assistants::Assistant| {
        let description = assistant.description.unwrap_or_else(|| format!("Asks the agent {}.", assistant.name));
        let name = if assistant.name == assistant.graph_id { assistant.name } else { assistant.assistant_id };
        json!({"name": name, "description": description, "inputSchema": schema})
    };
    Ok(assistants::all(app).await?.into_iter().map(one).collect())
}

#[derive(Deserialize)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Arguments,
}

#[derive(Default, Deserialize)]
struct Arguments {
    message: Option<String>,
    messages: Option<Value>,
    thread_id: Option<String>,
}

async fn call(app: &Arc<App>, params: &Value) -> Result<Value, RpcError> {
    let call = Call::deserialize(params).map_err(|error| ApiError::invalid(error.to_string()))?;
    let said = call.arguments.messages.or_else(|| call.arguments.message.map(Value::String));
    let said = said.ok_or_else(|| ApiError::invalid("a call needs `message`"))?;
    let body = Map::from_iter([
        ("assistant_id".to_owned(), json!(call.name)),
        ("input".to_owned(), json!({"messages": said})),
        ("stream_mode".to_owned(), json!([])),
        ("if_not_exists".to_owned(), json!("create")),
    ]);
    let body: RunCreate =
        serde_json::from_value(Value::Object(body)).map_err(|error| ApiError::invalid(error.to_string()))?;
    let run = start(app, call.arguments.thread_id.as_deref(), body).await?;
    let values = joined(app, &run).await?;
    let failed = values.get("__error__").and_then(|error| error.get("message")?.as_str());
    let waits = values.get("__interrupt__").is_some();
    let last = values.get("messages").and_then(Value::as_array).and_then(|messages| messages.last());
    let text = match (failed, waits) {
        (Some(error), _) => error.to_owned(),
        (None, true) => format!("The agent waits for a decision in thread {}.", run.thread),
        (None, false) => last.map(content).unwrap_or_default(),
    };
    Ok(json!({"content": [{"type": "text", "text": text}], "isError": failed.is_some()}))
}

/// The text of a message.
fn content(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect(),
        _ => String::new(),
    }
}
