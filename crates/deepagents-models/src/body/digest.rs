//! SHA-256 of bodies, continued from one request to the next.

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The SHA-256 of a body.
pub(crate) type BodyHash = [u8; 32];

/// Hash of a body's prefix, for providers with signed requests. The next body starts the same way, so only what was
/// added needs hashing.
#[derive(Clone, Debug)]
pub(super) struct PrefixHash {
    /// The part before the conversation.
    head: Vec<Bytes>,
    /// Number of hashed bytes of the conversation after it.
    bytes: usize,
    state: Sha256,
}

impl PrefixHash {
    /// Hashes a head and the conversation after it.
    pub(super) fn new(head: Vec<Bytes>, conversation: &[Bytes]) -> Self {
        let mut state = Sha256::new();
        head.iter().chain(conversation).for_each(|piece| state.update(piece));
        Self { head, bytes: conversation.iter().map(Bytes::len).sum(), state }
    }

    /// Returns whether this is the hash of this head with this many bytes of the conversation.
    pub(super) fn is_of(&self, head: &[Bytes], bytes: usize) -> bool {
        self.bytes == bytes && self.head == head
    }

    /// Continues with what was added to the conversation.
    pub(super) fn add(&mut self, settled: &[u8]) {
        self.bytes += settled.len();
        self.state.update(settled);
    }

    /// Returns the hash of a body that ends with this.
    pub(super) fn with(&self, end: &[u8]) -> BodyHash {
        self.state.clone().chain_update(end).finalize().into()
    }
}
