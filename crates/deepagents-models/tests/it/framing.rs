//! Responses whose framing does not match their content type.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message as Event};
use deepagents_core::model::{ModelEvent, ModelRequest};
use deepagents_models::{Bedrock, Credentials, Gemini, ModelConfig};
use serde_json::{Value, json};

use crate::server::{Reply, Server, events, output, retries, sse};

fn whole() -> Value {
    json!({"id": "c", "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]})
}

#[tokio::test]
async fn an_unstreamed_response_is_read_despite_a_stream_content_type() {
    let lines = serde_json::to_string_pretty(&whole()).unwrap();
    let server = Server::start([Reply::sse(whole().to_string()), Reply::sse(lines)]).await;
    for _ in 0..2 {
        let told = events(&server.chat("vllm"), ModelRequest::new("x")).await;
        assert!(matches!(&told[0], Ok(ModelEvent::Text { block: 0, delta }) if delta == "hi"), "{told:?}");
        assert_eq!(output(&told).message.text(), "hi");
    }
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn an_error_outside_an_event_keeps_its_message_and_class() {
    let error = json!({"error": {"message": "the words", "type": "invalid_request_error", "code": 400}}).to_string();
    let piece = sse(&[json!({"candidates": [{"index": 0, "content": {"parts": [{"text": "a"}]}}]})]);
    let replies = [Reply::sse(error.clone()), Reply::sse(format!("{piece}[{error}]\n"))];
    let server = Server::start(replies).await;
    let model = Gemini::new("gemini-3-pro", server.config()).unwrap();
    for told in
        [events(&server.chat("vllm"), ModelRequest::new("x")).await, events(&model, ModelRequest::new("x")).await]
    {
        assert!(retries(&told).is_empty());
        let error = told.last().unwrap().as_ref().unwrap_err();
        assert_eq!((error.kind(), error.info().message.as_str()), ("invalid_request", "the words"));
    }
}

#[tokio::test]
async fn an_event_stream_is_read_despite_a_json_content_type() {
    let piece = json!({"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]});
    let body = sse(&[piece]) + "data: [DONE]\n\n";
    let commented = format!(": hello\n\n{body}");
    let reply = |body: String| Reply::stream("application/json", body);
    let server = Server::start([reply(body), reply(commented)]).await;
    for _ in 0..2 {
        assert_eq!(output(&events(&server.chat("vllm"), ModelRequest::new("x")).await).message.text(), "hi");
    }
}

#[tokio::test]
async fn amazon_event_stream_frames_are_recognised_by_their_prelude() {
    let frame = |name: &str, payload: &Value| {
        let header = |name: &'static str, value: &str| Header::new(name, HeaderValue::String(value.to_owned().into()));
        let event = Event::new(payload.to_string());
        let event = event.add_header(header(":message-type", "event")).add_header(header(":event-type", name));
        let mut bytes = Vec::new();
        write_message_to(&event, &mut bytes).unwrap();
        bytes
    };
    let told = [
        ("messageStart", json!({"role": "assistant"})),
        ("contentBlockDelta", json!({"contentBlockIndex": 0, "delta": {"text": "hi"}})),
        ("messageStop", json!({"stopReason": "end_turn"})),
    ];
    let bytes: Vec<u8> = told.iter().flat_map(|(name, payload)| frame(name, payload)).collect();
    let server = Server::start([Reply::stream("application/octet-stream", bytes)]).await;
    let keys = Some(Credentials::aws("AKIDEXAMPLE", "wJalrXUtnFEMI", None));
    let model = Bedrock::new("amazon.nova-lite-v1:0", ModelConfig { api_key: keys, ..server.config() }).unwrap();
    assert_eq!(output(&events(&model, ModelRequest::new("x")).await).message.text(), "hi");
}

#[tokio::test]
async fn an_unrequested_compressed_response_is_reported() {
    let packed = || Reply::json(200, &whole()).header("content-encoding", "gzip");
    let refused = Reply::stream("application/json", [0x1f_u8, 0x8b, 8, 0]).header("content-encoding", "br");
    let server = Server::start([packed(), refused.status(400)]).await;
    for encoding in ["gzip", "br"] {
        let told = events(&server.chat("vllm"), ModelRequest::new("x")).await;
        let error = told.last().unwrap().as_ref().unwrap_err();
        assert!(error.to_string().contains(&format!("content-encoding: {encoding}")), "{error}");
    }
    assert_eq!(server.seen().len(), 2);
}
