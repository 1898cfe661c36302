//! What a caller may still do over a connection that was opened earlier, and how it is limited and recorded.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use deepagents::models::scripted::Turn;
use deepagents_server::{Authenticate, Identity, Limits, Presented, Refusal, Server, StaticTokens};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::support::{Client, run, say, server, soon, until};
use crate::websocket::Socket;

type Notes = Arc<Mutex<Vec<String>>>;

/// Configures two callers, of whom eve may send ten requests a minute. Returns also the audit notes.
async fn serve(server: Server) -> (Client, Client, Notes) {
    let few = Limits { requests_per_minute: Some(10), ..Limits::default() };
    let tokens = StaticTokens::new().token("ada's", Identity::new("ada"));
    let tokens = tokens.token("eve's", Identity::new("eve").limits(few));
    let notes: Notes = Arc::default();
    let noted = notes.clone();
    let server = server.authenticate(tokens).audit(move |entry| {
        let who = entry.identity.as_deref().unwrap_or("nobody");
        noted.lock().unwrap().push(format!("{who} {} {} {}", entry.method, entry.path, entry.status));
    });
    let client = run(server).await.0;
    (client.with_token("ada's"), client.with_token("eve's"), notes)
}

/// An id that a client derives from something of its own.
const TICKET: &str = "6f1f0b0c-6a57-5f53-9d43-0b2a8f9f7c11";

fn subscribe() -> Value {
    json!({"id": 1, "method": "subscription.subscribe", "params": {"channels": ["values", "messages", "lifecycle"]}})
}

#[tokio::test]
async fn a_stream_that_outlives_its_thread_shows_nothing_of_the_threads_next_owner() {
    let turns = vec![Turn::text("Secret."), Turn::call("book", json!({"city": "Oslo"})), Turn::text("Booked.")];
    let (ada, eve, _) = serve(server(turns)).await;
    let thread = json!({"thread_id": TICKET});
    eve.post("/threads", thread.clone()).await;
    let mut stream =
        eve.follow(&format!("/threads/{TICKET}/stream?stream_mode=run_modes&stream_mode=state_update")).await;
    let mut updates = eve.follow(&format!("/threads/{TICKET}/stream?stream_mode=state_update")).await;
    let mut socket = Socket::open(&eve, TICKET).await;
    assert_eq!(socket.command(&subscribe()).await.0["type"], "success");
    assert_eq!(eve.send(Method::DELETE, &format!("/threads/{TICKET}"), &json!({})).await.0, 204);
    ada.post("/threads", thread).await;
    ada.post(&format!("/threads/{TICKET}/runs/wait"), say("mine")).await;
    let update = json!({"values": {"messages": [{"role": "user", "content": "also mine"}]}});
    ada.post(&format!("/threads/{TICKET}/state"), update).await;
    assert_eq!(soon(stream.read()).await, None);
    assert_eq!(soon(updates.read()).await, None);
    for (method, params) in [
        ("input.inject", json!({"message": {"content": "injected"}})),
        ("state.get", json!({})),
        ("agent.getTree", json!({})),
        ("run.start", say("injected")),
        ("subscription.subscribe", json!({"channels": ["values"], "since": 0})),
    ] {
        let (answer, events) = socket.command(&json!({"id": 2, "method": method, "params": params})).await;
        assert_eq!((&answer["type"], events), (&json!("error"), vec![]), "{method}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains("not found"), "{method}: {answer}");
    }
}

#[tokio::test]
async fn commands_over_a_websocket_are_limited_and_recorded_like_requests() {
    let (_, eve, notes) = serve(server(vec![Turn::text("Hello.")])).await;
    let id = eve.thread().await;
    let mut socket = Socket::open(&eve, &id).await;
    socket.command(&subscribe()).await;
    let started = socket.command(&json!({"id": 2, "method": "run.start", "params": say("hi")})).await.0;
    assert_eq!(started["type"], "success", "{started}");
    let mut refused = None;
    for _ in 0..12 {
        let answer = socket.command(&json!({"id": 3, "method": "state.get", "params": {}})).await.0;
        if answer["type"] == "error" {
            refused = Some(answer);
        }
    }
    let message = refused.unwrap()["message"].clone();
    assert!(message.as_str().unwrap().contains("more than 10 requests in a minute"), "{message}");
    let notes = notes.lock().unwrap().clone();
    let noted = |status: u16| {
        let expected = format!("eve POST /threads/{id}/commands {status}");
        notes.iter().filter(|note| **note == expected).count()
    };
    assert!(noted(200) > 5 && noted(429) > 2, "{notes:?}");
}

#[tokio::test]
async fn a_request_is_recorded_even_if_its_client_closes_the_connection_before_the_response() {
    let slow = vec![Turn::text("Late.").delay(Duration::from_secs(600))];
    let (ada, _, notes) = serve(server(slow)).await;
    let request =
        ada.http.post(format!("{}/a2a/agent", ada.url)).header("x-api-key", "ada's").header("A2A-Version", "1.0");
    let message = json!({"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "hi"}]});
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": {"message": message}});
    let sent = tokio::spawn(request.json(&body).send());
    until(async || ada.post("/threads/search", json!({"status": "busy"})).await != json!([])).await;
    sent.abort();
    until(async || notes.lock().unwrap().contains(&"ada POST /a2a/agent 499".to_owned())).await;
}

/// Knows everybody for three seconds.
struct ShortLived;

impl Authenticate for ShortLived {
    async fn authenticate(&self, _presented: Presented<'_>) -> Result<Identity, Refusal> {
        #[allow(clippy::disallowed_methods, reason = "an identity expires in the time of the world")]
        let now = SystemTime::now();
        Ok(Identity::new("ada").expires_at(now + Duration::from_secs(3)))
    }
}

#[tokio::test]
async fn streams_and_websockets_end_when_the_token_expires() {
    let client = run(server(vec![]).authenticate(ShortLived)).await.0;
    let id = client.thread().await;
    let mut socket = Socket::open(&client, &id).await;
    let mut stream = client.follow(&format!("/threads/{id}/stream")).await;
    assert_eq!(soon(stream.read()).await, None);
    // A frame that closes the connection, with a code of two bytes and a reason.
    let mut head = [0; 4];
    soon(socket.0.read_exact(&mut head)).await.unwrap();
    assert_eq!((head[0], u16::from_be_bytes([head[2], head[3]])), (0x88, 4401));
}
