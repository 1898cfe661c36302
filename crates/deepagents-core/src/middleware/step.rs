//! What a hook gives back.

use crate::message::Message;
use crate::state::{Channel, Update};

/// What a hook changes, and where the run goes next.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// What changes in the state.
    pub update: Update,
    /// Where to go.
    pub go: Go,
}

/// Where a run goes after a hook. Anything but `Continue` skips the hooks of the phase that have not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Go {
    /// On, as if nothing had been said.
    #[default]
    Continue,
    /// To the next model call, `before_model` hooks first.
    Model,
    /// To the calls of the last answer that have no result.
    Tools,
    /// To the end, `after_agent` hooks first; from `after_agent`, straight out.
    End,
}

impl Go {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Model => "model",
            Self::Tools => "tools",
            Self::End => "end",
        }
    }
}

impl Step {
    /// Nothing changes.
    pub fn next() -> Self {
        Self::default()
    }

    /// Changes the state.
    pub fn update(update: Update) -> Self {
        Self { update, go: Go::Continue }
    }

    /// Changes one channel.
    pub fn set<C: Channel>(update: C::Update) -> Self {
        Self::update(Update::of::<C>(update))
    }

    /// Adds a message to the conversation.
    pub fn message(message: impl Into<Message>) -> Self {
        Self::update(Update::message(message))
    }

    /// Goes elsewhere.
    pub fn go(go: Go) -> Self {
        Self { update: Update::none(), go }
    }

    /// Goes elsewhere after the change.
    #[must_use]
    pub fn and_go(mut self, go: Go) -> Self {
        self.go = go;
        self
    }
}
