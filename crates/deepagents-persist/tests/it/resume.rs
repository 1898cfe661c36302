//! Resumed runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use deepagents_core::agent::Agent;
use deepagents_core::error::Error;
use deepagents_core::journal::{CheckpointSource, Journal, MemoryJournal, Record, RetentionPolicy, RunStatus};
use deepagents_core::message::{Message, Messages};
use deepagents_core::model::{ErrorInfo, ModelError};
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_core::state::Update;
use deepagents_core::tool::{Effect, ToolOutput, json_tool};
use deepagents_models::scripted::{ScriptedModel, Turn, check_history};
use deepagents_persist::Sqlite;
use serde_json::{Value, json};

use crate::sqlite::place;

/// How often each call ran, by its ID.
type Ran = Arc<Mutex<BTreeMap<String, usize>>>;

/// An agent of three turns: two calls, of which one adds a message; three calls; the end.
fn agent(journal: Arc<dyn Journal>, ran: &Ran) -> Agent {
    let model = ScriptedModel::rules()
        .always(Turn::with(|request| match request.messages.iter().filter(|m| m.as_assistant().is_some()).count() {
            0 => Turn::calls([("read", json!({"n": 0})), ("send", json!({"n": 1}))]),
            1 => Turn::calls([("send", json!({"n": 2})), ("read", json!({"n": 3})), ("send", json!({"n": 4}))]),
            _ => Turn::text("done"),
        }))
        .build();
    let tool = |name: &str| {
        let ran = ran.clone();
        json_tool(name, "Works.", json!({"type": "object"}), move |args: Value, cx| {
            *ran.lock().unwrap().entry(cx.call_id().to_string()).or_default() += 1;
            async move {
                let output = ToolOutput::text(format!("result {}", args["n"]));
                Ok(if args["n"] == 1 {
                    output.with_update(Update::message(Message::harness("beside")))
                } else {
                    output
                })
            }
        })
    };
    Agent::builder(model).tool(tool("read").effect(Effect::Read)).tool(tool("send")).journal(journal).build().unwrap()
}

fn words(messages: &Messages) -> Vec<String> {
    messages.iter().map(|message| message.text()).collect()
}

/// Runs a test on an empty journal of each kind; on Postgres if there is one.
pub(crate) async fn each(case: impl AsyncFn(Arc<dyn Journal>)) {
    case(Arc::new(MemoryJournal::new())).await;
    case(Arc::new(Sqlite::open(place()).await.unwrap())).await;
    if let Some(postgres) = crate::postgres::database(None).await {
        case(Arc::new(postgres)).await;
    }
}

#[tokio::test]
async fn a_run_interrupted_anywhere_resumes_to_the_same_end_without_repeating_calls() {
    each(async |journal| {
        let first = Ran::default();
        let whole = agent(journal.clone(), &first).invoke(RunInput::new("go").thread("t")).await.unwrap();
        assert_eq!(first.lock().unwrap().values().copied().collect::<Vec<_>>(), [1; 5]);
        let end = journal.load("t", None).await.unwrap().end;
        assert!(end > 25, "{end}");
        let positions = agent(journal.clone(), &first).history("t", None, 99).await.unwrap();
        let begin = positions.iter().find(|c| c.origin == CheckpointSource::Input).unwrap().position;
        let entries = journal.read("t", 0..end).await.unwrap();
        // A step and its records are appended together, so no log ends between them.
        let may_end = |record: &Record| !matches!(record, Record::Update { .. } | Record::ToolsCommitted { .. });
        for cut in (begin..end).filter(|cut| may_end(&entries[*cut as usize - 1].record)) {
            let thread = format!("cut-{cut}");
            journal.threads().copy("t", &thread, Some(cut)).await.unwrap();
            let ran = Ran::default();
            let agent = agent(journal.clone(), &ran);
            let before =
                deepagents_core::journal::load(&*journal, &thread, agent.schema().clone(), None).await.unwrap();
            let outcome = agent.resume(&*thread).outcome().await.unwrap();
            check_history(outcome.messages()).unwrap();
            assert_eq!(outcome.stop, FinishReason::Done, "cut at {cut}");
            let (got, mut wanted) = (words(outcome.messages()), words(whole.messages()));
            // The additional message of a call is lost if its outcome is unknown.
            if before.in_doubt.keys().any(|call| (call.turn, call.index) == (0, 1)) {
                wanted.retain(|text| text != "beside");
            }
            assert_eq!(got.len(), wanted.len(), "cut at {cut}: {got:?}");
            for (got, wanted) in got.iter().zip(&wanted) {
                assert!(got == wanted || got.contains("is unknown"), "cut at {cut}: {got}");
            }
            let ran = ran.lock().unwrap().clone();
            for (call, (_, name, repeatable)) in &before.in_doubt {
                let times = ran.get(&call.to_string()).copied().unwrap_or(0);
                assert_eq!(
                    (times, *repeatable),
                    if name == "read" { (1, true) } else { (0, false) },
                    "{call} cut at {cut}"
                );
            }
            assert!(ran.values().all(|times| *times == 1), "cut at {cut}: {ran:?}");
            let finished = whole.messages().len() - 4 - before.in_doubt.len();
            assert!(ran.len() <= finished + before.in_doubt.len(), "cut at {cut}");
            assert_eq!(
                agent.state(&thread).await.unwrap().messages(),
                outcome.messages(),
                "the log folds to what was left"
            );
            assert_eq!(journal.threads().get(&thread).await.unwrap().unwrap().status, RunStatus::Ended);
        }
    })
    .await;
}

#[tokio::test]
async fn a_finished_run_is_not_resumed_and_writes_nothing() {
    each(async |journal| {
        let ran = Ran::default();
        let agent = agent(journal.clone(), &ran);
        let whole = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
        let end = journal.load("t", None).await.unwrap().end;
        let again = agent.resume("t").outcome().await.unwrap();
        assert_eq!((&again.stop, again.messages()), (&FinishReason::Done, whole.messages()));
        assert_eq!(journal.load("t", None).await.unwrap().end, end);
        let error = agent.resume("nobody").outcome().await.unwrap_err();
        assert!(matches!(&*error.error, Error::Input(text) if text.contains("nobody")), "{error}");
        assert!(journal.threads().get("nobody").await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_failed_run_resumes_where_it_failed() {
    each(async |journal| {
        let asked = AtomicU32::new(0);
        let model = ScriptedModel::rules()
            .always(Turn::with(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
                0 => Turn::text("half"),
                1 => Turn::error(ModelError::Auth(ErrorInfo::default())),
                _ => Turn::text("whole"),
            }))
            .build();
        let agent = Agent::builder(model).journal(journal.clone()).build().unwrap();
        agent.invoke(RunInput::new("one").thread("t")).await.unwrap();
        agent.invoke(RunInput::new("two").thread("t")).await.unwrap_err();
        assert_eq!(journal.threads().get("t").await.unwrap().unwrap().status, RunStatus::Failed);
        let outcome = agent.resume("t").outcome().await.unwrap();
        assert_eq!(words(outcome.messages()), ["one", "half", "two", "whole"]);
    })
    .await;
}

#[tokio::test]
async fn a_thread_continues_from_an_earlier_position_on_its_own_branch() {
    each(async |journal| {
        let ran = Ran::default();
        let agent = agent(journal.clone(), &ran);
        let whole = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
        let history = agent.history("t", None, 99).await.unwrap();
        let begin = history.last().unwrap();
        let outcome = agent.invoke(RunInput::new("otherwise").thread("t").at(begin.position)).await.unwrap();
        assert_eq!(words(outcome.messages())[..2], ["go", "otherwise"]);
        assert_eq!(ran.lock().unwrap().len(), 10, "the calls of the branch have identities of their own");
        let old = agent.state_at("t", history[0].position).await.unwrap();
        assert_eq!(old.messages(), whole.messages(), "the old branch is still there");
        let now = agent.history("t", None, 99).await.unwrap();
        let back = now.iter().find(|c| c.origin == CheckpointSource::Rewind).unwrap();
        assert_eq!(back.parent, Some(begin.position));
    })
    .await;
}

#[tokio::test]
async fn rewinding_into_an_open_turn_repeats_only_its_unfinished_calls() {
    each(async |journal| {
        let ran = Ran::default();
        let agent = agent(journal.clone(), &ran);
        agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
        let entries = journal.load("t", None).await.unwrap().entries;
        let finished = |e: &&deepagents_core::journal::LogEntry| matches!(e.record, Record::ToolFinished { .. });
        let first = entries.iter().find(finished).unwrap().position + 1;
        ran.lock().unwrap().clear();
        agent.rewind("t", first).await.unwrap();
        let outcome = agent.resume("t").outcome().await.unwrap();
        check_history(outcome.messages()).unwrap();
        assert_eq!(words(outcome.messages()).len(), 10);
        assert_eq!(ran.lock().unwrap().len(), 4, "{ran:?}");
    })
    .await;
}

#[tokio::test]
async fn the_next_run_sees_state_changes_by_the_application() {
    each(async |journal| {
        let agent = agent(journal.clone(), &Ran::default());
        agent.update_state("t", Update::message(Message::user("before"))).await.unwrap();
        let outcome = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
        assert_eq!(words(outcome.messages())[..2], ["before", "go"]);
        assert!(outcome.messages().iter().all(|message| !message.id().is_empty()));
        let last = agent.history("t", None, 99).await.unwrap().pop().unwrap();
        assert_eq!((last.position, last.origin), (1, CheckpointSource::Update));
    })
    .await;
}

#[tokio::test]
async fn a_finished_runs_id_is_refused_even_after_a_later_snapshot() {
    let journal = Arc::new(Sqlite::open(place()).await.unwrap());
    let echo = json_tool("echo", "Answers.", json!({"type": "object"}), async |_: Value, _| Ok("done"));
    let long = json!({"long": "x".repeat(600_000)});
    let turns = [Turn::text("one"), Turn::call("echo", long), Turn::text("two"), Turn::text("again")];
    let agent = Agent::builder(ScriptedModel::new(turns)).tool(echo).journal(journal.clone()).build().unwrap();
    let mut ends = Vec::new();
    for id in ["first", "second"] {
        agent.invoke(RunInput::new("go").thread("t").id(id)).await.unwrap();
        ends.push(journal.threads().get("t").await.unwrap().unwrap().end);
    }
    let snapshot = journal.load("t", None).await.unwrap().snapshot;
    assert!(snapshot.is_some_and(|snapshot| snapshot.position > ends[0]), "the second run has made one");
    let late = agent.invoke(RunInput::new("go").thread("t").id("first")).await.unwrap_err();
    assert!(late.to_string().contains("run `first` of thread `t` is over"), "{late}");
}

#[tokio::test]
async fn snapshots_are_taken_as_a_thread_grows_and_a_pruned_thread_continues() {
    let journal: Arc<dyn Journal> = Arc::new(Sqlite::open(place()).await.unwrap());
    let text = "x".repeat(20_000);
    let model = ScriptedModel::rules().always(Turn::text(text)).build();
    let agent = Agent::builder(model).journal(journal.clone()).build().unwrap();
    for _ in 0..40 {
        agent.invoke(RunInput::new("more").thread("t")).await.unwrap();
    }
    let loaded = journal.load("t", None).await.unwrap();
    let snapshot = loaded.snapshot.expect("800 KB of log without a snapshot");
    assert!(loaded.entry_bytes <= snapshot.body.len() as u64 + 300_000);
    let before = Value::Object(agent.state("t").await.unwrap().to_json(true).unwrap()).to_string();
    agent.prune("t", &RetentionPolicy::Latest).await.unwrap();
    assert_eq!(Value::Object(agent.state("t").await.unwrap().to_json(true).unwrap()).to_string(), before);
    assert_eq!(agent.invoke(RunInput::new("more").thread("t")).await.unwrap().messages().len(), 82);
}
