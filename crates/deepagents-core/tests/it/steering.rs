//! Steering a run in flight.

use std::sync::Arc;

use deepagents_core::event::EventKind;
use deepagents_core::interrupt::{Decision, DecisionKind};
use deepagents_core::journal::MemoryJournal;
use deepagents_core::message::Message;
use deepagents_core::middleware::{HookOutput, JumpTo, after_agent, after_model, before_model, wrap_model_call};
use deepagents_core::run::{Budget, FinishReason, RunInput};
use deepagents_core::tool::{DynTool, ToolError, json_tool};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{agent, assert_sound, echo, lines, tool, until, watch};

#[tokio::test]
async fn a_message_sent_during_tools_reaches_the_next_model_call_after_the_results() {
    let go = Arc::new(Notify::new());
    let wait = go.clone();
    let work = tool("work", move |_, _| {
        let wait = wait.clone();
        async move {
            wait.notified().await;
            Ok("worked")
        }
    });
    let model = ScriptedModel::new([Turn::call("work", json!({})), Turn::text("in French, then")]);
    let agent = agent(model.clone()).tool(work).journal(MemoryJournal::new()).build().unwrap();
    let mut run = agent.run(RunInput::new("go").thread("t"));
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    assert!(run.steer("in French, please"));
    assert!(run.steer(Message::user("and short")));
    go.notify_one();
    let (events, outcome) = watch(run).await;
    let outcome = outcome.unwrap();
    assert_sound(outcome.messages());
    let expected = ["result: worked", "user: in French, please", "user: and short", "assistant: in French, then"];
    assert_eq!(lines(outcome.messages())[2..], expected);
    assert_eq!(lines(&model.requests()[1].messages)[2..], expected[..3]);
    let told = events.iter().filter(|e| matches!(&e.kind, EventKind::Steered { .. })).count();
    assert_eq!(told, 2);
    assert_eq!(agent.state("t").await.unwrap().messages(), outcome.messages());
}

#[tokio::test]
async fn undelivered_messages_can_be_withdrawn_and_delivered_ones_cannot() {
    let go = Arc::new(Notify::new());
    let wait = go.clone();
    let work = tool("work", move |_, _| {
        let wait = wait.clone();
        async move {
            wait.notified().await;
            Ok("worked")
        }
    });
    let turns = [Turn::call("work", json!({})), Turn::call("work", json!({})), Turn::text("done")];
    let agent = agent(ScriptedModel::new(turns)).tool(work).build().unwrap();
    let mut run = agent.run("go");
    let handle = run.handle();
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    assert!(handle.steer("kept"));
    go.notify_one();
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    assert!(handle.enqueue("afterwards") && handle.steer("at once") && handle.steer("and this"));
    let back: Vec<String> = handle.retract().iter().map(Message::text).collect();
    assert_eq!(back, ["at once", "and this", "afterwards"]);
    assert!(handle.retract().is_empty());
    go.notify_one();
    let outcome = run.outcome().await.unwrap();
    let users: Vec<_> = lines(outcome.messages()).into_iter().filter(|line| line.starts_with("user: ")).collect();
    assert_eq!(users, ["user: go", "user: kept"]);
    assert!(handle.retract().is_empty() && !handle.steer("too late") && !handle.enqueue("too late"));
}

#[tokio::test]
async fn a_message_sent_during_a_model_call_can_be_withdrawn_while_its_calls_run() {
    let (asked, answer, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait, end) = (asked.clone(), answer.clone(), finish.clone());
    let work = tool("work", move |_, cx| {
        let end = end.clone();
        async move {
            // The message reaches the call at once, though it was sent before it.
            cx.context().steered().await;
            cx.progress("steered");
            end.notified().await;
            Ok("worked")
        }
    });
    let agent = agent(ScriptedModel::new([Turn::call("work", json!({})), Turn::text("done")]))
        .middleware(wrap_model_call(move |request, next| {
            let (tell, wait) = (tell.clone(), wait.clone());
            async move {
                tell.notify_one();
                wait.notified().await;
                next.run(request).await
            }
        }))
        .tool(work)
        .build()
        .unwrap();
    let mut run = agent.run("go");
    asked.notified().await;
    assert!(run.steer("in Frensh, please"));
    answer.notify_one();
    until(&mut run, |kind| matches!(kind, EventKind::ToolProgress { .. })).await;
    let back: Vec<String> = run.retract().iter().map(Message::text).collect();
    assert_eq!(back, ["in Frensh, please"]);
    finish.notify_one();
    answer.notify_one();
    assert_eq!(lines(run.outcome().await.unwrap().messages())[2..], ["result: worked", "assistant: done"]);
}

#[tokio::test]
async fn a_message_sent_during_the_last_model_call_keeps_the_run_going() {
    let go = Arc::new(Notify::new());
    let wait = go.clone();
    let agent = agent(ScriptedModel::new([Turn::text("done"), Turn::text("done again")]))
        .middleware(wrap_model_call(move |request, next| {
            let wait = wait.clone();
            async move {
                let answer = next.run(request).await;
                wait.notified().await;
                answer
            }
        }))
        .build()
        .unwrap();
    let mut run = agent.run("go");
    until(&mut run, |kind| matches!(kind, EventKind::ModelStarted { .. })).await;
    assert!(run.steer("one more thing"));
    go.notify_one();
    go.notify_one();
    let released = go.clone();
    let release = tokio::spawn(async move {
        loop {
            released.notify_one();
            tokio::task::yield_now().await;
        }
    });
    let outcome = run.outcome().await.unwrap();
    release.abort();
    assert_eq!(
        lines(outcome.messages()),
        ["user: go", "assistant: done", "user: one more thing", "assistant: done again"]
    );
    assert_eq!(outcome.stop, FinishReason::Done);
}

#[tokio::test]
async fn a_message_sent_during_the_last_hooks_keeps_the_run_going_too() {
    let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (began.clone(), go.clone());
    let agent = agent(ScriptedModel::new([Turn::text("done"), Turn::text("done again")]))
        .middleware(after_agent(move |_| {
            let (tell, wait) = (tell.clone(), wait.clone());
            async move {
                tell.notify_one();
                wait.notified().await;
                Ok(HookOutput::next())
            }
        }))
        .build()
        .unwrap();
    let run = agent.run("go");
    began.notified().await;
    assert!(run.steer("one more thing"));
    go.notify_one();
    began.notified().await;
    go.notify_one();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(lines(outcome.messages())[2..], ["user: one more thing", "assistant: done again"]);
}

#[tokio::test]
async fn a_message_sent_before_a_direct_result_keeps_the_run_going() {
    let go = Arc::new(Notify::new());
    let wait = go.clone();
    let answer = json_tool("answer", "Answers.", json!({"type": "object"}), move |_: Value, _| {
        let wait = wait.clone();
        async move {
            wait.notified().await;
            Ok("the answer")
        }
    })
    .return_direct();
    let agent =
        agent(ScriptedModel::new([Turn::call("answer", json!({})), Turn::text("more")])).tool(answer).build().unwrap();
    let mut run = agent.run("go");
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    assert!(run.steer("and more"));
    go.notify_one();
    let outcome = run.outcome().await.unwrap();
    assert_eq!(lines(outcome.messages())[2..], ["result: the answer", "user: and more", "assistant: more"]);
}

#[tokio::test]
async fn messages_neither_prolong_a_run_ended_by_a_hook_nor_reach_a_finished_one() {
    let agent = agent(ScriptedModel::new([]))
        .middleware(before_model(|_| async { Ok(HookOutput::go(JumpTo::End)) }))
        .tool(echo())
        .build()
        .unwrap();
    let mut run = agent.run("go");
    assert!(run.steer("wait"));
    until(&mut run, |kind| matches!(kind, EventKind::RunFinished { stop: FinishReason::Ended, .. })).await;
    // The inbox closes once the driver has returned its outcome.
    while run.steer("hello?") {
        tokio::task::yield_now().await;
    }
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Ended);
}

#[tokio::test]
async fn messages_to_a_run_that_is_cancelled_can_be_withdrawn_after_its_end() {
    let hangs = tool("hangs", |_, _| std::future::pending::<Result<String, ToolError>>());
    let agent = agent(ScriptedModel::new([Turn::call("hangs", json!({}))])).tool(hangs).build().unwrap();
    let mut run = agent.run("go");
    let handle = run.handle();
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    assert!(handle.enqueue("afterwards") && handle.steer("at once"));
    run.cancel();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Cancelled);
    assert!(!handle.steer("too late") && !handle.enqueue("too late"));
    let back: Vec<String> = handle.retract().iter().map(Message::text).collect();
    assert_eq!(back, ["at once", "afterwards"]);
}

#[tokio::test]
async fn messages_to_a_run_that_makes_no_further_model_call_can_be_withdrawn_after_its_end() {
    // A middleware ends the first run, the limit of model calls the second, and the budget the third.
    for (go_to, limit, input) in [
        (JumpTo::End, 1, RunInput::new("go")),
        (JumpTo::Continue, 1, RunInput::new("go")),
        (JumpTo::Continue, 9, RunInput::new("go").budget(Budget::default().model_calls(1))),
    ] {
        let (answered, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (tell, wait) = (answered.clone(), go.clone());
        let agent = agent(ScriptedModel::new([Turn::text("done")]))
            .middleware(after_model(move |_| {
                let (tell, wait) = (tell.clone(), wait.clone());
                async move {
                    tell.notify_one();
                    wait.notified().await;
                    Ok(HookOutput::go(go_to))
                }
            }))
            .max_model_calls(limit)
            .build()
            .unwrap();
        let run = agent.run(input);
        let handle = run.handle();
        answered.notified().await;
        assert!(handle.steer("at once") && handle.enqueue("afterwards"));
        go.notify_one();
        let expected = if go_to == JumpTo::End { FinishReason::Ended } else { FinishReason::Done };
        assert_eq!(run.outcome().await.unwrap().stop, expected);
        let back: Vec<String> = handle.retract().iter().map(Message::text).collect();
        assert_eq!(back, ["at once", "afterwards"]);
    }
}

/// A tool that interrupts once it is notified.
fn asking() -> (impl DynTool, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let wait = go.clone();
    let asks = tool("asks", move |_, cx| {
        let wait = wait.clone();
        async move {
            wait.notified().await;
            cx.interrupt("May I?", DecisionKind::ALL)?;
            Ok("asked")
        }
    });
    (asks, go)
}

#[tokio::test]
async fn a_message_to_a_run_about_to_wait_is_delivered_once_after_the_answer() {
    let (asks, go) = asking();
    let model = ScriptedModel::new([Turn::call("asks", json!({})), Turn::text("done")]);
    let agent = agent(model).tool(asks).journal(MemoryJournal::new()).build().unwrap();
    let mut run = agent.run(RunInput::new("go").thread("t"));
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    assert!(run.steer("in French, please"));
    go.notify_one();
    let mut waits = run.outcome().await.unwrap();
    // Resumed without an answer, the run waits again and keeps the message.
    go.notify_one();
    for _ in 0..2 {
        assert_eq!((waits.stop.clone(), waits.action_requests().len()), (FinishReason::Interrupted, 1));
        waits = agent.invoke(RunInput::resume("t")).await.unwrap();
    }
    let answer = RunInput::resume("t").decide(waits.action_requests().remove(0).id, Decision::Approve);
    let outcome = agent.invoke(answer).await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!(lines(outcome.messages())[2..], ["result: asked", "user: in French, please", "assistant: done"]);
}

/// Replies to the last message, once its tool has a result.
fn answers_everything(tool: &'static str) -> ScriptedModel {
    ScriptedModel::rules()
        .always(Turn::with(move |request| {
            if request.messages.len() == 1 {
                return Turn::call(tool, json!({}));
            }
            Turn::text(format!("re: {}", request.messages.last().unwrap().text()))
        }))
        .build()
}

#[tokio::test]
async fn follow_ups_survive_a_suspension_and_come_at_the_resumed_runs_end() {
    let go = Arc::new(Notify::new());
    let wait = go.clone();
    let work = tool("work", move |_, _| {
        let wait = wait.clone();
        async move {
            wait.notified().await;
            Ok("worked")
        }
    });
    let agent = agent(answers_everything("work")).tool(work).journal(MemoryJournal::new()).build().unwrap();
    let mut run = agent.run(RunInput::new("go").thread("t"));
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    let handle = run.handle();
    assert!(handle.steer("hurry") && handle.enqueue("and then") && handle.enqueue("at last"));
    handle.suspend();
    go.notify_one();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Suspended);
    assert!(!handle.enqueue("too late") && handle.retract().is_empty());
    let run = agent.run(RunInput::resume("t"));
    assert!(run.handle().enqueue("later still"));
    let (events, outcome) = watch(run).await;
    let outcome = outcome.unwrap();
    assert_sound(outcome.messages());
    let expected = [
        "result: worked",
        "user: hurry",
        "assistant: re: hurry",
        "user: and then",
        "assistant: re: and then",
        "user: at last",
        "assistant: re: at last",
        "user: later still",
        "assistant: re: later still",
    ];
    assert_eq!(lines(outcome.messages())[2..], expected);
    assert_eq!(events.iter().filter(|e| matches!(&e.kind, EventKind::Steered { .. })).count(), 4);
    let again = agent.invoke(RunInput::new("once more").thread("t")).await.unwrap();
    assert_eq!(lines(again.messages())[11..], ["user: once more", "assistant: re: once more"], "all was delivered");
}

#[tokio::test]
async fn follow_ups_survive_a_question_and_every_crash_until_they_are_delivered() {
    let (asks, go) = asking();
    let agent = agent(answers_everything("asks")).tool(asks).journal(MemoryJournal::new()).build().unwrap();
    let mut run = agent.run(RunInput::new("go").thread("t"));
    until(&mut run, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    assert!(run.handle().enqueue("and then"));
    go.notify_one();
    let mut waits = run.outcome().await.unwrap();
    for _ in 0..2 {
        assert_eq!((waits.stop.clone(), waits.action_requests().len()), (FinishReason::Interrupted, 1));
        waits = agent.invoke(RunInput::resume("t")).await.unwrap();
    }
    go.notify_one();
    let answer = RunInput::resume("t").decide(waits.action_requests().remove(0).id, Decision::Approve);
    let outcome = agent.invoke(answer).await.unwrap();
    let expected = ["result: asked", "assistant: re: asked", "user: and then", "assistant: re: and then"];
    assert_eq!(lines(outcome.messages())[2..], expected);
}
