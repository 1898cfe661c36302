//! Remote agents in the background.

use deepagents::core::message::Message;
use deepagents::{Decision, DeepAgent, FinishReason, MemoryJournal, Outcome, RunInput};
use serde_json::json;

use crate::support::{Running, delegating_with, soon, steps};

fn agent(server: &Running) -> DeepAgent {
    let builder = delegating_with("start_async_task", server.config()).background_agents(true);
    builder.journal(MemoryJournal::new()).build().unwrap()
}

async fn say(agent: &DeepAgent, text: impl Into<String>) -> Outcome {
    agent.invoke(RunInput::new(text.into()).thread("t")).await.unwrap()
}

/// Starts a task. Returns its ID.
async fn start(agent: &DeepAgent, text: String) -> String {
    say(agent, text).await.text().rsplit(' ').next().unwrap().to_owned()
}

fn told(outcome: &Outcome) -> Option<String> {
    let users = outcome.messages().iter().filter(|message| matches!(***message, Message::User(_)));
    users.map(|message| message.text()).find(|text| text.contains("a background task has ended"))
}

async fn until_told(agent: &DeepAgent, id: &str) -> String {
    soon(async {
        loop {
            let outcome = say(agent, format!("check_async_task {id}")).await;
            if let Some(text) = told(&outcome) {
                return text;
            }
            if outcome.text().contains("\"result\"") || outcome.text().contains("\"error\"") {
                return outcome.text();
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_background_task_is_reported_when_it_ends() {
    let server = Running::start().await;
    let agent = agent(&server);
    let id = start(&agent, steps(&[("gate", json!({}))])).await;
    server.gate.entered().await;
    server.gate.open();
    let text = until_told(&agent, &id).await;
    assert!(text.contains("Done: open"), "{text}");
    assert_eq!(server.statuses().await, ["success"]);
}

#[tokio::test]
async fn a_message_to_a_running_task_replaces_its_current_work() {
    let server = Running::start().await;
    let agent = agent(&server);
    let id = start(&agent, steps(&[("gate", json!({}))])).await;
    server.gate.entered().await;
    say(&agent, format!("update_async_task {id} Stop that.")).await;
    let text = until_told(&agent, &id).await;
    assert!(text.contains("Heard: Stop that."), "{text}");
    let mut statuses = server.statuses().await;
    statuses.sort();
    assert_eq!(statuses, ["interrupted", "success"], "both in one thread over there");
    let id_again = say(&agent, format!("update_async_task {id} And now?")).await;
    assert!(id_again.text().contains("goes on"), "{}", id_again.text());
}

#[tokio::test]
async fn a_cancelled_task_is_cancelled_on_the_remote_server() {
    let server = Running::start().await;
    let agent = agent(&server);
    let id = start(&agent, steps(&[("gate", json!({}))])).await;
    server.gate.entered().await;
    say(&agent, format!("cancel_async_task {id}")).await;
    server.until_interrupted().await;
}

#[tokio::test]
async fn a_question_of_a_background_task_is_asked_by_the_run_that_checks_it() {
    let server = Running::start().await;
    let agent = agent(&server);
    let id = start(&agent, steps(&[("book", json!({"city": "Rome"}))])).await;
    let outcome = soon(async {
        loop {
            let outcome = say(&agent, format!("check_async_task {id}")).await;
            if outcome.stop == FinishReason::Interrupted {
                return outcome;
            }
        }
    })
    .await;
    let asked = outcome.action_requests();
    assert_eq!(asked[0].args, json!({"city": "Rome"}));
    let answer = RunInput::resume("t").decide(&asked[0].id, Decision::Approve);
    agent.invoke(answer).await.unwrap();
    let text = until_told(&agent, &id).await;
    assert!(text.contains("Done: booked Rome"), "{text}");
}

#[tokio::test]
async fn a_remote_failure_is_an_error_of_the_task() {
    let server = Running::start().await;
    let unknown = deepagents::remote::RemoteConfig::langgraph(&server.url, "nobody").unwrap();
    let builder = delegating_with("start_async_task", unknown).background_agents(true);
    let agent = builder.journal(MemoryJournal::new()).build().unwrap();
    let id = start(&agent, "Hi".to_owned()).await;
    let text = until_told(&agent, &id).await;
    assert!(text.contains("refused a run: 4"), "{text}");
}
