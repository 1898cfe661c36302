//! Which headers hold secrets.

/// Minimum length in bytes of a value that may be secret whatever the name of its header. Shorter ones are usually words.
const MIN_SECRET_BYTES: usize = 8;

/// Returns whether the value of a header, or a part of it, may be secret. All that authenticates the caller may be, and
/// any other value that is not short, such as the key of a gateway.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    proves_identity(name) || value.len() >= MIN_SECRET_BYTES && !is_public(name)
}

/// Returns whether a header with this name holds what people write on purpose and no secret. Errors about it are of use
/// only with its value.
fn is_public(name: &str) -> bool {
    let words =
        ["beta", "version", "agent", "accept", "content", "referer", "title", "organization", "project", "region"];
    name.to_ascii_lowercase().split(['-', '_']).any(|word| words.contains(&word))
}

/// Returns whether a header with this name authenticates the caller, so that its value is secret.
pub(crate) fn proves_identity(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.split(['-', '_']).any(|word| {
        matches!(word, "key" | "apikey" | "auth" | "cookie" | "password" | "credential" | "credentials")
            || ["authorization", "token", "secret"].iter().any(|part| word.contains(part))
    })
}
