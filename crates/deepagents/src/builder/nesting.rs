//! The place of an agent in the tree of delegation.

use deepagents_fs::permissions::Permissions;

/// What an agent's place in the tree of delegation decides. It is not an option: each sub-agent gets a new one.
#[derive(Clone, Default)]
pub(super) struct Nesting {
    /// The number of agents above it.
    pub(super) depth: usize,
    /// Whether it comes from a file or a skill; it and its descendants are allowed no more than the parent agent.
    pub(super) is_bound: bool,
    /// Rules in addition to its `permissions` that it cannot drop; its own sub-agents inherit them.
    pub(super) bounds: Vec<Permissions>,
    /// The only tools that it may have, if its spec restricts them.
    pub(super) only_tools: Option<Vec<String>>,
    /// Whether it has no sub-agents of its own, whatever its skills define.
    pub(super) is_leaf: bool,
    /// Whether its `general-purpose` is the standard sub-agent, which others of that name may replace.
    pub(super) gives_way: bool,
}

impl Nesting {
    /// Returns `true` if there is an agent above it.
    pub(super) fn is_sub_agent(&self) -> bool {
        self.depth > 0
    }
}
