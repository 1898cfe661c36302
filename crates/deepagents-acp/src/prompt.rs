//! Converts prompts to messages for the model.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deepagents::core::message::{Media, MediaKind, MediaSource, UserMessage, is_text_type, media_type_of};
use deepagents::{Block, Message};

use crate::wire;

/// Maximum sizes of an image and of a document, in bytes. Providers refuse larger ones.
const MAX_IMAGE_BYTES: usize = 5 << 20;
const MAX_DOCUMENT_BYTES: usize = 10 << 20;

/// Converts the blocks of a prompt to a message. Files in the session's directory get the paths that the agent's tools
/// use.
pub(crate) fn message(blocks: Vec<wire::ContentBlock>, root: &Path) -> Result<Message, wire::Error> {
    let blocks = blocks.into_iter().map(|block| self::block(block, root));
    let content = blocks.collect::<Result<Vec<Block>, wire::Error>>()?;
    let says_something = |block: &Block| block.as_text().is_none_or(|text| !text.trim().is_empty());
    if !content.iter().any(says_something) {
        return Err(wire::invalid("the prompt is empty"));
    }
    Ok(Message::User(UserMessage { content, ..UserMessage::default() }))
}

fn block(block: wire::ContentBlock, root: &Path) -> Result<Block, wire::Error> {
    match block {
        wire::ContentBlock::Text(text) => Ok(Block::text(text.text)),
        wire::ContentBlock::ResourceLink(link) => {
            let name = if link.name.is_empty() { link.uri.as_str() } else { &link.name };
            Ok(Block::text(format!("[{}]({})", one_line(name), place(&link.uri, root))))
        }
        wire::ContentBlock::Resource(resource) => embedded(resource.resource, root),
        wire::ContentBlock::Image(image) => picture(&image),
        wire::ContentBlock::Audio(_) => {
            Err(wire::invalid("audio is not accepted: promptCapabilities.audio is not offered"))
        }
        _ => Err(wire::invalid("this kind of content is not known")),
    }
}

/// Converts an embedded resource, with its path or URI.
fn embedded(resource: wire::EmbeddedResourceResource, root: &Path) -> Result<Block, wire::Error> {
    match resource {
        wire::EmbeddedResourceResource::TextResourceContents(text) => {
            Ok(embedded_text(&place(&text.uri, root), &text.text))
        }
        wire::EmbeddedResourceResource::BlobResourceContents(blob) => {
            let mime = blob.mime_type.as_deref().unwrap_or_default().to_ascii_lowercase();
            let mime = one_line(mime.split(';').next().unwrap_or_default());
            let (name, bytes) = (place(&blob.uri, root), bytes(&blob.blob, &mime)?);
            if is_text_type(&mime)
                && let Ok(text) = std::str::from_utf8(&bytes)
            {
                return Ok(embedded_text(&name, text));
            }
            match media_type_of(&bytes).filter(|_| !is_text_type(&mime)) {
                Some(found) => medium(found, &bytes, Some(name)),
                None if mime.starts_with("image/") || mime == "application/pdf" => {
                    Err(wire::invalid(format!("{name} is not {mime}: models take PNG, JPEG, GIF, WebP and PDF")))
                }
                None => {
                    let kind = if mime.is_empty() { "binary data" } else { &mime };
                    Ok(Block::text(format!("[{name}: {kind}, which cannot be shown]")))
                }
            }
        }
        _ => Err(wire::invalid("this kind of embedded resource is not known")),
    }
}

/// Returns a text block with its path or URI. The fence is longer than any in the text, so that the text cannot end it.
fn embedded_text(name: &str, text: &str) -> Block {
    let fence = fence(text);
    Block::text(format!("{name}:\n{fence}\n{text}\n{fence}"))
}

/// Converts an image. Its bytes determine the type, not the editor: a provider refuses every request of a conversation
/// that holds a mislabelled image.
fn picture(image: &wire::ImageContent) -> Result<Block, wire::Error> {
    let bytes = bytes(&image.data, &image.mime_type)?;
    match media_type_of(&bytes).filter(|found| found.starts_with("image/")) {
        Some(found) => medium(found, &bytes, None),
        None => {
            let called = one_line(&image.mime_type);
            Err(wire::invalid(format!(
                "pictures must be PNG, JPEG, GIF or WebP; one of type `{called}` is none of these"
            )))
        }
    }
}

fn medium(mime: &str, bytes: &[u8], name: Option<String>) -> Result<Block, wire::Error> {
    let (kind, most) = if mime.starts_with("image/") {
        (MediaKind::Image, MAX_IMAGE_BYTES)
    } else {
        (MediaKind::File, MAX_DOCUMENT_BYTES)
    };
    if bytes.len() > most {
        let size = bytes.len() >> 20;
        return Err(wire::invalid(format!(
            "a block of {mime} has {size} MiB; at most {} MiB are accepted",
            most >> 20
        )));
    }
    let source = MediaSource::Base64(STANDARD.encode(bytes));
    Ok(Block::Media(Media { kind, mime: mime.to_owned(), source, name }))
}

/// Decodes base64, which is often wrapped.
fn bytes(data: &str, mime: &str) -> Result<Vec<u8>, wire::Error> {
    let data: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let wrong = |_| wire::invalid(format!("the data of a block of `{}` is not base64", one_line(mime)));
    STANDARD.decode(&data).map_err(wrong)
}

/// Returns a run of backticks longer than any in a text.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).fold(2, usize::max);
    "`".repeat(longest + 1)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the path by which the agent's tools know the file at a URI. Other URIs stay as they are.
fn place(uri: &str, root: &Path) -> String {
    let uri = one_line(uri);
    let path = uri.strip_prefix("file://").map_or_else(|| uri.clone(), |path| decoded(without_host(path)));
    // The fragment gives the line numbers.
    let (path, lines) = path.split_once('#').map_or((path.as_str(), ""), |(path, lines)| (path, lines));
    let Ok(inside) = Path::new(path).strip_prefix(root) else { return uri };
    let Some(inside) = inside.to_str() else { return uri };
    let lines = if lines.is_empty() { String::new() } else { format!("#{lines}") };
    format!("/{inside}{lines}")
}

/// Strips `localhost` from what follows `file://`.
fn without_host(path: &str) -> &str {
    path.strip_prefix("localhost").filter(|path| path.starts_with('/')).unwrap_or(path)
}

/// Decodes percent escapes. A path that is then not valid UTF-8 stays as it is.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| (byte as char).to_digit(16));
        let mut ahead = rest.clone();
        match (byte, digit(ahead.next()), digit(ahead.next())) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(byte));
                rest = ahead;
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_inside_the_session_directory_are_named_by_their_tool_paths() {
        let root = Path::new("/srv/ada/project");
        assert_eq!(place("file:///srv/ada/project/src/a%20b.rs#L3-5", root), "/src/a b.rs#L3-5");
        assert_eq!(place("file://localhost/srv/ada/project/x", root), "/x");
        assert_eq!(place("file://elsewhere/srv/ada/project/x", root), "file://elsewhere/srv/ada/project/x");
        assert_eq!(place("/srv/ada/project/x", root), "/x");
        assert_eq!(place("file:///etc/passwd", root), "file:///etc/passwd");
        assert_eq!(place("https://example.com/%zz", root), "https://example.com/%zz");
    }

    #[test]
    fn embedded_text_cannot_end_its_own_fence() {
        assert_eq!(fence("plain"), "```");
        assert_eq!(fence("a ```` b"), "`````");
    }
}
