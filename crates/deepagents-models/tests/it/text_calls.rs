//! Tool calls that small models write in their text.

use std::sync::Arc;

use deepagents_core::message::Block;
use deepagents_core::model::{ChatModel, ModelEvent, ModelOutput, ModelRequest, StopReason, ToolSpec};
use deepagents_models::{ModelConfig, Registry, TextToolCalls};
use serde_json::json;

use crate::server::{Reply, Server, events, output, sse};

fn request() -> ModelRequest {
    let mut request = ModelRequest::new("x");
    let tool = |name: &str| ToolSpec { name: name.into(), description: String::new(), schema: json!({}).into() }.into();
    request.tools = vec![tool("look"), tool("read")];
    request
}

fn reply(text: &str) -> Reply {
    let delta = json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]});
    Reply::sse(sse(&[delta]) + "data: [DONE]\n\n")
}

async fn answer(text: &str) -> ModelOutput {
    let server = Server::start([reply(text)]).await;
    TextToolCalls::new(Arc::new(server.chat("llamacpp"))).invoke(request()).await.unwrap()
}

fn calls(output: &ModelOutput) -> Vec<(String, serde_json::Value)> {
    output.message.tool_calls().map(|call| (call.name.clone(), call.args.clone())).collect()
}

#[tokio::test]
async fn calls_in_tags_in_fences_and_bare_are_recognised() {
    let look = ("look".to_owned(), json!({"a": 1}));
    let read = ("read".to_owned(), json!({}));
    let one = r#"{"name": "look", "arguments": {"a": 1}}"#;
    let cases = [
        (format!("I look.\n<tool_call>\n{one}\n</tool_call>"), "I look.", vec![look.clone()]),
        (
            format!("<tool_call>{one}</tool_call><tool_call>{{\"name\":\"read\",\"arguments\":{{}}}}</tool_call>"),
            "",
            vec![look.clone(), read],
        ),
        (format!("So:\n```json\n{one}\n```\nDone."), "So:\n\nDone.", vec![look.clone()]),
        (one.to_owned(), "", vec![look.clone()]),
        (r#"[{"function": {"name": "look", "parameters": "{\"a\": 1}"}}]"#.to_owned(), "", vec![look.clone()]),
        (format!("<tool_call>{one}"), "", vec![look]),
    ];
    for (text, rest, made) in cases {
        let output = answer(&text).await;
        assert_eq!((calls(&output), output.message.text()), (made, rest.to_owned()), "{text}");
        assert_eq!(output.stop, StopReason::ToolCalls);
    }
}

#[tokio::test]
async fn text_that_only_resembles_a_call_stays_text() {
    let texts = [
        r#"<tool_call>{"name": "unknown", "arguments": {}}</tool_call>"#,
        "```json\n{\"name\": \"look\"}\n```",
        "<tool_call>{\"name\": \"look\", \"argu",
        "```rust\nlet a = 1;\n```",
        r#"{"name": "Ada", "arguments": {}}"#,
    ];
    for text in texts {
        let output = answer(text).await;
        assert_eq!(
            (calls(&output), output.message.content, output.stop),
            (vec![], vec![Block::text(text)], StopReason::End)
        );
    }
}

#[tokio::test]
async fn a_registry_enables_text_tool_calls_when_configured() {
    let text = r#"<tool_call>{"name": "look", "arguments": {"a": 1}}</tool_call>"#;
    let server = Server::start([reply(text), reply(text)]).await;
    let on = |text_tool_calls| {
        let config = ModelConfig { text_tool_calls, ..server.config() };
        Registry::new().model_with("llamacpp:m", config).unwrap()
    };
    let told = events(&*on(Some(true)), request()).await;
    assert!(told.iter().any(|event| matches!(event, Ok(ModelEvent::ToolCall { block: 1, .. }))));
    assert_eq!(calls(&output(&told)).len(), 1);
    assert_eq!(calls(&on(None).invoke(request()).await.unwrap()).len(), 0);
}
