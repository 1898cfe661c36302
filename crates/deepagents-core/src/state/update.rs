//! Updates: changes to the state, as values.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::channel::AnyUpdate;
use super::storable::too_deep;
use super::{Channel, ChannelError, ChannelSpec, MessagesChannel, Schema};
use crate::env::Ids;
use crate::message::{Message, MessageOp};

/// Changes to some channels, applied together or not at all.
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
    /// The channel.
    pub fn spec(&self) -> ChannelSpec {
        self.spec
    }

    /// The change as JSON.
    ///
    /// # Errors
    /// When the channel's update type cannot be written as JSON.
    pub fn to_json(&self) -> Result<Value, ChannelError> {
        self.spec.update_to_json(&self.update)
    }

    /// The change, if it is one of channel `C`.
    pub fn get<C: Channel>(&self) -> Option<&C::Update> {
        if self.spec.is::<C>() { self.update.downcast_ref() } else { None }
    }
}

impl Update {
    /// No change.
    pub fn none() -> Self {
        Self::default()
    }

    /// A change to one channel.
    pub fn new<C: Channel>(update: C::Update) -> Self {
        Self::none().with::<C>(update)
    }

    /// Appends a message, or replaces the one with its id.
    pub fn message(message: impl Into<Message>) -> Self {
        Self::new::<MessagesChannel>(vec![MessageOp::put(message)])
    }

    /// Adds a change.
    #[must_use]
    pub fn with<C: Channel>(mut self, update: C::Update) -> Self {
        self.entries.push(UpdateEntry { spec: ChannelSpec::new::<C>(), update: Arc::new(update) });
        self
    }

    /// Adds all changes of another update after these.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.entries.extend(other.entries);
        self
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The changes in order.
    pub fn entries(&self) -> &[UpdateEntry] {
        &self.entries
    }

    /// Names of the channels that change, with repeats.
    pub fn channels(&self) -> impl Iterator<Item = &'static str> {
        self.entries.iter().map(|e| e.spec.name())
    }

    /// The changes of one channel.
    pub fn get<C: Channel>(&self) -> impl Iterator<Item = &C::Update> {
        self.entries.iter().filter_map(UpdateEntry::get::<C>)
    }

    /// Splits off the changes of one channel.
    pub fn split<C: Channel>(self) -> (Vec<C::Update>, Self) {
        let (mine, rest): (Vec<_>, Vec<_>) = self.entries.into_iter().partition(|e| e.spec.is::<C>());
        let mine = mine.iter().filter_map(|e| e.update.downcast_ref::<C::Update>()).cloned().collect();
        (mine, Self { entries: rest })
    }

    /// Adds a change given as JSON.
    ///
    /// # Errors
    /// When no channel has the name or the JSON is not of its type.
    pub fn push_json(&mut self, schema: &Schema, channel: &str, update: Value) -> Result<(), ChannelError> {
        let spec = schema.by_name(channel).ok_or_else(|| ChannelError::Undeclared(channel.to_owned()))?;
        self.entries.push(UpdateEntry { spec, update: spec.update_from_json(update)? });
        Ok(())
    }

    /// An update from a JSON object of channel names to changes.
    ///
    /// # Errors
    /// When a name is unknown or a change is not of its channel's type.
    pub fn from_json(schema: &Schema, updates: Map<String, Value>) -> Result<Self, ChannelError> {
        let mut out = Self::none();
        for (channel, update) in updates {
            out.push_json(schema, &channel, update)?;
        }
        Ok(out)
    }

    /// Refuses what could not be stored and read again. Messages are of types that are known to: only the values in them
    /// are looked at.
    ///
    /// # Errors
    /// [`ChannelError::NotStorable`] for the first change that would not come back.
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
