//! Images that a message names: sent along with it.

use std::path::Path;

use base64::Engine;
use deepagents::Message;
use deepagents::core::message::{Block, Media, MediaKind, MediaSource, UserMessage};

use super::Session;
use crate::app::event::Event;
use crate::app::transcript::Picture;
use crate::host::Connection;
use crate::text::grouped;

/// Bytes of an image, and images of a message.
const MOST: u64 = 20 << 20;
const IMAGES: usize = 10;
/// How names of files of images end.
const ENDINGS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

impl Session {
    /// The message of a text, with the images whose files it names: by a path, after `@`, or as a terminal writes what is
    /// dropped on it.
    pub(super) async fn message(&self, connection: &Connection, text: String) -> Message {
        let named = named_images(&text);
        if named.is_empty() {
            return Message::user(text);
        }
        if connection.agent.model().profile().images == Some(false) {
            let told = format!("{} takes no images; they are named to it and not shown", connection.model);
            self.tell(Event::Notice { text: told, bad: true });
            return Message::user(text);
        }
        let root = self.root.clone();
        let read = tokio::task::spawn_blocking(move || read_all(&root, &named)).await;
        let (mut content, mut pictures) = (vec![Block::text(text)], Vec::new());
        for result in read.unwrap_or_default() {
            match result {
                Ok(media) => {
                    pictures.push(Picture::sent(&media));
                    content.push(Block::Media(media));
                }
                Err(problem) => self.tell(Event::Notice { text: problem, bad: true }),
            }
        }
        self.tell(Event::Pictures(pictures));
        Message::User(UserMessage { content, ..UserMessage::default() })
    }
}

/// The paths in a text that end as those of images do.
fn named_images(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in words(text) {
        let word = word.strip_prefix('@').unwrap_or(&word);
        let path = word.strip_prefix("file://").unwrap_or(word).trim_end_matches([',', ';', ':', '.', '?', '!', ')']);
        let ending = Path::new(path).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_web = path.contains("://");
        if !is_web
            && ENDINGS.contains(&ending.to_ascii_lowercase().as_str())
            && !found.iter().any(|known| known == path)
        {
            found.push(path.to_owned());
        }
    }
    found.truncate(IMAGES);
    found
}

/// The words of a text as a shell would take them apart: a backslash or quotes keep a blank in a word.
fn words(text: &str) -> Vec<String> {
    let (mut all, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        match (c, quote) {
            ('\\', _) => word.extend(letters.next()),
            (c, Some(end)) if c == end => quote = None,
            ('"' | '\'', None) if word.is_empty() => quote = Some(c),
            (c, None) if c.is_whitespace() => all.push(std::mem::take(&mut word)),
            (c, _) => word.push(c),
        }
    }
    all.push(word);
    all.retain(|word| !word.is_empty());
    all
}

/// The images of those files that are there.
fn read_all(root: &Path, named: &[String]) -> Vec<Result<Media, String>> {
    named.iter().filter_map(|name| read(&root.join(name), name).transpose()).collect()
}

/// An image; nothing where there is no such file, which is then a word like any other.
fn read(file: &Path, name: &str) -> Result<Option<Media>, String> {
    let Ok(about) = std::fs::metadata(file) else { return Ok(None) };
    if !about.is_file() {
        return Ok(None);
    }
    if about.len() > MOST {
        return Err(format!("{name} is not sent along: it has more than {} MB", MOST >> 20));
    }
    let bytes = std::fs::read(file).map_err(|error| format!("{name} is not sent along: {error}"))?;
    let mime = mime(&bytes).ok_or_else(|| format!("{name} is not sent along: it is no PNG, JPEG, GIF or WebP"))?;
    let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
    let short = file.file_name().and_then(|name| name.to_str()).unwrap_or(name).to_owned();
    Ok(Some(Media {
        kind: MediaKind::Image,
        mime: mime.to_owned(),
        source: MediaSource::Base64(data),
        name: Some(short),
    }))
}

/// What an image is, by how it begins.
fn mime(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// An image in words: its name, what it is, how large.
pub(crate) fn described(media: &Media) -> String {
    let name = media.name.as_deref().unwrap_or("without a name");
    match &media.source {
        MediaSource::Base64(data) => {
            let bytes = data.len() / 4 * 3;
            format!("{name} ({}, {} kB)", media.mime, grouped(u64::try_from(bytes.div_ceil(1_000)).unwrap_or(0)))
        }
        _ => format!("{name} ({})", media.mime),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_images_are_found_however_they_are_written() {
        let text =
            "see @shot.png, '/tmp/My Pic.JPG' and /tmp/a\\ b.gif or file:///x/y.webp (not https://e.org/z.png) x.txt";
        assert_eq!(named_images(text), ["shot.png", "/tmp/My Pic.JPG", "/tmp/a b.gif", "/x/y.webp"]);
        assert!(named_images("it's a test of don't").is_empty());
    }
}
