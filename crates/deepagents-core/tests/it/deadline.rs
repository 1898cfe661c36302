//! Runs past their deadline, on tokio's paused clock.

use std::time::Duration;

use deepagents_core::error::Result;
use deepagents_core::middleware::{HookOutput, ModelResponse, before_model, wrap_model_call};
use deepagents_core::run::{Context, FinishReason, RunInput};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::json;
use tokio::time::Instant;

use crate::support::{agent, assert_sound, lines, tool};

const MINUTE: Duration = Duration::from_secs(60);

fn input() -> RunInput {
    RunInput::new("go").timeout(MINUTE)
}

#[tokio::test(start_paused = true)]
async fn a_model_call_ends_at_the_deadline() {
    let begin = Instant::now();
    let agent = agent(ScriptedModel::new([Turn::text("late").delay(MINUTE * 60)])).build().unwrap();
    let outcome = agent.invoke(input()).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Deadline);
    assert_eq!(lines(outcome.messages()), ["user: go"]);
    assert_eq!(begin.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn tools_end_at_the_deadline_and_are_answered_and_cancelled() {
    let slow = tool("slow", |args, cx| async move {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(args["seconds"].as_u64().unwrap())) => Ok("in time"),
            () = cx.cancellation().cancelled() => std::future::pending().await,
        }
    });
    let turn = Turn::calls([("slow", json!({"seconds": 3600})), ("slow", json!({"seconds": 5}))]);
    let agent = agent(ScriptedModel::new([turn])).tool(slow).build().unwrap();
    let outcome = agent.run(input()).outcome().await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Deadline);
    assert_sound(outcome.messages());
    let expected = ["error: The call of slow was not completed: the run's time was up.", "result: in time"];
    assert_eq!(lines(outcome.messages())[2..], expected);
}

#[tokio::test(start_paused = true)]
async fn a_hook_and_a_wrap_end_at_the_deadline_too() {
    let hangs = before_model(|_: Context| std::future::pending::<Result<HookOutput>>());
    let stuck = wrap_model_call(|_, _| std::future::pending::<Result<ModelResponse>>());
    for builder in [agent(ScriptedModel::new([])).middleware(hangs), agent(ScriptedModel::new([])).middleware(stuck)] {
        let outcome = builder.build().unwrap().invoke(input()).await.unwrap();
        assert_eq!(outcome.stop, FinishReason::Deadline);
        assert_eq!(lines(outcome.messages()), ["user: go"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_finishes_in_time_is_unaffected_by_its_deadline() {
    let turn = Turn::text("done").delay(Duration::from_secs(59));
    let outcome = agent(ScriptedModel::new([turn])).build().unwrap().invoke(input()).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Done);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_beyond_the_clocks_range_means_no_timeout() {
    let agent = agent(ScriptedModel::new([Turn::text("done")])).build().unwrap();
    let outcome = agent.invoke(RunInput::new("go").timeout(Duration::MAX)).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Done);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_blocks_its_thread_cannot_hold_up_a_halted_run_forever() {
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let blocks = tool("blocks", move |_, _| {
        let wait = wait.clone();
        async move {
            let _ = tokio::task::spawn_blocking(move || wait.lock().unwrap().recv()).await;
            Ok("late")
        }
    });
    let agent = agent(ScriptedModel::new([Turn::call("blocks", json!({}))])).tool(blocks).build().unwrap();
    let run = agent.run("go");
    let canceller = run.canceller();
    tokio::spawn(async move {
        tokio::task::yield_now().await;
        canceller.cancel();
    });
    let outcome = run.outcome().await.unwrap();
    release.send(()).unwrap_or_default();
    assert_eq!(outcome.stop, FinishReason::Cancelled);
    assert_sound(outcome.messages());
}
