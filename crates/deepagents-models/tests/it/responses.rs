//! The Responses API: requests, responses, and items sent back unchanged.

use deepagents_core::message::{Block, Message, ToolMessage};
use deepagents_core::model::{
    ModelEvent, ModelOutput, ModelRequest, OutputSchema, ProviderTool, StopReason, SystemBlock, ToolChoice, ToolSpec,
};
use deepagents_models::{ModelConfig, OpenAiResponses};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::server::{Reply, Server, events, output, sse};

fn model() -> OpenAiResponses {
    OpenAiResponses::new("openai", "gpt-5.2", ModelConfig::default()).unwrap()
}

fn body(request: &ModelRequest) -> Value {
    serde_json::from_slice(&model().request_body(request).unwrap()).unwrap()
}

fn reasoning() -> Value {
    json!({"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "First."},
        {"type": "summary_text", "text": "Then."}], "encrypted_content": "ENC"})
}

fn message(text: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "phase": "commentary",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"id": format!("fc_{id}"), "type": "function_call", "status": "completed", "call_id": id, "name": "look",
        "arguments": arguments})
}

fn search() -> Value {
    json!({"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}})
}

/// A completed response with this output.
fn response(output: &[Value]) -> Value {
    json!({"id": "resp_1", "status": "completed", "output": output, "usage": {"input_tokens": 10, "output_tokens": 8,
        "total_tokens": 18, "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 5}}})
}

/// The events of a response: each item starts, is streamed, and ends.
fn stream(items: &[Value], end: &Value) -> String {
    let mut told = vec![json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}})];
    for (at, item) in items.iter().enumerate() {
        let mut start = item.clone();
        for key in ["content", "summary"] {
            if start.get(key).is_some() {
                start[key] = json!([]);
            }
        }
        if start.get("arguments").is_some() {
            start["arguments"] = json!("");
        }
        told.push(json!({"type": "response.output_item.added", "output_index": at, "item": start}));
        let mut delta = |kind: &str, section: usize, text: &Value| {
            told.push(json!({"type": format!("response.{kind}.delta"), "output_index": at, "summary_index": section, "delta": text}));
        };
        for (section, part) in item["summary"].as_array().into_iter().flatten().enumerate() {
            delta("reasoning_summary_text", section, &part["text"]);
        }
        for part in item["content"].as_array().into_iter().flatten() {
            delta("output_text", 0, &part["text"]);
        }
        if let Some(arguments) = item.get("arguments") {
            delta("function_call_arguments", 0, arguments);
        }
        told.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    told.push(json!({"type": "response.completed", "response": end}));
    sse(&told)
}

fn decode(body: &str) -> ModelOutput {
    model().decode(200, &HeaderMap::new(), body.as_bytes()).unwrap().output
}

#[test]
fn every_item_is_sent_back_verbatim_and_in_order_whether_streamed_or_not() {
    let items = [reasoning(), message("I look."), search(), call("a", "{ \"n\":1 }"), call("b", "{}")];
    let (whole, streamed) = (response(&items).to_string(), stream(&items, &response(&[])));
    assert_eq!(decode(&whole), decode(&streamed));
    let output = decode(&streamed);
    assert_eq!(output.stop, StopReason::ToolCalls);
    assert_eq!(
        (output.usage.input, output.usage.cache_read, output.usage.output, output.usage.reasoning),
        (10, 4, 8, 5)
    );
    assert!(matches!(&output.message.content[0], Block::Reasoning(thought) if thought.text == "First.\n\nThen."));
    let calls: Vec<_> = output.message.tool_calls().map(|call| (call.id.clone(), call.args.clone())).collect();
    assert_eq!(calls, [("a".to_owned(), json!({"n": 1})), ("b".to_owned(), json!({}))]);

    let result = |id: &str| {
        let content = vec![Block::text("seen")];
        Message::Tool(ToolMessage { call_id: id.into(), content, ..ToolMessage::default() })
    };
    let sent = body(&ModelRequest::new(vec![
        Message::user("go"),
        Message::Assistant(output.message),
        result("a"),
        result("b"),
    ]));
    let input = sent["input"].as_array().unwrap();
    assert_eq!(input[1..6], items);
    assert_eq!(input[6], json!({"type": "function_call_output", "call_id": "a", "output": "seen"}));
    assert_eq!(input.len(), 8);
}

#[tokio::test]
async fn a_stream_yields_real_deltas_with_the_block_indexes_of_the_answer() {
    let items = [reasoning(), message("Hi."), call("a", "{\"n\":1}")];
    let server = Server::start([Reply::sse(stream(&items, &response(&items)))]).await;
    let model = OpenAiResponses::new("azure", "deployed", server.config()).unwrap();
    let events = events(&model, ModelRequest::new("x")).await;
    let mut told = [String::new(), String::new(), String::new()];
    for event in &events {
        match event.as_ref().unwrap() {
            ModelEvent::Reasoning { block, delta }
            | ModelEvent::Text { block, delta }
            | ModelEvent::ToolArgs { block, delta } => {
                told[*block].push_str(delta);
            }
            ModelEvent::ToolCall { block, id, name } => assert_eq!((*block, &**id, &**name), (2, "a", "look")),
            _ => {}
        }
    }
    assert_eq!(told, ["First.\n\nThen.", "Hi.", "{\"n\":1}"]);
    assert_eq!(output(&events).message.origin.unwrap().provider, "azure");
    let seen = &server.seen()[0];
    assert!(
        seen.head.starts_with("POST /responses ") && seen.head.contains("api-key: sk-very-secret"),
        "{}",
        seen.head
    );
}

#[test]
fn a_request_disables_storage_and_asks_for_encrypted_reasoning() {
    let mut request = ModelRequest::new("hello");
    request.system = vec![SystemBlock::new("be brief"), SystemBlock::new("be kind")];
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    request.tools =
        vec![ToolSpec { name: "look".into(), description: "Looks.".into(), schema: schema.clone().into() }.into()];
    request.tool_choice = ToolChoice::Tool("look".into());
    request.settings.max_tokens = Some(99);
    request.settings.extra.insert("text".into(), json!({"verbosity": "low"}));
    request.provider_tools = vec![ProviderTool::new("openai", json!({"type": "web_search"})).into()];
    request.output_schema = Some(OutputSchema { name: "answer".into(), schema: schema.clone().into() });
    assert_eq!(
        body(&request),
        json!({
            "model": "gpt-5.2", "store": false, "include": ["reasoning.encrypted_content"], "max_output_tokens": 99,
            "stream": true, "tool_choice": {"type": "function", "name": "look"},
            "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": false}},
            "tools": [
                {"type": "function", "name": "look", "description": "Looks.", "parameters": schema, "strict": false},
                {"type": "web_search"},
            ],
            "instructions": "be brief\n\nbe kind",
            "input": [{"type": "message", "role": "user", "content": "hello"}],
        })
    );
    let plain = OpenAiResponses::new("openai", "gpt-4.1", ModelConfig::default()).unwrap();
    let plain: Value = serde_json::from_slice(&plain.request_body(&ModelRequest::new("x")).unwrap()).unwrap();
    assert_eq!(plain.get("include"), None, "models that do not think refuse to be asked for it");
    request.settings.stop = vec!["END".into()];
    assert_eq!(model().request_body(&request).unwrap_err().kind(), "invalid_request");
}

#[test]
fn another_providers_messages_are_sent_in_canonical_form() {
    let mut output = decode(&response(&[reasoning(), message("Hi."), call("a b", "{\"n\":1}")]).to_string());
    output.message.origin.as_mut().unwrap().provider = "elsewhere".into();
    let sent = body(&ModelRequest::new(vec![Message::user("x"), Message::Assistant(output.message)]));
    assert_eq!(
        sent["input"].as_array().unwrap()[1..],
        [
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}),
            json!({"type": "function_call", "call_id": "a_b", "name": "look", "arguments": "{\"n\":1}"}),
        ]
    );
}

#[test]
fn refusals_limits_and_failures_are_typed_outcomes() {
    let refusal = json!({"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]});
    let refused = decode(&response(&[refusal]).to_string());
    assert_eq!((refused.stop, refused.message.text()), (StopReason::Refusal, "No.".into()));

    let mut cut = call("a", "");
    cut["status"] = json!("incomplete");
    let mut end = response(&[cut]);
    end["status"] = json!("incomplete");
    end["incomplete_details"] = json!({"reason": "max_output_tokens"});
    let cut = decode(&end.to_string());
    assert_eq!(cut.stop, StopReason::MaxTokens);
    assert!(matches!(&cut.message.content[0], Block::InvalidToolCall(call) if call.error.contains("cut off")));
    end["incomplete_details"]["reason"] = json!("content_filter");
    assert_eq!(decode(&end.to_string()).stop, StopReason::Refusal);

    let error = |body: &str| model().decode(200, &HeaderMap::new(), body.as_bytes()).unwrap_err();
    let failed = json!({"id": "r", "status": "failed", "output": [], "error": {"code": "rate_limit_exceeded", "message": "slow"}});
    assert_eq!(error(&failed.to_string()).kind(), "rate_limited");
    assert_eq!(error(&sse(&[json!({"type": "response.failed", "response": failed})])).kind(), "rate_limited");
    let event = json!({"type": "error", "code": "context_length_exceeded", "message": "too long", "param": null});
    assert_eq!(error(&sse(&[event])).kind(), "context_length");
    assert_eq!(error(&sse(&[json!({"type": "response.created", "response": {}})])).kind(), "truncated");
    assert_eq!(error(&json!({"id": "r", "status": "in_progress", "output": []}).to_string()).kind(), "protocol");
}

#[test]
fn items_with_missing_or_equal_indexes_stay_separate() {
    let items = [reasoning(), message("hi"), call("c1", "{}")];
    let whole: Vec<Value> = {
        let told = stream(&items, &response(&items));
        let data = told.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    };
    for index in [None, Some(0)] {
        let mut told = whole.clone();
        for event in told.iter_mut().filter_map(Value::as_object_mut).filter(|event| event.contains_key("output_index"))
        {
            event.remove("output_index");
            if let Some(index) = index {
                event.insert("output_index".to_owned(), index.into());
            }
        }
        let output = model().decode(200, &HeaderMap::new(), sse(&told).as_bytes()).unwrap().output;
        let kept: Vec<&Value> = output.message.content.iter().map(|block| block.native().unwrap().value()).collect();
        assert_eq!(kept, items.iter().collect::<Vec<_>>(), "{index:?}");
    }
}

#[test]
fn an_unreadable_call_is_sent_back_as_its_original_item() {
    let items = [reasoning(), call("c1", "{\"at\": ")];
    let output = decode(&response(&items).to_string());
    assert!(matches!(output.message.content[1], Block::InvalidToolCall(_)));
    let sent = body(&ModelRequest::new(vec![Message::user("x"), Message::Assistant(output.message)]));
    assert_eq!(sent["input"].as_array().unwrap()[1..], items);
}

#[test]
fn documents_that_the_service_takes_are_listed_and_named_by_their_type() {
    use deepagents_core::message::{Media, MediaKind, MediaSource, UserMessage};
    use deepagents_core::model::ChatModel;
    let takes = |service: &str| {
        let config = ModelConfig { base_url: Some("http://127.0.0.1:1".into()), ..ModelConfig::default() };
        OpenAiResponses::new(service, "gpt-5.2", config).unwrap().profile().documents.contains(&"text/csv".to_owned())
    };
    assert_eq!((takes("openai"), takes("azure"), takes("vllm-responses")), (true, true, false));
    let source = || MediaSource::Base64("QQ==".to_owned());
    let file = |mime: &str, name: Option<&str>| {
        let name = name.map(str::to_owned);
        Block::Media(Media { kind: MediaKind::File, mime: mime.to_owned(), source: source(), name })
    };
    let content = vec![file("text/csv", None), file("application/pdf", None), file("text/csv", Some("a.csv"))];
    let mut request = ModelRequest::new("");
    request.messages = [Message::User(UserMessage { content, ..UserMessage::default() })].into_iter().collect();
    let parts = body(&request)["input"][0]["content"].clone();
    let named: Vec<&str> = parts.as_array().unwrap().iter().filter_map(|part| part["filename"].as_str()).collect();
    assert_eq!(named, ["document.csv", "document.pdf", "a.csv"]);
    assert_eq!(parts[0]["file_data"], "data:text/csv;base64,QQ==");
}

#[test]
fn a_changed_block_is_sent_with_its_change() {
    let output = decode(&response(&[reasoning(), message("I look."), call("a", "{\"n\":1}")]).to_string());
    let mut answer = output.message;
    for block in &mut answer.content {
        match block {
            Block::Text(said) => said.text = "I see.".into(),
            Block::ToolCall(call) => call.args = json!({"n": 2}),
            _ => {}
        }
    }
    let sent = body(&ModelRequest::new(vec![Message::user("go"), Message::Assistant(answer)]));
    let input = sent["input"].as_array().unwrap();
    assert_eq!(input[1], reasoning());
    assert_eq!(input[2]["content"][0]["text"], "I see.");
    assert_eq!(input[3], json!({"type": "function_call", "call_id": "a", "name": "look", "arguments": "{\"n\":2}"}));
}

#[test]
fn items_keep_no_id_that_refers_to_reasoning_that_was_changed() {
    let output = decode(&response(&[reasoning(), message("I look."), call("a", "{}")]).to_string());
    for drops_item in [false, true] {
        let mut answer = output.message.clone();
        let Block::Reasoning(thought) = &mut answer.content[0] else { panic!("no reasoning") };
        thought.text = "Something else.".into();
        thought.native = thought.native.take().filter(|_| !drops_item);
        let sent = body(&ModelRequest::new(vec![Message::user("go"), Message::Assistant(answer)]));
        let input = sent["input"].as_array().unwrap();
        let kinds: Vec<&Value> = input.iter().map(|item| &item["type"]).collect();
        assert_eq!(kinds, ["message", "message", "function_call"]);
        assert!(input.iter().all(|item| item.get("id").is_none()), "{input:?}");
    }
}

#[tokio::test]
async fn pieces_name_the_blocks_of_the_answer_if_items_start_in_another_order() {
    let start =
        |index: u64, item: &Value| json!({"type": "response.output_item.added", "output_index": index, "item": item});
    let end =
        |index: u64, item: &Value| json!({"type": "response.output_item.done", "output_index": index, "item": item});
    let delta =
        |index: u64, text: &str| json!({"type": "response.output_text.delta", "output_index": index, "delta": text});
    let (call, said) = (call("a", "{}"), message("Hi."));
    let done = json!({"type": "response.completed", "response": response(&[said.clone(), call.clone()])});
    let told = [start(1, &call), start(0, &said), delta(0, "Hi."), end(1, &call), end(0, &said), done];
    let server = Server::start([Reply::sse(sse(&told))]).await;
    let model = OpenAiResponses::new("openai", "gpt-5", server.config()).unwrap();
    let told = events(&model, ModelRequest::new("x")).await;
    let content = output(&told).message.content;
    assert!(matches!((&content[0], &content[1]), (Block::Text(_), Block::ToolCall(_))), "{content:?}");
    let named = told.iter().filter_map(|event| match event.as_ref().ok()? {
        ModelEvent::Text { block, .. } => Some((*block, "text")),
        ModelEvent::ToolCall { block, .. } => Some((*block, "call")),
        _ => None,
    });
    assert_eq!(named.collect::<Vec<_>>(), [(1, "call"), (0, "text")]);
}
