//! Items and options for writing them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Namespace;

/// A stored value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The item's namespace.
    pub namespace: Namespace,
    /// The item's key.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Increases with every write of the item. An item that is stored again after it was removed gets a greater version
    /// too.
    pub version: u64,
    /// Size in bytes: [`Write::size`] if its writer set it, otherwise that of the value as JSON.
    #[serde(default)]
    pub size: u64,
    /// When it was first stored, as RFC 3339.
    pub created_at: String,
    /// When it was last stored, as RFC 3339.
    pub updated_at: String,
    /// When it expires, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// Options for storing a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// The required current version.
    pub expected: Expected,
    /// Time to live from now, whether or not the item is read; `None` for ever.
    pub ttl: Option<Duration>,
    /// The size to report for the item, in bytes, if the value stands for something with a size of its own; by default
    /// that of the value as JSON.
    pub size: Option<u64>,
}

impl Write {
    /// Returns the size of an item with this value.
    pub fn size_of(&self, value: &Value) -> u64 {
        self.size.unwrap_or_else(|| value.to_string().len() as u64)
    }
}

/// The current version required for a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Any version, or no item.
    #[default]
    Any,
    /// An item at this version, or `None` for no item.
    Version(Option<u64>),
}

impl Expected {
    /// Returns whether an item at this version, or `None` for no item, satisfies the requirement.
    pub fn allows(self, version: Option<u64>) -> bool {
        match self {
            Self::Any => true,
            Self::Version(expected) => expected == version,
        }
    }
}
