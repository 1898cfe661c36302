//! The SHA-256 of bodies, gone on with from one request to the next.

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// The SHA-256 of a body.
pub(crate) type BodyHash = [u8; 32];

/// The hash of how a body begins, for providers whose requests are signed: the next body, which begins the same way,
/// costs only what was added.
#[derive(Clone, Debug)]
pub(super) struct PrefixHash {
    /// What stands before the conversation.
    head: Vec<Bytes>,
    /// Bytes of the conversation behind it.
    bytes: usize,
    state: Sha256,
}

impl PrefixHash {
    /// That of a head and the conversation behind it.
    pub(super) fn new(head: Vec<Bytes>, conversation: &[Bytes]) -> Self {
        let mut state = Sha256::new();
        head.iter().chain(conversation).for_each(|piece| state.update(piece));
        Self { head, bytes: conversation.iter().map(Bytes::len).sum(), state }
    }

    /// Whether it is that of this head and so many bytes of the conversation.
    pub(super) fn is_of(&self, head: &[Bytes], bytes: usize) -> bool {
        self.bytes == bytes && self.head == head
    }

    /// Goes on with what was added to the conversation.
    pub(super) fn add(&mut self, settled: &[u8]) {
        self.bytes += settled.len();
        self.state.update(settled);
    }

    /// The hash of a body that ends with this.
    pub(super) fn with(&self, end: &[u8]) -> BodyHash {
        self.state.clone().chain_update(end).finalize().into()
    }
}
