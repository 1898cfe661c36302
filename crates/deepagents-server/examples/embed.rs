//! A server embedded in another program, beside the program's own routes.
//!
//! ```text
//! cargo run -p deepagents-server --example embed
//! ```

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, MemoryJournal};
use deepagents_core::store::MemoryStore;
use deepagents_server::Server;

// ANCHOR: example
async fn routes() -> Result<Router, Box<dyn std::error::Error>> {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let agent = DeepAgent::builder().model(model).journal(journal.clone()).build()?;
    let agents = Server::new(journal, Arc::new(MemoryStore::default())).agent("agent", agent)?.router().await?;
    Ok(Router::new().route("/mine", get(|| async { "mine" })).nest("/agents", agents))
}
// ANCHOR_END: example

#[tokio::main]
#[allow(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Pass the routes to `axum::serve` with a listener.
    println!("routes beside those of the agents: {}", routes().await?.has_routes());
    Ok(())
}
