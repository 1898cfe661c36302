//! Child agents run by a tool.

use deepagents_core::agent::Agent;
use deepagents_core::event::{Event, EventKind};
use deepagents_core::message::Usage;
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_core::state::State;
use deepagents_core::tool::DynTool;
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::json;

use crate::support::{agent, assert_sound, echo, kinds, lines, tool, until, watch};

/// A tool that delegates to another agent.
fn task(child: Agent) -> impl DynTool {
    tool("task", move |_, cx| {
        let child = child.clone();
        async move {
            let state = State::new(child.schema().clone());
            let outcome = cx.run_child(&child, "task", state, "do it").await?.result?;
            Ok(format!("{:?}: {}", outcome.stop, outcome.text()))
        }
    })
}

fn tokens(input: u64) -> Usage {
    Usage { input, output: 1, ..Usage::default() }
}

fn parent(child: Agent, calls: usize) -> Agent {
    let turn = Turn::calls((0..calls).map(|_| ("task", json!({})))).usage(tokens(100));
    let model = ScriptedModel::new([turn, Turn::text("all done").usage(tokens(200))]);
    agent(model).tool(task(child)).build().unwrap()
}

fn child(turns: impl IntoIterator<Item = Turn>) -> Agent {
    agent(ScriptedModel::new(turns)).name("child").tool(echo()).build().unwrap()
}

fn of_children(events: &[Event]) -> Vec<&Event> {
    events.iter().filter(|e| !e.path.is_empty()).collect()
}

#[tokio::test]
async fn a_childs_events_have_its_path_and_the_runs_sequence_and_its_tokens_count() {
    let child = child([Turn::call("echo", json!({})).usage(tokens(10)), Turn::text("found").usage(tokens(20))]);
    let (events, outcome) = watch(parent(child, 1).run("go")).await;
    let outcome = outcome.unwrap();
    assert_eq!(lines(outcome.messages())[2], "result: Done: found");
    assert_eq!(events.iter().map(|e| e.seq).collect::<Vec<_>>(), (0..events.len() as u64).collect::<Vec<_>>());
    assert!(of_children(&events).iter().all(|e| *e.path == ["task:0.0".to_owned()] && e.run == events[0].run));
    let calls: Vec<String> = events
        .iter()
        .filter_map(|e| match &e.kind {
            EventKind::ToolStarted { call, .. } => Some(call.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(calls, ["0.0", "task:0.0/0.0"]);
    let kinds = kinds(&events);
    assert_eq!(kinds.iter().filter(|k| *k == "run_started" || *k == "run_finished").count(), 2);
    assert_eq!(kinds.iter().filter(|k| *k == "agent_started" || *k == "agent_finished").count(), 4);
    assert_eq!(outcome.usage, Usage { input: 330, output: 4, ..Usage::default() });
    assert_eq!(outcome.usage_by_agent["child"].input, 30);
    let childs = of_children(&events).into_iter().find_map(|e| match &e.kind {
        EventKind::AgentFinished { usage, .. } => Some(usage.input),
        _ => None,
    });
    assert_eq!(childs, Some(30), "a child tells its own tokens");
}

#[tokio::test]
async fn children_of_one_turn_run_concurrently_and_are_told_apart() {
    let child = child((0..8).map(|_| Turn::text("found")));
    let (events, outcome) = watch(parent(child, 8).run("go")).await;
    assert_eq!(outcome.unwrap().text(), "all done");
    let paths: std::collections::BTreeSet<String> = of_children(&events).iter().map(|e| e.path.join("/")).collect();
    assert_eq!(paths.len(), 8);
}

#[tokio::test]
async fn a_failed_child_is_reported_and_answers_its_parent() {
    let child = child([]);
    let (events, outcome) = watch(parent(child, 1).run("go")).await;
    let outcome = outcome.unwrap();
    assert_sound(outcome.messages());
    assert!(lines(outcome.messages())[2].starts_with("error: "));
    let failed = of_children(&events).iter().any(|e| matches!(&e.kind, EventKind::AgentFailed { .. }));
    assert!(failed);
    assert!(!kinds(&events).contains(&"run_failed".to_owned()));
}

#[tokio::test]
async fn a_child_is_cancelled_with_its_run_and_does_not_cancel_it() {
    let forever = std::time::Duration::from_secs(3600);
    let hanging = child([Turn::text("never").delay(forever)]);
    let mut run = parent(hanging, 1).run("go");
    until(&mut run, |kind| matches!(kind, EventKind::AgentStarted { name } if name == "child")).await;
    run.cancel();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Cancelled);
    assert_sound(outcome.messages());

    let limited = child([]);
    let late = tool("task", move |_, cx| {
        let child = limited.clone();
        async move {
            let input = RunInput::new("do it").timeout(std::time::Duration::ZERO);
            let state = State::new(child.schema().clone());
            let outcome = cx.run_child(&child, "task", state, input).await?.result?;
            Ok(format!("{:?} {}", outcome.stop, cx.cancellation().is_cancelled()))
        }
    });
    let model = ScriptedModel::new([Turn::call("task", json!({})), Turn::text("done")]);
    let outcome = agent(model).tool(late).build().unwrap().invoke("go").await.unwrap();
    assert_eq!(lines(outcome.messages())[2..], ["result: Deadline false", "assistant: done"]);
}
