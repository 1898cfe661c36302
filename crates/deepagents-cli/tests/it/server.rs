//! A small Chat Completions server that plays a script, one reply per request.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::program::TIMEOUT;

/// A reply.
pub(crate) enum Reply {
    /// Text in these chunks.
    Text(Vec<&'static str>),
    /// Text whose rest is held back until the channel sends.
    Gated(&'static str, Receiver<()>, String),
    /// One tool call.
    Call(&'static str, Value),
    /// Several tool calls.
    Calls(Vec<(&'static str, Value)>),
    /// Text and a tool call.
    TextAndCall(&'static str, &'static str, Value),
    /// Text with this finish reason.
    CutOff(&'static str, &'static str),
    /// The beginning of an answer; then the connection ends.
    Broken(&'static str),
    /// An error.
    Status(u16, Value),
    /// No response until the client disconnects.
    Hang,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Lines of the head, in lower case.
    pub(crate) head: Vec<String>,
    pub(crate) body: Value,
}

impl Request {
    fn asks_for_models(&self) -> bool {
        let calls_model = |line: &str| {
            ["/chat/completions", "/responses"].iter().any(|path| line.contains(path)) || line.starts_with("post /v1 ")
        };
        self.head.first().is_some_and(|line| !calls_model(&line.to_lowercase()))
    }
}

/// The server. It runs until the test process ends.
pub(crate) struct Server {
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<Request>>>,
    arrivals: Receiver<()>,
}

impl Server {
    pub(crate) fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::with_models(script, Some(models()))
    }

    /// A server with another list of models, or without one.
    pub(crate) fn with_models(script: impl IntoIterator<Item = Reply>, models: Option<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (arrived, arrivals) = channel();
        let script: VecDeque<Reply> = script.into_iter().collect();
        let seen = requests.clone();
        thread::spawn(move || serve(&listener, script, models.as_ref(), &seen, &arrived));
        Self { address, requests, arrivals }
    }

    /// A server that answers each request by a rule.
    pub(crate) fn by_rule(rule: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (arrived, arrivals) = channel();
        let (seen, rule) = (requests.clone(), Arc::new(rule));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let (seen, arrived, rule) = (seen.clone(), arrived.clone(), rule.clone());
                thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    if request.asks_for_models() {
                        let _ = whole(&mut stream, 200, &models());
                        return;
                    }
                    let (streamed, reply) = (request.body["stream"] == true, rule(&request.body));
                    seen.lock().expect("requests").push(request);
                    // The test may not be waiting, and the client may have disconnected.
                    let _ = arrived.send(());
                    let _ = answer(&mut stream, reply, streamed);
                });
            }
        });
        Self { address, requests, arrivals }
    }

    /// Waits for the next request.
    pub(crate) fn wait(&self) {
        let arrived = self.arrivals.recv_timeout(TIMEOUT);
        arrived.unwrap_or_else(|error| panic!("no further request: {error}; there were {:?}", self.requests()));
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("requests").clone()
    }
}

fn serve(
    listener: &TcpListener,
    mut script: VecDeque<Reply>,
    models: Option<&Value>,
    seen: &Mutex<Vec<Request>>,
    arrived: &Sender<()>,
) {
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        let Some(request) = read(&stream) else { continue };
        if request.asks_for_models() {
            // Without a list, the connection closes without a response.
            let _ = models.map(|models| whole(&mut stream, 200, models));
            continue;
        }
        let streamed = request.body["stream"] == true;
        seen.lock().expect("requests").push(request);
        // The test may not be waiting.
        let _ = arrived.send(());
        let reply =
            script.pop_front().unwrap_or_else(|| Reply::Status(400, json!({"error": {"message": "no reply left"}})));
        // Some tests disconnect early.
        let _ = answer(&mut stream, reply, streamed);
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim_end().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push(line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = if length == 0 { Value::Null } else { serde_json::from_slice(&body).ok()? };
    Some(Request { head, body })
}

fn answer(stream: &mut TcpStream, reply: Reply, streamed: bool) -> std::io::Result<()> {
    match reply {
        Reply::Text(pieces) if !streamed => {
            let choice = json!({"index": 0, "message": {"role": "assistant", "content": pieces.concat()}, "finish_reason": "stop"});
            whole(stream, 200, &json!({"id": "c1", "object": "chat.completion", "choices": [choice], "usage": usage()}))
        }
        Reply::Text(pieces) => {
            begin(stream)?;
            pieces.into_iter().try_for_each(|piece| chunk(stream, &json!({"content": piece}), None))?;
            end(stream, "stop")
        }
        Reply::Gated(first, gate, rest) => {
            begin(stream)?;
            chunk(stream, &json!({"content": first}), None)?;
            // The test may have ended.
            let _ = gate.recv();
            chunk(stream, &json!({"content": rest}), None)?;
            end(stream, "stop")
        }
        Reply::Call(name, args) => {
            begin(stream)?;
            let args = args.to_string();
            let (head, tail) = args.split_at(args.len() / 2);
            let call =
                json!({"index": 0, "id": "call_a", "type": "function", "function": {"name": name, "arguments": head}});
            chunk(stream, &json!({"tool_calls": [call]}), None)?;
            chunk(stream, &json!({"tool_calls": [{"index": 0, "function": {"arguments": tail}}]}), None)?;
            end(stream, "tool_calls")
        }
        Reply::Calls(calls) => {
            begin(stream)?;
            for (index, (name, args)) in calls.into_iter().enumerate() {
                let function = json!({"name": name, "arguments": args.to_string()});
                let call =
                    json!({"index": index, "id": format!("call_{index}"), "type": "function", "function": function});
                chunk(stream, &json!({"tool_calls": [call]}), None)?;
            }
            end(stream, "tool_calls")
        }
        Reply::TextAndCall(text, name, args) => {
            begin(stream)?;
            chunk(stream, &json!({"content": text}), None)?;
            let function = json!({"name": name, "arguments": args.to_string()});
            let call = json!({"index": 0, "id": "call_a", "type": "function", "function": function});
            chunk(stream, &json!({"tool_calls": [call]}), None)?;
            end(stream, "tool_calls")
        }
        Reply::CutOff(text, reason) => {
            begin(stream)?;
            chunk(stream, &json!({"content": text}), None)?;
            end(stream, reason)
        }
        Reply::Broken(text) => {
            begin(stream)?;
            chunk(stream, &json!({"content": text}), None)
        }
        Reply::Status(status, body) => whole(stream, status, &body),
        Reply::Hang => {
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).map(drop)
        }
    }
}

/// The list of models, with their context windows.
fn models() -> Value {
    json!({"data": [{"id": "test-model", "max_model_len": 200_000}]})
}

fn usage() -> Value {
    json!({"prompt_tokens": 1200, "completion_tokens": 34, "total_tokens": 1234, "prompt_tokens_details": {"cached_tokens": 1000}})
}

fn whole(stream: &mut TcpStream, status: u16, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn begin(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    chunk(stream, &json!({"role": "assistant", "content": ""}), None)
}

fn chunk(stream: &mut TcpStream, delta: &Value, reason: Option<&str>) -> std::io::Result<()> {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
    event(stream, &json!({"id": "c1", "object": "chat.completion.chunk", "model": "test-model", "choices": [choice]}))
}

fn end(stream: &mut TcpStream, reason: &str) -> std::io::Result<()> {
    chunk(stream, &json!({}), Some(reason))?;
    event(stream, &json!({"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": usage()}))?;
    stream.write_all(b"data: [DONE]\n\n")
}

fn event(stream: &mut TcpStream, data: &Value) -> std::io::Result<()> {
    write!(stream, "data: {data}\n\n")?;
    stream.flush()
}
