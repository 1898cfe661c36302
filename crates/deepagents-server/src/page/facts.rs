//! Information about agents and models for the page, beyond the API of the LangGraph server.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use deepagents::middleware::rubric::RubricText;
use deepagents::models::Catalogue;
use deepagents_core::state::Channel;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::body::Params;
use crate::error::Result;

/// Returns `{"model", "tools": [{"name", "description", "parameters"}], "goals"}`: the agent's model, the tools it always
/// offers, with their argument schemas, and whether its work can be judged by a goal.
pub(super) async fn agent(State(app): State<Arc<App>>, Path(graph): Path<String>) -> Result<Json<Value>> {
    let served = app.known_agent(&graph)?;
    let definition = served.agent.definition();
    let tools = definition.tools().iter();
    let tools =
        tools.map(|tool| json!({"name": tool.name, "description": tool.description, "parameters": *tool.schema}));
    let goals = served.threads.schema().by_name(RubricText::NAME).is_some();
    Ok(Json(json!({"model": definition.model().name(), "tools": tools.collect::<Vec<_>>(), "goals": goals})))
}

#[derive(Deserialize)]
pub(super) struct Named {
    name: String,
}

/// Returns `{"name", "context_window", "price"}`: the context window in tokens and the price in US dollars per million
/// tokens, or null if unknown.
pub(super) async fn model(Params(named): Params<Named>) -> Json<Value> {
    let profile = Catalogue::built_in().profile(&named.name);
    Json(json!({"name": named.name, "context_window": profile.context_window, "price": profile.price}))
}
