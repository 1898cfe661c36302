//! Run handles: steering from several places, suspending, querying.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::env::RandomIds;
use deepagents_core::error::{Error, Result};
use deepagents_core::event::{Event, EventKind, Subscribe};
use deepagents_core::interrupt::{Decision, DecisionKind};
use deepagents_core::journal::{Journal, MemoryJournal, Record, RunStatus};
use deepagents_core::message::{AssistantMessage, Block};
use deepagents_core::middleware::{ToolNext, ToolRequest, ToolResponse};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelOutput, ModelProfile, ModelRequest, StopReason};
use deepagents_core::run::{
    Context, FinishReason, ModelCall, Outcome, Run, RunError, RunHandle, RunInput, RunObserver, RunStart,
};
use deepagents_core::state::State;
use deepagents_core::tool::{DynTool, Effect, ToolContext, json_tool};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::{Notify, mpsc};

use crate::support::{Notes, agent, assert_sound, echo, lines, records, tool, until, watch};

#[test]
fn agents_runs_and_their_results_may_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Agent>();
    shared::<Run>();
    shared::<RunHandle>();
    shared::<Context>();
    shared::<Outcome>();
    shared::<RunError>();
}

/// A tool that ends when notified, once per call.
fn slow(go: &Arc<Notify>, calls: &Notes) -> impl DynTool {
    let (go, calls) = (go.clone(), calls.clone());
    tool("slow", move |args, _| {
        let (go, calls) = (go.clone(), calls.clone());
        async move {
            calls.add(args.to_string());
            go.notified().await;
            Ok("at last")
        }
    })
}

/// A tool that reports progress and never ends.
fn noisy() -> impl DynTool {
    tool("noisy", |_, cx| async move {
        cx.progress("3 of 9\n");
        std::future::pending::<()>().await;
        Ok("never")
    })
}

/// The result for the model after the process ended during the call.
const LEFT: &str = "The call of noisy was running when the process ended; whether it took effect is unknown. \
                    Its output before then:\n3 of 9";

/// Calls its tool first, and finishes once it has the result.
fn once(name: &'static str) -> ScriptedModel {
    ScriptedModel::rules()
        .always(Turn::with(move |request| match request.messages.last().unwrap().as_user() {
            Some(_) => Turn::call(name, json!({})),
            None => Turn::text("done"),
        }))
        .build()
}

fn task(child: Agent) -> impl DynTool {
    let call = move |_, cx: ToolContext| {
        let child = child.clone();
        async move {
            let state = State::new(child.schema().clone());
            let done = cx.run_child(&child, "task", state, "do it").await?;
            let outcome = done.result?;
            Ok(format!("{}: {}", outcome.stop.reason(), outcome.text()))
        }
    };
    // The work of a subagent is not repeated, so the call may be.
    json_tool("task", "A tool.", json!({"type": "object"}), call).effect(Effect::Read)
}

#[tokio::test]
async fn a_suspended_run_keeps_finished_work_and_continues_in_another_agent() {
    let (go, calls, journal) = (Arc::new(Notify::new()), Notes::default(), Arc::new(MemoryJournal::new()));
    // Two processes must not generate the same IDs.
    let build = || Agent::builder(once("slow")).tool(slow(&go, &calls)).journal(journal.clone()).build().unwrap();
    let mut run = build().run(RunInput::new("go").thread("t"));
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    run.handle().suspend();
    go.notify_one();
    let last = until(&mut run, EventKind::is_end).await;
    assert!(matches!(last.kind, EventKind::RunFinished { stop: FinishReason::Suspended, .. }), "{last:?}");
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Suspended);
    let info = journal.threads().get("t").await.unwrap().unwrap();
    assert_eq!((info.status, info.owner), (RunStatus::Open, None));
    assert!(!records(&*journal, "t").await.iter().any(|record| matches!(record, Record::RunFinished { .. })));

    let outcome = build().invoke(RunInput::resume("t")).await.unwrap();
    assert_eq!(lines(outcome.messages()), ["user: go", "assistant: [slow {}]", "result: at last", "assistant: done"]);
    assert_eq!(calls.list().len(), 1, "a finished call is not made again");
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().status, RunStatus::Ended);
}

#[tokio::test]
async fn a_sub_agent_is_suspended_with_its_run_and_continues_where_it_was() {
    let (go, calls, journal) = (Arc::new(Notify::new()), Notes::default(), Arc::new(MemoryJournal::new()));
    let build = || {
        let child = Agent::builder(once("slow")).name("child").tool(slow(&go, &calls)).build().unwrap();
        Agent::builder(once("task")).tool(task(child)).journal(journal.clone()).build().unwrap()
    };
    let mut run = build().run(RunInput::new("go").thread("t"));
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { name, .. } if name == "slow")).await;
    run.handle().suspend();
    go.notify_one();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Suspended);
    assert_eq!(lines(outcome.messages()), ["user: go", "assistant: [task {}]"], "its call has no result");
    let info = journal.threads().get("t").await.unwrap().unwrap();
    assert_eq!((info.status, info.owner), (RunStatus::Open, None));

    let outcome = build().invoke(RunInput::resume("t")).await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!(lines(outcome.messages())[2], "result: the model had nothing left to do: done");
    assert_eq!(calls.list().len(), 1, "what the sub-agent had finished is not done again");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_reaches_no_step_in_time_is_left_as_if_its_process_was_killed() {
    let (go, calls, journal) = (Arc::new(Notify::new()), Notes::default(), Arc::new(MemoryJournal::new()));
    let build = || Agent::builder(once("slow")).tool(slow(&go, &calls)).journal(journal.clone()).build().unwrap();
    let mut run = build().run(RunInput::new("go").thread("t"));
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    run.handle().suspend_within(Duration::from_secs(2)).await;
    assert!(matches!(*run.outcome().await.unwrap_err().error, Error::Left));
    let info = journal.threads().get("t").await.unwrap().unwrap();
    assert_eq!((info.status, info.owner), (RunStatus::Open, None));
    let outcome = build().invoke(RunInput::resume("t")).await.unwrap();
    assert_sound(outcome.messages());
    assert!(lines(outcome.messages())[2].contains("whether it took effect is unknown"), "{:?}", outcome.messages());
    assert_eq!(calls.list().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_output_of_an_abandoned_call_reaches_the_model_and_the_call_is_in_doubt() {
    for is_below in [false, true] {
        let journal = Arc::new(MemoryJournal::new());
        let build = || {
            let own = Agent::builder(once("noisy")).tool(noisy());
            let agent = match is_below {
                true => Agent::builder(once("task")).tool(task(own.name("child").build().unwrap())),
                false => own,
            };
            agent.journal(journal.clone()).build().unwrap()
        };
        let mut run = build().run(RunInput::new("go").thread("t"));
        until(&mut run, |kind| matches!(kind, EventKind::ToolProgress { .. })).await;
        run.handle().suspend_within(Duration::from_secs(2)).await;
        assert!(matches!(*run.outcome().await.unwrap_err().error, Error::Left));
        let mut resumed = build().run(RunInput::resume("t"));
        let mut told = Vec::new();
        while let Some(event) = resumed.next().await {
            if let EventKind::ToolFinished { name, text, error: true, .. } = event.kind {
                told.push((name, text));
            }
        }
        assert_eq!(told, [("noisy".to_owned(), LEFT.to_owned())]);
        assert_sound(resumed.outcome().await.unwrap().messages());
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_message_after_an_abandoned_call_reports_its_output() {
    let journal = Arc::new(MemoryJournal::new());
    let build = |model| Agent::builder(model).tool(noisy()).journal(journal.clone()).build().unwrap();
    let mut run = build(once("noisy")).run(RunInput::new("go").thread("t"));
    until(&mut run, |kind| matches!(kind, EventKind::ToolProgress { .. })).await;
    run.handle().suspend_within(Duration::from_secs(2)).await;
    let next = build(ScriptedModel::new([Turn::text("Fine.")])).invoke(RunInput::new("and now?").thread("t")).await;
    let next = next.unwrap();
    assert_sound(next.messages());
    assert_eq!(lines(next.messages())[2], format!("error: {LEFT}"));
}

#[tokio::test]
async fn a_run_that_ends_before_its_next_step_is_not_suspended() {
    let run = agent(ScriptedModel::new([Turn::text("done")])).build().unwrap().run("go").detach();
    run.outcome().await.unwrap();
    run.suspend();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Done);
    assert!(!run.steer("late") && !run.enqueue("late"));
}

#[tokio::test]
async fn follow_ups_are_delivered_one_by_one_when_the_run_would_end() {
    let model = ScriptedModel::rules()
        .always(Turn::with(|request| Turn::text(format!("re: {}", request.messages.last().unwrap().text()))))
        .build();
    let run = agent(model).build().unwrap().run("one");
    let handle = run.handle();
    assert!(handle.enqueue("two") && handle.enqueue("three"));
    let outcome = run.outcome().await.unwrap();
    assert_eq!(
        lines(outcome.messages()),
        ["user: one", "assistant: re: one", "user: two", "assistant: re: two", "user: three", "assistant: re: three"]
    );
    assert!(!handle.enqueue("four"));
}

#[tokio::test]
async fn cancelling_one_sub_agent_spares_its_sibling_and_its_parent() {
    let (go, calls) = (Arc::new(Notify::new()), Notes::default());
    let child = agent(once("slow")).name("child").tool(slow(&go, &calls)).build().unwrap();
    let model = ScriptedModel::new([Turn::calls([("task", json!({})), ("task", json!({}))]), Turn::text("both")]);
    let mut run = agent(model).tool(task(child)).build().unwrap().run("go");
    for _ in 0..2 {
        until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { name, .. } if name == "slow")).await;
    }
    let handle = run.handle();
    assert!(handle.cancel_agent(&["task:0.0".to_owned()]));
    assert!(!handle.cancel_agent(&["task:7.7".to_owned()]), "there is no such agent");
    until(&mut run, |kind| matches!(kind, EventKind::AgentFinished { stop: FinishReason::Cancelled, .. })).await;
    go.notify_waiters();
    let outcome = run.outcome().await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!(outcome.stop, FinishReason::Done);
    let results = &lines(outcome.messages())[2..4];
    assert!(results[0].contains("cancelled"), "{results:?}");
    assert_eq!(results[1], "result: the model had nothing left to do: done");
}

/// A model whose response a test feeds piece by piece.
struct Fed(Mutex<Option<mpsc::UnboundedReceiver<ModelEvent>>>);

impl ChatModel for Fed {
    fn name(&self) -> &str {
        "test:fed"
    }
    fn profile(&self) -> ModelProfile {
        ModelProfile::default()
    }
    fn stream(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let pieces = self.0.lock().unwrap().take().unwrap();
        futures_util::stream::unfold(pieces, |mut pieces| async { Some((Ok(pieces.recv().await?), pieces)) }).boxed()
    }
}

#[tokio::test]
async fn a_mid_answer_snapshot_plus_later_events_give_the_whole_answer() {
    let (feed, pieces) = mpsc::unbounded_channel();
    let agent = agent(Fed(Mutex::new(Some(pieces)))).build().unwrap();
    let mut run = agent.run("go");
    let handle = run.handle();
    let say = |delta: &str| feed.send(ModelEvent::Text { block: 0, delta: delta.to_owned() }).unwrap();
    say("one ");
    say("two ");
    until(&mut run, |kind| matches!(kind, EventKind::TextDelta { text, .. } if text == "two ")).await;
    let mut events = handle.subscribe(Subscribe::Now);
    say("three ");
    until(&mut run, |kind| matches!(kind, EventKind::TextDelta { text, .. } if text == "three ")).await;
    let snapshot = handle.snapshot().await;
    assert_eq!(lines(snapshot.state.messages()), ["user: go"]);
    let mut text = snapshot.answer().unwrap().text.clone();
    assert_eq!(text, "one two three ");
    say("four");
    let whole = AssistantMessage::new(vec![Block::text("one two three four")]);
    feed.send(ModelEvent::Finished(Box::new(ModelOutput::new(whole)))).unwrap();
    while let Some(event) = events.next().await {
        if let (EventKind::TextDelta { text: more, .. }, true) = (&event.kind, event.seq > snapshot.seq) {
            text.push_str(more);
        }
    }
    assert_eq!(text, run.outcome().await.unwrap().text());
    let end = handle.snapshot().await;
    assert_eq!((end.state.messages().len(), end.answers.len(), end.open_calls.len()), (2, 0, 0));
}

#[tokio::test]
async fn a_snapshot_includes_the_calls_in_progress() {
    let (go, calls) = (Arc::new(Notify::new()), Notes::default());
    let mut run = agent(once("slow")).tool(slow(&go, &calls)).build().unwrap().run("go");
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    let snapshot = run.handle().snapshot().await;
    assert_eq!(lines(snapshot.state.messages()), ["user: go", "assistant: [slow {}]"]);
    let open: Vec<String> = snapshot.open_calls.iter().map(|call| format!("{} {}", call.name, call.call)).collect();
    assert_eq!(open, ["slow 0.0"]);
    go.notify_one();
    run.outcome().await.unwrap();
}

#[tokio::test]
async fn dropping_a_runs_last_owner_cancels_it_and_dropping_other_handles_does_not() {
    let (go, calls) = (Arc::new(Notify::new()), Notes::default());
    let agent = agent(once("slow")).tool(slow(&go, &calls)).build().unwrap();
    let run = agent.run("go");
    let handle = run.handle();
    drop(handle.clone());
    drop(run);
    assert_eq!(handle.outcome().await.unwrap().stop, FinishReason::Cancelled);

    let handle = agent.run("go").detach();
    go.notify_one();
    let (one, two) = tokio::join!(handle.outcome(), handle.outcome());
    assert_eq!((one.unwrap().text(), two.unwrap().text()), ("done".to_owned(), "done".to_owned()));
}

#[tokio::test]
async fn an_input_with_a_running_runs_id_joins_it_and_starts_no_other() {
    let (go, calls) = (Arc::new(Notify::new()), Notes::default());
    let agent = agent(once("slow")).tool(slow(&go, &calls)).build().unwrap();
    let mut first = agent.run(RunInput::new("go").id("order-7"));
    assert_eq!(first.id(), "order-7");
    until(&mut first, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    let mut second = agent.run(RunInput::new("go").id("order-7"));
    assert!(matches!(second.next().await.unwrap().kind, EventKind::RunStarted { .. }), "from its start");
    drop(first);
    go.notify_one();
    assert_eq!(second.outcome().await.unwrap().text(), "done", "it still has an owner");
    assert_eq!(calls.list().len(), 1);

    let again = agent.run(RunInput::new("go").id("order-7")).detach();
    go.notify_one();
    assert_eq!(again.outcome().await.unwrap().run, "order-7");
    assert_eq!(calls.list().len(), 2, "the first one was over");
    let error = agent.invoke(RunInput::new("go").id("")).await.unwrap_err();
    assert_eq!(error.kind(), "input");
}

/// Records what passes through it.
struct Passing(&'static str, Notes);

impl RunObserver for Passing {
    fn begin(&self, start: RunStart<'_>) -> Result<()> {
        self.1.add(format!("{} begins with {}", self.0, start.input.messages[0].text()));
        Ok(())
    }

    fn model(
        self: Arc<Self>,
        _: ModelCall,
        model: &Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.1.add(format!("{} model", self.0));
        model.stream(request)
    }

    fn tool(self: Arc<Self>, request: ToolRequest, next: ToolNext) -> BoxFuture<'static, Result<ToolResponse>> {
        Box::pin(async move {
            self.1.add(format!("{} calls", self.0));
            let response = next.run(request).await;
            self.1.add(format!("{} called", self.0));
            response
        })
    }

    fn event(&self, event: &Event) {
        if matches!(event.kind, EventKind::ToolFinished { .. }) {
            self.1.add(format!("{} event {}", self.0, event.seq));
        }
    }
}

#[tokio::test]
async fn observers_nest_with_the_first_outermost_and_each_sees_every_event() {
    let (go, calls, notes) = (Arc::new(Notify::new()), Notes::default(), Notes::default());
    go.notify_one();
    let agent = agent(once("slow")).tool(slow(&go, &calls)).build().unwrap();
    let observer = |name| Arc::new(Passing(name, notes.clone()));
    let input = RunInput::new("go").observer(observer("a")).observer(observer("b")).observer(observer("c"));
    agent.invoke(input).await.unwrap();
    let list = notes.list();
    let of = |what: &str| list.iter().filter(|note| note.contains(what)).cloned().collect::<Vec<_>>();
    assert_eq!(of("begins"), ["a begins with go", "b begins with go", "c begins with go"]);
    assert_eq!(of("model")[..3], ["a model", "b model", "c model"]);
    assert_eq!(of("call"), ["a calls", "b calls", "c calls", "c called", "b called", "a called"]);
    let numbers: Vec<_> = of("event").iter().map(|note| note.split_once(' ').unwrap().1.to_owned()).collect();
    assert_eq!(numbers.len(), 3);
    assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
}

#[tokio::test]
async fn a_run_keeps_its_id_across_processes_and_calls_keep_their_keys() {
    let (journal, keys) = (Arc::new(MemoryJournal::new()), Notes::default());
    let noted = keys.clone();
    let asks = tool("asks", move |_, cx| {
        noted.add(cx.key());
        let decision = cx.interrupt("May I?", [DecisionKind::Approve]);
        async move { decision.map(|_| "asked") }
    });
    let model = ScriptedModel::new([Turn::call("asks", json!({})), Turn::text("done")]);
    let agent = agent(model).ids(RandomIds).tool(asks).journal(journal).build().unwrap();
    let first = agent.invoke(RunInput::new("go").thread("t").id("order-7")).await.unwrap();
    assert_eq!((first.run.as_str(), &first.stop), ("order-7", &FinishReason::Interrupted));
    let question = first.action_requests().remove(0).id;
    let mut run = agent.run(RunInput::resume("t").decide(question, Decision::Approve));
    let mut seen = Vec::new();
    while let Some(event) = run.next().await {
        seen.push(event);
    }
    assert!(seen.iter().all(|event| &*event.run == "order-7" && event.attempt == 1), "{seen:?}");
    assert_eq!(run.id(), "order-7");
    let again = run.outcome().await.unwrap();
    assert_eq!((again.run.as_str(), again.text().as_str()), ("order-7", "done"));
    assert_eq!(keys.list(), ["order-7:0.0", "order-7:0.0"]);
}

#[tokio::test]
async fn requesting_a_run_again_under_its_id_does_not_repeat_it() {
    let journal = Arc::new(MemoryJournal::new());
    let build = |turns: Vec<Turn>| {
        agent(ScriptedModel::new(turns)).ids(RandomIds).tool(echo()).journal(journal.clone()).build().unwrap()
    };
    let order = || RunInput::new("go").thread("t").id("order-7");
    build(vec![Turn::call("echo", json!({})), Turn::text("lost")]).invoke(order()).await.unwrap();
    // The log of a process that ended before the second response.
    let log = records(&*journal, "t").await;
    let committed = log.iter().position(|record| matches!(record, Record::ToolsCommitted { .. })).unwrap() as u64;
    journal.threads().copy("t", "u", Some(committed + 2)).await.unwrap();
    journal.threads().delete("t").await.unwrap();
    journal.threads().copy("u", "t", None).await.unwrap();
    let ended = build(vec![Turn::text("done")]).invoke(order()).await.unwrap();
    assert_eq!(lines(ended.messages()), ["user: go", "assistant: [echo {}]", "result: {}", "assistant: done"]);
    // Submitted again, the run returns the same result without calling a model.
    let model_is_not_asked = build(vec![]);
    let same = model_is_not_asked.invoke(order()).await.unwrap();
    assert_eq!((same.text(), same.messages().len(), &same.stop), (ended.text(), 4, &FinishReason::Done));
    build(vec![Turn::text("more")]).invoke(RunInput::new("and then?").thread("t")).await.unwrap();
    let late = model_is_not_asked.invoke(order()).await.unwrap_err();
    assert!(late.to_string().contains("run `order-7` of thread `t` is over"), "{late}");
    let other = model_is_not_asked.invoke(RunInput::resume("t").id("order-8")).await.unwrap_err();
    assert!(other.to_string().contains("not `order-8`"), "{other}");
}

#[tokio::test]
async fn events_from_log_records_carry_their_log_position() {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([Turn::calls([("echo", json!({})), ("echo", json!({"n": 1}))]), Turn::text("done")]);
    let agent = agent(model).tool(echo()).journal(journal.clone()).build().unwrap();
    let (events, _) = watch(agent.run(RunInput::new("go").thread("t"))).await;
    let log = records(&*journal, "t").await;
    let mut last = 0;
    for event in events.iter().filter(|event| event.kind.is_durable()) {
        let position = event.position.unwrap_or_else(|| panic!("{event:?} has no position"));
        assert!(position >= last, "positions follow the log");
        last = position;
        let record = &log[position as usize - 1];
        match &event.kind {
            EventKind::RunStarted { .. } => assert!(matches!(record, Record::RunStarted { .. })),
            EventKind::ModelFinished { .. } => assert!(matches!(record, Record::Update { .. })),
            EventKind::ToolStarted { call, .. } => {
                assert!(matches!(record, Record::ToolStarted { call: of, .. } if of == call));
            }
            EventKind::ToolFinished { call, .. } => {
                assert!(matches!(record, Record::ToolFinished { call: of, .. } if of == call));
            }
            EventKind::RunFinished { .. } => assert!(matches!(record, Record::RunFinished { .. })),
            _ => {}
        }
    }
    assert_eq!(last as usize, log.len());
    assert!(events.iter().filter(|event| !event.kind.is_durable()).all(|event| event.position.is_none()));
}

#[tokio::test]
async fn the_same_id_on_two_threads_names_two_runs() {
    let (go, calls) = (Arc::new(Notify::new()), Notes::default());
    let agent =
        agent(ScriptedModel::new([Turn::call("slow", json!({})), Turn::text("hello Bob"), Turn::text("hello Ada")]))
            .tool(slow(&go, &calls))
            .journal(MemoryJournal::new())
            .build()
            .unwrap();
    let mut ada = agent.run(RunInput::new("I am Ada").thread("ada").id("1"));
    until(&mut ada, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    let bob = agent.invoke(RunInput::new("I am Bob").thread("bob").id("1")).await.unwrap();
    assert_eq!((bob.thread.as_deref(), bob.run.as_str()), (Some("bob"), "1"));
    assert_eq!(lines(bob.messages()), ["user: I am Bob", "assistant: hello Bob"]);
    let same = agent.run(RunInput::new("I am Ada").thread("ada").id("1"));
    go.notify_one();
    for run in [ada, same] {
        let outcome = run.outcome().await.unwrap();
        assert_eq!((outcome.thread.as_deref(), outcome.text().as_str()), (Some("ada"), "hello Ada"));
    }
    assert_eq!(calls.list().len(), 1);
}

/// Panics at matching events.
struct Panicking(fn(&EventKind) -> bool);

impl RunObserver for Panicking {
    fn event(&self, event: &Event) {
        assert!(!self.0(&event.kind), "it cannot see this");
    }
}

#[tokio::test]
async fn an_observers_panic_fails_the_run_unless_it_happens_at_the_end() {
    let build = || agent(ScriptedModel::new([Turn::text("done")])).build().unwrap();
    let (events, ended) = watch(build().run(RunInput::new("go").observer(Arc::new(Panicking(|_| true))))).await;
    let error = ended.unwrap_err();
    assert!(error.to_string().starts_with("the run panicked: it cannot see this"), "{error}");
    assert!(matches!(events.last().unwrap().kind, EventKind::RunFailed { .. }), "{events:?}");
    let (events, ended) =
        watch(build().run(RunInput::new("go").observer(Arc::new(Panicking(EventKind::is_end))))).await;
    assert_eq!(ended.unwrap().text(), "done");
    assert!(matches!(events.last().unwrap().kind, EventKind::RunFinished { .. }), "{events:?}");
}

/// Panics when a subagent starts.
struct PanicsAtChildren;

impl RunObserver for PanicsAtChildren {
    fn event(&self, event: &Event) {
        assert!(!(event.path.len() == 1 && matches!(event.kind, EventKind::AgentStarted { .. })), "it cannot see this");
    }
}

#[tokio::test]
async fn an_observers_panic_at_a_sub_agents_event_leaves_the_runs_events_intact() {
    let child = agent(ScriptedModel::rules().always(Turn::text("found")).build()).name("child").build().unwrap();
    let delegate = tool("delegate", move |_, cx| {
        let child = child.clone();
        async move {
            let state = State::new(child.schema().clone());
            Ok(cx.run_child(&child, "task", state, "Find it.").await?.result?.text())
        }
    });
    let model = ScriptedModel::new([Turn::call("delegate", json!({})), Turn::text("It is done.")]);
    let agent = agent(model).tool(delegate).build().unwrap();
    let mut run = agent.run(RunInput::new("go").observer(Arc::new(PanicsAtChildren)));
    let mut from_start = run.handle().subscribe(Subscribe::Start);
    let mut seen: Vec<Event> = Vec::new();
    while let Some(event) = run.next().await {
        assert!(seen.last().is_none_or(|last| last.seq < event.seq), "{event:?} after {:?}", seen.last());
        seen.push(event);
    }
    assert!(seen.last().unwrap().kind.is_end(), "{:?}", seen.last());
    assert!(!seen.iter().any(|event| matches!(event.kind, EventKind::Lagged { .. })), "{seen:?}");
    let mut again = Vec::new();
    while let Some(event) = from_start.next().await {
        again.push(event);
        assert!(again.len() <= seen.len(), "it is told without end");
    }
    let numbers = |events: &[Event]| events.iter().map(|event| event.seq).collect::<Vec<_>>();
    assert_eq!(numbers(&again), numbers(&seen));
    assert_eq!(numbers(&seen), (0..seen.len() as u64).collect::<Vec<_>>());
}

/// Suspends a run at its first model response.
#[derive(Default)]
struct StopsAtAnswer(OnceLock<RunHandle>);

impl RunObserver for StopsAtAnswer {
    fn event(&self, event: &Event) {
        if let (EventKind::ModelFinished { .. }, Some(run)) = (&event.kind, self.0.get()) {
            run.suspend();
        }
    }
}

#[tokio::test]
async fn an_observer_may_suspend_a_run_between_an_answer_and_its_calls() {
    let notes = Notes::default();
    let (calls, model) = (notes.clone(), ScriptedModel::new([Turn::call("act", json!({})), Turn::text("done")]));
    let act = tool("act", move |_, _| {
        calls.add("acted");
        async { Ok("done") }
    });
    let agent = agent(model).tool(act).journal(MemoryJournal::new()).build().unwrap();
    let observer = Arc::new(StopsAtAnswer::default());
    let run = agent.run(RunInput::new("go").thread("t").observer(observer.clone()));
    observer.0.set(run.handle()).ok().unwrap();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Suspended);
    assert!(notes.list().is_empty());
    assert_eq!(agent.invoke(RunInput::resume("t")).await.unwrap().text(), "done");
    assert_eq!(notes.list(), ["acted"]);
}

/// Suspends a run when its model is called.
#[derive(Default)]
struct StopsAtQuestion(OnceLock<RunHandle>);

impl RunObserver for StopsAtQuestion {
    fn event(&self, event: &Event) {
        if let (EventKind::ModelStarted { .. }, Some(run)) = (&event.kind, self.0.get()) {
            run.suspend();
        }
    }
}

#[tokio::test]
async fn a_resumed_run_knows_why_its_last_answer_ended() {
    let cases = [
        (Turn::text("half").stop(StopReason::Other("incomplete".to_owned())), FinishReason::BrokenOff),
        (Turn::call("act", json!({})).stop(StopReason::Refusal), FinishReason::Refused),
    ];
    for (answer, stop) in cases {
        let model = ScriptedModel::new([answer, Turn::text("never asked")]);
        let act = tool("act", |_, _| async { Ok("never made") });
        let agent = agent(model).tool(act).journal(MemoryJournal::new()).build().unwrap();
        let observer = Arc::new(StopsAtQuestion::default());
        let run = agent.run(RunInput::new("go").thread("t").observer(observer.clone()));
        observer.0.set(run.handle()).ok().unwrap();
        assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Suspended);
        assert_eq!(agent.invoke(RunInput::resume("t")).await.unwrap().stop, stop);
    }
}

#[tokio::test]
async fn a_failing_observer_factory_is_an_error_of_the_run() {
    let agent = agent(ScriptedModel::new([])).observe_runs(|| panic!("no observer today")).build().unwrap();
    for error in [agent.run("go").outcome().await.unwrap_err(), agent.invoke("go").await.unwrap_err()] {
        assert!(error.to_string().contains("`observe_runs` panicked: no observer today"), "{error}");
    }
}

#[tokio::test]
async fn the_error_chain_of_a_failed_run_repeats_nothing() {
    let failing = deepagents_core::middleware::before_model(|_| async { Err(Error::Input("no".to_owned())) });
    let error = agent(ScriptedModel::new([])).middleware(failing).build().unwrap().invoke("go").await.unwrap_err();
    let mut said = vec![error.to_string()];
    let mut next = std::error::Error::source(&*error);
    while let Some(reason) = next {
        said.push(reason.to_string());
        next = reason.source();
    }
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(said[1], "no");
}

#[tokio::test]
async fn an_undeclared_channel_error_names_the_hook_and_the_remedy() {
    deepagents_core::last_value!(
        /// Declared by nobody.
        Stray("stray"): u32
    );
    let stray = deepagents_core::middleware::before_model(|_| async {
        Ok(deepagents_core::middleware::HookOutput::set::<Stray>(1))
    });
    let error = agent(ScriptedModel::new([])).middleware(stray).build().unwrap().invoke("go").await.unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains("before_model of middleware") && said.contains("`stray`") && said.contains("`channels`"),
        "{said}"
    );
    assert_eq!(error.kind(), "state");
}

/// Suspends each run when it begins.
struct Stops;

impl RunObserver for Stops {
    fn begin(&self, start: RunStart<'_>) -> Result<()> {
        start.suspender.suspend();
        Ok(())
    }
}

#[tokio::test]
async fn an_observer_may_suspend_a_run_before_its_first_step() {
    let model = ScriptedModel::new([Turn::text("done")]);
    let agent = agent(model.clone()).journal(MemoryJournal::new()).build().unwrap();
    let input = RunInput::new("go").thread("t").observer(Arc::new(Stops));
    assert_eq!(agent.invoke(input).await.unwrap().stop, FinishReason::Suspended);
    assert!(model.requests().is_empty());
    assert_eq!(agent.invoke(RunInput::resume("t")).await.unwrap().text(), "done");
}
