//! References to checkpoints.

use serde::{Deserialize, Serialize};

/// A checkpoint as clients refer to it: an object with its id, or the id alone.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "a checkpoint is an id, or an object with `checkpoint_id`")]
pub(crate) enum CheckpointRef {
    Id(String),
    Object {
        checkpoint_id: Option<String>,
        /// The namespace of a sub-agent, if not empty.
        #[serde(skip_serializing_if = "Option::is_none")]
        checkpoint_ns: Option<String>,
        /// A whole configuration that contains the reference.
        #[serde(skip_serializing_if = "Option::is_none")]
        configurable: Option<Box<CheckpointRef>>,
    },
}

impl CheckpointRef {
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::Id(id) => Some(id),
            Self::Object { checkpoint_id, configurable, .. } => {
                checkpoint_id.as_deref().or_else(|| configurable.as_ref()?.id())
            }
        }
    }

    /// Whether it refers to the thread itself, not to a sub-agent.
    pub(super) fn is_of_thread(&self) -> bool {
        match self {
            Self::Id(_) => true,
            Self::Object { checkpoint_ns, .. } => checkpoint_ns.as_ref().is_none_or(String::is_empty),
        }
    }
}
