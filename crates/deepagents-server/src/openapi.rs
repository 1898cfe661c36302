//! The API description: `/openapi.json` for programs and `/docs` for people.

use std::sync::Arc;

use axum::response::Html;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::json::set;

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/openapi.json", get(document)).route("/docs", get(page))
}

/// A method, a path, a summary, and the fields of the body, separated by spaces. Fields with a star are required.
struct Operation(&'static str, &'static str, &'static str, &'static str);

const RUN: &str = "assistant_id* input command config context metadata stream_mode stream_subgraphs \
    stream_resumable checkpoint checkpoint_id interrupt_before interrupt_after multitask_strategy \
    if_not_exists on_disconnect on_completion after_seconds webhook";
const PAGE: &str = "metadata limit offset sort_by sort_order select";
const THREAD_SEARCH: &str = "ids metadata values status limit offset sort_by sort_order select";
const ASSISTANT_SEARCH: &str = "graph_id name metadata limit offset sort_by sort_order select";
const ASSISTANT: &str = "graph_id* assistant_id config context metadata name description if_exists";
const CRON: &str = "schedule* assistant_id* timezone end_time enabled on_run_completed input metadata webhook";

/// All operations that need a token if authentication is configured. A test calls each of them without one.
const OPERATIONS: &[Operation] = &[
    Operation("get", "/info", "Returns the version, and what the server can do", ""),
    Operation("get", "/metrics", "Returns metrics in the Prometheus text format", ""),
    Operation("post", "/mcp", "Calls the agents as tools of an MCP server", "jsonrpc* id method* params"),
    Operation("get", "/.well-known/agent-card.json", "Describes an agent to A2A clients", ""),
    Operation(
        "get",
        "/a2a/{assistant_id}/.well-known/agent-card.json",
        "Describes an agent, under its own address",
        "",
    ),
    Operation("post", "/a2a/{assistant_id}", "Talks to an agent over A2A", "jsonrpc* id method* params"),
    Operation("post", "/assistants", "Creates an assistant", ASSISTANT),
    Operation("post", "/assistants/search", "Searches for assistants", ASSISTANT_SEARCH),
    Operation("post", "/assistants/count", "Counts assistants", ASSISTANT_SEARCH),
    Operation("get", "/assistants/{assistant_id}", "Returns an assistant", ""),
    Operation("patch", "/assistants/{assistant_id}", "Changes an assistant, as a new version", ASSISTANT),
    Operation(
        "delete",
        "/assistants/{assistant_id}",
        "Removes an assistant, and with `delete_threads` its threads",
        "",
    ),
    Operation("post", "/assistants/{assistant_id}/versions", "Lists the versions of an assistant", PAGE),
    Operation("post", "/assistants/{assistant_id}/latest", "Makes a version the current one", "version*"),
    Operation("get", "/assistants/{assistant_id}/graph", "Draws an assistant as a graph", ""),
    Operation("get", "/assistants/{assistant_id}/schemas", "Returns the schemas of an assistant", ""),
    Operation("get", "/assistants/{assistant_id}/subgraphs", "Returns the subgraphs, of which there are none", ""),
    Operation(
        "get",
        "/assistants/{assistant_id}/subgraphs/{namespace}",
        "Returns the subgraphs of a namespace, of which there are none",
        "",
    ),
    Operation("post", "/threads", "Creates a thread", "thread_id metadata if_exists ttl supersteps"),
    Operation("post", "/threads/search", "Searches for threads", THREAD_SEARCH),
    Operation("post", "/threads/count", "Counts threads", THREAD_SEARCH),
    Operation(
        "post",
        "/threads/prune",
        "Removes threads, or everything before their last checkpoint",
        "thread_ids* strategy",
    ),
    Operation("get", "/threads/{thread_id}", "Returns a thread", ""),
    Operation("patch", "/threads/{thread_id}", "Changes the metadata of a thread", "metadata ttl"),
    Operation("delete", "/threads/{thread_id}", "Removes a thread", ""),
    Operation("post", "/threads/{thread_id}/copy", "Copies a thread", ""),
    Operation("get", "/threads/{thread_id}/state", "Returns the state of a thread", ""),
    Operation(
        "post",
        "/threads/{thread_id}/state",
        "Changes the state of a thread",
        "values as_node checkpoint checkpoint_id",
    ),
    Operation("get", "/threads/{thread_id}/state/{checkpoint_id}", "Returns the state at a checkpoint", ""),
    Operation(
        "post",
        "/threads/{thread_id}/state/checkpoint",
        "Returns the state at a checkpoint",
        "checkpoint* subgraphs",
    ),
    Operation("get", "/threads/{thread_id}/history", "Lists the checkpoints of a thread, newest first", ""),
    Operation(
        "post",
        "/threads/{thread_id}/history",
        "Lists the checkpoints of a thread, newest first",
        "limit before metadata checkpoint",
    ),
    Operation("get", "/threads/{thread_id}/stream", "Streams all runs of a thread", ""),
    Operation("post", "/threads/{thread_id}/commands", "Sends a command to a thread", "id* method* params"),
    Operation(
        "post",
        "/threads/{thread_id}/stream/events",
        "Streams the events of a thread",
        "channels* namespaces depth since",
    ),
    Operation("post", "/threads/{thread_id}/runs", "Starts a run", RUN),
    Operation("get", "/threads/{thread_id}/runs", "Lists the runs of a thread", ""),
    Operation("post", "/threads/{thread_id}/runs/wait", "Starts a run and waits for its values", RUN),
    Operation("post", "/threads/{thread_id}/runs/stream", "Starts a run and streams it", RUN),
    Operation("get", "/threads/{thread_id}/runs/{run_id}", "Returns a run", ""),
    Operation("delete", "/threads/{thread_id}/runs/{run_id}", "Removes a finished run", ""),
    Operation("get", "/threads/{thread_id}/runs/{run_id}/join", "Waits for the values of a run", ""),
    Operation("get", "/threads/{thread_id}/runs/{run_id}/stream", "Streams a run that was started", ""),
    Operation("post", "/threads/{thread_id}/runs/{run_id}/cancel", "Ends a run", ""),
    Operation("post", "/threads/{thread_id}/runs/crons", "Creates a cron on a thread", CRON),
    Operation("post", "/runs", "Starts a run without a thread", RUN),
    Operation("post", "/runs/wait", "Starts a run without a thread and waits for its values", RUN),
    Operation("post", "/runs/stream", "Starts a run without a thread and streams it", RUN),
    Operation("post", "/runs/batch", "Starts several runs without a thread", ""),
    Operation("post", "/runs/cancel", "Ends several runs", "status thread_id run_ids"),
    Operation("post", "/runs/crons", "Creates a cron whose runs have threads of their own", CRON),
    Operation("post", "/runs/crons/search", "Searches for crons", PAGE),
    Operation("post", "/runs/crons/count", "Counts crons", PAGE),
    Operation("get", "/runs/crons/{cron_id}", "Returns a cron", ""),
    Operation("patch", "/runs/crons/{cron_id}", "Changes a cron", CRON),
    Operation("delete", "/runs/crons/{cron_id}", "Removes a cron", ""),
    Operation("put", "/store/items", "Stores an item", "namespace* key* value* ttl"),
    Operation("get", "/store/items", "Returns an item", ""),
    Operation("delete", "/store/items", "Removes an item", "namespace key*"),
    Operation("post", "/store/items/search", "Searches for items", "namespace_prefix filter limit offset query"),
    Operation("post", "/store/namespaces", "Lists namespaces", "prefix suffix max_depth limit offset"),
];

async fn document() -> Json<Value> {
    let mut paths = Map::new();
    for Operation(method, path, summary, fields) in OPERATIONS {
        let entry = paths.entry((*path).to_owned()).or_insert_with(|| json!({"parameters": parameters(path)}));
        set(entry, method, operation(summary, fields));
    }
    let schemes = json!({
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    });
    Json(json!({
        "openapi": "3.1.0",
        "info": {"title": "deepagents", "version": env!("CARGO_PKG_VERSION")},
        "components": {"securitySchemes": schemes},
        "security": [{}, {"bearer": []}, {"key": []}],
        "paths": paths,
    }))
}

/// Returns the parameters in a path.
fn parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}})).collect()
}

fn operation(summary: &str, fields: &str) -> Value {
    let refused = json!({"description": "Refused, with the reason as `detail`"});
    let mut out = json!({"summary": summary, "responses": {"2XX": {"description": "Done"}, "4XX": refused}});
    if !fields.is_empty() {
        let properties: Map<String, Value> =
            fields.split(' ').map(|field| (field.trim_end_matches('*').to_owned(), json!({}))).collect();
        let required: Vec<&str> = fields.split(' ').filter_map(|field| field.strip_suffix('*')).collect();
        let schema = json!({"type": "object", "properties": properties, "required": required});
        set(&mut out, "requestBody", json!({"content": {"application/json": {"schema": schema}}}));
    }
    out
}

/// Renders the description as HTML. It contains no client data.
async fn page() -> Html<String> {
    let row = |Operation(method, path, summary, fields): &Operation| {
        let fields = fields.replace(' ', ", ");
        format!("<tr><td>{}<td><code>{path}</code><td>{summary}<td>{fields}</tr>\n", method.to_uppercase())
    };
    let rows: String = OPERATIONS.iter().map(row).collect();
    Html(format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>deepagents</title>\n<h1>Server API</h1>\n\
         <p>For programs: <a href=openapi.json>openapi.json</a>. Fields with a star are required.\n\
         <table>\n<tr><th>Method<th>Path<th>What it does<th>Body</tr>\n{rows}</table>\n"
    ))
}
