//! Endless responses.

use deepagents_core::model::ModelRequest;
use deepagents_models::{Anthropic, ModelConfig, Ollama, served_models};
use serde_json::json;

use crate::server::{Reply, Server, events, retries, sse};

const PIECE: usize = 1 << 20;

fn ollama(server: &Server) -> Ollama {
    Ollama::new("a-model", ModelConfig { context_window: Some(8_192), ..server.config() }).unwrap()
}

#[tokio::test]
async fn an_endless_answer_is_an_actionable_error_and_not_retried() {
    let filler = "x".repeat(PIECE);
    let delta = |delta| sse(&[json!({"choices": [{"index": 0, "delta": delta}]})]);
    let call = json!([{"index": 0, "id": "c", "function": {"name": "f", "arguments": filler}}]);
    let replies = [
        // A single line, and a single event of many lines.
        Reply::sse(filler.clone()),
        Reply::sse(format!("data: {filler}\n")),
        // Endless text, and endless arguments.
        Reply::sse(delta(json!({"content": filler}))),
        Reply::sse(delta(json!({"tool_calls": call}))),
        Reply::stream("application/json", filler.clone()),
    ];
    let server = Server::start(replies.map(Reply::endless)).await;
    for _ in 0..5 {
        let told = events(&server.chat("vllm"), ModelRequest::new("x")).await;
        let error = told.last().unwrap().as_ref().unwrap_err();
        let words = error.to_string();
        assert!(words.contains("longer than 64 MiB") && words.contains("check the server's address"), "{words}");
        assert!(error.kind() == "protocol" && retries(&told).is_empty(), "{words}");
    }
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test]
async fn an_endless_line_or_model_list_is_an_error_too() {
    let endless = |kind| Reply::stream(kind, "x".repeat(PIECE)).endless();
    let server = Server::start([endless("application/x-ndjson"), endless("application/json")]).await;
    let told = events(&ollama(&server), ModelRequest::new("x")).await;
    let error = told.last().unwrap().as_ref().unwrap_err();
    assert!(error.kind() == "protocol" && error.to_string().contains("longer than 64 MiB"), "{error}");
    let error = served_models("vllm", &server.config()).await.unwrap_err();
    assert!(error.to_string().contains("longer than 64 MiB"), "{error}");
}

#[tokio::test]
async fn only_the_start_of_an_endless_error_body_is_read() {
    let page = format!("<html><title>out of order</title>{}", "x".repeat(PIECE));
    let server = Server::start([Reply::stream("text/html", page).status(400).endless()]).await;
    let model = Anthropic::new("m", server.config()).unwrap();
    let told = events(&model, ModelRequest::new("x")).await;
    let error = told.last().unwrap().as_ref().unwrap_err();
    assert!(error.kind() == "invalid_request" && error.to_string().contains("out of order"), "{error}");
}
