//! The return value of hooks.

use crate::machine::JumpTo;
use crate::message::Message;
use crate::state::{Channel, Update};

/// The return value of a hook: state changes, and where the run goes next.
///
/// ```
/// use deepagents_core::message::Message;
/// use deepagents_core::middleware::{HookOutput, before_agent};
/// let reminder = before_agent(|_cx| async { Ok(HookOutput::message(Message::harness("Today the shop is closed."))) });
/// ```
#[derive(Clone, Debug, Default)]
pub struct HookOutput {
    /// The state changes.
    pub update: Update,
    /// Where the run goes next.
    pub go: JumpTo,
}

impl HookOutput {
    /// Changes nothing and continues.
    pub fn next() -> Self {
        Self::default()
    }

    /// Changes the state.
    pub fn update(update: Update) -> Self {
        Self { update, go: JumpTo::Continue }
    }

    /// Changes one channel.
    pub fn set<C: Channel>(update: C::Update) -> Self {
        Self::update(Update::new::<C>(update))
    }

    /// Adds a message to the conversation.
    pub fn message(message: impl Into<Message>) -> Self {
        Self::update(Update::message(message))
    }

    /// Jumps elsewhere.
    pub fn go(go: JumpTo) -> Self {
        Self { update: Update::none(), go }
    }

    /// Jumps elsewhere after the change.
    #[must_use]
    pub fn and_go(mut self, go: JumpTo) -> Self {
        self.go = go;
        self
    }
}
