//! Authentication and ownership.

use std::sync::{Arc, Mutex};

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Journal, MemoryJournal, tool_fn};
use deepagents_core::store::MemoryStore;
use deepagents_server::{Identity, Limits, ServedRun, Server, StaticTokens};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Client, Nothing, run, say, server, soon};

/// Starts a server with two users. Returns their clients, a client without a token, and the audit notes.
async fn two_users() -> (Client, Client, Client, Arc<Mutex<Vec<String>>>) {
    let limits = Limits { runs_at_once: Some(1), ..Limits::default() };
    let tokens = StaticTokens::new()
        .token("ada's", Identity::new("ada").limits(limits))
        .token("bob's", Identity::new("bob"))
        .token("root's", Identity::new("root").admin());
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = notes.clone();
    let turns = vec![Turn::text("Hello."), Turn::text("Hello.")];
    let server = server(turns).authenticate(tokens).audit(move |entry| {
        let who = entry.identity.as_deref().unwrap_or("nobody");
        noted.lock().unwrap().push(format!("{who} {} {} {}", entry.method, entry.path, entry.status));
    });
    let (client, _end, _serving) = run(server).await;
    (client.with_token("ada's"), client.with_token("bob's"), client, notes)
}

#[tokio::test]
async fn requests_without_a_valid_token_are_unauthorized() {
    let (_, _, stranger, notes) = two_users().await;
    assert_eq!(stranger.get("/ok").await, json!({"ok": true}));
    for (method, path) in [(Method::POST, "/threads/search"), (Method::GET, "/info"), (Method::POST, "/runs/wait")] {
        let (status, body) = stranger.send(method, path, &json!({})).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(body["detail"].is_string());
    }
    let wrong = stranger.with_token("guess");
    assert_eq!(wrong.send(Method::POST, "/threads", &json!({})).await.0, StatusCode::UNAUTHORIZED);
    assert!(notes.lock().unwrap().contains(&"nobody POST /threads 401".to_owned()));
}

#[tokio::test]
async fn another_users_resources_appear_not_to_exist() {
    let (ada, bob, client, notes) = two_users().await;
    let id = ada.post("/threads", json!({"metadata": {"topic": "secret"}})).await["thread_id"].clone();
    let id = id.as_str().unwrap();
    ada.post(&format!("/threads/{id}/runs/wait"), say("hi")).await;
    let run = ada.get(&format!("/threads/{id}/runs")).await[0]["run_id"].as_str().unwrap().to_owned();
    let assistant = ada.post("/assistants", json!({"graph_id": "agent"})).await["assistant_id"].clone();
    let assistant = assistant.as_str().unwrap();
    let mut cron = say("again");
    cron["schedule"] = json!("0 5 1 1 *");
    let cron = ada.post("/runs/crons", cron).await["cron_id"].as_str().unwrap().to_owned();
    let item = json!({"namespace": ["notes"], "key": "k", "value": {"x": 1}});
    ada.send(Method::PUT, "/store/items", &item).await;
    let mut created = say("hi");
    created["if_not_exists"] = json!("create");
    for (method, path, body) in [
        (Method::GET, format!("/threads/{id}"), json!({})),
        (Method::PATCH, format!("/threads/{id}"), json!({"metadata": {}})),
        (Method::DELETE, format!("/threads/{id}"), json!({})),
        (Method::POST, format!("/threads/{id}/copy"), json!({})),
        (Method::GET, format!("/threads/{id}/state"), json!({})),
        (Method::POST, format!("/threads/{id}/state"), json!({"values": {}})),
        (Method::GET, format!("/threads/{id}/history"), json!({})),
        (Method::POST, format!("/threads/{id}/history"), json!({})),
        (Method::POST, format!("/threads/{id}/runs"), created.clone()),
        (Method::POST, format!("/threads/{id}/runs/wait"), created.clone()),
        (Method::POST, format!("/threads/{id}/runs/stream"), created),
        (Method::GET, format!("/threads/{id}/runs"), json!({})),
        (Method::GET, format!("/threads/{id}/runs/{run}"), json!({})),
        (Method::GET, format!("/threads/{id}/runs/{run}/join"), json!({})),
        (Method::GET, format!("/threads/{id}/runs/{run}/stream"), json!({})),
        (Method::POST, format!("/threads/{id}/runs/{run}/cancel"), json!({})),
        (Method::DELETE, format!("/threads/{id}/runs/{run}"), json!({})),
        (Method::POST, format!("/threads/{id}/runs/crons"), json!({})),
        (Method::POST, format!("/threads/{id}/commands"), json!({"id": 1, "method": "state.get"})),
        (Method::POST, format!("/threads/{id}/stream/events"), json!({"channels": ["values"]})),
        (Method::GET, format!("/assistants/{assistant}"), json!({})),
        (Method::PATCH, format!("/assistants/{assistant}"), json!({})),
        (Method::DELETE, format!("/assistants/{assistant}"), json!({})),
        (Method::GET, format!("/runs/crons/{cron}"), json!({})),
        (Method::PATCH, format!("/runs/crons/{cron}"), json!({})),
        (Method::DELETE, format!("/runs/crons/{cron}"), json!({})),
        (Method::GET, "/store/items?namespace=notes&key=k".to_owned(), json!({})),
    ] {
        let (status, answer) = bob.send(method.clone(), &path, &body).await;
        let gone = status == StatusCode::NOT_FOUND || (path.starts_with("/store") && answer == Value::Null);
        assert!(gone, "{method} {path}: {status} {answer}");
    }
    for (path, body) in [
        ("/threads/search", json!({})),
        ("/threads/search", json!({"ids": [id]})),
        ("/threads/search", json!({"metadata": {"topic": "secret"}})),
        ("/runs/crons/search", json!({})),
        ("/assistants/search", json!({"name": "Untitled"})),
    ] {
        assert_eq!(bob.post(path, body).await, json!([]), "{path}");
    }
    let again = json!({"thread_id": id, "if_exists": "do_nothing"});
    assert_eq!(bob.send(Method::POST, "/threads", &again).await.0, StatusCode::CONFLICT);
    let again = json!({"graph_id": "agent", "assistant_id": assistant, "if_exists": "do_nothing"});
    assert_eq!(bob.send(Method::POST, "/assistants", &again).await.0, StatusCode::CONFLICT);
    let root = client.with_token("root's");
    assert_eq!(root.get(&format!("/threads/{id}")).await["metadata"]["topic"], "secret");
    assert!(notes.lock().unwrap().iter().any(|note| note.starts_with("bob DELETE /threads/")));
}

#[tokio::test]
async fn a_copy_belongs_to_whoever_made_it() {
    let (ada, _, client, _) = two_users().await;
    let root = client.with_token("root's");
    for has_run in [false, true] {
        let thread = format!("/threads/{}", ada.thread().await);
        if has_run {
            ada.post(&format!("{thread}/runs/wait"), say("hi")).await;
        }
        let copy = root.post(&format!("{thread}/copy"), json!({})).await["thread_id"].clone();
        let copy = format!("/threads/{}", copy.as_str().unwrap());
        assert_eq!(ada.send(Method::GET, &copy, &json!({})).await.0, StatusCode::NOT_FOUND, "{has_run}");
        let state = |thread: &str| format!("{thread}/state");
        assert_eq!(root.get(&state(&copy)).await["values"], ada.get(&state(&thread)).await["values"]);
    }
}

#[tokio::test]
async fn a_client_cannot_claim_another_owner_through_metadata() {
    let (ada, bob, _, _) = two_users().await;
    let given = json!({"metadata": {"deepagents_owner": "ada", "deepagents_server": {"config": {}}}});
    let made = bob.post("/threads", given.clone()).await;
    assert_eq!(made["metadata"], json!({}));
    let path = format!("/threads/{}", made["thread_id"].as_str().unwrap());
    let (status, _) = bob.send(Method::PATCH, &path, &given).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(ada.send(Method::GET, &path, &json!({})).await.0, StatusCode::NOT_FOUND);
    let mut run = say("hi");
    run["metadata"] = given["metadata"].clone();
    bob.post(&format!("{path}/runs/wait"), run).await;
    assert_eq!(ada.send(Method::GET, &path, &json!({})).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn each_caller_has_a_limit_of_concurrent_runs() {
    let (ada, _, _, _) = two_users().await;
    let mut later = say("hi");
    later["after_seconds"] = json!(3600);
    ada.post("/runs", later.clone()).await;
    let (status, _) = ada.send(Method::POST, "/runs", &later).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn every_documented_operation_exists_and_requires_authentication() {
    let (ada, _, stranger, _) = two_users().await;
    nothing_answers(&stranger, &ada).await;
}

/// Calls every operation in the API description, as a stranger and as a user.
pub(crate) async fn nothing_answers(stranger: &Client, ada: &Client) {
    let document = ada.get("/openapi.json").await;
    let anything = "00000000-0000-4000-8000-000000000000";
    let mut asked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let mut place = path.clone();
        for name in ["assistant_id", "thread_id", "checkpoint_id", "run_id", "cron_id"] {
            place = place.replace(&format!("{{{name}}}"), anything);
        }
        for method in operations.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            let method: Method = method.to_uppercase().parse().unwrap();
            let (status, _) = stranger.send(method.clone(), &place, &json!({})).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}");
            // The feed of a thread that does not exist yet never ends.
            if !path.ends_with("/stream/events") {
                let (status, answer) = ada.send(method.clone(), &place, &json!({})).await;
                let missing = status == StatusCode::NOT_FOUND && answer["detail"] == "Not Found";
                assert!(!missing && status != StatusCode::METHOD_NOT_ALLOWED, "{method} {path}: {status}");
            }
            asked += 1;
        }
    }
    assert!(asked > 50);
}

/// Returns the response to a browser's preflight request.
async fn preflight(client: &Client, origin: &str) -> (StatusCode, bool) {
    let request = client.http.request(Method::OPTIONS, format!("{}/threads", client.url));
    let request = request.header("origin", origin).header("access-control-request-method", "POST");
    let answer = request.header("access-control-request-headers", "x-api-key").send().await.unwrap();
    let allowed = answer.headers().get("access-control-allow-origin").is_some_and(|allowed| allowed == origin);
    (answer.status(), allowed)
}

#[tokio::test]
async fn public_pages_of_allowed_origins_may_call_a_server_of_a_private_network() {
    let client = run(server(vec![]).origin("https://app.example.com")).await.0;
    for (origin, allowed) in [("https://app.example.com", true), ("https://evil.example", false)] {
        let request = client.http.request(Method::OPTIONS, format!("{}/threads", client.url)).header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        let answer = request.header("access-control-request-private-network", "true").send().await.unwrap();
        let told = answer.headers().get("access-control-allow-private-network").is_some_and(|told| told == "true");
        assert_eq!(told, allowed, "{origin}");
    }
}

#[tokio::test]
async fn only_pages_from_configured_origins_may_call() {
    let client = run(server(vec![]).origin("https://app.example.com")).await.0;
    assert_eq!(preflight(&client, "https://app.example.com").await, (StatusCode::OK, true));
    assert_eq!(preflight(&client, "http://localhost:3000").await, (StatusCode::OK, true));
    for other in [
        "http://app.example.com",
        "https://app.example.com:8443",
        "https://app.example.com.evil.example",
        "https://evil.example",
        "null",
    ] {
        assert_eq!(preflight(&client, other).await, (StatusCode::FORBIDDEN, false), "{other}");
        assert_eq!(client.status_with("origin", other).await, StatusCode::FORBIDDEN, "{other}");
    }
    let open = run(server(vec![]).origin("*")).await.0;
    assert_eq!(preflight(&open, "https://anybody.example").await, (StatusCode::OK, true));
    assert_eq!(open.status_with("host", "evil.example").await, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn host_names_are_compared_without_case_and_ambiguous_headers_are_rejected() {
    let client = run(server(vec![]).host("agents.example.com")).await.0;
    for host in ["LOCALHOST", "localhost.", "Agents.Example.com:8123"] {
        assert_eq!(client.status_with("host", host).await, StatusCode::OK, "{host}");
    }
    for (name, value) in [("host", "evil.com@127.0.0.1"), ("origin", "http://evil@127.0.0.1")] {
        assert_eq!(client.status_with(name, value).await, StatusCode::FORBIDDEN, "{name}: {value}");
    }
    let address = client.url.strip_prefix("http://").unwrap();
    for head in [
        b"host: localhost\r\nhost: evil.com\r\n".as_slice(),
        b"host: \xff\r\n",
        b"host: localhost\r\norigin: http://127.0.0.1\r\norigin: http://evil.com\r\n",
    ] {
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        socket.write_all(&[b"GET /ok HTTP/1.1\r\n", head, b"\r\n"].concat()).await.unwrap();
        let mut status = [0; 12];
        soon(socket.read_exact(&mut status)).await.unwrap();
        assert!(status.starts_with(b"HTTP/1.1 4"), "{head:?}");
    }
}

#[tokio::test]
async fn requests_rejected_for_their_host_or_origin_are_audited() {
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = notes.clone();
    let server = server(vec![]).audit(move |entry| {
        noted.lock().unwrap().push(format!("{:?} {} {} {}", entry.identity, entry.method, entry.path, entry.status));
    });
    let client = run(server).await.0;
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        assert_eq!(client.status_with(name, value).await, StatusCode::FORBIDDEN);
    }
    preflight(&client, "https://evil.example").await;
    let notes = notes.lock().unwrap().clone();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert_eq!(notes.iter().filter(|note| note.ends_with(" 403") && note.starts_with("None ")).count(), 3, "{notes:?}");
    assert_eq!(notes[2], "None OPTIONS /threads 403");
}

#[tokio::test]
async fn tools_see_the_caller_and_context_but_the_model_does_not() {
    let who = tool_fn("who", "Says who asks.", |_: Nothing, cx| async move {
        let run = cx.extension::<ServedRun>().cloned().unwrap_or_default();
        let said = json!({"context": run.context, "caller": run.caller, "mine": run.metadata.get("mine")});
        Ok(said.to_string())
    });
    let model = ScriptedModel::new([Turn::call("who", json!({})), Turn::text("Known.")]);
    let seen = model.clone();
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let agent = DeepAgent::builder().model(model).journal(journal.clone()).tool(who).build().unwrap();
    let tokens = StaticTokens::new().token("ada's", Identity::new("ada"));
    let server = Server::new(journal, Arc::new(MemoryStore::default())).agent("agent", agent).unwrap();
    let (client, _end, _serving) = run(server.authenticate(tokens)).await;
    let ada = client.with_token("ada's");
    let made = json!({"graph_id": "agent", "context": {"customer": "all", "language": "no"}});
    let assistant = ada.post("/assistants", made).await["assistant_id"].clone();
    let mut body = say("who am I?");
    body["assistant_id"] = assistant;
    body["context"] = json!({"customer": "c-17"});
    body["metadata"] = json!({"mine": 1});
    let values = ada.post("/runs/wait", body).await;
    let told: Value = serde_json::from_str(values["messages"][2]["content"].as_str().unwrap()).unwrap();
    let context = json!({"customer": "c-17", "language": "no"});
    assert_eq!(told, json!({"context": context, "caller": "ada", "mine": 1}));
    assert!(!format!("{:?}", seen.requests()[0]).contains("c-17"));
}
