//! Concurrent calls of one server, and its requests meanwhile.

use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::event::EventKind;
use deepagents_core::interrupt::Decision;
use deepagents_core::journal::MemoryJournal;
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_mcp::{McpOptions, McpServers};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_util::StreamExt;
use serde_json::json;

use crate::script::{Script, agent, alone, echo, one_call, options, results, run, text};

/// Servers with elicitation enabled, and an agent that uses them.
fn asked(script: &Script, turns: impl IntoIterator<Item = Turn>) -> (McpServers, Agent) {
    let config = script.config().call_timeout(Duration::from_secs(30));
    let servers = McpServers::new([("alpha", config)], McpOptions { elicitation: true, ..options() });
    let model = ScriptedModel::new(turns);
    let agent = Agent::builder(model).middleware(servers.clone()).journal(MemoryJournal::new()).build().unwrap();
    (servers, agent)
}

fn two() -> Turn {
    Turn::calls([("mcp__alpha__echo", json!({"text": "a"})), ("mcp__alpha__echo", json!({"text": "b"}))])
}

/// Answers the first call only after the second arrives, and runs `between` before that.
fn together(between: &str) -> String {
    let both = format!("{}\nid=$first\n{}", text("$id"), text("$id"));
    format!("if [ -z \"$first\" ]; then first=$id; else call=$id\n{between}\nid=$call\n{both}\nfirst=\nfi")
}

const QUESTION: &str = r#"say "{\"jsonrpc\":\"2.0\",\"id\":900,\"method\":\"elicitation/create\",\"params\":{\"mode\":\"form\",\"message\":\"How many?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}}}"
read -r reply
printf '%s\n' "$reply" >> sent"#;

#[tokio::test]
async fn calls_to_one_server_run_concurrently_when_a_person_can_be_asked() {
    let script = Script::new(&[echo()], together(""));
    let (servers, agent) = asked(&script, [two(), Turn::text("Done.")]);
    let (outcome, _) = run(&agent, RunInput::new("Go.").thread("t")).await;
    servers.close().await;
    let results = results(&outcome);
    assert!(results.len() == 2 && results.iter().all(|(_, is_error)| !is_error), "{results:?}");
}

#[tokio::test]
async fn an_ambiguous_question_is_declined_and_calls_are_serialised_from_then_on() {
    let ask = format!("{QUESTION}\ntouch asked");
    let alone_then = format!("call=$id\n{QUESTION}\nid=$call\n{}", text("$id"));
    let script = Script::new(&[echo()], format!("if [ -e asked ]; then {alone_then}\nelse\n{}\nfi", together(&ask)));
    let (servers, agent) = asked(&script, [two(), two(), Turn::text("Done.")]);
    let (waiting, _) = run(&agent, RunInput::new("Go.").thread("t")).await;
    servers.close().await;
    let sent = std::fs::read_to_string(script.file("sent")).unwrap();
    assert_eq!(sent.matches("\"action\":\"decline\"").count(), 1, "{sent}");
    assert_eq!(waiting.stop, FinishReason::Interrupted);
    assert!(waiting.action_requests()[0].text.contains("How many?"));
}

#[tokio::test]
async fn a_url_a_server_wants_opened_is_a_question_and_the_call_is_retried() {
    let link = r#"{\"mode\":\"url\",\"elicitationId\":\"e1\",\"url\":\"https://example.com/connect?x=1\",\"message\":\"Connect your files.\"}"#;
    let refuse = format!(
        r#"say "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{{\"code\":-32042,\"message\":\"More is needed.\",\"data\":{{\"elicitations\":[{link}]}}}}}}""#
    );
    for (decision, connects, said) in [
        (Decision::Approve, true, "your files"),
        (Decision::Approve, false, "More is needed."),
        (Decision::Reject { message: None }, true, "declined"),
    ] {
        let found = if connects { text("your files") } else { refuse.clone() };
        let script = Script::new(&[echo()], format!("if [ -e once ]; then {found}\nelse touch once; {refuse}\nfi"));
        let (servers, agent) = asked(&script, one_call("echo", json!({})));
        let (waiting, _) = run(&agent, RunInput::new("Go.").thread("t")).await;
        assert_eq!(waiting.stop, FinishReason::Interrupted);
        let question = waiting.action_requests().remove(0);
        assert!(question.text.contains("https://example.com/connect?x=1"), "{question:?}");
        let approved = decision == Decision::Approve;
        let (done, _) = run(&agent, RunInput::resume("t").decide(question.id, decision)).await;
        servers.close().await;
        assert!(results(&done)[0].0.contains(said), "{:?}", results(&done));
        assert_eq!(script.sent("tools/call"), if approved { 2 } else { 1 });
    }
}

#[tokio::test]
async fn a_flood_of_progress_is_throttled() {
    let flood = r#"token=$(printf '%s' "$line" | sed -n 's/.*"progressToken":\([^,}]*\).*/\1/p')
        seq 1 50000 | sed 's/.*/{"jsonrpc":"2.0","method":"notifications\/progress","params":{"progressToken":'"$token"',"progress":&}}/'"#;
    let script = Script::new(&[echo()], format!("{flood}\n{}", text("after")));
    let servers = alone(script.config());
    let (agent, _) = agent(&servers, one_call("echo", json!({})));
    let mut run = agent.run("Go.");
    let mut told = 0;
    while let Some(event) = run.next().await {
        told += u32::from(matches!(event.kind, EventKind::ToolProgress { .. }));
    }
    let outcome = run.outcome().await.unwrap();
    servers.close().await;
    assert_eq!(results(&outcome), [("after".to_owned(), false)]);
    assert!((1..5_000).contains(&told), "{told}");
}
