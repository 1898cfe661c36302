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
use crate::error::Result;
use crate::rpc::{self, RpcError};
use crate::runs::{RunCreate, joined, start};

/// The newest supported version of the protocol.
const NEWEST: &str = "2025-06-18";
const VERSIONS: [&str; 3] = [NEWEST, "2025-03-26", "2024-11-05"];

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/mcp", post(message))
}

async fn message(State(app): State<Arc<App>>, Raw(body): Raw) -> Response {
    let request = match rpc::read(&body) {
        Ok(request) => request,
        Err(refused) => return *refused,
    };
    let Some(id) = request.id else { return StatusCode::ACCEPTED.into_response() };
    Json(rpc::answer(&id, result(&app, &request.method, &request.params).await)).into_response()
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
        other => Err(RpcError::no_method(other)),
    }
}

/// Lists one tool per assistant.
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
    let call: Call = rpc::params(params)?;
    let said = call.arguments.messages.or_else(|| call.arguments.message.map(Value::String));
    let said = said.ok_or_else(|| RpcError::invalid("a call needs `message`"))?;
    let mut body = RunCreate::new(&call.name);
    body.input = Some(Map::from_iter([("messages".to_owned(), said)]));
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

/// Returns the text of a message.
fn content(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect(),
        _ => String::new(),
    }
}
