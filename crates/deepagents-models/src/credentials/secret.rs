//! A text that is never printed.

use std::sync::Arc;

/// A key or token, hidden from `Debug` output.
///
/// Surrounding whitespace, as from files and pipes, is removed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Returns the text, to be sent and for no other use.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether the secret is empty.
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
