//! Sub-agents that are not waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deepagents::channels::Files;
use deepagents::core::tool::DynTool;
use deepagents::fs::VPath;
use deepagents::middleware::background::{BackgroundAgent, BackgroundAgents, BackgroundLimits};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, DeepAgentBuilder, MemoryJournal, Message, ModelRequest, Outcome, RunInput, json_tool};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use crate::results;

fn first_asked(words: &'static str) -> impl Fn(&ModelRequest) -> bool + Send + Sync + 'static {
    move |request| request.messages.get(0).is_some_and(|m| m.text().contains(words))
}

fn start(description: &str) -> Turn {
    Turn::call("start_async_task", json!({"description": description, "subagent_type": "general-purpose"}))
}

/// A tool that lets a sub-agent wait until the test says so, and says that it has begun.
fn gate() -> (impl DynTool, Arc<Notify>, Arc<Semaphore>) {
    let (begun, go): (Arc<Notify>, Arc<Semaphore>) = (Arc::default(), Arc::new(Semaphore::new(0)));
    let (tell, wait) = (begun.clone(), go.clone());
    let tool = json_tool("gate", "Waits.", json!({"type": "object"}), move |_: Value, _cx| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            tell.notify_one();
            wait.acquire().await?.forget();
            Ok("open")
        }
    });
    (tool, begun, go)
}

fn agent(model: &ScriptedModel) -> DeepAgentBuilder {
    DeepAgent::builder().model(model.clone()).background_agents(true).journal(MemoryJournal::new())
}

fn told(outcome: &Outcome) -> Vec<String> {
    let users = outcome.messages().iter().filter(|m| matches!(***m, Message::User(_)));
    users.map(|m| m.text()).filter(|text| text.contains("background task has ended")).collect()
}

async fn say(agent: &DeepAgent, text: &str) -> Outcome {
    agent.invoke(RunInput::new(text).thread("t")).await.unwrap()
}

/// Runs turns until a result was told: the work runs in its own time.
async fn until_told(agent: &DeepAgent, count: usize) -> Outcome {
    loop {
        tokio::task::yield_now().await;
        let outcome = say(agent, "Anything?").await;
        if told(&outcome).len() >= count {
            return outcome;
        }
    }
}

fn id_of(outcome: &Outcome, at: usize) -> String {
    results(outcome)[at].0.rsplit(' ').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_task_outlives_its_turn_and_its_result_and_files_are_told_once() {
    let (gate, begun, go) = gate();
    let write = json!({"file_path": "/report.md", "content": "found"});
    let model = ScriptedModel::rules()
        .when(
            first_asked("Research"),
            [Turn::call("gate", json!({})), Turn::call("write_file", write), Turn::text("It is in /report.md.")],
        )
        .when(|r| r.messages.len() == 1 && first_asked("Go.")(r), [start("Research birds.")])
        .always(Turn::text("Fine."))
        .build();
    let agent = agent(&model).tool(gate).build().unwrap();
    let first = say(&agent, "Go.").await;
    assert!(results(&first)[0].0.starts_with("Started. task_id: task_"), "{:?}", results(&first));
    assert_eq!(first.text(), "Fine.");
    begun.notified().await;
    assert!(told(&say(&agent, "And now?").await).is_empty());
    let other = agent.invoke(RunInput::new("Not mine.").thread("other")).await.unwrap();
    go.add_permits(1);
    let outcome = until_told(&agent, 1).await;
    let news = &told(&outcome)[0];
    assert!(news.contains("status: success") && news.contains("It is in /report.md."), "{news}");
    assert!(outcome.state.get::<Files>().unwrap().get(&VPath::parse("/report.md").unwrap()).is_some());
    assert_eq!(told(&say(&agent, "Again?").await).len(), 1, "once");
    assert!(told(&other).is_empty());
}

#[tokio::test]
async fn a_task_hears_what_is_said_to_it_and_goes_on_after_its_end() {
    let (gate, begun, go) = gate();
    let model = ScriptedModel::rules()
        .when(
            first_asked("Slow"),
            [
                Turn::call("gate", json!({})),
                Turn::with(|r| Turn::text(format!("Heard: {}", r.messages.last().unwrap().text()))),
                Turn::with(|r| Turn::text(format!("Then: {}", r.messages.last().unwrap().text()))),
            ],
        )
        .when(|r| r.messages.len() == 1, [start("Slow work.")])
        .always(Turn::with(|r| {
            // The user says which tool to call and with what, in JSON.
            let Some(said) = r.messages.last().filter(|m| matches!(***m, Message::User(_))) else {
                return Turn::text("Fine.");
            };
            match serde_json::from_str::<(String, Value)>(&said.text()) {
                Ok((tool, args)) => Turn::call(tool, args),
                Err(_) => Turn::text("Fine."),
            }
        }))
        .build();
    let agent = agent(&model).tool(gate).build().unwrap();
    let id = id_of(&say(&agent, "Go.").await, 0);
    begun.notified().await;
    let call = async |tool: &str, args: Value| {
        let outcome = say(&agent, &json!([tool, args]).to_string()).await;
        results(&outcome).pop().unwrap().0
    };
    let running = call("check_async_task", json!({"task_id": id})).await;
    assert!(running.contains(r#""status":"running""#) && !running.contains("result"), "{running}");
    call("update_async_task", json!({"task_id": id, "message": "Hurry."})).await;
    go.add_permits(1);
    let outcome = until_told(&agent, 1).await;
    assert!(told(&outcome)[0].contains("Heard: Hurry."), "{:?}", told(&outcome));
    let checked = call("check_async_task", json!({"task_id": id})).await;
    assert!(checked.contains(r#""result":"Heard: Hurry.""#), "{checked}");
    assert_eq!(
        call("cancel_async_task", json!({"task_id": id})).await,
        "Nothing to cancel: it has ended with success."
    );
    call("update_async_task", json!({"task_id": id, "message": "More."})).await;
    let outcome = until_told(&agent, 2).await;
    assert!(told(&outcome)[1].contains("Then: More."), "{:?}", told(&outcome));
}

#[tokio::test]
async fn unknown_agents_and_tasks_are_errors_that_say_what_there_is() {
    let model = ScriptedModel::new([
        Turn::call("start_async_task", json!({"description": "x", "subagent_type": "nobody"})),
        Turn::call("check_async_task", json!({"task_id": "T1"})),
        Turn::call("cancel_async_task", json!({"task_id": "T1"})),
        Turn::call("update_async_task", json!({"task_id": "T1", "message": "x"})),
        Turn::call("list_async_tasks", json!({})),
        Turn::text("Done."),
    ]);
    let outcome = agent(&model).build().unwrap().invoke("Go.").await.unwrap();
    let results = results(&outcome);
    assert_eq!(results[0], ("Error: there is no sub-agent nobody; there are general-purpose.".to_owned(), true));
    for result in &results[1..4] {
        assert!(result.1 && result.0.contains("there is no task T1"), "{result:?}");
    }
    assert_eq!(results[4], ("There are no such tasks.".to_owned(), false));
}

#[tokio::test]
async fn a_task_that_fails_is_told_as_an_error() {
    let model = ScriptedModel::rules()
        .when(first_asked("Fails"), [Turn::error(deepagents::ModelError::invalid("no such model"))])
        .when(|r| r.messages.len() == 1, [start("Fails.")])
        .always(Turn::text("Fine."))
        .build();
    let agent = agent(&model).build().unwrap();
    say(&agent, "Go.").await;
    let outcome = until_told(&agent, 1).await;
    assert!(told(&outcome)[0].contains("status: error") && told(&outcome)[0].contains("no such model"));
}

#[tokio::test]
async fn tasks_are_cancelled_when_the_agent_is_dropped() {
    struct Dropped(Arc<Notify>, Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.notify_one();
        }
    }
    let (begun, gone, count): (Arc<Notify>, Arc<Notify>, Arc<AtomicUsize>) = Default::default();
    let (tell, end, drops) = (begun.clone(), gone.clone(), count.clone());
    let hangs = json_tool("hangs", "Hangs.", json!({"type": "object"}), move |_: Value, _cx| {
        let (tell, guard) = (tell.clone(), Dropped(end.clone(), drops.clone()));
        async move {
            let _guard = guard;
            tell.notify_one();
            std::future::pending::<()>().await;
            Ok("never")
        }
    });
    let model = ScriptedModel::rules()
        .when(first_asked("Hang"), [Turn::call("hangs", json!({}))])
        .otherwise([start("Hang."), Turn::text("Started.")])
        .build();
    let agent = agent(&model).tool(hangs).build().unwrap();
    say(&agent, "Go.").await;
    begun.notified().await;
    assert_eq!(count.load(Ordering::SeqCst), 0);
    drop(agent);
    gone.notified().await;
}

#[tokio::test]
async fn no_more_tasks_run_at_once_than_the_limit_allows() {
    let (gate, ..) = gate();
    let child = ScriptedModel::rules().always(Turn::call("gate", json!({}))).build();
    let child = DeepAgent::builder().model(child).tool(gate).build().unwrap();
    let worker =
        BackgroundAgent { name: "worker".to_owned(), description: "Works.".to_owned(), agent: child.agent().clone() };
    let limits = BackgroundLimits { at_once: 2, remembered: 2 };
    let background = BackgroundAgents::new(vec![worker], limits).unwrap();
    let start = || ("start_async_task", json!({"description": "x", "subagent_type": "worker"}));
    let model = ScriptedModel::new([
        Turn::calls([start(), start(), start()]),
        Turn::call("list_async_tasks", json!({"status_filter": "running"})),
        Turn::with(|r| {
            let listed = r.messages.last().unwrap().text();
            let id = listed.lines().next().unwrap().split_whitespace().nth(2).unwrap().to_owned();
            Turn::call("cancel_async_task", json!({"task_id": format!(" {id} ")}))
        }),
        Turn::call("list_async_tasks", json!({"status_filter": "cancelled"})),
        Turn::calls([start()]),
        Turn::text("Done."),
    ]);
    let agent = DeepAgent::builder().model(model).middleware(background).build().unwrap();
    let outcome = agent.invoke("Go.").await.unwrap();
    let results = results(&outcome);
    assert_eq!(results[..3].iter().filter(|r| r.1 && r.0.contains("2 tasks are running")).count(), 1, "{results:?}");
    assert_eq!(results[3].0.lines().count(), 2);
    assert_eq!(results[4].0, "Cancelled.");
    assert!(results[5].0.contains("status: cancelled"), "{results:?}");
    assert!(!results[6].1, "there is room again: {results:?}");
}

#[test]
fn the_tools_are_there_only_when_switched_on() {
    let tools = |on| {
        let builder = DeepAgent::builder().model(ScriptedModel::new([])).background_agents(on);
        let explained = builder.build().unwrap().explain();
        explained.tools.into_iter().filter(|t| t.name.ends_with("_async_task") || t.name == "list_async_tasks").count()
    };
    assert_eq!((tools(false), tools(true)), (0, 5));
}
