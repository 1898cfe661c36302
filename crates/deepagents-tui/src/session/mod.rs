//! Carrying out what the screens want done: runs, threads, commands.
//!
//! Each effect is a task that says with an [`Event`] what came of it; nothing here is waited for by the screens.

mod background;
mod browse;
mod commands;
mod context;
mod cost;
mod decided;
mod export;
mod files;
mod git;
mod hooks;
pub(crate) mod images;
mod picking;
mod process;
mod rewind;
mod run;
mod shell;
mod threads;
mod tree;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use deepagents::RunHandle;
use deepagents::core::journal::ThreadUsage;
use deepagents::remembered::RememberedRule;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::event::{Connected, Effect, Event, ListOf};
use crate::host::{Connection, Host};
use crate::policy::Policy;
use crate::preferences::Preferences;
use background::Background;
use files::FileIndex;
use waiting::KeptWithThread;

/// The agent, once it is there.
type Slot = watch::Sender<Option<Result<Connection, String>>>;

/// What several tasks share.
#[derive(Clone)]
pub(crate) struct Session {
    host: Arc<dyn Host>,
    policy: Policy,
    events: mpsc::UnboundedSender<Event>,
    slot: Arc<Slot>,
    root: PathBuf,
    home: Option<PathBuf>,
    shell: String,
    /// The person's own commands for the line below the input and for notifications.
    status_command: Option<String>,
    notify_command: Option<String>,
    state: Arc<Mutex<Shared>>,
    files: Arc<FileIndex>,
}

/// What changes.
#[derive(Default)]
struct Shared {
    thread: Option<String>,
    run: Option<RunHandle>,
    /// Counts the runs of these screens; only the events of the present one are shown.
    present: u64,
    /// Runs that go on in the background.
    background: Vec<Background>,
    /// Counts those who follow the open thread; only the last one goes on.
    follower: u64,
    /// The thread that is followed, and where its log ended when it was shown last.
    shown: Option<(String, u64)>,
    /// What the run is to be told once it is there.
    early: Vec<String>,
    /// What is to be kept with threads of what the person has said, and whether that is being done.
    kept: BTreeMap<String, KeptWithThread>,
    keeps: bool,
    keeper: Option<JoinHandle<()>>,
    /// Where the thread was before it went back by `/undo`, the last one last.
    undone: Vec<u64>,
    /// What was counted of the open thread and of those below it.
    counted: HashMap<String, ThreadUsage>,
    /// Files that conversations were written to.
    exported: BTreeSet<PathBuf>,
    /// What the command for the line below the input is to be told next, and whether it runs.
    status: Option<String>,
    status_runs: bool,
    /// Ends what is under way.
    job: CancellationToken,
    /// Ends the command of the person that runs beside it.
    beside: CancellationToken,
    /// Counts the agents that were asked for; only the last one is used.
    asked_for: u64,
    /// Makes the last agent that was asked for.
    connecting: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(
        host: Arc<dyn Host>,
        policy: Policy,
        events: mpsc::UnboundedSender<Event>,
        (root, home): (PathBuf, Option<PathBuf>),
        shell: String,
        preferences: &Preferences,
    ) -> Self {
        let files = Arc::new(FileIndex::new(root.clone()));
        let (slot, state) = (Arc::new(watch::Sender::new(None)), Arc::default());
        let status_command = preferences.status_line.clone();
        let notify_command = preferences.notifications.command.clone();
        Self { host, policy, events, slot, root, home, shell, status_command, notify_command, state, files }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Shared) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn tell(&self, event: Event) {
        // Screens that are gone need not be told.
        let _ = self.events.send(event);
    }

    fn notice(&self, result: Result<String, String>) {
        let (text, bad) = match result {
            Ok(text) => (text, false),
            Err(text) => (text, true),
        };
        self.tell(Event::Notice { text, bad });
    }

    /// Does something that ends with an event.
    fn spawn(&self, work: impl Future<Output = Option<Event>> + Send + 'static) {
        let events = self.events.clone();
        tokio::spawn(async move {
            if let Some(event) = work.await {
                let _ = events.send(event);
            }
        });
    }

    /// The agent, as soon as it is there.
    async fn connection(&self) -> Result<Connection, String> {
        let mut slot = self.slot.subscribe();
        let connected = slot.wait_for(Option::is_some).await.map_err(|_| "the program ends".to_owned())?;
        connected.clone().unwrap_or_else(|| Err("the agent is not there".to_owned()))
    }

    /// The agent, as soon as it is there, with a model.
    async fn ready(&self) -> Result<Connection, String> {
        let connection = self.connection().await?;
        match &connection.missing {
            Some(problem) => Err(problem.clone()),
            None => Ok(connection),
        }
    }

    /// Makes the agent, with another model if one is named.
    pub(crate) fn connect(&self, model: Option<String>) {
        self.slot.send_replace(None);
        let this = self.clone();
        self.with(|state| {
            state.asked_for += 1;
            let (number, earlier) = (state.asked_for, state.connecting.take());
            // One after the other, so that what the host keeps of the model is that of the last one.
            state.connecting = Some(tokio::spawn(async move {
                if let Some(earlier) = earlier {
                    // One that panicked made nothing.
                    let _ = earlier.await;
                }
                let made = this.host.connect(model.as_deref(), &this.policy).await;
                let connected = connected(&made).await;
                if this.with(|state| state.asked_for == number) {
                    this.slot.send_replace(Some(made));
                    this.tell(Event::Connected(connected));
                }
            }));
        });
    }

    /// What is under way ends; what begins next has a token of its own.
    fn new_job(&self) -> CancellationToken {
        self.with(|state| {
            state.job = CancellationToken::new();
            state.early.clear();
            state.present += 1;
            state.follower += 1;
            state.job.clone()
        })
    }

    /// The thread that is open.
    pub(crate) fn thread(&self) -> Option<String> {
        self.with(|state| state.thread.clone())
    }

    /// Whether a run is under way.
    pub(crate) fn is_running(&self) -> bool {
        self.with(|state| state.run.is_some())
    }

    /// Ends what is under way.
    pub(crate) fn cancel(&self) {
        self.with(|state| state.job.cancel());
    }

    fn steer(&self, text: String) {
        self.with(|state| match &state.run {
            // A run that does not take it any more leaves it to the next one.
            Some(run) => drop(run.steer(text)),
            None => state.early.push(text),
        });
    }

    /// What the run has not taken goes back to the person.
    fn retract(&self) {
        let texts = self.with(|state| match &state.run {
            Some(run) => run.retract().iter().map(deepagents::Message::text).collect(),
            None => std::mem::take(&mut state.early),
        });
        self.tell(Event::Retracted(texts));
    }

    fn remember(&self, rule: RememberedRule) {
        let this = self.clone();
        self.spawn(async move {
            let problem = this.host.remember(&rule).await.err()?;
            let text = format!("it is allowed until these screens end, and could not be kept for later: {problem}");
            Some(Event::Notice { text, bad: true })
        });
    }

    /// Carries out what does not need the terminal.
    pub(crate) fn effect(&self, effect: Effect) {
        match effect {
            Effect::Submit { text, context, skills, decided } => self.submit(text, context, skills, decided),
            Effect::Steer(text) => self.steer(text),
            Effect::KeepWaiting { thread, texts } => self.keep_waiting(thread, texts),
            Effect::KeepDecided { thread, decided } => self.keep_decided(thread, decided),
            Effect::Retract => self.retract(),
            Effect::Cancel | Effect::StopShell => self.cancel(),
            Effect::Answer(answers) => self.resume(answers, false),
            Effect::Resume => self.resume(Vec::new(), false),
            Effect::TakeOver => self.resume(Vec::new(), true),
            Effect::SendBack => self.send_back(),
            Effect::Shell(command) => self.shell(command),
            Effect::ShellBeside(command) => self.shell_beside(command),
            Effect::StopBeside => self.with(|state| state.beside.cancel()),
            Effect::List(ListOf::Threads) => self.list_threads(),
            Effect::List(ListOf::Checkpoints) => self.list_checkpoints(),
            Effect::List(ListOf::Models) => self.list_models(),
            Effect::List(ListOf::SubAgents) => self.list_sub_agents(),
            Effect::OpenSubAgent { key, title } => self.open_sub_agent(key, title),
            // These are known without asking.
            Effect::List(ListOf::Efforts | ListOf::Themes | ListOf::Providers) => {}
            Effect::SaveKey { provider, key } => self.save_key(provider, key),
            Effect::StatusLine(status) => self.status_line(status),
            Effect::Open(id) => self.open(id),
            Effect::NewThread => {
                self.leave("clear");
                self.with(|state| (state.thread, state.undone) = (None, Vec::new()));
                self.tell(Event::Opened(Ok(Box::default())));
            }
            Effect::Rewind { position, text, scope } => self.rewind(position, text, scope),
            Effect::Undo => self.undo(),
            Effect::Redo => self.redo(),
            Effect::Preview { of, key } => self.preview(of, key),
            Effect::DeleteThread(id) => self.delete_thread(id),
            Effect::RenameThread { id, title } => self.rename_thread(id, title),
            Effect::ForkThread(id) => self.fork_thread(id),
            Effect::SetEffort(effort) => self.set_effort(effort),
            Effect::ForgetRules => self.policy.forget_rules(),
            Effect::Compact => self.compact(),
            Effect::Connect(model) => self.connect(Some(model)),
            Effect::Show(subject) => self.show(subject),
            Effect::Export { file, text } => self.export(file, text),
            Effect::FindFiles(query) => self.find_files(query),
            Effect::SetMode(mode) => self.policy.set_mode(mode),
            Effect::Allow(rule) => self.policy.allow(rule),
            Effect::Remember(rule) => self.remember(rule),
            Effect::Trust { of, agreed } => self.trust(of, agreed),
            Effect::Idle => self.idle(),
            Effect::Copy(_) | Effect::Edit(_) | Effect::Notify(_) | Effect::Suspend | Effect::Demo | Effect::Quit => {}
        }
    }
}

/// What the screens are told of an agent.
async fn connected(made: &Result<Connection, String>) -> Result<Box<Connected>, String> {
    match made {
        Ok(Connection { missing: Some(problem), .. }) | Err(problem) => Err(problem.clone()),
        Ok(connection) => Ok(Box::new(Connected {
            model: connection.model.clone(),
            window: connection.window,
            price: connection.price,
            sandbox: connection.sandbox.clone(),
            reach: connection.reach.clone(),
            shares_shell: connection.shares_shell,
            remembered: connection.remembered.clone(),
            skills: browse::skills(connection).await,
            commands: connection.commands.clone(),
            offered: connection.offered.clone(),
            notes: connection.notes.clone(),
        })),
    }
}
