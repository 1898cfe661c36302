//! Wire format of tools that a provider runs itself.

use std::sync::Arc;

use deepagents_core::model::{CacheTtl, ChatModel, ModelRequest, ProviderTool};
use deepagents_core::tool::ToolSpec;
use serde_json::{Value, json};

use crate::server::{Reply, Server};

fn request() -> ModelRequest {
    let mut request = ModelRequest::new("Look it up.");
    let spec =
        ToolSpec { name: "ls".into(), description: "Lists.".into(), schema: Arc::new(json!({"type": "object"})) };
    request.tools = vec![Arc::new(spec)];
    let search = json!({"type": "web_search_20250305", "name": "web_search"});
    request.provider_tools = vec![
        Arc::new(ProviderTool::new("anthropic", search)),
        Arc::new(ProviderTool::new("openai-chat", json!({"type": "web_search_preview"}))),
        Arc::new(ProviderTool::new("openrouter", json!({"type": "of the router"}))),
    ];
    request.cache.tools = Some(CacheTtl::FiveMinutes);
    request
}

async fn sent(model: impl FnOnce(&Server) -> Arc<dyn ChatModel>) -> Value {
    let server = Server::start([Reply::json(400, &json!({"error": {"message": "no"}}))]).await;
    model(&server).invoke(request()).await.unwrap_err();
    server.seen()[0].json()["tools"].clone()
}

#[tokio::test]
async fn provider_tools_go_unchanged_after_ours_and_carry_the_last_cache_mark() {
    let tools = sent(|server| Arc::new(server.anthropic())).await;
    let marked = json!({"type": "web_search_20250305", "name": "web_search", "cache_control": {"type": "ephemeral"}});
    assert_eq!((tools.as_array().unwrap().len(), &tools[1]), (2, &marked));
    assert_eq!((&tools[0]["name"], tools[0].get("cache_control")), (&json!("ls"), None));
}

#[tokio::test]
async fn each_provider_tool_goes_only_to_its_provider_or_wire() {
    let types = |tools: Value| -> Vec<String> {
        tools.as_array().unwrap().iter().map(|tool| tool["type"].as_str().unwrap().to_owned()).collect()
    };
    let openai = types(sent(|server| Arc::new(server.chat("openai-chat"))).await);
    assert_eq!(openai, ["function", "web_search_preview"]);
    let router = types(sent(|server| Arc::new(server.chat("openrouter"))).await);
    assert_eq!(router, ["function", "web_search_preview", "of the router"]);
}
