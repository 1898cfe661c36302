//! Background agents, in child threads of the run that started them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::agent::{Agent, AgentDefinition, BackgroundError, BackgroundTask, NewTask, ThreadAccess};
use deepagents_core::error::{Error, Result};
use deepagents_core::event::Subscribe;
use deepagents_core::interrupt::{ActionRequest, Decision, DecisionKind};
use deepagents_core::journal::{Claim, Journal, MemoryJournal, RunStatus};
use deepagents_core::middleware::{Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest};
use deepagents_core::run::{FinishReason, ModelCall, Outcome, RunInput, RunObserver, RunStart};
use deepagents_core::state::{ChannelSpec, State, Update};
use deepagents_core::tool::{DynTool, ToolError};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{Notes, tool};

/// An agent that delegates to the background and owns the threads of its background agents.
pub(crate) struct Delegates(pub(crate) Agent);

impl Middleware for Delegates {
    fn name(&self) -> &str {
        "Delegates"
    }

    fn background_agent(&self, name: &str, _state: &State) -> Option<Arc<AgentDefinition>> {
        (name == "errands").then(|| self.0.definition().clone())
    }
}

/// An agent that starts `below` in the background as `errand` and returns what `check` finds.
fn starting(below: &Agent, journal: &Arc<MemoryJournal>, check: impl DynTool) -> Agent {
    let agent = below.clone();
    let start = tool("start", move |_, cx| {
        let agent = agent.clone();
        async move {
            let state = cx.state().fork(agent.schema().clone())?;
            let (id, name, input) = ("errand".to_owned(), "errands".to_owned(), RunInput::new("Send both."));
            let started = cx.background().start(NewTask { id, name, agent, state, input }, 1);
            started.map_err(ToolError::fatal)?.snapshot().await;
            Ok("started")
        }
    });
    let model = ScriptedModel::new([
        Turn::call("start", json!({})),
        Turn::text("Started."),
        Turn::call("check", json!({})),
        Turn::text("Done."),
    ]);
    let middleware = Delegates(below.clone());
    Agent::builder(model).middleware(middleware).tool(start).tool(check).journal(journal.clone()).build().unwrap()
}

fn nothing() -> impl DynTool {
    tool("check", |_, _cx| async { Ok("nothing") })
}

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
    Agent::builder(model).name("errands").tool(send).build().unwrap()
}

/// Starts the task of thread `t`, and waits until it is interrupted.
async fn waiting(agent: &Agent) -> (BackgroundTask, Outcome) {
    agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let task = agent.background("t").await.unwrap().pop().unwrap();
    let outcome = task.outcome().await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.thread.as_deref()), (FinishReason::Interrupted, Some("t/errand")));
    (task.refresh().await.unwrap(), outcome)
}

#[tokio::test]
async fn a_background_agent_waits_on_its_own_thread_and_a_host_can_answer_it() {
    let (notes, journal) = (Notes::default(), Arc::new(MemoryJournal::new()));
    let agent = starting(&sends(&notes), &journal, nothing());
    let (task, waits) = waiting(&agent).await;
    assert_eq!((task.id.as_str(), task.agent.as_str(), task.status), ("errand", "errands", RunStatus::Interrupted));
    let ids: Vec<String> = waits.action_requests().into_iter().map(|question| question.id).collect();
    assert_eq!(ids, ["errand/0.0?0", "errand/0.1?0"]);
    // Another process, which has only the definition and the journal.
    let agent = starting(&sends(&notes), &journal, nothing());
    let resume = || RunInput::resume("t/errand");
    let wrong = resume().decide(&ids[0], Decision::Respond { message: "x".to_owned() });
    let wrong = agent.invoke(wrong).await.unwrap_err();
    assert!(wrong.to_string().contains("cannot be answered with respond"), "{wrong}");
    // With one of two answers, it waits for the other.
    let waits = agent.invoke(resume().decide(&ids[1], Decision::Approve)).await.unwrap();
    assert_eq!(waits.action_requests().len(), 1);
    let run = agent.run(resume().decide(&ids[0], Decision::Reject { message: None })).detach();
    let task = agent.background("t").await.unwrap().pop().unwrap();
    task.steer("And thanks.").unwrap();
    let (mut events, mut paths) = (task.subscribe(Subscribe::Start).unwrap(), Vec::new());
    while let Some(event) = events.next().await {
        paths.push(event.path.to_vec());
    }
    assert!(paths.iter().skip(1).all(|path| path[..] == ["errand".to_owned()]), "{paths:?}");
    let outcome = run.outcome().await.unwrap();
    // The scripted model of this process starts from its beginning, where the calls come first.
    assert_eq!(outcome.stop, FinishReason::Interrupted);
    assert_eq!(notes.list(), ["approve 2", "reject 1"]);
}

#[tokio::test]
async fn threads_opened_with_or_without_an_agent_tell_how_a_background_agent_ended() {
    let (notes, journal) = (Notes::default(), Arc::new(MemoryJournal::new()));
    let agent = starting(&sends(&notes), &journal, nothing());
    waiting(&agent).await;
    let without = ThreadAccess::new(journal.clone(), State::default().schema().clone());
    for (threads, questions) in [(agent.threads().unwrap(), 2), (without, 0)] {
        let task = threads.background("t").await.unwrap().pop().unwrap();
        let outcome = task.outcome().await.unwrap();
        assert_eq!((outcome.stop.clone(), outcome.messages().len()), (FinishReason::Interrupted, 2));
        // The questions are in a channel that only agents have.
        assert_eq!(outcome.action_requests().len(), questions);
    }
}

#[tokio::test]
async fn questions_of_other_agents_are_asked_together_and_answered_in_order() {
    let (notes, journal) = (Notes::default(), Arc::new(MemoryJournal::new()));
    let noted = notes.clone();
    let below = sends(&notes);
    let schema = below.schema().clone();
    let check = tool("check", move |_: Value, cx| {
        let (noted, schema) = (noted.clone(), schema.clone());
        async move {
            let task = cx.background().get("errand").await?.unwrap();
            let open = task.report(schema, None).await?.action_requests;
            let decisions = cx.interrupt_for(&open)?;
            noted.add(decisions.iter().map(|d| d.kind().as_str()).collect::<Vec<_>>().join(" "));
            Ok("passed on")
        }
    });
    let agent = starting(&below, &journal, check);
    waiting(&agent).await;
    let waits = agent.invoke(RunInput::new("Check.").thread("t")).await.unwrap();
    let asked: Vec<ActionRequest> = waits.action_requests();
    let told: Vec<_> = asked.iter().map(|q| (q.tool.as_str(), q.args["n"].clone(), q.text.as_str())).collect();
    assert_eq!(told, [("send", json!(1), "Send?"), ("send", json!(2), "Send?")]);
    let reject = Decision::Reject { message: None };
    let input = RunInput::resume("t").decide(&asked[1].id, reject).decide(&asked[0].id, Decision::Approve);
    assert_eq!(agent.invoke(input).await.unwrap().text(), "Done.");
    assert_eq!(notes.list(), ["approve reject"]);
}

#[tokio::test]
async fn a_message_sent_as_a_run_starts_waiting_is_delivered_by_whoever_resumes_it() {
    let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let build = |journal: &Arc<MemoryJournal>| {
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
        let said = |request: &ModelRequest| match request.messages.len() {
            1 => Turn::call("send", json!({})),
            _ => Turn::text(format!("Heard: {}", request.messages.last().unwrap().text())),
        };
        let model = ScriptedModel::rules().always(Turn::with(said)).build();
        Agent::builder(model).tool(send).journal(journal.clone()).build().unwrap()
    };
    let journal = Arc::new(MemoryJournal::new());
    let run = build(&journal).run(RunInput::new("Send it.").thread("t")).detach();
    began.notified().await;
    assert!(run.steer("To Ada."));
    go.notify_one();
    let waits = run.outcome().await.unwrap();
    assert!(!run.steer("Too late."));
    go.notify_one();
    let input = RunInput::resume("t").decide(&waits.action_requests()[0].id, Decision::Approve);
    let outcome = build(&journal).invoke(input).await.unwrap();
    assert_eq!(outcome.text(), "Heard: To Ada.");
    assert_eq!(outcome.messages().iter().filter(|message| message.text() == "To Ada.").count(), 1);
}

#[tokio::test]
async fn an_idle_task_can_be_cancelled_and_one_owned_by_another_process_cannot() {
    let (notes, journal) = (Notes::default(), Arc::new(MemoryJournal::new()));
    let agent = starting(&sends(&notes), &journal, nothing());
    let (task, _) = waiting(&agent).await;
    let fence = journal.claim("t/errand", Claim::new("somebody", Duration::from_secs(60))).await.unwrap();
    let other = starting(&sends(&notes), &journal, nothing());
    let theirs = other.background("t").await.unwrap().pop().unwrap();
    let refused = theirs.cancel().await.unwrap_err();
    assert!(matches!(&refused, BackgroundError::Elsewhere { owner, .. } if owner == "somebody"), "{refused}");
    assert!(theirs.steer("x").unwrap_err().to_string().contains("somebody"));
    journal.release("t/errand", fence).await.unwrap();
    task.cancel().await.unwrap();
    assert_eq!(theirs.outcome().await.unwrap().stop, FinishReason::Cancelled);
    task.cancel().await.unwrap();
    assert_eq!(task.refresh().await.unwrap().status, RunStatus::Ended);
}

/// Blocks everything.
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
}

#[tokio::test]
async fn an_observer_that_failed_to_start_takes_no_part_in_the_run() {
    let agent = Agent::builder(ScriptedModel::new([Turn::text("Done.")])).build().unwrap();
    let input = || RunInput::new("Go.").observer(Arc::new(Closed));
    assert_eq!(agent.invoke(input()).await.unwrap_err().to_string(), "closed");
    let (below, journal) = (agent, Arc::new(MemoryJournal::new()));
    let agent = starting(&below, &journal, nothing());
    let started = agent.invoke(RunInput::new("Go.").thread("t").observer(Arc::new(Sees))).await.unwrap();
    assert_eq!(started.text(), "Started.");
    let task = agent.background("t").await.unwrap().pop().unwrap();
    assert_eq!(task.outcome().await.unwrap().text(), "Done.");
}

/// Passes everything on.
struct Sees;
impl RunObserver for Sees {
    fn model(
        self: Arc<Self>,
        call: ModelCall,
        model: &Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        assert!(call.path.is_empty(), "only what is part of the run is seen");
        model.stream(request)
    }
}

/// JSON has no keys of this type.
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
async fn an_input_that_an_observer_cannot_be_shown_leaves_no_trace_in_the_thread() {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([Turn::text("Done.")]);
    let agent = Agent::builder(model).middleware(Declares).journal(journal.clone()).build().unwrap();
    let update = Update::new::<Places>(Odd::from([((1, 2), 3)]));
    let input = RunInput::new("Go.").thread("t").update(update).observer(Arc::new(Closed));
    let error = agent.invoke(input).await.unwrap_err();
    assert_eq!(error.kind(), "state", "{error}");
    assert!(journal.threads().get("t").await.unwrap().is_none());
}
