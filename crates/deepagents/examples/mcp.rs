//! An agent that uses the tools of an MCP server, which is itself an agent here.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::mcp::serve::AgentServer;
use deepagents::mcp::{McpOptions, McpServers, ServerConfig};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{CancellationToken, DeepAgent};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The server: an agent on a local address.
    let librarian = DeepAgent::builder().model(ScriptedModel::new([Turn::text("On the second shelf.")])).build()?;
    let (tell, address) = tokio::sync::oneshot::channel();
    let stop = CancellationToken::new();
    let server = AgentServer::new(&librarian).description("Knows where books are.");
    let ready = |address: &str| drop(tell.send(address.to_owned()));
    let serving = tokio::spawn(server.serve_http("127.0.0.1:0".parse()?, stop.clone(), ready));

    // An agent with that server, and with a program that does not exist, which does no harm.
    let library = ServerConfig::http(address.await?);
    let missing = ServerConfig::stdio("/no/such/program", ["--quiet"]);
    let servers = McpServers::new([("library", library), ("missing", missing)], McpOptions::default());
    let model = ScriptedModel::new([
        Turn::call("mcp__library__agent", json!({"task": "Where is the atlas?"})),
        Turn::text("The atlas is on the second shelf."),
    ]);
    let agent = DeepAgent::builder().model(model).mcp(&servers).build()?;
    println!("{}", agent.invoke("Find the atlas.").await?.text());
    for server in servers.status() {
        println!("{}: {}", server.name, server.problem().unwrap_or("fine"));
    }

    servers.close().await;
    stop.cancel();
    serving.await??;
    Ok(())
}
// ANCHOR_END: example
