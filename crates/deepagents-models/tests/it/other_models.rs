//! What of a response is sent back to another model, and of a truncated response.

use std::sync::Arc;

use deepagents_core::message::{AssistantMessage, Block, InvalidToolCall, Message, Origin, ToolMessage};
use deepagents_core::model::{ModelRequest, StopReason};
use deepagents_models::{Anthropic, Dialect, ModelConfig, OpenAiChat, OpenAiResponses};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

fn config() -> ModelConfig {
    ModelConfig { base_url: Some("http://localhost/v1".into()), ..ModelConfig::default() }
}

fn anthropic(model: &str) -> Anthropic {
    Anthropic::new(model, config()).unwrap()
}

fn responses(model: &str) -> OpenAiResponses {
    OpenAiResponses::new("openai", model, config()).unwrap()
}

fn chat(service: &str, model: &str) -> OpenAiChat {
    OpenAiChat::new(Dialect::named(service).unwrap(), model, config()).unwrap()
}

/// The response of a Messages API model with these blocks.
fn thought(model: &str, content: &[Value], stop: &str) -> AssistantMessage {
    let body = json!({"id": "m", "type": "message", "content": content, "stop_reason": stop});
    anthropic(model).decode(200, &HeaderMap::new(), body.to_string().as_bytes()).unwrap().output.message
}

fn responded(model: &str, output: &[Value], incomplete: bool) -> AssistantMessage {
    let mut body = json!({"id": "r", "status": "completed", "output": output});
    if incomplete {
        body["status"] = json!("incomplete");
        body["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    responses(model).decode(200, &HeaderMap::new(), body.to_string().as_bytes()).unwrap().output.message
}

fn request(answer: &AssistantMessage, next: Option<Message>) -> ModelRequest {
    let question = [Message::user("x"), Message::Assistant(answer.clone())];
    ModelRequest::new(question.into_iter().chain(next).collect::<Vec<_>>())
}

fn result(id: &str, text: &str) -> Message {
    Message::Tool(ToolMessage { call_id: id.into(), content: vec![Block::text(text)], ..ToolMessage::default() })
}

fn sent(body: Result<Vec<u8>, deepagents_core::model::ModelError>, field: &str) -> Vec<Value> {
    let body: Value = serde_json::from_slice(&body.unwrap()).unwrap();
    body[field].as_array().unwrap().clone()
}

/// The content of the assistant message sent to a Messages API model.
fn content(model: &str, answer: &AssistantMessage, next: Option<Message>) -> Value {
    let messages = sent(anthropic(model).request_body(&request(answer, next)), "messages");
    messages.into_iter().find(|message| message["role"] == "assistant").unwrap_or_default()["content"].clone()
}

#[test]
fn signed_thinking_is_sent_back_only_to_the_model_that_produced_it() {
    let think = json!({"type": "thinking", "thinking": "t", "signature": "S"});
    let hidden = json!({"type": "redacted_thinking", "data": "D"});
    let call = json!({"type": "tool_use", "id": "a", "name": "ls", "input": {}});
    let answer = thought("claude-sonnet-4-5", &[think.clone(), hidden.clone(), call.clone()], "tool_use");
    let back = |model: &str| content(model, &answer, Some(result("a", "r")));
    assert_eq!(back("claude-opus-4-5"), json!([call]));
    assert_eq!(back("claude-sonnet-4"), json!([call]));
    // Aliases and dated names of the same model.
    for model in ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5-latest"] {
        assert_eq!(back(model), json!([think, hidden, call]), "{model}");
    }
}

#[test]
fn encrypted_reasoning_returns_only_to_its_model_else_later_items_lose_ids() {
    let reasoning = json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "E"});
    let mut call = json!({"type": "function_call", "id": "fc", "call_id": "c", "name": "ls", "arguments": "{ }", "status": "completed"});
    let answer = responded("gpt-5", &[reasoning.clone(), call.clone()], false);
    let back = |model: &str| sent(responses(model).request_body(&request(&answer, Some(result("c", "r")))), "input");
    assert_eq!(back("gpt-5-2025-08-07")[1..3], [reasoning, call.clone()]);
    call.as_object_mut().unwrap().remove("id");
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "r"});
    assert_eq!(back("gpt-4o")[1..], [call, output]);
}

#[test]
fn an_answer_cut_off_while_thinking_is_omitted() {
    const MODEL: &str = "claude-sonnet-4-5";
    let think = |signature: &str| json!({"type": "thinking", "thinking": "t", "signature": signature});
    let text = json!({"type": "text", "text": "so"});
    let more = || Some(Message::user("more"));
    for cut in [think("S"), think("")] {
        assert_eq!(content(MODEL, &thought(MODEL, std::slice::from_ref(&cut), "max_tokens"), more()), Value::Null);
        let answer = thought(MODEL, &[text.clone(), cut], "max_tokens");
        assert_eq!(content(MODEL, &answer, more()), json!([text]));
    }
    assert_eq!(content(MODEL, &thought(MODEL, &[think(""), text.clone()], "end_turn"), more()), json!([text]));

    let reasoning = json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "E"});
    let answer = responded("gpt-5", &[reasoning], true);
    assert_eq!(sent(responses("gpt-5").request_body(&request(&answer, more())), "input").len(), 2);
}

#[test]
fn a_server_tool_call_without_a_result_is_resent_only_while_its_turn_is_open() {
    const MODEL: &str = "claude-sonnet-4-5";
    let search = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []});
    let open = thought(MODEL, std::slice::from_ref(&search), "max_tokens");
    assert_eq!(content(MODEL, &open, Some(Message::user("more"))), Value::Null);
    assert_eq!(content(MODEL, &open, None), json!([search]), "the turn is only paused");
    let whole = thought(MODEL, &[search.clone(), found.clone()], "end_turn");
    assert_eq!(content(MODEL, &whole, Some(Message::user("more"))), json!([search, found]));
    // The cached encoding is not reused once another message follows.
    let model = anthropic(MODEL);
    let mut request = request(&open, None);
    model.request_body(&request).unwrap();
    request.messages.put(Arc::new(Message::user("more")));
    assert!(!String::from_utf8(model.request_body(&request).unwrap()).unwrap().contains("server_tool_use"));
}

#[test]
fn call_names_and_ids_are_adapted_to_the_next_service() {
    let made = |id: &str, name: &str| {
        let mut answer = AssistantMessage::new(vec![Block::call(id, name, json!({}))]);
        let (api, provider) = ("openai-chat".to_owned(), "vllm".to_owned());
        answer.origin = Some(Origin { api, provider, model: "m".into() });
        answer
    };
    let chatted = |answer: &AssistantMessage, id: &str| {
        let messages =
            sent(chat("openai-chat", "gpt-4o").request_body(&request(answer, Some(result(id, "r")))), "messages");
        let call = messages[1]["tool_calls"][0].clone();
        assert_eq!(call["id"], messages[2]["tool_call_id"]);
        (call["id"].as_str().unwrap().to_owned(), call["function"]["name"].as_str().unwrap().to_owned())
    };
    for (name, want) in [("functions.ls", "functions_ls"), ("日本", "__"), ("", "unnamed"), ("ls", "ls")] {
        assert_eq!(chatted(&made("c", name), "c"), ("c".to_owned(), want.to_owned()));
    }
    let long = format!("chatcmpl-tool-{}", "0".repeat(32));
    let (id, name) = chatted(&made(&long, &"n".repeat(140)), &long);
    assert!(id.len() <= 40 && name.len() <= 64, "{id} {name}");
    let (two, others) = chatted(&made(&format!("{long}1"), &format!("{}m", "n".repeat(139))), &format!("{long}1"));
    assert!(id != two && name != others, "two stay two");

    let far = made(&"y".repeat(70), &"n".repeat(140));
    let items = sent(responses("gpt-5").request_body(&request(&far, Some(result(&"y".repeat(70), "r")))), "input");
    assert!(items[1]["call_id"].as_str().unwrap().len() <= 64 && items[1]["name"].as_str().unwrap().len() <= 64);
    assert_eq!(items[1]["call_id"], items[2]["call_id"]);
    let call = &content("claude-opus-4-5", &far, Some(result(&"y".repeat(70), "r")))[0];
    assert!(call["name"].as_str().unwrap().len() <= 128, "{call}");
}

#[test]
fn a_nameless_call_is_not_sent_back_as_its_original_item() {
    let call = json!({"type": "function_call", "id": "fc", "call_id": "c", "name": "", "arguments": "{}"});
    let answer = responded("gpt-5", &[call], false);
    let items = sent(responses("gpt-5").request_body(&request(&answer, Some(result("c", "r")))), "input");
    assert_eq!((&items[1]["name"], &items[1]["call_id"]), (&json!("unnamed"), &json!("c")));
    let body = json!({"choices": [{"message": {"tool_calls": [{"id": "c", "function": {"name": "", "arguments": "{ }"}}]},
        "finish_reason": "tool_calls"}]});
    let model = chat("openai-chat", "m");
    let answer = model.decode(200, &HeaderMap::new(), body.to_string().as_bytes()).unwrap().output.message;
    let messages = sent(model.request_body(&request(&answer, Some(result("c", "r")))), "messages");
    assert_eq!(messages[1]["tool_calls"][0]["function"]["name"], "unnamed");
}

#[test]
fn each_unsupported_call_type_gets_its_own_kind_of_result() {
    let items = [
        json!({"type": "custom_tool_call", "id": "ct", "call_id": "cc", "name": "x", "input": "raw"}),
        json!({"type": "local_shell_call", "id": "ls", "call_id": "cl", "action": {"type": "exec"}, "status": "completed"}),
        json!({"type": "mcp_approval_request", "id": "ma", "server_label": "s", "name": "f", "arguments": "{}"}),
    ];
    let body = json!({"id": "r", "status": "completed", "output": items});
    let model = responses("gpt-5");
    let output = model.decode(200, &HeaderMap::new(), body.to_string().as_bytes()).unwrap().output;
    assert_eq!(output.stop, StopReason::ToolCalls);
    let calls = output.message.content.iter().map(|block| match block {
        Block::InvalidToolCall(InvalidToolCall { id, name, .. }) => (id.as_str(), name.as_str()),
        other => panic!("{other:?}"),
    });
    assert_eq!(calls.collect::<Vec<_>>(), [("cc", "x"), ("cl", "local_shell"), ("ma", "f")]);
    let mut request = request(&output.message, None);
    let results = ["cc", "cl", "ma"].map(|id| result(id, "no"));
    results.into_iter().for_each(|result| request.messages.put(Arc::new(result)));
    let input = sent(model.request_body(&request), "input");
    assert_eq!(input[1..4], items);
    let answers = [
        json!({"type": "custom_tool_call_output", "call_id": "cc", "output": "no"}),
        json!({"type": "local_shell_call_output", "call_id": "cl", "output": "no"}),
        json!({"type": "mcp_approval_response", "approval_request_id": "ma", "approve": false, "reason": "no"}),
    ];
    assert_eq!(input[4..], answers);
}
