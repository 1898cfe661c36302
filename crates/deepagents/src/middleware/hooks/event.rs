//! The moments at which hooks run.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment at which hooks run. The names are those of other programs, so that their hooks work here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum HookEvent {
    /// A thread is worked on for the first time in this process, or its conversation was compacted.
    SessionStart,
    /// A person has said something, and the model has not seen it yet.
    UserPromptSubmit,
    /// The program is done with a thread.
    SessionEnd,
    /// A person is about to be asked about a call.
    PermissionRequest,
    /// The program wants the attention of a person.
    Notification,
    /// A tool is about to be called, before anybody is asked about it.
    PreToolUse,
    /// A tool has succeeded.
    PostToolUse,
    /// A tool has failed.
    PostToolUseFailure,
    /// The conversation is about to be compacted.
    PreCompact,
    /// The agent is about to end.
    Stop,
    /// A sub-agent begins.
    SubagentStart,
    /// A sub-agent is about to end.
    SubagentStop,
}

impl HookEvent {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::SessionStart,
        Self::UserPromptSubmit,
        Self::SessionEnd,
        Self::PermissionRequest,
        Self::Notification,
        Self::PreToolUse,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::PreCompact,
        Self::Stop,
        Self::SubagentStart,
        Self::SubagentStop,
    ];

    /// The name in files and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::SessionEnd => "SessionEnd",
            Self::PermissionRequest => "PermissionRequest",
            Self::Notification => "Notification",
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::PreCompact => "PreCompact",
            Self::Stop => "Stop",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
        }
    }

    /// The event with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }

    /// Whether a hook can keep what is about to happen from happening; after a tool it gives the model its objection.
    pub fn can_block(self) -> bool {
        matches!(
            self,
            Self::UserPromptSubmit
                | Self::PermissionRequest
                | Self::PreToolUse
                | Self::PostToolUse
                | Self::PreCompact
                | Self::Stop
                | Self::SubagentStop
        )
    }

    /// Whether what a hook prints that is no JSON is told to the model.
    pub(super) fn takes_text(self) -> bool {
        matches!(self, Self::SessionStart | Self::UserPromptSubmit)
    }

    /// The field of the input that a matcher is about; nothing where every hook of the event runs.
    pub(super) fn matched_field(self) -> Option<&'static str> {
        match self {
            Self::PreToolUse | Self::PostToolUse | Self::PostToolUseFailure | Self::PermissionRequest => {
                Some("tool_name")
            }
            Self::SessionStart => Some("source"),
            Self::SessionEnd => Some("reason"),
            Self::Notification => Some("notification_type"),
            Self::PreCompact => Some("trigger"),
            Self::SubagentStart | Self::SubagentStop => Some("agent_type"),
            Self::UserPromptSubmit | Self::Stop => None,
        }
    }

    /// How long a hook may run that does not say itself.
    pub(super) fn timeout(self) -> Duration {
        Duration::from_secs(match self {
            // A person waits for the first word.
            Self::UserPromptSubmit => 30,
            // All is done, and whoever started the program waits for its end.
            Self::SessionEnd => 10,
            _ => 600,
        })
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
