//! References to checkpoints.

use serde::{Deserialize, Serialize};

use crate::deserialize::object;

/// A checkpoint as clients refer to it: an object with its id, or the id alone.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "a checkpoint is an id, or an object with `checkpoint_id`")]
pub(crate) enum CheckpointRef {
    Id(String),
    Object(#[serde(deserialize_with = "object")] CheckpointFields),
}

/// The fields of a reference.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct CheckpointFields {
    checkpoint_id: Option<String>,
    /// The namespace of a sub-agent, if not empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_ns: Option<String>,
    /// A whole configuration that contains the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    configurable: Option<Box<CheckpointRef>>,
}

impl CheckpointRef {
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::Id(id) => Some(id),
            Self::Object(fields) => fields.checkpoint_id.as_deref().or_else(|| fields.configurable.as_ref()?.id()),
        }
    }

    /// Returns the namespace of a sub-agent, or `None` if it refers to the thread itself.
    pub(super) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Id(_) => None,
            Self::Object(fields) => {
                let own = fields.checkpoint_ns.as_deref().filter(|namespace| !namespace.is_empty());
                own.or_else(|| fields.configurable.as_ref()?.namespace())
            }
        }
    }
}
