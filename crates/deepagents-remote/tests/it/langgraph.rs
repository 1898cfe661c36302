//! A real LangGraph server, if one serves the agents of the shared server rig:
//! `DEEPAGENTS_TEST_LANGGRAPH_URL=http://127.0.0.1:8123`.

use std::io::Write;

use deepagents::remote::{Protocol, RemoteConfig};
use deepagents::{Decision, DeepAgentBuilder, FinishReason, MemoryJournal, RunInput};
use serde_json::json;

use crate::support::{below, delegating, play, text_below};

fn there() -> Option<DeepAgentBuilder> {
    let Ok(url) = std::env::var("DEEPAGENTS_TEST_LANGGRAPH_URL") else {
        // Written to stderr directly, because the test harness captures `eprintln!`.
        let _ = writeln!(std::io::stderr(), "skipped: DEEPAGENTS_TEST_LANGGRAPH_URL names no server");
        return None;
    };
    let agent = delegating(RemoteConfig::langgraph(&url, "agent").unwrap());
    Some(agent.journal(MemoryJournal::new()))
}

#[tokio::test]
async fn a_langgraph_server_streams_its_answer() {
    let Some(agent) = there() else { return };
    let (outcome, events) = play(&agent.build().unwrap(), "say hello").await;
    assert!(outcome.text().contains("Hello from the rig"), "{}", outcome.text());
    assert_eq!(text_below(&events), outcome.text(), "{:#?}", below(&events));
    assert!(outcome.usage_by_agent["worker"].input > 0, "{:?}", outcome.usage_by_agent);
}

#[tokio::test]
async fn tools_and_sub_agents_of_a_langgraph_server_are_visible() {
    let Some(agent) = there() else { return };
    let (outcome, events) = play(&agent.build().unwrap(), "delegate research").await;
    assert!(outcome.text().contains("Delegation done"), "{}", outcome.text());
    let seen = below(&events);
    assert!(seen.iter().any(|line| line.starts_with("task:0.0: calls task")), "{seen:#?}");
    assert!(seen.iter().any(|line| line.starts_with("task:0.0/tools:")), "{seen:#?}");
}

#[tokio::test]
async fn calls_pending_on_a_langgraph_server_are_decided_locally() {
    let Some(agent) = there() else { return };
    let agent = agent.build().unwrap();
    let (outcome, _) = play(&agent, RunInput::new("book a flight").thread("t")).await;
    assert_eq!(outcome.stop, FinishReason::Interrupted);
    let asked = outcome.action_requests();
    assert_eq!(asked[0].tool, "book", "{:?}", json!(asked));
    let (outcome, _) = play(&agent, RunInput::resume("t").decide(&asked[0].id, Decision::Approve)).await;
    assert!(outcome.text().contains("Flight booked"), "{}", outcome.text());
}

#[tokio::test]
async fn a_langgraph_server_can_be_used_over_a2a() {
    let Ok(url) = std::env::var("DEEPAGENTS_TEST_LANGGRAPH_URL") else { return };
    // The ID of the default assistant of the graph `agent`, the same on every such server.
    let id = "fe096781-5601-53d2-b2f6-0d3403f7e9ca";
    let agent = delegating(RemoteConfig::new(&url, Protocol::A2a, Some(id)).unwrap()).build().unwrap();
    let (outcome, _) = play(&agent, "say hello").await;
    assert!(outcome.text().starts_with("Hello from the rig"), "{}", outcome.text());
}
