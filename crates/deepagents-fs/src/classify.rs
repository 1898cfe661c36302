//! Detects the kind of a file's content.

use crate::VPath;

/// Kind of a file's content, which decides how it is shown to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContentKind {
    /// UTF-8 text.
    Text,
    /// An image.
    Image,
    /// Audio.
    Audio,
    /// Video.
    Video,
    /// A document that some models read natively: PDF or one of an office suite.
    Document,
    /// Anything else.
    Binary,
}

/// Number of leading bytes inspected to tell text from other content.
pub const SNIFFED: usize = 8192;

/// Returns the kind and MIME type of a file. The signature in its first bytes decides, so that an image with the wrong
/// extension is recognised; then whether the content is text, whatever its extension; then the extension.
///
/// `head` is the start of the content ([`SNIFFED`] bytes are enough). `whole` says whether it is all of the content: a
/// character truncated at the end of a partial `head` does not count as binary.
///
/// ```
/// use deepagents_fs::{ContentKind, VPath, classify};
/// let path = VPath::parse("/logo.PNG")?;
/// assert_eq!(classify::classify(&path, b"\x89PNG", true), (ContentKind::Image, "image/png"));
/// # Ok::<(), deepagents_fs::PathError>(())
/// ```
pub fn classify(path: &VPath, head: &[u8], whole: bool) -> (ContentKind, &'static str) {
    let text = is_text(head, whole);
    let named = by_extension(path);
    // Text may start with the bytes of a signature, so for text the signature counts only if the extension is a media
    // type too.
    if let Some(known) = by_signature(head).filter(|_| !text || named.is_some()) {
        return known;
    }
    match named {
        // A model's provider refuses text that is declared as an image, such as a Git LFS pointer or an error page.
        _ if text => (ContentKind::Text, text_type(path)),
        Some(named) => named,
        None => (ContentKind::Binary, "application/octet-stream"),
    }
}

fn text_type(path: &VPath) -> &'static str {
    if path.extension().as_deref() == Some("csv") { "text/csv" } else { "text/plain" }
}

/// Returns the kind and MIME type for an extension; `None` for text and unknown extensions.
pub fn by_extension(path: &VPath) -> Option<(ContentKind, &'static str)> {
    use ContentKind::{Audio, Document, Image, Video};
    Some(match path.extension()?.as_str() {
        "png" => (Image, "image/png"),
        "jpg" | "jpeg" => (Image, "image/jpeg"),
        "webp" => (Image, "image/webp"),
        "gif" => (Image, "image/gif"),
        "heic" => (Image, "image/heic"),
        "heif" => (Image, "image/heif"),
        "mp4" => (Video, "video/mp4"),
        "mpeg" | "mpg" => (Video, "video/mpeg"),
        "mov" => (Video, "video/quicktime"),
        "avi" => (Video, "video/x-msvideo"),
        "flv" => (Video, "video/x-flv"),
        "webm" => (Video, "video/webm"),
        "wmv" => (Video, "video/x-ms-wmv"),
        "3gp" | "3gpp" => (Video, "video/3gpp"),
        "mkv" => (Video, "video/x-matroska"),
        "wav" => (Audio, "audio/wav"),
        "mp3" => (Audio, "audio/mpeg"),
        "aiff" => (Audio, "audio/aiff"),
        "aac" => (Audio, "audio/aac"),
        "ogg" => (Audio, "audio/ogg"),
        "flac" => (Audio, "audio/flac"),
        "pdf" => (Document, "application/pdf"),
        "doc" => (Document, "application/msword"),
        "docx" => (Document, "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        "xls" => (Document, "application/vnd.ms-excel"),
        "xlsx" => (Document, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        "ppt" => (Document, "application/vnd.ms-powerpoint"),
        "pptx" => (Document, "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
        _ => return None,
    })
}

/// Returns whether content is text: valid UTF-8 without NUL.
pub fn is_text(head: &[u8], whole: bool) -> bool {
    let head = head.get(..SNIFFED).unwrap_or(head);
    if is_binary(head) {
        return false;
    }
    match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && (!whole || head.len() == SNIFFED),
    }
}

/// Returns whether a search skips the content as binary: there is a NUL in its first [`SNIFFED`] bytes.
pub fn is_binary(head: &[u8]) -> bool {
    memchr::memchr(0, head.get(..SNIFFED).unwrap_or(head)).is_some()
}

/// Converts two bytes to a unit of UTF-16.
pub(crate) type Utf16Unit = fn([u8; 2]) -> u16;

/// Length of the byte-order mark of UTF-16.
pub(crate) const UTF16_BOM_BYTES: usize = 2;

/// Returns the byte order of content that starts with the byte-order mark of UTF-16.
fn utf16_unit(content: &[u8]) -> Option<Utf16Unit> {
    match content {
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
        _ => None,
    }
}

/// Returns the byte order of UTF-16 content from its beginning. Returns `None` if it has no byte-order mark or is not
/// valid text.
pub(crate) fn utf16_beginning(head: &[u8]) -> Option<Utf16Unit> {
    let unit = utf16_unit(head)?;
    let units = head.as_chunks().0.iter().skip(1).map(|bytes| unit(*bytes));
    let mut chars = char::decode_utf16(units).peekable();
    while let Some(c) = chars.next() {
        // The last character may be incomplete.
        if matches!(c, Ok('\0')) || c.is_err() && chars.peek().is_some() {
            return None;
        }
    }
    Some(unit)
}

/// Decodes UTF-16 content that starts with a byte-order mark. Returns `None` if it has no such mark or is not valid
/// text.
pub fn utf16_text(content: &[u8]) -> Option<String> {
    let unit = utf16_unit(content)?;
    let (units, rest) = content.as_chunks::<2>();
    let units = units.iter().skip(1).map(|bytes| unit(*bytes));
    let text = char::decode_utf16(units).collect::<Result<String, _>>().ok()?;
    (rest.is_empty() && !text.is_empty() && !text.contains('\0')).then_some(text)
}

/// Returns whether content that is not UTF-8 looks like text in a legacy encoding: it has no control characters that
/// text does not contain.
pub fn is_older_text(head: &[u8]) -> bool {
    let head = head.get(..SNIFFED).unwrap_or(head);
    !head.iter().any(|byte| matches!(byte, 0..=7 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f))
}

fn by_signature(head: &[u8]) -> Option<(ContentKind, &'static str)> {
    use ContentKind::{Audio, Document, Image, Video};
    let at = |offset: usize, mark: &[u8]| head.get(offset..).is_some_and(|rest| rest.starts_with(mark));
    Some(match () {
        () if at(0, b"\x89PNG\r\n\x1a\n") => (Image, "image/png"),
        () if at(0, b"\xff\xd8\xff") => (Image, "image/jpeg"),
        () if at(0, b"GIF87a") || at(0, b"GIF89a") => (Image, "image/gif"),
        () if at(0, b"RIFF") && at(8, b"WEBP") => (Image, "image/webp"),
        () if at(0, b"RIFF") && at(8, b"WAVE") => (Audio, "audio/wav"),
        () if at(0, b"fLaC") => (Audio, "audio/flac"),
        () if at(0, b"OggS") => (Audio, "audio/ogg"),
        () if at(0, b"ID3") => (Audio, "audio/mpeg"),
        () if at(4, b"ftyphei") || at(4, b"ftyphev") => (Image, "image/heic"),
        () if at(4, b"ftypmif1") || at(4, b"ftypmsf1") => (Image, "image/heif"),
        () if at(4, b"ftypqt") => (Video, "video/quicktime"),
        () if at(4, b"ftyp3gp") => (Video, "video/3gpp"),
        () if at(4, b"ftyp") => (Video, "video/mp4"),
        () if at(0, b"\x1aE\xdf\xa3") => {
            let kind = head.get(..64).unwrap_or(head);
            let webm = memchr::memmem::find(kind, b"webm").is_some();
            (Video, if webm { "video/webm" } else { "video/x-matroska" })
        }
        () if at(0, b"%PDF-") => (Document, "application/pdf"),
        () => return None,
    })
}
