//! How channels are shared with sub-agents.

use super::Merge;

/// What sub-agents and callers see of a channel, and what a sub-agent returns. It is set with
/// [`Channel::SHARING`](super::Channel::SHARING).
///
/// | kind | a sub-agent starts with | it returns | callers see it |
/// |---|---|---|---|
/// | [`shared`](Self::shared) | the value | its final value, if it changed | yes |
/// | [`shared_by`](Self::shared_by) | the value | its change, computed by a function | yes |
/// | [`copied`](Self::copied) | the value | nothing | yes |
/// | [`separate`](Self::separate) | an empty value | nothing | yes |
/// | [`private`](Self::private) | an empty value | nothing | no |
/// | [`merged`](Self::merged) | the value, transformed by a function | the result of a merge function | yes |
///
/// Sub-agents that see the whole conversation start with the value of every channel, unless it is
/// [`not_projected`](Self::not_projected).
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
    /// Whether a sub-agent that sees the whole conversation starts with the value.
    projected: bool,
    /// Makes the initial value of a sub-agent; empty if there is no function.
    fork: Option<fn(&V) -> V>,
    join: Join<V, U>,
}

enum Join<V, U> {
    Nothing,
    /// The sub-agent's new value, unless the parent agent changed the channel, which has this name, meanwhile.
    Replace(fn(&str, &V, &V, &V) -> Merge<U>),
    /// The sub-agent's change.
    Change(fn(&V, &V) -> Option<U>),
    Merge(fn(&V, &V, &V) -> Merge<U>),
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
    /// Sub-agents start with the value. Their changes are not returned.
    pub const fn copied() -> Self {
        Self { hidden: false, projected: true, fork: Some(V::clone), join: Join::Nothing }
    }

    /// Sub-agents start with the value. A sub-agent returns its changes as an update, which the function computes from
    /// its initial and final values. For channels whose updates add to the value.
    pub const fn shared_by(change: fn(given: &V, left: &V) -> Option<U>) -> Self {
        Self { hidden: false, projected: true, fork: Some(V::clone), join: Join::Change(change) }
    }
}

impl<V: Clone + PartialEq> Sharing<V, V> {
    /// Sub-agents start with the value, and the final value of a sub-agent replaces the parent's. For channels whose
    /// update is the new value. If the parent agent or another sub-agent has changed the value meanwhile, that value is
    /// kept, and the model is told.
    pub const fn shared() -> Self {
        Self { hidden: false, projected: true, fork: Some(V::clone), join: Join::Replace(replaced::<V>) }
    }
}

fn replaced<V: Clone + PartialEq>(channel: &str, parent: &V, given: &V, left: &V) -> Merge<V> {
    if left == given || left == parent {
        Merge::default()
    } else if parent == given {
        Merge { update: Some(left.clone()), conflicts: Vec::new() }
    } else {
        let conflict = format!("`{channel}` was changed on both sides; the value of the agent above was kept");
        Merge { update: None, conflicts: vec![conflict] }
    }
}

impl<V, U> Sharing<V, U> {
    /// Each sub-agent has its own value, empty at first, which is not returned.
    pub const fn separate() -> Self {
        Self { hidden: false, projected: true, fork: None, join: Join::Nothing }
    }

    /// As [`separate`](Self::separate), for a middleware's internal state. It is omitted when a state is shown by
    /// servers, as JSON or by `Debug`, and cannot be set with the input of a server's run. Code that can name the type
    /// can read it, in hooks and with [`State::get`](crate::state::State::get) on an outcome, and the journal stores
    /// it. Do not put secrets in it.
    pub const fn private() -> Self {
        Self::separate().hidden()
    }

    /// Sub-agents start with the result of `fork`. `join` merges a sub-agent's final value: it receives the parent's
    /// current value, and the sub-agent's initial and final values.
    pub const fn merged(fork: fn(&V) -> V, join: fn(parent: &V, given: &V, left: &V) -> Merge<U>) -> Self {
        Self { hidden: false, projected: true, fork: Some(fork), join: Join::Merge(join) }
    }

    /// Hides the channel from callers.
    #[must_use]
    pub const fn hidden(self) -> Self {
        Self { hidden: true, ..self }
    }

    /// Gives sub-agents that see the whole conversation an empty value too: for what belongs to the task of the main
    /// agent, such as its plan.
    #[must_use]
    pub const fn not_projected(self) -> Self {
        Self { projected: false, ..self }
    }

    pub(super) const fn is_projected(&self) -> bool {
        self.projected
    }

    pub(super) const fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// Returns whether sub-agents start with a value.
    pub(super) const fn is_inherited(&self) -> bool {
        self.fork.is_some()
    }

    /// Returns the initial value of a sub-agent.
    pub fn fork(&self, value: &V) -> V
    where
        V: Default,
    {
        self.fork.map_or_else(V::default, |fork| fork(value))
    }

    /// Merges the final value of a sub-agent into the parent's. `channel` is the name to use in reports to the model.
    pub fn join(&self, channel: &str, parent: &V, given: &V, left: &V) -> Merge<U> {
        match self.join {
            Join::Nothing => Merge::default(),
            Join::Change(change) => Merge { update: change(given, left), conflicts: Vec::new() },
            Join::Merge(merge) => merge(parent, given, left),
            Join::Replace(replace) => replace(channel, parent, given, left),
        }
    }
}
