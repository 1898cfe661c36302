//! A version of the state.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::channel::AnyValue;
use super::{Channel, ChannelError, ChannelSpec, MessagesChannel, Schema, Update};
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
    origin: Option<Arc<Origin>>,
}

/// How the state of a sub-agent was made of its parent's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Inheritance {
    /// It was not.
    #[default]
    Nothing,
    /// With [`State::fork`].
    Fork,
    /// With [`State::project`].
    Project,
}

/// Which state another was made of, so that a log can say so instead of holding it once more.
struct Origin {
    inheritance: Inheritance,
    /// The other state's values.
    parent: Vec<AnyValue>,
    /// What was made of them.
    made: Vec<AnyValue>,
}

impl State {
    /// The empty state of a schema.
    pub fn new(schema: Arc<Schema>) -> Self {
        let slots = schema.channels().iter().map(ChannelSpec::empty).collect();
        Self { schema, slots, origin: None }
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
        self.to_json_where(|spec| private || !spec.is_private())
    }

    /// The values of some channels as a JSON object; those of others are not written for it.
    ///
    /// # Errors
    /// When a value cannot be written as JSON.
    pub fn to_json_where(&self, wanted: impl Fn(&ChannelSpec) -> bool) -> Result<Map<String, Value>, ChannelError> {
        let mut out = Map::new();
        for (spec, slot) in self.schema.channels().iter().zip(&self.slots).filter(|(spec, _)| wanted(spec)) {
            out.insert(spec.name().to_owned(), spec.value_to_json(slot)?);
        }
        Ok(out)
    }

    /// The values of all channels, to be written as JSON that [`from_json`](Self::from_json) reads again.
    ///
    /// # Errors
    /// [`ChannelError::NotStorable`] for a value that would not be read again.
    pub(crate) fn to_storable(&self) -> Result<StorableState<'_>, ChannelError> {
        let slots = self.schema.channels().iter().zip(&self.slots).filter(|(spec, _)| !spec.is::<MessagesChannel>());
        let others = slots.map(|(spec, slot)| Ok((spec.name().to_owned(), spec.checked_value(slot)?)));
        Ok(StorableState { messages: self.messages(), others: others.collect::<Result<_, ChannelError>>()? })
    }

    /// A state from the JSON object that [`to_json`](Self::to_json) made; names without a channel are left out.
    ///
    /// # Errors
    /// When a value is not of its channel's type.
    pub fn from_json(schema: Arc<Schema>, values: Map<String, Value>) -> Result<Self, ChannelError> {
        let mut state = Self::new(schema);
        state.set_json(values)?;
        Ok(state)
    }

    /// Replaces the values of channels; names without a channel are left out.
    pub(crate) fn set_json(&mut self, values: impl IntoIterator<Item = (String, Value)>) -> Result<(), ChannelError> {
        for (name, value) in values {
            let Some(at) = self.schema.position(&name) else { continue };
            if let (Some(spec), Some(slot)) = (self.schema.channels().get(at), self.slots.get_mut(at)) {
                *slot = spec.value_from_json(value)?;
            }
        }
        Ok(())
    }

    /// How this state was made of another one, and the values that it has beside: together they give it again. The
    /// values of a state that was not made of the other are all that are not empty.
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
            // Messages are known to be readable.
            let value =
                if spec.is::<MessagesChannel>() { spec.value_to_json(slot)? } else { spec.checked_value(slot)? };
            if origin.is_some() || spec.value_to_json(&spec.empty())? != value {
                values.push((spec.name().to_owned(), value));
            }
        }
        Ok((origin.map(|origin| origin.inheritance).unwrap_or_default(), values))
    }

    /// A state that was made of this one in a way, see [`inherited_from`](Self::inherited_from).
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
        Ok(child.made_of(self, Inheritance::Fork))
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
        Ok(other.made_of(self, Inheritance::Project))
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

/// A state that can be written as JSON and read again.
pub(crate) struct StorableState<'a> {
    /// Known to be readable; they are nearly all there is, so they are written as they are.
    messages: &'a Messages,
    others: Map<String, Value>,
}

impl StorableState<'_> {
    /// Adds channels that the state does not have; what it has of itself stays.
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

/// Whether two values are one and the same.
fn is_same(a: &AnyValue, b: &AnyValue) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}

impl Default for State {
    /// A state with messages alone.
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
