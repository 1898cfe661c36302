//! Tools that middleware offers per request: they come and go during a thread.

use std::sync::{Arc, Mutex};

use deepagents_core::agent::Agent;
use deepagents_core::error::Result;
use deepagents_core::interrupt::{ActionRequest, ActionRequestChange, ActionRequests, Decision};
use deepagents_core::journal::{Journal, MemoryJournal, Record};
use deepagents_core::middleware::{HookOutput, Middleware, ToolNext, ToolRequest, ToolResponse, offered_tools};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::{Context, FinishReason, RunInput};
use deepagents_core::state::State;
use deepagents_core::tool::{DynTool, Effect, Tool, ToolContext, ToolError, ToolOutput, ToolSet, json_tool};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{Notes, assert_sound, echo, lines, records, tool};

/// A server whose tools change.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<ToolSet>>);

impl Server {
    fn with(tools: impl IntoIterator<Item = Arc<dyn DynTool>>) -> Self {
        let server = Self::default();
        server.set(tools);
        server
    }

    fn set(&self, tools: impl IntoIterator<Item = Arc<dyn DynTool>>) {
        *self.0.lock().unwrap() = ToolSet::new(tools).unwrap();
    }
}

impl Middleware for Server {
    fn name(&self) -> &str {
        "Server"
    }

    async fn offered_tools(&self, _cx: &Context) -> Result<Option<ToolSet>> {
        Ok(Some(self.0.lock().unwrap().clone()))
    }
}

fn named(name: &str) -> Arc<dyn DynTool> {
    let said = name.to_owned();
    Arc::new(tool(name, move |_, _| {
        let said = said.clone();
        async move { Ok(format!("{said} ran")) }
    }))
}

/// A tool, idempotent or not, that hangs until notified.
struct Hanging {
    idempotent: bool,
    began: Arc<Notify>,
    notes: Notes,
}

impl Tool for Hanging {
    type Args = Value;

    fn name(&self) -> &str {
        "hanging"
    }

    fn description(&self) -> &str {
        "Hangs."
    }

    fn idempotent(&self, _args: &Value) -> bool {
        self.idempotent
    }

    async fn call(&self, _args: Value, _cx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.notes.add("called");
        self.began.notify_one();
        if self.notes.list().len() == 1 {
            std::future::pending::<()>().await;
        }
        Ok("hung".into())
    }
}

fn names(request: &ModelRequest) -> Vec<&str> {
    request.tools.iter().map(|spec| spec.name.as_str()).collect()
}

#[tokio::test]
async fn offered_tools_are_called_and_sorted_like_fixed_ones() {
    let server = Server::with([named("zoom"), named("alpha")]);
    let model = ScriptedModel::new([
        Turn::calls([("alpha", json!({})), ("zoom", json!({})), ("echo", json!({"x": 1}))]),
        Turn::text("done"),
    ]);
    let requests = model.clone();
    let outcome = Agent::builder(model).tool(echo()).middleware(server).build().unwrap().invoke("go").await.unwrap();
    assert_eq!(
        lines(outcome.messages())[2..],
        ["result: alpha ran", "result: zoom ran", "result: {\"x\":1}", "assistant: done"]
    );
    assert_eq!(names(&requests.requests()[0]), ["alpha", "echo", "zoom"]);
}

#[tokio::test]
async fn an_added_tool_is_offered_from_the_next_request_and_a_removed_one_is_refused() {
    let server = Server::with([named("first")]);
    let changing = server.clone();
    let swap = tool("swap", move |_, _| {
        changing.set([named("second")]);
        async { Ok("swapped") }
    });
    let model = ScriptedModel::new([
        // The tools of a turn are those of the request that it answers.
        Turn::calls([("swap", json!({})), ("first", json!({}))]),
        Turn::calls([("first", json!({})), ("second", json!({})), ("third", json!({}))]),
        Turn::text("done"),
    ]);
    let requests = model.clone();
    let outcome = Agent::builder(model).tool(swap).middleware(server).build().unwrap().invoke("go").await.unwrap();
    assert_eq!(
        lines(outcome.messages())[2..],
        [
            "result: swapped",
            "result: first ran",
            "assistant: [first {}] [second {}] [third {}]",
            "error: Error: first is no longer a tool you have. Your tools are: second, swap.",
            "result: second ran",
            "error: Error: third is not a tool you have. Your tools are: second, swap.",
            "assistant: done"
        ]
    );
    assert_eq!(names(&requests.requests()[0]), ["first", "swap"]);
    assert_eq!(names(&requests.requests()[1]), ["second", "swap"]);
}

#[tokio::test]
async fn the_tool_list_sent_to_the_model_is_stable_while_the_tools_are() {
    /// Creates a new set for every request, like a client that lists the tools each time.
    struct Listing;
    impl Middleware for Listing {
        fn name(&self) -> &str {
            "Listing"
        }
        async fn offered_tools(&self, _cx: &Context) -> Result<Option<ToolSet>> {
            Ok(Some(ToolSet::new([named("b"), named("a")]).unwrap()))
        }
    }
    let model = ScriptedModel::new([Turn::call("a", json!({})), Turn::call("b", json!({})), Turn::text("done")]);
    let requests = model.clone();
    Agent::builder(model).middleware(Listing).build().unwrap().invoke("go").await.unwrap();
    let requests = requests.requests();
    for request in &requests[1..] {
        for (before, now) in requests[0].tools.iter().zip(&request.tools) {
            assert!(Arc::ptr_eq(before, now), "{} was made again", now.name);
        }
    }
}

#[tokio::test]
async fn writes_of_offered_tools_to_one_path_wait_for_each_other() {
    let notes = Notes::default();
    let writer = |name: &str| -> Arc<dyn DynTool> {
        let (notes, name) = (notes.clone(), name.to_owned());
        let call = {
            let name = name.clone();
            move |_: Value, _: ToolContext| {
                let (notes, name) = (notes.clone(), name.clone());
                async move {
                    notes.add(format!("{name} begins"));
                    tokio::task::yield_now().await;
                    notes.add(format!("{name} ends"));
                    Ok("wrote")
                }
            }
        };
        Arc::new(json_tool(name, "Writes.", json!({"type": "object"}), call).effect(Effect::write("/a")))
    };
    let model = ScriptedModel::new([Turn::calls([("w2", json!({})), ("w1", json!({}))]), Turn::text("done")]);
    let server = Server::with([writer("w1"), writer("w2")]);
    Agent::builder(model).middleware(server).build().unwrap().invoke("go").await.unwrap();
    assert_eq!(notes.list(), ["w2 begins", "w2 ends", "w1 begins", "w1 ends"]);
}

#[tokio::test]
async fn an_offered_tools_call_in_doubt_is_repeated_only_if_safe_and_still_offered() {
    for (idempotent, there, expected) in [
        (true, true, "result: hung"),
        (
            false,
            true,
            "error: The call of hanging was running when the process ended; whether it took effect is unknown.",
        ),
        (true, false, "error: Error: hanging is not a tool you have. Your tools are: other."),
    ] {
        let journal = Arc::new(MemoryJournal::new());
        let (began, notes) = (Arc::new(Notify::new()), Notes::default());
        let hanging: Arc<dyn DynTool> = Arc::new(Hanging { idempotent, began: began.clone(), notes: notes.clone() });
        let build = |turns: Vec<Turn>, tool: &Arc<dyn DynTool>| {
            let server = Server::with([tool.clone()]);
            Agent::builder(ScriptedModel::new(turns)).journal(journal.clone()).middleware(server).build().unwrap()
        };
        let run = build(vec![Turn::call("hanging", json!({}))], &hanging).run(RunInput::new("go").thread("t"));
        began.notified().await;
        journal.threads().copy("t", "killed", None).await.unwrap();
        drop(run);
        let offered = if there { hanging } else { named("other") };
        let outcome = build(vec![Turn::text("done")], &offered).resume("killed").outcome().await.unwrap();
        assert_sound(outcome.messages());
        assert_eq!(lines(outcome.messages())[2..], [expected, "assistant: done"]);
        let started = records(&*journal, "killed").await;
        let said =
            started.iter().any(|r| matches!(r, Record::ToolStarted { repeatable, .. } if *repeatable == idempotent));
        assert!(said);
    }
}

#[tokio::test]
async fn an_offered_return_direct_tool_ends_the_run() {
    let answer = json_tool("answer", "Answers.", json!({"type": "object"}), |_, _| async { Ok("42") }).return_direct();
    let server = Server::with([Arc::new(answer) as Arc<dyn DynTool>]);
    let model = ScriptedModel::new([Turn::call("answer", json!({}))]);
    let outcome = Agent::builder(model).middleware(server).build().unwrap().invoke("go").await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.text().as_str()), (FinishReason::ReturnDirect, "42"));
}

/// Requires approval of every call of one tool.
struct Gate(&'static str);

impl Middleware for Gate {
    fn name(&self) -> &str {
        "Gate"
    }

    async fn after_model(&self, cx: &Context) -> Result<HookOutput> {
        let gated = cx.open_calls().into_iter().filter(|(_, call)| call.name == self.0 && cx.tool(self.0).is_some());
        let ask = gated.map(|(id, call)| ActionRequest::about(&id, call.name, call.args, "1970-01-01T00:00:00Z"));
        let changes: Vec<_> = ask.map(|question| ActionRequestChange::Request(Box::new(question))).collect();
        Ok(if changes.is_empty() { HookOutput::next() } else { HookOutput::set::<ActionRequests>(changes) })
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        next.run(request).await
    }
}

#[tokio::test]
async fn an_offered_tool_can_be_approved_and_called_in_another_process() {
    let journal = Arc::new(MemoryJournal::new());
    let build = |turns: Vec<Turn>| -> Agent {
        let server = Server::with([named("deploy")]);
        let builder = Agent::builder(ScriptedModel::new(turns)).journal(journal.clone());
        builder.middleware(server).middleware(Gate("deploy")).build().unwrap()
    };
    let outcome = build(vec![Turn::call("deploy", json!({}))]).invoke(RunInput::new("go").thread("t")).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Interrupted);
    let input = RunInput::resume("t").decide(outcome.action_requests()[0].id.clone(), Decision::Approve);
    let outcome = build(vec![Turn::text("done")]).invoke(input).await.unwrap();
    assert_eq!(lines(outcome.messages())[2..], ["result: deploy ran", "assistant: done"]);
}

#[tokio::test]
async fn a_sub_agent_has_the_tools_offered_by_its_own_middlewares() {
    let child = Agent::builder(ScriptedModel::new([Turn::call("inner", json!({})), Turn::text("found")]))
        .middleware(Server::with([named("inner")]))
        .build()
        .unwrap();
    let task = tool("task", move |_, cx| {
        let child = child.clone();
        async move {
            let ended = cx.run_child(&child, "task", State::new(child.schema().clone()), "do it").await?;
            Ok(lines(ended.result?.messages()).join("; "))
        }
    });
    let model = ScriptedModel::new([Turn::call("task", json!({})), Turn::call("inner", json!({})), Turn::text("done")]);
    let outcome = Agent::builder(model).tool(task).build().unwrap().invoke("go").await.unwrap();
    let lines = lines(outcome.messages());
    assert!(lines[2].contains("result: inner ran"), "{lines:?}");
    assert_eq!(lines[4], "error: Error: inner is not a tool you have. Your tools are: task.");
}

#[tokio::test]
async fn a_closure_can_offer_tools_depending_on_the_conversation() {
    let bell = ToolSet::new([named("ring")]).unwrap();
    let offers = offered_tools(move |cx: Context| {
        let offer = cx.messages().iter().any(|message| message.text().contains("bell")).then(|| bell.clone());
        async move { Ok(offer) }
    });
    let model = ScriptedModel::new([Turn::text("no"), Turn::call("ring", json!({})), Turn::text("done")]);
    let requests = model.clone();
    let agent = Agent::builder(model).middleware(offers).journal(MemoryJournal::new()).build().unwrap();
    agent.invoke(RunInput::new("hello").thread("t")).await.unwrap();
    let outcome = agent.invoke(RunInput::new("the bell").thread("t")).await.unwrap();
    assert_eq!(lines(outcome.messages())[4], "result: ring ran");
    let offered: Vec<usize> = requests.requests().iter().map(|request| request.tools.len()).collect();
    assert_eq!(offered, [0, 1, 1]);
}

#[tokio::test]
async fn an_offered_tool_with_a_taken_name_ends_the_run_with_an_error_naming_it() {
    let build = |server| {
        Agent::builder(ScriptedModel::new([Turn::text("no")])).tool(echo()).middleware(server).build().unwrap()
    };
    let failed = build(Server::with([named("echo")])).invoke("go").await.unwrap_err();
    assert_eq!(failed.kind(), "input");
    assert!(failed.to_string().contains("two tools are named `echo`"), "{failed}");
    let twice = ToolSet::new([named("a"), named("a")]).unwrap_err();
    assert_eq!(twice.to_string(), "two tools are named `a`; rename one or leave it out");
    assert!(ToolSet::new([named("not a name")]).is_err());
}
