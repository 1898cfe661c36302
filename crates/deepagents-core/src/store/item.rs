//! A stored value, and how one is stored.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Namespace;

/// A stored value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Where it is.
    pub namespace: Namespace,
    /// Its key.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Grows with every write of the item; an item that is stored again after it was removed has a greater one too.
    pub version: u64,
    /// Bytes: what its writer said in [`Write::size`], otherwise those of the value as JSON.
    #[serde(default)]
    pub size: u64,
    /// When it was first stored, RFC 3339.
    pub created_at: String,
    /// When it was last stored, RFC 3339.
    pub updated_at: String,
    /// When it will be gone, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// Under what conditions a value is stored, for how long, and as what size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// What must be there.
    pub expected: Expected,
    /// How long the item lives from now on, whether or not it is read; for ever if not said.
    pub ttl: Option<Duration>,
    /// The size to tell of the item, in bytes, where the value stands for something that has one; that of the value as
    /// JSON if not said.
    pub size: Option<u64>,
}

impl Write {
    /// The size of the item that stores a value.
    pub fn size_of(&self, value: &Value) -> u64 {
        self.size.unwrap_or_else(|| value.to_string().len() as u64)
    }
}

/// What must be there for a value to be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Whatever there is.
    #[default]
    Any,
    /// An item at this version, or none.
    Version(Option<u64>),
}

impl Expected {
    /// Whether an item at this version, or none, will do.
    pub fn allows(self, version: Option<u64>) -> bool {
        match self {
            Self::Any => true,
            Self::Version(expected) => expected == version,
        }
    }
}
