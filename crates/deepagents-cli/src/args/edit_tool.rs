//! The choice of the tool that edits files.

use clap::ValueEnum;
use deepagents::middleware::filesystem::EditTool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tool with which the model edits files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum EditWith {
    /// One text is replaced with another
    EditFile,
    /// A patch changes several files
    ApplyPatch,
    /// The model has both tools
    Both,
}

impl EditWith {
    /// Returns its name in settings.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::EditFile => "edit_file",
            Self::ApplyPatch => "apply_patch",
            Self::Both => "both",
        }
    }

    /// Returns the choice of this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }
}

impl From<EditWith> for EditTool {
    fn from(choice: EditWith) -> Self {
        match choice {
            EditWith::EditFile => Self::EditFile,
            EditWith::ApplyPatch => Self::ApplyPatch,
            EditWith::Both => Self::Both,
        }
    }
}
