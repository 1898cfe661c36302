//! The input of a run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::context::{
    BudgetTracker, Context, Extensions, INPUT_VERSION, InputRecord, RunObserver, SharedBudget, nested,
};
use crate::error::{Error, Result};
use crate::ids::{LogPosition, ThreadId};
use crate::interrupt::DecisionRecord;
use crate::journal::{Lease, RecordUpdate};
use crate::machine::Budget;
use crate::message::Message;
use crate::state::{ChannelError, Schema, Update, UpdateEntry};

/// The input of a run: messages, a thread, limits, and values that the application passes to tools and hooks.
///
/// ```
/// use std::time::Duration;
/// use deepagents_core::run::RunInput;
/// struct User(&'static str);
/// let input = RunInput::new("Tidy up.").thread("t1").timeout(Duration::from_secs(60)).with(User("ada"));
/// ```
///
/// It serialises as an [`InputRecord`].
#[derive(Clone, Debug, Default)]
pub struct RunInput {
    pub(crate) id: Option<String>,
    pub(crate) messages: Vec<Message>,
    pub(crate) update: Update,
    pub(crate) thread: Option<ThreadId>,
    pub(crate) budget: Budget,
    /// Maximum number of model calls of each agent of the run.
    pub(crate) agent_calls: Option<u32>,
    /// A budget that this run's spending also counts towards.
    pub(crate) above: Option<Arc<BudgetTracker>>,
    pub(crate) extensions: Extensions,
    /// Whether to resume an unfinished run.
    pub(crate) resume: bool,
    pub(crate) answers: Vec<(String, DecisionRecord)>,
    /// An earlier position to start from.
    pub(crate) at: Option<LogPosition>,
    pub(crate) lease: Option<Duration>,
    pub(crate) take_over: bool,
    /// The lease on the thread, if the caller already has it. The first run of the input takes it.
    pub(crate) owned: Option<Arc<Mutex<Option<Lease>>>>,
    pub(crate) observer: Option<Arc<dyn RunObserver>>,
    /// A token that cancels the run, in addition to its handles.
    pub(crate) canceller: Option<CancellationToken>,
    /// Metadata to set once the run owns the thread.
    pub(crate) note: Map<String, Value>,
    /// Whether the run drops old durable events.
    pub(crate) recent_events: bool,
}

impl RunInput {
    /// Creates an input with one message.
    pub fn new(message: impl Into<Message>) -> Self {
        Self::messages([message.into()])
    }

    /// Creates an input with several messages. A tool result among them answers the dangling call of the thread, in
    /// place of its tool.
    pub fn messages(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }

    /// Resumes the run of a thread that was killed or failed, from its last step, whichever process it ran in. Calls
    /// that had finished are not repeated. A call that had started is repeated if its tool says that this is safe;
    /// otherwise it is answered as unknown.
    ///
    /// A run that was cancelled or reached a limit resumes with the rest of its budget, unless it is given more. Its
    /// time starts anew, and so does the count of its model calls if that limit was reached. If the last run had
    /// finished normally, this is a no-op.
    ///
    /// Messages are delivered as by [`RunHandle::steer`](crate::run::RunHandle::steer), and stored with the thread
    /// until then. If calls wait for results or for a decision, the messages follow the results. A tool result among
    /// them answers its call.
    ///
    /// ```no_run
    /// # async fn f(agent: deepagents_core::agent::Agent) -> Result<(), Box<dyn std::error::Error>> {
    /// use deepagents_core::run::RunInput;
    /// let outcome = agent.invoke(RunInput::resume("t1").take_over()).await?;
    /// # Ok(()) }
    /// ```
    pub fn resume(thread: impl Into<ThreadId>) -> Self {
        Self { thread: Some(thread.into()), resume: true, ..Self::default() }
    }

    /// Sets the run's id, instead of a generated one. If a run with this id and the same thread (or none) is in
    /// progress on the agent, [`Agent::run`](crate::agent::Agent::run) returns another owner of that run and starts
    /// none. A request can therefore be repeated when it is not known whether it arrived.
    ///
    /// A run that was cancelled is returned as cancelled, even if dropping its last owner cancelled it, because the log
    /// does not distinguish the two. Use [`Run::detach`](crate::run::Run::detach) to let the run continue for a
    /// repeated request.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Decides a call that the thread waits for, identified by the id of its
    /// [`ActionRequest`](crate::interrupt::ActionRequest). Use it with [`resume`](Self::resume). Several calls can be
    /// decided at once or one after the other. If one decision is not valid, the run fails and stores none of them.
    ///
    /// A [`Decision`](crate::interrupt::Decision) counts as made by a person. A [`DecisionRecord`] names its author for
    /// the log, the events and later readers of the thread.
    #[must_use]
    pub fn decide(mut self, request: impl Into<String>, decision: impl Into<DecisionRecord>) -> Self {
        self.answers.push((request.into(), decision.into()));
        self
    }

    /// Starts from an earlier position of the thread. The later records stay in the log on a branch of their own.
    #[must_use]
    pub fn at(mut self, position: LogPosition) -> Self {
        self.at = Some(position);
        self
    }

    /// Sets how long the thread stays locked if the run's process dies; one minute by default. Other runs of the thread
    /// are refused until then. The lease is renewed while the run is in progress.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Takes the thread from a run that still owns it, for example because its process was killed a moment ago. If that
    /// run is alive, it fails at its next step.
    #[must_use]
    pub fn take_over(mut self) -> Self {
        self.take_over = true;
        self
    }

    /// Sets these keys of the thread's metadata as soon as the run owns the thread; null removes a key. A run that is
    /// refused the thread changes nothing. The key `noted_by` holds the owner that set them, so that
    /// [`ThreadInfo::is_noted_by_owner`](crate::journal::ThreadInfo::is_noted_by_owner) tells whether they are from the
    /// thread's current owner.
    ///
    /// ```
    /// # use deepagents_core::run::RunInput;
    /// # use serde_json::json;
    /// let note = [("title".to_owned(), json!("Tidy up"))].into_iter().collect();
    /// let input = RunInput::new("Tidy up.").thread("t1").note(note);
    /// ```
    #[must_use]
    pub fn note(mut self, metadata: Map<String, Value>) -> Self {
        self.note.extend(metadata);
        self
    }

    /// Makes the run use the caller's lease on a thread, instead of claiming the thread itself, so that no other owner
    /// can come between. The run works on the lease's thread and in its journal, and releases it at the end. If the
    /// input was cloned, the first run takes the lease.
    #[must_use]
    pub fn owned(mut self, lease: Lease) -> Self {
        self.thread = Some(lease.thread().to_owned());
        self.owned = Some(Arc::new(Mutex::new(Some(lease))));
        self
    }

    /// Sets the thread to continue. The agent must have a journal.
    #[must_use]
    pub fn thread(mut self, thread: impl Into<ThreadId>) -> Self {
        self.thread = Some(thread.into());
        self
    }

    /// Changes the state before the run starts. The run fails if a channel does not [accept
    /// input](crate::state::Channel::FROM_INPUT).
    #[must_use]
    pub fn update(mut self, update: Update) -> Self {
        self.update = self.update.and(update);
        self
    }

    /// Limits what the run and all its sub-agents may spend. The agent's budget applies to anything this one leaves
    /// unlimited.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget.or(&self.budget);
        self
    }

    /// Ends the run after this many model calls, including those of sub-agents, instead of the agent's own limit; see
    /// [`Budget::model_calls`].
    #[must_use]
    pub fn max_model_calls(self, limit: u32) -> Self {
        self.budget(Budget::default().model_calls(limit.into()))
    }

    /// Ends each agent of the run, the main agent and every sub-agent, after this many model calls of its own in its
    /// conversation. A sub-agent's own limit applies if it is lower, also in the background. A resumed agent counts from
    /// where it is resumed. A run that is resumed without a limit keeps that of its start for the agents it starts.
    ///
    /// ```
    /// # use deepagents_core::run::RunInput;
    /// let input = RunInput::new("Tidy up.").max_calls_per_agent(50);
    /// ```
    #[must_use]
    pub fn max_calls_per_agent(mut self, limit: u32) -> Self {
        self.agent_calls = Some(limit);
        self
    }

    /// Ends the run and all its sub-agents after this time; see [`Budget::time`].
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.budget(Budget::default().time(timeout))
    }

    /// Charges this run's spending to a budget shared with other runs, in addition to its own.
    #[must_use]
    pub fn within(mut self, budget: &SharedBudget) -> Self {
        self.above = Some(budget.0.clone());
        self
    }

    /// Cancels the run when the token is cancelled, as [`RunHandle::cancel`](crate::run::RunHandle::cancel) does. If
    /// the token is already cancelled, the run ends before its first step: the input is stored, pending calls are
    /// answered as cancelled, and no model is called.
    ///
    /// ```
    /// # use deepagents_core::run::RunInput;
    /// # use tokio_util::sync::CancellationToken;
    /// let closing = CancellationToken::new();
    /// let input = RunInput::new("Tidy up.").cancelled_by(&closing);
    /// closing.cancel();
    /// ```
    #[must_use]
    pub fn cancelled_by(mut self, token: &CancellationToken) -> Self {
        self.canceller = Some(token.clone());
        self
    }

    /// Returns the cancellation token for the run.
    pub(super) fn cancel_token(&self) -> CancellationToken {
        self.canceller.as_ref().map(CancellationToken::child_token).unwrap_or_default()
    }

    /// Validates the input before anything is stored.
    pub(crate) fn check(&self) -> Result<()> {
        self.budget.check()?;
        if self.id.as_ref().is_some_and(String::is_empty) {
            return Err(Error::Input("the id of a run must not be empty; leave it out to have one made".to_owned()));
        }
        if !self.resume && !self.answers.is_empty() {
            return Err(Error::Input(
                "pass answers with `RunInput::resume`; a new message continues the thread without them".to_owned(),
            ));
        }
        match self.update.entries().iter().map(UpdateEntry::spec).find(|channel| !channel.is_from_input()) {
            Some(channel) => Err(ChannelError::NotInput(channel.name()).into()),
            None => Ok(()),
        }
    }

    /// Adds a message.
    #[must_use]
    pub fn message(mut self, message: impl Into<Message>) -> Self {
        self.messages.push(message.into());
        self
    }

    /// Adds the values that another run received through [`with`](Self::with). Values already in this input take
    /// precedence.
    #[must_use]
    pub fn with_extensions_of(mut self, cx: &Context) -> Self {
        self.extensions = self.extensions.over(&cx.shared.extensions);
        self
    }

    /// Makes the run keep only its last 1,024 [durable](crate::event::EventKind::is_durable) events in memory. A
    /// subscriber that comes later or lags further is told how many it missed by an
    /// [`EventKind::Lagged`](crate::event::EventKind::Lagged), and can read them in the log of the thread. Without this,
    /// a run keeps all its durable events, and with them a copy of each result, as long as a handle of it exists.
    ///
    /// This is for long runs whose readers go by the log, such as those of a server. It applies to background agents of
    /// the run too.
    ///
    /// ```
    /// # use deepagents_core::run::RunInput;
    /// let input = RunInput::new("Watch the site until midnight.").thread("t1").recent_events_only();
    /// ```
    #[must_use]
    pub fn recent_events_only(mut self) -> Self {
        self.recent_events = true;
        self
    }

    /// Passes a value to hooks and tools, such as the user, the tenant or a connection. They get it by its type with
    /// [`Context::extension`](super::Context::extension). The type must match exactly: `extension::<Arc<User>>()`
    /// returns an `Arc<User>`, and `extension::<User>()` is `None` in that case.
    #[must_use]
    pub fn with<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.extensions.insert(value);
        self
    }
}

impl<M: Into<Message>> From<M> for RunInput {
    fn from(message: M) -> Self {
        Self::new(message)
    }
}

impl InputRecord {
    /// Converts the record back into an input.
    ///
    /// # Errors
    /// Returns an error if an update does not have its channel's type.
    pub fn into_input(self, schema: &Schema) -> Result<RunInput, ChannelError> {
        Ok(RunInput {
            id: self.id,
            messages: self.messages,
            update: RecordUpdate::Stored(self.update).resolve(schema)?,
            thread: self.thread,
            budget: self.budget,
            agent_calls: self.agent_calls,
            resume: self.resume,
            answers: self.answers,
            ..RunInput::default()
        })
    }
}

impl RunInput {
    /// Adds an observer, which sees the run's events and wraps its model and tool calls. May be called several times:
    /// calls pass through the first observer first, and each sees every event.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn RunObserver>) -> Self {
        self.observer = Some(match self.observer {
            Some(outer) => nested(outer, observer),
            None => observer,
        });
        self
    }

    /// Returns the input as data. Values that have no place in the record are lost.
    ///
    /// # Errors
    /// Returns an error if an update cannot be serialised as JSON.
    pub fn record(&self) -> Result<InputRecord, ChannelError> {
        Ok(InputRecord {
            v: INPUT_VERSION,
            id: self.id.clone(),
            messages: self.messages.clone(),
            update: self.update.to_json()?,
            thread: self.thread.clone(),
            budget: Budget { time: None, ..self.budget.clone() },
            agent_calls: self.agent_calls,
            resume: self.resume,
            answers: self.answers.clone(),
        })
    }
}
