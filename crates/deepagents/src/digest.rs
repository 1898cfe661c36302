//! Hashes of content, for names and comparisons.

use sha2::{Digest, Sha256};

/// Returns the first bytes of the SHA-256 of a content in hexadecimal; all 32 for the whole hash.
pub(crate) fn sha256_hex(content: impl AsRef<[u8]>, bytes: usize) -> String {
    Sha256::digest(content).iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}
