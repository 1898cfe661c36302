//! Channels and their type-erased form.

use std::any::{Any, TypeId};
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Sharing;
use super::storable::storable;
use crate::panics::caught;

/// A named, typed part of the state, implemented by a zero-sized key type.
///
/// *Update* and *Value* are deliberately separate types: the journal stores updates, so the cost of a step depends only
/// on what it adds.
///
/// ```
/// use deepagents_core::state::{Channel, ChannelError, Sharing};
///
/// /// Counts something, here and in sub-agents.
/// pub struct Counter;
/// impl Channel for Counter {
///     const NAME: &'static str = "counter";
///     const SHARING: Sharing<u64, u64> = Sharing::shared_by(|given, left| left.checked_sub(*given));
///     type Value = u64;
///     type Update = u64;
///     fn reduce(value: &mut u64, update: u64) -> Result<(), ChannelError> {
///         *value += update;
///         Ok(())
///     }
/// }
/// ```
pub trait Channel: Send + Sync + 'static {
    /// The name used in JSON and in journals; unique within an agent.
    const NAME: &'static str;
    /// What sub-agents and callers see of the channel, and what sub-agents return.
    const SHARING: Sharing<Self::Value, Self::Update>;
    /// Whether the update in a run's input may change the channel. If `false`, only tools, hooks and
    /// [`Agent::update_state`](crate::agent::Agent::update_state) change it.
    const FROM_INPUT: bool = true;
    /// What happens if two tool calls of one turn write the channel.
    const CONCURRENT: Concurrent = Concurrent::Apply;
    /// The value type.
    type Value: Clone + Default + Send + Sync + Serialize + DeserializeOwned + 'static;
    /// The update type.
    type Update: Clone + Send + Sync + Serialize + DeserializeOwned + 'static;

    /// Applies an update.
    ///
    /// A thread is loaded by applying its updates again, in any process and in later versions of the program. The
    /// result must therefore depend only on the value and the update, not on time, randomness or settings, and an
    /// update that was accepted once must always be accepted. Stricter rules belong in the code that makes updates. If
    /// the format of updates changes, their `Deserialize` must accept the earlier formats.
    ///
    /// # Errors
    /// Returns an error if the update cannot be applied; the whole [`Update`](super::Update) it belongs to is then
    /// dropped.
    fn reduce(value: &mut Self::Value, update: Self::Update) -> Result<(), ChannelError>;
}

/// What happens if two tool calls of one turn write a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrent {
    /// Both updates are applied, in the order in which the calls finish.
    Apply,
    /// The second call gets an error result, and its update is dropped.
    Refuse,
}

/// The result of merging a sub-agent's value into its parent's.
#[derive(Clone, Debug)]
pub struct Merge<U> {
    /// The change to the parent's value.
    pub update: Option<U>,
    /// Conflicts to report to the model. The parent's values are kept.
    pub conflicts: Vec<String>,
}

impl<U> Default for Merge<U> {
    fn default() -> Self {
        Self { update: None, conflicts: Vec::new() }
    }
}

/// Error from applying an update.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The channel's own rules refuse it.
    #[error("channel `{channel}`: {reason}")]
    Refused {
        /// The channel.
        channel: &'static str,
        /// The reason, written for whoever made the update.
        reason: String,
    },
    /// The channel cannot be changed by a run's input.
    #[error("channel `{0}` cannot be set by the input of a run: the agent maintains it; change it with `update_state`")]
    NotInput(&'static str),
    /// This agent does not declare the channel.
    #[error(
        "channel `{0}` is not declared in this agent: return it from `channels` of the middleware or tool that writes it, or \
         give it with `.channel` to the agent or the tool"
    )]
    Undeclared(String),
    /// The JSON does not have the channel's type.
    #[error("channel `{channel}`: {reason}")]
    Json {
        /// The channel.
        channel: String,
        /// The reason.
        reason: String,
    },
    /// The value would not survive being stored in the log: it contains data that JSON cannot express or that the
    /// channel's types do not read back.
    #[error("channel `{channel}`: the value cannot be stored as JSON and read back: {reason}")]
    NotStorable {
        /// The channel.
        channel: &'static str,
        /// The reason.
        reason: String,
    },
    /// Two types use the same name.
    #[error("two types use the channel name `{0}`")]
    TypeClash(String),
}

pub(super) type AnyValue = Arc<dyn Any + Send + Sync>;
pub(super) type AnyUpdate = Arc<dyn Any + Send + Sync>;
type JsonResult<T> = Result<T, ChannelError>;
/// The change to the parent's value, and the conflicts.
type AnyJoin = (Option<AnyUpdate>, Vec<String>);

/// The type-erased form of a [`Channel`]: a `Copy` table of functions.
///
/// ```
/// use deepagents_core::state::ChannelSpec;
/// deepagents_core::last_value!(City("city"): Option<String>);
/// assert_eq!(ChannelSpec::new::<City>().name(), "city");
/// ```
#[derive(Clone, Copy)]
pub struct ChannelSpec {
    table: &'static Table,
}

struct Table {
    name: &'static str,
    private: bool,
    inherited: bool,
    projected: bool,
    from_input: bool,
    concurrent: Concurrent,
    type_id: fn() -> TypeId,
    type_name: fn() -> &'static str,
    empty: fn() -> AnyValue,
    reduce: fn(AnyValue, &AnyUpdate) -> JsonResult<AnyValue>,
    value_to_json: fn(&AnyValue) -> JsonResult<Value>,
    value_from_json: fn(Value) -> JsonResult<AnyValue>,
    value_check: fn(&AnyValue) -> Result<Value, String>,
    update_to_json: fn(&AnyUpdate) -> JsonResult<Value>,
    update_check: fn(&AnyUpdate) -> Result<Value, String>,
    update_from_json: fn(Value) -> JsonResult<AnyUpdate>,
    fork: fn(&AnyValue) -> JsonResult<AnyValue>,
    join: fn(&AnyValue, &AnyValue, &AnyValue) -> JsonResult<AnyJoin>,
}

struct Of<C>(PhantomData<C>);

impl<C: Channel> Of<C> {
    const TABLE: Table = Table {
        name: C::NAME,
        private: C::SHARING.is_hidden(),
        inherited: C::SHARING.is_inherited(),
        projected: C::SHARING.is_projected(),
        from_input: C::FROM_INPUT,
        concurrent: C::CONCURRENT,
        type_id: TypeId::of::<C>,
        type_name: std::any::type_name::<C>,
        empty: || Arc::new(C::Value::default()),
        reduce: |value, update| {
            let update = update.downcast_ref::<C::Update>().ok_or_else(clash::<C>)?;
            let mut value = value.downcast::<C::Value>().map_err(|_| clash::<C>())?;
            C::reduce(Arc::make_mut(&mut value), update.clone())?;
            Ok(value)
        },
        value_to_json: |value| to_json::<C, _>(value_ref::<C>(value)?),
        value_from_json: |json| Ok(Arc::new(from_json::<C, C::Value>(json)?)),
        value_check: |value| storable(value.downcast_ref::<C::Value>()),
        update_to_json: |update| to_json::<C, _>(update.downcast_ref::<C::Update>().ok_or_else(clash::<C>)?),
        update_check: |update| storable(update.downcast_ref::<C::Update>()),
        update_from_json: |json| Ok(Arc::new(from_json::<C, C::Update>(json)?)),
        fork: |value| Ok(Arc::new(C::SHARING.fork(value_ref::<C>(value)?))),
        join: |parent, given, child| {
            let [parent, given, child] = [parent, given, child].map(value_ref::<C>);
            let joined = C::SHARING.join(C::NAME, parent?, given?, child?);
            Ok((joined.update.map(|u| Arc::new(u) as AnyUpdate), joined.conflicts))
        },
    };
}

fn clash<C: Channel>() -> ChannelError {
    ChannelError::TypeClash(C::NAME.to_owned())
}

fn value_ref<C: Channel>(value: &AnyValue) -> JsonResult<&C::Value> {
    value.downcast_ref::<C::Value>().ok_or_else(clash::<C>)
}

fn to_json<C: Channel, T: Serialize>(value: &T) -> JsonResult<Value> {
    serde_json::to_value(value).map_err(|e| ChannelError::Json { channel: C::NAME.to_owned(), reason: e.to_string() })
}

fn from_json<C: Channel, T: DeserializeOwned>(json: Value) -> JsonResult<T> {
    serde_path_to_error::deserialize(json)
        .map_err(|e| ChannelError::Json { channel: C::NAME.to_owned(), reason: e.to_string() })
}

impl ChannelSpec {
    /// Returns the type-erased form of a channel.
    pub const fn new<C: Channel>() -> Self {
        Self { table: &Of::<C>::TABLE }
    }

    /// Returns the channel's name.
    pub fn name(&self) -> &'static str {
        self.table.name
    }

    /// Returns whether the channel is hidden from callers.
    pub fn is_private(&self) -> bool {
        self.table.private
    }

    /// Returns whether sub-agents start with a value from it.
    pub fn is_inherited(&self) -> bool {
        self.table.inherited
    }

    /// Returns whether sub-agents that see the whole conversation start with its value.
    pub(super) fn is_projected(&self) -> bool {
        self.table.projected
    }

    /// Returns whether a run's input may change it.
    pub fn is_from_input(&self) -> bool {
        self.table.from_input
    }

    /// Returns what happens if two calls of one turn write it.
    pub fn concurrent(&self) -> Concurrent {
        self.table.concurrent
    }

    /// Returns whether it is the channel of this key type.
    pub fn is<C: Channel>(&self) -> bool {
        (self.table.type_id)() == TypeId::of::<C>()
    }

    pub(super) fn same(&self, other: &Self) -> bool {
        (self.table.type_id)() == (other.table.type_id)()
    }

    pub(super) fn type_name(&self) -> &'static str {
        (self.table.type_name)()
    }

    pub(super) fn empty(&self) -> AnyValue {
        (self.table.empty)()
    }

    pub(super) fn reduce(&self, value: AnyValue, update: &AnyUpdate) -> JsonResult<AnyValue> {
        self.guarded(|| (self.table.reduce)(value, update))
    }

    pub(super) fn value_to_json(&self, value: &AnyValue) -> JsonResult<Value> {
        self.guarded(|| (self.table.value_to_json)(value))
    }

    pub(super) fn value_from_json(&self, json: Value) -> JsonResult<AnyValue> {
        (self.table.value_from_json)(json)
    }

    pub(super) fn update_to_json(&self, update: &AnyUpdate) -> JsonResult<Value> {
        self.guarded(|| (self.table.update_to_json)(update))
    }

    /// Returns the value as JSON.
    ///
    /// # Errors
    /// Returns an error if the JSON could not be read back.
    pub(super) fn checked_value(&self, value: &AnyValue) -> JsonResult<Value> {
        self.guarded(|| (self.table.value_check)(value).map_err(|reason| self.not_storable(reason)))
    }

    /// Returns an error if the update could not be read back.
    pub(super) fn check_update(&self, update: &AnyUpdate) -> JsonResult<()> {
        self.guarded(|| (self.table.update_check)(update).map_err(|reason| self.not_storable(reason)))?;
        Ok(())
    }

    pub(super) fn not_storable(&self, reason: String) -> ChannelError {
        ChannelError::NotStorable { channel: self.name(), reason }
    }

    pub(super) fn update_from_json(&self, json: Value) -> JsonResult<AnyUpdate> {
        (self.table.update_from_json)(json)
    }

    pub(super) fn fork(&self, value: &AnyValue) -> JsonResult<AnyValue> {
        self.guarded(|| (self.table.fork)(value))
    }

    pub(super) fn join(&self, parent: &AnyValue, given: &AnyValue, child: &AnyValue) -> JsonResult<AnyJoin> {
        self.guarded(|| (self.table.join)(parent, given, child))
    }

    /// Runs code of the channel's author. A panic in it refuses the update like any other error.
    fn guarded<T>(&self, work: impl FnOnce() -> JsonResult<T>) -> JsonResult<T> {
        caught(work).unwrap_or_else(|panic| {
            Err(ChannelError::Refused { channel: self.name(), reason: format!("it panicked: {panic}") })
        })
    }
}

impl std::fmt::Debug for ChannelSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChannelSpec").field("name", &self.name()).field("type", &self.type_name()).finish()
    }
}
