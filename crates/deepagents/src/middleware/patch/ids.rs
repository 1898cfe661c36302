//! Call ids that every provider accepts.

/// Maximum length of an id, in bytes, that providers accept.
const MAX_ID_BYTES: usize = 64;

/// Returns `true` if every provider accepts the id.
pub(super) fn is_legal(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_ID_BYTES && id.chars().all(is_legal_char)
}

/// Returns `true` if the provider that created the id accepts it back: any characters that it uses are fine.
pub(super) fn is_own(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_ID_BYTES && !id.chars().any(|c| c.is_control())
}

/// Returns a legal id for an illegal one. Deterministic, and distinct for distinct ids.
pub(super) fn legal(id: &str) -> String {
    let kept: String = id.chars().map(|c| if is_legal_char(c) { c } else { '_' }).take(MAX_ID_BYTES - 17).collect();
    format!("{kept}-{:016x}", fnv(id))
}

fn is_legal_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// FNV-1a: short, and stable across machines and versions.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_ids_become_valid_and_stay_distinct() {
        for id in ["", "a.b", "a/b", "日本", &"x".repeat(200)] {
            assert!(!is_legal(id), "{id}");
            assert!(is_legal(&legal(id)), "{}", legal(id));
            assert_eq!(legal(id), legal(id));
        }
        assert_ne!(legal("a.b"), legal("a/b"));
    }
}
