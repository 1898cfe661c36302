//! Cached encodings of messages never change a request.

use std::sync::Arc;

use deepagents_core::message::{AssistantMessage, Block, Message, Messages, ToolMessage};
use deepagents_core::model::ModelError;
use deepagents_core::model::{CacheTtl, ModelRequest, SystemBlock, ToolChoice, ToolSpec};
use deepagents_models::{
    Anthropic, Bedrock, Dialect, Gemini, Interactions, ModelConfig, Ollama, OpenAiChat, OpenAiResponses,
};
use proptest::prelude::*;
use serde_json::json;

type Encode = Box<dyn Fn(&ModelRequest) -> Result<Vec<u8>, ModelError>>;

const WIRES: usize = 8;

/// A new client for each API.
fn client(wire: usize) -> Encode {
    let base_url = Some("http://localhost/v1".to_owned());
    let extra = json!({"options": {"num_ctx": 8192}}).as_object().unwrap().clone();
    let config = ModelConfig { api_key: Some("any".into()), base_url, ..ModelConfig::default() };
    let chat = |dialect, model| OpenAiChat::new(Dialect::named(dialect).unwrap(), model, config.clone()).unwrap();
    let (mistral, claude) = (chat("mistral", "m"), chat("openrouter", "anthropic/claude"));
    let anthropic = Anthropic::new("claude-sonnet-4-5", config.clone()).unwrap();
    let responses = OpenAiResponses::new("openai", "gpt-5.2", config.clone()).unwrap();
    let gemini = Gemini::new("gemini-3-pro", config.clone()).unwrap();
    let interactions = Interactions::new("gemini-3-pro", config.clone()).unwrap();
    let bedrock = Bedrock::new("anthropic.claude", config.clone()).unwrap();
    let ollama = Ollama::new("m", ModelConfig { extra, ..config.clone() }).unwrap();
    match wire {
        0 => Box::new(move |request| anthropic.request_body(request)),
        1 => Box::new(move |request| mistral.request_body(request)),
        2 => Box::new(move |request| claude.request_body(request)),
        3 => Box::new(move |request| responses.request_body(request)),
        4 => Box::new(move |request| gemini.request_body(request)),
        6 => Box::new(move |request| interactions.request_body(request)),
        5 => Box::new(move |request| bedrock.request_body(request)),
        _ => Box::new(move |request| ollama.request_body(request)),
    }
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
    fn a_client_with_cached_encodings_writes_the_same_bytes_as_a_new_one(
        wire in 0..WIRES,
        kinds in prop::collection::vec(0u8..4, 1..30),
        marks in prop::collection::vec(0usize..30, 0..3),
        change in prop::collection::vec(prop::option::of(0usize..30), 30),
    ) {
        let used = client(wire);
        let mut history = Messages::new();
        for (n, kind) in kinds.iter().enumerate() {
            history.put(Arc::new(message(*kind, n)));
            let mut request = ModelRequest::new(history.clone());
            request.cache.messages =
                marks.iter().filter(|at| **at < history.len()).map(|at| (*at, CacheTtl::FiveMinutes)).collect();
            match (used(&request), client(wire)(&request)) {
                (Ok(body), Ok(fresh)) => prop_assert_eq!(String::from_utf8(body).unwrap(), String::from_utf8(fresh).unwrap()),
                (body, fresh) => prop_assert!(body.is_err() && fresh.is_err()),
            }
            if let Some(from) = change[n] {
                // The same messages at other addresses, some of which belonged to dropped ones.
                drop(request);
                let moved = |(at, m): (usize, &Arc<Message>)| if at < from { m.clone() } else { Arc::new(Message::clone(m)) };
                history = history.iter().enumerate().map(moved).collect();
            }
        }
    }

    #[test]
    fn diverging_conversations_are_each_encoded_completely(
        wire in 0..WIRES, shared in 1usize..10, mine in prop::collection::vec(0u8..4, 0..10), theirs in prop::collection::vec(0u8..4, 0..10),
    ) {
        let used = client(wire);
        let common: Messages = (0..shared).map(|n| message(n as u8, n)).collect();
        let (mut left, mut right) = (common.clone(), common);
        for n in 0..mine.len().max(theirs.len()) {
            for (history, kinds) in [(&mut left, &mine), (&mut right, &theirs)] {
                if let Some(kind) = kinds.get(n) {
                    history.put(Arc::new(message(*kind, shared + n)));
                }
                let request = ModelRequest::new(history.clone());
                match (used(&request), client(wire)(&request)) {
                    (Ok(body), Ok(fresh)) => prop_assert_eq!(String::from_utf8(body).unwrap(), String::from_utf8(fresh).unwrap()),
                    (body, fresh) => prop_assert!(body.is_err() && fresh.is_err()),
                }
            }
        }
    }

    #[test]
    fn cached_tools_and_prompts_encode_to_the_same_bytes_as_in_a_new_client(
        wire in 0..WIRES,
        steps in prop::collection::vec((0usize..4, 0usize..3, 0u8..3, prop::option::of(0u8..2), any::<bool>()), 1..30),
    ) {
        let used = client(wire);
        let kept: Vec<Arc<ToolSpec>> = (0..4).map(tool).collect();
        for (tools, system, choice, cached, anew) in steps {
            let mut request = ModelRequest::new("go");
            let known = kept.iter().take(tools).cloned();
            request.tools = if anew { (0..tools).map(tool).collect() } else { known.collect() };
            request.system = (0..system).map(|n| SystemBlock::new(format!("You are \"{n}\".\n"))).collect();
            request.tool_choice = match (choice, request.tools.first()) {
                (1, _) => ToolChoice::None,
                (2, Some(first)) => ToolChoice::Tool(first.name.clone()),
                _ => ToolChoice::Auto,
            };
            let ttl = |long| if long == 0 { CacheTtl::FiveMinutes } else { CacheTtl::OneHour };
            request.cache.tools = cached.map(ttl);
            let (body, fresh) = (used(&request).unwrap(), client(wire)(&request).unwrap());
            prop_assert_eq!(String::from_utf8(body).unwrap(), String::from_utf8(fresh).unwrap());
        }
    }
}

fn tool(n: usize) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: format!("look_{n}"),
        description: format!("Looks at \"{n}\"."),
        schema: Arc::new(json!({"type": "object", "properties": {"at": {"type": "string"}}})),
    })
}
