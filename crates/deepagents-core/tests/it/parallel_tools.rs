//! The calls of a turn run in parallel where possible, and in order where necessary.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deepagents_core::event::EventKind;
use deepagents_core::last_value;
use deepagents_core::message::Message;
use deepagents_core::middleware::Middleware;
use deepagents_core::state::{ChannelSpec, Update};
use deepagents_core::tool::{DynTool, Effect, Tool, ToolContext, ToolError, ToolOutput, json_tool};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};
use tokio::sync::{Barrier, oneshot};

use crate::support::{Notes, agent, assert_sound, lines, tool, watch};

/// Long enough for any machine. Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A tool whose calls must all be in flight before any of them finishes.
fn meeting(name: &str, effect: Effect, barrier: Arc<Barrier>) -> impl DynTool {
    json_tool(name, "Meets.", json!({"type": "object"}), move |args: Value, _cx| {
        let barrier = barrier.clone();
        async move {
            tokio::time::timeout(PATIENCE, barrier.wait()).await.map_err(|_| ToolError::model("nobody came"))?;
            Ok(args["n"].to_string())
        }
    })
    .effect(effect)
}

fn numbered(name: &'static str, count: u64) -> Turn {
    Turn::calls((1..=count).map(|n| (name, json!({"n": n}))))
}

async fn results(model: ScriptedModel, tools: Vec<Arc<dyn DynTool>>) -> Vec<String> {
    let builder = tools.into_iter().fold(agent(model), |builder, tool| builder.tool(tool));
    let outcome = builder.build().unwrap().invoke("go").await.unwrap();
    assert_sound(outcome.messages());
    lines(outcome.messages()).into_iter().filter(|l| l.starts_with("result") || l.starts_with("error")).collect()
}

#[tokio::test]
async fn reads_and_external_calls_of_one_turn_run_concurrently() {
    let barrier = Arc::new(Barrier::new(4));
    let turn = Turn::calls([
        ("look", json!({"n": 1})),
        ("ask", json!({"n": 2})),
        ("look", json!({"n": 3})),
        ("ask", json!({"n": 4})),
    ]);
    let tools: Vec<Arc<dyn DynTool>> = vec![
        Arc::new(meeting("look", Effect::Read, barrier.clone())),
        Arc::new(meeting("ask", Effect::External, barrier)),
    ];
    let results = results(ScriptedModel::new([turn, Turn::text("done")]), tools).await;
    assert_eq!(results, ["result: 1", "result: 2", "result: 3", "result: 4"]);
}

/// Writes to its path, once all concurrent writers have arrived.
struct WriteTo(Arc<Barrier>);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct WriteArgs {
    path: String,
    n: u32,
}

impl Tool for WriteTo {
    type Args = WriteArgs;
    fn name(&self) -> &str {
        "write"
    }
    fn description(&self) -> &str {
        "Writes."
    }
    fn effect(&self, args: &WriteArgs) -> Effect {
        Effect::write(&args.path)
    }
    async fn call(&self, args: WriteArgs, _cx: ToolContext) -> Result<ToolOutput, ToolError> {
        tokio::time::timeout(PATIENCE, self.0.wait()).await.map_err(|_| ToolError::model("nobody came"))?;
        Ok(args.n.to_string().into())
    }
}

#[tokio::test]
async fn writes_to_different_paths_run_concurrently() {
    let turn = Turn::calls([("write", json!({"path": "/a", "n": 1})), ("write", json!({"path": "/ab", "n": 2}))]);
    let tools: Vec<Arc<dyn DynTool>> = vec![Arc::new(WriteTo(Arc::new(Barrier::new(2))))];
    assert_eq!(results(ScriptedModel::new([turn, Turn::text("done")]), tools).await, ["result: 1", "result: 2"]);
}

last_value!(Page("page"): String);

/// Appends to the page and records its previous content. Must never run concurrently with itself.
struct Append {
    paths: fn(u32) -> Effect,
    running: AtomicUsize,
    notes: Notes,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbered {
    n: u32,
}

impl Tool for Append {
    type Args = Numbered;
    fn name(&self) -> &str {
        "append"
    }
    fn description(&self) -> &str {
        "Appends."
    }
    fn effect(&self, args: &Numbered) -> Effect {
        (self.paths)(args.n)
    }
    async fn call(&self, args: Numbered, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        assert_eq!(self.running.fetch_add(1, Ordering::SeqCst), 0, "another write is under way");
        // Gives a wrongly started sibling the chance to run.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let page = cx.get::<Page>();
        self.notes.add(format!("{} finds `{page}`", args.n));
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(ToolOutput::text("ok").with_update(Update::new::<Page>(format!("{page}{}", args.n))))
    }
}

/// Declares the page as a channel that several calls of a turn may change.
struct Pages;
impl Middleware for Pages {
    fn name(&self) -> &str {
        "Pages"
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Page>()]
    }
}

async fn appended(paths: fn(u32) -> Effect, calls: u64) -> Vec<String> {
    let notes = Notes::default();
    let append = Append { paths, running: AtomicUsize::new(0), notes: notes.clone() };
    let agent = agent(ScriptedModel::new([numbered("append", calls), Turn::text("done")]))
        .middleware(Pages)
        .tool(append)
        .build()
        .unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_sound(outcome.messages());
    notes.list()
}

#[tokio::test]
async fn writes_to_one_path_run_in_call_order_and_see_each_others_updates() {
    assert_eq!(appended(|_| Effect::write("/p"), 2).await, ["1 finds ``", "2 finds `1`"]);
}

#[tokio::test]
async fn nested_writes_and_writes_without_a_path_wait_for_each_other_too() {
    let nested = |n: u32| Effect::write(if n == 1 { "/dir/file" } else { "/dir" });
    assert_eq!(appended(nested, 2).await, ["1 finds ``", "2 finds `1`"]);
    let unknown = |n: u32| if n == 1 { Effect::Write { paths: vec![] } } else { Effect::write("/p") };
    assert_eq!(appended(unknown, 2).await, ["1 finds ``", "2 finds `1`"]);
}

#[tokio::test]
async fn results_are_stored_in_call_order_and_reported_in_finishing_order() {
    let (first_may_end, wait) = oneshot::channel::<()>();
    let gates = Arc::new(std::sync::Mutex::new((Some(first_may_end), Some(wait))));
    let work = tool("work", move |args, _cx| {
        let gates = gates.clone();
        async move {
            if args["n"] == 1 {
                let wait = gates.lock().unwrap().1.take().unwrap();
                wait.await.map_err(|_| ToolError::model("the second call never came"))?;
            } else {
                gates.lock().unwrap().0.take().unwrap().send(()).unwrap();
            }
            Ok(args["n"].to_string())
        }
    });
    let agent = agent(ScriptedModel::new([numbered("work", 2), Turn::text("done")])).tool(work).build().unwrap();
    let (events, outcome) = watch(agent.run("go")).await;
    assert_eq!(lines(outcome.unwrap().messages())[2..4], ["result: 1", "result: 2"]);
    let told: Vec<String> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ToolFinished { text, .. } => Some(text.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["2", "1"]);
}

#[tokio::test]
async fn messages_added_by_tools_follow_all_results_in_call_order() {
    let work = tool("work", |args, _cx| async move {
        let said = Update::message(Message::harness(format!("beside {}", args["n"])));
        Ok(ToolOutput::text(args["n"].to_string()).with_update(said))
    });
    let agent = agent(ScriptedModel::new([numbered("work", 3), Turn::text("done")])).tool(work).build().unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!(
        lines(outcome.messages())[2..8],
        ["result: 1", "result: 2", "result: 3", "user: beside 1", "user: beside 2", "user: beside 3"]
    );
}

#[tokio::test]
async fn a_hundred_calls_in_one_turn_all_get_their_results() {
    let barrier = Arc::new(Barrier::new(100));
    let tools: Vec<Arc<dyn DynTool>> = vec![Arc::new(meeting("ask", Effect::External, barrier))];
    let results = results(ScriptedModel::new([numbered("ask", 100), Turn::text("done")]), tools).await;
    let expected: Vec<String> = (1..=100).map(|n| format!("result: {n}")).collect();
    assert_eq!(results, expected);
}
