//! Servers that speak HTTP+SSE: an event stream, and messages to another address.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_mcp::{Entry, McpOptions, McpServers, ServerConfig};
use deepagents_models::scripted::Turn;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

use crate::issuer::{Issuer, Request, decoded, read};
use crate::logins::login;
use crate::odd_http::{Address, Reply};
use crate::script::{agent, alone, eventually, offered, one_call, options, results, run};

/// A server with one tool. The argument `case` of a call says how the server handles it.
#[derive(Clone)]
struct Older {
    address: String,
    wants: Arc<Wants>,
    requests: Arc<Mutex<Vec<Request>>>,
    /// Output for all open streams.
    pieces: broadcast::Sender<String>,
    /// How many messages that were never confirmed the client has stopped waiting for.
    given_up: Arc<AtomicUsize>,
}

/// How a server deviates from the usual.
struct Wants {
    /// The status of a message that is sent to the stream's own address.
    refusal: &'static str,
    /// The address in the first event of a stream. Without it, the stream ends.
    endpoint: Option<String>,
    /// The prefix of accepted tokens, and their issuer.
    token: Option<(&'static str, String)>,
    /// Whether tokens are bound to keys, with one nonce for streams and another for messages.
    dpop: bool,
}

impl Default for Wants {
    fn default() -> Self {
        let endpoint = Some("/messages?session=s-1".to_owned());
        Self { refusal: "405 Method Not Allowed", endpoint, token: None, dpop: false }
    }
}

impl Older {
    async fn start(wants: Wants) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let pieces = broadcast::channel(64).0;
        let server =
            Self { address, wants: Arc::new(wants), requests: Arc::default(), pieces, given_up: Arc::default() };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().answer(stream));
            }
        });
        server
    }

    fn url(&self) -> String {
        format!("{}/sse", self.address)
    }

    fn config(&self) -> ServerConfig {
        ServerConfig::sse(self.url())
    }

    /// Returns the requests whose first line has this prefix.
    fn requests(&self, line: &str) -> Vec<Request> {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|request| request.line.starts_with(line)).cloned().collect()
    }

    /// Returns how often a method was sent.
    fn sent(&self, method: &str) -> usize {
        let word = format!("\"method\":\"{method}\"");
        self.requests("POST /messages").iter().filter(|request| request.body.contains(&word)).count()
    }

    async fn answer(self, mut stream: TcpStream) {
        let Some(request) = read(&mut stream).await else { return };
        self.requests.lock().unwrap().push(request.clone());
        let scheme = if self.wants.dpop { "DPoP " } else { "Bearer " };
        let token = request.header("authorization").and_then(|header| header.strip_prefix(scheme));
        let nonce = if request.line.starts_with("GET") { "of-streams" } else { "of-messages" };
        let proven = request.header("dpop").is_some_and(|proof| decoded(proof).1["nonce"] == nonce);
        let may = |begins: &str| token.is_some_and(|token| token.starts_with(begins));
        let (status, body) = match request.line.split(' ').take(2).collect::<Vec<_>>().join(" ").as_str() {
            "GET /.well-known/oauth-protected-resource/sse" if self.wants.token.is_some() => {
                let issuers = self.wants.token.iter().map(|(_, issuer)| issuer).collect::<Vec<_>>();
                ("200 OK", json!({"resource": self.url(), "authorization_servers": issuers}).to_string())
            }
            _ if self.wants.token.as_ref().is_some_and(|(begins, _)| !may(begins)) => {
                ("401 Unauthorized", String::new())
            }
            "GET /sse" | "POST /messages?session=s-1" if self.wants.dpop && !proven => {
                ("401 Unauthorized", String::new())
            }
            "GET /sse" => return self.stream(stream).await,
            "POST /messages?session=s-1" => self.take(&serde_json::from_str(&request.body).unwrap_or_default()),
            "POST /sse" => (self.wants.refusal, "no such thing".to_owned()),
            _ => ("404 Not Found", String::new()),
        };
        if status.is_empty() {
            let _ = stream.read(&mut [0; 1]).await;
            self.given_up.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
        let mut head = format!("content-type: {kind}\r\ncontent-length: {}\r\nconnection: close", body.len());
        if self.wants.dpop && status.starts_with("401") {
            let challenge = "www-authenticate: DPoP algs=\"ES256\", error=\"use_dpop_nonce\"";
            head = format!("{head}\r\n{challenge}\r\ndpop-nonce: {nonce}");
        }
        let _ = stream.write_all(format!("HTTP/1.1 {status}\r\n{head}\r\n\r\n{body}").as_bytes()).await;
    }

    async fn stream(self, mut stream: TcpStream) {
        let mut pieces = self.pieces.subscribe();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: hello\n\n";
        let _ = stream.write_all(head.as_bytes()).await;
        let Some(endpoint) = &self.wants.endpoint else { return };
        let endpoint = endpoint.replace("{origin}", &self.address);
        let _ = stream.write_all(format!("event: endpoint\ndata: {endpoint}\n\n").as_bytes()).await;
        while let Ok(piece) = pieces.recv().await {
            if piece.is_empty() || stream.write_all(piece.as_bytes()).await.is_err() {
                return;
            }
        }
    }

    /// Handles a message. Its response, if any, goes to the stream.
    fn take(&self, message: &Value) -> (&'static str, String) {
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "older", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
            "tools/call" => match message["params"]["arguments"]["case"].as_str().unwrap_or_default() {
                "end" => {
                    let _ = self.pieces.send(String::new());
                    return ("202 Accepted", "Accepted".to_owned());
                }
                "silence" => return ("202 Accepted", "Accepted".to_owned()),
                "500" => return ("500 Internal Server Error", "secret words".to_owned()),
                "refused" => {
                    let error = json!({"code": -32602, "message": "no such case"});
                    return ("400 Bad Request", json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string());
                }
                "long" => {
                    let _ = self.pieces.send(format!("data: {}\n\n", "x".repeat(17 << 20)));
                    return ("202 Accepted", "Accepted".to_owned());
                }
                "asks" => {
                    let ask = |id: u32| format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
                    let _ = self.pieces.send((1_000..1_200).map(ask).collect());
                    json!({"content": [{"type": "text", "text": "asked"}]})
                }
                case => json!({"content": [{"type": "text", "text": format!("heard {case}")}]}),
            },
            // Answers are never confirmed.
            "" => return ("", String::new()),
            _ => return ("202 Accepted", "Accepted".to_owned()),
        };
        // The id as a string, as some servers write it.
        let answer = json!({"jsonrpc": "2.0", "id": message["id"].to_string(), "result": result});
        let _ = self.pieces.send(format!("event: message\r\ndata: {answer}\r\n\r\n"));
        let is_confirmed = message["params"]["arguments"]["case"] != "unconfirmed";
        (if is_confirmed { "202 Accepted" } else { "" }, "Accepted".to_owned())
    }
}

fn call(case: &str) -> Turn {
    Turn::call("mcp__alpha__echo", json!({"case": case}))
}

#[tokio::test]
async fn a_server_that_answers_on_a_stream_of_events_is_used_and_nothing_is_sent_to_the_address_of_the_stream() {
    let older = Older::start(Wants::default()).await;
    let entry = json!({"type": "sse", "url": older.url(), "headers": {"X-Key": "${KEY}"}});
    let entry: Entry = serde_json::from_value(entry).unwrap();
    let servers = alone(entry.config(&|_| Some("key-1".to_owned())).unwrap());
    let (agent, model) = agent(&servers, [call("one"), call("two"), Turn::text("Done.")]);
    let (outcome, told) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(offered(&model, 0), ["mcp__alpha__echo"], "{told:?}");
    assert_eq!(results(&outcome), [("heard one".to_owned(), false), ("heard two".to_owned(), false)]);
    assert_eq!((older.requests("GET /sse").len(), older.requests("POST /sse").len()), (1, 0));
    assert_eq!((older.sent("initialize"), older.sent("notifications/initialized")), (1, 1));
    assert_eq!(older.sent("server/discover"), 0, "no server of this transport speaks the newer protocol");
    assert!(older.requests("").iter().all(|request| request.header("x-key") == Some("key-1")));
}

#[tokio::test]
async fn an_address_that_refuses_to_initialize_as_servers_did_before_streamable_http_is_asked_for_its_stream() {
    let mut addresses = Vec::new();
    for refusal in ["400 Bad Request", "404 Not Found", "405 Method Not Allowed"] {
        addresses.push((refusal, Older::start(Wants { refusal, ..Wants::default() }).await));
    }
    let servers = addresses.iter().map(|(name, older)| (*name, ServerConfig::http(older.url())));
    let servers = McpServers::new(servers, options());
    servers.ready().await;
    let problems: Vec<_> = servers.status().iter().map(|status| status.problem().map(str::to_owned)).collect();
    servers.close().await;
    assert_eq!(problems, [None, None, None]);
}

#[tokio::test]
async fn any_other_refusal_is_told_as_it_is() {
    let older = Older::start(Wants { refusal: "410 Gone", ..Wants::default() }).await;
    let servers = alone(ServerConfig::http(older.url()));
    servers.ready().await;
    let status = servers.status();
    servers.close().await;
    assert!(status[0].problem().unwrap().contains("HTTP status 410: no such thing"), "{status:?}");
    assert!(older.requests("GET /sse").is_empty());
}

#[tokio::test]
async fn an_address_of_neither_transport_is_told_what_it_said_to_the_first() {
    let silent = Older::start(Wants { endpoint: None, ..Wants::default() }).await;
    let servers = [("http", ServerConfig::http(silent.url())), ("sse", silent.config())];
    let nothing = ServerConfig::sse(format!("{}/nothing", silent.address));
    let away = ServerConfig::sse("http://127.0.0.1:9/sse");
    let servers = McpServers::new(servers.into_iter().chain([("nothing", nothing), ("away", away)]), options());
    servers.ready().await;
    let status = servers.status();
    servers.close().await;
    let problem = |name: &str| status.iter().find(|status| status.name == name).unwrap().problem().unwrap().to_owned();
    assert!(problem("http").contains("HTTP status 405: no such thing"), "{status:?}");
    for (name, words) in [("sse", "does not say where messages are sent to"), ("nothing", "404")] {
        let problem = problem(name);
        assert!(problem.contains(words) && problem.contains("neither HTTP+SSE nor streamable HTTP"), "{problem}");
    }
    // The protocol of an unreachable server is unknown.
    assert!(problem("away").contains("refused") && !problem("away").contains("neither"), "{status:?}");
}

#[tokio::test]
async fn an_entry_of_the_older_transport_whose_address_speaks_streamable_http_is_spoken_to_in_that() {
    let address = Address::serve(|_, _| Reply::Usual).await;
    let servers = alone(ServerConfig::sse(address.url));
    let (agent, _) = agent(&servers, one_call("echo", json!({})));
    let (outcome, told) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(results(&outcome), [("heard".to_owned(), false)], "{told:?}");
}

#[tokio::test]
async fn messages_go_to_no_other_origin() {
    let other = Older::start(Wants::default()).await;
    let endpoint = Some(format!("{}/messages?session=s-1", other.address));
    let older = Older::start(Wants { endpoint, ..Wants::default() }).await;
    for config in [older.config(), ServerConfig::http(older.url())] {
        let servers = alone(config.header("X-Key", "key-1"));
        servers.ready().await;
        let status = servers.status();
        servers.close().await;
        let problem = status[0].problem().unwrap();
        assert!(problem.contains("another origin") && !problem.contains("s-1"), "{problem}");
    }
    assert!(other.requests("").is_empty());
}

#[tokio::test]
async fn a_whole_address_of_the_same_origin_is_one_for_messages() {
    let endpoint = Some("{origin}/messages?session=s-1".to_owned());
    let older = Older::start(Wants { endpoint, ..Wants::default() }).await;
    let servers = alone(older.config());
    servers.ready().await;
    let status = servers.status();
    servers.close().await;
    assert_eq!(status[0].problem(), None);
}

#[tokio::test]
async fn a_stream_that_ends_under_a_call_is_an_error_and_the_next_call_opens_another_one() {
    let older = Older::start(Wants::default()).await;
    let servers = alone(older.config());
    let (agent, _) = agent(&servers, [call("end"), call("again"), call("long"), Turn::text("Done.")]);
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    let results = results(&outcome);
    assert!(results[0].1 && results[0].0.contains("whether the request had an effect is not known"), "{results:?}");
    assert_eq!(results[1], ("heard again".to_owned(), false));
    assert!(results[2].1 && results[2].0.contains("longer than 16 MiB"), "{results:?}");
    assert_eq!((older.requests("GET /sse").len(), older.sent("tools/call")), (2, 3), "nothing is made twice by itself");
}

#[tokio::test]
async fn a_message_that_is_refused_is_an_error_of_its_call_alone() {
    let older = Older::start(Wants::default()).await;
    let servers = alone(older.config());
    let (agent, _) = agent(&servers, [call("500"), call("refused"), call("last"), Turn::text("Done.")]);
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    let results = results(&outcome);
    assert!(results[0].1 && results[0].0.contains("HTTP status 500") && !results[0].0.contains("s-1"), "{results:?}");
    assert!(results[1].1 && results[1].0.contains("no such case (-32602)"), "{results:?}");
    assert_eq!(results[2], ("heard last".to_owned(), false));
    assert_eq!(older.requests("GET /sse").len(), 1);
}

#[tokio::test]
async fn a_message_that_is_never_confirmed_is_answered_and_its_socket_is_closed_in_the_end() {
    let older = Older::start(Wants::default()).await;
    let servers = alone(older.config());
    let (agent, _) = agent(&servers, [call("unconfirmed"), Turn::text("Done.")]);
    let (outcome, _) = run(&agent, "Go.").await;
    assert_eq!(results(&outcome), [("heard unconfirmed".to_owned(), false)]);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3_601)).await;
    tokio::time::resume();
    eventually("the end of the socket", || older.given_up.load(Ordering::Relaxed) == 1).await;
    servers.close().await;
}

#[tokio::test]
async fn a_server_that_asks_much_and_confirms_no_answer_gets_few_sockets_at_a_time() {
    let older = Older::start(Wants::default()).await;
    let servers = alone(older.config());
    let (agent, _) = agent(&servers, [call("asks"), call("more"), Turn::text("Done.")]);
    let (outcome, _) = run(&agent, "Go.").await;
    let expected = ["asked", "heard more"].map(|text| (text.to_owned(), false));
    assert_eq!(results(&outcome), expected);
    let answers = || older.requests("POST /messages").iter().filter(|request| !request.body.contains("method")).count();
    eventually("the first answers", || answers() == 16).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    eventually("the end of their sockets", || older.given_up.load(Ordering::Relaxed) == 16).await;
    eventually("the next answers", || answers() == 32).await;
    servers.close().await;
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled_at_the_server() {
    let older = Older::start(Wants::default()).await;
    let servers = alone(older.config());
    let (agent, _) = agent(&servers, one_call("echo", json!({"case": "silence"})));
    let mut events = agent.run("Go.");
    let handle = events.handle();
    let reading = tokio::spawn(async move { while events.next().await.is_some() {} });
    eventually("the call", || older.sent("tools/call") == 1).await;
    handle.cancel();
    reading.await.unwrap();
    eventually("the notice", || older.sent("notifications/cancelled") == 1).await;
    servers.close().await;
}

#[tokio::test]
async fn a_login_covers_the_stream_and_the_messages() {
    let issuer = Issuer::start().await;
    let older = Older::start(Wants { token: Some(("token-", issuer.address.clone())), ..Wants::default() }).await;
    let refused = alone(older.config());
    refused.ready().await;
    let status = refused.status();
    refused.close().await;
    assert!(status[0].problem().unwrap().contains("deepagents mcp login alpha"), "{status:?}");
    let folder = tempfile::tempdir().unwrap();
    login(&older.config(), folder.path()).await;
    for config in [older.config(), ServerConfig::http(older.url())] {
        let options = McpOptions { token_dir: Some(folder.path().to_owned()), ..options() };
        let servers = McpServers::new([("alpha", config)], options);
        servers.ready().await;
        let status = servers.status();
        servers.close().await;
        assert_eq!(status[0].problem(), None);
    }
}

#[tokio::test]
async fn nonces_that_the_stream_and_the_messages_require_are_taken_up() {
    let issuer = Issuer::start().await.with(|wants| wants.dpop = true);
    let token = Some(("token-", issuer.address.clone()));
    let older = Older::start(Wants { token, dpop: true, ..Wants::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    login(&older.config(), folder.path()).await;
    let options = McpOptions { token_dir: Some(folder.path().to_owned()), ..options() };
    let servers = McpServers::new([("alpha", older.config())], options);
    let (agent, _) = agent(&servers, [call("one"), Turn::text("Done.")]);
    let (outcome, told) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(results(&outcome), [("heard one".to_owned(), false)], "{told:?}");
    assert!(older.requests("POST /sse").iter().all(|request| request.header("dpop").is_none()), "nothing is probed");
}
