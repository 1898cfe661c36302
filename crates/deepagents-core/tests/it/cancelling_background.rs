//! Cancelling a background agent by its path, with the handle of the run that shows its events.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::agent::{Agent, NewTask};
use deepagents_core::env::RandomIds;
use deepagents_core::event::{Event, EventKind, Subscribe};
use deepagents_core::journal::MemoryJournal;
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
use deepagents_core::run::{FinishReason, RunHandle, RunInput};
use deepagents_core::tool::ToolError;
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::sync::Notify;

use crate::beside::Delegates;
use crate::support::{lines, tool, until};

/// A model that stops in the middle of each answer.
struct Halting;

impl ChatModel for Halting {
    fn name(&self) -> &str {
        "halting"
    }

    fn stream(&self, _request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let said = Ok(ModelEvent::Text { block: 0, delta: "Once upon a time".to_owned() });
        stream::iter([said]).chain(stream::pending()).boxed()
    }
}

fn is_said(kind: &EventKind) -> bool {
    matches!(kind, EventKind::TextDelta { .. })
}

async fn until_said(run: &RunHandle) {
    let mut events = run.subscribe(Subscribe::Start);
    while !is_said(&events.next().await.unwrap().kind) {}
}

/// An agent that starts `below` in the background, or also leaves it and resumes it, and waits for what it says.
fn waiting_for(below: &Agent, resumes: bool) -> Agent {
    let started = below.clone();
    let run = tool("run", move |_, cx| {
        let agent = started.clone();
        async move {
            let state = cx.state().fork(agent.schema().clone())?;
            let (id, name, input) = ("errand".to_owned(), "errands".to_owned(), RunInput::new("A story."));
            let new = NewTask { id, name, agent: agent.clone(), state, input };
            let mut run = cx.background().start(new, 1).map_err(ToolError::fatal)?;
            if resumes {
                until_said(&run).await;
                run.suspend_within(Duration::ZERO).await;
                let again = cx.background().run("errand", &agent, RunInput::resume("t/errand"), 1);
                run = again.map_err(ToolError::fatal)?;
            }
            let outcome = run.outcome().await.map_err(ToolError::fatal)?;
            assert_eq!(outcome.stop, FinishReason::Cancelled);
            Ok(outcome.messages().last().unwrap().text())
        }
    });
    let model = ScriptedModel::new([Turn::call("run", json!({})), Turn::text("So be it.")]);
    let agent = Agent::builder(model).ids(RandomIds).middleware(Delegates(below.clone())).tool(run);
    agent.journal(MemoryJournal::new()).build().unwrap()
}

fn errand() -> Vec<String> {
    vec!["errand".to_owned()]
}

#[tokio::test(start_paused = true)]
async fn a_background_agent_is_cancelled_by_the_path_of_its_events() {
    let below = Agent::builder(Halting).ids(RandomIds).name("errands").build().unwrap();
    for resumes in [false, true] {
        let mut run = waiting_for(&below, resumes).run(RunInput::new("Go.").thread("t"));
        for _ in 0..=usize::from(resumes) {
            let Event { path, .. } = until(&mut run, is_said).await;
            assert_eq!(*path, *errand());
        }
        let handle = run.handle();
        assert!(!handle.cancel_agent(&["other".to_owned()]), "there is no such agent");
        assert!(handle.cancel_agent(&errand()), "resumed: {resumes}");
        let ended = tokio::time::timeout(Duration::from_secs(60), run.outcome()).await;
        let outcome = ended.expect("the background agent ends").unwrap();
        let told = "result: Once upon a time\n\n[The user interrupted this answer here.]";
        assert_eq!(lines(outcome.messages())[2..], [told, "assistant: So be it."]);
        assert!(!handle.cancel_agent(&errand()), "the run is over");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sub_agent_of_a_background_agent_is_cancelled_alone() {
    let (child, go) = (Agent::builder(Halting).name("child").build().unwrap(), Arc::new(Notify::new()));
    let task = tool("task", move |_, cx| {
        let child = child.clone();
        async move {
            let state = cx.state().fork(child.schema().clone())?;
            let ended = cx.run_child(&child, "task", state, RunInput::new("A story.")).await?;
            Ok(ended.result?.messages().last().unwrap().text())
        }
    });
    let model = ScriptedModel::new([Turn::call("task", json!({})), Turn::text("It told a story.")]);
    let below = Agent::builder(model).ids(RandomIds).name("errands").tool(task).build().unwrap();
    let started = below.clone();
    let (may, background) = (go.clone(), go);
    let run = tool("run", move |_, cx| {
        let (agent, may) = (started.clone(), may.clone());
        async move {
            let state = cx.state().fork(agent.schema().clone())?;
            let (id, name, input) = ("errand".to_owned(), "errands".to_owned(), RunInput::new("A story."));
            let run = cx.background().start(NewTask { id, name, agent, state, input }, 1).map_err(ToolError::fatal)?;
            may.notified().await;
            Ok(run.outcome().await.map_err(ToolError::fatal)?.text())
        }
    });
    let model = ScriptedModel::new([Turn::call("run", json!({})), Turn::text("So be it.")]);
    let agent = Agent::builder(model).ids(RandomIds).middleware(Delegates(below)).tool(run);
    let agent = agent.journal(MemoryJournal::new()).build().unwrap();
    let mut run = agent.run(RunInput::new("Go.").thread("t"));
    let said = until(&mut run, is_said).await;
    assert_eq!(said.path.len(), 2, "{said:?}");
    assert!(run.cancel_agent(&said.path));
    background.notify_one();
    let ended = tokio::time::timeout(Duration::from_secs(60), run.outcome()).await;
    let outcome = ended.expect("the sub-agent ends").unwrap();
    assert_eq!(lines(outcome.messages())[2..], ["result: It told a story.", "assistant: So be it."]);
}
