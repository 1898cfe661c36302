//! Slow, misbehaving and disconnected clients, and the shutdown of the server.

use std::sync::Arc;

use deepagents::models::scripted::Turn;
use deepagents::{DeepAgent, Journal, tool_fn};
use deepagents_core::store::Store;
use deepagents_persist::Sqlite;
use deepagents_server::Server;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::support::{roles, run, say, serve, serve_on, server, soon, until};

#[tokio::test]
async fn malformed_requests_are_rejected_without_breaking_the_server() {
    let client = serve(vec![]).await;
    let id = client.thread().await;
    let deep = "[".repeat(100_000);
    let bodies = ["", "{", "null", "[]", "\"x\"", "{\"assistant_id\": 1}", "{\"limit\": -1}", "\u{0}", deep.as_str()];
    for path in [
        "/threads".to_owned(),
        "/threads/search".to_owned(),
        "/assistants".to_owned(),
        "/assistants/search".to_owned(),
        "/runs/batch".to_owned(),
        "/runs/wait".to_owned(),
        "/runs/crons".to_owned(),
        "/store/items/search".to_owned(),
        format!("/threads/{id}/history"),
        format!("/threads/{id}/state"),
        format!("/threads/{id}/commands"),
        format!("/threads/{id}/stream/events"),
        "/threads/%00/runs".to_owned(),
        "/threads/..%2f..%2f/runs".to_owned(),
    ] {
        for body in bodies {
            let request = client.http.post(format!("{}{path}", client.url)).body(body.to_owned());
            let status = request.header("content-type", "application/json").send().await.unwrap().status();
            assert!(!status.is_server_error(), "{path} {body:.20}: {status}");
        }
    }
    for query in ["limit=x", "limit=-1", "limit=99999999999999999999", "status=odd", "%ff=%fe", "limit=1&limit=2"] {
        let (status, _) = client.send(Method::GET, &format!("/threads/{id}/runs?{query}"), &json!({})).await;
        assert!(!status.is_server_error(), "{query}: {status}");
    }
    assert_eq!(client.get("/ok").await, json!({"ok": true}));
}

#[tokio::test]
async fn oversized_headers_are_rejected_while_other_requests_are_answered() {
    let client = serve(vec![]).await;
    let address = client.url.strip_prefix("http://").unwrap();
    let mut long = TcpStream::connect(address).await.unwrap();
    let head = format!("GET /ok HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(200_000));
    // The server may close the connection early.
    let _ = long.write_all(head.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = long.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    let mut many = TcpStream::connect(address).await.unwrap();
    let fields: String = (0..500).map(|n| format!("x-{n}: y\r\n")).collect();
    let _ = many.write_all(format!("GET /ok HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n").as_bytes()).await;
    let mut answer = vec![0; 12];
    let _ = many.read_exact(&mut answer).await;
    assert_ne!(answer, b"HTTP/1.1 200");
    // A client that never finishes its head blocks only its own connection.
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"GET /ok HTTP/1.1\r\nhost:").await.unwrap();
    assert_eq!(client.get("/ok").await, json!({"ok": true}));
}

#[tokio::test]
async fn a_client_that_never_reads_blocks_no_one_else() {
    let words = "many words ".repeat(20_000);
    let client = serve(vec![Turn::text(words.clone()), Turn::text("Quick.")]).await;
    let address = client.url.strip_prefix("http://").unwrap();
    let id = client.thread().await;
    let body = say("talk").to_string();
    let mut deaf = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /threads/{id}/runs/stream HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    deaf.write_all(head.as_bytes()).await.unwrap();
    let mut begun = vec![0; 12];
    deaf.read_exact(&mut begun).await.unwrap();
    let run = client.get(&format!("/threads/{id}/runs")).await[0]["run_id"].as_str().unwrap().to_owned();
    let values = client.get(&format!("/threads/{id}/runs/{run}/join")).await;
    assert_eq!(values["messages"][1]["content"], words);
    assert_eq!(roles(&client.post("/runs/wait", say("hi")).await), ["human", "ai"]);
}

fn waiting_agent(turns: Vec<Turn>, journal: Arc<dyn Journal>, gate: Arc<Notify>, begun: Arc<Notify>) -> DeepAgent {
    let wait = tool_fn("wait", "Waits.", move |_: crate::support::Nothing, _cx| {
        let (gate, begun) = (gate.clone(), begun.clone());
        async move {
            begun.notify_one();
            gate.notified().await;
            Ok("waited".to_owned())
        }
    });
    let model = deepagents::models::scripted::ScriptedModel::new(turns);
    DeepAgent::builder().model(model).journal(journal).tool(wait).build().unwrap()
}

#[tokio::test]
async fn a_run_interrupted_by_a_shutdown_resumes_and_its_stream_has_no_gap() {
    let folder = tempfile::tempdir().unwrap();
    let open = || async { Arc::new(Sqlite::open(folder.path().join("server.db")).await.unwrap()) };
    let (gate, begun) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let database = open().await;
    let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database.clone());
    let first = waiting_agent(vec![Turn::call("wait", json!({}))], journal.clone(), gate.clone(), begun.clone());
    let (client, end, serving) = run(Server::new(journal, store).agent("agent", first).unwrap()).await;
    let id = client.thread().await;
    let mut body = say("wait");
    (body["stream_mode"], body["stream_resumable"]) = (json!(["updates"]), json!(true));
    let streaming = {
        let (client, path) = (client.clone(), format!("/threads/{id}/runs/stream"));
        tokio::spawn(async move { client.events(Method::POST, &path, None, &body).await })
    };
    soon(begun.notified()).await;
    let run_id = client.get(&format!("/threads/{id}/runs")).await[0]["run_id"].as_str().unwrap().to_owned();
    end.send(()).unwrap();
    // Once the listener is closed, the run has been told to stop.
    until(async || client.http.get(format!("{}/ok", client.url)).send().await.is_err()).await;
    gate.notify_one();
    soon(serving).await.unwrap();
    let before = soon(streaming).await.unwrap();
    drop(database);
    let database = open().await;
    let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database);
    let second = waiting_agent(vec![Turn::text("Waited.")], journal.clone(), gate, begun);
    let client = serve_on(second, journal, store).await;
    let path = format!("/threads/{id}/runs/{run_id}");
    let values: Value = client.get(&format!("{path}/join")).await;
    assert_eq!(roles(&values), ["human", "ai", "tool", "ai"]);
    assert_eq!(values["messages"][2]["content"], "waited");
    let all = client.events(Method::GET, &format!("{path}/stream"), Some("-1"), &json!({})).await;
    let last = &before.last().unwrap().1;
    let after = client.events(Method::GET, &format!("{path}/stream"), Some(last), &json!({})).await;
    let joined: Vec<_> = before.iter().chain(&after).cloned().collect();
    assert_eq!(joined, all, "what was read before and after the restart is all of it, once");
    // After another restart, the run is only in the log.
    let database = open().await;
    let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database);
    let third = crate::support::agent(vec![], journal.clone());
    let client = serve_on(third, journal, store).await;
    let again = client.events(Method::GET, &format!("{path}/stream"), Some("-1"), &json!({})).await;
    assert_eq!(again, all);
}

#[tokio::test]
async fn nothing_is_accepted_during_shutdown() {
    let running = server(vec![]).start().await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = running.router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    running.shutdown().await;
    let http = crate::support::http();
    let answer = http.post(format!("{url}/runs")).json(&say("hi")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.headers().contains_key("retry-after"));
}

/// The client sends all of a long body before it reads the answer, and then the next request on the same connection.
#[tokio::test]
async fn a_connection_is_kept_after_a_request_whose_body_was_not_wanted() {
    let client = serve(vec![]).await;
    let id = client.thread().await;
    let mut stream = TcpStream::connect(client.url.strip_prefix("http://").unwrap()).await.unwrap();
    let body = " ".repeat(3_000_000);
    for (path, status) in [("/nope", 404), ("/threads/x/copy", 422), (&*format!("/threads/{id}"), 405)] {
        let method = if status == 405 { "PUT" } else { "POST" };
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = String::new();
        while !answer.contains("\r\n\r\n") || !answer.ends_with('}') {
            let mut bytes = [0; 1024];
            let count = soon(stream.read(&mut bytes)).await.unwrap();
            assert!(count > 0, "{path}: the connection was closed after {answer:?}");
            answer.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_wanted_and_too_long_to_be_read_closes_its_connection() {
    let client = serve(vec![]).await;
    let mut stream = TcpStream::connect(client.url.strip_prefix("http://").unwrap()).await.unwrap();
    let head = format!("POST /nope HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", 1_u64 << 40);
    stream.write_all(head.as_bytes()).await.unwrap();
    let sent = async {
        // The server closes the connection at some point.
        while stream.write_all(&[b' '; 1 << 16]).await.is_ok() {}
    };
    soon(sent).await;
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_in_the_form_that_clients_read() {
    let client = serve(vec![]).await;
    for path in ["/threads/%ff/state", "/threads/%ff/runs/wait", "/threads/a%c3%28/copy"] {
        let (status, answer) = client.send(Method::POST, path, &json!({})).await;
        assert_eq!((status, answer["detail"].is_string()), (StatusCode::BAD_REQUEST, true), "{path}: {answer}");
    }
}
