//! Carries out the effects that the interface asks for: runs, threads, commands.
//!
//! Each effect is a task that reports its result with an [`Event`]. The interface never waits for one.

mod background;
mod browse;
mod commands;
mod connect;
mod context;
mod cost;
mod decided;
mod drive;
mod export;
mod files;
mod follower;
mod git;
mod goal;
mod hooks;
pub(crate) mod images;
mod picking;
mod process;
mod rewind;
mod run;
mod shell;
mod steering;
mod threads;
mod tree;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use deepagents::core::journal::ThreadUsage;
use deepagents::remembered::RememberedRule;
use deepagents::{Message, RunHandle};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::effect::Effect;
use crate::app::event::{Event, Opened};
use crate::app::transcript::Picture;
use crate::host::{Begin, Connection, Host};
use crate::policy::Policy;
use crate::preferences::Preferences;
use background::Background;
use files::FileIndex;
use goal::Goal;
use waiting::KeptWithThread;

/// A problem, as a sentence for the user.
type Problem = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Problem> = std::result::Result<T, E>;

/// The agent, once it is built.
type Slot = watch::Sender<Option<Result<Connection, String>>>;

/// The state shared by the tasks.
#[derive(Clone)]
pub(crate) struct Session {
    host: Arc<dyn Host>,
    policy: Policy,
    events: mpsc::UnboundedSender<Event>,
    slot: Arc<Slot>,
    root: PathBuf,
    home: Option<PathBuf>,
    shell: String,
    /// The user's commands for the status line and for notifications.
    status_command: Option<String>,
    notify_command: Option<String>,
    state: Arc<Mutex<Shared>>,
    files: Arc<FileIndex>,
}

/// The mutable state.
#[derive(Default)]
struct Shared {
    thread: Option<String>,
    run: Option<RunHandle>,
    /// The number of the foreground run. Events of earlier runs are not shown.
    foreground: u64,
    /// The runs in the background.
    background: Vec<Background>,
    /// The number of the task that follows the open thread. Earlier ones stop.
    follower: u64,
    /// The followed thread, and the end of its log when it was last shown.
    shown: Option<(String, u64)>,
    /// Messages for a run that has not started yet.
    early: Vec<Message>,
    /// Messages whose images are being read, in their order, and those behind them.
    unread: Vec<String>,
    /// The texts and pictures of messages that the run has not taken yet, in their order. Two may have the same text.
    steered: Vec<(String, Vec<Picture>)>,
    /// User input to be saved with threads, whether saving is in progress, and the task that saves.
    kept: BTreeMap<String, KeptWithThread>,
    is_saving: bool,
    keeper: Option<JoinHandle<()>>,
    /// The thread's positions before each `/undo`, latest last.
    redo_positions: Vec<u64>,
    /// The goal for the next run.
    goal: Option<Goal>,
    /// The number of the last requested list; earlier ones grow no further.
    listing: u64,
    /// The counted usage of the open thread and of its background agents.
    counted: HashMap<String, ThreadUsage>,
    /// Files that conversations were exported to.
    exported: BTreeSet<PathBuf>,
    /// The next status for the status line command, and whether that command runs.
    status: Option<String>,
    status_runs: bool,
    /// Cancels the current job.
    job: CancellationToken,
    /// Cancels the shell command that runs beside the current job.
    background_shell: CancellationToken,
    /// The number of the last requested agent; earlier ones are discarded.
    asked_for: u64,
    /// The task that builds the last requested agent.
    connecting: Option<JoinHandle<()>>,
    /// The last agent that was built.
    last: Option<Connection>,
}

impl Shared {
    fn next_job(&mut self) -> CancellationToken {
        self.job = CancellationToken::new();
        self.foreground += 1;
        self.follower += 1;
        self.job.clone()
    }
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

    fn emit(&self, event: Event) {
        // The interface may be gone already.
        let _ = self.events.send(event);
    }

    /// Spawns a task that may end with an event. If it fails, the event is a notice.
    fn spawn<F>(&self, work: impl FnOnce(Self) -> F)
    where
        F: Future<Output = Result<Option<Event>>> + Send + 'static,
    {
        let (this, work) = (self.clone(), work(self.clone()));
        tokio::spawn(async move {
            if let Some(event) = work.await.unwrap_or_else(|problem| Some(Event::problem(problem.to_string()))) {
                this.emit(event);
            }
        });
    }

    /// Spawns a task that ends with a thread to show.
    fn spawn_opening<F>(&self, work: impl FnOnce(Self) -> F)
    where
        F: Future<Output = Result<Opened>> + Send + 'static,
    {
        let work = work(self.clone());
        self.spawn(|_| async move {
            let opened = work.await.map(Box::new).map_err(|problem| problem.to_string());
            Ok(Some(Event::Opened(opened)))
        });
    }

    /// Starts a new job with its own cancellation token. Events of the previous run are no longer shown, and messages
    /// that it has not received are dropped.
    fn new_job(&self) -> CancellationToken {
        self.with(|state| {
            state.take_unsent();
            state.steered.clear();
            state.next_job()
        })
    }

    /// Returns the open thread.
    pub(crate) fn thread(&self) -> Option<String> {
        self.with(|state| state.thread.clone())
    }

    /// Returns whether a run is in progress.
    pub(crate) fn is_running(&self) -> bool {
        self.with(|state| state.run.is_some())
    }

    /// Cancels the current job.
    pub(crate) fn cancel(&self) {
        self.with(|state| state.job.cancel());
    }

    fn remember(&self, rule: RememberedRule) {
        self.spawn(|this| async move {
            this.host.remember(&rule).await.map_err(|problem| {
                format!("it is allowed until you quit, but could not be stored for later: {problem}")
            })?;
            Ok(None)
        });
    }

    /// Carries out an effect that does not need the terminal.
    pub(crate) fn effect(&self, effect: Effect) {
        match effect {
            Effect::Submit { text, context, skills, decided } => self.submit(text, context, skills, decided),
            Effect::SetGoal { text, once } => self.with(|state| state.goal = Some(Goal { text, once })),
            Effect::Reload => self.reload(),
            Effect::Steer(text) => self.steer(text),
            Effect::KeepWaiting { thread, texts } => self.keep_waiting(thread, texts),
            Effect::KeepDecided { thread, decided } => self.keep_decided(thread, decided),
            Effect::Retract => self.retract(),
            Effect::Cancel => self.cancel(),
            Effect::Resume { answers, by_force } => self.resume(answers, by_force),
            Effect::MoveToBackground => self.move_to_background(),
            Effect::Shell(command) => self.shell(command),
            Effect::ShellInBackground(command) => self.shell_in_background(command),
            Effect::StopBackgroundShell => self.with(|state| state.background_shell.cancel()),
            Effect::List(of) => self.list(of),
            Effect::OpenSubAgent { key, title } => self.open_sub_agent(key, title),
            Effect::SaveKey { provider, key } => self.save_key(provider, key),
            Effect::StatusLine(status) => self.status_line(status),
            Effect::Open(id) => {
                self.with(|state| state.goal = None);
                self.begin(Begin::Resume(id));
            }
            Effect::NewThread => {
                self.notify_closing("clear");
                self.with(|state| {
                    (state.thread, state.redo_positions, state.goal) = (None, Vec::new(), None);
                });
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
            Effect::Count => self.tell_cost(),
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
