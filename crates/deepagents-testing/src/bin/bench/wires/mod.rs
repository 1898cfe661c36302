//! The same long run on each model API, and runs of the whole program.

mod answers;
mod program;

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use deepagents::models::{Credentials, ModelConfig, Registry};
use deepagents::{FinishReason, Message};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::bars::Bars;
use crate::{Bench, timed, usage};
use answers::{Call, WIRES, Wire};

/// Maximum CPU time of a wire relative to the first.
const MAX_FACTOR: f64 = 1.5;

/// A model in a separate process, so that its cost is not counted.
struct Answering {
    /// Killed on drop.
    _process: Child,
    url: String,
}

impl Answering {
    async fn start(wire: &str, turns: u64, calls: u64) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["-", "answer", wire, &turns.to_string(), &calls.to_string()]).kill_on_drop(true);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut url = String::new();
        BufReader::new(process.stdout.take().context("its output")?).read_line(&mut url).await?;
        ensure!(url.starts_with("http://"), "the model could not be started");
        Ok(Self { _process: process, url: url.trim().to_owned() })
    }
}

/// The model of a run and its progress.
struct Model {
    wire: Wire,
    turns: u64,
    /// Number of calls per turn. A single call is of the case's own tool; several calls read an existing file.
    calls: u64,
    asked: AtomicU64,
}

impl Model {
    /// Returns the next answer. After the last turn, it starts over for the next run.
    fn answer(&self) -> Result<Vec<u8>> {
        let turn = self.asked.fetch_add(1, Ordering::Relaxed) % (self.turns + 1);
        let calls = if turn == self.turns { 0 } else { self.calls };
        let calls: Vec<Call> = (0..calls).map(|at| self.call(turn, at)).collect();
        self.wire.answer(&calls)
    }

    fn call(&self, turn: u64, at: u64) -> Call {
        let (tool, arguments) = if self.calls == 1 {
            ("get_weather", json!({"city": format!("Town {turn}")}))
        } else {
            // The arguments differ each time, because repeated identical calls would be unrealistic.
            ("read_file", json!({"file_path": program::FILE, "limit": turn * self.calls + at + 1}))
        };
        Call { id: format!("call_{turn}_{at}"), tool: tool.to_owned(), arguments }
    }
}

async fn answer(State(model): State<Arc<Model>>, uri: Uri, _body: Bytes) -> Response {
    // The Ollama client asks for the context window first.
    let (kind, body) = if uri.path() == "/api/show" {
        let shown = json!({"model_info": {"general.architecture": "q", "q.context_length": 1_000_000}});
        ("application/json", Ok(shown.to_string().into_bytes()))
    } else {
        (model.wire.content_type(), model.answer())
    };
    let (status, body) = match body {
        Ok(body) => (StatusCode::OK, body),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string().into_bytes()),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, axum::http::HeaderValue::from_static(kind));
    response
}

impl Bench {
    /// `answer WIRE TURNS CALLS`: serves as the model of the other cases until its standard input ends.
    pub(crate) async fn answer(&self) -> Result<Map<String, Value>> {
        let wire = Wire::find(&self.arg::<String>(0)?)?;
        let model = Model { wire, turns: self.arg(1)?, calls: self.arg(2)?, asked: AtomicU64::new(0) };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let mut out = std::io::stdout();
        writeln!(out, "http://{}", listener.local_addr()?)?;
        out.flush()?;
        // Requests contain long conversations.
        let limit = axum::extract::DefaultBodyLimit::disable();
        let app = Router::new().fallback(answer).layer(limit).with_state(Arc::new(model));
        let (mut input, mut end) = (tokio::io::stdin(), [0; 1]);
        tokio::select! {
            served = axum::serve(listener, app) => served?,
            _ = input.read(&mut end) => {}
        }
        Ok(Map::new())
    }

    /// `wires TURNS`: one run of the given number of tool turns on each wire, one after the other.
    pub(crate) async fn wires(&self) -> Result<Map<String, Value>> {
        let turns: u64 = self.arg(0)?;
        let (started, before) = (Instant::now(), usage::cpu());
        let mut figures = Map::new();
        let mut bars = Bars::default();
        let mut first = None;
        for wire in WIRES {
            // The first run on a wire is a warm-up; the second one counts.
            let answering = Answering::start(wire.name(), turns, 1).await?;
            self.one_run(wire, &answering.url, turns).await?;
            let cpu = usage::cpu();
            self.one_run(wire, &answering.url, turns).await?;
            let took = usage::cpu().saturating_sub(cpu).as_secs_f64();
            figures.insert(wire.name().to_owned(), json!(took));
            let reference = *first.get_or_insert(took);
            bars.ratio_at_most(
                &format!("{} to {}", wire.name(), Wire::Anthropic.name()),
                Some(took / reference),
                MAX_FACTOR,
            );
        }
        let mut out = timed(started.elapsed(), usage::cpu().saturating_sub(before));
        out.insert("cpu_by_wire".to_owned(), Value::Object(figures));
        out.insert("bars".to_owned(), bars.into_value());
        Ok(out)
    }

    async fn one_run(&self, wire: Wire, url: &str, turns: u64) -> Result<()> {
        let key = if wire == Wire::Bedrock { Credentials::aws("AKIDEXAMPLE", "any", None) } else { "any".into() };
        let config = ModelConfig { api_key: Some(key), base_url: Some(url.to_owned()), ..ModelConfig::default() };
        let mut registry = Registry::new();
        registry.configure(wire.name(), config);
        let agent =
            Self { started: self.started, registry, args: Vec::new() }.agent_of(&format!("{}:m", wire.name()), None)?;
        let outcome = agent.invoke("go").await?;
        ensure!(outcome.stop == FinishReason::Done, "the run ended with {:?}", outcome.stop);
        let messages = outcome.messages();
        let done = messages.iter().filter(|m| matches!(&***m, Message::Tool(result) if !result.is_error)).count();
        ensure!(done as u64 == turns, "{done} of {turns} calls were made on {}", wire.name());
        Ok(())
    }
}
