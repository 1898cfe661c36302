//! HTTP servers whose responses are malformed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deepagents_mcp::{McpServers, ServerConfig, ServerState, shown_address};
use deepagents_models::scripted::Turn;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::issuer::{Request, read};
use crate::script::{agent, alone, eventually, offered, one_call, options, results, run};

/// The response of a server.
#[derive(Clone)]
pub(crate) enum Reply {
    /// The usual response of a server of the older protocol.
    Usual,
    /// None; the connection stays open.
    Silence,
    /// A complete HTTP response.
    Http(String),
}

type Odd = dyn Fn(&Request, &Value) -> Reply + Send + Sync;

/// Builds an HTTP response.
fn http(status: &str, kind: &str, body: &str) -> Reply {
    let kind = if kind.is_empty() { String::new() } else { format!("content-type: {kind}\r\n") };
    let length = body.len();
    Reply::Http(format!("HTTP/1.1 {status}\r\n{kind}content-length: {length}\r\nconnection: close\r\n\r\n{body}"))
}

fn json(body: &str) -> Reply {
    http("200 OK", "application/json", body)
}

fn events(body: &str) -> Reply {
    http("200 OK", "text/event-stream", body)
}

/// A URL, with the number of connections closed by the client without a response.
pub(crate) struct Address {
    pub(crate) url: String,
    given_up: Arc<AtomicUsize>,
}

impl Address {
    pub(crate) async fn serve(odd: impl Fn(&Request, &Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (odd, given_up): (Arc<Odd>, _) = (Arc::new(odd), Arc::new(AtomicUsize::new(0)));
        let count = given_up.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, odd.clone(), count.clone()));
            }
        });
        Self { url, given_up }
    }
}

async fn answer(mut stream: TcpStream, odd: Arc<Odd>, given_up: Arc<AtomicUsize>) {
    let Some(request) = read(&mut stream).await else { return };
    let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
    let reply = match odd(&request, &message) {
        Reply::Usual => as_a_server(&request, &message),
        odd => odd,
    };
    match reply {
        Reply::Http(answer) => {
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
        Reply::Usual | Reply::Silence => {
            // Until the client closes the connection.
            while stream.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {}
            given_up.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// The response of a server of the older protocol with one tool.
fn as_a_server(request: &Request, message: &Value) -> Reply {
    let result = match message["method"].as_str().unwrap_or_default() {
        _ if !request.line.starts_with("POST") => return http("405 Method Not Allowed", "", ""),
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "odd", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        "tools/call" => said("heard"),
        method if method.starts_with("notifications/") => return http("202 Accepted", "", ""),
        _ => {
            let error = json!({"code": -32601, "message": "unknown"});
            return json(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string());
        }
    };
    json(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string())
}

fn said(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

#[tokio::test]
async fn any_failure_of_the_newer_protocols_probe_falls_back_to_the_older_one() {
    let answers: [(&str, Reply); 12] = [
        ("silence", Reply::Silence),
        ("500", http("500 Internal Server Error", "", "")),
        ("501", http("501 Not Implemented", "text/plain", "no")),
        ("502", http("502 Bad Gateway", "text/html", "<html>")),
        ("403", http("403 Forbidden", "text/plain", "no")),
        ("page", http("200 OK", "text/html", "<html>log in</html>")),
        ("202", http("202 Accepted", "", "")),
        ("empty", http("200 OK", "", "")),
        ("reset", Reply::Http(String::new())),
        ("events", events("data: {}\n\n")),
        ("other", events("data: {\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n\n")),
        ("error", events("data: {\"jsonrpc\":\"2.0\",\"id\":99,\"error\":{\"code\":-32601,\"message\":\"no\"}}\n\n")),
    ];
    let mut addresses = Vec::new();
    for (name, answer) in answers {
        let odd = move |_: &Request, message: &Value| match message["method"] == "server/discover" {
            true => answer.clone(),
            false => Reply::Usual,
        };
        addresses.push((name, Address::serve(odd).await));
    }
    let servers = addresses.iter().map(|(name, address)| (*name, ServerConfig::http(address.url.as_str())));
    let servers = McpServers::new(servers, options());
    servers.ready().await;
    for status in servers.status() {
        assert_eq!(status.state, ServerState::Connected, "{}: {:?}", status.name, status.problem());
    }
    let silent = addresses[0].1.given_up.clone();
    eventually("the end of the question", || silent.load(Ordering::Acquire) == 1).await;
    servers.close().await;
}

/// Returns the results of calls whose argument selects the response.
async fn called(
    cases: &[&'static str],
    odd: impl Fn(&str, &Request, &Value) -> Reply + Send + Sync + 'static,
) -> Vec<(String, bool)> {
    let address = Address::serve(move |request, message| {
        let case = message["params"]["arguments"]["case"].as_str().unwrap_or_default();
        odd(case, request, message)
    });
    // No call may wait for this timeout: the test itself would time out first.
    let servers = alone(ServerConfig::http(address.await.url).call_timeout(Duration::from_secs(3_600)));
    let calls = cases.iter().map(|case| ("mcp__alpha__echo", json!({"case": case})));
    let (agent, _) = agent(&servers, [Turn::calls(calls), Turn::text("Done.")]);
    let (outcome, told) = run(&agent, "Go.").await;
    servers.close().await;
    let results = results(&outcome);
    assert_eq!(results.len(), cases.len(), "{told:?}");
    results
}

#[tokio::test]
async fn imperfect_but_unambiguous_http_responses_are_accepted() {
    let cases = ["batch", "null", "half", "text", "mark", "unnumbered", "sse-batch", "sse-half", "sse-text"];
    let results = called(&cases, |case, _, message| {
        let answer = |id: &Value| json!({"jsonrpc": "2.0", "id": id, "result": said("here")}).to_string();
        let (id, plain) = (&message["id"], answer(&message["id"]));
        let text = answer(&json!(id.to_string()));
        let half = plain.replace("here", "here \\ud83d");
        match case {
            "batch" => json(&format!("[{plain}]")),
            "null" => json(&plain.replace("\"jsonrpc\"", "\"error\":null,\"jsonrpc\"")),
            "half" => json(&half),
            "text" => json(&text),
            "mark" => json(&format!("\u{feff}{plain}")),
            "unnumbered" => {
                json(&json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "here"}}).to_string())
            }
            "sse-batch" => events(&format!("data: [{plain}]\n\n")),
            "sse-half" => events(&format!("data: {half}\n\n")),
            "sse-text" => events(&format!("id: 1\ndata: {text}\n\n")),
            _ => Reply::Usual,
        }
    });
    for (case, (said, is_error)) in cases.iter().zip(results.await) {
        assert!(said.contains("here") && is_error == (*case == "unnumbered"), "{case}: {said}");
    }
}

#[tokio::test]
async fn an_unusable_http_response_fails_its_call_at_once() {
    let cases = [
        ("other", "it answered a different request"),
        ("202", "gave no answer"),
        ("empty", "its answer is empty"),
        ("words", "its answer is not a message: Hello <b>"),
        ("page", "text/html"),
        ("nothing", "neither a result nor an error"),
        ("cut", "unreadable answer"),
        ("number", "unreadable answer"),
        ("400", "HTTP status 400: no such thing"),
        ("500", "HTTP status 500"),
        ("sse-number", "unreadable answer"),
        ("sse-long", "16 MiB"),
        ("sse-gone", "its result was lost"),
    ];
    let names = cases.map(|(name, _)| name);
    let results = called(&names, |case, request, message| {
        if request.header("last-event-id").is_some() {
            return http("404 Not Found", "application/json", "{}");
        }
        let id = &message["id"];
        let number = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":NaN}}}}"#);
        match case {
            "other" => json(&json!({"jsonrpc": "2.0", "id": 7_777, "result": said("x")}).to_string()),
            "202" => http("202 Accepted", "", ""),
            "empty" => json(""),
            "words" => json("Hello <b>"),
            "page" => http("200 OK", "text/html", "<html>"),
            "nothing" => json(&json!({"jsonrpc": "2.0", "id": id}).to_string()),
            "cut" => json(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"#)),
            "number" => json(&number),
            "400" => http("400 Bad Request", "text/plain", "no such thing"),
            "500" => http("500 Internal Server Error", "text/plain", "secret words"),
            "sse-number" => events(&format!("data: {number}\n\n")),
            "sse-long" => events(&format!("data: {}\n\n", "x".repeat(17 << 20))),
            "sse-gone" => events("id: one\nretry: 10\ndata: \n\n"),
            _ => Reply::Usual,
        }
    });
    for ((case, words), (said, is_error)) in cases.iter().zip(results.await) {
        assert!(is_error && said.contains(words) && !said.contains("secret words"), "{case}: {said}");
        assert!(!said.contains("ServerJsonRpcMessage"), "{case}: {said}");
    }
}

#[tokio::test]
async fn tools_are_listed_again_after_a_server_forgot_the_session() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let calls = Arc::new(AtomicUsize::new(0));
    let address = Address::serve(move |request, message| {
        let session = request.header("mcp-session-id").and_then(|id| id.parse::<usize>().ok()).unwrap_or_default();
        let first = |answer: &Value| json!({"jsonrpc": "2.0", "id": message["id"], "result": answer}).to_string();
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                let id = sessions.fetch_add(1, Ordering::AcqRel) + 1;
                let info = json!({"name": "odd", "version": "1"});
                let body =
                    first(&json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}));
                let head = format!("content-type: application/json\r\nmcp-session-id: {id}\r\nconnection: close");
                let length = body.len();
                Reply::Http(format!("HTTP/1.1 200 OK\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}"))
            }
            "tools/list" => {
                let tools = ["echo", "newer"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
                json(&first(&json!({"tools": tools[..session]})))
            }
            "tools/call" if session == 1 && calls.fetch_add(1, Ordering::AcqRel) > 0 => http("404 Not Found", "", ""),
            _ => Reply::Usual,
        }
    });
    let servers = alone(ServerConfig::http(address.await.url));
    let echo = || Turn::call("mcp__alpha__echo", json!({}));
    let (agent, model) = agent(&servers, [echo(), echo(), Turn::text("Done.")]);
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(results(&outcome), [("heard".to_owned(), false), ("heard".to_owned(), false)]);
    let known = [["mcp__alpha__echo"].as_slice(), &["mcp__alpha__echo"], &["mcp__alpha__echo", "mcp__alpha__newer"]];
    assert_eq!([0, 1, 2].map(|request| offered(&model, request)), known);
}

#[tokio::test]
async fn values_of_headers_appear_in_no_error() {
    let address = Address::serve(|request, message| {
        let said = ["x-stage", "x-key", "x-team"].map(|name| request.header(name).unwrap()).join(" ");
        let error = json!({"code": -1, "message": format!("{}{said}", ".".repeat(280))});
        match message["method"].as_str() {
            Some("initialize") => json(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string()),
            _ => Reply::Usual,
        }
    });
    let address = address.await;
    let config = ServerConfig::http(&address.url)
        .header("X-Key", "KEY-abc")
        .header("X-Team", "team-of-many")
        .header("X-Stage", "prod");
    let servers = alone(config);
    servers.ready().await;
    let problem = servers.status()[0].problem().unwrap().to_owned();
    servers.close().await;
    assert!(problem.contains("prod *** ***…"), "{problem}");
    assert!(!problem.contains("KEY-") && !problem.contains("team-of"), "{problem}");
}

#[tokio::test]
async fn secrets_in_an_address_appear_in_no_error() {
    let servers = alone(ServerConfig::http("http://127.0.0.1:9/mcp?token=sk-q"));
    let (agent, _) = agent(&servers, one_call("echo", json!({})));
    let (_, told) = run(&agent, "Go.").await;
    let status = servers.status();
    servers.close().await;
    assert!(!format!("{told:?}").contains("sk-q") && !status[0].problem().unwrap().contains("sk-q"), "{status:?}");
    assert_eq!(shown_address("http://k@h:1/mcp/x#y"), "http://…@h:1/mcp/x?…");
}
