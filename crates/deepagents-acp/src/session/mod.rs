//! A session: a thread, its agent, and the settings made in the editor.

mod commands;
mod config;
mod questions;
mod threads;
mod turn;
mod unreported;
mod usage;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use deepagents::core::journal::ThreadInfo;
use deepagents::fs::{Backend, HostDirectory};
use tokio_util::sync::CancellationToken;

use crate::editor::Editor;
use crate::host::{AgentHost, HostError, McpServer, SessionAgent};
use crate::policy::{Mode, Policy};
use crate::queue::{Place, Queue};
use crate::setup::SessionSetup;
use crate::wire;

pub(crate) use threads::{list, real, remembered};

/// A session. It lives as long as the connection, or until it is closed.
pub(crate) struct Session<H> {
    host: Arc<H>,
    editor: Editor,
    cwd: PathBuf,
    policy: Arc<Policy>,
    chosen: Mutex<Chosen>,
    /// Cancellation tokens of unanswered prompts, by number.
    prompts: Mutex<HashMap<u64, CancellationToken>>,
    /// Number of the next prompt.
    next: AtomicU64,
    /// Queue of the prompts, which run one at a time.
    turns: Queue,
    /// Queue of the changes that rebuild the agent, which are made one after the other.
    changes: Queue,
    title: Mutex<Option<String>>,
    counted: Mutex<usage::CountedThreads>,
}

/// ID of the next session instance.
static NEXT_INSTANCE_ID: AtomicU64 = AtomicU64::new(0);

/// A prompt that has arrived.
pub(crate) struct QueuedPrompt {
    number: u64,
    /// Cancelled when the editor cancels the prompt.
    cancel: CancellationToken,
    /// Place among the prompts of the session.
    place: Place,
}

/// The current agent and its setup.
struct Chosen {
    agent: SessionAgent,
    setup: SessionSetup,
}

/// Converts a host's error.
pub(crate) fn refused(error: HostError) -> wire::Error {
    match error {
        HostError::Invalid(why) => wire::invalid(why),
        other => wire::failed(&other),
    }
}

impl<H: AgentHost> Session<H> {
    /// Opens a session and builds its agent. If the thread is `known`, it continues with the thread's last model, and
    /// in plan mode if it was left in that.
    pub(crate) async fn open(
        host: Arc<H>,
        editor: Editor,
        cwd: PathBuf,
        mcp_servers: Vec<McpServer>,
        known: Option<&ThreadInfo>,
    ) -> Result<Arc<Self>, wire::Error> {
        let (model, effort) = threads::model(&*host, known)?;
        let policy = Arc::new(Policy::default());
        if known.and_then(|thread| host.mode_of(thread)) == Some(Mode::Plan) {
            policy.set_mode(Mode::Plan);
        }
        let path = cwd.clone();
        // The host reports a directory that cannot be used.
        let opened = tokio::task::spawn_blocking(move || HostDirectory::open(path).ok()).await;
        let setup = SessionSetup {
            instance_id: NEXT_INSTANCE_ID.fetch_add(1, Ordering::Relaxed),
            cwd: cwd.clone(),
            model,
            effort,
            mcp_servers,
            policy: policy.clone(),
            editor: editor.clone(),
            directory: opened.ok().flatten(),
            workspace: Arc::new(OnceLock::new()),
        };
        let agent = match build(&*host, &setup).await {
            Ok(agent) => agent,
            Err(error) => {
                host.closed(&setup).await;
                return Err(error);
            }
        };
        Ok(Arc::new(Self {
            host,
            editor,
            cwd,
            policy,
            chosen: Mutex::new(Chosen { agent, setup }),
            prompts: Mutex::default(),
            next: AtomicU64::default(),
            turns: Queue::default(),
            changes: Queue::default(),
            title: Mutex::default(),
            counted: Mutex::default(),
        }))
    }

    /// Returns the ID of the thread, which is that of the session.
    fn thread(&self) -> &str {
        &self.editor.session().0
    }

    pub(crate) fn editor(&self) -> &Editor {
        &self.editor
    }

    pub(crate) fn agent(&self) -> SessionAgent {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner).agent.clone()
    }

    fn setup(&self) -> SessionSetup {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner).setup.clone()
    }

    /// Switches to another model or effort. If that fails, nothing changes.
    async fn choose(&self, model: String, effort: Option<String>) -> Result<(), wire::Error> {
        let workspace: Arc<OnceLock<Arc<dyn Backend>>> = Arc::new(OnceLock::new());
        let setup = SessionSetup { model, effort, workspace, ..self.setup() };
        let agent = build(&*self.host, &setup).await?;
        *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = Chosen { agent, setup };
        Ok(())
    }

    /// Registers a prompt, so that a later cancel applies to it and later prompts wait for it. Must be called in the
    /// order in which prompts arrive.
    pub(crate) fn register_prompt(&self, cancel: CancellationToken) -> QueuedPrompt {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner).insert(number, cancel.clone());
        QueuedPrompt { number, cancel, place: self.turns.place() }
    }

    /// Cancels all unanswered prompts.
    pub(crate) fn cancel(&self) {
        let prompts = std::mem::take(&mut *self.prompts.lock().unwrap_or_else(PoisonError::into_inner));
        prompts.values().for_each(CancellationToken::cancel);
    }

    /// Unregisters an answered prompt, so that a cancel no longer applies to it.
    fn answered(&self, number: u64) {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    /// Cancels the prompts and waits until they have ended.
    pub(crate) async fn stop(&self) {
        self.cancel();
        drop(self.turns.place().await);
    }

    /// Closes the session once its prompts and changes have ended.
    pub(crate) async fn close(&self) {
        self.stop().await;
        if let Some(hooks) = self.agent().hooks {
            hooks.session_end(self.thread(), "exit").await;
        }
        // An agent that is being rebuilt may still start servers.
        drop(self.changes.place().await);
        self.host.closed(&self.setup()).await;
    }
}

/// Builds an agent, and makes its files available to its tool calls.
async fn build<H: AgentHost>(host: &H, setup: &SessionSetup) -> Result<SessionAgent, wire::Error> {
    let agent = host.build(setup).await.map_err(refused)?;
    // Set once per agent.
    let _ = setup.workspace.set(agent.workspace.clone());
    Ok(agent)
}
