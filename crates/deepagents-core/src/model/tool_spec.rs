//! What a model is told of a tool.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a model is told of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name, `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// A JSON schema of type `object` for the arguments.
    pub schema: Arc<Value>,
}
