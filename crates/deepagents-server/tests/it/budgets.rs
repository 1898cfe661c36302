//! Budgets of callers.

use std::sync::Arc;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Journal, MemoryJournal, ModelRequest, tool_fn};
use deepagents_core::message::Usage;
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, Price};
use deepagents_core::store::{MemoryStore, Query, Store};
use deepagents_server::{Identity, Limits, Server, StaticTokens};
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{City, Client, run, say, soon, until};

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

/// Streams a piece of an answer and then nothing more.
struct Unending(Arc<Notify>);

impl ChatModel for Unending {
    fn name(&self) -> &str {
        "test:unending"
    }

    fn profile(&self) -> ModelProfile {
        priced()
    }

    fn stream(&self, _request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let begun = self.0.clone();
        let piece = stream::once(async move {
            begun.notify_one();
            // Two million tokens.
            Ok(ModelEvent::Text { block: 0, delta: "word".repeat(2_000_000) })
        });
        piece.chain(stream::pending()).boxed()
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_charged_by_its_length() {
    let (journal, store) = storage();
    let begun = Arc::new(Notify::new());
    let agent = DeepAgent::builder().model(Unending(begun.clone())).journal(journal.clone()).build().unwrap();
    let tokens = StaticTokens::new().token("ada's", Identity::new("ada"));
    let limits = Limits { usd_per_day: Some(1.5), ..Limits::default() };
    let serve = |agent: DeepAgent| {
        let server = Server::new(journal.clone(), store.clone()).agent("agent", agent).unwrap();
        server.authenticate(tokens.clone()).limits(limits.clone())
    };
    let client = run(serve(agent.clone())).await.0.with_token("ada's");
    let id = client.thread().await;
    let started = client.post(&format!("/threads/{id}/runs"), say("go on for ever")).await;
    soon(begun.notified()).await;
    let cancel = format!("/threads/{id}/runs/{}/cancel?wait=true", started["run_id"].as_str().unwrap());
    client.post(&cancel, json!({})).await;
    let (status, body) = ask(&client).await;
    assert_eq!(
        (status, &body["detail"]),
        (StatusCode::TOO_MANY_REQUESTS, &json!("the budget of 1.5 US dollars a day is spent"))
    );
    // Another process reads it from the store.
    let again = run(serve(agent)).await.0.with_token("ada's");
    let spending = ["deepagents-server", "spending"].map(str::to_owned);
    until(async || !store.search(&spending, &Query::default()).await.unwrap().is_empty()).await;
    assert_eq!(ask(&again).await.0, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn a_model_without_a_known_price_is_unavailable_to_users_with_a_budget() {
    let (journal, store) = storage();
    let client = run(budgeted(ModelProfile::default(), vec![Turn::text("Hello.")], journal, store)).await.0;
    let (_, values) = ask(&client.with_token("ada's")).await;
    let message = values["__error__"]["message"].as_str().unwrap();
    assert!(message.contains("price"), "{message}");
}
