//! Threads over several runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deepagents_core::agent::{Agent, RewindPlan};
use deepagents_core::error::Error;
use deepagents_core::event::EventKind;
use deepagents_core::forward_journal;
use deepagents_core::journal::{Appended, Fence, Journal, JournalError, LogPosition, MemoryJournal, Record};
use deepagents_core::message::Message;
use deepagents_core::run::{Node, RunInput};
use deepagents_core::state::Update;
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use serde_json::json;
use tokio::sync::Notify;

use crate::support::{agent, assert_sound, echo, lines, tool, until};

fn counting() -> ScriptedModel {
    ScriptedModel::rules().always(Turn::with(|request| Turn::text(request.messages.len().to_string()))).build()
}

async fn said(agent: &Agent, thread: &str, text: &str) -> Vec<String> {
    let outcome = agent.invoke(RunInput::new(text).thread(thread)).await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!(outcome.thread.as_deref(), Some(thread));
    lines(outcome.messages())
}

#[tokio::test]
async fn a_thread_continues_across_runs_and_agents_that_share_its_journal() {
    let journal = Arc::new(MemoryJournal::new());
    let one = agent(counting()).journal(journal.clone()).build().unwrap();
    said(&one, "t", "a").await;
    // IDs must not repeat across processes; here the IDs of the second agent start at another number.
    let two = Agent::builder(counting()).journal(journal).build().unwrap();
    assert_eq!(said(&two, "t", "b").await, ["user: a", "assistant: 1", "user: b", "assistant: 3"]);
    assert_eq!(lines(one.state("t").await.unwrap().messages()).len(), 4);
}

#[tokio::test]
async fn threads_are_isolated_and_an_unknown_one_is_empty() {
    let agent = agent(counting()).journal(MemoryJournal::new()).build().unwrap();
    said(&agent, "t", "a").await;
    assert_eq!(said(&agent, "u", "b").await, ["user: b", "assistant: 1"]);
    assert!(agent.state("v").await.unwrap().messages().is_empty());
}

#[tokio::test]
async fn a_thread_without_a_journal_is_an_error_that_names_the_remedy() {
    let agent = agent(counting()).build().unwrap();
    let error = agent.invoke(RunInput::new("a").thread("t")).await.unwrap_err();
    assert!(matches!(&*error.error, Error::Input(text) if text.contains("journal")), "{error}");
}

#[tokio::test]
async fn a_run_without_a_thread_writes_nothing_to_the_journal() {
    let journal = Arc::new(MemoryJournal::new());
    let agent = agent(counting()).journal(journal.clone()).build().unwrap();
    agent.invoke("a").await.unwrap();
    assert!(agent.state("").await.unwrap().messages().is_empty());
}

/// An agent with a tool that waits until notified.
fn waiting() -> (Agent, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let wait = go.clone();
    let slow = tool("slow", move |_, _| {
        let wait = wait.clone();
        async move {
            wait.notified().await;
            Ok("at last")
        }
    });
    let model = ScriptedModel::rules()
        .when(|r| r.messages.len() == 1, [Turn::call("slow", json!({}))])
        .always(Turn::text("done"))
        .build();
    (agent(model).tool(slow).journal(MemoryJournal::new()).build().unwrap(), go)
}

#[tokio::test]
async fn a_run_on_a_busy_thread_is_refused_and_does_no_damage() {
    let (agent, go) = waiting();
    let mut first = agent.run(RunInput::new("one").thread("t"));
    until(&mut first, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    let error = agent.invoke(RunInput::new("two").thread("t")).await.unwrap_err();
    assert!(matches!(&*error.error, Error::Journal(JournalError::Busy { .. })), "{error:?}");
    go.notify_one();
    assert_eq!(lines(first.outcome().await.unwrap().messages()).len(), 4);
    assert_eq!(said(&agent, "t", "two").await.len(), 6, "the thread is free again");
}

#[tokio::test]
async fn a_run_whose_thread_is_taken_over_fails_and_does_no_damage() {
    let (agent, go) = waiting();
    let mut first = agent.run(RunInput::new("one").thread("t"));
    until(&mut first, |kind| matches!(kind, EventKind::ToolStarted { .. })).await;
    let second = agent.invoke(RunInput::new("two").thread("t").take_over()).await.unwrap();
    assert_sound(second.messages());
    go.notify_one();
    let error = first.outcome().await.unwrap_err();
    assert!(matches!(&*error.error, Error::Journal(JournalError::Fenced { .. })), "{error:?}");
    assert_sound(error.state.messages());
    let stored = agent.state("t").await.unwrap();
    assert_sound(stored.messages());
    assert_eq!(stored.messages(), second.messages());
}

/// A journal whose storage fails once, on demand.
#[derive(Default)]
struct Flaky {
    inner: MemoryJournal,
    fails: Arc<AtomicBool>,
}

impl Journal for Flaky {
    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        if self.fails.swap(false, Ordering::SeqCst) {
            return Box::pin(async { Err(JournalError::Storage("the disk is full".into())) });
        }
        self.inner.append(thread, fence, expected, records)
    }
    forward_journal!([.inner]; claim, renew, release, load, read, put_snapshot, threads);
}

#[tokio::test]
async fn a_journal_failure_in_mid_turn_ends_the_run_and_leaves_a_resumable_log() {
    let journal = Flaky::default();
    let fails = journal.fails.clone();
    let breaks = tool("breaks", move |_, _| {
        fails.store(true, Ordering::SeqCst);
        async { Ok("done, but not stored") }
    });
    let turn = Turn::calls([("echo", json!({})), ("breaks", json!({}))]);
    let agent = agent(ScriptedModel::new([turn, Turn::text("again")]))
        .tool(breaks)
        .tool(echo())
        .journal(journal)
        .build()
        .unwrap();
    let error = agent.invoke(RunInput::new("go").thread("t")).await.unwrap_err();
    assert_eq!(error.kind(), "journal");
    assert_sound(error.state.messages());
    let lines = said(&agent, "t", "what now?").await;
    assert!(lines[3].starts_with("error: ") && lines[3].contains("unknown"), "{lines:?}");
    assert_eq!(lines[4..], ["user: what now?", "assistant: again"]);
}

#[tokio::test]
async fn a_journal_failure_at_the_start_fails_the_run_before_any_model_call() {
    let journal = Flaky::default();
    journal.fails.store(true, Ordering::SeqCst);
    let model = counting();
    let agent = agent(model.clone()).journal(journal).build().unwrap();
    agent.invoke(RunInput::new("go").thread("t")).await.unwrap_err();
    assert!(model.requests().is_empty());
    assert_eq!(said(&agent, "t", "again").await, ["user: again", "assistant: 1"]);
}

#[tokio::test]
async fn a_long_thread_continues_and_every_turn_has_its_own_number() {
    let model = ScriptedModel::rules()
        .when(|r| r.messages.len() % 4 == 1, (0..20).map(|_| Turn::call("echo", json!({}))).collect::<Vec<_>>())
        .always(Turn::text("ok"))
        .build();
    let agent = agent(model).tool(echo()).journal(MemoryJournal::new()).build().unwrap();
    for round in 0..20 {
        let lines = said(&agent, "t", "more").await;
        assert_eq!(lines.len(), (round + 1) * 4);
    }
}

#[tokio::test]
async fn a_rewind_with_outside_effects_is_a_single_step_and_can_be_undone() {
    let agent = agent(counting()).journal(MemoryJournal::new()).build().unwrap();
    said(&agent, "t", "one").await;
    let first = agent.history("t", None, 1).await.unwrap()[0].position;
    said(&agent, "t", "two").await;
    let whole = agent.state("t").await.unwrap();

    let note = |text: &str| Update::message(Message::harness(text));
    let back = agent.rewind_with("t", first, async |here, there| {
        assert_eq!((here.messages().len(), there.messages().len()), (4, 2));
        // Nobody else can change the thread meanwhile.
        let busy = agent.update_state("t", note("busy")).await.unwrap_err();
        assert!(matches!(busy, Error::Journal(JournalError::Busy { .. })), "{busy}");
        Ok::<_, Error>(RewindPlan { left: note("left"), target: note("gone back") })
    });
    let back = back.await.unwrap();
    assert_eq!(lines(agent.state("t").await.unwrap().messages())[2..], ["user: gone back"]);
    let left = agent.state_at("t", back.left).await.unwrap();
    assert_eq!(lines(left.messages())[4..], ["user: left"]);
    assert_eq!(lines(left.messages())[..4], lines(whole.messages()));
    assert!(left.messages().iter().all(|message| !message.id().is_empty()));

    let failed = agent.rewind_with("t", back.left, async |_, _| Err(Error::Input("no".to_owned()))).await;
    assert!(failed.is_err());
    assert_eq!(agent.state("t").await.unwrap().messages().len(), 3, "the thread stays as it was");
    agent.rewind("t", back.left).await.unwrap();
    assert_eq!(agent.state("t").await.unwrap().messages().len(), 5);
}

/// A journal that cannot release leases.
#[derive(Default)]
struct Sticky {
    inner: MemoryJournal,
}

impl Journal for Sticky {
    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        self.inner.append(thread, fence, expected, records)
    }
    fn release<'a>(&'a self, thread: &'a str, _: Fence) -> BoxFuture<'a, Result<(), JournalError>> {
        assert!(!thread.is_empty());
        Box::pin(async { Err(JournalError::Storage("the line is cut".into())) })
    }
    forward_journal!([.inner]; claim, renew, load, read, put_snapshot, threads);
}

#[tokio::test]
async fn a_change_to_a_thread_counts_even_if_releasing_the_thread_fails() {
    let agent = agent(counting()).journal(Sticky::default()).build().unwrap();
    let note = Update::message(Message::harness("noted"));
    let changed = agent.update_state("a", note.clone()).await.unwrap();
    assert_eq!(agent.state_at("a", changed).await.unwrap().messages().len(), 1);
    assert_eq!(agent.update_state_as("b", Node::Input, note).await.unwrap(), 3);
    let failed = agent.rewind_with("c", 0, async |_, _| Err(Error::Input("no".to_owned()))).await.unwrap_err();
    assert_eq!(failed.to_string(), "no", "why it failed is what is told");
    let refused = agent.invoke(RunInput::resume("d")).await.unwrap_err();
    assert!(refused.to_string().contains("no run to resume"), "{refused}");
}

#[tokio::test]
async fn dropping_a_change_halfway_releases_the_thread() {
    let agent = agent(counting()).journal(MemoryJournal::new()).build().unwrap();
    let rewind = agent.rewind_with("t", 0, async |_, _| std::future::pending::<Result<RewindPlan, Error>>().await);
    assert!(rewind.now_or_never().is_none());
    said(&agent, "t", "a").await;
}

#[tokio::test]
async fn a_rewind_from_an_end_that_has_moved_is_a_conflict_unless_it_was_this_rewind() {
    let agent = agent(counting()).journal(MemoryJournal::new()).build().unwrap();
    said(&agent, "t", "a").await;
    let threads = agent.threads().unwrap();
    let end = async || threads.journal().threads().get("t").await.unwrap().unwrap().end;
    let to = end().await;
    said(&agent, "t", "b").await;
    let left = end().await;
    agent.update_state("t", Update::message(Message::user("c"))).await.unwrap();
    let refused = threads.rewind_from("t", left, to).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Journal(JournalError::Conflict { expected, .. }) if *expected == left),
        "{refused}"
    );
    assert_eq!(agent.state("t").await.unwrap().messages().len(), 5);
    let left = end().await;
    let rewound = threads.rewind_from("t", left, to).await.unwrap();
    assert_eq!((rewound, agent.state("t").await.unwrap().messages().len()), (left + 1, 2));
    assert_eq!(threads.rewind_from("t", left, to).await.unwrap(), rewound);
    assert_eq!(end().await, rewound);
    threads.update_state("t", Update::message(Message::user("later"))).await.unwrap();
    assert_eq!(threads.rewind_from("t", left, to).await.unwrap(), rewound, "also if others went on");
}
