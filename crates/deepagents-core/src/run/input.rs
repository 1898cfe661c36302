//! What a run is given.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::context::{
    BudgetTracker, Context, Extensions, INPUT_VERSION, InputRecord, RunObserver, SharedBudget, SharedObserver,
};
use crate::error::{Error, Result};
use crate::ids::{LogPosition, ThreadId};
use crate::interrupt::DecisionRecord;
use crate::journal::{Lease, RecordUpdate};
use crate::machine::Budget;
use crate::message::Message;
use crate::state::{ChannelError, Schema, Update, UpdateEntry};

/// How long a thread stays a run's that has ended without saying so.
const LEASE: Duration = Duration::from_secs(60);

/// What a run is given: messages, a thread, limits, and whatever the application wants its tools to know.
///
/// ```
/// use std::time::Duration;
/// use deepagents_core::run::RunInput;
/// struct User(&'static str);
/// let input = RunInput::new("Tidy up.").thread("t1").timeout(Duration::from_secs(60)).with(User("ada"));
/// ```
///
/// As JSON it is an [`InputRecord`].
#[derive(Clone, Debug)]
pub struct RunInput {
    pub(crate) id: Option<String>,
    pub(crate) messages: Vec<Message>,
    pub(crate) update: Update,
    pub(crate) thread: Option<ThreadId>,
    pub(crate) budget: Budget,
    /// What is spent counts here too.
    pub(crate) above: Option<Arc<BudgetTracker>>,
    pub(crate) extensions: Extensions,
    /// Whether an unfinished run is gone on with.
    pub(crate) resume: bool,
    pub(crate) answers: Vec<(String, DecisionRecord)>,
    /// An earlier position to begin from.
    pub(crate) at: Option<LogPosition>,
    pub(crate) lease: Duration,
    pub(crate) take_over: bool,
    /// The thread, owned already.
    pub(crate) owned: Option<OwnedThread>,
    pub(crate) observer: Option<SharedObserver>,
    /// What cancels the run, beside those who hold it.
    pub(crate) canceller: Option<CancellationToken>,
    /// What the thread says of itself once it is this run's.
    pub(crate) note: Map<String, Value>,
}

/// A lease that the first run of an input takes.
#[derive(Clone, Debug)]
pub(crate) struct OwnedThread(Arc<Mutex<Option<Lease>>>);

impl OwnedThread {
    pub(crate) fn take(&self) -> Option<Lease> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Default for RunInput {
    fn default() -> Self {
        Self {
            id: None,
            messages: Vec::new(),
            update: Update::none(),
            thread: None,
            budget: Budget::default(),
            above: None,
            extensions: Extensions::default(),
            resume: false,
            answers: Vec::new(),
            at: None,
            lease: LEASE,
            take_over: false,
            owned: None,
            observer: None,
            canceller: None,
            note: Map::new(),
        }
    }
}

impl RunInput {
    /// A message to begin with.
    pub fn new(message: impl Into<Message>) -> Self {
        Self::messages([message.into()])
    }

    /// Several messages to begin with. A result among them answers the call that the thread was left with, in place of
    /// its tool.
    pub fn messages(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }

    /// Goes on with the run of a thread that was killed or failed, from its last step, whatever process it ran in. Calls
    /// that had finished are not made again. A call that had begun is made again if its tool says that this is safe, and
    /// answered as unknown otherwise. A run that was cancelled or came to a limit goes on too, with what was left of its
    /// budget unless it is given more; its time begins anew, and so does the count of its model calls where they had come to
    /// their limit. Where the last run had ended by itself, nothing happens.
    ///
    /// Messages are said to the run as [`RunHandle::steer`](crate::run::RunHandle::steer) does it, and kept with the thread until
    /// they are delivered: where calls wait for their results or for a decision, that is behind the results. A result
    /// among them answers its call.
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

    /// Names the run, in place of an id that is made for it. While a run with this id is under way on the agent,
    /// [`Agent::run`](crate::agent::Agent::run) with the same id and the same thread, or none, gives another owner of that
    /// run and starts none, so that a request can be made again when nobody knows whether it arrived. One that was cancelled,
    /// also by the drop of its last owner, is given as that: the log does not say which, and nobody who has cancelled a run
    /// wants it back. [`Run::detach`](crate::run::Run::detach) lets it go on for whoever asks again.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Decides about a call that the thread waits with, by the id of its [`ActionRequest`](crate::interrupt::ActionRequest);
    /// goes with [`resume`](Self::resume). Several may be decided at once or one after the other. A decision that cannot be
    /// taken is an error, and none of them is stored then.
    ///
    /// A [`Decision`](crate::interrupt::Decision) counts as a person's; a [`DecisionRecord`] says who made it, for the log,
    /// the events and whoever looks at the thread later.
    #[must_use]
    pub fn decide(mut self, request: impl Into<String>, decision: impl Into<DecisionRecord>) -> Self {
        self.answers.push((request.into(), decision.into()));
        self
    }

    /// Begins from an earlier position of the thread. What came after it stays in the log, on a branch of its own.
    #[must_use]
    pub fn at(mut self, position: LogPosition) -> Self {
        self.at = Some(position);
        self
    }

    /// How long the thread stays this run's if its process ends without saying so; a minute by default. Until then
    /// other runs of the thread are refused. The lease is renewed while the run goes on.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Takes the thread from a run that still owns it, for instance because its process was killed a moment ago. If that
    /// run lives, it fails at its next step.
    #[must_use]
    pub fn take_over(mut self) -> Self {
        self.take_over = true;
        self
    }

    /// Sets these keys of the thread's metadata, null removing one, as soon as the thread is this run's: a run that is refused
    /// the thread changes nothing of it. Under `noted_by` stands the owner that they are of, so that
    /// [`ThreadInfo::is_noted_by_owner`](crate::journal::ThreadInfo::is_noted_by_owner) tells whether they are of the one who
    /// works on the thread now.
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

    /// Makes the run the owner of a thread by a lease that the caller has, in place of a claim of its own: nobody comes
    /// between. The run works on the thread and in the journal of the lease, and releases it when it ends. The first run
    /// of an input that was cloned has it.
    #[must_use]
    pub fn owned(mut self, lease: Lease) -> Self {
        self.thread = Some(lease.thread().to_owned());
        self.owned = Some(OwnedThread(Arc::new(Mutex::new(Some(lease)))));
        self
    }

    /// The thread to go on with. Needs an agent with a journal.
    #[must_use]
    pub fn thread(mut self, thread: impl Into<ThreadId>) -> Self {
        self.thread = Some(thread.into());
        self
    }

    /// Changes the state before the run begins; an error where a channel is not
    /// [taken from the input](crate::state::Channel::FROM_INPUT).
    #[must_use]
    pub fn update(mut self, update: Update) -> Self {
        self.update = self.update.and(update);
        self
    }

    /// What the run may spend with all agents below it. What it does not limit, the budget of the agent does.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget.or(&self.budget);
        self
    }

    /// Ends the run after so many model calls, those of sub-agents included, in place of the agent's own limit; see
    /// [`Budget::model_calls`].
    #[must_use]
    pub fn max_model_calls(self, limit: u32) -> Self {
        self.budget(Budget::default().model_calls(limit.into()))
    }

    /// Ends the run and all agents below it after this time; see [`Budget::time`].
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.budget(Budget::default().time(timeout))
    }

    /// Makes what this run spends part of what another one does, the time included: for work that an agent starts and
    /// does not wait for. It stays bound by that budget when the other run has ended.
    #[must_use]
    pub fn charge_to(mut self, cx: &Context) -> Self {
        self.above = Some(cx.shared.budget.clone());
        self
    }

    /// Makes what this run spends part of a budget that it shares with other runs, beside its own.
    #[must_use]
    pub fn within(mut self, budget: &SharedBudget) -> Self {
        self.above = Some(budget.0.clone());
        self
    }

    /// Cancels the run, as [`RunHandle::cancel`](crate::run::RunHandle::cancel) does, as soon as the token is cancelled;
    /// where it is already, the run ends before its first step: what the input brings is stored, calls that wait are
    /// answered as cancelled, and no model is asked.
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

    /// The token of the run.
    pub(super) fn cancel_token(&self) -> CancellationToken {
        self.canceller.as_ref().map(CancellationToken::child_token).unwrap_or_default()
    }

    /// Looked at before anything is stored.
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

    /// One more message to begin with.
    #[must_use]
    pub fn message(mut self, message: impl Into<Message>) -> Self {
        self.messages.push(message.into());
        self
    }

    /// Gives what the application gave to another run with [`with`](Self::with), beside what this one has.
    #[must_use]
    pub fn with_extensions_of(mut self, cx: &Context) -> Self {
        self.extensions = self.extensions.over(&cx.shared.extensions);
        self
    }

    /// Gives a value to hooks and tools, found again by its type with
    /// [`Context::extension`](super::Context::extension): the user, the tenant, a connection. The type is the one that is given:
    /// an `Arc<User>` is found as `extension::<Arc<User>>()`, and `extension::<User>()` is `None` then.
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
    /// The input again.
    ///
    /// # Errors
    /// When a change is not of its channel's type.
    pub fn into_input(self, schema: &Schema) -> Result<RunInput, ChannelError> {
        Ok(RunInput {
            id: self.id,
            messages: self.messages,
            update: RecordUpdate::Stored(self.update).resolve(schema)?,
            thread: self.thread,
            budget: self.budget,
            resume: self.resume,
            answers: self.answers,
            ..RunInput::default()
        })
    }
}

impl RunInput {
    /// Puts something between the run and the world. May be called several times: calls of models and tools pass through
    /// the first one first, and each sees every event.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn RunObserver>) -> Self {
        let inner = SharedObserver(observer);
        self.observer = Some(match self.observer {
            Some(outer) => outer.around(inner),
            None => inner,
        });
        self
    }

    /// The input as data; what is not part of it is lost.
    ///
    /// # Errors
    /// When a change cannot be written as JSON.
    pub fn record(&self) -> Result<InputRecord, ChannelError> {
        let entries = self.update.entries().iter().map(|e| Ok((e.spec().name().to_owned(), e.to_json()?)));
        Ok(InputRecord {
            v: INPUT_VERSION,
            id: self.id.clone(),
            messages: self.messages.clone(),
            update: entries.collect::<Result<_, ChannelError>>()?,
            thread: self.thread.clone(),
            budget: Budget { time: None, ..self.budget.clone() },
            resume: self.resume,
            answers: self.answers.clone(),
        })
    }
}
