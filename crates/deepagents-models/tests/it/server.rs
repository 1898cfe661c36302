//! A small HTTP server on loopback that plays a list of responses, and helpers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelOutput, ModelRequest};
use deepagents_models::{Anthropic, Dialect, ModelConfig, OpenAiChat, RetryPolicy};
use futures_util::StreamExt;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A scripted response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    end: End,
    /// Size in bytes of the pieces in which the body is sent; `None` sends it whole.
    pieces: Option<usize>,
}

/// What follows the body.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum End {
    #[default]
    Whole,
    /// The connection closes in the middle of a chunk.
    Cut,
    /// Nothing more is sent.
    Silence,
    /// The body repeats forever.
    Endless,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self { status, body: body.to_string().into_bytes(), ..Self::default() }
            .header("content-type", "application/json")
    }

    pub(crate) fn sse(body: impl Into<String>) -> Self {
        Self::stream("text/event-stream", body.into())
    }

    /// A streamed response of this content type.
    pub(crate) fn stream(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, body: body.into(), ..Self::default() }.header("content-type", content_type)
    }

    pub(crate) fn body(self, body: &str) -> Self {
        Self { body: body.into(), ..self }
    }

    pub(crate) fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends the body in pieces of `size` bytes.
    pub(crate) fn in_pieces(self, size: usize) -> Self {
        Self { pieces: Some(size), ..self }
    }

    pub(crate) fn cut(mut self) -> Self {
        self.end = End::Cut;
        self
    }

    pub(crate) fn endless(mut self) -> Self {
        self.end = End::Endless;
        self
    }

    pub(crate) fn then_silence(mut self) -> Self {
        self.end = End::Silence;
        self
    }
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Number of the connection it came over.
    pub(crate) connection: usize,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Serves the responses in order, whatever is requested.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let replies = Arc::new(Mutex::new(replies.into_iter().collect::<VecDeque<_>>()));
        let server = Self { url, seen: Arc::clone(&seen) };
        tokio::spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(serve(stream, connection, Arc::clone(&seen), Arc::clone(&replies)));
            }
        });
        server
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn config(&self) -> ModelConfig {
        ModelConfig {
            api_key: Some("sk-very-secret".into()),
            base_url: Some(self.url.clone()),
            retry: Some(RetryPolicy { base: Duration::from_millis(1), ..RetryPolicy::default() }),
            ..ModelConfig::default()
        }
    }

    pub(crate) fn anthropic(&self) -> Anthropic {
        Anthropic::new("claude-sonnet-4-5", self.config()).unwrap()
    }

    pub(crate) fn chat(&self, dialect: &str) -> OpenAiChat {
        OpenAiChat::new(Dialect::named(dialect).unwrap(), "a-model", self.config()).unwrap()
    }
}

async fn serve(
    stream: TcpStream,
    connection: usize,
    seen: Arc<Mutex<Vec<Seen>>>,
    replies: Arc<Mutex<VecDeque<Reply>>>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let lower = head.to_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap_or("0");
        let mut body = vec![0; length.trim().parse().unwrap()];
        stream.read_exact(&mut body).await?;
        seen.lock().unwrap().push(Seen { head, body, connection });
        let Some(reply) = replies.lock().unwrap().pop_front() else { return Ok(()) };
        let mut answer = format!("HTTP/1.1 {} Whatever\r\ntransfer-encoding: chunked\r\n", reply.status);
        for (name, value) in &reply.headers {
            answer.push_str(&format!("{name}: {value}\r\n"));
        }
        answer.push_str("\r\n");
        let mut answer = answer.into_bytes();
        let mut chunk = Vec::new();
        for piece in reply.body.chunks(reply.pieces.unwrap_or(usize::MAX)) {
            chunk.extend(format!("{:x}\r\n", piece.len()).bytes());
            chunk.extend(piece);
            chunk.extend(b"\r\n");
        }
        answer.extend(&chunk);
        match reply.end {
            End::Whole => answer.extend(b"0\r\n\r\n"),
            End::Cut => answer.extend(b"ff\r\nhalf a chu"),
            End::Silence | End::Endless => {}
        }
        stream.write_all(&answer).await?;
        stream.flush().await?;
        match reply.end {
            End::Whole => {}
            End::Cut => return Ok(()),
            End::Silence => std::future::pending().await,
            // Until the client disconnects.
            End::Endless => loop {
                stream.write_all(&chunk).await?;
            },
        }
    }
}

/// All events of a call.
pub(crate) async fn events(model: &dyn ChatModel, request: ModelRequest) -> Vec<Result<ModelEvent, ModelError>> {
    model.stream(request).collect().await
}

/// The output among events.
pub(crate) fn output(events: &[Result<ModelEvent, ModelError>]) -> ModelOutput {
    match events.last() {
        Some(Ok(ModelEvent::Finished(output))) => (**output).clone(),
        other => panic!("no answer but {other:?}"),
    }
}

/// The retries among events.
pub(crate) fn retries(events: &[Result<ModelEvent, ModelError>]) -> Vec<(&'static str, Duration)> {
    let retry = |event: &Result<ModelEvent, ModelError>| match event {
        Ok(ModelEvent::Retry { error, after }) => Some((error.kind(), *after)),
        _ => None,
    };
    events.iter().filter_map(retry).collect()
}

/// Server-sent events with these data.
pub(crate) fn sse(data: &[Value]) -> String {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}

/// A streamed Anthropic response of these blocks, each given as its start and its deltas.
pub(crate) fn anthropic_stream(blocks: &[(Value, Vec<Value>)], stop: &str) -> Vec<Value> {
    use serde_json::json;
    let mut events = vec![json!({"type": "message_start", "message": {"id": "msg_1", "usage": {
        "input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 1}}})];
    for (index, (start, deltas)) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.push(json!({"type": "ping"}));
        events.extend(deltas.iter().map(|d| json!({"type": "content_block_delta", "index": index, "delta": d})));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 20}}));
    events.push(json!({"type": "message_stop"}));
    events
}

/// A streamed Anthropic response of one text.
pub(crate) fn anthropic_text(text: &str) -> String {
    use serde_json::json;
    let start = json!({"type": "text", "text": ""});
    sse(&anthropic_stream(&[(start, vec![json!({"type": "text_delta", "text": text})])], "end_turn"))
}
