//! Delegation with `task`: events, budgets, interrupts, outcomes.

use std::time::Duration;

use deepagents::core::message::Usage;
use deepagents::{Budget, Decision, EventKind, FinishReason, MemoryJournal, RunInput};
use serde_json::json;

use crate::support::{Running, below, delegating, play, steps};

#[tokio::test]
async fn remote_events_appear_below_the_call_and_their_tokens_are_charged() {
    let server = Running::start().await;
    let agent = delegating(server.config()).build().unwrap();
    let list = json!([{"content": "x", "status": "completed"}]);
    let (outcome, events) = play(&agent, steps(&[("write_todos", json!({"todos": list}))])).await;
    assert!(outcome.text().starts_with("Done: "), "{}", outcome.text());
    let seen = below(&events);
    assert_eq!(seen[0], "task:0.0: started worker");
    assert!(seen.iter().any(|line| line.starts_with("task:0.0: calls write_todos")), "{seen:#?}");
    assert_eq!(seen.iter().filter(|line| line.as_str() == "task:0.0: answered 10+1").count(), 2, "{seen:#?}");
    assert_eq!(seen.last().unwrap(), "task:0.0: ended the model had nothing left to do");
    let finished = events.iter().find_map(|event| match &event.kind {
        EventKind::AgentFinished { usage, .. } if !event.path.is_empty() => Some(*usage),
        _ => None,
    });
    assert_eq!(finished, Some(Usage { input: 20, output: 2, ..Usage::default() }));
    assert_eq!(server.statuses().await, ["success"]);
}

#[tokio::test]
async fn remote_sub_agents_appear_below_the_call_with_their_names() {
    let server = Running::start().await;
    let agent = delegating(server.config()).build().unwrap();
    let task = json!({"description": "Say hello.", "subagent_type": "general-purpose"});
    let (outcome, events) = play(&agent, steps(&[("task", task)])).await;
    assert_eq!(outcome.text(), "Done: Heard: Say hello.");
    let seen = below(&events);
    let nested: Vec<&String> = seen.iter().filter(|line| line.starts_with("task:0.0/")).collect();
    assert!(nested[0].ends_with(": started general-purpose"), "{seen:#?}");
    assert!(nested.iter().any(|line| line.contains("Heard")), "{seen:#?}");
}

#[tokio::test]
async fn a_spent_local_budget_ends_the_remote_run() {
    let server = Running::start().await;
    let agent = delegating(server.config()).build().unwrap();
    let input = RunInput::new(steps(&[("gate", json!({})), ("gate", json!({}))]));
    let run = agent.run(input.budget(Budget::default().tokens(15)));
    for _ in 0..2 {
        server.gate.open();
    }
    let outcome = run.outcome().await.unwrap();
    assert!(matches!(outcome.stop, FinishReason::Budget(_)), "{:?}", outcome.stop);
    let results: Vec<String> =
        outcome.messages().iter().filter(|message| message.as_tool().is_some()).map(|message| message.text()).collect();
    assert!(results[0].contains("may not have finished: the limit of tokens was reached"), "{results:?}");
}

#[tokio::test]
async fn remote_questions_are_asked_locally_and_their_answers_sent_back() {
    let server = Running::start().await;
    let agent = delegating(server.config()).journal(MemoryJournal::new()).build().unwrap();
    let work = steps(&[("book", json!({"city": "Rome"})), ("book", json!({"city": "Oslo"}))]);
    let (outcome, _) = play(&agent, RunInput::new(work).thread("t")).await;
    assert_eq!(outcome.stop, FinishReason::Interrupted);
    let asked = outcome.action_requests();
    assert_eq!((asked[0].tool.as_str(), &asked[0].args), ("book", &json!({"city": "Rome"})));
    assert_eq!(asked[0].agent.as_deref(), Some("worker"));
    let (outcome, _) = play(&agent, RunInput::resume("t").decide(&asked[0].id, Decision::Approve)).await;
    let asked = outcome.action_requests();
    assert_eq!(asked[0].args, json!({"city": "Oslo"}));
    let refused = Decision::Reject { message: Some("Too cold.".to_owned()) };
    let (outcome, events) = play(&agent, RunInput::resume("t").decide(&asked[0].id, refused)).await;
    assert_eq!(outcome.stop, FinishReason::Done);
    assert!(outcome.text().contains("Too cold."), "{}", outcome.text());
    let seen = below(&events);
    assert!(!seen.iter().any(|line| line.contains("Rome")), "what was passed on is not passed on again: {seen:#?}");
    assert_eq!(server.statuses().await, ["success"; 3], "a run for the task and one for each answer");
}

#[tokio::test]
async fn a_cancelled_call_cancels_the_remote_run() {
    let server = Running::start().await;
    let agent = delegating(server.config()).build().unwrap();
    let run = agent.run(steps(&[("gate", json!({}))]));
    server.gate.entered().await;
    run.cancel();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Cancelled);
    server.until_interrupted().await;
}

#[tokio::test]
async fn a_deadline_cancels_the_remote_run_and_is_an_error() {
    let server = Running::start().await;
    let agent = delegating(server.config().deadline(Duration::from_millis(500))).build().unwrap();
    let (outcome, _) = play(&agent, steps(&[("gate", json!({}))])).await;
    assert!(outcome.text().contains("was not done within 0 seconds"), "{}", outcome.text());
    server.until_interrupted().await;
}

#[tokio::test]
async fn a_failed_remote_run_is_an_error_with_its_reason() {
    let server = Running::start().await;
    let unknown = deepagents::remote::RemoteConfig::langgraph(&server.url, "nobody").unwrap();
    let (outcome, _) = play(&delegating(unknown).build().unwrap(), "Hi").await;
    assert!(outcome.text().contains("refused a run: 4"), "{}", outcome.text());
    assert!(outcome.text().contains("nobody"), "{}", outcome.text());
}
