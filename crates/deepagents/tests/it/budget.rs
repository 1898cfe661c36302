//! Budgets of whole agent trees on the standard stack.

use std::sync::Arc;

use deepagents::core::tool::DynTool;
use deepagents::models::scripted::{ScriptedModel, Turn, check_history};
use deepagents::{
    Budget, BudgetKind, DeepAgent, EventKind, FinishReason, MemoryJournal, Message, ModelRequest, RunInput, Usage,
    json_tool,
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::results;

fn first_asked(words: &'static str) -> impl Fn(&ModelRequest) -> bool + Send + Sync + 'static {
    move |request| request.messages.get(0).is_some_and(|m| m.text().contains(words))
}

fn with(tool: &'static str, description: &str) -> (&'static str, Value) {
    (tool, json!({"description": description, "subagent_type": "general-purpose"}))
}

fn tokens(input: u64) -> Usage {
    Usage { input, output: 0, ..Usage::default() }
}

/// Lists files forever, a thousand tokens per call.
fn busy() -> Turn {
    Turn::call("ls", json!({"path": "/"})).usage(tokens(1_000))
}

#[tokio::test]
async fn one_turns_sub_agents_share_a_budget_and_the_parent_learns_of_cut_work() {
    let calls: Vec<_> = (0..5).map(|n| with("task", &format!("Search {n}."))).collect();
    let model = ScriptedModel::rules()
        .when(
            |r: &ModelRequest| first_asked("Main job")(r) && r.messages.len() == 1,
            [Turn::calls(calls).usage(tokens(1_000))],
        )
        .always(busy())
        .build();
    let agent = DeepAgent::builder().model(model.clone()).budget(Budget::default().tokens(21_000)).build().unwrap();
    let mut run = agent.run("Main job.");
    let mut ended = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::AgentFinished { stop, .. } = event.kind {
            ended.push((event.path.len(), stop));
        }
    }
    let outcome = run.outcome().await.unwrap();
    let spent = FinishReason::Budget(BudgetKind::Tokens);
    assert_eq!(outcome.stop, spent);
    assert_eq!(ended, [vec![(1, spent.clone()); 5], vec![(0, spent)]].concat());
    check_history(outcome.messages()).unwrap();
    for (text, failed) in results(&outcome) {
        assert!(!failed && text.contains("may not have finished: the limit of tokens was reached"), "{text}");
    }
    assert!((21_000..=25_000).contains(&outcome.usage.input), "{:?}", outcome.usage);
    assert_eq!(outcome.usage.input, 1_000 * model.requests().len() as u64);
    assert_eq!(outcome.usage_by_agent["general-purpose"].input, outcome.usage.input - 1_000);
}

/// A tool that waits until the test releases it.
fn gate() -> (impl DynTool, Arc<Semaphore>) {
    let go = Arc::new(Semaphore::new(0));
    let wait = go.clone();
    let tool = json_tool("gate", "Waits.", json!({"type": "object"}), move |_: Value, _cx| {
        let wait = wait.clone();
        async move {
            wait.acquire().await?.forget();
            Ok("open")
        }
    });
    (tool, go)
}

#[tokio::test]
async fn a_background_task_spends_its_starting_runs_budget_even_after_that_run() {
    let (gate, go) = gate();
    let model = ScriptedModel::rules()
        .when(
            |r: &ModelRequest| first_asked("Research")(r) && r.messages.len() == 1,
            [Turn::call("gate", json!({})).usage(tokens(1_000))],
        )
        .when(first_asked("Research"), vec![busy(); 50])
        .when(
            |r: &ModelRequest| r.messages.len() == 1,
            [Turn::calls([with("start_async_task", "Research birds.")]).usage(tokens(1_000))],
        )
        .always(Turn::text("Fine.").usage(tokens(1_000)))
        .build();
    let agent = DeepAgent::builder()
        .model(model.clone())
        .background_agents(true)
        .journal(MemoryJournal::new())
        .tool(gate)
        .build()
        .unwrap();
    let input = RunInput::new("Go.").thread("t").budget(Budget::default().tokens(6_000));
    let first = agent.invoke(input).await.unwrap();
    assert_eq!((first.stop.clone(), first.text()), (FinishReason::Done, "Fine.".to_owned()));
    go.add_permits(1);
    let told = loop {
        tokio::task::yield_now().await;
        let outcome = agent.invoke(RunInput::new("Anything?").thread("t")).await.unwrap();
        let users = outcome.messages().iter().filter(|m| matches!(***m, Message::User(_)));
        if let Some(told) = users.map(|m| m.text()).find(|text| text.contains("background task has ended")) {
            break told;
        }
    };
    assert!(told.contains("status: error") && told.contains("the limit of tokens was reached"), "{told}");
    let of_task = model.requests().iter().filter(|r| first_asked("Research")(r)).count();
    assert_eq!(of_task, 4, "two of the six thousand tokens were the main agent's");
}

#[tokio::test]
async fn a_cancelled_sub_agent_is_an_error_result_and_its_writes_are_kept() {
    let hour = std::time::Duration::from_secs(3600);
    let write = json!({"file_path": "/found.txt", "content": "half of it"});
    let model = ScriptedModel::rules()
        .when(first_asked("Slow"), [Turn::call("write_file", write), Turn::text("Never.").delay(hour)])
        .otherwise([Turn::calls([with("task", "Slow job.")])])
        .build();
    let agent = DeepAgent::builder().model(model).build().unwrap();
    let mut run = agent.run("Main job.");
    let mut below = None;
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::ToolFinished { name, .. } if name == "write_file" => run.cancel(),
            EventKind::AgentFinished { stop, .. } if !event.path.is_empty() => below = Some(stop),
            _ => {}
        }
    }
    let outcome = run.outcome().await.unwrap();
    assert_eq!((outcome.stop.clone(), below), (FinishReason::Cancelled, Some(FinishReason::Cancelled)));
    check_history(outcome.messages()).unwrap();
    let (text, failed) = &results(&outcome)[0];
    assert!(*failed && text.contains("may not have finished: the run was cancelled"), "{text}");
    let files = outcome.state.get::<deepagents::channels::Files>().unwrap();
    assert!(files.get(&"/found.txt".parse().unwrap()).is_some());
}
