//! Checks one response: through the real client and back into a request.

use deepagents_models::Decoded;
use serde_json::Value;

use crate::recording::Answer;
use crate::refusal;
use crate::said;
use crate::wire::Wire;

/// The result of a check.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The message that the next request would contain, or null if none would be sent.
    pub(crate) message: Value,
    /// The decoded answer, if decoding succeeded.
    pub(crate) decoded: Option<Decoded>,
    /// What is wrong, if anything.
    pub(crate) problem: Option<String>,
}

/// Decodes an answer, builds the message that would be sent back, and compares it with what the model said. For an
/// error response, checks the resulting error.
pub(crate) fn check<'a>(wire: Wire, folders: impl Iterator<Item = &'a str>, answer: &Answer) -> Checked {
    if answer.status != 200 {
        let refused = wire.refusal(folders, answer).and_then(|error| refusal::check(&error, answer));
        return Checked { message: Value::Null, decoded: None, problem: refused.err() };
    }
    if let Some(told) = refusal::stream_error(answer) {
        let refused = wire.refusal(folders, answer).and_then(|error| refusal::check_told(&error, &told));
        return Checked { message: Value::Null, decoded: None, problem: refused.err() };
    }
    match wire.round_trip(folders, answer) {
        Err(problem) => Checked { message: Value::Null, decoded: None, problem: Some(problem) },
        Ok((decoded, message)) => {
            let problem = match wire {
                Wire::Anthropic => compare_blocks(&answer.body, &message),
                Wire::Chat => compare_chat(&answer.body, &message),
                Wire::Responses => {
                    let mut said = said::responses::items(&answer.body);
                    // The API rejects reasoning that nothing follows.
                    while said.pop_if(|item| said::text(item, "type") == "reasoning").is_some() {}
                    compare_lists(&said, &message)
                }
                Wire::Gemini => {
                    compare_lists(&said::gemini::parts(&answer.body), message.get("parts").unwrap_or(&Value::Null))
                }
                Wire::Interactions => compare_lists(&said::interactions::steps(&answer.body), &message),
                Wire::Ollama => compare_ollama(&answer.body, &message),
                Wire::Bedrock => compare_converse(&answer.body, &message),
            };
            Checked { message, decoded: Some(decoded), problem: problem.err() }
        }
    }
}

/// The compared parts of a content block.
const PARTS: [&str; 8] = ["type", "text", "thinking", "signature", "data", "id", "name", "input"];

fn compare_blocks(body: &[u8], message: &Value) -> Result<(), String> {
    // The API rejects blank text in requests.
    let blank = |block: &Value| {
        let text = block.get("text").and_then(Value::as_str);
        block.get("type").is_some_and(|kind| kind == "text") && text.is_none_or(|text| text.trim().is_empty())
    };
    let said: Vec<Value> = said::anthropic::blocks(body).into_iter().filter(|block| !blank(block)).collect();
    // It also rejects an answer that ends with thinking.
    let mut said = said;
    while said.pop_if(|block| ["thinking", "redacted_thinking"].contains(&said::text(block, "type"))).is_some() {}
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

fn compare_chat(body: &[u8], message: &Value) -> Result<(), String> {
    let (said, sent) = (said::chat::answer(body), said::chat::message(message));
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
        // A call without an id is given one.
        let is_other = !said.id.is_empty() && said.id != sent.id;
        if is_other || said.name != sent.name || !same_arguments(&said.args, &sent.args) {
            return Err(format!("a call differs: said {said:?}, would send {sent:?}"));
        }
    }
    Ok(())
}

/// Compares two lists of items in order.
fn compare_lists(said: &[Value], sent: &Value) -> Result<(), String> {
    let sent = sent.as_array().map(Vec::as_slice).unwrap_or_default();
    if said.len() != sent.len() {
        return Err(format!("{} items were said and {} would be sent back", said.len(), sent.len()));
    }
    for (at, (said, sent)) in said.iter().zip(sent).enumerate() {
        if said != sent {
            return Err(format!("item {at} differs: said {said}, would send {sent}"));
        }
    }
    Ok(())
}

fn compare_ollama(body: &[u8], message: &Value) -> Result<(), String> {
    let (mut said, sent) = (said::ollama::answer(body), said::ollama::message(message));
    for (said, sent) in said.calls.iter_mut().zip(&sent.calls).filter(|(said, _)| said.0.is_empty()) {
        // A call without an id is given one.
        said.0.clone_from(&sent.0);
    }
    if said == sent { Ok(()) } else { Err(format!("the message differs: said {said:?}, would send {sent:?}")) }
}

fn compare_converse(body: &[u8], message: &Value) -> Result<(), String> {
    // The API rejects blank text in requests.
    let blank = |block: &Value| block.get("text").and_then(Value::as_str).is_some_and(|text| text.trim().is_empty());
    let mut said: Vec<Value> = said::bedrock::blocks(body).into_iter().filter(|block| !blank(block)).collect();
    while said.pop_if(|block| block.get("reasoningContent").is_some()).is_some() {}
    compare_lists(&said, message.get("content").unwrap_or(&Value::Null))
}

/// Compares arguments as JSON. Arguments that are not JSON must be sent back unchanged, or as `{}` for servers that
/// cannot handle them.
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
        Answer { path: path.into(), status: 200, headers: Vec::new(), body: body.as_bytes().to_vec() }
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
    fn a_streamed_answer_passes_the_check_with_the_providers_text() {
        let checked = check(Wire::Anthropic, std::iter::empty(), &answer("/v1/messages", STREAM));
        assert_eq!(checked.problem, None);
        let decoded = checked.decoded.unwrap();
        assert_eq!((decoded.stop.as_deref(), &decoded.usage["output_tokens"]), (Some("tool_use"), &9.into()));
        assert_eq!(checked.message["content"][0]["signature"], "S");
    }

    #[test]
    fn a_message_missing_content_fails() {
        let sent = serde_json::json!({"content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]});
        assert!(compare_blocks(STREAM.as_bytes(), &sent).is_err());
        let body = r#"{"choices":[{"message":{"content":"a","reasoning":"b"}}]}"#;
        assert!(compare_chat(body.as_bytes(), &serde_json::json!({"content": "a"})).unwrap_err().contains("reasoning"));
    }
}
