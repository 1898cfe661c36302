//! Runs that belong to no other, and questions that are asked for others.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::agent::Agent;
use deepagents_core::agent::Paused;
use deepagents_core::error::{Error, Result};
use deepagents_core::event::Event;
use deepagents_core::interrupt::{ActionRequest, Decision, DecisionKind};
use deepagents_core::journal::{Journal, MemoryJournal};
use deepagents_core::middleware::{Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
use deepagents_core::run::{FinishReason, ModelCall, RunInput, RunObserver, RunStart};
use deepagents_core::state::{ChannelSpec, State, Update};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{Notes, tool};

fn sends(notes: &Notes) -> Agent {
    let notes = notes.clone();
    let send = tool("send", move |args: Value, cx| {
        let notes = notes.clone();
        async move {
            let said = cx.interrupt("Send?", [DecisionKind::Approve, DecisionKind::Reject])?;
            notes.add(format!("{} {}", said.kind(), args["n"]));
            Ok("sent")
        }
    });
    let model = ScriptedModel::new([
        Turn::calls([("send", json!({"n": 1})), ("send", json!({"n": 2}))]),
        Turn::with(|request| Turn::text(format!("Heard: {}", request.messages.last().unwrap().text()))),
    ]);
    Agent::builder(model).tool(send).build().unwrap()
}

async fn waiting(agent: &Agent) -> Paused {
    let state = State::new(agent.schema().clone());
    let mut run = agent.spawn_background("errand", state, RunInput::new("Send both.")).unwrap();
    let (outcome, paused) = run.ended().await.unwrap();
    assert_eq!((outcome.stop, outcome.thread), (FinishReason::Interrupted, None));
    paused.unwrap()
}

#[tokio::test]
async fn a_run_beside_others_waits_without_a_thread_and_goes_on_with_answers_and_what_it_is_told() {
    let notes = Notes::default();
    let agent = sends(&notes);
    let paused = waiting(&agent).await;
    let ids: Vec<String> = paused.questions().into_iter().map(|question| question.id).collect();
    assert_eq!(ids, ["errand/0.0?0", "errand/0.1?0"]);
    let wrong = paused.answer(vec![(ids[0].clone(), Decision::Respond { message: "x".to_owned() })]).unwrap_err();
    assert!(wrong.to_string().contains("cannot be answered with respond"), "{wrong}");
    // One answer of two: it waits for the other.
    let mut run = paused.answer(vec![(ids[1].clone(), Decision::Approve)]).unwrap();
    let paused = run.ended().await.unwrap().1.unwrap();
    assert_eq!(paused.questions().len(), 1);
    let mut run = paused.answer(vec![(ids[0].clone(), Decision::Reject { message: None })]).unwrap();
    assert!(run.steer("And thanks."));
    let (outcome, paused) = run.ended().await.unwrap();
    assert!(paused.is_none());
    assert_eq!((outcome.stop.clone(), outcome.text().as_str()), (FinishReason::Done, "Heard: And thanks."));
    assert_eq!(notes.list(), ["approve 2", "reject 1"]);
}

#[tokio::test]
async fn what_others_ask_is_asked_at_once_under_their_calls_and_answered_in_order() {
    let notes = Notes::default();
    let inner = Arc::new(waiting(&sends(&notes)).await);
    let (open, noted) = (inner.clone(), notes.clone());
    let check = tool("check", move |_: Value, cx| {
        let (open, noted) = (open.questions(), noted.clone());
        async move {
            let decisions = cx.interrupt_for(&open)?;
            noted.add(decisions.iter().map(|d| d.kind().as_str()).collect::<Vec<_>>().join(" "));
            Ok("passed on")
        }
    });
    let model = ScriptedModel::new([Turn::call("check", json!({})), Turn::text("Done.")]);
    let agent = Agent::builder(model).tool(check).journal(MemoryJournal::new()).build().unwrap();
    let waits = agent.invoke(RunInput::new("Check.").thread("t")).await.unwrap();
    let asked: Vec<ActionRequest> = waits.questions();
    let told: Vec<_> = asked.iter().map(|q| (q.tool.as_str(), q.args["n"].clone(), q.text.as_str())).collect();
    assert_eq!(told, [("send", json!(1), "Send?"), ("send", json!(2), "Send?")]);
    let reject = Decision::Reject { message: None };
    let input = RunInput::resume("t").answer(&asked[1].id, reject).answer(&asked[0].id, Decision::Approve);
    assert_eq!(agent.invoke(input).await.unwrap().text(), "Done.");
    assert_eq!(notes.list(), ["approve reject"]);
}

#[tokio::test]
async fn what_is_said_while_a_run_comes_to_wait_is_heard_when_it_goes_on() {
    let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, may) = (began.clone(), go.clone());
    let send = tool("send", move |_: Value, cx| {
        let (told, may) = (told.clone(), may.clone());
        async move {
            told.notify_one();
            may.notified().await;
            cx.interrupt("Send?", [DecisionKind::Approve])?;
            Ok("sent")
        }
    });
    let last = Turn::with(|request| Turn::text(format!("Heard: {}", request.messages.last().unwrap().text())));
    let agent = Agent::builder(ScriptedModel::new([Turn::call("send", json!({})), last])).tool(send).build().unwrap();
    let state = State::new(agent.schema().clone());
    let mut run = agent.spawn_background("errand", state, RunInput::new("Send it.")).unwrap();
    began.notified().await;
    assert!(run.steer("To Ada."));
    go.notify_one();
    let paused = run.ended().await.unwrap().1.unwrap();
    assert!(!run.steer("Too late."));
    let again = run.ended().await.unwrap_err();
    assert_eq!(again.to_string(), "the end of the run was given before");
    go.notify_one();
    let mut run = paused.answer(vec![(paused.questions()[0].id.clone(), Decision::Approve)]).unwrap();
    assert_eq!(run.ended().await.unwrap().0.text(), "Heard: To Ada.");
}

/// Lets nothing pass.
struct Closed;
impl RunObserver for Closed {
    fn begin(&self, _: RunStart<'_>) -> Result<()> {
        Err(Error::Input("closed".to_owned()))
    }
    fn model(
        self: Arc<Self>,
        _: ModelCall,
        _: &Arc<dyn ChatModel>,
        _: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        Box::pin(futures_util::stream::iter([Err(ModelError::invalid("closed"))]))
    }
    fn tool(self: Arc<Self>, _: ToolRequest, _: ToolNext) -> BoxFuture<'static, Result<ToolResponse>> {
        Box::pin(async { Err(Error::Input("closed".to_owned())) })
    }
    fn event(&self, _: &Event) {}
}

#[tokio::test]
async fn a_tap_that_never_saw_a_run_begin_has_no_part_in_it() {
    let agent = Agent::builder(ScriptedModel::new([Turn::text("Done.")])).build().unwrap();
    let input = || RunInput::new("Go.").observer(Arc::new(Closed));
    assert_eq!(agent.invoke(input()).await.unwrap_err().to_string(), "closed");
    let mut run = agent.spawn_background("errand", State::new(agent.schema().clone()), input()).unwrap();
    assert_eq!(run.ended().await.unwrap().0.text(), "Done.");
}

/// JSON has no keys of this kind.
type Odd = BTreeMap<(u8, u8), u8>;
deepagents_core::last_value!(Places("places"): Odd);

struct Declares;
impl Middleware for Declares {
    fn name(&self) -> &str {
        "Declares"
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Places>()]
    }
}

#[tokio::test]
async fn an_input_that_a_tap_cannot_be_shown_leaves_no_trace_in_the_thread() {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([Turn::text("Done.")]);
    let agent = Agent::builder(model).middleware(Declares).journal(journal.clone()).build().unwrap();
    let update = Update::new::<Places>(Odd::from([((1, 2), 3)]));
    let input = RunInput::new("Go.").thread("t").update(update).observer(Arc::new(Closed));
    let error = agent.invoke(input).await.unwrap_err();
    assert_eq!(error.kind(), "state", "{error}");
    assert!(journal.threads().get("t").await.unwrap().is_none());
}
