//! Logs of every version ever written are still readable. Corpus files are never changed, only added.

use std::sync::Arc;

use deepagents_core::journal::{JournalError, RECORD_VERSION, Record, decode, encode, fold};
use deepagents_core::message::Message;
use deepagents_core::state::ChannelSpec;
use deepagents_core::state::{MessagesChannel, Schema};

const V0: &str = include_str!("../corpus/v0.jsonl");
const V1: &str = include_str!("../corpus/v1.jsonl");

fn words(log: &str) -> Vec<String> {
    let records = log.lines().zip(0..).map(|(line, at)| decode("t", at, line).unwrap()).collect();
    let schema = Arc::new(Schema::new([ChannelSpec::new::<MessagesChannel>()]).unwrap());
    let folded = fold("t", schema, records).unwrap();
    assert!(folded.in_doubt.is_empty());
    folded
        .state
        .messages()
        .iter()
        .map(|m| {
            let who = match **m {
                Message::User(_) => "user",
                Message::Assistant(_) => "assistant",
                _ => "tool",
            };
            format!("{who}: {}", m.text())
        })
        .collect()
}

#[test]
fn a_log_from_before_versioning_can_be_read() {
    assert_eq!(words(V0), ["user: What is the weather?", "assistant: ", "tool: It is sunny.", "assistant: Sunny."]);
}

#[test]
fn a_version_1_log_can_be_read() {
    assert_eq!(
        words(V1),
        ["user: What is the weather?", "assistant: ", "tool: It is sunny.", "tool: The call failed.", "user: changed"]
    );
}

#[test]
fn new_records_have_the_current_version() {
    for (line, at) in V1.lines().zip(0..) {
        let text = encode(&decode("t", at, line).unwrap()).unwrap();
        assert!(text.starts_with(&format!("{{\"v\":{RECORD_VERSION},")), "{text}");
        let again = encode(&decode("t", at, &text).unwrap()).unwrap();
        assert_eq!(again, text);
    }
}

#[test]
fn a_newer_version_and_a_non_record_are_typed_errors() {
    let newer = decode("t", 7, r#"{"v":99,"record":"wonder"}"#).unwrap_err();
    assert!(matches!(newer, JournalError::Newer { position: 7, version: 99, .. }), "{newer:?}");
    let unknown = decode("t", 3, r#"{"v":2,"record":"wonder","of":"the world"}"#).unwrap();
    assert!(matches!(unknown, Record::Unknown), "a kind of a later version is passed over: {unknown:?}");
    for bad in ["", "{}", "[]", r#"{"v":1,"record":"step"}"#, r#"{"v":"x"}"#] {
        let error = decode("t", 3, bad).unwrap_err();
        assert!(matches!(error, JournalError::Damaged { position: 3, .. }), "{bad}: {error:?}");
    }
}
