//! A session: a thread, the agent that works on it, and what the editor has set.

mod commands;
mod config;
mod questions;
mod threads;
mod turn;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use deepagents::core::journal::{Journal, ThreadInfo};
use deepagents::fs::Backend;
use tokio_util::sync::CancellationToken;

use crate::editor::Editor;
use crate::host::{AgentHost, HostError, McpServer, ModelOption, SessionAgent};
use crate::policy::{Mode, Policy};
use crate::queue::{Place, Queue};
use crate::setup::SessionSetup;
use crate::wire;

pub(crate) use threads::{list, real, remembered};

/// A session. It lives for as long as the connection does, or until it is closed.
pub(crate) struct Session<H> {
    host: Arc<H>,
    editor: Editor,
    thread: String,
    cwd: PathBuf,
    policy: Arc<Policy>,
    chosen: Mutex<Chosen>,
    /// Of the prompts that have come and not been answered.
    prompts: Mutex<HashMap<u64, CancellationToken>>,
    /// Of the next prompt.
    next: AtomicU64,
    /// Of the prompts: one is worked on, the later ones wait.
    turns: Queue,
    title: Mutex<Option<String>>,
}

/// Of the next session that is opened.
static OPENINGS: AtomicU64 = AtomicU64::new(0);

/// A prompt that has come.
pub(crate) struct Ticket {
    number: u64,
    /// Cancelled where the editor wants no more of it.
    pub(crate) cancel: CancellationToken,
    /// Among the prompts of the session.
    place: Place,
}

/// What a session works with.
struct Chosen {
    agent: SessionAgent,
    setup: SessionSetup,
}

/// What a session begins with.
pub(crate) struct NewSession {
    pub(crate) thread: String,
    pub(crate) cwd: PathBuf,
    pub(crate) mcp_servers: Vec<McpServer>,
}

/// A host's error in the protocol.
pub(crate) fn refused(error: HostError) -> wire::Error {
    match error {
        HostError::Invalid(why) => wire::invalid(why),
        other => wire::failed(&other),
    }
}

impl<H: AgentHost> Session<H> {
    /// Builds the agent of a session, on the model that its thread was run with last if it is `known`, and in plan mode if it was
    /// left in that.
    pub(crate) async fn open(
        host: Arc<H>,
        editor: Editor,
        new: NewSession,
        known: Option<&ThreadInfo>,
    ) -> Result<Arc<Self>, wire::Error> {
        let NewSession { thread, cwd, mcp_servers } = new;
        let (model, effort) = threads::model(&*host, known)?;
        let policy = Arc::new(Policy::default());
        if known.and_then(|thread| host.mode_of(thread)) == Some(Mode::Plan) {
            policy.set_mode(Mode::Plan);
        }
        let setup = SessionSetup {
            opening: OPENINGS.fetch_add(1, Ordering::Relaxed),
            cwd: cwd.clone(),
            model,
            effort,
            mcp_servers,
            policy: policy.clone(),
            editor: editor.clone(),
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
            thread,
            cwd,
            policy,
            chosen: Mutex::new(Chosen { agent, setup }),
            prompts: Mutex::default(),
            next: AtomicU64::default(),
            turns: Queue::default(),
            title: Mutex::default(),
        }))
    }

    pub(crate) fn id(&self) -> wire::SessionId {
        wire::SessionId::new(self.thread.clone())
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

    fn journal(&self) -> Arc<dyn Journal> {
        self.host.journal()
    }

    /// The models that may be chosen.
    fn models(&self) -> Vec<ModelOption> {
        self.host.models()
    }

    /// Puts another model, or another effort, in the place of what there is; nothing changes if that fails.
    async fn choose(&self, model: String, effort: Option<String>) -> Result<(), wire::Error> {
        let workspace: Arc<OnceLock<Arc<dyn Backend>>> = Arc::new(OnceLock::new());
        let setup = SessionSetup { model, effort, workspace, ..self.setup() };
        let agent = build(&*self.host, &setup).await?;
        *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = Chosen { agent, setup };
        Ok(())
    }

    /// Takes a prompt in: a later cancel is about it, a later prompt waits for it. Must be called in the order in which prompts
    /// come.
    pub(crate) fn begin(&self) -> Ticket {
        let (number, cancel) = (self.next.fetch_add(1, Ordering::Relaxed), CancellationToken::new());
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner).insert(number, cancel.clone());
        Ticket { number, cancel, place: self.turns.place() }
    }

    /// Ends the prompts that have not been answered.
    pub(crate) fn cancel(&self) {
        let prompts = std::mem::take(&mut *self.prompts.lock().unwrap_or_else(PoisonError::into_inner));
        prompts.values().for_each(CancellationToken::cancel);
    }

    /// A prompt has been answered: a cancel is none of its business any more.
    fn answered(&self, number: u64) {
        self.prompts.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    /// Ends what is under way and waits until it has ended.
    pub(crate) async fn close(&self) {
        self.cancel();
        drop(self.turns.place().await);
        if let Some(hooks) = self.agent().hooks {
            hooks.session_end(&self.thread, "exit").await;
        }
        self.host.closed(&self.setup()).await;
    }

    /// Sets the mode and tells it.
    fn set_mode(&self, mode: Mode) {
        self.policy.set_mode(mode);
    }
}

/// Builds an agent, and lets the calls of its tools know its files.
async fn build<H: AgentHost>(host: &H, setup: &SessionSetup) -> Result<SessionAgent, wire::Error> {
    let agent = host.build(setup).await.map_err(refused)?;
    // Set once for each agent.
    let _ = setup.workspace.set(agent.workspace.clone());
    Ok(agent)
}
