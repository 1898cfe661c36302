//! Commands that address an earlier checkpoint, such as that of the branch on a person's screen.

use std::sync::Arc;
use std::time::Duration;

use deepagents::models::scripted::Turn;
use deepagents::{Journal, MemoryJournal};
use deepagents_core::journal::{Claim, Record, RecordUpdate};
use deepagents_core::state::Update;
use deepagents_core::store::MemoryStore;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Client, agent, roles, say, serve_on, until};

struct Branches {
    client: Client,
    id: String,
    /// The state that waited for the decision on the first call, a trip to Oslo.
    first: Value,
}

impl Branches {
    /// Creates a thread whose first call was rejected and whose second one, a trip to Rome, waits.
    async fn begin(then: &[&str]) -> Self {
        Self::begin_on(Arc::new(MemoryJournal::new()), then).await
    }

    async fn begin_on(journal: Arc<dyn Journal>, then: &[&str]) -> Self {
        let book = |city: &str| Turn::call("book", json!({"city": city}));
        let turns = [book("Oslo"), Turn::text("Left it."), book("Rome")];
        let turns = turns.into_iter().chain(then.iter().map(|text| Turn::text(*text))).collect();
        let client = serve_on(agent(turns, journal.clone()), journal, Arc::new(MemoryStore::default())).await;
        let id = client.thread().await;
        client.post(&format!("/threads/{id}/runs/wait"), say("book Oslo")).await;
        let first = client.get(&format!("/threads/{id}/state")).await;
        let branches = Self { client, id, first };
        branches.wait(&json!({"resume": {"decisions": [{"type": "reject"}]}}), None).await;
        branches.client.post(&format!("/threads/{}/runs/wait", branches.id), say("book Rome")).await;
        branches
    }

    async fn wait(&self, command: &Value, checkpoint: Option<&Value>) -> Value {
        self.client.post(&format!("/threads/{}/runs/wait", self.id), told(command, checkpoint)).await
    }

    async fn state(&self) -> Value {
        self.client.get(&format!("/threads/{}/state", self.id)).await
    }
}

fn told(command: &Value, checkpoint: Option<&Value>) -> Value {
    let mut body = json!({"assistant_id": "agent", "command": command});
    if let Some(checkpoint) = checkpoint {
        body["checkpoint"] = checkpoint.clone();
    }
    body
}

fn texts(values: &Value) -> Vec<&str> {
    values["messages"].as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_decision_at_an_earlier_checkpoint_decides_the_call_that_waited_there() {
    let approve = json!({"decisions": [{"type": "approve"}]});
    for by_id in [false, true] {
        let branches = Branches::begin(&["Booked."]).await;
        let open = branches.first["interrupts"][0]["id"].as_str().unwrap();
        let resume = if by_id { json!({open: approve}) } else { approve.clone() };
        let values = branches.wait(&json!({"resume": resume}), Some(&branches.first["checkpoint"])).await;
        assert_eq!(texts(&values), ["book Oslo", "", "booked Oslo", "Booked."], "{values}");
        let state = branches.state().await;
        assert_eq!((&state["interrupts"], &state["next"]), (&json!([]), &json!([])), "{state}");
        // The branch that was left stays in the history, with its question.
        let path = format!("/threads/{}/history", branches.id);
        let history = branches.client.post(&path, json!({"limit": 100})).await;
        let calls: Vec<&Value> = history
            .as_array()
            .unwrap()
            .iter()
            .map(|state| &state["interrupts"][0]["value"]["action_requests"][0]["args"]["city"])
            .filter(|city| city.is_string())
            .collect();
        assert_eq!(calls, ["Rome", "Oslo"], "{history}");
    }
}

#[tokio::test]
async fn decisions_are_checked_against_the_addressed_checkpoint() {
    let branches = Branches::begin(&[]).await;
    let path = format!("/threads/{}/runs/wait", branches.id);
    let history = branches.client.post(&format!("/threads/{}/history", branches.id), json!({"limit": 100})).await;
    let begin = history.as_array().unwrap().last().unwrap()["checkpoint"].clone();
    let approve = json!({"resume": {"decisions": [{"type": "approve"}]}});
    let two = json!({"resume": {"decisions": [{"type": "approve"}, {"type": "approve"}]}});
    for (command, at) in [(&approve, &begin), (&two, &branches.first["checkpoint"])] {
        let (status, answer) = branches.client.send(Method::POST, &path, &told(command, Some(at))).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    }
    let state = branches.state().await;
    assert_eq!(state["interrupts"][0]["value"]["action_requests"][0]["args"]["city"], "Rome", "{state}");
}

#[tokio::test]
async fn a_decision_at_the_newest_checkpoint_is_one_without_a_checkpoint() {
    let branches = Branches::begin(&["Booked."]).await;
    let newest = branches.state().await["checkpoint"].clone();
    let values = branches.wait(&json!({"resume": {"decisions": [{"type": "approve"}]}}), Some(&newest)).await;
    assert_eq!(texts(&values)[4..], ["book Rome", "", "booked Rome", "Booked."], "{values}");
}

#[tokio::test]
async fn an_update_alone_and_an_end_apply_to_the_addressed_checkpoint() {
    let branches = Branches::begin(&[]).await;
    let path = format!("/threads/{}/history", branches.id);
    let history = branches.client.post(&path, json!({"limit": 100})).await;
    let is_end = |state: &&Value| state["values"]["messages"][3]["content"] == "Left it." && state["next"] == json!([]);
    let ended = history.as_array().unwrap().iter().find(is_end).unwrap();
    let note = json!({"messages": [{"role": "user", "content": "note"}]});
    let values = branches.wait(&json!({"update": note}), Some(&ended["checkpoint"])).await;
    assert_eq!(texts(&values)[3..], ["Left it.", "note"], "{values}");
    let state = branches.state().await;
    assert_eq!((roles(&state["values"]).len(), &state["interrupts"]), (5, &json!([])), "{state}");

    let branches = Branches::begin(&[]).await;
    let values = branches.wait(&json!({"goto": "__end__"}), Some(&branches.first["checkpoint"])).await;
    assert_eq!(roles(&values), ["human", "ai", "tool"], "{values}");
    assert_eq!(branches.state().await["interrupts"], json!([]));
}

#[tokio::test]
async fn a_message_sent_to_an_earlier_question_waits_with_it() {
    let branches = Branches::begin(&["Booked."]).await;
    let note = json!({"messages": [{"role": "user", "content": "note"}]});
    let values = branches.wait(&json!({"update": note}), Some(&branches.first["checkpoint"])).await;
    assert_eq!(values["__interrupt__"][0]["value"]["action_requests"][0]["args"]["city"], "Oslo", "{values}");
    let values = branches.wait(&json!({"resume": {"decisions": [{"type": "approve"}]}}), None).await;
    assert_eq!(texts(&values), ["book Oslo", "", "booked Oslo", "note", "Booked."], "{values}");
}

#[tokio::test]
async fn a_decision_waits_for_the_owner_of_the_thread_and_still_decides_the_addressed_call() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let branches = Branches::begin_on(journal.clone(), &["Booked."]).await;
    let id = &branches.id;
    let fence = journal.claim(id, Claim::new("another", Duration::from_secs(600))).await.unwrap();
    let command = told(&json!({"resume": {"decisions": [{"type": "approve"}]}}), Some(&branches.first["checkpoint"]));
    let run = branches.client.post(&format!("/threads/{id}/runs"), command).await;
    let path = format!("/threads/{id}/runs/{}", run["run_id"].as_str().unwrap());
    until(async || branches.client.get(&path).await["status"] != "pending").await;
    // The owner adds something before the run can go back.
    let end = journal.threads().get(id).await.unwrap().unwrap().end;
    let nothing = Record::StateUpdated { update: RecordUpdate::Live(Update::none()), run: None };
    journal.append(id, fence, end, vec![nothing]).await.unwrap();
    journal.release(id, fence).await.unwrap();
    let values = branches.client.get(&format!("{path}/join")).await;
    assert_eq!(texts(&values), ["book Oslo", "", "booked Oslo", "Booked."], "{values}");
}

#[tokio::test]
async fn a_result_without_a_call_at_the_addressed_question_is_refused_and_the_thread_stays_as_it_is() {
    let branches = Branches::begin(&[]).await;
    let path = format!("/threads/{}/runs/wait", branches.id);
    let orphan = json!({"messages": [{"role": "tool", "tool_call_id": "none", "content": "x"}]});
    let approve = json!({"decisions": [{"type": "approve"}]});
    for command in [json!({"update": orphan}), json!({"update": orphan, "resume": approve})] {
        let body = told(&command, Some(&branches.first["checkpoint"]));
        let (status, answer) = branches.client.send(Method::POST, &path, &body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        let state = branches.state().await;
        assert_eq!(state["interrupts"][0]["value"]["action_requests"][0]["args"]["city"], "Rome", "{state}");
    }
}
