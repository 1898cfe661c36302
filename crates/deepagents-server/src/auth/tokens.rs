//! Fixed tokens.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::{Authenticate, Identity, Presented, Refusal};

/// A fixed set of tokens and their owners. Only the hashes of the tokens are stored.
///
/// ```
/// use deepagents_server::{Identity, StaticTokens};
///
/// let tokens = StaticTokens::new().token("s3cret", Identity::new("ada"));
/// ```
#[derive(Clone, Default)]
pub struct StaticTokens(HashMap<[u8; 32], Identity>);

impl StaticTokens {
    /// Creates an empty set, which admits nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a token and the identity it authenticates.
    #[must_use]
    pub fn token(mut self, token: impl AsRef<str>, identity: Identity) -> Self {
        self.0.insert(hash(token.as_ref()), identity);
        self
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

impl Authenticate for StaticTokens {
    async fn authenticate(&self, presented: Presented<'_>) -> Result<Identity, Refusal> {
        let Some(token) = presented.token() else {
            return Err(Refusal::Unknown("send a token: `Authorization: Bearer TOKEN` or `x-api-key`".to_owned()));
        };
        // Looking up hashes leaks nothing about a token through timing.
        self.0.get(&hash(token)).cloned().ok_or_else(|| Refusal::Unknown("the token is not known".to_owned()))
    }
}

impl std::fmt::Debug for StaticTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticTokens").field("tokens", &self.0.len()).finish()
    }
}
