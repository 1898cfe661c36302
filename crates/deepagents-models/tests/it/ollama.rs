//! Ollama's own API.

use deepagents_core::message::{Block, Message};
use deepagents_core::model::{ChatModel, ModelEvent, ModelRequest, StopReason, ToolChoice, ToolSpec};
use deepagents_models::{ModelConfig, Ollama};
use serde_json::{Value, json};

use crate::server::{Reply, Server, events, output};

pub(crate) fn lines(lines: &[Value]) -> Reply {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Reply::stream("application/x-ndjson", text)
}

pub(crate) fn shown(context: u64) -> Reply {
    Reply::json(200, &json!({"model_info": {"general.architecture": "qwen3", "qwen3.context_length": context}}))
}

fn end() -> Value {
    json!({"message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
        "prompt_eval_count": 11, "eval_count": 5})
}

fn model(server: &Server) -> Ollama {
    // The URL of the compatible API works too.
    Ollama::new("house-made:4b", ModelConfig { base_url: Some(format!("{}/v1", server.url)), ..server.config() })
        .unwrap()
}

#[tokio::test]
async fn a_stream_of_thinking_text_and_calls_is_read_and_sent_back() {
    let said = |message: Value| json!({"message": message, "done": false});
    let call = json!({"function": {"name": "f", "arguments": {"a": 1}}});
    let first = [
        said(json!({"role": "assistant", "content": "", "thinking": "hm"})),
        said(json!({"role": "assistant", "content": "I "})),
        said(json!({"role": "assistant", "content": "look"})),
        said(json!({"role": "assistant", "content": "", "tool_calls": [call]})),
        end(),
    ];
    let server = Server::start([shown(40_960), lines(&first), lines(&[end()])]).await;
    let model = model(&server);
    let mut request = ModelRequest::new("x");
    request.tools =
        vec![ToolSpec { name: "f".into(), description: "F.".into(), schema: json!({"type": "object"}).into() }.into()];
    let told = events(&model, request.clone()).await;
    assert!(matches!(told[0].as_ref().unwrap(), ModelEvent::Reasoning { block: 0, .. }));
    let answer = output(&told);
    assert_eq!((answer.stop, answer.usage.input, answer.usage.output), (StopReason::ToolCalls, 11, 5));
    assert_eq!(answer.message.content[2], Block::call("call_2", "f", json!({"a": 1})));

    let made = answer.message.tool_calls().next().unwrap().clone();
    request.messages =
        vec![Message::user("x"), Message::Assistant(answer.message), Message::tool(&made, "done")].into();
    output(&events(&model, request).await);
    let seen = server.seen();
    assert!(seen[0].head.starts_with("POST /api/show ") && seen[1].head.starts_with("POST /api/chat "));
    assert_eq!(seen.len(), 3, "the server is asked once how much the model reads");
    let body = seen[2].json();
    assert_eq!((&body["options"]["num_ctx"], &body["truncate"]), (&json!(8192), &json!(false)));
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": "I look", "thinking": "hm",
                "tool_calls": [{"id": "call_2", "function": {"name": "f", "arguments": {"a": 1}}}]},
            {"role": "tool", "content": "done", "tool_name": "f", "tool_call_id": "call_2"},
        ])
    );
}

#[tokio::test]
async fn the_context_size_grows_with_the_prompt_and_never_shrinks() {
    let server = Server::start([shown(40_960), lines(&[end()]), lines(&[end()]), lines(&[end()])]).await;
    let model = model(&server);
    for words in [10_usize, 10_000, 10] {
        model.invoke(ModelRequest::new(&*"word ".repeat(words))).await.unwrap();
    }
    let sizes: Vec<u64> =
        server.seen()[1..].iter().map(|seen| seen.json()["options"]["num_ctx"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [8192, 32_768, 32_768]);
    let error = model.invoke(ModelRequest::new(&*"word ".repeat(100_000))).await.unwrap_err();
    assert_eq!(error.kind(), "context_length");
    assert_eq!(server.seen().len(), 4, "a prompt that cannot fit is not sent");
}

#[tokio::test]
async fn a_server_that_was_busy_is_asked_for_the_context_size_again() {
    let busy = Reply::json(503, &json!({"error": "server busy"}));
    let server = Server::start([busy, lines(&[end()]), shown(4096), lines(&[end()])]).await;
    let model = model(&server);
    for size in [8192, 4096] {
        model.invoke(ModelRequest::new("x")).await.unwrap();
        let sent = server.seen().last().unwrap().json();
        assert_eq!(sent["options"]["num_ctx"], size);
    }
}

#[tokio::test]
async fn a_configured_context_size_is_kept_and_stream_errors_are_reported() {
    let refused = lines(&[json!({"error": "the input length exceeds the context length"})]);
    let server = Server::start([refused]).await;
    let extra = json!({"options": {"num_ctx": 4096}, "think": true}).as_object().unwrap().clone();
    let model = Ollama::new("house-made:4b", ModelConfig { extra, ..server.config() }).unwrap();
    let error = model.invoke(ModelRequest::new("x")).await.unwrap_err();
    assert_eq!(error.kind(), "context_length");
    let body = server.seen()[0].json();
    assert_eq!((&body["options"], &body["think"]), (&json!({"num_ctx": 4096}), &json!(true)));
}

#[tokio::test]
async fn a_broken_stream_is_retried() {
    let half = json!({"message": {"role": "assistant", "content": "ha"}, "done": false});
    let server = Server::start([shown(8192), lines(std::slice::from_ref(&half)).cut(), lines(&[half, end()])]).await;
    let told = events(&model(&server), ModelRequest::new("x")).await;
    assert!(
        told.iter().any(|event| matches!(event, Ok(ModelEvent::Retry { error, .. }) if error.kind() == "truncated"))
    );
    assert_eq!(output(&told).message.text(), "ha");
}

#[test]
fn tool_choice_is_enforced_through_the_tools_offered() {
    let model = Ollama::new("m", ModelConfig::default()).unwrap();
    let mut request = ModelRequest::new("x");
    let tool = |name: &str| ToolSpec { name: name.into(), description: String::new(), schema: json!({}).into() }.into();
    request.tools = vec![tool("f"), tool("g")];
    let mut offered = |choice| {
        request.tool_choice = choice;
        let body: Value = serde_json::from_slice(&model.request_body(&request).unwrap()).unwrap();
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(offered(ToolChoice::Tool("g".into())), ["g"]);
    assert_eq!(offered(ToolChoice::None), Vec::<String>::new());
    assert_eq!(offered(ToolChoice::Any), ["f", "g"]);
}

#[tokio::test]
async fn json_values_may_span_several_lines() {
    let said = json!({"message": {"role": "assistant", "content": "hi"}, "done": false});
    let text: String = [said, end()].iter().map(|line| serde_json::to_string_pretty(line).unwrap() + "\n").collect();
    for kind in ["application/x-ndjson", "application/json"] {
        let server = Server::start([shown(8192), Reply::stream(kind, text.clone())]).await;
        let told = events(&model(&server), ModelRequest::new("x")).await;
        assert_eq!(output(&told).message.text(), "hi", "{kind}");
    }
}
