//! Cancelled runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deepagents_core::event::EventKind;
use deepagents_core::journal::MemoryJournal;
use deepagents_core::message::{AssistantMessage, Block, Message};
use deepagents_core::middleware::{HookOutput, after_model, before_agent};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelOutput, ModelRequest};
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_core::state::{State, Update};
use deepagents_core::tool::{DynTool, Effect, ToolError, ToolOutput, json_tool};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::support::{Notes, agent, assert_sound, echo, lines, tool, until, watch};

/// A tool that never ends.
fn hangs() -> impl DynTool {
    tool("hangs", |_, _| async {
        std::future::pending::<()>().await;
        Ok("never")
    })
}

/// A tool that finishes with an additional message.
fn quick() -> impl DynTool {
    tool("quick", |_, _| async {
        Ok(ToolOutput::text("finished").with_update(Update::message(Message::harness("beside"))))
    })
}

fn is_result(kind: &EventKind) -> bool {
    matches!(kind, EventKind::ToolFinished { .. })
}

#[tokio::test]
async fn cancelling_during_a_model_call_leaves_the_history_unchanged() {
    let forever = std::time::Duration::from_secs(3600);
    let agent = agent(ScriptedModel::new([Turn::text("never").delay(forever)])).build().unwrap();
    let mut run = agent.run("hi");
    until(&mut run, |kind| matches!(kind, EventKind::ModelStarted { .. })).await;
    run.cancel();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Cancelled);
    assert_eq!(lines(outcome.messages()), ["user: hi"]);
}

#[tokio::test]
async fn a_run_whose_token_is_already_cancelled_calls_no_model() {
    let model = ScriptedModel::new([]);
    let agent = agent(model.clone()).journal(MemoryJournal::new()).build().unwrap();
    let ended = CancellationToken::new();
    ended.cancel();
    for silent in [true, false] {
        let input = RunInput::new("hi").thread("t").cancelled_by(&ended);
        let outcome = if silent { agent.invoke(input).await } else { agent.run(input).outcome().await };
        assert_eq!(outcome.unwrap().stop, FinishReason::Cancelled);
    }
    assert!(model.requests().is_empty());
    // Cancelling the token later ends the run.
    let (token, forever) = (CancellationToken::new(), std::time::Duration::from_secs(3600));
    let slow = crate::support::agent(ScriptedModel::new([Turn::text("never").delay(forever)])).build().unwrap();
    let mut run = slow.run(RunInput::new("hi").cancelled_by(&token));
    until(&mut run, |kind| matches!(kind, EventKind::ModelStarted { .. })).await;
    token.cancel();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Cancelled);
}

#[tokio::test]
async fn the_end_of_a_run_does_not_cancel_its_token() {
    let token = CancellationToken::new();
    let agent = agent(ScriptedModel::new([Turn::text("done")])).build().unwrap();
    let run = agent.run(RunInput::new("hi").cancelled_by(&token));
    run.cancel();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Cancelled);
    assert!(!token.is_cancelled());
}

#[tokio::test]
async fn cancelling_during_tools_keeps_finished_results_and_answers_the_rest() {
    let journal = Arc::new(MemoryJournal::new());
    let turn = Turn::calls([("hangs", json!({})), ("quick", json!({})), ("hangs", json!({}))]);
    let agent = agent(ScriptedModel::new([turn, Turn::text("again")]))
        .tool(hangs())
        .tool(quick())
        .journal(journal)
        .build()
        .unwrap();
    let mut run = agent.run(RunInput::new("go").thread("t"));
    until(&mut run, is_result).await;
    run.cancel();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Cancelled);
    assert_sound(outcome.messages());
    let cancelled = "error: The call of hangs was not completed: the run was cancelled.";
    assert_eq!(lines(outcome.messages())[2..], [cancelled, "result: finished", cancelled, "user: beside"]);
    let stored = agent.state("t").await.unwrap();
    assert_eq!(stored.messages(), outcome.messages());

    let next = agent.invoke(RunInput::new("go on").thread("t")).await.unwrap();
    assert_sound(next.messages());
    assert_eq!(lines(next.messages())[6..], ["user: go on", "assistant: again"]);
}

/// A tool that reports progress piece by piece and never ends.
fn tells(pieces: impl IntoIterator<Item = String>) -> impl DynTool {
    let pieces: Vec<String> = pieces.into_iter().collect();
    tool("tells", move |_, cx| {
        pieces.iter().for_each(|piece| cx.progress(piece.as_str()));
        async {
            std::future::pending::<()>().await;
            Ok("never")
        }
    })
}

#[tokio::test]
async fn a_cancelled_calls_output_is_passed_to_the_model() {
    let agent = agent(ScriptedModel::new([Turn::call("tells", json!({})), Turn::text("again")]))
        .tool(tells(["one\ntw".to_owned(), "o\n".to_owned()]))
        .journal(MemoryJournal::new())
        .build()
        .unwrap();
    let mut run = agent.run(RunInput::new("go").thread("t"));
    until(&mut run, |kind| matches!(kind, EventKind::ToolProgress { text, .. } if text == "o\n")).await;
    run.cancel();
    run.outcome().await.unwrap();
    let stored = agent.state("t").await.unwrap();
    let told = "error: The call of tells was not completed: the run was cancelled. Its output before then:\none\ntwo";
    assert_eq!(lines(stored.messages())[2..], [told]);
}

#[tokio::test]
async fn only_the_last_four_kilobytes_of_a_cancelled_calls_output_are_passed_on() {
    let lines: Vec<String> = (0..5000).map(|n| format!("Zeile {n} – ü\n")).collect();
    let (last, whole) = (lines[4999].clone(), lines.concat());
    let agent = agent(ScriptedModel::new([Turn::call("tells", json!({}))])).tool(tells(lines)).build().unwrap();
    let mut run = agent.run("go");
    until(&mut run, |kind| matches!(kind, EventKind::ToolProgress { text, .. } if *text == last)).await;
    run.cancel();
    let outcome = run.outcome().await.unwrap();
    let said = outcome.messages().last().unwrap().text();
    let (_, told) = said.split_once("before then:\n…").unwrap();
    assert!((4090..=4096).contains(&(told.len() + 1)), "{}", told.len());
    assert!(whole.trim_end().ends_with(told));
}

#[tokio::test]
async fn queued_calls_are_not_started_after_a_cancel() {
    let notes = Notes::default();
    let seen = notes.clone();
    let write = json_tool("write", "Writes.", json!({"type": "object"}), move |args: Value, _| {
        seen.add(args["n"].to_string());
        async { std::future::pending::<Result<String, ToolError>>().await }
    })
    .effect(Effect::write("/p"));
    let turn = Turn::calls([("write", json!({"n": 1})), ("write", json!({"n": 2}))]);
    let agent = agent(ScriptedModel::new([turn])).tool(write).build().unwrap();
    let mut run = agent.run("go");
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    while notes.list().is_empty() {
        tokio::task::yield_now().await;
    }
    run.cancel();
    let (events, outcome) = watch(run).await;
    assert_sound(outcome.unwrap().messages());
    assert_eq!(notes.list(), ["1"]);
    let finished = events.iter().filter(|e| is_result(&e.kind)).count();
    let started = events.iter().filter(|e| matches!(&e.kind, EventKind::ToolStarted { .. })).count();
    assert_eq!((started, finished), (1, 2), "each call is told once as finished, the first had begun before");
}

#[tokio::test]
async fn on_cancel_tools_are_dropped_and_their_token_is_cancelled() {
    let (gone, mut wait) = mpsc::unbounded_channel::<&str>();
    let watches = tool("watches", move |_, cx| {
        let gone = gone.clone();
        let token = cx.cancellation().clone();
        async move {
            let outside = gone.clone();
            tokio::spawn(async move {
                token.cancelled().await;
                outside.send("told").unwrap();
            });
            struct Dropped(mpsc::UnboundedSender<&'static str>);
            impl Drop for Dropped {
                fn drop(&mut self) {
                    let _ = self.0.send("dropped");
                }
            }
            let _dropped = Dropped(gone);
            std::future::pending::<()>().await;
            Ok("never")
        }
    });
    let agent = agent(ScriptedModel::new([Turn::call("watches", json!({}))])).tool(watches).build().unwrap();
    let mut run = agent.run("go");
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    tokio::task::yield_now().await;
    run.cancel();
    run.outcome().await.unwrap();
    let mut told = vec![wait.recv().await.unwrap(), wait.recv().await.unwrap()];
    told.sort_unstable();
    assert_eq!(told, ["dropped", "told"]);
}

#[tokio::test]
async fn dropping_the_handle_cancels_the_run() {
    struct Dropped(mpsc::UnboundedSender<()>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (gone, mut wait) = mpsc::unbounded_channel();
    let holds = tool("holds", move |_, _| {
        let held = Dropped(gone.clone());
        async move {
            let _held = held;
            std::future::pending::<()>().await;
            Ok("never")
        }
    });
    let agent = agent(ScriptedModel::new([Turn::call("holds", json!({}))])).tool(holds).build().unwrap();
    let mut run = agent.run("go");
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    drop(run);
    assert_eq!(wait.recv().await, Some(()));
}

#[tokio::test]
async fn a_run_cancelled_before_it_started_calls_no_model_and_keeps_its_input() {
    let model = ScriptedModel::new([]);
    let agent = agent(model.clone()).journal(MemoryJournal::new()).build().unwrap();
    let run = agent.run(RunInput::new("hi").thread("t"));
    run.canceller().cancel();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Cancelled);
    assert!(model.requests().is_empty());
    assert_eq!(lines(agent.state("t").await.unwrap().messages()), ["user: hi"]);
}

#[tokio::test]
async fn cancelling_ends_a_hanging_hook() {
    let (began, mut wait) = mpsc::unbounded_channel();
    let agent = agent(ScriptedModel::new([]))
        .middleware(before_agent(move |_| {
            began.send(()).unwrap();
            async {
                std::future::pending::<()>().await;
                Ok(HookOutput::next())
            }
        }))
        .build()
        .unwrap();
    let run = agent.run("hi");
    wait.recv().await.unwrap();
    run.cancel();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Cancelled);
}

#[tokio::test]
async fn the_result_of_a_tool_that_finishes_during_a_cancel_is_kept() {
    let (handle, wait) = std::sync::mpsc::channel::<tokio_util::sync::CancellationToken>();
    let wait = std::sync::Mutex::new(wait);
    let last = tool("last", move |_, _| {
        let canceller = wait.lock().unwrap().recv().unwrap();
        canceller.cancel();
        async { Ok("done in time") }
    });
    let agent = agent(ScriptedModel::new([Turn::call("last", json!({}))])).tool(last).tool(echo()).build().unwrap();
    let run = agent.run("go");
    handle.send(run.canceller()).unwrap();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Cancelled);
    assert_eq!(lines(outcome.messages())[2..], ["result: done in time"]);
}

/// A model that stops in the middle of its first response, and repeats its input in later ones.
#[derive(Default)]
struct Halting(std::sync::atomic::AtomicU32);

impl ChatModel for Halting {
    fn name(&self) -> &str {
        "halting"
    }

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let text = |delta: &str| Ok(ModelEvent::Text { block: 1, delta: delta.to_owned() });
        if self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            let thought = Ok(ModelEvent::Reasoning { block: 0, delta: "hm".to_owned() });
            let call = Ok(ModelEvent::ToolCall { block: 2, id: "c".to_owned(), name: "echo".to_owned() });
            return stream::iter([thought, text("Once upon "), text("a time "), call]).chain(stream::pending()).boxed();
        }
        let shown = lines(&request.messages).join(" / ");
        let message = AssistantMessage { content: vec![Block::text(shown)], ..AssistantMessage::default() };
        stream::iter([Ok(ModelEvent::Finished(Box::new(ModelOutput::new(message))))]).boxed()
    }
}

const KEPT: &str = "assistant: Once upon a time\n\n[The user interrupted this answer here.]";

#[tokio::test]
async fn interrupted_text_is_kept_with_a_marker_and_shown_to_the_model() {
    let journal = Arc::new(MemoryJournal::new());
    let agent = agent(Halting::default()).tool(echo()).journal(journal).build().unwrap();
    let mut run = agent.run(RunInput::new("a story").thread("t"));
    until(&mut run, |kind| matches!(kind, EventKind::ToolCallDelta { .. })).await;
    run.interrupt();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Cancelled);
    assert_eq!(lines(outcome.messages()), ["user: a story", KEPT]);
    assert_eq!(agent.state("t").await.unwrap().messages(), outcome.messages());
    let next = agent.invoke(RunInput::new("go on").thread("t")).await.unwrap();
    assert_eq!(next.text(), format!("user: a story / {KEPT} / user: go on"));
    assert_sound(next.messages());
}

#[tokio::test]
async fn an_interrupted_answer_continues_on_resume() {
    let agent = agent(Halting::default()).tool(echo()).journal(MemoryJournal::new()).build().unwrap();
    let mut run = agent.run(RunInput::new("a story").thread("t"));
    until(&mut run, |kind| matches!(kind, EventKind::ToolCallDelta { .. })).await;
    run.interrupt();
    run.outcome().await.unwrap();
    let resumed = agent.invoke(RunInput::resume("t")).await.unwrap();
    assert_eq!(resumed.stop, FinishReason::Done);
    let said = resumed.text();
    assert!(
        said.starts_with(&format!("user: a story / {KEPT} / ")) && said.contains("go on with the answer"),
        "{said}"
    );
}

#[tokio::test]
async fn a_complete_answer_that_imitates_the_mark_of_an_interrupted_one_is_not_continued() {
    let said = KEPT.strip_prefix("assistant: ").unwrap();
    let (reached, hangs) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(true)));
    let waits = reached.clone();
    let hook = after_model(move |_| {
        let (hangs, waits) = (hangs.swap(false, Ordering::Relaxed), waits.clone());
        async move {
            if hangs {
                waits.notify_one();
                std::future::pending::<()>().await;
            }
            Ok(HookOutput::next())
        }
    });
    let agent = agent(ScriptedModel::new([Turn::text(said)])).middleware(hook).journal(MemoryJournal::new());
    let agent = agent.build().unwrap();
    let run = agent.run(RunInput::new("a story").thread("t"));
    reached.notified().await;
    run.cancel();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Cancelled);
    let resumed = agent.invoke(RunInput::resume("t")).await.unwrap();
    assert_eq!(resumed.stop, FinishReason::Done);
    assert_eq!(lines(resumed.messages()), ["user: a story", KEPT]);
}

#[tokio::test]
async fn a_cancelled_run_discards_its_partial_answer() {
    let agent = agent(Halting::default()).tool(echo()).journal(MemoryJournal::new()).build().unwrap();
    let mut run = agent.run(RunInput::new("a story").thread("t"));
    until(&mut run, |kind| matches!(kind, EventKind::ToolCallDelta { .. })).await;
    run.cancel();
    assert_eq!(lines(run.outcome().await.unwrap().messages()), ["user: a story"]);
}

/// A tool whose subagent stops in the middle of its response.
fn halting_task() -> impl DynTool {
    let below = agent(Halting::default()).tool(echo()).name("child").build().unwrap();
    tool("task", move |_, cx| {
        let below = below.clone();
        async move {
            let state = State::new(below.schema().clone());
            let ended = cx.run_child(&below, "task", state, RunInput::new("a story")).await?;
            Ok(ended.result?.messages().last().map(|message| message.text()).unwrap_or_default())
        }
    })
}

#[tokio::test]
async fn a_cancelled_sub_agents_partial_answer_reaches_its_parent_which_continues() {
    let model = ScriptedModel::new([Turn::call("task", json!({})), Turn::text("so be it")]);
    let agent = agent(model).tool(halting_task()).build().unwrap();
    let mut run = agent.run("go");
    until(&mut run, |kind| matches!(kind, EventKind::ToolCallDelta { name: Some(name), .. } if name == "echo")).await;
    assert!(run.handle().cancel_agent(&["task:0.0".to_owned()]));
    let outcome = run.outcome().await.unwrap();
    let told = KEPT.replacen("assistant", "result", 1);
    assert_eq!(lines(outcome.messages())[2..], [told.as_str(), "assistant: so be it"]);
}

#[tokio::test]
async fn an_interrupted_sub_agents_partial_answer_reaches_its_parent() {
    let agent = agent(ScriptedModel::new([Turn::call("task", json!({}))])).tool(halting_task()).build().unwrap();
    let mut run = agent.run("go");
    until(&mut run, |kind| matches!(kind, EventKind::ToolCallDelta { name: Some(name), .. } if name == "echo")).await;
    run.interrupt();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Cancelled);
    assert_eq!(lines(outcome.messages())[2..], [KEPT.replacen("assistant", "result", 1)]);
}
