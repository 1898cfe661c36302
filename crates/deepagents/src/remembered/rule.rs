//! One rule.

use std::fmt;

use deepagents_core::interrupt::ActionRequest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// File tools whose calls are covered by their path: what is written there differs from call to call.
const BY_PATH: [&str; 3] = ["write_file", "edit_file", "delete"];
/// The argument that holds the path.
const PATH: &str = "file_path";

/// Calls of one tool that need not be asked about again. As text, [`Display`](fmt::Display) says what it covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RememberedRule {
    /// The tool.
    pub tool: String,
    /// Arguments that a call has to have, exactly.
    pub args: Map<String, Value>,
    /// Whether a call may have other arguments beside these.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_others: bool,
    /// Where the call's path leads, if that is not where it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<String>,
}

impl RememberedRule {
    /// The narrowest rule that covers a call: for a file tool that changes something its path, otherwise all arguments.
    pub fn covering(question: &ActionRequest) -> Self {
        let all = question.args.as_object().cloned().unwrap_or_default();
        let (tool, leads_to) = (question.tool.clone(), question.leads_to.clone());
        match all.get(PATH).filter(|path| path.is_string() && BY_PATH.contains(&tool.as_str())) {
            Some(path) => {
                let args = Map::from_iter([(PATH.to_owned(), path.clone())]);
                Self { tool, args, with_others: true, leads_to }
            }
            None => Self { tool, args: all, with_others: false, leads_to },
        }
    }

    /// Whether it covers a call.
    pub fn covers(&self, question: &ActionRequest) -> bool {
        let Some(args) = question.args.as_object() else { return false };
        let named = self.args.iter().all(|(name, value)| args.get(name) == Some(value));
        let no_others = self.with_others || args.len() == self.args.len();
        self.tool == question.tool && self.leads_to == question.leads_to && named && no_others
    }
}

impl fmt::Display for RememberedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tool)?;
        for (at, (name, value)) in self.args.iter().enumerate() {
            let before = if at == 0 { " with exactly" } else { "," };
            write!(f, "{before} {name} {value}")?;
        }
        if let Some(path) = &self.leads_to {
            write!(f, ", which leads to {path}")?;
        }
        if self.with_others { f.write_str(", and any content") } else { Ok(()) }
    }
}
