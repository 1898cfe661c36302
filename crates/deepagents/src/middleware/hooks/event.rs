//! The events at which hooks run.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An event at which hooks run. The names are those of other programs, whose hooks therefore work unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum HookEvent {
    /// A thread is used for the first time in this process, or its conversation was compacted.
    SessionStart,
    /// A person has sent a message that the model has not seen yet.
    UserPromptSubmit,
    /// The program has finished with a thread.
    SessionEnd,
    /// A person is about to be asked about a call.
    PermissionRequest,
    /// The program needs a person's attention.
    Notification,
    /// A tool is about to be called, before anybody is asked about the call.
    PreToolUse,
    /// A tool call has succeeded.
    PostToolUse,
    /// A tool call has failed.
    PostToolUseFailure,
    /// The conversation is about to be compacted.
    PreCompact,
    /// The agent is about to end.
    Stop,
    /// A sub-agent starts.
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

    /// Returns the name used in files and in the input of hooks.
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

    /// Returns the event with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }

    /// Returns `true` if a hook can block what is about to happen; after a tool call, its objection is shown to the
    /// model instead.
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

    /// Returns `true` if a hook decides whether something may happen.
    pub(super) fn decides(self) -> bool {
        matches!(self, Self::UserPromptSubmit | Self::PermissionRequest | Self::PreToolUse)
    }

    /// Returns `true` if output that is not JSON is shown to the model.
    pub(super) fn takes_text(self) -> bool {
        matches!(self, Self::SessionStart | Self::UserPromptSubmit)
    }

    /// Returns the input field that matchers apply to, or `None` if every hook of the event runs.
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

    /// Returns the default time limit of a hook.
    pub(super) fn timeout(self) -> Duration {
        Duration::from_secs(match self {
            // A person is waiting for the answer to begin.
            Self::UserPromptSubmit => 30,
            // The work is done, and the program is about to exit.
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
