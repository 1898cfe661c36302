//! A version of the state.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::channel::AnyValue;
use super::{Channel, ChannelError, ChannelSpec, MessagesChannel, Schema, Update};
use crate::message::Messages;

/// A version of a thread's state. Cloning it only increments a few reference counts. Versions share unchanged values.
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
    origin: Option<Arc<Origin>>,
}

/// How the state of a sub-agent was derived from its parent's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Inheritance {
    /// It was not derived.
    #[default]
    Nothing,
    /// By [`State::fork`].
    Fork,
    /// By [`State::project`].
    Project,
}

/// The initial and final states of a sub-agent. When the call ends, each channel merges the difference into the parent
/// agent's state. If both changed the same thing, the parent's value is kept, and the model is told.
#[derive(Clone, Debug)]
pub struct ChildState {
    /// The sub-agent's initial state.
    pub given: State,
    /// The sub-agent's final state.
    pub left: State,
}

/// The state that another was derived from, so that a log can refer to it instead of storing it again.
struct Origin {
    inheritance: Inheritance,
    /// The values of the parent state.
    parent: Vec<AnyValue>,
    /// The values derived from them.
    made: Vec<AnyValue>,
}

impl State {
    /// Creates the empty state of a schema.
    pub fn new(schema: Arc<Schema>) -> Self {
        let slots = schema.channels().iter().map(ChannelSpec::empty).collect();
        Self { schema, slots, origin: None }
    }

    /// Sets the value of a channel, which is declared if it is not.
    pub(crate) fn with_channel<C: Channel>(mut self, value: C::Value) -> Self {
        let at = Arc::make_mut(&mut self.schema).declare(ChannelSpec::new::<C>());
        self.slots.splice(at, [Arc::new(value) as AnyValue]);
        self
    }

    /// Returns the channels.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the value of a channel, if the agent has it.
    pub fn get<C: Channel>(&self) -> Option<&C::Value> {
        self.slot(C::NAME)?.downcast_ref()
    }

    fn slot(&self, name: &str) -> Option<&AnyValue> {
        self.slots.get(self.schema.position(name)?)
    }

    /// Returns the messages.
    pub fn messages(&self) -> &Messages {
        static EMPTY: std::sync::LazyLock<Messages> = std::sync::LazyLock::new(Messages::new);
        self.get::<MessagesChannel>().unwrap_or(&EMPTY)
    }

    /// Applies an update atomically.
    ///
    /// # Errors
    /// Returns an error if a channel is not declared or refuses its change.
    pub fn apply(&mut self, update: &Update) -> Result<(), ChannelError> {
        let mut slots = self.slots.clone();
        for entry in update.entries() {
            let spec = entry.spec();
            let slot = self.schema.position(spec.name()).and_then(|at| slots.get_mut(at));
            let slot = slot.ok_or_else(|| ChannelError::Undeclared(spec.name().to_owned()))?;
            *slot = spec.reduce(slot.clone(), &entry.update)?;
        }
        self.slots = slots;
        Ok(())
    }

    /// Returns the state as a JSON object. Private channels are included only if `private` is set.
    ///
    /// # Errors
    /// Returns an error if a value cannot be serialised as JSON.
    pub fn to_json(&self, private: bool) -> Result<Map<String, Value>, ChannelError> {
        self.to_json_where(|spec| private || !spec.is_private())
    }

    /// Returns the values of selected channels as a JSON object. Other channels are not serialised.
    ///
    /// # Errors
    /// Returns an error if a value cannot be serialised as JSON.
    pub fn to_json_where(&self, wanted: impl Fn(&ChannelSpec) -> bool) -> Result<Map<String, Value>, ChannelError> {
        let mut out = Map::new();
        for (spec, slot) in self.schema.channels().iter().zip(&self.slots).filter(|(spec, _)| wanted(spec)) {
            out.insert(spec.name().to_owned(), spec.value_to_json(slot)?);
        }
        Ok(out)
    }

    /// Returns the values of all channels, in a form that [`from_json`](Self::from_json) can read back once serialised.
    ///
    /// # Errors
    /// Returns [`ChannelError::NotStorable`] for a value that could not be read back.
    pub(crate) fn to_storable(&self) -> Result<StorableState<'_>, ChannelError> {
        let slots = self.schema.channels().iter().zip(&self.slots).filter(|(spec, _)| !spec.is::<MessagesChannel>());
        let others = slots.map(|(spec, slot)| Ok((spec.name().to_owned(), spec.checked_value(slot)?)));
        Ok(StorableState { messages: self.messages(), others: others.collect::<Result<_, ChannelError>>()? })
    }

    /// Creates a state from a JSON object made by [`to_json`](Self::to_json). Names without a channel are ignored.
    ///
    /// # Errors
    /// Returns an error if a value does not have its channel's type.
    pub fn from_json(schema: Arc<Schema>, values: Map<String, Value>) -> Result<Self, ChannelError> {
        let mut state = Self::new(schema);
        state.set_json(values)?;
        Ok(state)
    }

    /// Replaces the values of channels. Names without a channel are ignored.
    pub(crate) fn set_json(&mut self, values: impl IntoIterator<Item = (String, Value)>) -> Result<(), ChannelError> {
        for (name, value) in values {
            let Some(at) = self.schema.position(&name) else { continue };
            if let (Some(spec), Some(slot)) = (self.schema.channels().get(at), self.slots.get_mut(at)) {
                *slot = spec.value_from_json(value)?;
            }
        }
        Ok(())
    }

    /// Returns how this state was derived from another, and the values that differ from the derived ones; together they
    /// reproduce this state. For a state that was not derived from the other one, these are all values that are not
    /// empty.
    pub(crate) fn inherited_from(&self, parent: &Self) -> Result<(Inheritance, Vec<(String, Value)>), ChannelError> {
        let origin = self.origin.as_deref().filter(|origin| {
            let mut pairs = origin.parent.iter().zip(&parent.slots);
            origin.parent.len() == parent.slots.len() && pairs.all(|(a, b)| is_same(a, b))
        });
        let mut values = Vec::new();
        for (at, (spec, slot)) in self.schema.channels().iter().zip(&self.slots).enumerate() {
            if origin.and_then(|origin| origin.made.get(at)).is_some_and(|made| is_same(made, slot)) {
                continue;
            }
            // Messages can always be read back.
            let value =
                if spec.is::<MessagesChannel>() { spec.value_to_json(slot)? } else { spec.checked_value(slot)? };
            if origin.is_some() || spec.value_to_json(&spec.empty())? != value {
                values.push((spec.name().to_owned(), value));
            }
        }
        Ok((origin.map(|origin| origin.inheritance).unwrap_or_default(), values))
    }

    /// Derives a state from this one; see [`inherited_from`](Self::inherited_from).
    pub(crate) fn inherit(&self, inheritance: Inheritance, schema: Arc<Schema>) -> Result<Self, ChannelError> {
        match inheritance {
            Inheritance::Nothing => Ok(Self::new(schema)),
            Inheritance::Fork => self.fork(schema),
            Inheritance::Project => self.project(schema),
        }
    }

    fn made_of(mut self, parent: &Self, inheritance: Inheritance) -> Self {
        let origin = Origin { inheritance, parent: parent.slots.clone(), made: self.slots.clone() };
        self.origin = Some(Arc::new(origin));
        self
    }

    /// Creates the initial state of a sub-agent with this schema: the fork of each shared channel.
    ///
    /// # Errors
    /// Returns an error if two types use the same name in the two agents.
    pub fn fork(&self, schema: Arc<Schema>) -> Result<Self, ChannelError> {
        let mut child = Self::new(schema);
        for (spec, slot) in child.schema.channels().iter().zip(&mut child.slots).filter(|(spec, _)| spec.is_inherited())
        {
            if let Some(value) = self.slot(spec.name()) {
                *slot = spec.fork(value)?;
            }
        }
        Ok(child.made_of(self, Inheritance::Fork))
    }

    /// Creates the same state under another schema, with every channel that both have, including private ones but not
    /// those that are [`not_projected`](super::Sharing::not_projected).
    ///
    /// # Errors
    /// Returns an error if two types use the same name in the two schemas.
    pub fn project(&self, schema: Arc<Schema>) -> Result<Self, ChannelError> {
        let mut other = Self::new(schema);
        for (spec, slot) in other.schema.channels().iter().zip(&mut other.slots) {
            let Some(value) = self.slot(spec.name()) else { continue };
            if !self.schema.has(spec) {
                return Err(ChannelError::TypeClash(spec.name().to_owned()));
            }
            if spec.is_projected() {
                slot.clone_from(value);
            }
        }
        Ok(other.made_of(self, Inheritance::Project))
    }

    /// Merges the changes of a finished sub-agent. The conflicts name what both sides changed; this side's values are
    /// kept.
    ///
    /// # Errors
    /// Returns an error if two types use the same name in the two agents.
    pub fn join(&self, child: &ChildState) -> Result<(Update, Vec<String>), ChannelError> {
        let mut update = Update::none();
        let mut conflicts = Vec::new();
        for (spec, parent) in self.schema.channels().iter().zip(&self.slots).filter(|(spec, _)| spec.is_inherited()) {
            let slots = child.given.slot(spec.name()).zip(child.left.slot(spec.name()));
            let Some((given, left)) = slots else { continue };
            let (change, lost) = spec.join(parent, given, left)?;
            if let Some(change) = change {
                update.push_any(*spec, change);
            }
            conflicts.extend(lost);
        }
        Ok((update, conflicts))
    }
}

/// A state that can be serialised as JSON and read back.
pub(crate) struct StorableState<'a> {
    /// Messages can always be read back. They make up most of a state, so they are serialised directly.
    messages: &'a Messages,
    others: Map<String, Value>,
}

impl StorableState<'_> {
    /// Adds the values of channels that the state does not have. The state's own values are kept.
    pub(crate) fn add_unknown(&mut self, unknown: &Map<String, Value>) {
        for (name, value) in unknown.iter().filter(|(name, _)| name.as_str() != MessagesChannel::NAME) {
            self.others.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

impl Serialize for StorableState<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.others.len() + 1))?;
        map.serialize_entry(MessagesChannel::NAME, self.messages)?;
        for (name, value) in &self.others {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Returns whether two values are the same allocation.
fn is_same(a: &AnyValue, b: &AnyValue) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}

impl Default for State {
    /// Creates a state with only a messages channel.
    fn default() -> Self {
        Self::new(Arc::new(Schema::new([ChannelSpec::new::<MessagesChannel>()]).unwrap_or_default()))
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = self.schema.channels().iter().zip(&self.slots).filter(|(spec, _)| !spec.is_private());
        f.debug_map().entries(shown.map(|(spec, slot)| (spec.name(), spec.value_to_json(slot)))).finish()
    }
}
