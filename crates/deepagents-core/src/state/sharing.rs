//! What sub-agents see of a channel, and what comes back from them.

use super::Merge;

/// What sub-agents and callers see of a channel, and what comes back from a sub-agent: all of it said in one place, as
/// [`Channel::SHARING`](super::Channel::SHARING).
///
/// | kind | a sub-agent begins with | comes back | callers see it |
/// |---|---|---|---|
/// | [`shared`](Self::shared) | the value | the value it left, if it changed it | yes |
/// | [`shared_by`](Self::shared_by) | the value | what a function says it changed | yes |
/// | [`copied`](Self::copied) | the value | nothing | yes |
/// | [`separate`](Self::separate) | an empty value | nothing | yes |
/// | [`private`](Self::private) | an empty value | nothing | no |
/// | [`merged`](Self::merged) | what a function makes of the value | what another makes of it | yes |
///
/// Sub-agents that see the whole conversation begin with the value of every channel.
///
/// ```
/// use deepagents_core::state::{Channel, ChannelError, Sharing};
///
/// /// Sources found so far; sub-agents add to them.
/// struct Sources;
/// impl Channel for Sources {
///     const NAME: &'static str = "sources";
///     const SHARING: Sharing<Vec<String>, Vec<String>> =
///         Sharing::shared_by(|given, left| left.get(given.len()..).filter(|new| !new.is_empty()).map(<[_]>::to_vec));
///     type Value = Vec<String>;
///     type Update = Vec<String>;
///     fn reduce(value: &mut Vec<String>, update: Vec<String>) -> Result<(), ChannelError> {
///         value.extend(update);
///         Ok(())
///     }
/// }
/// ```
pub struct Sharing<V, U> {
    hidden: bool,
    fork: Fork<V>,
    join: Join<V, U>,
}

enum Fork<V> {
    Empty,
    Value(fn(&V) -> V),
}

enum Join<V, U> {
    Nothing,
    /// What a sub-agent changed, unless the agent above changed the channel meanwhile.
    Replace(fn(&V, &V, &V) -> Replacement<U>),
    /// What a sub-agent changed.
    Change(fn(&V, &V) -> Option<U>),
    Merge(fn(&V, &V, &V) -> Merge<U>),
}

/// What becomes of a value that takes the place of another.
enum Replacement<U> {
    Unchanged,
    Changed(U),
    Conflict,
}

impl<V, U> std::fmt::Debug for Sharing<V, U> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let comes_back = !matches!(self.join, Join::Nothing);
        let mut out = f.debug_struct("Sharing");
        out.field("hidden", &self.hidden).field("inherited", &self.is_inherited()).field("comes_back", &comes_back);
        out.finish()
    }
}

impl<V: Clone, U> Sharing<V, U> {
    /// Sub-agents begin with the value; what they make of it is theirs.
    pub const fn copied() -> Self {
        Self { hidden: false, fork: Fork::Value(V::clone), join: Join::Nothing }
    }

    /// Sub-agents begin with the value. What one changed comes back as an update, which the function makes of what it was
    /// given and what it left: for channels whose updates add to the value.
    pub const fn shared_by(change: fn(given: &V, left: &V) -> Option<U>) -> Self {
        Self { hidden: false, fork: Fork::Value(V::clone), join: Join::Change(change) }
    }
}

impl<V: Clone + PartialEq> Sharing<V, V> {
    /// Sub-agents begin with the value, and the one that they leave takes its place: for channels whose update is the
    /// new value. Where the agent above, or another sub-agent, has changed it meanwhile, that stays and the model is told.
    pub const fn shared() -> Self {
        Self { hidden: false, fork: Fork::Value(V::clone), join: Join::Replace(replacement::<V>) }
    }
}

fn replacement<V: Clone + PartialEq>(parent: &V, given: &V, left: &V) -> Replacement<V> {
    if left == given || left == parent {
        Replacement::Unchanged
    } else if parent == given {
        Replacement::Changed(left.clone())
    } else {
        Replacement::Conflict
    }
}

impl<V, U> Sharing<V, U> {
    /// Each sub-agent has its own, empty at first, and keeps it.
    pub const fn separate() -> Self {
        Self { hidden: false, fork: Fork::Empty, join: Join::Nothing }
    }

    /// As [`separate`](Self::separate), for what a middleware remembers: it is left out where a state is shown, by servers, as
    /// JSON and by `Debug`, and cannot be given with the input of a server's run. Whoever names its type reads it, in hooks and
    /// with [`State::get`](crate::state::State::get) of an outcome; the journal keeps it. It is no place for secrets.
    pub const fn private() -> Self {
        Self::separate().hidden()
    }

    /// Sub-agents begin with what `fork` makes of the value. `join` says what a value that one left means for the agent
    /// above: it is given the value there now, what the sub-agent was given, and what it left.
    pub const fn merged(fork: fn(&V) -> V, join: fn(parent: &V, given: &V, left: &V) -> Merge<U>) -> Self {
        Self { hidden: false, fork: Fork::Value(fork), join: Join::Merge(join) }
    }

    /// The same, not shown to callers.
    #[must_use]
    pub const fn hidden(self) -> Self {
        Self { hidden: true, ..self }
    }

    pub(super) const fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// Whether sub-agents begin with anything.
    pub(super) const fn is_inherited(&self) -> bool {
        matches!(self.fork, Fork::Value(_))
    }

    /// What a sub-agent begins with.
    pub fn fork(&self, value: &V) -> V
    where
        V: Default,
    {
        match self.fork {
            Fork::Empty => V::default(),
            Fork::Value(fork) => fork(value),
        }
    }

    /// What a value that a sub-agent left means for the agent above; `channel` is the name for what the model is told.
    pub fn join(&self, channel: &str, parent: &V, given: &V, left: &V) -> Merge<U> {
        match self.join {
            Join::Nothing => Merge::default(),
            Join::Change(change) => Merge { update: change(given, left), conflicts: Vec::new() },
            Join::Merge(merge) => merge(parent, given, left),
            Join::Replace(replace) => match replace(parent, given, left) {
                Replacement::Unchanged => Merge::default(),
                Replacement::Changed(update) => Merge { update: Some(update), conflicts: Vec::new() },
                Replacement::Conflict => Merge {
                    update: None,
                    conflicts: vec![format!(
                        "`{channel}` was changed on both sides; the value of the agent above was kept"
                    )],
                },
            },
        }
    }
}

// By hand, since the values themselves need not be `Copy`.
impl<V, U> Clone for Sharing<V, U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, U> Copy for Sharing<V, U> {}

impl<V> Clone for Fork<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Fork<V> {}

impl<V, U> Clone for Join<V, U> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V, U> Copy for Join<V, U> {}
