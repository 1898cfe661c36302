//! The names under which threads keep their files.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Maximum length of a name in bytes; file systems allow little more.
const MAX_NAME: usize = 240;
/// The beginning of a name that is a hash. No encoded name has a dot.
const HASH: &str = "sha256.";

/// Returns the name for a thread: the thread's own, encoded, or its hash if that would be too long for a file.
pub(super) fn name_of(thread: &str) -> String {
    let name = encoded(thread);
    if name.len() <= MAX_NAME {
        return name;
    }
    Sha256::digest(thread).iter().fold(HASH.to_owned(), |mut name, byte| {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
        name
    })
}

/// Whether a name is that of some thread.
pub(super) fn is_name(name: &str) -> bool {
    is_hash(name) || decoded(name).is_some()
}

/// Whether a name is a hash, which does not say what its thread is called.
pub(super) fn is_hash(name: &str) -> bool {
    name.strip_prefix(HASH).is_some_and(|hash| hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns the name of a thread as that of a file, also where upper and lower case are the same.
fn encoded(thread: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    let part = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
    thread.bytes().map(part).collect()
}

/// Returns the thread whose encoded name this is.
pub(super) fn decoded(name: &str) -> Option<String> {
    let mut parts = name.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, plain) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(plain.as_bytes());
    }
    String::from_utf8(bytes).ok().filter(|thread| name == encoded(thread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_a_name_that_leads_back_to_it() {
        for thread in ["4f1c09a2", "A", "a", "..", "ä b%41", "thread-1_x", "ada/first", "sha256.0"] {
            let name = name_of(thread);
            assert!(name.is_ascii() && !name.contains(['.', 'A', '/']), "{name}");
            assert_eq!(decoded(&name).as_deref(), Some(thread));
        }
        for other in ["notes.txt", "A", "%", "%4", "%61", "%ff", "sha256.0"] {
            assert!(!is_name(other), "{other}");
        }
    }

    #[test]
    fn a_thread_whose_name_is_too_long_for_a_file_has_a_hash_as_its_name() {
        let names = ["a".repeat(241), "ä".repeat(256), "A".repeat(512)].map(|thread| name_of(&thread));
        for name in &names {
            assert!(name.len() <= MAX_NAME && is_name(name) && is_hash(name) && decoded(name).is_none(), "{name}");
        }
        assert!(names[0] != names[1] && names[1] != names[2]);
        assert_eq!(decoded(&name_of(&"a".repeat(240))), Some("a".repeat(240)));
    }
}
