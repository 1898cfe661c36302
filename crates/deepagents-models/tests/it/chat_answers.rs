//! Chat Completions responses, sent back unchanged.

use deepagents_core::message::{Block, Message};
use deepagents_core::model::{ModelOutput, ModelRequest, StopReason};
use deepagents_models::{Dialect, ModelConfig, OpenAiChat};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::server::sse;

fn model(dialect: &str) -> OpenAiChat {
    let config = ModelConfig { base_url: Some("http://localhost/v1".into()), ..ModelConfig::default() };
    OpenAiChat::new(Dialect::named(dialect).unwrap(), "m", config).unwrap()
}

fn decode(dialect: &str, body: &str) -> ModelOutput {
    model(dialect).decode(200, &HeaderMap::new(), body.as_bytes()).unwrap().output
}

/// A plain response with this message.
fn plain(message: &Value, finish: &str) -> String {
    json!({"id": "chatcmpl-1", "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2}}})
    .to_string()
}

/// A streamed response with these deltas.
fn streamed(deltas: &[Value], finish: Option<&str>) -> String {
    let mut chunks: Vec<Value> =
        deltas.iter().map(|delta| json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta}]})).collect();
    if finish.is_some() {
        chunks.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}));
    }
    sse(&chunks)
}

fn sent_back(dialect: &str, output: &ModelOutput) -> Value {
    let request = ModelRequest::new(vec![Message::user("x"), Message::Assistant(output.message.clone())]);
    let body: Value = serde_json::from_slice(&model(dialect).request_body(&request).unwrap()).unwrap();
    body["messages"][1].clone()
}

#[test]
fn argument_text_and_unknown_fields_are_sent_back_unchanged() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{ \"a\":1 }"},
        "extra_content": {"google": {"thought_signature": "T"}}});
    let output = decode(
        "openai-chat",
        &plain(&json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls"),
    );
    assert_eq!(output.stop, StopReason::ToolCalls);
    assert_eq!(output.message.tool_calls().next().unwrap().args, json!({"a": 1}));
    assert_eq!((output.usage.input, output.usage.cache_read, output.usage.reasoning), (7, 4, 2));
    assert_eq!(sent_back("openai-chat", &output), json!({"role": "assistant", "content": null, "tool_calls": [call]}));
    // Other services get the canonical form.
    assert_eq!(sent_back("groq", &output)["tool_calls"][0]["function"]["arguments"], "{\"a\":1}");
    assert_eq!(sent_back("groq", &output)["tool_calls"][0].get("extra_content"), None);
}

#[test]
fn a_plain_call_stores_no_native_copy() {
    let call = json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}});
    let output = decode("deepseek", &plain(&json!({"content": "", "tool_calls": [call]}), "tool_calls"));
    assert_eq!(output.message.content, [Block::call("c1", "f", json!({"a": 1}))]);
}

#[test]
fn calls_are_assembled_however_their_pieces_are_labelled() {
    let call = |value: Value| json!({"tool_calls": [value]});
    let args = |text: &str| json!({"arguments": text});
    let cases: [(&str, Vec<Value>); 6] = [
        (
            "indexed pieces, the id only in the first",
            vec![
                call(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}})),
                call(json!({"index": 0, "function": args("{\"x\":")})),
                call(json!({"index": 0, "function": args("1}")})),
                call(json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}})),
            ],
        ),
        (
            "whole calls without an index",
            vec![json!({"tool_calls": [
                {"id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}},
                {"id": "b", "function": {"name": "g", "arguments": "{}"}},
            ]})],
        ),
        (
            "whole calls that all say index 0",
            vec![
                call(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":1}"}})),
                call(json!({"index": 0, "id": "b", "function": {"name": "g", "arguments": "{}"}})),
            ],
        ),
        (
            "whole calls that all say index 0 and have no id",
            vec![json!({"tool_calls": [
                {"index": 0, "function": {"name": "f", "arguments": "{\"x\":1}"}},
                {"index": 0, "function": {"name": "g", "arguments": "{}"}},
            ]})],
        ),
        (
            "a name that each piece repeats",
            vec![
                call(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\":"}})),
                call(json!({"index": 0, "id": "", "function": {"name": "f", "arguments": "1}"}})),
                call(json!({"index": 0, "id": "", "function": {"name": "f", "arguments": ""}})),
                call(json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}})),
            ],
        ),
        (
            "arguments as objects",
            vec![
                call(json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}})),
                call(json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": {}}})),
            ],
        ),
    ];
    for (what, deltas) in cases {
        let output = decode("custom", &streamed(&deltas, Some("tool_calls")));
        let named = !what.contains("no id");
        let id = |id: &str, made: &str| if named { id.to_owned() } else { made.to_owned() };
        let (a, b) = (id("a", "call_chatcmpl1_0"), id("b", "call_chatcmpl1_1"));
        let want = [Block::call(a, "f", json!({"x": 1})), Block::call(b, "g", json!({}))];
        assert_eq!(output.message.content, want, "{what}");
    }
}

#[test]
fn a_call_without_an_id_gets_a_deterministic_one() {
    let calls =
        json!({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}, {"id": "", "function": {"name": "f"}}]});
    let ids = |dialect| {
        let output = decode(dialect, &plain(&calls, "stop"));
        assert_eq!(output.stop, StopReason::ToolCalls);
        output.message.call_ids().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ids("ollama-chat"), ["call_chatcmpl1_0", "call_chatcmpl1_1"]);
    assert_eq!(ids("mistral"), ids("mistral"));
    assert!(ids("mistral").iter().all(|id| id.len() == 9));
}

#[test]
fn reasoning_is_sent_back_in_the_field_it_came_in() {
    for (dialect, field) in [("deepseek", "reasoning_content"), ("groq", "reasoning"), ("custom", "reasoning")] {
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        deltas.extend([json!({(field): "hm"}), json!({(field): "m"}), json!({"content": "yes"})]);
        let output = decode(dialect, &streamed(&deltas, Some("stop")));
        assert!(matches!(&output.message.content[..], [Block::Reasoning(r), Block::Text(_)] if r.text == "hmm"));
        let back = sent_back(dialect, &output);
        assert_eq!(back, json!({"role": "assistant", "content": "yes", (field): "hmm"}));
    }
}

#[test]
fn structured_reasoning_is_joined_by_index_and_sent_back() {
    let detail = |value: Value| json!({"reasoning": value["text"], "reasoning_details": [value]});
    let deltas = [
        detail(json!({"type": "reasoning.text", "index": 0, "text": "a"})),
        detail(json!({"type": "reasoning.text", "index": 0, "text": "b", "signature": null})),
        json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "S"}]}),
        json!({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "E"}]}),
        json!({"content": "ok"}),
    ];
    let back = sent_back("openrouter", &decode("openrouter", &streamed(&deltas, Some("stop"))));
    assert_eq!(
        back,
        json!({"role": "assistant", "content": "ok", "reasoning": "ab", "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "S"},
            {"type": "reasoning.encrypted", "index": 1, "data": "E"},
        ]})
    );
}

#[test]
fn thinking_in_a_content_array_is_sent_back_in_place() {
    let thought = |text: &str| json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]});
    let deltas = [
        json!({"content": [thought("a")]}),
        json!({"content": [thought("b")]}),
        json!({"content": "c"}),
        json!({"content": [{"type": "text", "text": "d"}]}),
        json!({"content": [{"type": "reference", "reference_ids": [1]}]}),
    ];
    let output = decode("mistral", &streamed(&deltas, Some("stop")));
    let want = json!([thought("ab"), {"type": "text", "text": "cd"}, {"reference_ids": [1], "type": "reference"}]);
    assert_eq!(sent_back("mistral", &output)["content"], want);
}

#[test]
fn a_refusal_is_text_and_is_sent_back_as_a_refusal() {
    let output =
        decode("openai-chat", &streamed(&[json!({"refusal": "I "}), json!({"refusal": "won't"})], Some("stop")));
    assert_eq!((output.message.text().as_str(), &output.stop), ("I won't", &StopReason::Refusal));
    assert_eq!(sent_back("openai-chat", &output), json!({"role": "assistant", "content": null, "refusal": "I won't"}));
    assert_eq!(sent_back("groq", &output), json!({"role": "assistant", "content": "I won't"}));
}

#[test]
fn annotations_are_kept_and_sent_only_to_services_that_accept_them() {
    let notes = json!([{"type": "url_citation", "url": "u"}]);
    let output = decode("openrouter", &plain(&json!({"content": "x", "annotations": notes}), "stop"));
    assert_eq!(sent_back("openrouter", &output)["annotations"], notes);
    let output = decode("groq", &plain(&json!({"content": "x", "annotations": notes}), "stop"));
    assert_eq!(sent_back("groq", &output), json!({"role": "assistant", "content": "x"}));
}

#[test]
fn malformed_arguments_are_sent_back_only_where_they_do_no_harm() {
    let call = |args: &str| json!({"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": args}}]});
    let arguments = |dialect, args| {
        let output = decode(dialect, &plain(&call(args), "length"));
        assert!(matches!(output.message.content[..], [Block::InvalidToolCall(_)]));
        sent_back(dialect, &output)["tool_calls"][0]["function"]["arguments"].clone()
    };
    assert_eq!(arguments("openai-chat", "{\"a\":"), "{\"a\":");
    assert_eq!(arguments("llamacpp", "{\"a\":"), "{}");
    let cut = decode("openai-chat", &plain(&call(""), "length"));
    assert!(matches!(&cut.message.content[0], Block::InvalidToolCall(call) if call.error.contains("cut off")));
}

#[test]
fn a_stream_is_complete_once_it_has_a_stop_reason_or_a_done_marker() {
    let text = [json!({"content": "x"})];
    assert_eq!(decode("openai-chat", &streamed(&text, Some("stop"))).message.text(), "x");
    assert_eq!(decode("openai-chat", &(streamed(&text, None) + "data: [DONE]\n\n")).message.text(), "x");
    let cut = model("openai-chat").decode(200, &HeaderMap::new(), streamed(&text, None).as_bytes());
    assert_eq!(cut.unwrap_err().kind(), "truncated");
}

#[test]
fn usage_is_found_in_the_last_chunk_and_where_groq_puts_it() {
    let body = streamed(&[json!({"content": "x"})], Some("stop"));
    let last = sse(&[json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6}})]);
    let usage = decode("openai-chat", &(body.clone() + &last)).usage;
    assert_eq!((usage.input, usage.output), (5, 6));
    let groq = sse(&[json!({"choices": [], "x_groq": {"usage": {"prompt_tokens": 8, "completion_tokens": 9}}})]);
    assert_eq!(decode("groq", &(body.clone() + &groq)).usage.total(), 17);
    // Reasoning tokens that are counted separately are added to the output.
    let apart = json!({"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 18,
        "completion_tokens_details": {"reasoning_tokens": 7}});
    let usage = decode("xai", &(body + &sse(&[json!({"choices": [], "usage": apart})]))).usage;
    assert_eq!((usage.output, usage.reasoning, usage.total()), (13, 7, 18));
}

#[test]
fn an_error_inside_an_answer_is_classified() {
    let error = |body: &Value| {
        model("openrouter").decode(200, &HeaderMap::new(), sse(std::slice::from_ref(body)).as_bytes()).unwrap_err()
    };
    assert_eq!(error(&json!({"error": {"code": 429, "message": "slow"}})).kind(), "rate_limited");
    let choice = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "up"}}]});
    assert_eq!(error(&choice).kind(), "overloaded");
    let plain = model("openai-chat").decode(
        200,
        &HeaderMap::new(),
        b"{\"error\": {\"message\": \"m\", \"type\": \"server_error\"}}",
    );
    assert_eq!(plain.unwrap_err().kind(), "overloaded");
}

#[test]
fn a_call_repeated_in_the_legacy_format_is_made_once() {
    let function = json!({"name": "f", "arguments": "{\"a\":1}"});
    let call = json!({"id": "x", "type": "function", "function": function});
    let output = decode("custom", &plain(&json!({"tool_calls": [call], "function_call": function}), "tool_calls"));
    assert_eq!(output.message.content, [Block::call("x", "f", json!({"a": 1}))]);
    let old = decode("custom", &plain(&json!({"function_call": function}), "function_call"));
    assert_eq!(old.message.tool_calls().next().unwrap().args, json!({"a": 1}));
}

#[test]
fn an_error_in_mid_stream_is_not_the_end_of_an_answer() {
    let half = streamed(&[json!({"content": "half"})], None);
    let kind = |more: &str| {
        let body = format!("{half}{more}\n\ndata: [DONE]\n\n");
        let error = model("vllm").decode(200, &HeaderMap::new(), body.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("engine died"), "{error}");
        error.kind()
    };
    assert_eq!(kind("data: {\"object\":\"error\",\"message\":\"engine died\",\"code\":500}"), "overloaded");
    assert_eq!(kind("event: error\ndata: {\"message\":\"engine died\",\"code\":\"x\"}"), "overloaded");
    assert_eq!(kind("event: error\ndata: engine died"), "overloaded");
    assert_eq!(kind("data: {\"message\":\"engine died\",\"type\":\"BadRequestError\"}"), "invalid_request");
    let whole = json!({"object": "error", "message": "engine died", "code": 500}).to_string();
    let error = model("vllm").decode(200, &HeaderMap::new(), whole.as_bytes()).unwrap_err();
    assert_eq!((error.kind(), error.info().message.as_str()), ("overloaded", "engine died"));
}

#[test]
fn filtered_content_is_a_refusal() {
    let filtered = json!({"id": "c", "choices": [{"index": 0, "finish_reason": "content_filter"}]}).to_string();
    let output = decode("azure-chat", &filtered);
    assert_eq!((output.stop, output.message.content.len()), (StopReason::Refusal, 0));
    let refused = json!({"error": {"code": "content_filter", "message": "m", "status": 400}}).to_string();
    let error = model("azure-chat").decode(200, &HeaderMap::new(), refused.as_bytes()).unwrap_err();
    assert_eq!(error.kind(), "invalid_request");
}

#[test]
fn encrypted_thoughts_of_two_calls_stay_separate() {
    let detail = |id: &str, data: &str| json!({"type": "reasoning.encrypted", "index": 0, "id": id, "data": data});
    let deltas = [detail("t1", "A"), detail("t1", "B"), detail("t2", "C")];
    let mut deltas: Vec<Value> = deltas.iter().map(|detail| json!({"reasoning_details": [detail]})).collect();
    deltas.push(json!({"content": "ok"}));
    let back = sent_back("openrouter", &decode("openrouter", &streamed(&deltas, Some("stop"))));
    assert_eq!(back["reasoning_details"], json!([detail("t1", "AB"), detail("t2", "C")]));
}

#[test]
fn spoken_audio_is_text_and_is_sent_back_by_its_id() {
    let deltas = [
        json!({"audio": {"id": "audio_1"}}),
        json!({"audio": {"transcript": "Hel"}}),
        json!({"audio": {"transcript": "lo", "data": "AAAA"}}),
        json!({"audio": {"data": "BBBB", "expires_at": 9}}),
    ];
    let whole = json!({"content": null, "audio": {"id": "audio_1", "transcript": "Hello", "data": "AAAABBBB",
        "expires_at": 9}});
    let told = decode("openai-chat", &streamed(&deltas, Some("stop")));
    assert_eq!(told.message.content, decode("openai-chat", &plain(&whole, "stop")).message.content);
    assert_eq!(told.message.text(), "Hello");
    let want = json!({"role": "assistant", "content": null, "audio": {"id": "audio_1"}});
    assert_eq!(sent_back("openai-chat", &told), want);
    assert_eq!(sent_back("groq", &told), json!({"role": "assistant", "content": "Hello"}));
}

#[test]
fn another_models_call_is_sent_to_thinking_models_with_an_empty_thought() {
    let call = json!({"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]});
    let output = decode("groq", &plain(&call, "tool_calls"));
    assert_eq!(sent_back("deepseek", &output)["reasoning_content"], "");
    assert_eq!(sent_back("moonshot", &output)["reasoning_content"], " ");
    assert_eq!(sent_back("custom", &output).get("reasoning_content"), None);
    let own = decode("deepseek", &plain(&call, "tool_calls"));
    assert_eq!(sent_back("deepseek", &own).get("reasoning_content"), None);
}

#[test]
fn references_in_a_thought_are_sent_back_in_place() {
    let thinking = |pieces: Value| json!({"content": [{"type": "thinking", "thinking": pieces}]});
    let reference = json!({"type": "reference", "reference_ids": [3]});
    let deltas = [
        thinking(json!([{"type": "text", "text": "See "}])),
        thinking(json!([{"type": "text", "text": "here"}, reference])),
        json!({"content": [{"type": "text", "text": "Done."}]}),
    ];
    let output = decode("mistral", &streamed(&deltas, Some("stop")));
    assert!(matches!(&output.message.content[0], Block::Reasoning(thought) if thought.text == "See here"));
    let thought = json!({"type": "thinking", "thinking": [{"type": "text", "text": "See here"}, reference]});
    assert_eq!(sent_back("mistral", &output)["content"], json!([thought, {"type": "text", "text": "Done."}]));
}

#[test]
fn changed_reasoning_is_sent_back_with_its_change_and_without_the_services_own_form() {
    let thinking = json!([{"type": "text", "text": "Key k."}, {"type": "reference", "reference_ids": [3]}]);
    let detail = json!({"type": "reasoning.text", "index": 0, "text": "Key k.", "signature": "S"});
    let cases = [
        ("mistral", json!({"content": [{"type": "thinking", "thinking": thinking}]})),
        ("openrouter", json!({"reasoning": "Key k.", "reasoning_details": [detail]})),
        ("custom", json!({"reasoning": "Key k."})),
    ];
    for (dialect, delta) in cases {
        let mut output = decode(dialect, &streamed(&[delta, json!({"content": "Done."})], Some("stop")));
        let Block::Reasoning(thought) = &mut output.message.content[0] else { panic!("no reasoning") };
        assert!(thought.native.is_some(), "{dialect}");
        thought.text = "Key [hidden].".to_owned();
        let back = sent_back(dialect, &output).to_string();
        assert!(back.contains("Key [hidden].") && !back.contains("Key k."), "{back}");
    }
}

#[test]
fn a_custom_tool_call_is_invalid_and_is_sent_back_unchanged() {
    let call = json!({"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}});
    let pieces = [
        json!({"tool_calls": [{"index": 0, "id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** "}}]}),
        json!({"tool_calls": [{"index": 0, "custom": {"input": "Begin"}}]}),
    ];
    for body in [plain(&json!({"tool_calls": [call]}), "tool_calls"), streamed(&pieces, Some("tool_calls"))] {
        let output = decode("openai-chat", &body);
        let [Block::InvalidToolCall(made)] = &output.message.content[..] else {
            panic!("{:?}", output.message.content)
        };
        assert_eq!((&*made.name, &*made.raw, output.stop.clone()), ("patch", "*** Begin", StopReason::ToolCalls));
        assert_eq!(sent_back("openai-chat", &output)["tool_calls"], json!([call]));
    }
}

#[test]
fn an_invalid_calls_extra_fields_are_sent_back() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{"},
        "extra_content": {"google": {"thought_signature": "T"}}});
    let output = decode("openai-chat", &plain(&json!({"tool_calls": [call]}), "tool_calls"));
    assert!(matches!(output.message.content[..], [Block::InvalidToolCall(_)]));
    assert_eq!(sent_back("openai-chat", &output)["tool_calls"], json!([call]));
}
