//! The history of a thread, page by page from the end.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deepagents_core::agent::{Agent, LatestState};
use deepagents_core::forward_journal;
use deepagents_core::journal::{
    Checkpoint, CheckpointSource, Journal, JournalError, LogEntry, LogPosition, MemoryJournal, Record, RetentionPolicy,
    checkpoints, load, load_each,
};
use deepagents_core::message::Message;
use deepagents_core::run::{Machine, Node, RunInput};
use deepagents_core::state::Update;
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::future::BoxFuture;
use serde_json::json;

use crate::support::{agent, echo, records, write};

/// A journal that counts the entries read.
#[derive(Default)]
struct Counted {
    inner: MemoryJournal,
    entries: AtomicU64,
}

impl Journal for Counted {
    forward_journal!([.inner]; claim, renew, release, load, put_snapshot, threads);

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: deepagents_core::journal::Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<deepagents_core::journal::Appended, JournalError>> {
        self.inner.append(thread, fence, expected, records)
    }
    fn read<'a>(
        &'a self,
        thread: &'a str,
        positions: Range<LogPosition>,
    ) -> BoxFuture<'a, Result<Vec<LogEntry>, JournalError>> {
        Box::pin(async move {
            let entries = self.inner.read(thread, positions).await?;
            self.entries.fetch_add(entries.len() as u64, Ordering::Relaxed);
            Ok(entries)
        })
    }
}

fn talker(journal: Arc<impl Journal>) -> Agent {
    let model = ScriptedModel::rules()
        .always(Turn::with(|request| match request.messages.len() % 5 {
            1 => Turn::call("echo", json!({"n": request.messages.len()})),
            _ => Turn::text("yes"),
        }))
        .build();
    agent(model).tool(echo()).journal(journal).build().unwrap()
}

/// A thread with runs, changes by the application, and rewinds.
async fn eventful(journal: &Arc<MemoryJournal>) -> Agent {
    let agent = talker(journal.clone());
    for n in 0..40 {
        agent.invoke(RunInput::new(format!("{n}")).thread("t")).await.unwrap();
        if n % 7 == 3 {
            agent.update_state("t", Update::message(Message::user("by the way"))).await.unwrap();
        }
        if n % 11 == 5 {
            let back = agent.history("t", None, 6).await.unwrap().last().unwrap().position;
            agent.rewind("t", back).await.unwrap();
        }
        if n % 13 == 6 {
            let said = Update::message(Message::Assistant(deepagents_core::message::AssistantMessage::new(vec![
                deepagents_core::message::Block::text("I say"),
            ])));
            agent.update_state_as("t", Node::Model, said).await.unwrap();
        }
    }
    agent
}

/// The checkpoints of the records, from first to last.
async fn forwards(
    journal: &MemoryJournal,
) -> Vec<(LogPosition, Option<LogPosition>, Option<String>, CheckpointSource)> {
    let mut out = Vec::new();
    let (mut run, mut last, mut begun, mut changed) = (None, None, false, false);
    for entry in journal.read("t", 0..LogPosition::MAX).await.unwrap() {
        let mut parent = last;
        if let Record::Step { run: Some(id), .. } = &entry.record {
            run = Some(id.clone());
        }
        let source = match entry.record {
            Record::RunStarted { run: id, .. } => {
                (run, begun, changed) = (Some(id), true, false);
                continue;
            }
            Record::RunResumed { run: id, .. } => {
                run = Some(id);
                continue;
            }
            Record::StateUpdated { .. } if begun => {
                changed = true;
                continue;
            }
            Record::Step { .. } if std::mem::take(&mut begun) && !changed => CheckpointSource::Input,
            Record::Step { .. } if std::mem::take(&mut changed) => CheckpointSource::Update,
            Record::Step { .. } => CheckpointSource::Step,
            Record::StateUpdated { .. } => CheckpointSource::Update,
            Record::Rewind { to, .. } => {
                parent = (to > 0).then_some(to);
                CheckpointSource::Rewind
            }
            _ => continue,
        };
        last = Some(entry.position + 1);
        out.push((entry.position + 1, parent, run.clone(), source));
    }
    out.reverse();
    out
}

fn told(page: &[Checkpoint]) -> Vec<(LogPosition, Option<LogPosition>, Option<String>, CheckpointSource)> {
    page.iter().map(|c| (c.position, c.parent, c.run.clone(), c.origin)).collect()
}

#[tokio::test]
async fn history_pages_read_backwards_match_the_whole_log() {
    let journal = Arc::new(MemoryJournal::new());
    let agent = eventful(&journal).await;
    let mut all = forwards(&journal).await;
    for pruned in [false, true] {
        if pruned {
            let from = all[all.len() / 2].0;
            agent.prune("t", &RetentionPolicy::From(from)).await.unwrap();
            let run = all[all.len() / 4].2.clone().unwrap();
            agent.prune("t", &RetentionPolicy::NotRuns(vec![run])).await.unwrap();
            all = forwards(&journal).await;
        }
        assert_eq!(told(&agent.history("t", None, usize::MAX).await.unwrap()), all);
        let end = all[0].0;
        for limit in [1, 2, 7, 30] {
            for before in (0..=end + 2).map(Some).chain([None]) {
                let page = agent.history("t", before, limit).await.unwrap();
                let earlier = all.iter().filter(|c| before.is_none_or(|before| c.0 < before));
                let expected: Vec<_> = earlier.take(limit).cloned().collect();
                assert_eq!(told(&page), expected, "before {before:?}, {limit}");
            }
        }
    }
    assert!(agent.history("t", None, 0).await.unwrap().is_empty());
    assert!(agent.history("nobody", None, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_cost_of_a_history_page_does_not_depend_on_the_threads_length() {
    let journal = Arc::new(Counted::default());
    let step = |run: Option<&str>| Record::Step { machine: Machine::new(0, 1), run: run.map(str::to_owned) };
    let started = Record::RunStarted { run: "r".to_owned(), at: "1970-01-01T00:00:00Z".to_owned(), thread: None };
    let long: Vec<Record> = std::iter::once(started).chain((0..20_000).map(|_| step(Some("r")))).collect();
    write(&*journal, "new", 0, long.clone()).await.unwrap();
    let found = checkpoints(&*journal, "new", None, 10).await.unwrap();
    assert_eq!(found.len(), 10);
    assert!(found.iter().all(|c| c.run.as_deref() == Some("r") && c.origin == CheckpointSource::Step));
    let read = journal.entries.swap(0, Ordering::Relaxed);
    assert!(read <= 64, "{read} entries for ten checkpoints");

    // Records of earlier versions do not name their run, and the search for its start is bounded.
    let old = long.into_iter().map(|record| if let Record::Step { .. } = record { step(None) } else { record });
    write(&*journal, "old", 0, old.collect()).await.unwrap();
    let found = checkpoints(&*journal, "old", None, 10).await.unwrap();
    assert_eq!((found.len(), found[0].run.clone()), (10, None));
    let read = journal.entries.load(Ordering::Relaxed);
    assert!(read <= 5_000, "{read} entries for ten checkpoints");
    let near = checkpoints(&*journal, "old", Some(3_000), 10).await.unwrap();
    assert_eq!(near[0].run.as_deref(), Some("r"));
    assert_eq!(records(&journal.inner, "old").await.len(), 20_001);
}

#[tokio::test]
async fn loading_several_states_equals_loading_each_one() {
    let journal = Arc::new(MemoryJournal::new());
    let agent = eventful(&journal).await;
    let (schema, end) = (agent.schema().clone(), records(&*journal, "t").await.len() as LogPosition);
    for positions in [
        (0..=end).collect::<Vec<_>>(),
        (0..=end).rev().step_by(3).collect(),
        agent.history("t", None, 50).await.unwrap().iter().map(|checkpoint| checkpoint.position).collect(),
        vec![end, end, 5, end],
    ] {
        let each = load_each(&*journal, "t", schema.clone(), &positions).await.unwrap();
        assert_eq!(each.len(), positions.len());
        for (at, state) in positions.iter().zip(each) {
            let alone = load(&*journal, "t", schema.clone(), Some(*at)).await.unwrap();
            assert_eq!(state.state.to_json(true).unwrap(), alone.state.to_json(true).unwrap(), "at {at}");
            assert_eq!(
                (state.machine, state.in_doubt, state.end),
                (alone.machine, alone.in_doubt, alone.end),
                "at {at}"
            );
        }
    }
    assert!(load_each(&*journal, "t", schema.clone(), &[end, end + 1]).await.is_err());
    agent.prune("t", &RetentionPolicy::From(end / 2)).await.unwrap();
    assert!(load_each(&*journal, "t", schema, &[1]).await.is_err());
}

#[tokio::test]
async fn the_latest_state_is_read_from_what_was_appended_also_after_a_rewind_and_in_a_new_thread() {
    let journal = Arc::new(Counted::default());
    let agent = talker(journal.clone());
    let mut latest = LatestState::new(&agent.threads().unwrap(), "t");
    assert_eq!(latest.read().await.unwrap().1, 0);
    let mut ends = vec![0];
    for n in 0..5 {
        agent.invoke(RunInput::new(format!("{n}")).thread("t")).await.unwrap();
        let before = journal.entries.load(Ordering::Relaxed);
        let (state, end) = latest.read().await.unwrap();
        assert_eq!(state.messages(), agent.state("t").await.unwrap().messages(), "{n}");
        let read = journal.entries.load(Ordering::Relaxed) - before;
        assert!(n == 0 || read == end - ends[n], "{read} entries of {end} are read after {ends:?}");
        ends.push(end);
    }
    agent.rewind("t", ends[2]).await.unwrap();
    let (state, end) = latest.read().await.unwrap();
    assert_eq!((state.messages(), end), (agent.state("t").await.unwrap().messages(), ends[5] + 1));
    journal.threads().delete("t").await.unwrap();
    assert!(latest.read().await.unwrap().0.messages().is_empty());
    for _ in 0..9 {
        agent.invoke(RunInput::new("anew").thread("t")).await.unwrap();
    }
    assert_eq!(latest.read().await.unwrap().0.messages(), agent.state("t").await.unwrap().messages());
}
