//! Reports of what a sandbox provides.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Level of confinement. Stronger levels compare greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Level {
    /// No confinement.
    None,
    /// Namespaces, no capabilities and a seccomp filter, but another part is missing.
    Namespaces,
    /// All parts are in force.
    Full,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Namespaces => "namespaces",
            Self::Full => "full",
        })
    }
}

/// A part of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Name of the part.
    pub name: String,
    /// Whether the part is in force.
    pub available: bool,
    /// The reason it is not, or details.
    pub detail: String,
}

impl Part {
    #[cfg(target_os = "linux")]
    pub(crate) fn on(name: &str, detail: impl Into<String>) -> Self {
        Self { name: name.to_owned(), available: true, detail: detail.into() }
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn off(name: &str, detail: impl Into<String>) -> Self {
        Self { name: name.to_owned(), available: false, detail: detail.into() }
    }
}

/// What the sandbox provides on this machine, as found by trying it. Displayed as lines for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SandboxReport {
    /// Overall level.
    pub level: Level,
    /// The parts; empty if there is no sandbox.
    pub parts: Vec<Part>,
    /// Reason there is no sandbox.
    pub reason: Option<String>,
}

impl SandboxReport {
    pub(crate) fn none(reason: impl Into<String>) -> Self {
        Self { level: Level::None, parts: Vec::new(), reason: Some(reason.into()) }
    }

    /// Creates the report of a sandbox whose required parts are in force.
    #[cfg(unix)]
    pub(crate) fn new(parts: Vec<Part>) -> Self {
        let level = if parts.iter().all(|part| part.available) { Level::Full } else { Level::Namespaces };
        Self { level, parts, reason: None }
    }
}

impl fmt::Display for SandboxReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sandbox: {}", self.level)?;
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        for part in &self.parts {
            let state = if part.available { "yes" } else { "no" };
            write!(f, "\n  {}: {state}", part.name)?;
            if !part.detail.is_empty() {
                write!(f, " ({})", part.detail)?;
            }
        }
        Ok(())
    }
}
