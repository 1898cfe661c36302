//! Budgets of callers.

use std::sync::Arc;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Journal, MemoryJournal, tool_fn};
use deepagents_core::message::Usage;
use deepagents_core::model::{ModelProfile, Price};
use deepagents_core::store::{MemoryStore, Store};
use deepagents_server::{Identity, Limits, Server, StaticTokens};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{City, Client, run, say};

/// Makes an answer cost one dollar.
fn costly(turn: Turn) -> Turn {
    turn.usage(Usage { output: 1_000_000, ..Usage::default() })
}

fn priced() -> ModelProfile {
    let mut profile = ModelProfile::default();
    profile.price = Some(Price::new(0.0, 1.0));
    profile
}

fn budgeted(profile: ModelProfile, turns: Vec<Turn>, journal: Arc<dyn Journal>, store: Arc<dyn Store>) -> Server {
    let look = tool_fn("look", "Looks.", |args: City, _cx| async move { Ok(args.city) });
    let model = ScriptedModel::new(turns).with_profile(profile);
    let agent = DeepAgent::builder().model(model).journal(journal.clone()).tool(look).build().unwrap();
    let tokens = StaticTokens::new().token("ada's", Identity::new("ada")).token("bob's", Identity::new("bob"));
    let limits = Limits { usd_per_day: Some(1.5), ..Limits::default() };
    let few = Limits { usd_per_month: Some(0.5), ..Limits::default() };
    let server = Server::new(journal, store).agent("agent", agent).unwrap();
    server.authenticate(tokens).limits(limits).limits_of("bob", few)
}

fn storage() -> (Arc<dyn Journal>, Arc<dyn Store>) {
    (Arc::new(MemoryJournal::new()), Arc::new(MemoryStore::default()))
}

async fn ask(client: &Client) -> (StatusCode, Value) {
    client.send(Method::POST, "/runs/wait", &say("hi")).await
}

#[tokio::test]
async fn an_exhausted_budget_blocks_its_owner_until_it_refills_even_after_a_restart() {
    let (journal, store) = storage();
    let turns = || (0..4).map(|_| costly(Turn::text("Hello."))).collect();
    let client = run(budgeted(priced(), turns(), journal.clone(), store.clone())).await.0;
    let (ada, bob) = (client.with_token("ada's"), client.with_token("bob's"));
    assert_eq!(ask(&ada).await.0, StatusCode::OK);
    assert_eq!(ask(&ada).await.0, StatusCode::OK, "what is spent is less than the budget");
    let (status, body) = ask(&ada).await;
    assert_eq!(
        (status, &body["detail"]),
        (StatusCode::TOO_MANY_REQUESTS, &json!("the budget of 1.5 US dollars a day is spent"))
    );
    assert_eq!(ask(&bob).await.0, StatusCode::OK);
    let (status, body) = ask(&bob).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(body["detail"], "the budget of 0.5 US dollars a month is spent");
    let threads = ada.post("/threads/search", json!({"limit": 100})).await;
    assert_eq!(threads, json!([]), "a run that is refused leaves no thread");
    let again = run(budgeted(priced(), turns(), journal, store)).await.0;
    assert_eq!(ask(&again.with_token("ada's")).await.0, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn a_run_ends_with_a_reason_when_its_owners_budget_is_exhausted() {
    let (journal, store) = storage();
    let looks = (0..9).map(|_| costly(Turn::call("look", json!({"city": "Oslo"})))).collect();
    let client = run(budgeted(priced(), looks, journal, store)).await.0;
    let ada = client.with_token("ada's");
    let id = ada.thread().await;
    let values = ada.post(&format!("/threads/{id}/runs/wait"), say("look around")).await;
    let message = values["__error__"]["message"].as_str().unwrap();
    assert!(message.contains("the budget of 1.5 US dollars a day is spent"), "{message}");
    let state = ada.get(&format!("/threads/{id}/state")).await;
    let answers = state["values"]["messages"].as_array().unwrap().iter().filter(|each| each["type"] == "ai").count();
    assert_eq!(answers, 2, "calls after the budget was spent");
}

#[tokio::test]
async fn a_model_without_a_known_price_is_unavailable_to_users_with_a_budget() {
    let (journal, store) = storage();
    let client = run(budgeted(ModelProfile::default(), vec![Turn::text("Hello.")], journal, store)).await.0;
    let (_, values) = ask(&client.with_token("ada's")).await;
    let message = values["__error__"]["message"].as_str().unwrap();
    assert!(message.contains("price"), "{message}");
}
