//! Runs that end although their own code cannot end them: before their first step, or while it blocks a thread.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::error::{Error, Result};
use deepagents_core::event::{Event, EventKind};
use deepagents_core::middleware::{HookOutput, Middleware};
use deepagents_core::run::{Context, FinishReason, Outcome, Run, RunError, RunInput};
use deepagents_models::scripted::{ScriptedModel, Turn};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::support::{agent, watch};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

fn answering() -> Agent {
    agent(ScriptedModel::new([Turn::text("done")])).build().unwrap()
}

/// Reads a run to the end on a runtime of its own.
fn watched(run: Run) -> (Vec<Event>, Result<Outcome, Box<RunError>>) {
    let all = async { tokio::time::timeout(Duration::from_secs(60), watch(run)).await };
    runtime().block_on(all).expect("the stream of events ends")
}

#[track_caller]
fn assert_left(run: Run) {
    let handle = run.handle();
    let (events, outcome) = watched(run);
    assert!(matches!(*outcome.unwrap_err().error, Error::Left));
    assert!(matches!(events.last().unwrap().kind, EventKind::RunFailed { .. }), "{events:?}");
    assert!(!handle.steer("late") && !handle.enqueue("late"));
    runtime().block_on(async {
        let snapshot = tokio::time::timeout(Duration::from_secs(60), handle.snapshot()).await;
        assert!(snapshot.unwrap().open_calls.is_empty());
    });
}

#[test]
fn a_run_whose_runtime_shuts_down_before_its_first_step_ends_its_events() {
    let (runtime, agent) = (runtime(), answering());
    let run = {
        let _inside = runtime.enter();
        agent.run("go")
    };
    drop(runtime);
    assert_left(run);
}

#[tokio::test(start_paused = true)]
async fn a_run_aborted_before_its_first_step_ends_its_events() {
    let run = answering().run("go");
    run.suspend_within(Duration::ZERO).await;
    let (events, outcome) = tokio::time::timeout(Duration::from_secs(60), watch(run)).await.unwrap();
    let is_left = outcome.is_err_and(|failure| matches!(*failure.error, Error::Left));
    assert!(is_left || events.last().unwrap().kind.is_durable(), "{events:?}");
}

#[test]
fn a_named_run_on_a_runtime_that_was_shut_down_ends_and_can_be_started_again() {
    let (runtime_gone, agent) = (runtime(), answering());
    let gone = runtime_gone.handle().clone();
    drop(runtime_gone);
    let input = || RunInput::new("go").id("run");
    let run = {
        let _inside = gone.enter();
        agent.run(input())
    };
    assert_left(run);
    let outcome = runtime().block_on(async { agent.run(input()).outcome().await });
    assert_eq!(outcome.unwrap().stop, FinishReason::Done);
}

/// Blocks its thread until the sender is dropped.
struct Blocks {
    until: Mutex<Option<mpsc::Receiver<()>>>,
    reached: Arc<Notify>,
}

impl Middleware for Blocks {
    fn name(&self) -> &str {
        "Blocks"
    }

    async fn before_model(&self, _cx: &Context) -> Result<HookOutput> {
        let until = self.until.lock().unwrap().take();
        self.reached.notify_one();
        let _ = until.map(|until| until.recv());
        Ok(HookOutput::next())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_blocks_its_thread_does_not_delay_an_exit() {
    let (go, until) = mpsc::channel::<()>();
    let reached = Arc::new(Notify::new());
    let blocks = Blocks { until: Mutex::new(Some(until)), reached: reached.clone() };
    let agent = agent(ScriptedModel::new([Turn::text("done")])).middleware(blocks).build().unwrap();
    let run = agent.run("go").detach();
    reached.notified().await;
    let left = tokio::time::timeout(Duration::from_secs(60), run.suspend_within(Duration::ZERO)).await;
    let outlives = !run.is_finished();
    drop(go);
    left.expect("the process may exit");
    assert!(outlives, "the hook still blocked");
    // Whether it is suspended or aborted when its thread goes on depends on what its next poll reaches.
    let _ = run.outcome().await;
    assert!(run.is_finished());
}
