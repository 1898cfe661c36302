//! Runs beside a run: work that outlives the turn that began it.

use std::fmt;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Agent;
use crate::context::{Emitter, Shared};
use crate::error::Error;
use crate::ids::{RunId, ThreadId};
use crate::interrupt::{ActionRequest, Decision, DecisionError, answers_to, forget_asked, open_questions};
use crate::journal::{Journal, MemoryJournal};
use crate::message::{Message, Usage};
use crate::run::{Driver, Outcome, Place, RunError, RunInput, Setting};
use crate::state::{ChannelError, State, Update};
use crate::status::FinishReason;
use crate::tool::ToolContext;

type Driven = (Result<Outcome, Box<RunError>>, Vec<Message>);

/// A run that belongs to no other. It tells no events and keeps no thread; dropping it cancels it.
///
/// ```no_run
/// # async fn f(
/// #     agent: deepagents_core::agent::Agent,
/// #     cx: deepagents_core::tool::ToolContext,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use deepagents_core::interrupt::Decision;
/// use deepagents_core::run::RunInput;
///
/// let state = cx.state().fork(agent.schema().clone())?;
/// let mut run = agent.spawn_background("errand", state, RunInput::new("Fetch the news."))?;
/// let (mut outcome, mut paused) = run.ended().await?;
/// while let Some(waits) = paused {
///     let approved = waits.questions().into_iter().map(|question| (question.id, Decision::Approve)).collect();
///     (outcome, paused) = waits.answer(approved)?.ended().await?;
/// }
/// # drop(outcome);
/// # Ok(()) }
/// ```
#[must_use]
pub struct BackgroundRun {
    agent: Agent,
    path: Arc<[String]>,
    base: RunInput,
    log: PrivateLog,
    steer: mpsc::UnboundedSender<Message>,
    cancel: CancellationToken,
    /// Taken by `ended`.
    driver: Option<JoinHandle<Driven>>,
}

/// A run beside others that waits for decisions.
pub struct Paused {
    agent: Agent,
    path: Arc<[String]>,
    base: RunInput,
    log: PrivateLog,
    state: State,
    /// Said to it after its model was last asked.
    undelivered: Vec<Message>,
}

/// Where a run beside others keeps what it does, so that it can wait.
#[derive(Clone)]
struct PrivateLog {
    journal: Arc<dyn Journal>,
    thread: ThreadId,
}

impl Agent {
    /// Starts a run that belongs to no other. It begins with `state`, such as [`State::fork`] makes, and is named by
    /// `label`, with which the ids of its questions begin. What the input holds beside messages and updates serves every
    /// part of it; a [tap](crate::run::RunObserver) has no part in it.
    ///
    /// # Errors
    /// When the state is not one of this agent.
    pub fn spawn_background(
        &self,
        label: impl Into<String>,
        mut state: State,
        input: RunInput,
    ) -> Result<BackgroundRun, ChannelError> {
        forget_asked(&mut state)?;
        let base =
            RunInput { messages: Vec::new(), update: Update::none(), thread: None, observer: None, ..input.clone() };
        let input = RunInput { thread: None, observer: None, ..input };
        let thread = self.definition.ids.next("run");
        let log = PrivateLog { journal: Arc::new(MemoryJournal::new()), thread };
        Ok(BackgroundRun::start(self.clone(), Arc::from([label.into()]), base, log, input, state, &[]))
    }
}

impl BackgroundRun {
    fn start(
        agent: Agent,
        path: Arc<[String]>,
        base: RunInput,
        log: PrivateLog,
        input: RunInput,
        state: State,
        undelivered: &[Message],
    ) -> Self {
        let run = RunId::new(agent.definition.ids.next("run"));
        let (steer, inbox) = mpsc::unbounded_channel();
        for message in undelivered {
            let _ = steer.send(message.clone());
        }
        let cancel = CancellationToken::new();
        let PrivateLog { journal, thread } = log.clone();
        let label = path.join("/");
        let place = Place::Background { journal, thread, label, state };
        let setting =
            Setting { path: path.clone(), place, ..Setting::main(run.clone(), Emitter::silent(run), cancel.clone()) };
        let driver = tokio::spawn(Driver::run_to_end(agent.definition.clone(), input, setting, Some(inbox)));
        Self { agent, path, base, log, steer, cancel, driver: Some(driver) }
    }

    /// Says something to the model, as [`Run::steer`](crate::run::Run::steer) does. What comes when the model is asked no more
    /// because calls wait for decisions is said when it [goes on](Paused::answer).
    pub fn steer(&self, message: impl Into<Message>) -> bool {
        self.steer.send(message.into()).is_ok()
    }

    /// An input for more of the same work, without messages: what the application gave with it, and what it may spend.
    pub fn base(&self) -> RunInput {
        self.base.clone()
    }

    /// Ends it.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Waits for the end, and says how to go on if it waits for decisions. May be dropped and called again until it has
    /// given something.
    ///
    /// # Errors
    /// When the run fails; the error holds what it had finished. When it is called once more after it has given something.
    pub async fn ended(&mut self) -> Result<(Outcome, Option<Paused>), Box<RunError>> {
        let lost = |error: Error| Box::new(RunError::new(error, State::default(), Usage::default()));
        let Some(driver) = &mut self.driver else {
            return Err(lost(Error::Input("the end of the run was given before".to_owned())));
        };
        let ended = driver.await;
        self.driver = None;
        let (result, undelivered) = ended.map_err(|error| lost(Error::other(error)))?;
        let outcome = result?;
        let paused = (outcome.stop == FinishReason::Interrupted).then(|| Paused {
            agent: self.agent.clone(),
            path: self.path.clone(),
            base: self.base.clone(),
            log: self.log.clone(),
            state: outcome.state.clone(),
            undelivered,
        });
        Ok((outcome, paused))
    }
}

impl Drop for BackgroundRun {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl fmt::Debug for BackgroundRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundRun").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Paused {
    /// What it waits for, without what counts as rejected by now.
    pub fn questions(&self) -> Vec<ActionRequest> {
        let now = self.agent.definition.clock.now();
        let mut open: Vec<ActionRequest> =
            open_questions(&self.state).filter(|q| !q.is_expired(now)).cloned().collect();
        open.sort_by(|a, b| (&a.call, &a.id).cmp(&(&b.call, &b.id)));
        open
    }

    /// Goes on with answers; it waits again where some are missing.
    ///
    /// # Errors
    /// When an answer cannot be taken. The questions are open as before then.
    pub fn answer(&self, answers: Vec<(String, Decision)>) -> Result<BackgroundRun, DecisionError> {
        // A wrong answer is refused here, and leaves everything as it is.
        answers_to(&self.state, answers.clone(), self.agent.definition.clock.now())?;
        let (agent, path, base, log) = (self.agent.clone(), self.path.clone(), self.base.clone(), self.log.clone());
        let input = RunInput { resume: true, answers, ..base.clone() };
        Ok(BackgroundRun::start(agent, path, base, log, input, self.state.clone(), &self.undelivered))
    }
}

impl fmt::Debug for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paused").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ToolContext {
    /// The same for work that goes on when the run has ended: it tells no events, and only `cancel` cancels it. What it
    /// asks nobody hears.
    #[must_use]
    pub fn beside(&self, cancel: CancellationToken) -> Self {
        let shared = &self.context().shared;
        let mut cx = self.context().clone();
        cx.shared = Arc::new(Shared {
            agent: shared.agent.clone(),
            run: shared.run.clone(),
            thread: shared.thread.clone(),
            path: shared.path.clone(),
            events: Emitter::silent(shared.run.clone()),
            cancel,
            budget: shared.budget.clone(),
            extensions: shared.extensions.clone(),
            observer: None,
            attempt: std::sync::atomic::AtomicU32::new(0),
            tools: std::sync::Mutex::new(cx.tools.clone()),
            passed: std::sync::Mutex::new(None),
            log: std::sync::OnceLock::new(),
        });
        self.in_context(cx)
    }
}
