//! Stores long texts as blobs, separately from the records and snapshots that contain them, so that repeated texts are
//! stored once.

use std::collections::HashMap;

use memchr::memchr2;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Texts longer than this many bytes are stored as blobs.
pub(crate) const MAX_INLINE_BYTES: usize = 64 * 1024;

/// Key of the placeholder object for a blob.
const BLOB: &str = "$blob";
/// Key of an object that wraps one that would be mistaken for either of these two.
const PLAIN: &str = "$plain";

/// Bit flags for how a body is packed: long strings, or the whole body, are replaced by blobs.
const TEXTS_AS_BLOBS: i64 = 1;
const BODY_AS_BLOB: i64 = 2;

/// The SHA-256 of a text.
pub(crate) type Hash = [u8; 32];

/// A JSON text as stored.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) body: String,
    /// How it is packed, as flags; 0 for unchanged text.
    pub(crate) how: i64,
    /// The texts stored as blobs.
    pub(crate) blobs: Vec<(Hash, String)>,
    /// Size of the whole text in bytes.
    pub(crate) bytes: u64,
}

/// Packs a record: stores its long strings as blobs, and then the rest as well if it is still too long.
pub(crate) fn pack(text: String) -> Result<Packed, serde_json::Error> {
    let mut packed = pack_texts(text)?;
    if packed.body.len() > MAX_INLINE_BYTES {
        let hash = hash(&packed.body);
        packed.blobs.push((hash, std::mem::replace(&mut packed.body, hex(&hash))));
        packed.how |= BODY_AS_BLOB;
    }
    Ok(packed)
}

/// Packs a snapshot: stores its long strings as blobs, and keeps the rest inline, since no other snapshot would share
/// it.
pub(crate) fn pack_texts(text: String) -> Result<Packed, serde_json::Error> {
    let bytes = text.len() as u64;
    let mut packed = Packed { body: text, how: 0, blobs: Vec::new(), bytes };
    if !has_long_text(&packed.body) {
        return Ok(packed);
    }
    let mut value: Value = serde_json::from_str(&packed.body)?;
    lift(&mut value, &mut packed.blobs);
    if !packed.blobs.is_empty() {
        packed.body = serde_json::to_string(&value)?;
        packed.how |= TEXTS_AS_BLOBS;
    }
    Ok(packed)
}

/// Returns whether a JSON text may contain a string to store as a blob, without parsing it.
fn has_long_text(json: &str) -> bool {
    if json.len() <= MAX_INLINE_BYTES {
        return false;
    }
    let bytes = json.as_bytes();
    let (mut begin, mut at) = (None, 0);
    while let Some(found) = memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        let here = at + found;
        if bytes.get(here) == Some(&b'\\') {
            // Backslashes occur only inside strings. Skip the escaped character.
            at = here + 2;
            continue;
        }
        match begin.take() {
            None => begin = Some(here),
            Some(from) if here - from > MAX_INLINE_BYTES => return true,
            Some(_) => {}
        }
        at = here + 1;
    }
    false
}

/// Returns the original text, or `None` if it needs a blob that is not in `blobs`.
pub(crate) fn unpack(body: String, how: i64, blobs: &HashMap<Hash, String>) -> Option<String> {
    let body = if how & BODY_AS_BLOB == 0 { body } else { blobs.get(&unhex(&body)?)?.clone() };
    if how & TEXTS_AS_BLOBS == 0 {
        return Some(body);
    }
    let mut value: Value = serde_json::from_str(&body).ok()?;
    lower(&mut value, blobs)?;
    serde_json::to_string(&value).ok()
}

fn lift(value: &mut Value, blobs: &mut Vec<(Hash, String)>) {
    match value {
        Value::String(text) if text.len() > MAX_INLINE_BYTES => {
            let hash = hash(text);
            let mark = Value::Object(Map::from_iter([(BLOB.to_owned(), Value::String(hex(&hash)))]));
            if let Value::String(text) = std::mem::replace(value, mark) {
                blobs.push((hash, text));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| lift(item, blobs)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| lift(field, blobs));
            let mistaken = fields.len() == 1 && fields.keys().all(|key| key == BLOB || key == PLAIN);
            if mistaken {
                let fields = std::mem::take(fields);
                *value = Value::Object(Map::from_iter([(PLAIN.to_owned(), Value::Object(fields))]));
            }
        }
        _ => {}
    }
}

fn lower(value: &mut Value, blobs: &HashMap<Hash, String>) -> Option<()> {
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| lower(item, blobs)),
        Value::Object(fields) if fields.len() == 1 && fields.contains_key(BLOB) => {
            let hash = unhex(fields.get(BLOB)?.as_str()?)?;
            *value = Value::String(blobs.get(&hash)?.clone());
            Some(())
        }
        Value::Object(fields) if fields.len() == 1 && fields.contains_key(PLAIN) => {
            let mut inner = fields.get_mut(PLAIN)?.take();
            inner.as_object_mut()?.values_mut().try_for_each(|field| lower(field, blobs))?;
            *value = inner;
            Some(())
        }
        Value::Object(fields) => fields.values_mut().try_for_each(|field| lower(field, blobs)),
        _ => Some(()),
    }
}

fn hash(text: &str) -> Hash {
    Sha256::digest(text.as_bytes()).into()
}

pub(crate) fn hex(hash: &Hash) -> String {
    use std::fmt::Write;
    hash.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    if text.len() != 64 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z\\PC]{0,6}".prop_map(Value::from),
            ("[a-z]", MAX_INLINE_BYTES - 1..MAX_INLINE_BYTES + 3).prop_map(|(c, n)| Value::from(c.repeat(n))),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(
                    prop_oneof![Just(BLOB.to_owned()), Just(PLAIN.to_owned()), "[a-c]".prop_map(String::from)],
                    inner,
                    0..3
                )
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn packed_data_is_restored_byte_for_byte(value in any_json()) {
            let text = json!({"record": value}).to_string();
            for (packed, short) in [(pack(text.clone()), true), (pack_texts(text.clone()), false)] {
                let packed = packed.unwrap();
                prop_assert!(!short || packed.body.len() <= MAX_INLINE_BYTES);
                let blobs = packed.blobs.into_iter().collect();
                prop_assert_eq!(unpack(packed.body, packed.how, &blobs), Some(text.clone()));
            }
        }
    }

    #[test]
    fn a_small_text_is_stored_inline_and_a_missing_blob_is_detected() {
        let small = pack(r#"{"a":{"$blob":"x"}}"#.to_owned()).unwrap();
        assert_eq!((small.how, small.blobs.len()), (0, 0));
        let large = pack(json!({"a": "x".repeat(MAX_INLINE_BYTES + 1)}).to_string()).unwrap();
        assert_eq!(large.blobs.len(), 1);
        assert_eq!(unpack(large.body, large.how, &HashMap::new()), None);
        let quoted = pack_texts(json!({"a": ["\"\\".repeat(MAX_INLINE_BYTES), 1]}).to_string()).unwrap();
        assert_eq!(quoted.blobs.len(), 1, "a long text with quotes in it is found");
    }
}
