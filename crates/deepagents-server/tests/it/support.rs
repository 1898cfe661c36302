//! A server on a free port, and its client.

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

/// An agent that may book after approval.
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
    token: Option<String>,
}

/// Serves an agent with these model responses.
pub(crate) async fn serve(turns: Vec<Turn>) -> Client {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    serve_on(agent(turns, journal.clone()), journal, Arc::new(MemoryStore::default())).await
}

pub(crate) async fn serve_on(agent: DeepAgent, journal: Arc<dyn Journal>, store: Arc<dyn Store>) -> Client {
    run(Server::new(journal, store).agent("agent", agent).unwrap()).await.0
}

/// An in-memory server that can be configured further.
pub(crate) fn server(turns: Vec<Turn>) -> Server {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let agent = agent(turns, journal.clone());
    Server::new(journal, Arc::new(MemoryStore::default())).agent("agent", agent).unwrap()
}

/// Runs a server until the sender is used or dropped.
pub(crate) async fn run(server: Server) -> (Client, oneshot::Sender<()>, JoinHandle<()>) {
    let running = server.start().await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (end, ended) = oneshot::channel::<()>();
    let until = async move {
        // Without an explicit end, the server runs as long as the test.
        if ended.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let serving = tokio::spawn(async move { running.serve(listener, until).await.unwrap() });
    (Client::new(url), end, serving)
}

pub(crate) fn http() -> reqwest::Client {
    // The first test in a process installs the provider; all install the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

impl Client {
    pub(crate) fn new(url: String) -> Self {
        Self { url, http: http(), token: None }
    }

    /// The same client with a token.
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

    /// The events of a protocol version 2 stream, up to the first that `last` accepts.
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

    /// The raw response. A response that breaks off counts as an empty one.
    pub(crate) async fn text_of(&self, method: Method, path: &str, body: &Value) -> (StatusCode, String) {
        let request = self.request(method, path).json(body).timeout(Duration::from_secs(10));
        let response = request.send().await.unwrap();
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

    /// The status of a request with a header that a browser would send.
    pub(crate) async fn status_with(&self, name: &str, value: &str) -> StatusCode {
        self.http.get(format!("{}/ok", self.url)).header(name, value).send().await.unwrap().status()
    }

    /// Fetches a path. Returns the status, the headers, and the raw bytes.
    pub(crate) async fn fetch(&self, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, Vec<u8>) {
        let request = self.http.get(format!("{}{path}", self.url));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        (status, headers, response.bytes().await.unwrap().to_vec())
    }

    /// The names and IDs of the events of a stream.
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

    /// The events of a finite stream, with their data.
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

    /// Follows a stream.
    pub(crate) async fn follow(&self, path: &str) -> Frames {
        let response = self.request(Method::GET, path).send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        Frames { response, text: String::new() }
    }

    /// Starts a run and follows its stream.
    pub(crate) async fn begin(&self, path: &str, body: &Value) -> Frames {
        let response = self.request(Method::POST, path).json(body).send().await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
        Frames { response, text: String::new() }
    }

    pub(crate) async fn thread(&self) -> String {
        self.post("/threads", json!({})).await["thread_id"].as_str().unwrap().to_owned()
    }
}

/// An input of one message.
pub(crate) fn say(text: &str) -> Value {
    json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}})
}

/// The roles of the messages, in order.
pub(crate) fn roles(values: &Value) -> Vec<String> {
    values["messages"].as_array().unwrap().iter().map(|m| m["type"].as_str().unwrap().to_owned()).collect()
}

/// The events of a stream, as they arrive.
pub(crate) struct Frames {
    response: reqwest::Response,
    text: String,
}

impl Frames {
    /// The name and data of the next event, or `None` at the end.
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
