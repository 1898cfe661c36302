//! Messages API requests.

use std::sync::Arc;

use deepagents_core::message::{
    AssistantMessage, Block, InvalidToolCall, Media, MediaKind, MediaSource, Message, ToolMessage,
};
use deepagents_core::model::{CacheTtl, ModelError, ModelRequest, OutputSchema, SystemBlock, ToolChoice};
use deepagents_core::tool::ToolSpec;
use deepagents_models::{Anthropic, ModelConfig};
use serde_json::{Value, json};

fn model() -> Anthropic {
    Anthropic::new("claude-sonnet-4-5", ModelConfig::default()).unwrap()
}

fn body(request: &ModelRequest) -> Value {
    serde_json::from_slice(&model().request_body(request).unwrap()).unwrap()
}

fn tool(name: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec { name: name.into(), description: "d".into(), schema: Arc::new(json!({"type": "object"})) })
}

fn call(id: &str) -> Message {
    Message::Assistant(AssistantMessage::new(vec![Block::text("on it"), Block::call(id, "look", json!({"a": 1}))]))
}

fn result(id: &str, text: &str) -> Message {
    Message::Tool(ToolMessage { call_id: id.into(), content: vec![Block::text(text)], ..ToolMessage::default() })
}

fn image() -> Block {
    let source = MediaSource::Base64("AAAA".into());
    Block::Media(Media { kind: MediaKind::Image, mime: "image/png".into(), source, name: None })
}

#[test]
fn a_full_request_has_the_documented_shape() {
    let mut request =
        ModelRequest::new(vec![Message::user("hi"), call("t1"), result("t1", "seen"), Message::user("and?")]);
    request.system =
        vec![SystemBlock::new("fixed").cached(CacheTtl::OneHour), SystemBlock::new(" "), SystemBlock::new("late")];
    request.tools = vec![tool("look"), tool("write")];
    request.cache.tools = Some(CacheTtl::OneHour);
    request.cache.messages = vec![(3, CacheTtl::FiveMinutes)];
    request.tool_choice = ToolChoice::Any;
    request.parallel_tool_calls = Some(false);
    request.settings.temperature = Some(0.5);
    request.settings.stop = vec!["END".into()];
    request.settings.extra.insert("metadata".into(), json!({"user_id": "u"}));
    let ephemeral = json!({"type": "ephemeral"});
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    assert_eq!(
        body(&request),
        json!({
            "model": "claude-sonnet-4-5", "max_tokens": 32_000, "temperature": 0.5, "stop_sequences": ["END"],
            "stream": true, "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
            "metadata": {"user_id": "u"},
            "tools": [
                {"name": "look", "description": "d", "input_schema": {"type": "object"}},
                {"name": "write", "description": "d", "input_schema": {"type": "object"}, "cache_control": hour},
            ],
            "system": [{"type": "text", "text": "fixed", "cache_control": hour}, {"type": "text", "text": "late"}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "on it"},
                    {"type": "tool_use", "id": "t1", "name": "look", "input": {"a": 1}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "seen"}]},
                    {"type": "text", "text": "and?", "cache_control": ephemeral},
                ]},
            ],
        })
    );
}

#[test]
fn results_come_first_and_empty_answers_are_omitted_but_separate_turns() {
    let silent = Message::Assistant(AssistantMessage::new(vec![Block::text(" \n")]));
    let request = ModelRequest::new(vec![
        Message::user("one"),
        silent,
        Message::user("two"),
        Message::user("three"),
        call("t1"),
        Message::user("steer"),
        result("t1", "r"),
    ]);
    let messages = body(&request)["messages"].clone();
    assert_eq!(messages.as_array().unwrap().len(), 4);
    assert_eq!(messages[0]["content"], json!([{"type": "text", "text": "one"}]));
    assert_eq!(messages[1]["content"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&messages[3]["content"][0]["type"], &messages[3]["content"][1]["text"]),
        (&json!("tool_result"), &json!("steer"))
    );
}

#[test]
fn results_carry_errors_and_images_and_omit_empty_content() {
    let mut failed = ToolMessage::error("t1", "look", "");
    failed.content.push(image());
    let request = ModelRequest::new(vec![
        call("t1"),
        Message::Tool(failed),
        call("t2"),
        Message::Tool(ToolMessage::error("t2", "look", "")),
        call("t3"),
        result("t3", " \n"),
    ]);
    let messages = body(&request)["messages"].clone();
    assert_eq!(
        messages[1]["content"][0],
        json!({"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]})
    );
    assert_eq!(messages[3]["content"][0]["content"][0]["text"], "(no output)");
    assert_eq!(messages[5]["content"][0], json!({"type": "tool_result", "tool_use_id": "t3"}));
}

#[test]
fn invalid_calls_and_foreign_ids_are_made_acceptable() {
    let invalid =
        InvalidToolCall { id: "a.b:1".into(), raw: "{".into(), error: "e".into(), ..InvalidToolCall::default() };
    let said = AssistantMessage::new(vec![Block::InvalidToolCall(invalid)]);
    let messages = body(&ModelRequest::new(vec![Message::Assistant(said), result("a.b:1", "bad")]))["messages"].clone();
    assert_eq!(messages[0]["content"][0], json!({"type": "tool_use", "id": "a_b_1", "name": "unnamed", "input": {}}));
    assert_eq!(messages[1]["content"][0]["tool_use_id"], "a_b_1");
}

#[test]
fn a_result_uses_the_providers_call_id_when_the_call_is_sent_back_verbatim() {
    let native = json!({"type": "tool_use", "id": "look:0", "name": "look", "input": {}});
    let mut said = AssistantMessage::new(vec![Block::call("look:0", "look", json!({}))]);
    said.origin = Some(deepagents_core::message::Origin {
        api: "anthropic-messages".into(),
        provider: "anthropic".into(),
        model: "claude-sonnet-4-5".into(),
    });
    let ids = |said: &AssistantMessage| {
        let model = model();
        let mut request = ModelRequest::new(vec![Message::user("x"), Message::Assistant(said.clone())]);
        // The second request finds the encoding cached by the first.
        model.request_body(&request).unwrap();
        request.messages.put(Arc::new(result("look:0", "r")));
        let body: Value = serde_json::from_slice(&model.request_body(&request).unwrap()).unwrap();
        let content = |at: usize| body["messages"][at]["content"][0].clone();
        (content(1)["id"].clone(), content(2)["tool_use_id"].clone())
    };
    assert_eq!(ids(&said), (json!("look_0"), json!("look_0")));
    if let Some(Block::ToolCall(call)) = said.content.first_mut() {
        call.native = Some(deepagents_core::message::ProviderItem::new(native));
    }
    assert_eq!(ids(&said), (json!("look:0"), json!("look:0")));
}

#[test]
fn a_cache_mark_is_never_placed_on_thinking() {
    let mut said = AssistantMessage::new(vec![Block::text("hm")]);
    said.origin = Some(deepagents_core::message::Origin {
        api: "anthropic-messages".into(),
        provider: "anthropic".into(),
        model: "claude-sonnet-4-5".into(),
    });
    let thinking = json!({"type": "thinking", "thinking": "t", "signature": "s"});
    let thought = Block::Reasoning(deepagents_core::message::Reasoning {
        text: "t".into(),
        native: Some(deepagents_core::message::ProviderItem::new(thinking.clone())),
    });
    said.content.insert(0, thought);
    let mut request = ModelRequest::new(vec![Message::user("x"), Message::Assistant(said)]);
    request.cache.messages = vec![(1, CacheTtl::FiveMinutes)];
    let content = body(&request)["messages"][1]["content"].clone();
    assert_eq!(content[1]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(content[0], thinking);
}

#[test]
fn too_many_cache_marks_and_a_long_one_after_a_short_one_are_rejected() {
    let refused = |change: &dyn Fn(&mut ModelRequest)| {
        let mut request = ModelRequest::new(vec![Message::user("a"), call("t"), result("t", "r"), Message::user("b")]);
        request.tools = vec![tool("look")];
        change(&mut request);
        match model().request_body(&request) {
            Err(ModelError::Invalid(info)) => info.message,
            other => panic!("{other:?}"),
        }
    };
    let five = CacheTtl::FiveMinutes;
    let many = refused(&|request| {
        request.cache.tools = Some(five);
        request.cache.messages = (0..4).map(|at| (at, five)).collect();
    });
    assert!(many.contains("5 cache marks"), "{many}");
    let order = refused(&|request| request.cache.messages = vec![(3, CacheTtl::OneHour), (0, five)]);
    assert!(order.contains("one hour follows"), "{order}");
    assert!(refused(&|request| request.cache.messages = vec![(9, five)]).contains("message 9"));
}

#[test]
fn a_schema_is_closed_and_merged_with_other_output_settings() {
    let mut request = ModelRequest::new("x");
    let schema = Arc::new(json!({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}));
    request.output_schema = Some(OutputSchema { name: "a".into(), schema });
    request.settings.extra.insert("output_config".into(), json!({"effort": "low"}));
    let config = body(&request)["output_config"].clone();
    assert_eq!(config["effort"], "low");
    assert_eq!(config["format"]["type"], "json_schema");
    assert_eq!(config["format"]["schema"]["additionalProperties"], false);
    assert_eq!(config["format"]["schema"]["properties"]["a"]["additionalProperties"], false);
}

#[test]
fn a_thinking_budget_raises_the_token_limit() {
    let mut request = ModelRequest::new("x");
    request.settings.extra.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": 40_000}));
    assert_eq!(body(&request)["max_tokens"], 72_000);
    request.settings.max_tokens = Some(50_000);
    assert_eq!(body(&request)["max_tokens"], 50_000);
}

#[test]
fn documents_are_sent_and_audio_is_rejected() {
    let media =
        |kind, mime: &str, source| Block::Media(Media { kind, mime: mime.into(), source, name: Some("n".into()) });
    let user = |block| {
        let content = vec![block];
        ModelRequest::new(vec![Message::User(deepagents_core::message::UserMessage { content, ..Default::default() })])
    };
    let pdf = user(media(MediaKind::File, "application/pdf", MediaSource::Url("https://x.example/a.pdf".into())));
    assert_eq!(
        body(&pdf)["messages"][0]["content"][0],
        json!({"type": "document", "source": {"type": "url", "url": "https://x.example/a.pdf"}, "title": "n"})
    );
    let sound = user(media(MediaKind::Audio, "audio/wav", MediaSource::Base64("AA".into())));
    assert!(matches!(model().request_body(&sound), Err(ModelError::Invalid(_))));
}

#[test]
fn equal_requests_have_equal_bytes_and_a_longer_one_extends_them() {
    let mut messages = vec![Message::user("one"), call("t1"), result("t1", "r")];
    let first = model().request_body(&ModelRequest::new(messages.clone())).unwrap();
    assert_eq!(first, model().request_body(&ModelRequest::new(messages.clone())).unwrap());
    messages.extend([call("t2"), result("t2", "r2")]);
    let longer = model().request_body(&ModelRequest::new(messages)).unwrap();
    assert!(longer.starts_with(first.strip_suffix(b"]}").unwrap()));
}

#[test]
fn a_call_that_is_wanted_is_left_to_a_model_that_thinks_first() {
    let with = |thinking: Value, single: Option<bool>| {
        let mut request = ModelRequest::new("hi");
        request.tools = vec![tool("look")];
        (request.tool_choice, request.parallel_tool_calls) = (ToolChoice::Any, single);
        request.settings.extra.insert("thinking".into(), thinking);
        body(&request)["tool_choice"].clone()
    };
    assert_eq!(with(json!({"type": "disabled"}), None), json!({"type": "any"}));
    let thinks = json!({"type": "enabled", "budget_tokens": 1024});
    assert_eq!(with(thinks.clone(), None), Value::Null);
    assert_eq!(with(thinks, Some(false)), json!({"type": "auto", "disable_parallel_tool_use": true}));
}
