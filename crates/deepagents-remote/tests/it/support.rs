//! A server with a working agent, and an agent that delegates to it.

use std::sync::Arc;
use std::time::Duration;

use deepagents::core::message::Usage;
use deepagents::core::store::{MemoryStore, Store};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::remote::RemoteConfig;
use deepagents::subagents::RemoteSubAgent;
use deepagents::{
    Block, DeepAgent, DeepAgentBuilder, Event, EventKind, InterruptPolicy, Journal, MemoryJournal, Message,
    ModelRequest, Outcome, RunInput, json_tool,
};
use deepagents_server::Server;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};

/// How long a test waits for anything, so that it fails where it would hang.
const LIMIT: Duration = Duration::from_secs(120);

/// Waits for what must happen soon.
pub(crate) async fn soon<F: IntoFuture>(what: F) -> F::Output {
    tokio::time::timeout(LIMIT, what).await.unwrap()
}

/// Releases calls of the remote tool `gate`, and counts those that have started.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) begun: Arc<Semaphore>,
    pub(crate) go: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { begun: Arc::new(Semaphore::new(0)), go: Arc::new(Semaphore::new(0)) }
    }

    /// Waits until a call has started.
    pub(crate) async fn entered(&self) {
        soon(self.begun.acquire()).await.unwrap().forget();
    }

    pub(crate) fn open(&self) {
        self.go.add_permits(1);
    }
}

/// Makes the calls listed as JSON in the last user message, one by one, and returns the last result.
fn worker(request: &ModelRequest) -> Turn {
    let messages: Vec<&Message> = request.messages.iter().map(|message| &**message).collect();
    let from = messages.iter().rposition(|message| matches!(message, Message::User(_))).unwrap_or(0);
    let task = messages[from].text();
    let turns = messages[from..].iter().filter(|message| message.as_assistant().is_some()).count();
    let last = messages.last().unwrap().text();
    let turn = match serde_json::from_str::<Vec<(String, Value)>>(&task) {
        Ok(calls) => match calls.get(turns) {
            Some((tool, args)) => {
                let call = Block::call(format!("call_{turns}"), tool, args.clone());
                Turn::blocks([Block::text(format!("Calling {tool}. ")), call])
            }
            None => Turn::text(format!("Done: {last}")),
        },
        Err(_) => Turn::text(format!("Heard: {task}")),
    };
    turn.usage(Usage { input: 10, output: 1, ..Usage::default() })
}

/// The remote agent: it waits in `gate`, books after approval, and echoes.
pub(crate) fn remote_agent(journal: Arc<dyn Journal>, gate: &Gate) -> DeepAgent {
    let model = ScriptedModel::rules().always(Turn::with(worker)).build();
    let waits = gate.clone();
    let gate = json_tool("gate", "Waits.", json!({"type": "object"}), move |_: Value, _cx| {
        let waits = waits.clone();
        async move {
            waits.begun.add_permits(1);
            waits.go.acquire().await?.forget();
            Ok("open")
        }
    });
    let book = json_tool("book", "Books.", json!({"type": "object"}), |args: Value, _cx| async move {
        Ok(format!("booked {}", args["city"].as_str().unwrap_or_default()))
    });
    let asks: InterruptPolicy = serde_json::from_value(json!({"book": true})).unwrap();
    let builder = DeepAgent::builder().model(model).journal(journal).interrupt_on(asks);
    builder.tool(gate).tool(book).build().unwrap()
}

/// A server that stops when dropped.
pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) gate: Gate,
    pub(crate) http: reqwest::Client,
    _end: oneshot::Sender<()>,
}

impl Running {
    pub(crate) async fn start() -> Self {
        let gate = Gate::new();
        let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
        let agent = remote_agent(journal.clone(), &gate);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        Self::serve(Server::new(journal, store).agent("worker", agent).unwrap(), gate).await
    }

    pub(crate) async fn serve(server: Server, gate: Gate) -> Self {
        let running = server.start().await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (end, ended) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let until = async move { ended.await.map_or((), |()| ()) };
            running.serve(listener, until).await.unwrap();
        });
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self { url, gate, http: reqwest::Client::builder().timeout(LIMIT).build().unwrap(), _end: end }
    }

    pub(crate) fn config(&self) -> RemoteConfig {
        RemoteConfig::langgraph(&self.url, "worker").unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.http.post(format!("{}{path}", self.url)).json(&body).send().await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap_or(Value::Null)
    }

    /// Waits until the only run was cancelled.
    pub(crate) async fn until_interrupted(&self) {
        soon(async {
            while self.statuses().await != ["interrupted"] {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// The status of each run.
    pub(crate) async fn statuses(&self) -> Vec<String> {
        let threads = self.post("/threads/search", json!({"limit": 100})).await;
        let mut out = Vec::new();
        for thread in threads.as_array().unwrap() {
            let path = format!("{}/threads/{}/runs", self.url, thread["thread_id"].as_str().unwrap());
            let text = self.http.get(path).send().await.unwrap().text().await.unwrap();
            let runs: Vec<Value> = serde_json::from_str(&text).unwrap();
            out.extend(runs.iter().map(|run| run["status"].as_str().unwrap().to_owned()));
        }
        out
    }
}

/// The local model: delegates the user's message to the remote agent, and returns the result.
fn boss(tool: &'static str) -> impl Fn(&ModelRequest) -> Turn + Send + Sync + 'static {
    move |request| {
        let last = request.messages.iter().next_back().unwrap();
        let is_user = matches!(**last, Message::User(_));
        match (is_user, last.text()) {
            (true, text) if text.contains("This is a message of the system") => Turn::text(text),
            (true, text) => match text.split_once(' ') {
                Some((call @ ("check_async_task" | "cancel_async_task"), id)) => {
                    Turn::call(call, json!({"task_id": id}))
                }
                Some(("update_async_task", rest)) => {
                    let (id, message) = rest.split_once(' ').unwrap();
                    Turn::call("update_async_task", json!({"task_id": id, "message": message}))
                }
                _ => Turn::call(tool, json!({"description": text, "subagent_type": "worker"})),
            },
            (false, text) => Turn::text(text),
        }
    }
}

/// An agent that delegates with `task`.
pub(crate) fn delegating(config: RemoteConfig) -> DeepAgentBuilder {
    delegating_with("task", config)
}

pub(crate) fn delegating_with(tool: &'static str, config: RemoteConfig) -> DeepAgentBuilder {
    let worker = RemoteSubAgent::new("worker", "Works elsewhere.", config).unwrap();
    let model = ScriptedModel::rules().always(Turn::with(boss(tool))).build();
    DeepAgent::builder().model(model).sub_agent(worker)
}

/// Calls for the remote agent, as JSON.
pub(crate) fn steps(calls: &[(&str, Value)]) -> String {
    serde_json::to_string(calls).unwrap()
}

/// Runs a task to the end. Returns the outcome and the events.
pub(crate) async fn play(agent: &DeepAgent, input: impl Into<RunInput>) -> (Outcome, Vec<Event>) {
    use futures_util::StreamExt;
    let run = agent.run(input.into());
    let events = run.handle().subscribe(deepagents::Subscribe::Start);
    let outcome = soon(run.outcome()).await.unwrap();
    (outcome, events.collect().await)
}

/// The events of subagents in short form: path, kind and text.
pub(crate) fn below(events: &[Event]) -> Vec<String> {
    let shown = |event: &Event| {
        let what = match &event.kind {
            EventKind::AgentStarted { name } => format!("started {name}"),
            EventKind::TextDelta { text, .. } => format!("text {text:?}"),
            EventKind::ModelFinished { usage, .. } => format!("answered {}+{}", usage.input, usage.output),
            EventKind::ToolStarted { name, args, .. } => format!("calls {name} {args}"),
            EventKind::ToolFinished { name, text, error, .. } => format!("{name} {text:?} {error}"),
            EventKind::AgentFinished { stop, .. } => format!("ended {}", stop.reason()),
            EventKind::AgentFailed { error, .. } => format!("failed {error}"),
            _ => return None,
        };
        Some(format!("{}: {what}", event.path.join("/")))
    };
    let mut lines: Vec<String> = events.iter().filter(|event| !event.path.is_empty()).filter_map(shown).collect();
    // The number of deltas varies.
    lines.dedup();
    lines
}

/// The text of the remote agent in the events.
pub(crate) fn text_below(events: &[Event]) -> String {
    let text = |event: &Event| match &event.kind {
        EventKind::TextDelta { text, .. } if !event.path.is_empty() => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}
