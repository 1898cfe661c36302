//! Servers that ask a person.

use deepagents_core::agent::Agent;
use deepagents_core::interrupt::{Decision, DecisionKind};
use deepagents_core::journal::MemoryJournal;
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_mcp::{McpOptions, McpServers};
use deepagents_models::scripted::ScriptedModel;

use crate::script::{Script, agent, alone, echo, one_call, options, results, run, text};
use serde_json::json;

/// Asks how many, and answers with the line that comes back.
fn asking() -> Script {
    let ask = r#"say "{\"jsonrpc\":\"2.0\",\"id\":900,\"method\":\"elicitation/create\",\"params\":{\"mode\":\"form\",\"message\":\"How many?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"]}}}"
call=$id
read -r reply
printf '%s\n' "$reply" >> sent
id=$call
reply=$(printf '%s' "$reply" | tr -d '"')"#;
    Script::new(&[echo()], format!("{ask}\n{}", text("$reply")))
}

#[tokio::test]
async fn a_question_of_a_server_is_an_interrupt_of_the_call_and_its_answer_reaches_the_server() {
    let script = asking();
    let servers = McpServers::new([("alpha", script.config())], McpOptions { elicitation: true, ..options() });
    let model = ScriptedModel::new(one_call("echo", json!({})));
    let journal = MemoryJournal::new();
    let agent = Agent::builder(model).middleware(servers.clone()).journal(journal).build().unwrap();
    let (waiting, _) = run(&agent, RunInput::new("Go.").thread("t")).await;
    assert_eq!(waiting.stop, FinishReason::Interrupted);
    let question = waiting.action_requests().remove(0);
    assert!(question.text.contains("alpha") && question.text.contains("How many?"), "{question:?}");
    assert_eq!(question.allowed, [DecisionKind::Respond, DecisionKind::Reject]);

    // Words that are no number are asked for again.
    let answer = Decision::Respond { message: "several".to_owned() };
    let (again, _) = run(&agent, RunInput::resume("t").decide(question.id, answer)).await;
    let question = again.action_requests().remove(0);
    assert!(question.text.contains("does not fit"), "{question:?}");
    let answer = Decision::Respond { message: "{\"n\": 3}".to_owned() };
    let (done, _) = run(&agent, RunInput::resume("t").decide(question.id, answer)).await;
    servers.close().await;
    let results = results(&done);
    assert!(results[0].0.contains("action:accept") && results[0].0.contains("n:3"), "{results:?}");
    assert_eq!(done.text(), "Done.");
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_server_is_told_so_and_the_answer_is_no() {
    let script = asking();
    let servers = alone(script.config());
    let (agent, _) = agent(&servers, one_call("echo", json!({})));
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    let results = results(&outcome);
    assert!(results[0].0.contains("action:decline"), "{results:?}");
    let sent = std::fs::read_to_string(script.file("sent")).unwrap();
    assert!(!sent.contains("elicitation") && !sent.contains("sampling"), "{sent}");
}
