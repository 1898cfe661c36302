//! Ids of calls that every provider accepts.

/// Providers take ids of at most so many characters.
const LONGEST: usize = 64;

/// Whether every provider accepts an id.
pub(super) fn is_legal(id: &str) -> bool {
    !id.is_empty() && id.len() <= LONGEST && id.chars().all(is_legal_char)
}

/// Whether the provider that gave an id takes it back: its own characters are its business.
pub(super) fn is_own(id: &str) -> bool {
    !id.is_empty() && id.len() <= LONGEST && !id.chars().any(|c| c.is_control())
}

/// A legal id for an illegal one: the same for the same id, different for different ones.
pub(super) fn legal(id: &str) -> String {
    let kept: String = id.chars().map(|c| if is_legal_char(c) { c } else { '_' }).take(LONGEST - 17).collect();
    format!("{kept}-{:016x}", fnv(id))
}

fn is_legal_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// FNV-1a: short, and the same on every machine and in every version.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn illegal_ids_become_legal_and_stay_apart() {
        for id in ["", "a.b", "a/b", "日本", &"x".repeat(200)] {
            assert!(!is_legal(id), "{id}");
            assert!(is_legal(&legal(id)), "{}", legal(id));
            assert_eq!(legal(id), legal(id));
        }
        assert_ne!(legal("a.b"), legal("a/b"));
    }
}
