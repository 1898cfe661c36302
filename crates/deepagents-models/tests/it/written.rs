//! What is kept of requests never changes one.

use std::sync::Arc;

use deepagents_core::message::{AssistantMessage, Block, Message, Messages, ToolMessage};
use deepagents_core::model::{CacheTtl, ModelRequest};
use deepagents_models::{Anthropic, ModelConfig};
use proptest::prelude::*;
use serde_json::json;

fn client() -> Anthropic {
    let config = ModelConfig { api_key: Some("any".into()), ..ModelConfig::default() };
    Anthropic::new("claude-sonnet-4-5", config).unwrap()
}

fn message(kind: u8, n: usize) -> Message {
    match kind % 3 {
        0 => Message::user(format!("say {n}")),
        1 => Message::Assistant(AssistantMessage::of(vec![Block::call(format!("c{n}"), "look", json!({"n": n}))])),
        _ => Message::Tool(ToolMessage {
            call_id: format!("c{n}"),
            content: vec![Block::text(format!("seen \"{n}\"\n"))],
            ..ToolMessage::default()
        }),
    }
}

proptest! {
    #[test]
    fn a_client_that_has_written_messages_before_writes_the_same_bytes_as_a_new_one(
        kinds in prop::collection::vec(0u8..3, 1..30),
        marks in prop::collection::vec(0usize..30, 0..3),
        forget in prop::collection::vec(any::<bool>(), 30),
    ) {
        let used = client();
        let mut history = Messages::new();
        for (n, kind) in kinds.iter().enumerate() {
            history.put(Arc::new(message(*kind, n)));
            let mut request = ModelRequest::new(history.clone());
            request.cache.messages =
                marks.iter().filter(|at| **at < history.len()).map(|at| (*at, CacheTtl::FiveMinutes)).collect();
            prop_assert_eq!(used.request_body(&request).unwrap(), client().request_body(&request).unwrap());
            if forget[n] {
                // The same words at other addresses, some of them those of messages that are gone.
                drop(request);
                history = history.iter().map(|m| Arc::new(Message::clone(m))).collect();
            }
        }
    }
}
