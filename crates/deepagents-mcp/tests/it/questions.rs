//! Elicitation and sampling requests.

use std::sync::Arc;

use deepagents_core::agent::Agent;
use deepagents_core::interrupt::{Decision, DecisionKind};
use deepagents_core::journal::MemoryJournal;
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_mcp::{McpOptions, McpServers, Sampling, SamplingModel};
use deepagents_models::scripted::{ScriptedModel, Turn};

use crate::script::{Script, agent, alone, echo, one_call, options, results, run, text};
use serde_json::json;

/// Asks "How many?" and returns the response as the result.
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
async fn a_servers_question_interrupts_the_call_and_its_answer_reaches_the_server() {
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

    // A text that is not a number is asked for again.
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
    assert_eq!(script.sent("notifications/cancelled"), 2, "once for each time that a person was asked");
}

#[tokio::test]
async fn when_nobody_can_be_asked_the_server_is_told_and_questions_are_declined() {
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

/// Sends a sampling request and returns the response as the result.
fn sampling() -> Script {
    sampling_for("A word for blue?")
}

fn sampling_for(words: &str) -> Script {
    let ask = r#"say "{\"jsonrpc\":\"2.0\",\"id\":901,\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"A word for blue?\"}}],\"systemPrompt\":\"Be brief.\",\"maxTokens\":100000}}"
call=$id
read -r reply
printf '%s\n' "$reply" >> sent
id=$call
reply=$(printf '%s' "$reply" | tr -d '"')"#;
    let ask = ask.replace("A word for blue?", words);
    Script::new(&[echo()], format!("{ask}\n{}", text("$reply")))
}

/// Servers that may use this model, and an agent with another model.
fn samples(script: &Script, how: Sampling, model: &ScriptedModel) -> (McpServers, Agent) {
    let sampling = Some(SamplingModel::new(Arc::new(model.clone())));
    let options = McpOptions { elicitation: true, sampling, ..options() };
    let servers = McpServers::new([("alpha", script.config().sampling(how))], options);
    let agent = Agent::builder(ScriptedModel::new(one_call("echo", json!({})))).middleware(servers.clone());
    (servers, agent.journal(MemoryJournal::new()).build().unwrap())
}

#[tokio::test]
async fn a_server_allowed_to_use_the_model_gets_limited_and_counted_answers() {
    let (script, model) = (sampling(), ScriptedModel::new([Turn::text("Azure.")]));
    let (servers, agent) = samples(&script, Sampling::Allow, &model);
    let (done, _) = run(&agent, RunInput::new("Go.").thread("t")).await;
    servers.close().await;
    assert!(results(&done)[0].0.contains("Azure."), "{:?}", results(&done));
    let asked = &model.requests()[0];
    assert_eq!((asked.settings.max_tokens, &*asked.system[0].text), (Some(4_096), "Be brief."));
    assert_eq!(asked.messages.iter().map(|message| message.text()).collect::<Vec<_>>(), ["A word for blue?"]);
}

#[tokio::test]
async fn sampling_that_needs_approval_does_not_call_the_model_before_it() {
    let (script, model) = (sampling(), ScriptedModel::new([Turn::text("Azure.")]));
    let (servers, agent) = samples(&script, Sampling::Ask, &model);
    let (waiting, _) = run(&agent, RunInput::new("Go.").thread("t")).await;
    assert_eq!((waiting.stop.clone(), model.requests().len()), (FinishReason::Interrupted, 0));
    let question = waiting.action_requests().remove(0);
    for part in ["alpha", "A word for blue?", "Be brief.", "4096 tokens"] {
        assert!(question.text.contains(part), "{question:?}");
    }
    let (done, _) = run(&agent, RunInput::resume("t").decide(question.id, Decision::Approve)).await;
    servers.close().await;
    assert!(results(&done)[0].0.contains("Azure."), "{:?}", results(&done));
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn a_person_sees_all_of_a_sampling_request_or_is_not_asked_about_it() {
    let model = ScriptedModel::new([]);
    let script = sampling_for(&format!("{}hid\u{e0041}den{}", "x".repeat(3_000), "y".repeat(3_000)));
    let (servers, agent) = samples(&script, Sampling::Ask, &model);
    let (waiting, _) = run(&agent, RunInput::new("Go.").thread("t")).await;
    servers.close().await;
    let question = waiting.action_requests().remove(0);
    assert!(question.text.contains(r"xhid\u{e0041}deny"), "{question:?}");

    let script = sampling_for(&"x".repeat(21_000));
    let (servers, agent) = samples(&script, Sampling::Ask, &model);
    let (done, _) = run(&agent, RunInput::new("Go.").thread("t")).await;
    servers.close().await;
    assert!(results(&done)[0].0.contains("is shown at most 20000 characters"), "{:?}", results(&done));
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn rejected_sampling_never_calls_the_model() {
    let (script, model) = (sampling(), ScriptedModel::new([Turn::text("Azure.")]));
    let (servers, agent) = samples(&script, Sampling::Ask, &model);
    let (waiting, _) = run(&agent, RunInput::new("Go.").thread("t")).await;
    let question = waiting.action_requests().remove(0);
    let no = Decision::Reject { message: None };
    let (done, _) = run(&agent, RunInput::resume("t").decide(question.id, no)).await;
    servers.close().await;
    assert!(results(&done)[0].0.contains("does not let you"), "{:?}", results(&done));
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn a_server_not_allowed_to_use_the_model_is_told_so_and_refused() {
    let (script, model) = (sampling(), ScriptedModel::new([Turn::text("Azure.")]));
    let (servers, agent) = samples(&script, Sampling::Off, &model);
    let (done, _) = run(&agent, RunInput::new("Go.").thread("t")).await;
    servers.close().await;
    assert!(results(&done)[0].0.contains("-32601"), "{:?}", results(&done));
    assert!(model.requests().is_empty());
    let sent = std::fs::read_to_string(script.file("sent")).unwrap();
    let begun = sent.lines().find(|line| line.contains("\"initialize\"")).unwrap();
    assert!(!begun.contains("\"sampling\""), "{begun}");
}
