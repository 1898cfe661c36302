//! A version of the state.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::channel::AnyValue;
use super::{Channel, ChannelError, MessagesChannel, Schema, Update};
use crate::message::Messages;

/// A version of a thread's state. Cloning it costs a few reference counts; versions share what did not change.
///
/// ```
/// use deepagents_core::message::Message;
/// use deepagents_core::state::{State, Update};
/// let mut state = State::default();
/// state.apply(&Update::message(Message::user("Hello")))?;
/// assert_eq!(state.messages().len(), 1);
/// # Ok::<(), deepagents_core::state::ChannelError>(())
/// ```
#[derive(Clone)]
pub struct State {
    schema: Arc<Schema>,
    slots: Vec<AnyValue>,
}

impl State {
    /// The empty state of a schema.
    pub fn new(schema: Arc<Schema>) -> Self {
        let slots = schema.channels().iter().map(super::ChannelSpec::empty).collect();
        Self { schema, slots }
    }

    /// The channels.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The value of a channel, if the agent has it.
    pub fn get<C: Channel>(&self) -> Option<&C::Value> {
        let at = self.schema.position(C::NAME)?;
        self.slots.get(at)?.downcast_ref()
    }

    /// The messages.
    pub fn messages(&self) -> &Messages {
        static EMPTY: std::sync::LazyLock<Messages> = std::sync::LazyLock::new(Messages::new);
        self.get::<MessagesChannel>().unwrap_or(&EMPTY)
    }

    /// Applies an update, all of it or nothing.
    ///
    /// # Errors
    /// When a channel is not declared or refuses its part.
    pub fn apply(&mut self, update: &Update) -> Result<(), ChannelError> {
        let mut slots = self.slots.clone();
        for entry in update.entries() {
            let spec = entry.spec();
            let slot = self
                .schema
                .position(spec.name())
                .and_then(|at| slots.get_mut(at))
                .ok_or_else(|| ChannelError::Undeclared(spec.name().to_owned()))?;
            *slot = spec.reduce(slot.clone(), &entry.update)?;
        }
        self.slots = slots;
        Ok(())
    }

    /// The state as a JSON object, private channels only if asked for.
    ///
    /// # Errors
    /// When a value cannot be written as JSON.
    pub fn to_json(&self, private: bool) -> Result<Map<String, Value>, ChannelError> {
        let mut out = Map::new();
        for (spec, slot) in self.schema.channels().iter().zip(&self.slots) {
            if private || !spec.is_private() {
                out.insert(spec.name().to_owned(), spec.value_to_json(slot)?);
            }
        }
        Ok(out)
    }

    /// A state from the JSON object that [`to_json`](Self::to_json) made; names without a channel are left out.
    ///
    /// # Errors
    /// When a value is not of its channel's type.
    pub fn from_json(schema: Arc<Schema>, values: Map<String, Value>) -> Result<Self, ChannelError> {
        let mut state = Self::new(schema);
        for (name, value) in values {
            let Some(at) = state.schema.position(&name) else { continue };
            if let (Some(spec), Some(slot)) = (state.schema.channels().get(at), state.slots.get_mut(at)) {
                *slot = spec.value_from_json(value)?;
            }
        }
        Ok(state)
    }

    /// What a sub-agent with this schema starts with: each shared channel's fork.
    ///
    /// # Errors
    /// When two types use one name in the two agents.
    pub fn fork(&self, schema: Arc<Schema>) -> Result<Self, ChannelError> {
        let mut child = Self::new(schema);
        for (at, spec) in child.schema.channels().iter().enumerate() {
            let mine = self.schema.position(spec.name());
            if !spec.is_inherited() || mine.is_none() {
                continue;
            }
            if let (Some(value), Some(slot)) = (mine.and_then(|at| self.slots.get(at)), child.slots.get_mut(at)) {
                *slot = spec.fork(value)?;
            }
        }
        Ok(child)
    }

    /// This state under another schema: every channel that both have, private ones too.
    ///
    /// # Errors
    /// When two types use one name in the two schemas.
    pub fn project(&self, schema: Arc<Schema>) -> Result<Self, ChannelError> {
        let mut other = Self::new(schema);
        for (at, spec) in other.schema.channels().iter().enumerate() {
            let Some(mine) = self.schema.position(spec.name()) else { continue };
            if !self.schema.channels().get(mine).is_some_and(|known| known.same(spec)) {
                return Err(ChannelError::TypeClash(spec.name().to_owned()));
            }
            if let (Some(value), Some(slot)) = (self.slots.get(mine), other.slots.get_mut(at)) {
                slot.clone_from(value);
            }
        }
        Ok(other)
    }

    /// What a finished sub-agent changes here: `given` is what it started with, `child` what it left. The conflicts
    /// name what both sides changed; this side's is kept.
    ///
    /// # Errors
    /// When two types use one name in the two agents.
    pub fn join(&self, given: &Self, child: &Self) -> Result<(Update, Vec<String>), ChannelError> {
        let mut update = Update::none();
        let mut conflicts = Vec::new();
        for (spec, parent) in self.schema.channels().iter().zip(&self.slots) {
            if !spec.is_inherited() {
                continue;
            }
            let slot = |state: &Self| state.schema.position(spec.name()).and_then(|at| state.slots.get(at).cloned());
            let (Some(given), Some(child)) = (slot(given), slot(child)) else { continue };
            let (change, lost) = spec.join(parent, &given, &child)?;
            if let Some(change) = change {
                update.push_any(*spec, change);
            }
            conflicts.extend(lost);
        }
        Ok((update, conflicts))
    }
}

impl Default for State {
    /// A state with messages alone.
    fn default() -> Self {
        Self::new(Arc::new(Schema::new([super::ChannelSpec::new::<MessagesChannel>()]).unwrap_or_default()))
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.schema.channels().iter().zip(&self.slots).map(|(s, v)| (s.name(), s.value_to_json(v))))
            .finish()
    }
}
