//! What a person sends, as a message for the model.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deepagents::core::message::{Media, MediaKind, MediaSource, UserMessage};
use deepagents::{Block, Message};

use crate::wire;

/// Pictures that models take.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The message that blocks of a prompt make. Files below the session's directory are named as the agent's tools name them.
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
        wire::ContentBlock::Image(image) => media(MediaKind::Image, &image.mime_type, image.data, None),
        wire::ContentBlock::Audio(_) => {
            Err(wire::invalid("sound is not taken: promptCapabilities.audio is not offered"))
        }
        _ => Err(wire::invalid("this kind of content is not known")),
    }
}

/// What is embedded, with its address.
fn embedded(resource: wire::EmbeddedResourceResource, root: &Path) -> Result<Block, wire::Error> {
    match resource {
        wire::EmbeddedResourceResource::TextResourceContents(text) => {
            // Fences of its own, so that the text cannot pass for what comes after it.
            let fence = fence(&text.text);
            Ok(Block::text(format!("{}:\n{fence}\n{}\n{fence}", place(&text.uri, root), text.text)))
        }
        wire::EmbeddedResourceResource::BlobResourceContents(blob) => {
            let mime = blob.mime_type.as_deref().unwrap_or_default().to_ascii_lowercase();
            let name = Some(place(&blob.uri, root));
            match mime.as_str() {
                "application/pdf" => media(MediaKind::File, &mime, blob.blob, name),
                image if IMAGES.contains(&image) => media(MediaKind::Image, image, blob.blob, name),
                _ => {
                    let kind = if mime.is_empty() { "binary data" } else { &mime };
                    Ok(Block::text(format!("[{}: {kind}, which cannot be shown]", place(&blob.uri, root))))
                }
            }
        }
        _ => Err(wire::invalid("this kind of embedded resource is not known")),
    }
}

fn media(kind: MediaKind, mime: &str, mut data: String, name: Option<String>) -> Result<Block, wire::Error> {
    let mime = mime.to_ascii_lowercase();
    if kind == MediaKind::Image && !IMAGES.contains(&mime.as_str()) {
        return Err(wire::invalid(format!("pictures are {}, not `{mime}`", IMAGES.join(", "))));
    }
    // Base64 is often broken into lines, which providers refuse.
    data.retain(|c| !c.is_ascii_whitespace());
    match STANDARD.decode(&data) {
        Ok(bytes) if !bytes.is_empty() => {
            Ok(Block::Media(Media { kind, mime, source: MediaSource::Base64(data), name }))
        }
        Ok(_) => Err(wire::invalid(format!("a block of {mime} has no data"))),
        Err(_) => Err(wire::invalid(format!("the data of a block of {mime} is not base64"))),
    }
}

/// A run of backquotes that is not in a text.
fn fence(text: &str) -> String {
    let mut longest = 2;
    for run in text.split(|c| c != '`') {
        longest = longest.max(run.len());
    }
    "`".repeat(longest + 1)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An address, as the agent's tools name the file that it leads to, if it is one of the session's directory.
fn place(uri: &str, root: &Path) -> String {
    let uri = one_line(uri);
    let path = uri.strip_prefix("file://").map_or_else(|| uri.clone(), decoded);
    // A fragment says which lines are meant.
    let (path, lines) = path.split_once('#').map_or((path.as_str(), ""), |(path, lines)| (path, lines));
    let Ok(inside) = Path::new(path).strip_prefix(root) else { return uri };
    let Some(inside) = inside.to_str() else { return uri };
    let lines = if lines.is_empty() { String::new() } else { format!("#{lines}") };
    format!("/{inside}{lines}")
}

/// A path with its percent escapes resolved; one that makes no sense stays as it is.
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
    fn files_of_the_session_are_named_as_its_tools_name_them() {
        let root = Path::new("/srv/ada/project");
        assert_eq!(place("file:///srv/ada/project/src/a%20b.rs#L3-5", root), "/src/a b.rs#L3-5");
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
