//! A text that is never printed.

use std::sync::Arc;

/// A key or token. `Debug` does not show it.
///
/// White space around it, which files and pipes leave, is no part of it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(Arc<str>);

impl Secret {
    /// The text itself, to be sent and nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.trim().into())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}
