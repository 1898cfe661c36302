//! Sets of tools.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::DynTool;
use crate::model::ToolSpec;

/// Tools by name, with their specs. Cloning it only increments a reference count.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_core::tool::{DynTool, ToolSet, json_tool};
/// use serde_json::json;
/// let now = json_tool("now", "Tells the time.", json!({"type": "object"}), |_args, _cx| async { Ok("noon") });
/// let tools = ToolSet::new([Arc::new(now) as Arc<dyn DynTool>])?;
/// assert!(tools.get("now").is_some());
/// # Ok::<(), deepagents_core::tool::ToolSetError>(())
/// ```
#[derive(Clone, Default)]
pub struct ToolSet {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Sorted by name, so that the prefix sent to a model is the same for every request.
    specs: Vec<Arc<ToolSpec>>,
    /// In the same order as the specs.
    tools: Vec<Arc<dyn DynTool>>,
    /// Names that were offered before and no longer are.
    gone: BTreeSet<String>,
}

/// Error from offering tools together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolSetError {
    /// Providers reject the tool's name.
    #[error("`{0}` is not a valid tool name: providers accept 1 to 64 of the characters A-Z, a-z, 0-9, _ and -")]
    Name(String),
    /// A tool's schema does not describe an object.
    #[error(
        "the arguments of tool `{0}` are not an object: make them the fields of a struct, or give a schema of type object"
    )]
    Schema(String),
    /// Two tools have the same name.
    #[error("two tools are named `{0}`; rename one or leave it out")]
    Twice(String),
}

impl ToolSet {
    /// Creates a set of these tools.
    ///
    /// # Errors
    /// Returns an error if two tools have the same name, or a tool cannot be offered to a model.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn DynTool>>) -> Result<Self, ToolSetError> {
        let mut by_name = BTreeMap::new();
        for tool in tools {
            let spec = tool.spec();
            check_spec(&spec)?;
            let spec = spec.shared();
            if let Some((twice, _)) = by_name.insert(spec.name.clone(), (spec, tool)) {
                return Err(ToolSetError::Twice(twice.name.clone()));
            }
        }
        Ok(Self::sorted(by_name, BTreeSet::new()))
    }

    fn sorted(by_name: BTreeMap<String, (Arc<ToolSpec>, Arc<dyn DynTool>)>, gone: BTreeSet<String>) -> Self {
        let (specs, tools) = by_name.into_values().unzip();
        Self { inner: Arc::new(Inner { specs, tools, gone }) }
    }

    /// Returns the tool with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn DynTool>> {
        self.inner.tools.get(self.index(name)?)
    }

    /// Returns the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.inner.specs.iter().map(|spec| spec.name.as_str())
    }

    /// Returns what a model sees of the tools, sorted by name.
    pub fn specs(&self) -> &[Arc<ToolSpec>] {
        &self.inner.specs
    }

    /// Returns whether both are the same set, not merely equal.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns whether a tool of this name was offered before and no longer is.
    pub(crate) fn is_gone(&self, name: &str) -> bool {
        self.inner.gone.contains(name)
    }

    /// Joins this set with others, replacing the set offered `before`. Reuses its specs where they are equal.
    ///
    /// # Errors
    /// Returns an error if two sets have a tool of the same name.
    pub(crate) fn joined<'a>(
        &'a self,
        others: impl IntoIterator<Item = &'a Self>,
        before: &Self,
    ) -> Result<Self, ToolSetError> {
        let mut by_name = BTreeMap::new();
        for set in std::iter::once(self).chain(others) {
            for (spec, tool) in set.specs().iter().zip(&set.inner.tools) {
                let known = before.spec(&spec.name).filter(|known| *known == spec).unwrap_or(spec);
                if by_name.insert(spec.name.clone(), (known.clone(), tool.clone())).is_some() {
                    return Err(ToolSetError::Twice(spec.name.clone()));
                }
            }
        }
        let offered_before = before.names().chain(before.inner.gone.iter().map(String::as_str));
        let gone = offered_before.filter(|name| !by_name.contains_key(*name)).map(str::to_owned).collect();
        Ok(Self::sorted(by_name, gone))
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.inner.specs.binary_search_by(|spec| spec.name.as_str().cmp(name)).ok()
    }

    /// Returns what a model sees of the tool with this name.
    pub(crate) fn spec(&self, name: &str) -> Option<&Arc<ToolSpec>> {
        self.inner.specs.get(self.index(name)?)
    }
}

/// Checks whether a tool can be offered to a model.
pub(crate) fn check_spec(spec: &ToolSpec) -> Result<(), ToolSetError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if spec.name.is_empty() || spec.name.len() > 64 || !spec.name.chars().all(legal) {
        return Err(ToolSetError::Name(spec.name.clone()));
    }
    if spec.schema.get("type").and_then(serde_json::Value::as_str) != Some("object") {
        return Err(ToolSetError::Schema(spec.name.clone()));
    }
    Ok(())
}

impl fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
