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
    match kind % 4 {
        3 => Message::user(""),
        0 => Message::user(format!("say {n}")),
        1 => Message::Assistant(AssistantMessage::new(vec![Block::call(format!("c{n}"), "look", json!({"n": n}))])),
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
        kinds in prop::collection::vec(0u8..4, 1..30),
        marks in prop::collection::vec(0usize..30, 0..3),
        change in prop::collection::vec(prop::option::of(0usize..30), 30),
    ) {
        let used = client();
        let mut history = Messages::new();
        for (n, kind) in kinds.iter().enumerate() {
            history.put(Arc::new(message(*kind, n)));
            let mut request = ModelRequest::new(history.clone());
            request.cache.messages =
                marks.iter().filter(|at| **at < history.len()).map(|at| (*at, CacheTtl::FiveMinutes)).collect();
            match (used.request_body(&request), client().request_body(&request)) {
                (Ok(body), Ok(fresh)) => prop_assert_eq!(String::from_utf8(body).unwrap(), String::from_utf8(fresh).unwrap()),
                (body, fresh) => prop_assert!(body.is_err() && fresh.is_err()),
            }
            if let Some(from) = change[n] {
                // The same words at other addresses, some of them those of messages that are gone.
                drop(request);
                let moved = |(at, m): (usize, &Arc<Message>)| if at < from { m.clone() } else { Arc::new(Message::clone(m)) };
                history = history.iter().enumerate().map(moved).collect();
            }
        }
    }

    #[test]
    fn conversations_that_part_are_each_written_whole(
        shared in 1usize..10, mine in prop::collection::vec(0u8..4, 0..10), theirs in prop::collection::vec(0u8..4, 0..10),
    ) {
        let used = client();
        let common: Messages = (0..shared).map(|n| message(n as u8, n)).collect();
        let (mut left, mut right) = (common.clone(), common);
        for n in 0..mine.len().max(theirs.len()) {
            for (history, kinds) in [(&mut left, &mine), (&mut right, &theirs)] {
                if let Some(kind) = kinds.get(n) {
                    history.put(Arc::new(message(*kind, shared + n)));
                }
                let request = ModelRequest::new(history.clone());
                prop_assert_eq!(used.request_body(&request).unwrap(), client().request_body(&request).unwrap());
            }
        }
    }
}
