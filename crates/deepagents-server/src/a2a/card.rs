//! Agent cards.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, Uri, header};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::assistants;
use crate::body::Params;
use crate::error::Result;

/// Extension URI: a message id is processed once, however often the message is sent.
const ONCE: &str = "urn:deepagents:a2a:message-once";

#[derive(Deserialize)]
pub(super) struct Which {
    assistant_id: Option<String>,
}

/// Returns the card of the assistant named in the query, or of the first agent if the query names none.
pub(super) async fn of_query(
    State(app): State<Arc<App>>,
    Params(which): Params<Which>,
    OriginalUri(original): OriginalUri,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>> {
    let first = || app.agents().first().map(|agent| agent.name.clone()).unwrap_or_default();
    let name = which.assistant_id.unwrap_or_else(first);
    card(&app, &name, &base(&app, (&original, &uri), &headers)).await
}

pub(super) async fn of_path(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    OriginalUri(original): OriginalUri,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>> {
    card(&app, &name, &base(&app, (&original, &uri), &headers)).await
}

/// Returns the URL that the client used, up to the server's own routes.
fn base(app: &App, (original, own): (&Uri, &Uri), headers: &HeaderMap) -> String {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST).unwrap_or("localhost");
    // If TLS ends at a proxy, the proxy reports the scheme.
    let forwarded = headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok());
    let scheme = if app.tls.load(Ordering::Relaxed) || forwarded == Some("https") { "https" } else { "http" };
    // The routes may be nested below a path of another router.
    let below = original.path().strip_suffix(own.path()).unwrap_or_default();
    format!("{scheme}://{host}{below}")
}

async fn card(app: &App, name: &str, base: &str) -> Result<Json<Value>> {
    let assistant = assistants::known(app, name).await?;
    let description = assistant.description.unwrap_or_else(|| format!("The agent {}.", assistant.name));
    let id = if assistant.name == assistant.graph_id { &assistant.name } else { &assistant.assistant_id };
    let modes = json!(["text/plain", "application/json"]);
    let url = format!("{base}/a2a/{id}");
    let interface = |version: &str| json!({"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version});
    Ok(Json(json!({
        // Clients of 1.0 read the interfaces, preferred one first; clients of 0.3 read the fields next to them.
        "supportedInterfaces": [interface("1.0"), interface("0.3")],
        "protocolVersion": "0.3.0", "name": assistant.name, "description": description,
        "url": url, "preferredTransport": "JSONRPC", "version": env!("CARGO_PKG_VERSION"),
        "capabilities": {
            "streaming": true, "pushNotifications": false, "stateTransitionHistory": false, "extendedAgentCard": false,
            "extensions": [{"uri": ONCE, "description": "A message of one id is taken once.", "required": false}],
        },
        "defaultInputModes": modes, "defaultOutputModes": modes,
        "skills": [{"id": "chat", "name": "Chat", "description": description, "tags": ["chat"]}],
    })))
}
