//! A hand-written client, message by message.

use std::time::Duration;

use deepagents_mcp::serve::AgentServer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;

/// How long a test waits for a message, which is far longer than a busy machine takes: only what hangs takes longer.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A client on the pipes of a server.
pub(crate) struct Client {
    read: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

/// The `initialize` request.
fn initialize(capabilities: &Value) -> Value {
    let client = json!({"name": "hand", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

impl Client {
    /// Starts a session with a server.
    pub(crate) async fn begin(server: AgentServer, capabilities: Value) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (read, write) = split(theirs);
        tokio::spawn(server.serve_lines(read, write));
        let (read, write) = split(ours);
        let mut client = Self { read: BufReader::new(read).lines(), write };
        client.send(&initialize(&capabilities)).await;
        client.read().await;
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        client
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Sends a line unchanged.
    pub(crate) async fn raw(&mut self, line: &str) {
        self.write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Sends a line without a newline, and closes the pipe.
    pub(crate) async fn last(&mut self, line: &str) {
        self.write.write_all(line.as_bytes()).await.unwrap();
        self.write.shutdown().await.unwrap();
    }

    /// Returns the next message.
    pub(crate) async fn read(&mut self) -> Value {
        let line = tokio::time::timeout(TIMEOUT, self.read.next_line()).await.expect("the server is silent");
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    }

    /// Sends a tool call without waiting for the response.
    pub(crate) async fn call(&mut self, id: u32, tool: &str, arguments: Value) {
        let params = json!({"name": tool, "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
    }
}

/// A session over HTTP.
pub(crate) struct HttpClient {
    address: String,
    session: String,
}

/// The events of a response.
pub(crate) struct Events(Lines<BufReader<TcpStream>>);

impl Events {
    /// Returns the next message, or `None` at the end of the response.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        while let Some(line) = self.0.next_line().await.ok()? {
            if let Some(message) = line.strip_prefix("data:").and_then(|data| serde_json::from_str(data).ok()) {
                return Some(message);
            }
        }
        None
    }
}

impl HttpClient {
    pub(crate) async fn begin(url: &str) -> Self {
        let address = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let mut client = Self { address, session: String::new() };
        let (_, head, _) = client.request("POST", &initialize(&json!({})).to_string()).await;
        let session =
            head.iter().find_map(|line| line.to_lowercase().strip_prefix("mcp-session-id:").map(str::to_owned));
        client.session = session.unwrap().trim().to_owned();
        client.request("POST", &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()).await;
        client
    }

    /// Sends a request. Returns the status, the headers and the events.
    pub(crate) async fn request(&self, method: &str, body: &str) -> (u16, Vec<String>, Events) {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let session = match self.session.as_str() {
            "" => String::new(),
            session => format!("mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n"),
        };
        let head = format!(
            "{method} /mcp HTTP/1.1\r\nhost: {}\r\nconnection: close\r\naccept: application/json, text/event-stream\r\n\
             content-type: application/json\r\n{session}content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(stream).lines();
        let status = lines.next_line().await.unwrap().unwrap();
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
            headers.push(line);
        }
        (status, headers, Events(lines))
    }
}
