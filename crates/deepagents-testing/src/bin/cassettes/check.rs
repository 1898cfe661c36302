//! One answer through the real client and back into a request.

use deepagents_core::message::Message;
use deepagents_core::model::{ModelError, ModelRequest};
use deepagents_models::{Anthropic, Decoded, Dialect, ModelConfig, OpenAiChat};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::recording::Answer;
use crate::said;

/// The wires that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Anthropic,
    Chat,
}

impl Wire {
    /// The wire that is spoken at a path.
    pub(crate) fn of_path(path: &str) -> Option<Self> {
        let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        if path.ends_with("/v1/messages") {
            Some(Self::Anthropic)
        } else if path.ends_with("/chat/completions") {
            Some(Self::Chat)
        } else {
            None
        }
    }

    /// Its name in a dump.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Chat => "openai-chat",
        }
    }

    /// What the provider calls its counts of prompt and answer tokens.
    pub(crate) fn usage_fields(self) -> (&'static str, &'static str) {
        match self {
            Self::Anthropic => ("input_tokens", "output_tokens"),
            Self::Chat => ("prompt_tokens", "completion_tokens"),
        }
    }
}

/// The outcome for one answer.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The message that the next request would hold; null when nothing would be sent.
    pub(crate) message: Value,
    /// The decoded answer, if it could be decoded.
    pub(crate) decoded: Option<Decoded>,
    /// What is wrong, if anything is.
    pub(crate) problem: Option<String>,
}

/// Decodes an answer, builds the message that would be sent back and compares it with what was said.
pub(crate) fn check<'a>(wire: Wire, folders: impl Iterator<Item = &'a str>, answer: &Answer) -> Checked {
    let done = match wire {
        Wire::Anthropic => through_anthropic(answer),
        Wire::Chat => through_chat(dialect(folders, &answer.path), answer),
    };
    match done {
        Err(problem) => Checked { message: Value::Null, decoded: None, problem: Some(problem) },
        Ok((decoded, message)) => {
            let problem = match wire {
                Wire::Anthropic => compare_blocks(&answer.body, &message),
                Wire::Chat => compare_chat(&answer.body, &message),
            };
            Checked { message, decoded: Some(decoded), problem: problem.err() }
        }
    }
}

type Done = Result<(Decoded, Value), String>;

fn through_anthropic(answer: &Answer) -> Done {
    let model = Anthropic::new("recorded", ModelConfig::default()).map_err(|error| error.to_string())?;
    let decoded =
        model.decode(answer.status, &headers(answer), answer.body.as_bytes()).map_err(|error| undecoded(&error))?;
    let message = sent_back(&decoded, |request| model.request_body(request))?;
    Ok((decoded, message))
}

fn through_chat(dialect: Dialect, answer: &Answer) -> Done {
    let base_url = Some("http://localhost/v1".to_owned());
    let config = ModelConfig { base_url, ..ModelConfig::default() };
    let model = OpenAiChat::new(dialect, "recorded", config).map_err(|error| error.to_string())?;
    let decoded =
        model.decode(answer.status, &headers(answer), answer.body.as_bytes()).map_err(|error| undecoded(&error))?;
    let message = sent_back(&decoded, |request| model.request_body(request))?;
    Ok((decoded, message))
}

fn undecoded(error: &ModelError) -> String {
    format!("not decoded: {error}")
}

fn headers(answer: &Answer) -> HeaderMap {
    let pairs = answer.headers.iter().filter_map(|(name, value)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
    });
    pairs.collect()
}

/// The dialect that the folders or the path name; `custom` otherwise.
fn dialect<'a>(mut folders: impl Iterator<Item = &'a str>, path: &str) -> Dialect {
    let by_folder = folders.find_map(|folder| {
        let name: String = folder.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        Dialect::named(&name)
    });
    let by_path = || match path {
        "/api/v1/chat/completions" => Dialect::named("openrouter"),
        "/openai/v1/chat/completions" => Dialect::named("groq"),
        _ => None,
    };
    by_folder.or_else(by_path).unwrap_or_else(Dialect::custom)
}

/// The message of the model in a request that follows its answer.
fn sent_back(decoded: &Decoded, body: impl Fn(&ModelRequest) -> Result<Vec<u8>, ModelError>) -> Result<Value, String> {
    let answer = Message::Assistant(decoded.output.message.clone());
    let request = ModelRequest::new(vec![Message::user("go on"), answer]);
    let body = body(&request).map_err(|error| format!("not encoded: {error}"))?;
    let body: Value = serde_json::from_slice(&body).map_err(|error| format!("not encoded as JSON: {error}"))?;
    let messages = body.get("messages").and_then(Value::as_array);
    let own =
        messages.and_then(|list| list.iter().find(|message| message.get("role").is_some_and(|r| r == "assistant")));
    Ok(own.cloned().unwrap_or_default())
}

/// The parts of a content block that count.
const PARTS: [&str; 8] = ["type", "text", "thinking", "signature", "data", "id", "name", "input"];

fn compare_blocks(body: &str, message: &Value) -> Result<(), String> {
    // The API takes no blank text back.
    let blank = |block: &Value| {
        let text = block.get("text").and_then(Value::as_str);
        block.get("type").is_some_and(|kind| kind == "text") && text.is_none_or(|text| text.trim().is_empty())
    };
    let said: Vec<Value> = said::anthropic(body).into_iter().filter(|block| !blank(block)).collect();
    let sent = message.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    if said.len() != sent.len() {
        return Err(format!("{} blocks were said and {} would be sent back", said.len(), sent.len()));
    }
    for (at, (said, sent)) in said.iter().zip(&sent).enumerate() {
        for part in PARTS {
            let (said, sent) = (said.get(part), sent.get(part));
            if said != sent {
                return Err(format!("block {at} differs in `{part}`: said {said:?}, would send {sent:?}"));
            }
        }
    }
    Ok(())
}

fn compare_chat(body: &str, message: &Value) -> Result<(), String> {
    let (said, sent) = (said::chat(body), said::message(message));
    let texts = [
        ("content", &said.content, &sent.content),
        ("refusal", &said.refusal, &sent.refusal),
        ("reasoning", &said.reasoning, &sent.reasoning),
    ];
    for (what, said, sent) in texts {
        if said != sent {
            return Err(format!("the {what} differs: said {said:?}, would send {sent:?}"));
        }
    }
    if said.calls.len() != sent.calls.len() {
        return Err(format!("{} calls were said and {} would be sent back", said.calls.len(), sent.calls.len()));
    }
    for (said, sent) in said.calls.iter().zip(&sent.calls) {
        if said.id != sent.id || said.name != sent.name || !same_arguments(&said.args, &sent.args) {
            return Err(format!("a call differs: said {said:?}, would send {sent:?}"));
        }
    }
    Ok(())
}

/// Arguments count as JSON. Those that are not JSON go back as they came, or as `{}` to servers that would choke on them.
fn same_arguments(said: &str, sent: &str) -> bool {
    let json = |text: &str| serde_json::from_str::<Value>(if text.trim().is_empty() { "{}" } else { text }).ok();
    match json(said) {
        Some(said) => json(sent) == Some(said),
        None => said == sent || sent == "{}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(path: &str, body: &str) -> Answer {
        Answer { path: path.into(), status: 200, headers: Vec::new(), body: body.into() }
    }

    const STREAM: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":3,"output_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"S"}}

data: {"type":"content_block_stop","index":0}

data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}

data: {"type":"content_block_stop","index":1}

data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}

data: {"type":"message_stop"}
"#;

    #[test]
    fn a_streamed_answer_passes_and_keeps_the_providers_words() {
        let checked = check(Wire::Anthropic, std::iter::empty(), &answer("/v1/messages", STREAM));
        assert_eq!(checked.problem, None);
        let decoded = checked.decoded.unwrap();
        assert_eq!((decoded.stop.as_deref(), &decoded.usage["output_tokens"]), (Some("tool_use"), &9.into()));
        assert_eq!(checked.message["content"][0]["signature"], "S");
    }

    #[test]
    fn a_message_that_lost_something_fails() {
        let sent = serde_json::json!({"content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]});
        assert!(compare_blocks(STREAM, &sent).is_err());
        let body = r#"{"choices":[{"message":{"content":"a","reasoning":"b"}}]}"#;
        assert!(compare_chat(body, &serde_json::json!({"content": "a"})).unwrap_err().contains("reasoning"));
    }

    #[test]
    fn the_dialect_is_read_from_the_folder_and_then_from_the_path() {
        assert_eq!(dialect(["streams", "llama.cpp"].into_iter(), "/v1/chat/completions").name, "llamacpp");
        assert_eq!(dialect(["x"].into_iter(), "/api/v1/chat/completions").name, "openrouter");
        assert_eq!(dialect(["x"].into_iter(), "/chat/completions").name, "custom");
        assert_eq!(Wire::of_path("/v1/messages/count_tokens"), None);
    }
}
