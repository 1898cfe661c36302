//! What a run is given.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::journal::ThreadId;
use crate::message::Message;
use crate::state::Update;

/// What a run is given: messages, a thread, limits, and whatever the application wants its tools to know.
///
/// ```
/// use std::time::Duration;
/// use deepagents_core::run::RunInput;
/// struct User(&'static str);
/// let input = RunInput::new("Tidy up.").thread("t1").timeout(Duration::from_secs(60)).with(User("ada"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct RunInput {
    pub(crate) messages: Vec<Message>,
    pub(crate) update: Update,
    pub(crate) thread: Option<ThreadId>,
    pub(crate) max_model_calls: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) extensions: Extensions,
}

impl RunInput {
    /// A message to begin with.
    pub fn new(message: impl Into<Message>) -> Self {
        Self::messages([message.into()])
    }

    /// Several messages to begin with.
    pub fn messages(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }

    /// The thread to go on with. Needs an agent with a journal.
    #[must_use]
    pub fn thread(mut self, thread: impl Into<ThreadId>) -> Self {
        self.thread = Some(thread.into());
        self
    }

    /// Changes the state before the run begins.
    #[must_use]
    pub fn update(mut self, update: Update) -> Self {
        self.update = self.update.and(update);
        self
    }

    /// Ends the run after so many model calls, in place of the agent's own limit.
    #[must_use]
    pub fn max_model_calls(mut self, limit: u32) -> Self {
        self.max_model_calls = Some(limit);
        self
    }

    /// Ends the run after this time.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Gives a value to hooks and tools, found again by its type with
    /// [`Context::extension`](super::Context::extension): the user, the tenant, a connection.
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

/// Values found by their type.
#[derive(Clone, Default)]
pub(crate) struct Extensions {
    values: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Extensions {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.values.insert(TypeId::of::<T>(), Arc::new(value));
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.values.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

impl std::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Extensions").field("len", &self.values.len()).finish()
    }
}
