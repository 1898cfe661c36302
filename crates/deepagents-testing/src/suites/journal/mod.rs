//! The contract of a [`Journal`]. Run by [`journal_suite!`](crate::journal_suite).
//!
#![doc = include_str!("conformance.md")]

pub mod children;
pub mod claimable;
pub mod copies;
pub mod history;
pub mod lease;
pub mod log;
pub mod snapshots;
pub mod sub_agents;
pub mod threads;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::journal::{Claim, Fence, Journal, LogPosition, Record, RecordUpdate, load};
use deepagents_core::message::{Message, MessageOp, ToolMessage};
use deepagents_core::run::Machine;
use deepagents_core::state::{Channel, ChannelError, ChannelSpec, MessagesChannel, Schema, Sharing, Update};
use deepagents_core::tool::CallId;
use serde_json::{Value, json};

/// The journal under test.
pub type Any = Arc<dyn Journal>;

/// A channel that merges updates by key; null removes a key.
pub(crate) struct Notes;

impl Channel for Notes {
    const NAME: &'static str = "notes";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::copied();
    type Value = BTreeMap<String, Value>;
    type Update = BTreeMap<String, Value>;
    fn reduce(value: &mut Self::Value, update: Self::Update) -> Result<(), ChannelError> {
        value.extend(update);
        value.retain(|_, note| !note.is_null());
        Ok(())
    }
}

pub(crate) fn schema() -> Arc<Schema> {
    Arc::new(Schema::new([ChannelSpec::new::<MessagesChannel>(), ChannelSpec::new::<Notes>()]).unwrap())
}

pub(crate) fn minute() -> Duration {
    Duration::from_secs(60)
}

pub(crate) async fn own(journal: &Any, thread: &str) -> Fence {
    journal.claim(thread, Claim::new("suite", Duration::from_secs(3600))).await.unwrap()
}

/// Claims the thread, appends at the end and releases it. Returns the new end.
pub(crate) async fn write(journal: &Any, thread: &str, records: Vec<Record>) -> LogPosition {
    let fence = own(journal, thread).await;
    let end = journal.load(thread, None).await.unwrap().end;
    let appended = journal.append(thread, fence, end, records).await.unwrap();
    journal.release(thread, fence).await.unwrap();
    appended.end
}

pub(crate) fn started(run: &str) -> Record {
    Record::RunStarted { run: run.to_owned(), at: "2027-01-01T00:00:00Z".to_owned(), thread: None }
}

pub(crate) fn ended(run: &str) -> Record {
    Record::RunFinished { run: run.to_owned(), stop: Some(deepagents_core::run::FinishReason::Done) }
}

pub(crate) fn step(turn: u32) -> Record {
    Record::Step { machine: Machine::new(turn, 10), run: None }
}

pub(crate) fn says(id: &str, text: &str) -> Record {
    let mut message = Message::user(text);
    message.set_id(id.to_owned());
    Record::Update { update: RecordUpdate::Live(Update::new::<MessagesChannel>(vec![MessageOp::put(message)])) }
}

pub(crate) fn notes(notes: Value) -> Record {
    let Value::Object(notes) = notes else { panic!("an object") };
    let notes = notes.into_iter().collect();
    Record::Update { update: RecordUpdate::Live(Update::new::<Notes>(notes)) }
}

pub(crate) fn call(index: u32) -> CallId {
    CallId { path: Vec::new(), turn: 0, index }
}

/// The records of a turn whose calls have started.
pub(crate) fn calls(count: u32) -> Vec<Record> {
    let blocks = (0..count).map(|n| deepagents_core::message::Block::call(format!("c{n}"), "work", json!({"n": n})));
    let mut answer = Message::Assistant(deepagents_core::message::AssistantMessage::new(blocks.collect()));
    answer.set_id("answer".to_owned());
    let mut records = vec![Record::Update {
        update: RecordUpdate::Live(Update::new::<MessagesChannel>(vec![MessageOp::put(answer)])),
    }];
    records.extend((0..count).map(|n| Record::ToolStarted {
        call: call(n),
        provider_call_id: format!("c{n}"),
        name: "work".to_owned(),
        repeatable: n == 0,
        args: None,
    }));
    records
}

pub(crate) fn result(index: u32) -> Record {
    let message = ToolMessage {
        id: format!("r{index}"),
        call_id: format!("c{index}"),
        name: "work".to_owned(),
        content: vec![deepagents_core::message::Block::text(format!("result {index}"))],
        ..ToolMessage::default()
    };
    let update = Update::new::<Notes>([(format!("n{index}"), json!(index))].into_iter().collect());
    Record::ToolFinished { call: call(index), message: Arc::new(message), update: RecordUpdate::Live(update) }
}

/// Returns the state at a position as text.
pub(crate) async fn state(journal: &Any, thread: &str, at: Option<LogPosition>) -> String {
    let folded = load(&**journal, thread, schema(), at).await.unwrap();
    Value::Object(folded.state.to_json(true).unwrap()).to_string()
}

/// Returns the states at all positions that can be loaded.
pub(crate) async fn states(journal: &Any, thread: &str) -> BTreeMap<LogPosition, String> {
    let mut states = BTreeMap::new();
    for at in 0..=journal.load(thread, None).await.unwrap().end {
        if let Ok(folded) = load(&**journal, thread, schema(), Some(at)).await {
            states.insert(at, Value::Object(folded.state.to_json(true).unwrap()).to_string());
        }
    }
    states
}

/// Appends some runs of five records each, whose notes overwrite and remove values. Returns the end.
pub(crate) async fn live(journal: &Any, thread: &str, runs: u32) -> LogPosition {
    let mut end = 0;
    for run in 0..runs {
        let name = format!("run_{run}");
        let note = match run % 3 {
            0 => json!({"a": run, "b": [1, 2.5, {"c": null}]}),
            1 => json!({"a": {"run": run}}),
            _ => json!({"b": null}),
        };
        end = write(
            journal,
            thread,
            vec![
                started(&name),
                says(&format!("m{run}"), &format!("words {run}")),
                step(run),
                notes(note),
                ended(&name),
            ],
        )
        .await;
    }
    end
}
