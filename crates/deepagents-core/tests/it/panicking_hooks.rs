//! A panic in a hook that awaits nothing fails the run like an error of it.

use std::sync::Arc;

use deepagents_core::error::Result;
use deepagents_core::journal::{Journal, MemoryJournal, RunStatus};
use deepagents_core::message::Message;
use deepagents_core::middleware::Middleware;
use deepagents_core::run::{Context, RunInput};
use deepagents_core::tool::CallId;
use deepagents_models::scripted::{ScriptedModel, Turn, check_history};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{agent, echo, tool};

/// Panics where it is told to.
struct Panics(&'static str);

impl Middleware for Panics {
    fn name(&self) -> &str {
        "Panics"
    }

    fn receive_message(&self, message: Message) -> Result<Message> {
        assert!(!(self.0 == "receive_message" && message.text() == "Bad."), "ouch");
        Ok(message)
    }

    fn planned_args(&self, _id: &CallId, _call: &deepagents_core::message::ToolCall, _cx: &Context) -> Option<Value> {
        assert!(self.0 != "planned_args", "ouch");
        None
    }
}

#[tokio::test]
async fn a_panic_while_calls_are_planned_fails_the_run_and_leaves_a_sound_thread() {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([Turn::call("echo", json!({"text": "x"}))]);
    let agent = agent(model).tool(echo()).middleware(Panics("planned_args")).journal(journal.clone()).build().unwrap();
    let failed = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap_err();
    assert_eq!(failed.to_string(), "planned_args of middleware `Panics` failed: it panicked: ouch");
    assert_eq!((failed.error.kind(), failed.model_calls), ("other", 1));
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().status, RunStatus::Failed);
    let stored = agent.state("t").await.unwrap();
    assert_eq!((stored.messages().len(), failed.state.messages().len()), (3, 3), "the call is answered");
    check_history(stored.messages()).unwrap();
}

#[tokio::test]
async fn a_panic_about_a_message_sent_to_a_run_fails_the_run_and_keeps_its_work() {
    let (journal, started, goes_on) =
        (Arc::new(MemoryJournal::new()), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let wait = tool("wait", {
        let (started, goes_on) = (started.clone(), goes_on.clone());
        move |_: Value, _| {
            let (started, goes_on) = (started.clone(), goes_on.clone());
            async move {
                started.notify_one();
                goes_on.notified().await;
                Ok("waited")
            }
        }
    });
    let model = ScriptedModel::new([Turn::call("wait", json!({})), Turn::text("Done.")]);
    let agent = agent(model).tool(wait).middleware(Panics("receive_message")).journal(journal.clone()).build().unwrap();
    let run = agent.run(RunInput::new("Go.").thread("t"));
    tokio::time::timeout(std::time::Duration::from_secs(60), started.notified()).await.unwrap();
    assert!(run.steer("Bad."));
    goes_on.notify_one();
    let failed = run.outcome().await.unwrap_err();
    assert_eq!(failed.to_string(), "receive_message of middleware `Panics` failed: it panicked: ouch");
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().status, RunStatus::Failed);
    assert_eq!(agent.state("t").await.unwrap().messages().last().unwrap().text(), "waited");
}
