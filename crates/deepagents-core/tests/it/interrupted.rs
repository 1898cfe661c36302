//! Runs dropped or cancelled while they write, and hooks around invalid input.

use std::sync::Arc;
use std::time::Duration;

use deepagents_core::env::RandomIds;
use deepagents_core::event::EventKind;
use deepagents_core::forward_journal;
use deepagents_core::journal::{Appended, Fence, Journal, JournalError, LogPosition, MemoryJournal, Record};
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::future::BoxFuture;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

use crate::support::{agent, assert_sound, echo, lines, tool, until};

/// A journal that reports when an append begins, and requires a permit for each.
struct Slow {
    inner: MemoryJournal,
    begun: mpsc::UnboundedSender<usize>,
    permits: Arc<Semaphore>,
}

impl Journal for Slow {
    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        Box::pin(async move {
            self.begun.send(records.len()).unwrap();
            self.permits.acquire().await.unwrap().forget();
            self.inner.append(thread, fence, expected, records).await
        })
    }
    forward_journal!([.inner]; claim, renew, release, load, read, put_snapshot, threads);
}

#[tokio::test]
async fn a_cancel_during_an_append_lets_it_finish_and_leaves_a_resumable_log() {
    for cancelled_at in 0.. {
        let (begun, mut appends) = mpsc::unbounded_channel();
        let permits = Arc::new(Semaphore::new(0));
        let journal = Slow { inner: MemoryJournal::new(), begun, permits: permits.clone() };
        let turn = Turn::calls([("echo", json!({"n": 1})), ("echo", json!({"n": 2}))]);
        let model = ScriptedModel::rules().when(|r| r.messages.len() == 1, [turn]).always(Turn::text("done")).build();
        let agent = agent(model).tool(echo()).journal(journal).build().unwrap();
        let run = agent.run(RunInput::new("go").thread("t"));
        let canceller = run.canceller();
        let pace = tokio::spawn(async move {
            let mut count = 0;
            while appends.recv().await.is_some() {
                if count == cancelled_at {
                    canceller.cancel();
                }
                count += 1;
                permits.add_permits(1);
            }
        });
        let outcome = run.outcome().await.unwrap();
        assert_sound(outcome.messages());
        let stored = agent.state("t").await.unwrap();
        assert_eq!(stored.messages(), outcome.messages(), "cancelled at append {cancelled_at}");
        let next = agent.invoke(RunInput::new("and now?").thread("t")).await.unwrap();
        assert_sound(next.messages());
        assert_eq!(next.text(), "done");
        drop(agent);
        pace.await.unwrap();
        if outcome.stop == FinishReason::Done {
            assert!(cancelled_at > 3, "the run has only {cancelled_at} appends");
            break;
        }
    }
}

#[tokio::test]
async fn dropping_a_runs_future_leaves_a_resumable_thread() {
    let (began, mut wait) = mpsc::unbounded_channel();
    let hangs = tool("hangs", move |_, _| {
        began.send(()).unwrap();
        async {
            std::future::pending::<()>().await;
            Ok("never")
        }
    });
    let turn = Turn::calls([("hangs", json!({})), ("echo", json!({}))]);
    let agent = agent(ScriptedModel::new([turn, Turn::text("done")]))
        .tool(hangs)
        .tool(echo())
        .journal(MemoryJournal::new())
        .build()
        .unwrap();
    tokio::select! {
        _ = agent.invoke(RunInput::new("go").thread("t")) => panic!("the tool hangs"),
        Some(()) = wait.recv() => {}
    }
    let outcome = agent.invoke(RunInput::new("what happened?").thread("t")).await.unwrap();
    assert_sound(outcome.messages());
    let lines = lines(outcome.messages());
    assert!(lines[2].contains("whether it took effect is unknown"), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "assistant: done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_runs_of_one_agent_on_many_threads_do_not_interfere() {
    let calls = Turn::calls((0..10).map(|n| ("echo", json!({"n": n}))));
    let model = ScriptedModel::rules()
        .when(|r| r.messages.len() == 1, vec![calls; 40])
        .always(Turn::with(|request| Turn::text(request.messages.len().to_string())))
        .build();
    let agent = agent(model).tool(echo()).journal(MemoryJournal::new()).build().unwrap();
    let runs: Vec<_> = (0..40)
        .map(|n| {
            let agent = agent.clone();
            tokio::spawn(async move { agent.run(RunInput::new("go").thread(format!("t{n}"))).outcome().await })
        })
        .collect();
    for run in runs {
        let outcome = run.await.unwrap().unwrap();
        assert_sound(outcome.messages());
        assert_eq!(outcome.text(), "12");
        let results = (0..10).map(|n| format!("result: {{\"n\":{n}}}")).collect::<Vec<_>>();
        assert_eq!(lines(outcome.messages())[2..12], results);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_stopped_from_outside_continues_when_resumed() {
    type Limit = fn(RunInput) -> RunInput;
    let forever = Duration::from_secs(3600);
    let echoes = || Turn::call("echo", json!({}));
    let stopped: [(Vec<Turn>, Limit, FinishReason); 3] = [
        (vec![echoes(), Turn::text("never").delay(forever)], |input| input, FinishReason::Cancelled),
        (
            vec![echoes(), Turn::text("never").delay(forever)],
            |input| input.timeout(Duration::from_millis(50)),
            FinishReason::Deadline,
        ),
        (vec![echoes(), echoes()], |input| input.max_model_calls(2), FinishReason::StepLimit),
    ];
    for (turns, limit, stop) in stopped {
        let journal = Arc::new(MemoryJournal::new());
        let first = agent(ScriptedModel::new(turns)).tool(echo()).journal(journal.clone()).build().unwrap();
        let mut run = first.run(limit(RunInput::new("go").thread("t")));
        if stop == FinishReason::Cancelled {
            until(&mut run, |kind| matches!(kind, EventKind::ModelStarted { turn: 1, .. })).await;
            run.cancel();
        }
        let outcome = run.outcome().await.unwrap();
        assert_eq!(outcome.stop, stop);
        let more = agent(ScriptedModel::new([Turn::text("done")])).ids(RandomIds).tool(echo()).journal(journal);
        let resumed = more.build().unwrap().invoke(RunInput::resume("t").max_model_calls(9)).await.unwrap();
        assert_eq!((resumed.text().as_str(), &resumed.stop), ("done", &FinishReason::Done), "after {stop:?}");
        assert_eq!(resumed.messages().len(), outcome.messages().len() + 1, "after {stop:?}");
        assert_sound(resumed.messages());
    }
}
