//! A server and its clients, with a model that answers at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use deepagents::core::store::MemoryStore;
use deepagents::middleware::todo::TodoPolicy;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, MemoryJournal, json_tool};
use deepagents_server::Server;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::bars::Bars;
use crate::{Bench, timed, usage};

/// Number of runs executed one after the other, followed by the number executed sixteen at a time.
const SEQUENTIAL_RUNS: usize = 50;
const CONCURRENT_RUNS: usize = 2_000;
/// Number of events sent on each stream, followed by the pause between them.
const EVENTS: u64 = 60;
const EVENT_DELAY: Duration = Duration::from_millis(50);
/// The period over which the ends of streams are spread.
const END_SPREAD: Duration = Duration::from_secs(3);

struct Client {
    http: reqwest::Client,
    url: String,
}

impl Bench {
    /// `serve [STREAMS] [IDLE]`: a server and its clients in one process.
    pub(crate) async fn serve(&self) -> Result<Map<String, Value>> {
        let streams: usize = self.arg(0).unwrap_or(1_000);
        let idle: usize = self.arg(1).unwrap_or(4_000);
        // Fails if a provider is installed already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let begun = Instant::now();
        let journal = Arc::new(MemoryJournal::new());
        let agent = agent(journal.clone(), streams)?;
        let running = Server::new(journal, Arc::new(MemoryStore::default())).agent("agent", agent)?.start().await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        tokio::spawn(running.serve(listener, std::future::pending()));
        let client = Arc::new(Client { http: reqwest::Client::builder().no_proxy().build()?, url });
        client.http.get(format!("{}/ok", client.url)).send().await?.error_for_status()?;
        let (start, cpu) = (begun.elapsed(), usage::cpu());
        let resting = usage::resident_bytes() as f64 / 1e6;

        let mut alone = Vec::new();
        for _ in 0..SEQUENTIAL_RUNS {
            let begun = Instant::now();
            client.run("say hello").await?;
            alone.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        alone.sort_by(f64::total_cmp);
        let trivial = alone.get(SEQUENTIAL_RUNS / 2).copied();

        let begun = Instant::now();
        let mut runs = stream::iter((0..CONCURRENT_RUNS).map(|_| client.run("say hello"))).buffer_unordered(16);
        while let Some(done) = runs.next().await {
            done?;
        }
        drop(runs);
        let per_second = CONCURRENT_RUNS as f64 / begun.elapsed().as_secs_f64();

        // The threads are created beforehand, a few at a time, so that those connections are not counted.
        let threads: Vec<String> =
            stream::iter((0..idle).map(|_| client.thread())).buffer_unordered(16).try_collect().await?;
        let before = usage::resident_bytes();
        let open: Vec<TcpStream> = stream::iter(threads.iter().map(|thread| client.wait_for_events(thread)))
            .buffer_unordered(64)
            .try_collect()
            .await?;
        let idle_mb = usage::resident_bytes().saturating_sub(before) as f64 / 1e6;
        drop(open);

        let before = usage::resident_bytes();
        let mut reading = JoinSet::new();
        for _ in 0..streams {
            let client = client.clone();
            reading.spawn(async move { client.delays().await });
        }
        let mut delays = Vec::new();
        while let Some(of_one) = reading.join_next().await {
            delays.extend(of_one??);
        }
        ensure!(delays.len() as u64 == EVENTS * streams as u64, "{} events came", delays.len());
        let streams_mb = usage::resident_bytes().saturating_sub(before) as f64 / 1e6;
        delays.sort_by(f64::total_cmp);
        let late = delays.get(delays.len() * 99 / 100).copied();

        let mut out = timed(begun.elapsed(), usage::cpu().saturating_sub(cpu));
        let start = start.as_secs_f64() * 1e3;
        for (name, figure) in [("start_ms", start), ("resting_mb", resting), ("runs_per_second", per_second)] {
            out.insert(name.to_owned(), json!(figure));
        }
        let mut bars = Bars::default();
        bars.takes_at_most("ms from start to the first answer", Some(start), 50.0);
        bars.at_most("mb at rest", Some(resting), 30.0);
        bars.takes_at_most("ms of a trivial run", trivial, 5.0);
        bars.takes_at_most("ms of a run among others", Some(1e3 / per_second), 2.0);
        bars.takes_at_most("ms of delay, p99, of streams with their clients", late, 50.0);
        bars.at_most("mb of streams with their clients", Some(streams_mb), 0.15 * streams as f64);
        bars.at_most("mb of idle streams", Some(idle_mb), 0.03 * idle as f64);
        out.insert("bars".to_owned(), bars.into_value());
        Ok(out)
    }
}

/// Builds an agent that says hello, or calls a tool that sends the time repeatedly. The tool waits until all streams
/// have started, because the start of runs is measured separately.
fn agent(journal: Arc<MemoryJournal>, streams: usize) -> Result<DeepAgent> {
    let parameters = json!({"type": "object", "properties": {}});
    let all_begun = Arc::new(Barrier::new(streams));
    let tell = json_tool("tell", "Tells the time.", parameters, move |_: Value, cx| {
        let all_begun = all_begun.clone();
        async move {
            all_begun.wait().await;
            // Real users do not act in lockstep either.
            tokio::time::sleep(EVENT_DELAY.mul_f64(fastrand::f64())).await;
            for _ in 0..EVENTS {
                tokio::time::sleep(EVENT_DELAY).await;
                cx.custom("custom", json!(now()));
            }
            // The cost of ending a run is measured separately, too.
            tokio::time::sleep(END_SPREAD.mul_f64(fastrand::f64())).await;
            Ok("told".to_owned())
        }
    });
    let model = ScriptedModel::rules().always(Turn::with(|request| {
        let last = request.messages.iter().next_back().map(|message| message.text()).unwrap_or_default();
        if last == "tell" { Turn::call("tell", json!({})) } else { Turn::text("Hello.") }
    }));
    let builder = DeepAgent::builder().model(model.build()).journal(journal).todos(TodoPolicy::off());
    Ok(builder.without("Summarization").tool(tell).build()?)
}

/// Returns the time in microseconds since 1970.
fn now() -> i64 {
    deepagents::core::env::Timestamp::now().as_microsecond()
}

impl Client {
    fn post(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        self.http.post(format!("{}{path}", self.url)).json(body)
    }

    async fn run(&self, text: &str) -> Result<()> {
        let answer: Value = self.post("/runs/wait", &say(text)).send().await?.error_for_status()?.json().await?;
        ensure!(answer.get("messages").is_some(), "the run ended with {answer}");
        Ok(())
    }

    async fn thread(&self) -> Result<String> {
        let thread: Value = self.post("/threads", &json!({})).send().await?.json().await?;
        Ok(thread.get("thread_id").and_then(Value::as_str).context("a thread")?.to_owned())
    }

    /// Opens a stream with a plain socket as its client, so that mostly the server is measured.
    async fn stream(&self, path: &str, body: &Value) -> Result<TcpStream> {
        let (address, body) = (self.url.strip_prefix("http://").context("an address")?, body.to_string());
        let mut stream = TcpStream::connect(address).await?;
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        ensure!(head == *b"HTTP/1.1 200", "the stream is refused");
        Ok(stream)
    }

    /// Opens a stream of an idle thread.
    async fn wait_for_events(&self, thread: &str) -> Result<TcpStream> {
        let path = format!("/threads/{thread}/stream/events");
        self.stream(&path, &json!({"channels": ["values", "messages"]})).await
    }

    /// Returns the delay of each event of a run, from sending to receiving, in milliseconds.
    async fn delays(&self) -> Result<Vec<f64>> {
        let mut body = say("tell");
        if let Some(body) = body.as_object_mut() {
            body.insert("stream_mode".to_owned(), json!("custom"));
        }
        let mut lines = BufReader::with_capacity(1 << 10, self.stream("/runs/stream", &body).await?).lines();
        let mut delays = Vec::new();
        while let Some(line) = lines.next_line().await? {
            let told = line.strip_prefix("data: ").and_then(|data| data.parse::<i64>().ok());
            delays.extend(told.map(|told| (now() - told) as f64 / 1e3));
        }
        Ok(delays)
    }
}

fn say(text: &str) -> Value {
    json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]}})
}
