//! An agent that delegates to an agent on another server.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use deepagents::core::store::MemoryStore;
use deepagents_server::Server;
use tokio::net::TcpListener;

// ANCHOR: example
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::remote::RemoteConfig;
use deepagents::subagents::RemoteSubAgent;
use deepagents::{DeepAgent, MemoryJournal};
use serde_json::json;

async fn ask(url: &str) -> Result<String, Box<dyn std::error::Error>> {
    let there = RemoteConfig::langgraph(url, "librarian")?.header("x-api-key", "a key of that server")?;
    let librarian = RemoteSubAgent::new("librarian", "Knows where books are.", there)?;
    let task = json!({"description": "Where is Moby-Dick?", "subagent_type": "librarian"});
    let model = ScriptedModel::new([Turn::call("task", task), Turn::text("Look on the second shelf.")]);
    let agent = DeepAgent::builder().model(model).sub_agent(librarian).build()?;
    let outcome = agent.invoke("Find Moby-Dick.").await?;
    for message in outcome.messages().iter().filter(|message| message.as_tool().is_some()) {
        println!("librarian: {}", message.text());
    }
    Ok(outcome.text())
}
// ANCHOR_END: example

/// Serves the librarian until the runtime is dropped.
async fn serve() -> Result<String, Box<dyn std::error::Error>> {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([Turn::text("On the second shelf.")]);
    let librarian = DeepAgent::builder().model(model).journal(journal.clone()).build()?;
    let server = Server::new(journal, Arc::new(MemoryStore::default())).agent("librarian", librarian)?;
    let (server, listener) = (server.start().await?, TcpListener::bind("127.0.0.1:0").await?);
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(server.serve(listener, std::future::pending()));
    Ok(url)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("agent: {}", ask(&serve().await?).await?);
    Ok(())
}
