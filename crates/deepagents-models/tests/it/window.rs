//! Context windows, as reported by the server that runs the model.

use deepagents_models::{ConfigError, ModelConfig, Registry};
use serde_json::{Value, json};

use crate::server::{Reply, Server};

fn missing() -> Reply {
    Reply::json(404, &json!({"error": "there is no such page"}))
}

async fn asked(provider: &str, replies: Vec<Reply>) -> (Option<u64>, Vec<String>) {
    let server = Server::start(replies).await;
    let config = ModelConfig { base_url: Some(format!("{}/v1", server.url)), ..ModelConfig::default() };
    let window = Registry::new().context_window(&format!("{provider}:qwen3:8b"), config).await.unwrap();
    let lines = server.seen().into_iter().map(|seen| {
        let mut words = seen.head.split_whitespace();
        format!("{} {}", words.next().unwrap(), words.next().unwrap())
    });
    (window, lines.collect())
}

fn list(entry: &Value) -> Reply {
    Reply::json(200, &json!({"object": "list", "data": [{"id": "other", "max_model_len": 1}, entry]}))
}

#[tokio::test]
async fn the_context_window_is_read_from_model_lists_of_many_servers() {
    for field in ["max_model_len", "context_length", "context_window", "max_context_length"] {
        let entry = json!({"id": "qwen3:8b", field: 32_768});
        assert_eq!(
            asked("vllm", vec![list(&entry)]).await,
            (Some(32_768), vec!["GET /v1/models".to_owned()]),
            "{field}"
        );
    }
}

#[tokio::test]
async fn ollama_reports_the_loaded_or_configured_window_never_the_trained_one() {
    let plain = || list(&json!({"id": "qwen3:8b"}));
    let loaded = Reply::json(200, &json!({"models": [{"name": "qwen3:8b", "context_length": 8_192}]}));
    let (window, lines) = asked("ollama", vec![plain(), missing(), loaded]).await;
    assert_eq!((window, lines.last().unwrap().as_str()), (Some(8_192), "GET /api/ps"));
    let shown = |parameters: &str| {
        let info = json!({"qwen3.context_length": 40_960});
        Reply::json(200, &json!({"parameters": parameters, "model_info": info}))
    };
    let idle = || Reply::json(200, &json!({"models": []}));
    let configured = shown("stop \"x\"\nnum_ctx    16384\n");
    let (window, lines) = asked("ollama", vec![plain(), missing(), idle(), configured]).await;
    assert_eq!((window, lines.last().unwrap().as_str()), (Some(16_384), "POST /api/show"));
    let (window, _) = asked("ollama", vec![plain(), missing(), idle(), shown(""), missing()]).await;
    assert_eq!(window, None);
}

#[tokio::test]
async fn llama_cpp_reports_its_context_window_in_its_properties() {
    let props = Reply::json(200, &json!({"default_generation_settings": {"n_ctx": 4_096}}));
    let (window, lines) = asked("llamacpp", vec![list(&json!({"id": "qwen3:8b"})), props]).await;
    assert_eq!((window, lines[1].as_str()), (Some(4_096), "GET /props"));
}

#[tokio::test]
async fn an_unreachable_or_nonsensical_server_gives_no_window_and_no_error() {
    let junk = || Reply::json(200, &json!("what?"));
    assert_eq!(asked("custom", (0..5).map(|_| junk()).collect()).await.0, None);
    assert_eq!(asked("custom", vec![missing(), missing(), missing(), missing(), missing()]).await.0, None);
    let away = ModelConfig { base_url: Some("http://127.0.0.1:9".into()), ..ModelConfig::default() };
    assert_eq!(Registry::new().context_window("custom:x", away).await.unwrap(), None);
    let error = Registry::new().context_window("nobody:x", ModelConfig::default()).await.unwrap_err();
    assert!(matches!(error, ConfigError::UnknownProvider { .. }));
}

#[test]
fn a_configured_context_window_is_in_the_model_profile() {
    let config = || ModelConfig { context_window: Some(12_345), api_key: Some("k".into()), ..ModelConfig::default() };
    for name in ["ollama:qwen3:8b", "anthropic:claude-sonnet-4-5"] {
        let model = Registry::new().model_with(name, config()).unwrap();
        assert_eq!(model.profile().context_window, Some(12_345), "{name}");
    }
}
