//! A test editor. It sends requests, answers those of the agent, and records what it receives.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deepagents::core::journal::{Journal, MemoryJournal, ThreadInfo};
use deepagents::core::middleware::DynMiddleware;
use deepagents::core::model::{ChatModel, ModelError, ModelEvent, ModelProfile, ModelRequest, Price};
use deepagents::core::tool::DynTool;
use deepagents::fs::LocalBackend;
use deepagents::fs::shell::{Confinement, LocalShell, SessionOptions, Shell};
use deepagents::middleware::filesystem::{BackgroundCommands, FilesystemOptions};
use deepagents::middleware::hooks::{HookRunner, Hooks};
use deepagents::models::catalogue::Catalogue;
use deepagents::models::scripted::ScriptedModel;
use deepagents::subagents::SubAgentSpec;
use deepagents::{DeepAgent, forward_model};
use deepagents_acp::{
    AgentHost, HostError, McpSupport, Mode, ModelOption, OwnShell, SessionAgent, SessionSetup, SlashCommand, serve,
};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

/// How long a test waits for the agent, which is far longer than a busy machine takes: only what hangs takes longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// A model and its effort.
type Built = (String, Option<String>);

/// A host with a scripted model and an in-memory journal.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) model: ScriptedModel,
    pub(crate) journal: Arc<MemoryJournal>,
    pub(crate) tool: Option<Arc<dyn DynTool>>,
    pub(crate) middleware: Option<Arc<dyn DynMiddleware>>,
    pub(crate) sub_agent: Option<SubAgentSpec>,
    /// If a message contains this, the model never finishes its response.
    pub(crate) halts_at: Option<&'static str>,
    /// One permit for each response that stopped before its end.
    pub(crate) halted: Arc<Semaphore>,
    /// Whether it has its own shell, and whether that counts as a sandbox.
    pub(crate) shell: Option<bool>,
    /// Whether commands may run in the background.
    pub(crate) background: BackgroundCommands,
    /// Whether commands share a shell.
    pub(crate) shell_session: bool,
    /// A file with hooks, which run outside of a sandbox.
    pub(crate) hooks: Option<String>,
    /// Models and efforts that agents were built with.
    pub(crate) built: Arc<Mutex<Vec<Built>>>,
    pub(crate) made: Arc<Mutex<u32>>,
    /// An agent with this effort is built once there is a permit.
    pub(crate) gate: Option<(Option<&'static str>, Arc<Semaphore>)>,
    /// One permit for each closed session.
    pub(crate) closed: Arc<Semaphore>,
    /// The instances of sessions that were closed.
    pub(crate) instances: Arc<Mutex<Vec<u64>>>,
}

/// A model that may stop before the end of a response.
struct Halting {
    model: ScriptedModel,
    at: Option<&'static str>,
    halted: Arc<Semaphore>,
}

impl ChatModel for Halting {
    forward_model!([.model]; name, profile);

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let last = request.messages.last().map(|message| message.text()).unwrap_or_default();
        let answer = self.model.stream(request);
        if !self.at.is_some_and(|words| last.contains(words)) {
            return answer;
        }
        let is_end = |event: &Result<ModelEvent, ModelError>| matches!(event, Ok(ModelEvent::Finished(_)));
        let halted = self.halted.clone();
        let never = stream::once(async move {
            halted.add_permits(1);
            std::future::pending().await
        });
        answer.filter(move |event| std::future::ready(!is_end(event))).chain(never).boxed()
    }
}

impl Host {
    pub(crate) fn new(model: ScriptedModel) -> Self {
        let (journal, built, made) = (Arc::default(), Arc::default(), Arc::default());
        let (halted, closed) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        Self {
            model,
            journal,
            tool: None,
            middleware: None,
            sub_agent: None,
            halts_at: None,
            halted,
            shell: None,
            background: BackgroundCommands::Off,
            shell_session: false,
            hooks: None,
            built,
            made,
            gate: None,
            closed,
            instances: Arc::default(),
        }
    }

    /// Waits until a session has been closed.
    pub(crate) async fn wait_closed(&self) {
        let closed = tokio::time::timeout(TIMEOUT, self.closed.acquire()).await;
        closed.expect("a session is closed").unwrap().forget();
    }
}

impl AgentHost for Host {
    fn journal(&self) -> Arc<dyn Journal> {
        self.journal.clone()
    }

    fn models(&self) -> Vec<ModelOption> {
        let efforts = ["low", "high"].map(str::to_owned).to_vec();
        vec![ModelOption { efforts, ..ModelOption::new("test:one") }, ModelOption::new("test:two")]
    }

    async fn new_thread(&self) -> Result<String, HostError> {
        let mut made = self.made.lock().unwrap();
        *made += 1;
        Ok(format!("thread-{made}"))
    }

    async fn build(&self, setup: &SessionSetup) -> Result<SessionAgent, HostError> {
        self.built.lock().unwrap().push((setup.model().to_owned(), setup.effort().map(str::to_owned)));
        if let Some((effort, gate)) = &self.gate
            && setup.effort() == *effort
        {
            gate.acquire().await.unwrap().forget();
        }
        let files = LocalBackend::open(setup.cwd()).map_err(HostError::invalid)?;
        let shell: Arc<dyn Shell> = Arc::new(LocalShell::open(files.host_path(), Confinement::Unconfined).unwrap());
        let hooks = self.hooks.as_ref().map(|hooks| {
            let runner = HookRunner::new(Hooks::parse(hooks, "hooks.json", shell.clone()).unwrap());
            runner.map_shells(|shell| setup.exclusive(shell))
        });
        let own = self.shell.map(|sandboxed| OwnShell { shell, sandboxed });
        let workspace = setup.workspace(Arc::new(files), own);
        let mut profile = ModelProfile::default();
        profile.context_window = Some(100_000);
        let model = self.model.clone().with_profile(profile);
        let model = Halting { model, at: self.halts_at, halted: self.halted.clone() };
        let options = FilesystemOptions {
            background_commands: self.background,
            shell_session: self.shell_session.then(SessionOptions::default),
            ..FilesystemOptions::default()
        };
        let mut builder = DeepAgent::builder().model(model).backend(workspace.clone()).files(options);
        if let Some(tool) = &self.tool {
            builder = builder.tool(tool.clone());
        }
        if let Some(middleware) = &self.middleware {
            builder = builder.middleware(middleware.clone());
        }
        if let Some(spec) = &self.sub_agent {
            builder = builder.sub_agent(spec.clone());
        }
        if let Some(hooks) = &hooks {
            builder = builder.hooks(hooks.clone());
        }
        let agent = setup.equip(builder, self.journal(), []).build().map_err(HostError::failed)?;
        let greet = SlashCommand {
            name: "greet".to_owned(),
            description: "Greets somebody".to_owned(),
            hint: None,
            prompt: "Say hello to $ARGUMENTS.".to_owned(),
        };
        let mut made = SessionAgent::new(agent, workspace);
        (made.commands, made.context_window, made.hooks) = (vec![greet], Some(100_000), hooks);
        made.price = Some(Price::new(1.0, 10.0));
        let prices = r#"{"dear": {"price": {"input": 100, "output": 100}}}"#;
        made.catalogue = Some(Arc::new(Catalogue::built_in().with_json(prices).unwrap()));
        Ok(made)
    }

    fn metadata(&self, setup: &SessionSetup) -> Map<String, Value> {
        let mode = setup.mode().as_str();
        Map::from_iter([("model".to_owned(), json!(setup.model())), ("mode".to_owned(), json!(mode))])
    }

    fn mode_of(&self, thread: &ThreadInfo) -> Option<Mode> {
        Mode::from_id(thread.metadata.get("mode")?.as_str()?)
    }

    fn model_of(&self, thread: &ThreadInfo) -> Option<String> {
        thread.metadata.get("model")?.as_str().map(str::to_owned)
    }

    async fn closed(&self, setup: &SessionSetup) {
        self.instances.lock().unwrap().push(setup.instance_id());
        self.closed.add_permits(1);
    }

    fn mcp(&self) -> McpSupport {
        McpSupport { stdio: true, ..McpSupport::default() }
    }
}

type Answer = dyn Fn(&str, &Value) -> Option<Result<Value, Value>> + Send + Sync;

/// Frames a message as a line.
fn in_a_line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

/// The editor's side of a connection.
pub(crate) struct Editor {
    lines: mpsc::UnboundedSender<Vec<u8>>,
    seen: Arc<Mutex<Seen>>,
    changed: watch::Receiver<usize>,
    next: u64,
    /// Whether it reads what the agent sends.
    reads: watch::Sender<bool>,
    pub(crate) served: JoinHandle<Result<(), deepagents_acp::ServeError>>,
}

#[derive(Default)]
struct Seen {
    updates: Vec<Value>,
    asked: Vec<(String, Value)>,
    waiting: HashMap<u64, oneshot::Sender<Result<Value, Value>>>,
    orphans: Vec<Value>,
    /// Unanswered requests of the agent: methods and IDs.
    unanswered: Vec<(String, Value)>,
}

/// Lets a test fail that waits for a response, once nothing more comes from the agent.
struct GiveUp(Arc<Mutex<Seen>>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).waiting.clear();
    }
}

#[allow(clippy::needless_pass_by_value, reason = "values are made where they are sent")]
impl Editor {
    /// Connects an editor with these capabilities and responses. `None` leaves a request unanswered.
    pub(crate) async fn connect(
        host: Host,
        capabilities: Value,
        answer: impl Fn(&str, &Value) -> Option<Result<Value, Value>> + Send + Sync + 'static,
    ) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        let served = tokio::spawn(serve(host, reader, writer));
        let (from, mut to) = tokio::io::split(ours);
        let (lines, mut written) = mpsc::unbounded_channel::<Vec<u8>>();
        tokio::spawn(async move {
            while let Some(line) = written.recv().await {
                to.write_all(&line).await.unwrap();
            }
            to.shutdown().await.unwrap();
        });
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let (tell, changed) = watch::channel(0);
        let (shared, answers, answer): (_, _, Arc<Answer>) = (seen.clone(), lines.downgrade(), Arc::new(answer));
        let (reads, mut may_read) = watch::channel(true);
        tokio::spawn(async move {
            let seen = GiveUp(shared.clone());
            let mut from = BufReader::new(from).lines();
            let silent = |_| panic!("the agent was silent for {TIMEOUT:?} after {:?}", seen.0.lock().unwrap().updates);
            while let Ok(Some(line)) = tokio::time::timeout(TIMEOUT, from.next_line()).await.unwrap_or_else(silent) {
                let _ = may_read.wait_for(|reads| *reads).await;
                let message: Value = serde_json::from_str(&line).unwrap();
                if let Some(reply) = shared.lock().unwrap().take(message, &*answer)
                    && let Some(lines) = answers.upgrade()
                {
                    lines.send(in_a_line(&reply)).unwrap();
                }
                tell.send_modify(|count| *count += 1);
            }
        });
        let mut editor = Self { lines, seen, changed, next: 0, reads, served };
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        assert_eq!(editor.call("initialize", params).await.unwrap()["protocolVersion"], 1);
        editor
    }

    /// Stops reading what the agent sends, or goes on with it.
    pub(crate) fn read(&self, reads: bool) {
        self.reads.send_replace(reads);
    }

    /// Sends a request. Returns a receiver of its response.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> oneshot::Receiver<Result<Value, Value>> {
        self.next += 1;
        let (answered, answer) = oneshot::channel();
        self.seen.lock().unwrap().waiting.insert(self.next, answered);
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        answer
    }

    /// Sends a request. Returns a receiver of its response, and the ID under which it can be cancelled.
    pub(crate) fn cancellable(
        &mut self,
        method: &str,
        params: Value,
    ) -> (oneshot::Receiver<Result<Value, Value>>, u64) {
        let answer = self.request(method, params);
        (answer, self.next)
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.request(method, params).await.expect("an answer")
    }

    /// Sends a request as the line that is built for its ID.
    pub(crate) async fn call_raw(&mut self, line: impl Fn(u64) -> String) -> Result<Value, Value> {
        self.next += 1;
        let (answered, answer) = oneshot::channel();
        self.seen.lock().unwrap().waiting.insert(self.next, answered);
        self.raw(line(self.next).as_bytes());
        answer.await.expect("an answer")
    }

    pub(crate) fn notify(&self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    fn send(&self, message: &Value) {
        self.raw(&in_a_line(message));
    }

    /// Sends raw bytes.
    pub(crate) fn raw(&self, bytes: &[u8]) {
        self.lines.send(bytes.to_vec()).unwrap();
    }

    /// Answers the first unanswered request of a method.
    pub(crate) fn answer_late(&self, method: &str, result: Value) {
        let mut seen = self.seen.lock().unwrap();
        let at = seen.unanswered.iter().position(|(asked, _)| asked == method).expect("a request that waits");
        let (_, id) = seen.unanswered.remove(at);
        drop(seen);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    /// Error responses without a request: codes and data.
    pub(crate) fn complaints(&self) -> Vec<(i64, Value)> {
        let seen = self.seen.lock().unwrap();
        assert!(seen.orphans.iter().all(|orphan| orphan["id"].is_null()), "{:?}", seen.orphans);
        let complaint = |orphan: &Value| (orphan["error"]["code"].as_i64().unwrap(), orphan["error"]["data"].clone());
        seen.orphans.iter().map(complaint).collect()
    }

    /// Opens a session in a directory.
    pub(crate) async fn session(&mut self, cwd: &Path) -> String {
        let made = self.call("session/new", json!({"cwd": cwd, "mcpServers": []})).await.unwrap();
        made["sessionId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> oneshot::Receiver<Result<Value, Value>> {
        let prompt = json!([{"type": "text", "text": text}]);
        self.request("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    /// Sends a prompt. Returns the stop reason.
    pub(crate) async fn say(&mut self, session: &str, text: &str) -> String {
        let answer = self.prompt(session, text).await.expect("an answer").unwrap();
        answer["stopReason"].as_str().unwrap().to_owned()
    }

    /// The updates received so far, of one kind.
    pub(crate) fn updates(&self, kind: &str) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        let updates = seen.updates.iter().map(|update| update["update"].clone());
        updates.filter(|update| kind == "*" || update["sessionUpdate"] == kind).collect()
    }

    /// The text of all chunks of one kind.
    pub(crate) fn text(&self, kind: &str) -> String {
        self.updates(kind)
            .iter()
            .map(|update| update["content"]["text"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Tool calls and their updates in short: ID, title or null, status or null.
    pub(crate) fn calls(&self) -> Vec<Value> {
        let kinds = ["tool_call", "tool_call_update"];
        let all = self.updates("*").into_iter();
        all.filter(|update| kinds.iter().any(|kind| update["sessionUpdate"] == *kind)).collect()
    }

    /// The requests of the agent, of one method.
    pub(crate) fn asked(&self, method: &str) -> Vec<Value> {
        let seen = self.seen.lock().unwrap();
        seen.asked.iter().filter(|(asked, _)| asked == method).map(|(_, params)| params.clone()).collect()
    }

    /// Waits until a condition holds.
    pub(crate) async fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            self.changed.changed().await.expect("the agent is still there");
        }
    }

    /// Disconnects, and waits until the agent has noticed.
    pub(crate) async fn disconnect(self) {
        drop(self.lines);
        tokio::time::timeout(TIMEOUT, self.served).await.expect("the agent ends").unwrap().unwrap();
    }
}

#[allow(clippy::needless_pass_by_value, reason = "values are made where they are sent")]
impl Seen {
    /// Handles a message. Returns the response if it is a request.
    fn take(&mut self, message: Value, answer: &Answer) -> Option<Value> {
        let id = message["id"].clone();
        let Some(method) = message["method"].as_str() else {
            let result = message.get("result").cloned().ok_or_else(|| message["error"].clone());
            match id.as_u64().and_then(|id| self.waiting.remove(&id)) {
                Some(waiting) => drop(waiting.send(result)),
                None => self.orphans.push(message),
            }
            return None;
        };
        if id.is_null() {
            if method == "session/update" {
                self.updates.push(message["params"].clone());
            }
            return None;
        }
        self.asked.push((method.to_owned(), message["params"].clone()));
        let Some(result) = answer(method, &message["params"]) else {
            self.unanswered.push((method.to_owned(), id));
            return None;
        };
        Some(match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        })
    }
}

/// An editor without capabilities that allows everything once.
pub(crate) fn allows(method: &str, params: &Value) -> Option<Result<Value, Value>> {
    chooses("allow_once")(method, params)
}

/// An editor without capabilities that chooses this option of each question.
pub(crate) fn chooses(kind: &'static str) -> impl Fn(&str, &Value) -> Option<Result<Value, Value>> {
    move |method, params| {
        assert_eq!(method, "session/request_permission", "the editor does not offer this");
        let options = params["options"].as_array().unwrap();
        let option = options.iter().find(|option| option["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"));
        Some(Ok(json!({"outcome": {"outcome": "selected", "optionId": option["optionId"]}})))
    }
}
