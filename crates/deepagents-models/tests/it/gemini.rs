//! Gemini's API: signatures on parts, calls without IDs, blocked responses.

use deepagents_core::message::{Block, Media, MediaKind, MediaSource, Message, ToolMessage, UserMessage};
use deepagents_core::model::{
    ChatModel, ModelEvent, ModelOutput, ModelRequest, OutputSchema, ProviderTool, StopReason, SystemBlock, ToolChoice,
    ToolSpec,
};
use deepagents_models::{Credentials, Gemini, ModelConfig};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::server::{Reply, Server, events, output, sse};

fn model() -> Gemini {
    Gemini::new("gemini-3-pro", ModelConfig::default()).unwrap()
}

fn body(request: &ModelRequest) -> Value {
    serde_json::from_slice(&model().request_body(request).unwrap()).unwrap()
}

fn piece(parts: &[Value], finish: Option<&str>) -> Value {
    let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}});
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({"responseId": "R-1", "candidates": [candidate], "usageMetadata": {"promptTokenCount": 7,
        "cachedContentTokenCount": 3, "candidatesTokenCount": 4, "thoughtsTokenCount": 5}})
}

fn decode(body: &str) -> ModelOutput {
    model().decode(200, &HeaderMap::new(), body.as_bytes()).unwrap().output
}

fn result(id: &str, name: &str, text: &str) -> Message {
    let content = vec![Block::text(text)];
    Message::Tool(ToolMessage { call_id: id.into(), name: name.into(), content, ..ToolMessage::default() })
}

#[test]
fn signatures_are_sent_back_on_their_original_part() {
    let pieces = [
        piece(&[json!({"text": "let me ", "thought": true})], None),
        piece(&[json!({"text": "see", "thought": true})], None),
        piece(&[json!({"text": "I "})], None),
        piece(&[json!({"text": "look"})], None),
        piece(
            &[
                json!({"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "S1"}),
                json!({"functionCall": {"name": "f", "args": {"a": 2}}}),
            ],
            None,
        ),
        piece(&[json!({"text": "", "thoughtSignature": "S2"})], Some("STOP")),
    ];
    let output = decode(&sse(&pieces));
    assert_eq!((output.stop.clone(), output.message.text().trim()), (StopReason::ToolCalls, "I look"));
    assert_eq!(
        (output.usage.input, output.usage.cache_read, output.usage.output, output.usage.reasoning),
        (7, 3, 9, 5)
    );
    let ids: Vec<String> = output.message.call_ids().map(str::to_owned).collect();
    assert_eq!(ids, ["call_R1_2", "call_R1_3"]);
    let sent = body(&ModelRequest::new(vec![
        Message::user("x"),
        Message::Assistant(output.message),
        result(&ids[0], "f", "one"),
        result(&ids[1], "f", "two"),
        Message::user("and?"),
    ]));
    assert_eq!(
        sent["contents"],
        json!([
            {"role": "user", "parts": [{"text": "x"}]},
            {"role": "model", "parts": [
                {"text": "let me see", "thought": true},
                {"text": "I look"},
                {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "S1"},
                {"functionCall": {"name": "f", "args": {"a": 2}}},
                {"text": "", "thoughtSignature": "S2"},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "f", "response": {"output": "one"}}},
                {"functionResponse": {"name": "f", "response": {"output": "two"}}},
            ]},
            {"role": "user", "parts": [{"text": "and?"}]},
        ])
    );
}

#[test]
fn an_id_from_the_model_is_also_sent_with_the_result() {
    let call = json!({"functionCall": {"id": "given", "name": "f", "args": {}}});
    let output = decode(&piece(std::slice::from_ref(&call), Some("STOP")).to_string());
    let sent = body(&ModelRequest::new(vec![
        Message::user("x"),
        Message::Assistant(output.message),
        result("given", "f", "y"),
    ]));
    assert_eq!(sent["contents"][1]["parts"][0]["functionCall"], call["functionCall"]);
    assert_eq!(sent["contents"][2]["parts"][0]["functionResponse"]["id"], "given");
}

#[test]
fn blocked_prompts_empty_answers_and_unreadable_calls_are_typed_outcomes() {
    let blocked = decode(&json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}).to_string());
    assert_eq!((blocked.stop, blocked.message.content.len()), (StopReason::Refusal, 0));
    assert_eq!(decode(&piece(&[], Some("PROHIBITED_CONTENT")).to_string()).stop, StopReason::Refusal);
    assert_eq!(decode(&json!({"candidates": []}).to_string()).stop, StopReason::Other("no candidates".into()));
    let mut malformed = piece(&[], Some("MALFORMED_FUNCTION_CALL"));
    malformed["candidates"][0]["finishMessage"] = json!("print(f(1))");
    let malformed = decode(&malformed.to_string());
    assert_eq!(malformed.stop, StopReason::ToolCalls);
    assert!(matches!(&malformed.message.content[0], Block::InvalidToolCall(call) if call.raw == "print(f(1))"));
    let cut = model().decode(200, &HeaderMap::new(), sse(&[piece(&[json!({"text": "a"})], None)]).as_bytes());
    assert_eq!(cut.unwrap_err().kind(), "truncated");
    let error = json!({"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"}]}});
    let error = model().decode(429, &HeaderMap::new(), error.to_string().as_bytes()).unwrap_err();
    assert_eq!((error.kind(), error.info().retry_after.unwrap().as_millis()), ("rate_limited", 2500));
}

#[test]
fn search_results_are_kept_for_the_user_and_not_sent_back() {
    let mut answer = piece(&[json!({"text": "Spain."})], Some("STOP"));
    answer["candidates"][0]["groundingMetadata"] = json!({"webSearchQueries": ["euro 2024"]});
    let output = decode(&answer.to_string());
    let kept = output.message.content[1].native().unwrap().value();
    assert_eq!(kept["groundingMetadata"]["webSearchQueries"][0], "euro 2024");
    let sent = body(&ModelRequest::new(vec![Message::user("x"), Message::Assistant(output.message)]));
    assert_eq!(sent["contents"][1]["parts"], json!([{"text": "Spain."}]));
}

#[test]
fn images_are_sent_and_received_with_their_signature() {
    let part = json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "S"});
    let output = decode(&piece(std::slice::from_ref(&part), Some("STOP")).to_string());
    assert!(matches!(&output.message.content[0], Block::Media(media) if media.kind == MediaKind::Image));
    let picture = Media {
        kind: MediaKind::Image,
        mime: "image/png".into(),
        source: MediaSource::Base64("aGk=".into()),
        name: None,
    };
    let user = Message::User(UserMessage { content: vec![Block::Media(picture)], ..UserMessage::default() });
    let sent = body(&ModelRequest::new(vec![user, Message::Assistant(output.message)]));
    assert_eq!(sent["contents"][0]["parts"], json!([{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]));
    assert_eq!(sent["contents"][1]["parts"], json!([part]));
}

#[test]
fn a_request_uses_the_api_field_names_and_a_cached_prompt_replaces_its_own() {
    let mut request = ModelRequest::new("hello");
    request.system = vec![SystemBlock::new("be brief")];
    let schema = json!({"$schema": "x", "type": "object", "properties": {"a": {"type": "string", "default": "b"}}});
    let taken = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    request.tools = vec![ToolSpec { name: "f".into(), description: "F.".into(), schema: schema.clone().into() }.into()];
    request.tool_choice = ToolChoice::Tool("f".into());
    request.settings.max_tokens = Some(9);
    request.settings.extra.insert("generationConfig".into(), json!({"thinkingConfig": {"includeThoughts": true}}));
    request.provider_tools = vec![ProviderTool::new("gemini", json!({"googleSearch": {}})).into()];
    request.output_schema = Some(OutputSchema { name: "n".into(), schema: schema.into() });
    assert_eq!(
        body(&request),
        json!({
            "generationConfig": {"maxOutputTokens": 9, "responseMimeType": "application/json", "responseJsonSchema": taken,
                "thinkingConfig": {"includeThoughts": true}},
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
            "tools": [{"functionDeclarations": [{"name": "f", "description": "F.", "parametersJsonSchema": taken}]},
                {"googleSearch": {}}],
            "systemInstruction": {"parts": [{"text": "be brief"}]},
            "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
        })
    );
    request.settings.extra.insert("cachedContent".into(), json!("cachedContents/1"));
    let cached = body(&request);
    assert_eq!(cached["cachedContent"], "cachedContents/1");
    assert!(["tools", "toolConfig", "systemInstruction"].iter().all(|key| cached.get(key).is_none()));
}

#[tokio::test]
async fn api_keys_and_tokens_use_the_auth_header_of_their_endpoint() {
    let reply = || Reply::sse(sse(&[piece(&[json!({"text": "hi"})], Some("STOP"))]));
    let server = Server::start([reply(), reply()]).await;
    let by_key = Gemini::new("gemini-3-pro", server.config()).unwrap();
    assert_eq!(by_key.invoke(ModelRequest::new("x")).await.unwrap().message.text(), "hi");
    let base_url = Some(format!("{}/v1/projects/p/locations/l", server.url));
    let config = ModelConfig { api_key: Some(Credentials::token("ya29")), base_url, ..server.config() };
    let on_vertex = Gemini::on_vertex("gemini-3-pro", config).unwrap();
    assert_eq!(
        (on_vertex.name(), on_vertex.invoke(ModelRequest::new("x")).await.is_ok()),
        ("vertex:gemini-3-pro", true)
    );
    let seen = server.seen();
    assert!(seen[0].head.starts_with("POST /models/gemini-3-pro:streamGenerateContent?alt=sse "), "{}", seen[0].head);
    assert!(seen[0].head.contains("x-goog-api-key: sk-very-secret"));
    let path = "POST /v1/projects/p/locations/l/publishers/google/models/gemini-3-pro:streamGenerateContent?alt=sse ";
    assert!(seen[1].head.starts_with(path) && seen[1].head.contains("authorization: Bearer ya29"), "{}", seen[1].head);
}

#[test]
fn an_image_is_sent_back_with_everything_that_came_with_it() {
    let parts = [
        json!({"inlineData": {"mimeType": "image/png", "data": "AA", "displayName": "x.png"}, "thought": true}),
        json!({"inlineData": {"mimeType": "image/png", "data": "BB"}, "thoughtSignature": "S"}),
    ];
    let output = decode(&piece(&parts, Some("STOP")).to_string());
    let sent = body(&ModelRequest::new(vec![Message::user("x"), Message::Assistant(output.message)]));
    assert_eq!(sent["contents"][1]["parts"], json!(parts));
}

#[test]
fn unsigned_calls_are_marked_for_models_that_require_signatures() {
    let calls = vec![Block::call("a", "f", json!({})), Block::call("b", "g", json!({}))];
    let answer = Message::Assistant(deepagents_core::message::AssistantMessage::new(calls));
    let request = ModelRequest::new(vec![Message::user("x"), answer, result("a", "f", "1"), result("b", "g", "2")]);
    let parts = &body(&request)["contents"][1]["parts"];
    assert_eq!(parts[0]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(parts[1].get("thoughtSignature"), None);
    let older = Gemini::new("gemini-2.5-pro", ModelConfig::default()).unwrap();
    let sent: Value = serde_json::from_slice(&older.request_body(&request).unwrap()).unwrap();
    assert_eq!(sent["contents"][1]["parts"][0].get("thoughtSignature"), None);
}

#[test]
fn the_models_own_unsigned_call_is_marked_too_and_a_signed_one_is_kept() {
    let unsigned = json!({"functionCall": {"id": "given", "name": "f", "args": {}}});
    let mut signed = unsigned.clone();
    signed["thoughtSignature"] = json!("S");
    for (part, signature) in [(unsigned, "skip_thought_signature_validator"), (signed, "S")] {
        let output = decode(&piece(&[part], Some("STOP")).to_string());
        let history = vec![Message::user("x"), Message::Assistant(output.message), result("given", "f", "1")];
        let part = body(&ModelRequest::new(history))["contents"][1]["parts"][0].clone();
        assert_eq!((&part["thoughtSignature"], &part["functionCall"]["id"]), (&json!(signature), &json!("given")));
    }
}

#[test]
fn an_unreadable_call_is_sent_back_with_its_signature_and_object_arguments() {
    let call = json!({"functionCall": {"id": "given", "name": "f", "args": [1]}, "thoughtSignature": "S1"});
    let output = decode(&piece(&[call], Some("STOP")).to_string());
    assert!(matches!(&output.message.content[0], Block::InvalidToolCall(call) if call.raw == "[1]"));
    let history = vec![Message::user("x"), Message::Assistant(output.message), result("given", "f", "no")];
    let sent = body(&ModelRequest::new(history));
    let want = json!({"functionCall": {"id": "given", "name": "f", "args": {}}, "thoughtSignature": "S1"});
    assert_eq!(sent["contents"][1]["parts"], json!([want]));
    assert_eq!(sent["contents"][2]["parts"][0]["functionResponse"]["id"], "given");
}

#[test]
fn a_changed_call_is_sent_with_its_change_and_stays_acceptable() {
    let call = json!({"functionCall": {"id": "given", "name": "send", "args": {"to": "ann@example.org"}},
        "thoughtSignature": "S1"});
    let mut answer = decode(&piece(&[call], Some("STOP")).to_string()).message;
    for drops_item in [false, true] {
        let Block::ToolCall(call) = &mut answer.content[0] else { panic!("no call") };
        call.args = json!({"to": "[hidden]"});
        call.native = call.native.take().filter(|_| !drops_item);
        let history = vec![Message::user("x"), Message::Assistant(answer.clone()), result("given", "send", "sent")];
        let contents = &body(&ModelRequest::new(history))["contents"];
        let part = &contents[1]["parts"][0];
        assert_eq!(part["functionCall"], json!({"name": "send", "args": {"to": "[hidden]"}}));
        assert_eq!(part["thoughtSignature"], "skip_thought_signature_validator");
        let result = &contents[2]["parts"][0]["functionResponse"];
        assert_eq!(result.get("id"), None, "the call has none either");
    }
}

#[test]
fn models_that_refuse_a_schema_beside_tools_are_not_said_to_enforce_one() {
    let enforces = |model: &str| Gemini::new(model, ModelConfig::default()).unwrap().profile().structured_output;
    let older = ["gemini-1.5-pro", "models/gemini-2.0-flash", "gemini-2.5-flash"];
    assert_eq!(older.map(enforces), [Some(false); 3]);
    assert_eq!(["gemini-3-flash-preview", "gemini-3.1-pro-preview"].map(enforces), [Some(true); 2]);
}

#[tokio::test]
async fn pieces_name_the_blocks_of_the_answer_also_after_a_signed_picture() {
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thoughtSignature": "S1"});
    let call = json!({"functionCall": {"name": "f", "args": {"a": 1}}});
    let pieces = [piece(&[picture, json!({"text": "See"})], None), piece(&[json!({"text": "."}), call], Some("STOP"))];
    let server = Server::start([Reply::sse(sse(&pieces))]).await;
    let model = Gemini::new("gemini-3-pro", server.config()).unwrap();
    let told = events(&model, ModelRequest::new("x")).await;
    let content = output(&told).message.content;
    let block = |event: &ModelEvent| match event {
        ModelEvent::Text { block, .. } => Some((*block, "text")),
        ModelEvent::ToolCall { block, .. } | ModelEvent::ToolArgs { block, .. } => Some((*block, "call")),
        _ => None,
    };
    let named: Vec<(usize, &str)> = told.iter().filter_map(|event| block(event.as_ref().ok()?)).collect();
    assert_eq!(named, [(2, "text"), (2, "text"), (3, "call"), (3, "call")]);
    assert!(
        matches!(&content[2], Block::Text(text) if text.text == "See.") && matches!(&content[3], Block::ToolCall(_))
    );
}
