//! Malformed messages from an editor.

use std::time::Duration;

use deepagents::models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::editor::{Editor, Host, allows};

const PARSE_ERROR: i64 = -32700;

async fn connected(turns: impl IntoIterator<Item = Turn>) -> Editor {
    Editor::connect(Host::new(ScriptedModel::new(turns)), json!({}), allows).await
}

/// The descriptions in the parse errors.
fn lines(editor: &Editor) -> Vec<Value> {
    let complaints = editor.complaints();
    assert!(complaints.iter().all(|(code, _)| *code == PARSE_ERROR), "{complaints:?}");
    complaints.into_iter().map(|(_, data)| data["line"].clone()).collect()
}

#[tokio::test]
async fn a_malformed_line_gets_a_parse_error_and_the_connection_continues() {
    let dir = tempfile::tempdir().unwrap();
    let mut editor = connected([Turn::text("Still here.")]).await;
    let session = editor.session(dir.path()).await;
    let noise: Vec<u8> = (0..=u8::MAX).filter(|byte| *byte != b'\n').collect();
    editor.raw(b"{\"jsonrpc\": \"2.0\", \"id\": 7, \"method\": \"caf\xe9\"}\n");
    editor.raw(&[noise.as_slice(), b"\n"].concat());
    editor.raw(b"{\"jsonrpc\": \n");
    assert_eq!(editor.say(&session, "Who is there?").await, "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "Still here.");
    let not_text = json!("a line that is not UTF-8 was skipped");
    assert_eq!(
        lines(&editor),
        [not_text.clone(), not_text, json!("a line of 12 bytes was skipped: it ends too early at column 12")]
    );
}

#[tokio::test]
async fn a_long_malformed_line_is_not_echoed_in_full() {
    let mut editor = connected([]).await;
    editor.raw(&[vec![b'x'; 10_000_000], b"\n".to_vec()].concat());
    assert!(editor.call("session/list", json!({})).await.is_ok());
    let told = lines(&editor)[0].as_str().unwrap().to_owned();
    assert!(told.starts_with("a line of 10000000 bytes was skipped: it is not JSON") && told.len() < 100, "{told}");
}

#[tokio::test]
async fn a_parse_error_carries_the_request_id_and_does_not_echo_the_line() {
    let mut editor = connected([]).await;
    let broken = |id: u64| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"session/new\",\"params\":{{\"key\":\"sk-hush\"}},}}\n")
    };
    editor.raw(broken(900).replace("\"id\":900,", "").as_bytes());
    let refused = editor.call_raw(broken).await.unwrap_err();
    assert_eq!(refused["code"], PARSE_ERROR, "{refused}");
    let told = lines(&editor);
    for said in [refused["data"]["line"].as_str().unwrap(), told[0].as_str().unwrap()] {
        assert!(said.contains("it is not JSON at column") && !said.contains("hush"), "{said}");
    }
}

#[tokio::test]
async fn a_lone_surrogate_or_a_byte_order_mark_does_not_make_a_message_unreadable() {
    let dir = tempfile::tempdir().unwrap();
    let mut editor = connected([Turn::with(|request| Turn::text(request.messages.last().unwrap().text()))]).await;
    let session = editor.session(dir.path()).await;
    let prompt = |id: u64| {
        let head = format!("\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"session/prompt\",");
        let blocks = r#""prompt":[{"type":"text","text":"half \ud83d of it"}]"#;
        format!("{head}\"params\":{{\"sessionId\":\"{session}\",{blocks}}}}}\n")
    };
    assert_eq!(editor.call_raw(prompt).await.unwrap()["stopReason"], "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "half \u{fffd} of it");
    assert_eq!(lines(&editor), Vec::<Value>::new());
}

#[tokio::test]
async fn parameter_errors_name_the_problem_without_echoing_values() {
    let dir = tempfile::tempdir().unwrap();
    let mut editor = connected([]).await;
    let session = editor.session(dir.path()).await;
    let server = |more: Value| {
        let mut server = json!({"name": "s", "command": "/bin/true"});
        server.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("session/new", json!({"cwd": dir.path(), "mcpServers": [server]}))
    };
    let env = json!([{"name": "KEY", "value": "sk-secret"}]);
    let blocks = json!([{"type": "text", "text": "x".repeat(1_000_000)}, {"type": "weird"}]);
    for ((method, params), why) in [
        (server(json!({"env": env})), ""),
        (server(json!({"args": [], "env": "KEY=\"sk-secret\", x"})), ""),
        (server(json!({"args": "--key sk-secret", "env": env})), ""),
        (("session/load", json!({"sessionId": "x", "mcpServers": [], "key": "sk-secret"})), "missing field `cwd`"),
        (("session/prompt", json!({"sessionId": session, "prompt": blocks})), ""),
    ] {
        let refused = editor.call(method, params).await.unwrap_err();
        assert_eq!(refused["code"], -32602, "{refused}");
        let said = refused["data"].as_str().unwrap_or_else(|| panic!("words alone: {refused}"));
        assert!(!said.is_empty() && said.contains(why) && said.len() < 1_000, "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
}

#[tokio::test]
async fn blank_lines_and_foreign_line_endings_are_ignored() {
    let mut editor = connected([]).await;
    editor.raw(b"\n\r\n  \n");
    editor.raw(b"{\"jsonrpc\": \"2.0\", \"method\": \"session/cancel\", \"params\": {\"sessionId\": \"x\"}}\r\n");
    assert!(editor.call("session/list", json!({})).await.is_ok());
    assert_eq!(lines(&editor), Vec::<Value>::new());
}

#[tokio::test]
async fn an_unterminated_line_is_skipped_within_bounded_memory() {
    let mut editor = connected([]).await;
    editor.raw(&vec![b'['; (64 << 20) + 1]);
    editor.until(|editor| !editor.complaints().is_empty()).await;
    assert_eq!(lines(&editor), ["a line of more than 64 MiB was skipped"], "it is told before it has ended");
    editor.raw(&vec![b'['; 1 << 20]);
    editor.raw(b"\n");
    assert!(editor.call("session/list", json!({})).await.is_ok());
    assert_eq!(lines(&editor).len(), 1);
}

#[tokio::test]
async fn a_partial_last_line_ends_the_connection_normally() {
    for rest in [b"{\"jsonrpc\": \"2.0\", \"id\": 9, \"meth".as_slice(), b"caf\xc3", b"\r"] {
        let editor = connected([]).await;
        editor.raw(rest);
        tokio::time::timeout(Duration::from_secs(60), editor.disconnect()).await.expect("an end");
    }
}
