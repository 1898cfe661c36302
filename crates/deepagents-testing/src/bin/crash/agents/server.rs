//! A model server that plays the scripts of a plan: Chat Completions, streamed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::cast::USAGE;
use super::notes::Note;
use super::plan::{Operation, Plan};
use super::script::{Piece, Tag, View, report, task};

/// The server, which stops when dropped.
pub(crate) struct Server {
    address: String,
    seen: Arc<Mutex<ReceivedRequests>>,
    serving: JoinHandle<()>,
}

/// The requests received.
#[derive(Debug, Default)]
struct ReceivedRequests {
    notes: Vec<Note>,
    /// The process whose requests count. Requests of a killed process may still arrive later.
    process: usize,
    /// When that process sent its first request.
    first: Option<Instant>,
}

impl Server {
    pub(crate) async fn start(plan: Plan) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        let (seen, plan) = (Arc::<Mutex<ReceivedRequests>>::default(), Arc::new(plan));
        let shared = seen.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (plan, seen) = (plan.clone(), shared.clone());
                // The client may be killed before it has its answer.
                tokio::spawn(async move { drop(serve(stream, &plan, &seen).await) });
            }
        });
        Ok(Self { address, seen, serving })
    }

    /// Returns the URL for the next process.
    pub(crate) fn next_process(&self) -> String {
        let mut seen = lock(&self.seen);
        seen.process += 1;
        seen.first = None;
        format!("{}/{}/v1", self.address, seen.process)
    }

    /// Adds notes, and ignores further requests of the current process.
    pub(crate) fn add(&self, notes: impl IntoIterator<Item = Note>) {
        let mut seen = lock(&self.seen);
        seen.process += 1;
        seen.notes.extend(notes);
    }

    pub(crate) fn notes(&self) -> Vec<Note> {
        lock(&self.seen).notes.clone()
    }

    /// Returns when the current process sent its first request.
    pub(crate) fn first(&self) -> Option<Instant> {
        lock(&self.seen).first
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn lock(seen: &Mutex<ReceivedRequests>) -> MutexGuard<'_, ReceivedRequests> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(stream: TcpStream, plan: &Plan, seen: &Mutex<ReceivedRequests>) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut process, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(target) = line.strip_prefix("post /") {
            process = target.split('/').next().and_then(|number| number.parse::<usize>().ok());
        } else if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let body: Value = serde_json::from_slice(&body)?;
    let messages = body.get("messages").and_then(Value::as_array).context("a request without messages")?;
    let view = View::new(messages.iter().flat_map(pieces));
    {
        let mut seen = lock(seen);
        if process != Some(seen.process) {
            return Ok(());
        }
        seen.first.get_or_insert_with(Instant::now);
        let results = view.calls.iter().map(|(tag, (_, text))| (tag.to_string(), text.clone())).collect();
        let after = view.last.as_ref().map(|tag| tag.answer);
        seen.notes.push(Note::Model { agent: view.agent.clone(), after, results, summary: false });
    }
    stream.write_all(answer(plan, &view).as_bytes()).await?;
    Ok(stream.shutdown().await?)
}

fn pieces(message: &Value) -> Vec<Piece> {
    let text = |key: &str| message.get(key).map(text_of).unwrap_or_default();
    match message.get("role").and_then(Value::as_str) {
        Some("user") => vec![Piece::User(text("content"))],
        Some("tool") => vec![Piece::Outcome { id: text("tool_call_id"), text: text("content") }],
        Some("assistant") => {
            let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
            let field = |call: &Value, at: &str| call.pointer(at).map(text_of).unwrap_or_default();
            calls.map(|call| Piece::Call { id: field(call, "/id"), tool: field(call, "/function/name") }).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns a text, or the concatenated texts of a list of parts.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text")).map(text_of).collect(),
        _ => String::new(),
    }
}

fn answer(plan: &Plan, view: &View) -> String {
    let calls = view.next(plan);
    let (delta, reason) = if calls.is_empty() {
        (json!({"role": "assistant", "content": report(&view.agent)}), "stop")
    } else {
        let calls = calls.iter().enumerate().map(|(index, (tag, operation))| {
            let (name, args) = call(plan, operation, tag);
            let function = json!({"name": name, "arguments": args.to_string()});
            json!({"index": index, "id": tag.to_string(), "type": "function", "function": function})
        });
        (json!({"role": "assistant", "tool_calls": calls.collect::<Vec<_>>()}), "tool_calls")
    };
    let chunk = |choices: Value, usage: Value| json!({"id": "c", "object": "chat.completion.chunk", "model": "test-model", "choices": choices, "usage": usage});
    let total = USAGE.input + USAGE.output;
    let usage = json!({"prompt_tokens": USAGE.input, "completion_tokens": USAGE.output, "total_tokens": total});
    let chunks = [
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), Value::Null),
        chunk(json!([{"index": 0, "delta": {}, "finish_reason": reason}]), Value::Null),
        chunk(json!([]), usage),
    ];
    let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}data: [DONE]\n\n")
}

/// Returns the tool call for an operation. Each agent has its own file, and an external effect is a line in it.
fn call(plan: &Plan, operation: &Operation, tag: &Tag) -> (&'static str, Value) {
    let path = format!("/{}.md", tag.agent);
    match operation {
        Operation::Delegate(name) => {
            let kind = plan.find(name).map_or("", |agent| agent.kind);
            ("task", json!({"description": task(name), "subagent_type": kind}))
        }
        Operation::Look => ("read_file", json!({"file_path": path})),
        _ => ("edit_file", json!({"file_path": path, "old_string": "END", "new_string": format!("{tag}\nEND")})),
    }
}
