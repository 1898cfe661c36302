//! Callers authenticated by a proxy in front of the server.
//!
//! ```text
//! cargo run -p deepagents-server --example authenticate
//! ```

use std::sync::Arc;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, MemoryJournal};
use deepagents_core::store::MemoryStore;
use deepagents_server::{Authenticate, Identity, Limits, Presented, Refusal, Server};

// ANCHOR: example
/// Trusts a header that the proxy sets to the caller's id and removes from incoming requests.
struct BehindProxy;

impl Authenticate for BehindProxy {
    async fn authenticate(&self, presented: Presented<'_>) -> Result<Identity, Refusal> {
        let user = presented.headers.get("x-forwarded-user").and_then(|user| user.to_str().ok());
        let user = user.ok_or_else(|| Refusal::Unknown("come through the proxy".to_owned()))?;
        if user == "guest" {
            return Err(Refusal::Forbidden("guests may not use agents".to_owned()));
        }
        Ok(Identity::new(user).limits(Limits { runs_at_once: Some(4), ..Limits::default() }))
    }
}
// ANCHOR_END: example

#[tokio::main]
#[allow(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let journal = Arc::new(MemoryJournal::new());
    let agent = DeepAgent::builder().model(ScriptedModel::new([Turn::text("Hello.")])).journal(journal.clone());
    let server = Server::new(journal, Arc::new(MemoryStore::default())).agent("agent", agent.build()?)?;
    let router = server.authenticate(BehindProxy).router().await?;
    println!("a router that knows who calls: {}", router.has_routes());
    Ok(())
}
