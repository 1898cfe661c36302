//! Telling an address that a run has ended.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use deepagents::models::scripted::Turn;
use deepagents_server::WebhookPolicy;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::{Mutex, mpsc};

use crate::support::{run, say, server};

type Told = (HeaderMap, String);

#[derive(Clone)]
struct Receiver {
    told: mpsc::UnboundedSender<Told>,
    answers: Arc<Mutex<Vec<StatusCode>>>,
}

async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: String) -> StatusCode {
    receiver.told.send((headers, body)).unwrap();
    receiver.answers.lock().await.pop().unwrap_or(StatusCode::OK)
}

/// A receiver that answers so, last first, and then takes everything.
async fn receiver(answers: Vec<StatusCode>) -> (String, mpsc::UnboundedReceiver<Told>) {
    let (told, received) = mpsc::unbounded_channel();
    let state = Receiver { told, answers: Arc::new(Mutex::new(answers)) };
    let router = axum::Router::new().route("/hook", post(take)).with_state(state);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, received)
}

/// The seconds and the bytes of a signature.
fn signed(header: &str) -> (&str, Vec<u8>) {
    let (seconds, digits) = header.strip_prefix("t=").and_then(|rest| rest.split_once(",v1=")).unwrap();
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2).unwrap(), 16).unwrap();
    (seconds, (0..digits.len()).step_by(2).map(byte).collect())
}

#[tokio::test]
async fn an_end_is_told_with_its_values_and_a_signature_and_again_when_it_was_not_taken() {
    let policy = WebhookPolicy::default().allow_loopback().secret("s3cret");
    let (client, _end, _serving) = run(server(vec![Turn::text("Hello.")]).webhooks(policy)).await;
    let (url, mut received) = receiver(vec![StatusCode::INTERNAL_SERVER_ERROR]).await;
    let id = client.thread().await;
    let mut body = say("hi");
    body["webhook"] = json!(url);
    let made = client.post(&format!("/threads/{id}/runs"), body).await;
    let (headers, first) = received.recv().await.unwrap();
    let (seconds, digest) = signed(headers["x-deepagents-signature"].to_str().unwrap());
    let mut mac = Hmac::<Sha256>::new_from_slice(b"s3cret").unwrap();
    mac.update(format!("{seconds}.{first}").as_bytes());
    mac.verify_slice(&digest).unwrap();
    let first: Value = serde_json::from_str(&first).unwrap();
    assert!(first.get("error").is_none(), "a run that did not fail has no error: {first}");
    assert_eq!((&first["run_id"], &first["status"]), (&made["run_id"], &json!("success")));
    assert_eq!(first["values"]["messages"][1]["content"], "Hello.");
    let (_, second) = received.recv().await.unwrap();
    let second: Value = serde_json::from_str(&second).unwrap();
    assert_eq!(first["run_id"], second["run_id"]);
}
