//! Updates: changes to the state.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::channel::AnyUpdate;
use super::storable::too_deep;
use super::{Channel, ChannelError, ChannelSpec, MessagesChannel, Schema};
use crate::env::Ids;
use crate::message::{Message, MessageOp};

/// Changes to channels, applied atomically.
///
/// ```
/// use deepagents_core::message::Message;
/// use deepagents_core::state::Update;
/// let update = Update::message(Message::user("Go on."));
/// assert_eq!(update.channels().collect::<Vec<_>>(), ["messages"]);
/// ```
#[derive(Clone, Default)]
pub struct Update {
    entries: Vec<UpdateEntry>,
}

/// A change to one channel.
#[derive(Clone)]
pub struct UpdateEntry {
    pub(super) spec: ChannelSpec,
    pub(super) update: AnyUpdate,
}

impl UpdateEntry {
    /// Returns the channel.
    pub fn spec(&self) -> ChannelSpec {
        self.spec
    }

    /// Returns the change as JSON.
    ///
    /// # Errors
    /// Returns an error if the channel's update type cannot be serialised as JSON.
    pub fn to_json(&self) -> Result<Value, ChannelError> {
        self.spec.update_to_json(&self.update)
    }

    /// Returns the change, if it is to channel `C`.
    pub fn get<C: Channel>(&self) -> Option<&C::Update> {
        if self.spec.is::<C>() { self.update.downcast_ref() } else { None }
    }
}

impl Update {
    /// Creates an empty update.
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates a change to one channel.
    pub fn new<C: Channel>(update: C::Update) -> Self {
        Self::none().with::<C>(update)
    }

    /// Creates an update that appends a message, or replaces the one with the same id.
    pub fn message(message: impl Into<Message>) -> Self {
        Self::new::<MessagesChannel>(vec![MessageOp::put(message)])
    }

    /// Creates an update of the conversation, which is empty if there are no changes.
    pub(crate) fn messages(ops: Vec<MessageOp>) -> Self {
        if ops.is_empty() { Self::none() } else { Self::new::<MessagesChannel>(ops) }
    }

    /// Adds a change.
    #[must_use]
    pub fn with<C: Channel>(mut self, update: C::Update) -> Self {
        self.entries.push(UpdateEntry { spec: ChannelSpec::new::<C>(), update: Arc::new(update) });
        self
    }

    /// Appends all changes of another update.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.entries.extend(other.entries);
        self
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the changes in order.
    pub fn entries(&self) -> &[UpdateEntry] {
        &self.entries
    }

    /// Returns the changes as JSON in order, each with the name of its channel.
    ///
    /// # Errors
    /// Returns an error if a channel's update type cannot be serialised as JSON.
    pub(crate) fn to_json(&self) -> Result<Vec<(String, Value)>, ChannelError> {
        self.entries.iter().map(|entry| Ok((entry.spec.name().to_owned(), entry.to_json()?))).collect()
    }

    /// Iterates over the names of the changed channels, including repeats.
    pub fn channels(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|e| e.spec.name())
    }

    /// Iterates over the changes of one channel.
    pub fn get<C: Channel>(&self) -> impl Iterator<Item = &C::Update> {
        self.entries.iter().filter_map(UpdateEntry::get::<C>)
    }

    /// Splits off the changes of one channel.
    pub fn split<C: Channel>(self) -> (Vec<C::Update>, Self) {
        let (mine, rest): (Vec<_>, Vec<_>) = self.entries.into_iter().partition(|e| e.spec.is::<C>());
        let mine = mine.iter().filter_map(|e| e.update.downcast_ref::<C::Update>()).cloned().collect();
        (mine, Self { entries: rest })
    }

    /// Adds a change in JSON form.
    ///
    /// # Errors
    /// Returns an error if no channel has this name or the JSON does not have its type.
    pub fn push_json(&mut self, schema: &Schema, channel: &str, update: Value) -> Result<(), ChannelError> {
        let spec = schema.by_name(channel).ok_or_else(|| ChannelError::Undeclared(channel.to_owned()))?;
        self.push_any(spec, spec.update_from_json(update)?);
        Ok(())
    }

    /// Creates an update from a JSON object that maps channel names to changes.
    ///
    /// # Errors
    /// Returns an error if a name is unknown or a change does not have its channel's type.
    pub fn from_json(schema: &Schema, updates: Map<String, Value>) -> Result<Self, ChannelError> {
        let mut out = Self::none();
        for (channel, update) in updates {
            out.push_json(schema, &channel, update)?;
        }
        Ok(out)
    }

    /// Returns an error if a change could not be stored and read back. Message types are known to be storable, so only
    /// the values in messages are checked.
    ///
    /// # Errors
    /// Returns [`ChannelError::NotStorable`] for the first change that could not be read back.
    pub(crate) fn check_storable(&self) -> Result<(), ChannelError> {
        for entry in &self.entries {
            match entry.get::<MessagesChannel>() {
                Some(ops) if ops.iter().any(MessageOp::is_too_deep) => {
                    return Err(entry.spec.not_storable(too_deep()));
                }
                Some(_) => {}
                None => entry.spec.check_update(&entry.update)?,
            }
        }
        Ok(())
    }

    /// Gives ids to messages that have none.
    pub(crate) fn with_ids(self, ids: &dyn Ids) -> Self {
        let nameless = |op: &MessageOp| matches!(op, MessageOp::Put(message) if message.id().is_empty());
        if !self.get::<MessagesChannel>().flatten().any(nameless) {
            return self;
        }
        let (messages, rest) = self.split::<MessagesChannel>();
        let mut ops = messages.concat();
        for op in &mut ops {
            if let MessageOp::Put(message) = op
                && message.id().is_empty()
            {
                Arc::make_mut(message).set_id(ids.next("msg"));
            }
        }
        rest.with::<MessagesChannel>(ops)
    }

    pub(super) fn push_any(&mut self, spec: ChannelSpec, update: AnyUpdate) {
        self.entries.push(UpdateEntry { spec, update });
    }
}

impl std::fmt::Debug for Update {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.entries.iter().map(|e| (e.spec.name(), e.to_json()))).finish()
    }
}

impl std::fmt::Debug for UpdateEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple(self.spec.name()).field(&self.to_json()).finish()
    }
}
