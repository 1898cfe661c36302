//! A server embedded in another program, beside the program's own routes.
//!
//! ```text
//! cargo run -p deepagents-server --example embed
//! ```

// ANCHOR: example
use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use deepagents::core::store::MemoryStore;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, MemoryJournal};
use deepagents_server::Server;
use tokio::net::TcpListener;

/// Serves until `end` completes.
async fn serve(
    listener: TcpListener,
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Box<dyn std::error::Error>> {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let agent = DeepAgent::builder().model(model).journal(journal.clone()).build()?;
    let running = Server::new(journal, Arc::new(MemoryStore::default())).agent("agent", agent)?.start().await?;
    let routes = Router::new().route("/mine", get(|| async { "mine" })).nest("/agents", running.router());
    let ended = async move {
        end.await;
        // Runs stop where they can be resumed, and streams end, so that connections can close.
        running.shutdown().await;
    };
    axum::serve(listener, routes).with_graceful_shutdown(ended).await?;
    Ok(())
}
// ANCHOR_END: example

#[tokio::main]
#[allow(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("serving http://{}/mine and http://{0}/agents", listener.local_addr()?);
    // A program waits here for a signal to end, such as `tokio::signal::ctrl_c()`.
    serve(listener, std::future::ready(())).await?;
    println!("shut down");
    Ok(())
}
