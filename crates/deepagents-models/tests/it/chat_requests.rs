//! Chat Completions requests in several dialects.

use std::sync::Arc;

use deepagents_core::message::{
    AssistantMessage, Block, Media, MediaKind, MediaSource, Message, ToolMessage, UserMessage,
};
use deepagents_core::model::{CacheTtl, ModelRequest, OutputSchema, SystemBlock, ToolChoice};
use deepagents_core::tool::ToolSpec;
use deepagents_models::openai::OutputForm;
use deepagents_models::{Dialect, ModelConfig, Ollama, OpenAiChat, OpenAiResponses};
use serde_json::{Value, json};

fn with_model(dialect: Dialect, model: &str, request: &ModelRequest) -> Value {
    let config = ModelConfig { base_url: Some("http://localhost/v1".into()), ..ModelConfig::default() };
    let model = OpenAiChat::new(dialect, model, config).unwrap();
    serde_json::from_slice(&model.request_body(request).unwrap()).unwrap()
}

fn body(dialect: &str, request: &ModelRequest) -> Value {
    with_model(Dialect::named(dialect).unwrap(), "m", request)
}

fn call(id: &str) -> Message {
    Message::Assistant(AssistantMessage::new(vec![Block::call(id, "look", json!({"a": 1}))]))
}

fn image() -> Block {
    let source = MediaSource::Base64("AAAA".into());
    Block::Media(Media { kind: MediaKind::Image, mime: "image/png".into(), source, name: None })
}

#[test]
fn a_full_request_has_the_documented_shape() {
    let result = ToolMessage { call_id: "c1".into(), content: vec![Block::text("seen")], ..ToolMessage::default() };
    let mut request = ModelRequest::new(vec![Message::user("hi"), call("c1"), Message::Tool(result)]);
    request.system = vec![SystemBlock::new("one"), SystemBlock::new(""), SystemBlock::new("two")];
    let schema = Arc::new(json!({"type": "object"}));
    request.tools = vec![Arc::new(ToolSpec { name: "look".into(), description: "d".into(), schema })];
    request.tool_choice = ToolChoice::Tool("look".into());
    request.parallel_tool_calls = Some(false);
    request.settings.max_tokens = Some(100);
    request.settings.extra.insert("seed".into(), json!(1));
    assert_eq!(
        body("openai-chat", &request),
        json!({
            "model": "m", "max_completion_tokens": 100, "stream": true, "stream_options": {"include_usage": true},
            "tool_choice": {"type": "function", "function": {"name": "look"}}, "parallel_tool_calls": false, "seed": 1,
            "tools": [{"type": "function", "function": {"name": "look", "description": "d", "parameters": {"type": "object"}}}],
            "messages": [
                {"role": "system", "content": "one\n\ntwo"},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"a\":1}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "seen"},
            ],
        })
    );
    let mistral = body("mistral", &request);
    assert_eq!((&mistral["max_tokens"], mistral.get("stream_options")), (&json!(100), None));
    let id = &mistral["messages"][2]["tool_calls"][0]["id"];
    assert_eq!(id.as_str().unwrap().len(), 9);
    assert_eq!(id, &mistral["messages"][3]["tool_call_id"]);
}

#[test]
fn extra_fields_win_and_the_requests_win_over_the_models() {
    let config = ModelConfig {
        base_url: Some("http://localhost/v1".into()),
        extra: json!({"temperature": 1, "user": "u"}).as_object().unwrap().clone(),
        ..ModelConfig::default()
    };
    let model = OpenAiChat::new(Dialect::custom(), "m", config).unwrap();
    let mut request = ModelRequest::new("x");
    request.settings.temperature = Some(0.1);
    request.settings.extra.insert("user".into(), json!("v"));
    let text = String::from_utf8(model.request_body(&request).unwrap()).unwrap();
    let body: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&body["temperature"], &body["user"]), (&json!(1), &json!("v")));
    assert_eq!((text.matches("temperature").count(), text.matches("\"user\":").count()), (1, 1));
}

#[test]
fn images_in_results_follow_in_one_user_message() {
    let seen = |id: &str| {
        Message::Tool(ToolMessage {
            call_id: id.into(),
            name: "look".into(),
            content: vec![image()],
            ..Default::default()
        })
    };
    let request = ModelRequest::new(vec![call("a"), seen("a"), seen("b"), Message::user("next")]);
    let messages = body("openai-chat", &request)["messages"].clone();
    let roles: Vec<&str> = messages.as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["assistant", "tool", "tool", "user", "user"]);
    assert_eq!(messages[1]["content"], "(the result is attached below)");
    assert_eq!(messages[3]["content"][0]["text"], "Attached to the result of look (a):");
    assert_eq!(
        messages[3]["content"][3],
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}})
    );
}

#[test]
fn a_failed_result_says_so_in_its_text() {
    let failed = |text: &str| Message::Tool(ToolMessage::error("a", "look", text));
    let messages = body("openai-chat", &ModelRequest::new(vec![call("a"), failed("no such file"), failed("Error: x")]))
        ["messages"]
        .clone();
    assert_eq!((&messages[1]["content"], &messages[2]["content"]), (&json!("Error: no such file"), &json!("Error: x")));
}

#[test]
fn a_synthetic_result_keeps_its_own_words_on_apis_without_an_error_flag() {
    let rejected = Message::Tool(ToolMessage::synthetic("a", "look", "User rejected the call of look."));
    let request = ModelRequest::new(vec![call("a"), rejected]);
    let config = ModelConfig { base_url: Some("http://localhost/v1".into()), ..ModelConfig::default() };
    let bodies = [
        OpenAiChat::new(Dialect::named("openai-chat").unwrap(), "m", config.clone()).unwrap().request_body(&request),
        OpenAiResponses::new("openai", "m", config.clone()).unwrap().request_body(&request),
        Ollama::new("m", config).unwrap().request_body(&request),
    ];
    for (body, place) in bodies.into_iter().zip(["/messages/1/content", "/input/1/output", "/messages/1/content"]) {
        let body: Value = serde_json::from_slice(&body.unwrap()).unwrap();
        assert_eq!(body.pointer(place), Some(&json!("User rejected the call of look.")), "{body}");
    }
}

#[test]
fn every_kind_of_media_has_its_own_part() {
    let media =
        |kind, mime: &str, source| Block::Media(Media { kind, mime: mime.into(), source, name: Some("n.pdf".into()) });
    let content = vec![
        Block::text("see"),
        media(MediaKind::Audio, "audio/wav", MediaSource::Base64("A".into())),
        media(MediaKind::File, "application/pdf", MediaSource::Base64("B".into())),
        media(MediaKind::File, "application/pdf", MediaSource::FileId("f1".into())),
        media(MediaKind::Image, "image/png", MediaSource::Url("https://x.example/i.png".into())),
    ];
    let request = ModelRequest::new(vec![Message::User(UserMessage { content, ..Default::default() })]);
    assert_eq!(
        body("openai-chat", &request)["messages"][0]["content"],
        json!([
            {"type": "text", "text": "see"},
            {"type": "input_audio", "input_audio": {"data": "A", "format": "wav"}},
            {"type": "file", "file": {"filename": "n.pdf", "file_data": "data:application/pdf;base64,B"}},
            {"type": "file", "file": {"file_id": "f1"}},
            {"type": "image_url", "image_url": {"url": "https://x.example/i.png"}},
        ])
    );
}

#[test]
fn a_schema_is_strict_if_possible_and_put_in_words_where_unsupported() {
    let mut request = ModelRequest::new("x");
    let mut schema =
        json!({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": false});
    let mut with = |dialect: Dialect, schema: &Value| {
        request.output_schema = Some(OutputSchema { name: "a".into(), schema: Arc::new(schema.clone()) });
        with_model(dialect, "m", &request)
    };
    let openai = || Dialect::named("openai-chat").unwrap();
    assert_eq!(with(openai(), &schema)["response_format"]["json_schema"]["strict"], true);
    schema.as_object_mut().unwrap().shift_remove("required");
    assert_eq!(with(openai(), &schema)["response_format"]["json_schema"].get("strict"), None);
    let told = with(Dialect::named("deepseek").unwrap(), &schema);
    assert_eq!(told["response_format"], json!({"type": "json_object"}));
    assert!(told["messages"][0]["content"].as_str().unwrap().contains("additionalProperties"));
    let mut none = Dialect::custom();
    none.output = OutputForm::None;
    let config = ModelConfig { base_url: Some("http://localhost/v1".into()), ..ModelConfig::default() };
    let model = OpenAiChat::new(none, "m", config).unwrap();
    assert_eq!(model.request_body(&request).unwrap_err().kind(), "invalid_request");
}

#[test]
fn cache_marks_pass_through_a_gateway_to_models_that_support_them() {
    let mut request = ModelRequest::new(vec![Message::user("a"), Message::user("b")]);
    request.system = vec![SystemBlock::new("s").cached(CacheTtl::OneHour), SystemBlock::new("t")];
    request.cache.messages = vec![(1, CacheTtl::FiveMinutes)];
    let openrouter = || Dialect::named("openrouter").unwrap();
    let messages = with_model(openrouter(), "anthropic/claude-sonnet-4.5", &request)["messages"].clone();
    assert_eq!(messages[0]["content"][0]["cache_control"], json!({"type": "ephemeral", "ttl": "1h"}));
    assert_eq!(messages[2]["content"][0]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(with_model(openrouter(), "openai/gpt-4o", &request)["messages"][0]["content"], "s\n\nt");
}

#[test]
fn equal_requests_have_equal_bytes_and_a_longer_one_extends_them() {
    let config = ModelConfig { base_url: Some("http://localhost/v1".into()), ..ModelConfig::default() };
    let model = OpenAiChat::new(Dialect::custom(), "m", config).unwrap();
    let mut messages = vec![Message::user("one"), call("a")];
    let first = model.request_body(&ModelRequest::new(messages.clone())).unwrap();
    assert_eq!(first, model.request_body(&ModelRequest::new(messages.clone())).unwrap());
    messages.push(Message::Tool(ToolMessage { call_id: "a".into(), ..ToolMessage::default() }));
    let longer = model.request_body(&ModelRequest::new(messages)).unwrap();
    assert!(longer.starts_with(first.strip_suffix(b"]}").unwrap()));
}
