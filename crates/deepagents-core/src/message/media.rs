//! Detection of media types.

/// Returns the MIME type of an image or document that models accept, detected by its signature: PNG, JPEG, GIF, WebP or
/// PDF. Returns `None` for anything else, whatever its file name. Providers reject a conversation for as long as it
/// contains bytes that do not match the declared type.
///
/// ```
/// use deepagents_core::message::media_type_of;
/// assert_eq!(media_type_of(b"GIF89a\x01\0\x01\0"), Some("image/gif"));
/// assert_eq!(media_type_of(b"<svg/>"), None);
/// ```
pub fn media_type_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'%', b'P', b'D', b'F', b'-', ..] => Some("application/pdf"),
        _ => None,
    }
}

/// Returns whether a MIME type, in lower case and without parameters, is textual, so that its content can be shown if
/// it is valid UTF-8.
///
/// ```
/// use deepagents_core::message::is_text_type;
/// assert!(is_text_type("text/markdown") && is_text_type("application/problem+json"));
/// assert!(!is_text_type("image/png") && !is_text_type(""));
/// ```
pub fn is_text_type(mime: &str) -> bool {
    let kind = mime.split_once('/').map_or("", |(_, kind)| kind);
    mime.starts_with("text/")
        || ["json", "xml", "yaml", "toml", "javascript"].contains(&kind)
        || ["+json", "+xml", "+yaml"].iter().any(|suffix| kind.ends_with(suffix))
}
