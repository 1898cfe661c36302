//! A server on a free port, and a client for it.

use std::sync::Arc;
use std::time::Duration;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, InterruptPolicy, Journal, MemoryJournal, tool_fn};
use deepagents_core::store::{MemoryStore, Store};
use deepagents_server::Server;
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct City {
    pub(crate) city: String,
}

/// No arguments.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

/// Builds an agent with a `book` tool that needs approval.
pub(crate) fn agent(turns: Vec<Turn>, journal: Arc<dyn Journal>) -> DeepAgent {
    let book = tool_fn("book", "Books a trip.", |args: City, _cx| async move { Ok(format!("booked {}", args.city)) });
    let asks: InterruptPolicy = serde_json::from_value(json!({"book": true})).unwrap();
    let builder = DeepAgent::builder().model(ScriptedModel::new(turns)).journal(journal);
    builder.tool(book).interrupt_on(asks).build().unwrap()
}

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
    pub(crate) token: Option<String>,
}

/// Serves an agent whose model gives these answers.
pub(crate) async fn serve(turns: Vec<Turn>) -> Client {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    serve_on(agent(turns, journal.clone()), journal, Arc::new(MemoryStore::default())).await
}

pub(crate) async fn serve_on(agent: DeepAgent, journal: Arc<dyn Journal>, store: Arc<dyn Store>) -> Client {
    run(Server::new(journal, store).agent("agent", agent).unwrap()).await.0
}

/// Builds a server in memory that a test can configure further.
pub(crate) fn server(turns: Vec<Turn>) -> Server {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let agent = agent(turns, journal.clone());
    Server::new(journal, Arc::new(MemoryStore::default())).agent("agent", agent).unwrap()
}

/// Runs a server until something is sent on the channel.
pub(crate) async fn run(server: Server) -> (Client, oneshot::Sender<()>, JoinHandle<()>) {
    let running = server.start().await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (end, ended) = oneshot::channel::<()>();
    let until = async move {
        // If the sender was dropped, the server runs until the test ends.
        if ended.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let serving = tokio::spawn(async move { running.serve(listener, until).await.unwrap() });
    (Client::new(url), end, serving)
}

/// How long a test waits for anything, so that it fails where it would hang.
const LIMIT: Duration = Duration::from_secs(120);

/// Waits for what must happen soon.
pub(crate) async fn soon<F: IntoFuture>(what: F) -> F::Output {
    tokio::time::timeout(LIMIT, what).await.unwrap()
}

/// Waits until a condition holds.
pub(crate) async fn until(mut holds: impl AsyncFnMut() -> bool) {
    soon(async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

pub(crate) fn http() -> reqwest::Client {
    // Fails if another test has installed it already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().timeout(LIMIT).build().unwrap()
}

impl Client {
    pub(crate) fn new(url: String) -> Self {
        Self { url, http: http(), token: None }
    }

    /// Returns the same client with a token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.header("x-api-key", token),
            None => request,
        }
    }

    /// Reads the events of a thread's stream until `last` returns `true` for one.
    pub(crate) async fn thread_events(&self, thread: &str, body: &Value, last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let path = format!("/threads/{thread}/stream/events");
        let response = self.request(Method::POST, &path).json(body).send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        let (mut text, mut out, mut response) = (String::new(), Vec::new(), response);
        while let Some(bytes) = response.chunk().await.unwrap() {
            text.push_str(std::str::from_utf8(&bytes).unwrap());
            while let Some((frame, rest)) = text.clone().split_once("\n\n") {
                text = rest.to_owned();
                let data = frame.lines().find_map(|line| line.strip_prefix("data: "));
                let Some(data) = data else { continue };
                out.push(serde_json::from_str::<Value>(data).unwrap());
                if last(out.last().unwrap()) {
                    return out;
                }
            }
        }
        out
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let response = self.request(method, path).json(body).send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Returns a response as text.
    pub(crate) async fn text_of(&self, method: Method, path: &str, body: &Value) -> (StatusCode, String) {
        let response = self.request(method, path).json(body).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.send(Method::POST, path, &body).await;
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.send(Method::GET, path, &json!({})).await;
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }

    /// Returns the status of a request with an additional header.
    pub(crate) async fn status_with(&self, name: &str, value: &str) -> StatusCode {
        self.http.get(format!("{}/ok", self.url)).header(name, value).send().await.unwrap().status()
    }

    /// Fetches a path and returns the status, headers, and raw bytes.
    pub(crate) async fn fetch(&self, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, Vec<u8>) {
        let request = self.http.get(format!("{}{path}", self.url));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        (status, headers, response.bytes().await.unwrap().to_vec())
    }

    /// Returns the names and ids of a stream's events.
    pub(crate) async fn events(
        &self,
        method: Method,
        path: &str,
        last: Option<&str>,
        body: &Value,
    ) -> Vec<(String, String)> {
        let mut request = self.request(method, path).json(body);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let text = request.send().await.unwrap().text().await.unwrap();
        let field = |frame: &str, name: &str| {
            frame.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
        };
        let frames = text.split("\n\n").filter(|frame| frame.contains("event:"));
        frames.map(|frame| (field(frame, "event:"), field(frame, "id:"))).collect()
    }

    /// Returns the events of a stream with their data, until it ends.
    pub(crate) async fn frames(&self, method: Method, path: &str, body: &Value) -> Vec<(String, Value)> {
        let response = self.request(method, path).json(body).send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        let mut frames = Frames { response, text: String::new() };
        let mut out = Vec::new();
        while let Some(frame) = frames.read().await {
            out.push(frame);
        }
        out
    }

    /// Opens a stream.
    pub(crate) async fn follow(&self, path: &str) -> Frames {
        let response = self.request(Method::GET, path).send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        Frames { response, text: String::new() }
    }

    /// Starts a run and opens its stream.
    pub(crate) async fn begin(&self, path: &str, body: &Value) -> Frames {
        let response = self.request(Method::POST, path).json(body).send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        Frames { response, text: String::new() }
    }

    pub(crate) async fn thread(&self) -> String {
        self.post("/threads", json!({})).await["thread_id"].as_str().unwrap().to_owned()
    }
}

/// Builds a request with one message.
pub(crate) fn say(text: &str) -> Value {
    json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}})
}

/// Returns the types of the messages, in order.
pub(crate) fn roles(values: &Value) -> Vec<String> {
    values["messages"].as_array().unwrap().iter().map(|m| m["type"].as_str().unwrap().to_owned()).collect()
}

/// The events of a stream, as they arrive.
pub(crate) struct Frames {
    response: reqwest::Response,
    text: String,
}

impl Frames {
    /// Returns the name and data of the next event, or `None` at the end.
    pub(crate) async fn read(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((frame, rest)) = self.text.clone().split_once("\n\n") {
                self.text = rest.to_owned();
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
                if let (Some(name), Some(data)) = (field("event: "), field("data: ")) {
                    return Some((name.to_owned(), serde_json::from_str(data).unwrap()));
                }
                continue;
            }
            let bytes = self.response.chunk().await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    pub(crate) async fn next(&mut self) -> (String, Value) {
        self.read().await.unwrap()
    }
}
