//! Token counts of requests by the provider.

use std::sync::Arc;

use deepagents_core::model::{ChatModel, ModelRequest, SystemBlock, ToolSpec};
use deepagents_models::{Anthropic, Bedrock, Fallback, Gemini, Hedged, ModelConfig, OpenAiResponses, TextToolCalls};
use serde_json::{Value, json};

use crate::server::{Reply, Seen, Server};

fn request() -> ModelRequest {
    let mut request = ModelRequest::new("How long am I?");
    request.system = vec![SystemBlock::new("Be brief.")];
    let schema = Arc::new(json!({"type": "object", "properties": {}}));
    request.tools = vec![Arc::new(ToolSpec { name: "ls".into(), description: "Lists.".into(), schema })];
    request.settings.max_tokens = Some(100);
    request.settings.temperature = Some(0.5);
    request
}

async fn counted(server: &Server, model: &dyn ChatModel) -> (Option<u64>, Seen) {
    let count = model.count_tokens(request()).await.unwrap();
    (count, server.seen().last().unwrap().clone())
}

fn path(seen: &Seen) -> String {
    seen.head.split_whitespace().nth(1).unwrap().to_owned()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn each_providers_counting_endpoint_gets_the_fields_it_counts() {
    let number = |field: &str| Reply::json(200, &json!({field: 42}));
    let server = Server::start(
        ["input_tokens", "input_tokens", "totalTokens", "totalTokens", "input_tokens", "inputTokens", "inputTokens"]
            .map(number),
    )
    .await;
    let config = || server.config();
    let claude = Anthropic::new("claude-sonnet-4-5", config()).unwrap();
    let (count, seen) = counted(&server, &claude).await;
    assert_eq!((count, path(&seen).as_str()), (Some(42), "/v1/messages/count_tokens"));
    assert_eq!(keys(&seen.json()), ["model", "tools", "system", "messages"]);
    assert!(seen.head.contains("x-api-key: sk-very-secret"), "{}", seen.head);

    let base_url = Some(format!("{}/v1/projects/p/locations/l", server.url));
    let (count, seen) =
        counted(&server, &Anthropic::on_vertex("claude-x", ModelConfig { base_url, ..config() }).unwrap()).await;
    let want = "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict";
    assert_eq!((count, path(&seen).as_str(), &seen.json()["model"]), (Some(42), want, &json!("claude-x")));

    let base_url = Some(format!("{}/v1beta", server.url));
    let gemini = Gemini::new("gemini-2.5-flash", ModelConfig { base_url: base_url.clone(), ..config() }).unwrap();
    let (count, seen) = counted(&server, &gemini).await;
    assert_eq!((count, path(&seen).as_str()), (Some(42), "/v1beta/models/gemini-2.5-flash:countTokens"));
    let whole = &seen.json()["generateContentRequest"];
    assert_eq!(whole["model"], "models/gemini-2.5-flash");
    assert_eq!(whole["contents"][0]["parts"][0]["text"], "How long am I?");
    assert_eq!(whole["systemInstruction"]["parts"][0]["text"], "Be brief.");

    let (count, seen) =
        counted(&server, &Gemini::on_vertex("gemini-2.5-pro", ModelConfig { base_url, ..config() }).unwrap()).await;
    assert_eq!(
        (count, path(&seen).as_str()),
        (Some(42), "/v1beta/publishers/google/models/gemini-2.5-pro:countTokens")
    );
    assert_eq!(keys(&seen.json()), ["tools", "systemInstruction", "contents"]);

    let (count, seen) = counted(&server, &OpenAiResponses::new("openai", "gpt-5.2", config()).unwrap()).await;
    assert_eq!((count, path(&seen).as_str()), (Some(42), "/responses/input_tokens"));
    let body = seen.json();
    assert!(body["input"].is_array() && body["tools"].is_array() && body["model"] == "gpt-5.2", "{body}");
    for refused in ["store", "stream", "include", "max_output_tokens", "temperature"] {
        assert!(body.get(refused).is_none(), "{refused}");
    }

    let (count, seen) = counted(&server, &Bedrock::new("amazon.nova-lite-v1:0", config()).unwrap()).await;
    assert_eq!((count, path(&seen).as_str()), (Some(42), "/model/amazon.nova-lite-v1%3A0/count-tokens"));
    assert_eq!(keys(&seen.json()["input"]["converse"]), ["toolConfig", "system", "messages"]);
    let (count, seen) = counted(&server, &Anthropic::on_bedrock("anthropic.claude", config()).unwrap()).await;
    assert_eq!((count, path(&seen).as_str()), (Some(42), "/model/anthropic.claude/count-tokens"));
    assert!(seen.json()["input"]["invokeModel"]["body"].is_string());
}

#[tokio::test]
async fn a_missing_counting_endpoint_gives_no_count_and_other_errors_are_reported() {
    let missing = || Reply::json(404, &json!({"error": {"message": "not found"}}));
    let refused = Reply::json(401, &json!({"error": {"message": "sk-very-secret is wrong"}}));
    let server = Server::start([missing(), refused, Reply::json(200, &json!({"tokens": 3}))]).await;
    let model = server.anthropic();
    assert_eq!(model.count_tokens(request()).await.unwrap(), None);
    let error = model.count_tokens(request()).await.unwrap_err();
    assert!(error.kind() == "auth" && !error.to_string().contains("very-secret"), "{error}");
    let error = model.count_tokens(request()).await.unwrap_err();
    assert!(error.to_string().contains("`input_tokens`"), "{error}");
    // Chat Completions has no such endpoint, so no request is sent.
    assert_eq!(server.chat("groq").count_tokens(request()).await.unwrap(), None);
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn model_wrappers_forward_token_counting() {
    let number = || Reply::json(200, &json!({"input_tokens": 7}));
    let server = Server::start([number(), number(), number()]).await;
    let claude = || Arc::new(server.anthropic()) as Arc<dyn ChatModel>;
    let around: [Arc<dyn ChatModel>; 3] = [
        Arc::new(Fallback::new(claude()).then(Arc::new(server.chat("groq")))),
        Arc::new(Hedged::new(claude(), std::time::Duration::from_secs(9))),
        Arc::new(TextToolCalls::new(claude())),
    ];
    for model in around {
        assert_eq!(model.count_tokens(request()).await.unwrap(), Some(7));
    }
}
