//! Data that applications send and queue.

use std::sync::Arc;

use deepagents_core::env::Timestamp;
use deepagents_core::journal::{Checkpoint, Journal, MemoryJournal, ThreadInfo};
use deepagents_core::last_value;
use deepagents_core::middleware::Middleware;
use deepagents_core::run::{InputRecord, OutcomeRecord, RunErrorRecord, RunInput};
use deepagents_core::state::{ChannelSpec, Update};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::support::agent;

last_value!(City("city"): Option<String>);

struct Channels;
impl Middleware for Channels {
    fn name(&self) -> &str {
        "Channels"
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<City>()]
    }
}

fn input() -> RunInput {
    RunInput::new("Go.").thread("t").id("order-7").update(Update::new::<City>(Some("Turin".to_owned())))
}

#[tokio::test]
async fn an_outcome_in_json_can_be_read_with_or_without_its_channels() {
    let agent = agent(ScriptedModel::new([Turn::text("Gone.")]))
        .middleware(Channels)
        .journal(MemoryJournal::new())
        .build()
        .unwrap();
    let outcome = agent.invoke(input()).await.unwrap();
    let json: Value = serde_json::to_value(&outcome).unwrap();
    assert_eq!((&json["v"], &json["stop"], &json["run"]), (&json!(1), &json!("done"), &json!("order-7")));
    let record: OutcomeRecord = serde_json::from_value(json).unwrap();
    assert_eq!((record.thread.as_deref(), &record.state["city"]), (Some("t"), &json!("Turin")));
    let read = record.into_outcome(agent.schema()).unwrap();
    assert_eq!((read.text().as_str(), read.state.get::<City>()), ("Gone.", outcome.state.get::<City>()));
}

#[tokio::test]
async fn a_failure_in_json_has_its_class_message_and_finished_state() {
    let agent = agent(ScriptedModel::new([])).middleware(Channels).build().unwrap();
    let error = agent.invoke("Go.").await.unwrap_err();
    let json = serde_json::to_string(&error).unwrap();
    let record: RunErrorRecord = serde_json::from_str(&json).unwrap();
    assert_eq!((record.v, record.kind.as_str(), record.error), (1, error.kind(), error.to_string()));
    assert_eq!(record.state["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_input_can_be_passed_to_another_process_as_json() {
    let agent = agent(ScriptedModel::new([Turn::text("Gone.")]))
        .middleware(Channels)
        .journal(MemoryJournal::new())
        .build()
        .unwrap();
    let json = serde_json::to_string(&input()).unwrap();
    let record: InputRecord = serde_json::from_str(&json).unwrap();
    assert_eq!((record.v, record.id.as_deref()), (1, Some("order-7")));
    let outcome = agent.invoke(record.into_input(agent.schema()).unwrap()).await.unwrap();
    assert_eq!((outcome.run.as_str(), outcome.state.get::<City>()), ("order-7", Some(&Some("Turin".to_owned()))));
    let earlier: InputRecord = serde_json::from_value(json!({"thread": "t"})).unwrap();
    assert_eq!((earlier.v, earlier.id), (1, None));
}

#[tokio::test]
async fn threads_and_checkpoints_can_be_serialised_as_json() {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([Turn::text("Gone.")]);
    let agent = agent(model).middleware(Channels).journal(journal.clone()).build().unwrap();
    agent.invoke(input()).await.unwrap();
    let info = journal.threads().get("t").await.unwrap().unwrap();
    let json = serde_json::to_value(&info).unwrap();
    assert_eq!((&json["v"], &json["status"]), (&json!(1), &json!("ended")));
    assert!(json["updated_at"].as_str().unwrap().parse::<Timestamp>().is_ok());
    assert_eq!(serde_json::from_value::<ThreadInfo>(json).unwrap(), info);
    let history = agent.history("t", None, 10).await.unwrap();
    let json = serde_json::to_string(&history).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Checkpoint>>(&json).unwrap(), history);
}
