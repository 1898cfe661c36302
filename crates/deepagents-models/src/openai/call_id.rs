//! Tool call IDs for services that restrict them.

use std::borrow::Cow;

use super::dialect::CallIds;
use crate::body::stable_hash;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns the ID in the format of a service, always the same one for the same ID.
pub(super) fn conform(ids: CallIds, id: &str) -> Cow<'_, str> {
    match ids {
        CallIds::Any => Cow::Borrowed(id),
        CallIds::AtMost(most) if id.len() <= most => Cow::Borrowed(id),
        CallIds::AtMost(most) => {
            let id = format!("call_{:016x}", stable_hash(id));
            Cow::Owned(id.chars().take(most).collect())
        }
        CallIds::NineAlphanumerics if id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            Cow::Borrowed(id)
        }
        CallIds::NineAlphanumerics => {
            let mut hash = stable_hash(id);
            let digits = std::iter::repeat_with(|| {
                let digit = usize::try_from(hash % 62).unwrap_or_default();
                hash /= 62;
                ALPHABET.get(digit).copied().map_or('0', char::from)
            });
            Cow::Owned(digits.take(9).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_ids_become_nine_alphanumerics_and_conforming_ones_are_kept() {
        let map = |id| conform(CallIds::NineAlphanumerics, id).into_owned();
        assert_eq!(map("abc123XYZ"), "abc123XYZ");
        assert_eq!(map("toolu_01").len(), 9);
        assert_eq!(map("toolu_01"), map("toolu_01"));
        assert_ne!(map("toolu_01"), map("toolu_02"));
    }
}
