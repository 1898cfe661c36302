//! Properties of every wire: it does not matter where the bytes of a response are split, and arguments go back
//! unchanged.

use std::sync::Arc;

use deepagents_core::message::{AssistantMessage, Message};
use deepagents_core::model::{ChatModel, ModelEvent, ModelOutput, ModelRequest};
use deepagents_models::{Anthropic, Bedrock, Gemini, Interactions, ModelConfig, Ollama, OpenAiResponses};
use serde_json::{Value, json};

use crate::bedrock;
use crate::ollama::{lines, shown};
use crate::server::{Reply, Server, anthropic_stream, events, output, sse};

/// Arguments with numbers that neither 64 bits nor a double can represent, and with forms that serde_json writes
/// differently.
const ARGS: &str =
    r#"{"id":12345678901234567890123,"x":0.1000000000000000055511151231257827,"n":[1e5,-1.50],"s":"1e5 é\\\" 7"}"#;

/// A wire with a response of text and a call of `f`, streamed and whole. `"ARGS"` stands for the arguments as an
/// object.
struct Wire {
    name: &'static str,
    model: fn(&Server, ModelConfig) -> Arc<dyn ChatModel>,
    streamed: Reply,
    whole: Value,
}

fn wires() -> Vec<Wire> {
    vec![anthropic(), gemini(), interactions(), converse(), ollama(), chat(), responses()]
}

fn anthropic() -> Wire {
    let pieces: Vec<Value> =
        ARGS.split_inclusive(',').map(|piece| json!({"type": "input_json_delta", "partial_json": piece})).collect();
    let words = vec![json!({"type": "text_delta", "text": "Ich sé"}), json!({"type": "text_delta", "text": "he 🦀"})];
    let blocks = [
        (json!({"type": "text", "text": ""}), words),
        (json!({"type": "tool_use", "id": "c1", "name": "f", "input": {}}), pieces),
    ];
    Wire {
        name: "anthropic",
        model: |_, config| Arc::new(Anthropic::new("claude-sonnet-4-5", config).unwrap()),
        streamed: Reply::sse(sse(&anthropic_stream(&blocks, "tool_use"))),
        whole: json!({"id": "msg_1", "stop_reason": "tool_use", "usage": {}, "content": [
            {"type": "text", "text": "Ich séhe 🦀"}, {"type": "tool_use", "id": "c1", "name": "f", "input": "ARGS"}]}),
    }
}

fn gemini() -> Wire {
    let piece = |parts: Value, end: &Value| {
        let candidate = json!({"index": 0, "content": {"parts": parts}, "finishReason": end});
        json!({"responseId": "R1", "candidates": [candidate]})
    };
    let call = json!({"functionCall": {"name": "f", "args": "ARGS"}});
    let whole = piece(json!([{"text": "Ich séhe 🦀"}, call]), &json!("STOP"));
    let told =
        [piece(json!([{"text": "Ich sé"}]), &Value::Null), piece(json!([{"text": "he 🦀"}, call]), &json!("STOP"))];
    Wire {
        name: "gemini",
        model: |_, config| Arc::new(Gemini::new("gemini-2.5-pro", config).unwrap()),
        streamed: Reply::sse(with_args(&sse(&told))),
        whole,
    }
}

fn interactions() -> Wire {
    let delta = |index: u64, delta: Value| json!({"event_type": "step.delta", "index": index, "delta": delta});
    let start = |index: u64, step: Value| json!({"event_type": "step.start", "index": index, "step": step});
    let told = [
        start(0, json!({"type": "model_output"})),
        delta(0, json!({"type": "text", "text": "Ich sé"})),
        delta(0, json!({"type": "text", "text": "he 🦀"})),
        start(1, json!({"type": "function_call", "id": "c1", "name": "f", "arguments": {}})),
        delta(1, json!({"type": "arguments_delta", "arguments": ARGS})),
        json!({"event_type": "interaction.completed", "interaction": {"id": "v1", "status": "requires_action", "usage": {}}}),
    ];
    Wire {
        name: "interactions",
        model: |_, config| Arc::new(Interactions::new("gemini-3-flash-preview", config).unwrap()),
        streamed: Reply::sse(sse(&told)),
        whole: json!({"id": "v1", "status": "requires_action", "usage": {}, "steps": [
            {"type": "model_output", "content": [{"text": "Ich séhe 🦀", "type": "text"}]},
            {"type": "function_call", "id": "c1", "name": "f", "arguments": "ARGS"}]}),
    }
}

fn converse() -> Wire {
    let told = [
        ("messageStart", json!({"role": "assistant"})),
        bedrock::delta(0, &json!({"text": "Ich sé"})),
        bedrock::delta(0, &json!({"text": "he 🦀"})),
        ("contentBlockStart", json!({"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "c1", "name": "f"}}})),
        bedrock::delta(1, &json!({"toolUse": {"input": ARGS}})),
        ("messageStop", json!({"stopReason": "tool_use"})),
        ("metadata", json!({"usage": {}})),
    ];
    Wire {
        name: "bedrock",
        model: |server, config| {
            let config = ModelConfig { streaming: config.streaming, ..bedrock::config(server) };
            Arc::new(Bedrock::new("amazon.nova-lite-v1:0", config).unwrap())
        },
        streamed: bedrock::stream(&told),
        whole: json!({"stopReason": "tool_use", "usage": {}, "output": {"message": {"role": "assistant", "content": [
            {"text": "Ich séhe 🦀"}, {"toolUse": {"toolUseId": "c1", "name": "f", "input": "ARGS"}}]}}}),
    }
}

fn ollama() -> Wire {
    let call = json!({"id": "c1", "function": {"name": "f", "arguments": "ARGS"}});
    let end = json!({"message": {"content": "he 🦀", "tool_calls": [call]}, "done": true, "done_reason": "stop"});
    let told = [json!({"message": {"content": "Ich sé"}, "done": false}), end.clone()];
    let mut whole = end;
    whole["message"]["content"] = json!("Ich séhe 🦀");
    let text: String = told.iter().map(|line| format!("{line}\n")).collect();
    Wire {
        name: "ollama",
        model: |_, config| Arc::new(Ollama::new("qwen3", config).unwrap()),
        streamed: lines(&[]).body(&with_args(&text)),
        whole,
    }
}

fn chat() -> Wire {
    let piece =
        |delta: Value, end: &Value| json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]});
    let call = |args: &str| json!([{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": args}}]);
    let more = json!([{"index": 0, "function": {"arguments": ARGS.get(7..).unwrap()}}]);
    let told = [
        piece(json!({"content": "Ich sé"}), &Value::Null),
        piece(json!({"content": "he 🦀"}), &Value::Null),
        piece(json!({"tool_calls": call(ARGS.get(..7).unwrap())}), &Value::Null),
        piece(json!({"tool_calls": more}), &json!("tool_calls")),
    ];
    // Some servers send an object where a string is specified.
    let made = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "ARGS"}});
    Wire {
        name: "chat",
        model: |server, config| {
            let _ = server;
            let dialect = deepagents_models::Dialect::named("vllm").unwrap();
            Arc::new(deepagents_models::OpenAiChat::new(dialect, "m", config).unwrap())
        },
        streamed: Reply::sse(sse(&told) + "data: [DONE]\n\n"),
        whole: json!({"id": "c", "choices": [{"finish_reason": "tool_calls", "message": {"content": "Ich séhe 🦀",
            "tool_calls": [made]}}]}),
    }
}

fn responses() -> Wire {
    let message = json!({"id": "m1", "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Ich séhe 🦀", "annotations": []}]});
    let call = json!({"id": "fc1", "type": "function_call", "call_id": "c1", "name": "f", "arguments": ARGS,
        "status": "completed"});
    let whole = json!({"id": "r1", "status": "completed", "output": [message, call], "usage": {}});
    let told = [
        json!({"type": "response.created", "response": {"id": "r1", "status": "in_progress"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "m1", "type": "message",
            "role": "assistant", "content": []}}),
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Ich sé"}),
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "he 🦀"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": message}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": call}),
        json!({"type": "response.completed", "response": whole}),
    ];
    Wire {
        name: "responses",
        model: |_, config| Arc::new(OpenAiResponses::new("openai", "gpt-5.2", config).unwrap()),
        streamed: Reply::sse(sse(&told)),
        whole,
    }
}

fn with_args(json: &str) -> String {
    json.replace("\"ARGS\"", ARGS)
}

/// Sends one request per reply and returns the events and outputs. Each request contains the answer before it.
async fn talk(wire: &Wire, streaming: bool, replies: Vec<Reply>) -> (Vec<(Vec<ModelEvent>, ModelOutput)>, Server) {
    let before = (wire.name == "ollama").then(|| shown(8192));
    let server = Server::start(before.into_iter().chain(replies.iter().cloned())).await;
    let model = (wire.model)(&server, ModelConfig { streaming: Some(streaming), ..server.config() });
    let (mut request, mut told) = (ModelRequest::new("x"), Vec::new());
    for _ in replies {
        let events = events(&*model, request).await;
        let answer = output(&events);
        // A stored message is read back unchanged.
        let stored: AssistantMessage = serde_json::from_str(&serde_json::to_string(&answer.message).unwrap()).unwrap();
        assert_eq!(stored, answer.message);
        let call = stored.tool_calls().next().unwrap().clone();
        request = ModelRequest::new(vec![Message::user("x"), Message::Assistant(stored), Message::tool(&call, "done")]);
        told.push((events.into_iter().map(Result::unwrap).collect(), answer));
    }
    (told, server)
}

#[tokio::test]
async fn an_answer_is_the_same_wherever_its_bytes_are_cut() {
    for wire in wires() {
        let (whole, _) = talk(&wire, true, vec![wire.streamed.clone()]).await;
        let (events, answer) = &whole[0];
        assert_eq!(answer.message.text(), "Ich séhe 🦀", "{}", wire.name);
        let expected = format!("{:?}", (&events[..events.len() - 1], answer));
        for size in [1, 2, 3, 5, 7, 11, 64] {
            let (cut, _) = talk(&wire, true, vec![wire.streamed.clone().in_pieces(size)]).await;
            let (events, answer) = &cut[0];
            let told = format!("{:?}", (&events[..events.len() - 1], answer));
            assert_eq!(told, expected, "{} in pieces of {size}", wire.name);
        }
    }
}

#[tokio::test]
async fn arguments_go_back_with_every_digit_that_the_provider_wrote() {
    for wire in wires() {
        let whole = Reply::json(200, &json!({})).body(&with_args(&wire.whole.to_string()));
        for (streaming, reply) in [(true, wire.streamed.clone()), (false, whole)] {
            let (told, server) = talk(&wire, streaming, vec![reply.clone(), reply]).await;
            let call = told[0].1.message.tool_calls().next().unwrap();
            assert_eq!(call.args, serde_json::from_str::<Value>(ARGS).unwrap(), "{}", wire.name);
            let sent = String::from_utf8(server.seen().last().unwrap().body.clone()).unwrap();
            let as_text = serde_json::to_string(ARGS).unwrap();
            assert!(sent.contains(ARGS) || sent.contains(&as_text), "{} {streaming}: {sent}", wire.name);
        }
    }
}
