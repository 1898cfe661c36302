//! Tokens that are written down.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use super::{Authenticate, Identity, Presented, Refusal};

/// Tokens and who has them. What is kept of a token is its hash.
///
/// ```
/// use deepagents_server::{Identity, StaticTokens};
///
/// let tokens = StaticTokens::new().token("s3cret", Identity::new("ada"));
/// ```
#[derive(Clone, Default)]
pub struct StaticTokens(HashMap<[u8; 32], Identity>);

impl StaticTokens {
    /// No tokens: nobody is let in.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets somebody in with a token.
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
        // Hashes are looked up, so how long it takes says nothing of a token.
        self.0.get(&hash(token)).cloned().ok_or_else(|| Refusal::Unknown("the token is not known".to_owned()))
    }
}

impl std::fmt::Debug for StaticTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticTokens").field("tokens", &self.0.len()).finish()
    }
}
