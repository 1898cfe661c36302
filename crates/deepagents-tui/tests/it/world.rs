//! A directory, a scripted model, and the screens on top of them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deepagents::core::journal::{Journal, RunStatus, ThreadInfo};
use deepagents::core::model::Price;
use deepagents::core::tool::DynTool;
use deepagents::fs::shell::{Confinement, LocalShell, WithShell};
use deepagents::fs::{LocalBackend, LocalOptions, UndoStore};
use deepagents::middleware::AskUser;
use deepagents::middleware::hooks::{HookRunner, Hooks};
use deepagents::middleware::redaction::Redaction;
use deepagents::models::Catalogue;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::remembered::{CommandReach, RememberedRule};
use deepagents::{DeepAgent, DeepAgentBuilder, MemoryJournal, RunError};
use deepagents_tui::{
    Begin, CommandFile, Connection, Effort, Headless, Host, Mode, Offered, Options, Page, Policy, Preferences, Servers,
};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

/// How long a test waits for anything, which is far longer than a busy machine takes: only what hangs takes longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// Everything that exists before the screens start.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    beside: tempfile::TempDir,
    pub(crate) model: ScriptedModel,
    journal: Arc<MemoryJournal>,
    /// The person's preferences.
    pub(crate) preferences: Preferences,
    /// Whether the person has no API key yet.
    pub(crate) onboarding: bool,
    /// The threads handed to background processes.
    pub(crate) detached: Arc<Mutex<Vec<String>>>,
    /// How many hand-overs to background processes fail, starting with the first.
    pub(crate) not_begun: Arc<Mutex<u32>>,
    /// Whether the agent may start background subagents.
    pub(crate) background: bool,
    /// An additional tool of the agent.
    pub(crate) tool: Option<Arc<dyn DynTool>>,
    /// The price of tokens, if known.
    pub(crate) price: Option<Price>,
    hooks: Option<HookRunner>,
    /// The remembered rules of the directory.
    pub(crate) remembered: Arc<Mutex<Vec<RememberedRule>>>,
    /// Whether commands share a shell.
    pub(crate) shares_shell: bool,
    /// Files of the directory that need consent.
    pub(crate) offered: Arc<Mutex<Vec<Offered>>>,
    /// The names of the models that agents were built with.
    pub(crate) named: Arc<Mutex<Vec<String>>>,
    /// A notification that building the first agent waits for.
    pub(crate) gate: Option<Arc<Notify>>,
    /// Whether other programs that own a thread count as gone.
    pub(crate) is_gone: bool,
    /// Whether the agent redacts secrets.
    pub(crate) redacts: bool,
}

struct TestHost {
    onboarding: bool,
    redacts: bool,
    is_gone: bool,
    gate: Mutex<Option<Arc<Notify>>>,
    named: Arc<Mutex<Vec<String>>>,
    root: PathBuf,
    undo: PathBuf,
    model: ScriptedModel,
    journal: Arc<MemoryJournal>,
    threads: Mutex<u32>,
    detached: Arc<Mutex<Vec<String>>>,
    not_begun: Arc<Mutex<u32>>,
    background: bool,
    tool: Option<Arc<dyn DynTool>>,
    price: Option<Price>,
    hooks: Option<HookRunner>,
    remembered: Arc<Mutex<Vec<RememberedRule>>>,
    shares_shell: bool,
    offered: Arc<Mutex<Vec<Offered>>>,
}

impl World {
    pub(crate) fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("notes.txt"), "alpha\nbeta\ngamma\n").unwrap();
        std::fs::create_dir(dir.path().join("src")).unwrap();
        std::fs::write(dir.path().join("src/main.py"), "print('hello')\n").unwrap();
        let journal = Arc::new(MemoryJournal::new());
        let (beside, model) = (tempfile::tempdir().unwrap(), ScriptedModel::new(turns));
        let (preferences, detached) = (Preferences::default(), Arc::default());
        Self {
            dir,
            beside,
            model,
            journal,
            preferences,
            onboarding: false,
            detached,
            not_begun: Arc::default(),
            background: false,
            tool: None,
            price: None,
            hooks: None,
            remembered: Arc::default(),
            shares_shell: false,
            offered: Arc::default(),
            named: Arc::default(),
            gate: None,
            is_gone: true,
            redacts: false,
        }
    }

    /// Adds a hook for each event: a shell command that runs in the directory.
    pub(crate) fn hooks(mut self, hooks: &[(&str, &str)]) -> Self {
        let shell = Arc::new(LocalShell::open(self.dir.path(), Confinement::Unconfined).unwrap());
        let hooks: Map<String, Value> = hooks
            .iter()
            .map(|(event, command)| {
                ((*event).to_owned(), json!([{"hooks": [{"type": "command", "command": command}]}]))
            })
            .collect();
        let file = json!({"hooks": hooks}).to_string();
        self.hooks = Some(HookRunner::new(Hooks::parse(&file, "hooks.json", shell).unwrap()));
        self
    }

    pub(crate) fn screens(&self, mode: Mode) -> Headless {
        self.begin(mode, Begin::New)
    }

    pub(crate) fn begin(&self, mode: Mode, begin: Begin) -> Headless {
        let host = TestHost {
            onboarding: self.onboarding,
            is_gone: self.is_gone,
            redacts: self.redacts,
            root: self.dir.path().to_owned(),
            undo: self.beside.path().join("undo.db"),
            model: self.model.clone(),
            journal: self.journal.clone(),
            threads: Mutex::default(),
            detached: self.detached.clone(),
            not_begun: self.not_begun.clone(),
            background: self.background,
            tool: self.tool.clone(),
            price: self.price,
            hooks: self.hooks.clone(),
            remembered: self.remembered.clone(),
            shares_shell: self.shares_shell,
            offered: self.offered.clone(),
            named: self.named.clone(),
            gate: Mutex::new(self.gate.clone()),
        };
        let options = Options {
            version: "0".to_owned(),
            model: "scripted".to_owned(),
            root: self.dir.path().to_owned(),
            home: Some(self.dir.path().to_owned()),
            mode,
            begin,
            colour: true,
            preferences: self.preferences.clone(),
            onboarding: self.onboarding,
            history: Some(self.beside.path().join("history.jsonl")),
            debug: false,
            shell: "/bin/sh".to_owned(),
        };
        let host: Arc<dyn Host> = Arc::new(host);
        Headless::new(&host, Policy::new(mode), options, 80, 24)
    }

    /// Waits until a thread's metadata contains a text.
    pub(crate) async fn until_noted(&self, thread: &str, words: &str) {
        self.until(thread, |info| json!(info.metadata).to_string().contains(words)).await;
    }

    /// Waits until a thread's metadata no longer contains a text.
    pub(crate) async fn until_not_noted(&self, thread: &str, words: &str) {
        self.until(thread, |info| !json!(info.metadata).to_string().contains(words)).await;
    }

    /// Waits until the last run of a thread has ended with a question.
    pub(crate) async fn until_asked(&self, thread: &str) {
        self.until(thread, |info| info.status == RunStatus::Interrupted).await;
    }

    /// Waits until the model has got a request.
    pub(crate) async fn until_requested(&self) {
        let began = Instant::now();
        while self.model.requests().is_empty() {
            assert!(began.elapsed() < TIMEOUT, "the model gets no request");
            tokio::task::yield_now().await;
        }
    }

    async fn until(&self, thread: &str, is_so: impl Fn(&ThreadInfo) -> bool) {
        let began = Instant::now();
        loop {
            let info = self.journal.threads().get(thread).await.unwrap().unwrap();
            if is_so(&info) {
                return;
            }
            assert!(began.elapsed() < TIMEOUT, "{info:?}");
            tokio::task::yield_now().await;
        }
    }

    /// Deletes a thread like another program.
    pub(crate) async fn delete(&self, thread: &str) {
        self.journal.threads().delete(thread).await.unwrap();
    }

    /// A turn that the model answers only once the directory has a file. It blocks a thread until then.
    pub(crate) fn once(&self, file: &str, turn: Turn) -> Turn {
        let file = self.dir.path().join(file);
        Turn::with(move |_| {
            let began = Instant::now();
            while !file.exists() {
                assert!(began.elapsed() < TIMEOUT, "{} was never made", file.display());
                std::thread::yield_now();
            }
            turn.clone()
        })
    }

    pub(crate) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(file)).unwrap()
    }

    pub(crate) fn has(&self, file: &str) -> bool {
        self.dir.path().join(file).exists()
    }

    /// The text of all messages in the last model request.
    pub(crate) fn told(&self) -> String {
        let requests = self.model.requests();
        let last = requests.last().expect("the model was asked");
        last.messages.iter().map(|message| message.text() + "\n").collect()
    }
}

/// Types a message and sends it.
pub(crate) async fn say(screens: &mut Headless, text: &str) {
    screens.type_text(text).await;
    screens.press("enter").await.unwrap();
}

/// Price of the models of subagents.
const SCRIPTED: &str = r#"{"script": {"price": {"input": 1000, "output": 10000}}}"#;

impl Host for TestHost {
    fn connect<'a>(&'a self, model: Option<&'a str>, policy: &'a Policy) -> BoxFuture<'a, Result<Connection, String>> {
        async move {
            if model.is_some_and(|model| model.starts_with("nosuch")) {
                return Err("nosuch does not name a provider".to_owned());
            }
            self.named.lock().unwrap().extend(model.map(str::to_owned));
            let name = self.named.lock().unwrap().last().cloned().unwrap_or_else(|| "scripted".to_owned());
            let gate = self.gate.lock().unwrap().take();
            if let Some(gate) = gate {
                gate.notified().await;
            }
            let options = LocalOptions { undo: Some(UndoStore::at(&self.undo)), ..LocalOptions::default() };
            let files = LocalBackend::open_with(&self.root, options).map_err(|error| error.to_string())?;
            let shell = LocalShell::open(&self.root, Confinement::Unconfined).map_err(|error| error.to_string())?;
            // The real sandbox is tested elsewhere.
            policy.set_confined(true);
            let builder = DeepAgent::builder().middleware(AskUser);
            let builder = self.tool.iter().fold(builder, |builder, tool| builder.tool(tool.clone()));
            let builder = builder
                .model(self.model.clone())
                .journal(self.journal.clone())
                .background_agents(self.background)
                .backend(WithShell::new(files.clone(), shell));
            let builder = if self.redacts { builder.middleware(Redaction::secrets()) } else { builder };
            let agent = self.hooks.iter().cloned().fold(policy.bind(builder, &[]), DeepAgentBuilder::hooks);
            let agent = agent.build().map_err(|error| error.to_string())?;
            Ok(Connection {
                agent,
                journal: self.journal.clone(),
                files,
                hooks: self.hooks.clone(),
                model: name,
                missing: (self.onboarding && self.named.lock().unwrap().is_empty())
                    .then(|| "no key was found; /auth stores one".to_owned()),
                window: Some(100_000),
                price: self.price,
                catalogue: Catalogue::built_in().with_json(SCRIPTED).map_err(|error| error.to_string())?,
                sandbox: "unconfined".to_owned(),
                reach: CommandReach::default(),
                shares_shell: self.shares_shell,
                remembered: self.remembered.lock().unwrap().clone(),
                commands: vec![
                    CommandFile {
                        name: "fix".to_owned(),
                        args: "NUMBER".to_owned(),
                        about: "fix an issue".to_owned(),
                        text: "Fix issue $1 now.".to_owned(),
                    },
                    CommandFile { name: "blank".to_owned(), text: "\n".to_owned(), ..CommandFile::default() },
                ],
                offered: self.offered.lock().unwrap().clone(),
                notes: Vec::new(),
            })
        }
        .boxed()
    }

    fn models(&self) -> BoxFuture<'_, Vec<(String, String)>> {
        async { vec![("other".to_owned(), "another one".to_owned())] }.boxed()
    }

    fn set_effort(&self, effort: Option<Effort>) -> Result<(), String> {
        match effort {
            Some(Effort::High) => Err("this provider cannot be told".to_owned()),
            _ => Ok(()),
        }
    }

    fn providers(&self) -> Vec<(String, String)> {
        vec![("acme".to_owned(), "ACME_API_KEY".to_owned())]
    }

    fn save_key<'a>(&'a self, provider: &'a str, key: &'a str) -> BoxFuture<'a, Result<String, String>> {
        async move {
            match key {
                "right" => Ok(format!("{provider}:best")),
                _ => Err("that is no key".to_owned()),
            }
        }
        .boxed()
    }

    fn page(&self, page: Page) -> BoxFuture<'_, Result<String, String>> {
        async move { Ok(format!("the page {page:?}")) }.boxed()
    }

    fn adopt<'a>(&'a self, connection: &'a Connection, thread: &'a str) -> BoxFuture<'a, Result<(), String>> {
        async move {
            let state = connection.agent.state(thread).await.map_err(|error| error.to_string())?;
            UndoStore::at(&self.undo).adopt(thread, &state).map_err(|error| error.to_string())
        }
        .boxed()
    }

    fn new_thread<'a>(&'a self, _journal: &'a dyn Journal) -> BoxFuture<'a, Result<String, String>> {
        let mut threads = self.threads.lock().unwrap();
        *threads += 1;
        let id = format!("thread-{}-{threads}", fresh_number());
        async move { Ok(id) }.boxed()
    }

    fn find_thread<'a>(
        &'a self,
        journal: &'a dyn Journal,
        given: &'a str,
    ) -> BoxFuture<'a, Result<ThreadInfo, String>> {
        async move {
            let found = journal.threads().get(given).await.map_err(|error| error.to_string())?;
            found.ok_or_else(|| format!("there is no thread `{given}`"))
        }
        .boxed()
    }

    fn metadata(&self, mode: Mode) -> Map<String, Value> {
        Map::from_iter([("root".to_owned(), json!(self.root)), ("mode".to_owned(), json!(mode.as_str()))])
    }

    fn mode_of(&self, thread: &ThreadInfo) -> Option<Mode> {
        let noted = thread.metadata.get("mode")?.as_str()?;
        [Mode::Ask, Mode::Auto, Mode::Plan].into_iter().find(|mode| mode.as_str() == noted)
    }

    fn detach(&self, thread: &str, _mode: Mode) -> Result<(), String> {
        let mut not_begun = self.not_begun.lock().unwrap();
        if let Some(left) = not_begun.checked_sub(1) {
            *not_begun = left;
            return Err("there is no room for another process".to_owned());
        }
        self.detached.lock().unwrap().push(thread.to_owned());
        Ok(())
    }

    fn is_gone(&self, _thread: &ThreadInfo) -> bool {
        self.is_gone
    }

    fn explain_failure(&self, error: &RunError) -> String {
        error.to_string()
    }

    fn editor(&self) -> String {
        "true".to_owned()
    }

    fn offered(&self) -> BoxFuture<'_, Result<Vec<Offered>, String>> {
        let offered = self.offered.lock().unwrap().clone();
        async { Ok(offered) }.boxed()
    }

    fn agree<'a>(&'a self, _names: Option<&'a [String]>) -> BoxFuture<'a, Result<(), String>> {
        self.offered.lock().unwrap().clear();
        async { Ok(()) }.boxed()
    }

    fn servers(&self) -> BoxFuture<'_, Servers> {
        async { Servers::Listed("there are no servers".to_owned()) }.boxed()
    }

    fn server_tools(&self) -> BoxFuture<'_, Vec<(String, String)>> {
        async { vec![("mcp__harbour__moor".to_owned(), "Moors a ship. It takes a while.".to_owned())] }.boxed()
    }

    fn remember<'a>(&'a self, rule: &'a RememberedRule) -> BoxFuture<'a, Result<(), String>> {
        self.remembered.lock().unwrap().push(rule.clone());
        async { Ok(()) }.boxed()
    }

    fn trust_servers(&self, _trusted: bool) -> BoxFuture<'_, Result<(), String>> {
        async { Ok(()) }.boxed()
    }
}

/// A number that is unique in this test process.
fn fresh_number() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
