//! The file tools.

mod change;
mod execute;
mod read;
mod search;

use deepagents_core::tool::{Effect, ToolError};
use deepagents_fs::VPath;

use super::Filesystem;

pub(super) use change::{Delete, EditFile, WriteFile};
pub(super) use execute::Execute;
pub(super) use read::{Ls, ReadFile};
pub(super) use search::{Glob, Grep};

const CHARS_PER_TOKEN: usize = 4;

fn failed(error: impl std::fmt::Display) -> ToolError {
    ToolError::model(format!("Error: {error}"))
}

impl Filesystem {
    /// A path as the model gave it, if the tools reach it.
    fn reach(&self, path: &str) -> Result<VPath, ToolError> {
        let path = VPath::parse(path).map_err(failed)?;
        let allowed = &self.options.allowed_prefixes;
        if allowed.is_empty() || allowed.iter().any(|prefix| path.starts_with(prefix)) {
            return Ok(path);
        }
        let allowed: Vec<&str> = allowed.iter().map(VPath::as_str).collect();
        Err(failed(format!("{path} is out of reach; give a path below {}", allowed.join(" or "))))
    }

    /// A path that may be changed: results that the harness keeps are not.
    fn reach_to_change(&self, path: &str) -> Result<VPath, ToolError> {
        let path = self.reach(path)?;
        let kept = VPath::parse(super::evict::FOLDER).map_err(failed)?;
        if path.starts_with(&kept) || kept.starts_with(&path) {
            return Err(failed(format!("{path} holds results that are kept for you and cannot be changed")));
        }
        Ok(path)
    }
}

/// A write to this path, so that two calls of one turn do not overtake each other; an illegal path touches nothing.
fn writes(path: &str) -> Effect {
    VPath::parse(path).map_or(Effect::Read, |path| Effect::write(path.as_str()))
}

impl Filesystem {
    /// Characters that a result may have.
    pub(super) fn budget(&self) -> Option<usize> {
        self.options.result_tokens.map(|tokens| tokens.saturating_mul(CHARS_PER_TOKEN))
    }

    /// Lines as one text within the budget, with notes on what is left out.
    fn bounded(&self, lines: &[String], notes: &[String]) -> String {
        let budget = self.budget().unwrap_or(usize::MAX);
        let mut out = String::new();
        let mut chars = 0;
        for (shown, line) in lines.iter().enumerate() {
            chars += line.chars().count() + 1;
            if chars > budget {
                out += &format!("[{} more lines are not shown; ask for less]\n", lines.len() - shown);
                break;
            }
            out += line;
            out.push('\n');
        }
        for note in notes {
            out += note;
            out.push('\n');
        }
        out.pop();
        out
    }
}
