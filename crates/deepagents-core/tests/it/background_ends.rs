//! How background agents end, and what they have cost, when something fails around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deepagents_core::agent::{Agent, NewTask};
use deepagents_core::env::RandomIds;
use deepagents_core::event::{Event, EventKind, Subscribe};
use deepagents_core::forward_journal;
use deepagents_core::journal::{
    Appended, Claim, Fence, Journal, JournalError, LogPosition, MemoryJournal, Record, ThreadUsage,
};
use deepagents_core::message::Usage;
use deepagents_core::model::ModelRequest;
use deepagents_core::run::{RunHandle, RunInput, RunObserver};
use deepagents_core::tool::{DynTool, ToolContext, ToolError};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::future::BoxFuture;
use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::{Notify, oneshot};

use crate::beside::Delegates;
use crate::support::{Notes, echo, tool, watch};

/// Starts an agent in the background as `errand`.
fn start(below: &Agent, cx: &ToolContext) -> Result<RunHandle, ToolError> {
    let state = cx.state().fork(below.schema().clone())?;
    let (id, name, input) = ("errand".to_owned(), "errands".to_owned(), RunInput::new("Do it."));
    cx.background().start(NewTask { id, name, agent: below.clone(), state, input }, 1).map_err(ToolError::fatal)
}

/// An agent whose first call starts a background agent and waits for its end.
fn waiting_for(below: &Agent, journal: impl Journal) -> Agent {
    let started = below.clone();
    let run = tool("run", move |_, cx| {
        let run = start(&started, &cx);
        async move {
            let ended = run?.outcome().await;
            Ok(ended.map_or_else(|error| error.to_string(), |outcome| outcome.text()))
        }
    });
    delegating(below, run, Turn::text("Done.")).journal(journal).build().unwrap()
}

fn delegating(below: &Agent, run: impl DynTool, then: Turn) -> deepagents_core::agent::AgentBuilder {
    let model = ScriptedModel::new([Turn::call("run", json!({})).usage(using(100)), then, Turn::text("Done.")]);
    Agent::builder(model).ids(RandomIds).middleware(Delegates(below.clone())).tool(run)
}

fn using(input: u64) -> Usage {
    Usage { input, ..Usage::default() }
}

fn below(tool: impl DynTool) -> Agent {
    let name = tool.spec().name.clone();
    let model =
        ScriptedModel::new([Turn::call(name, json!({})).usage(using(10)), Turn::text("Found.").usage(using(20))]);
    Agent::builder(model).ids(RandomIds).name("errands").tool(tool).build().unwrap()
}

/// A tool that starts an agent in the background, waits for the task, and notes its answer.
fn asking(below: &Agent, notes: &Notes) -> impl DynTool {
    let (below, notes) = (below.clone(), notes.clone());
    tool("run", move |_, cx| {
        let (run, notes) = (start(&below, &cx), notes.clone());
        async move {
            run?.snapshot().await;
            let task = cx.background().get("errand").await?.unwrap();
            let ended = task.outcome().await;
            notes.add(ended.map_or_else(|error| error.to_string(), |outcome| outcome.text()));
            Ok("noted")
        }
    })
}

#[tokio::test]
async fn a_background_agent_learns_the_outcome_of_one_that_it_started() {
    let notes = Notes::default();
    let inner = Agent::builder(ScriptedModel::new([Turn::text("Found.")])).ids(RandomIds).name("errands");
    let inner = inner.build().unwrap();
    let middle = delegating(&inner, asking(&inner, &notes), Turn::text("It was found.")).name("errands");
    let middle = middle.build().unwrap();
    let outer = delegating(&middle, asking(&middle, &notes), Turn::text("Done.")).journal(MemoryJournal::new());
    outer.build().unwrap().invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(notes.list(), ["Found.", "It was found."]);
}

/// Panics once, at the end of a child agent's call.
#[derive(Default)]
struct PanicsBelow(AtomicBool);

impl RunObserver for PanicsBelow {
    fn event(&self, event: &Event) {
        let ends = matches!(event.kind, EventKind::ToolFinished { .. }) && !event.path.is_empty();
        assert!(!ends || self.0.swap(true, Ordering::Relaxed), "it has seen enough");
    }
}

#[tokio::test(start_paused = true)]
async fn a_background_agents_reader_sees_its_end_even_if_a_parent_observer_panics() {
    let (notes, go) = (Notes::default(), Arc::new(Notify::new()));
    let may = go.clone();
    let below = below(tool("wait", move |_, _| {
        let may = may.clone();
        async move {
            may.notified().await;
            Ok("waited")
        }
    }));
    let (noted, started) = (notes.clone(), below.clone());
    let run = tool("run", move |_, cx| {
        let (run, go, noted) = (start(&started, &cx), go.clone(), noted.clone());
        async move {
            let mut events = run?.subscribe(Subscribe::Start);
            let (tell, told) = oneshot::channel();
            let reader = tokio::spawn(async move {
                let (mut tell, mut last) = (Some(tell), None);
                while let Some(event) = events.next().await {
                    if matches!(event.kind, EventKind::ToolStarted { .. }) {
                        tell.take().unwrap().send(()).unwrap();
                    }
                    last = Some(event.kind);
                }
                last
            });
            // By then, the reader has caught up and waits.
            told.await.unwrap();
            go.notify_one();
            let last = tokio::time::timeout(Duration::from_secs(60), reader).await;
            noted.add(if matches!(last, Ok(Ok(Some(kind))) if kind.is_end()) { "told" } else { "not told" });
            Ok("read")
        }
    });
    let agent = delegating(&below, run, Turn::text("Done.")).journal(MemoryJournal::new()).build().unwrap();
    let observer = Arc::new(PanicsBelow::default());
    agent.invoke(RunInput::new("Go.").thread("t").observer(observer.clone())).await.unwrap();
    assert!(observer.0.load(Ordering::Relaxed));
    assert_eq!(notes.list(), ["told"]);
}

#[tokio::test]
async fn a_background_agent_that_cannot_start_fails_under_its_own_path() {
    let journal = MemoryJournal::new();
    journal.claim("t/errand", Claim::new("somebody", Duration::from_secs(60))).await.unwrap();
    let agent = waiting_for(&below(echo()), journal);
    let (events, outcome) = watch(agent.run(RunInput::new("Go.").thread("t"))).await;
    assert_eq!(outcome.unwrap().text(), "Done.");
    let failed = |event: &&Event| matches!(event.kind, EventKind::AgentFailed { .. });
    let paths: Vec<_> = events.iter().filter(failed).map(|event| event.path.to_vec()).collect();
    assert_eq!(paths, [["errand"]]);
}

/// A journal that accepts one append to child threads and then becomes unavailable.
struct AwayBelow {
    inner: MemoryJournal,
    appends: AtomicUsize,
}

impl Journal for AwayBelow {
    forward_journal!([.inner]; claim, renew, release, load, read, put_snapshot, threads);

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        if thread.contains('/') && self.appends.fetch_add(1, Ordering::Relaxed) > 0 {
            return Box::pin(async { Err(JournalError::Unavailable { source: "the connection was lost".into() }) });
        }
        self.inner.append(thread, fence, expected, records)
    }
}

#[tokio::test(start_paused = true)]
async fn a_thread_left_open_stores_no_failure_reason() {
    let journal = Arc::new(AwayBelow { inner: MemoryJournal::new(), appends: AtomicUsize::new(0) });
    let agent = waiting_for(&below(echo()), journal.clone());
    let outcome = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let told = outcome.messages().iter().any(|message| message.text().contains("the connection was lost"));
    assert!(told, "{:?}", outcome.messages());
    let thread = journal.threads().get("t/errand").await.unwrap().unwrap();
    assert!(!thread.metadata.contains_key("error"), "{:?}", thread.metadata);
}

#[tokio::test]
async fn background_usage_is_counted_only_in_the_background_threads() {
    let (journal, below) = (Arc::new(MemoryJournal::new()), below(echo()));
    let started = below.clone();
    let run = tool("run", move |_, cx| {
        let (run, schema) = (start(&started, &cx), started.schema().clone());
        async move {
            run?.outcome().await.unwrap();
            let task = cx.background().get("errand").await?.unwrap();
            let spent = task.report(schema, None).await?.spent;
            cx.background().count(&task, &spent);
            let model = Arc::new(ScriptedModel::new([Turn::text("Yes.").usage(using(3_000))])) as _;
            cx.context().invoke_model(&model, ModelRequest::new("Meanwhile?")).await?;
            Ok("counted")
        }
    });
    let agent = delegating(&below, run, Turn::text("Done.").usage(using(200)));
    let agent = agent.journal(journal.clone()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(outcome.spent.usage, using(3_330));
    let threads = agent.threads().unwrap();
    let used = async |thread| threads.usage(thread, ThreadUsage::default()).await.unwrap();
    let (own, task) = (used("t").await, used("t/errand").await);
    assert_eq!((own.total(), own.outside_conversations(), task.total()), (using(3_300), using(3_000), using(30)));
}

/// A value that can be counted for as long as a state holds it.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Held {
    #[serde(skip, default = "held")]
    _token: Arc<()>,
}

impl Default for Held {
    fn default() -> Self {
        Self { _token: held() }
    }
}

fn held() -> Arc<()> {
    static HELD: std::sync::LazyLock<Arc<()>> = std::sync::LazyLock::new(Arc::default);
    HELD.clone()
}

deepagents_core::last_value!(Holding("holding"): Held => private);

#[tokio::test]
async fn an_agent_keeps_nothing_of_the_ended_runs_of_its_child_threads() {
    let model = ScriptedModel::new([Turn::text("One."), Turn::text("Two.")]);
    let agent = Agent::builder(model).channel::<Holding>().journal(MemoryJournal::new()).build().unwrap();
    for input in [RunInput::new("Go.").thread("parent/one"), RunInput::new("Go.").thread("parent/two").id("run_2")] {
        let outcome = agent.run(input).outcome().await.unwrap();
        assert!(Arc::strong_count(&held()) > 2);
        drop(outcome);
        assert_eq!(Arc::strong_count(&held()), 2, "only the token itself and this copy are left");
    }
}

#[tokio::test]
async fn a_limit_per_agent_applies_to_background_agents_unless_their_own_is_lower() {
    for (own, calls) in [(100, 3), (2, 2)] {
        let model = ScriptedModel::rules().always(Turn::call("echo", json!({}))).build();
        let below = Agent::builder(model.clone()).ids(RandomIds).name("errands").tool(echo()).max_model_calls(own);
        let agent = waiting_for(&below.build().unwrap(), MemoryJournal::new());
        agent.invoke(RunInput::new("Go.").thread("t").max_calls_per_agent(3)).await.unwrap();
        assert_eq!(model.requests().len(), calls);
    }
}
