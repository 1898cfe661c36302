//! The part of a spec that names an agent on a remote server.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The protocol of a remote sub-agent's server.
///
/// ```
/// use deepagents::subagents::{ServerProtocol, SubAgentSpec};
/// let spec: SubAgentSpec = serde_json::from_value(serde_json::json!({
///     "name": "booker", "description": "Books trips.", "url": "https://trips.example.com", "protocol": "a2a",
/// }))?;
/// assert_eq!(spec.protocol, ServerProtocol::A2a);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ServerProtocol {
    /// The API of the LangGraph server and of `deepagents serve`, or the Agent Protocol.
    #[default]
    LangGraph,
    /// Agent2Agent.
    A2a,
}

impl ServerProtocol {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    pub(super) fn is_standard(&self) -> bool {
        *self == Self::default()
    }
}

/// HTTP request headers by name. `Debug` omits their values.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Headers(pub BTreeMap<String, String>);

impl Headers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Returns the text before the first variable in a text, written `${NAME}`, its name, and the text behind it.
pub(super) fn next_variable(text: &str) -> Option<(&str, &str, &str)> {
    let (before, after) = text.split_once("${")?;
    let (name, behind) = after.split_once('}')?;
    Some((before, name, behind))
}

/// Returns the names of the variables in a text.
pub(crate) fn variables(text: &str) -> Vec<&str> {
    let mut rest = text;
    let next = || {
        let (_, name, behind) = next_variable(rest)?;
        rest = behind;
        Some(name)
    };
    std::iter::from_fn(next).collect()
}
