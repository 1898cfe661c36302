//! Attaches the images that a message names.

use std::path::Path;

use base64::Engine;
use deepagents::Message;
use deepagents::core::message::{Block, Media, MediaKind, MediaSource, UserMessage, media_type_of};

use super::Session;
use crate::app::event::Event;
use crate::app::transcript::Picture;
use crate::host::Connection;
use crate::text::grouped;

/// Maximum bytes of an image, and maximum images per message.
const MAX_IMAGE_BYTES: u64 = 20 << 20;
const MAX_IMAGES: usize = 10;
/// Maximum number of paths that are looked up, and of words in a path with spaces.
const MAX_PATHS: usize = 40;
const MAX_PATH_WORDS: usize = 12;
/// File extensions of images.
const ENDINGS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];
/// Prefixes by which a path is recognised.
const BEGINNINGS: [&str; 5] = ["/", "~/", "./", "../", "file://"];
/// Characters that may enclose or follow a path in a sentence.
const OPENING: [char; 7] = ['(', '[', '{', '<', '`', '"', '\''];
const CLOSING: [char; 13] = [')', ']', '}', '>', '`', '"', '\'', ',', ';', ':', '.', '?', '!'];

impl Session {
    /// Builds the message for a text and attaches the images that it names: by a path, after `@`, or as a terminal
    /// writes files dropped on it. Returns it with the pictures that show them.
    pub(super) async fn message(&self, connection: &Connection, text: String) -> (Message, Vec<Picture>) {
        let named = named_images(&text);
        if named.is_empty() {
            return (Message::user(text), Vec::new());
        }
        if connection.agent.model().profile().images == Some(false) {
            let told = format!("{} does not accept images; it gets only their names", connection.model);
            self.emit(Event::problem(told));
            return (Message::user(text), Vec::new());
        }
        let (root, home) = (self.root.clone(), self.home.clone());
        let read = tokio::task::spawn_blocking(move || read_all(&root, home.as_deref(), &named)).await;
        let (mut content, mut pictures) = (vec![Block::text(text)], Vec::new());
        for result in read.unwrap_or_default() {
            match result {
                Ok(media) => {
                    pictures.push(Picture::sent(&media));
                    content.push(Block::Media(media));
                }
                Err(problem) => self.emit(Event::problem(problem)),
            }
        }
        (Message::User(UserMessage { content, ..UserMessage::default() }), pictures)
    }

    pub(super) fn show_pictures(&self, pictures: Vec<Picture>) {
        if !pictures.is_empty() {
            self.emit(Event::Pictures(pictures));
        }
    }
}

/// Returns whether a text may name images.
pub(super) fn names_images(text: &str) -> bool {
    !named_images(text).is_empty()
}

/// Returns the paths in a text that have the extension of an image. Does not check whether they exist.
fn named_images(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in shell_words(text).into_iter().chain(with_blanks(text)) {
        let word = word.trim_start_matches(OPENING);
        let word = word.strip_prefix('@').unwrap_or(word).trim_start_matches(OPENING).trim_end_matches(CLOSING);
        let path = match word.strip_prefix("file://") {
            Some(path) => decoded(path.strip_prefix("localhost").unwrap_or(path)),
            None => word.to_owned(),
        };
        let is_web = path.contains("://");
        if !is_web && is_image(&path) && !found.contains(&path) {
            found.push(path);
        }
    }
    found.truncate(MAX_PATHS);
    found
}

fn is_image(path: &str) -> bool {
    let ending = Path::new(path).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ENDINGS.contains(&ending.to_ascii_lowercase().as_str())
}

/// Splits a text into words as a shell does: quotes or a backslash keep a space in a word.
fn shell_words(text: &str) -> Vec<String> {
    let (mut all, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        match (c, quote) {
            ('\\', _) => word.extend(letters.next()),
            (c, Some(end)) if c == end => quote = None,
            // An unclosed quote is an ordinary character.
            ('"' | '\'' | '`', None) if word.chars().all(opens) && letters.clone().any(|other| other == c) => {
                quote = Some(c);
            }
            (c, None) if c.is_whitespace() => all.push(std::mem::take(&mut word)),
            (c, _) => word.push(c),
        }
    }
    all.push(word);
    all.retain(|word| !word.is_empty());
    all
}

/// Returns whether a character may precede a quote in a word.
fn opens(c: char) -> bool {
    c == '@' || OPENING.contains(&c)
}

/// Returns pasted paths with unescaped spaces: from the prefix of a path to the first extension of an image.
fn with_blanks(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let starts = line.char_indices().filter(|(at, c)| {
            let rest = line.get(*at..).unwrap_or_default();
            let is_start = line.get(..*at).unwrap_or_default().chars().next_back().is_none_or(char::is_whitespace);
            is_start && !c.is_whitespace() && BEGINNINGS.iter().any(|begin| rest.starts_with(begin))
        });
        for (start, _) in starts {
            let rest = line.get(start..).unwrap_or_default();
            let ends = rest.char_indices().filter(|(_, c)| c.is_whitespace()).map(|(at, _)| at).chain([rest.len()]);
            let parts = ends.take(MAX_PATH_WORDS).filter_map(|end| rest.get(..end));
            found.extend(
                parts
                    .map(|part| part.trim_end_matches(CLOSING))
                    .find(|part| is_image(part))
                    // A path with escaped spaces is found among the words.
                    .filter(|part| !part.contains('\\'))
                    .map(str::to_owned),
            );
        }
    }
    found
}

/// Decodes the percent-encoding of a URL's path.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let mut ahead = rest.clone();
        let digits = [ahead.next(), ahead.next()].map(|byte| byte.and_then(|byte| char::from(byte).to_digit(16)));
        match (byte, digits) {
            (b'%', [Some(high), Some(low)]) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                rest = ahead;
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads those of the named images that exist.
fn read_all(root: &Path, home: Option<&Path>, named: &[String]) -> Vec<Result<Media, String>> {
    let place = |name: &String| match (name.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => root.join(name),
    };
    named.iter().filter_map(|name| read(&place(name), name).transpose()).take(MAX_IMAGES).collect()
}

/// Reads an image. Returns `None` if there is no such file, so that the name is an ordinary word.
fn read(file: &Path, name: &str) -> Result<Option<Media>, String> {
    let Ok(about) = std::fs::metadata(file) else { return Ok(None) };
    if !about.is_file() {
        return Ok(None);
    }
    if about.len() > MAX_IMAGE_BYTES {
        return Err(format!("{name} is not sent: it is larger than {} MB", MAX_IMAGE_BYTES >> 20));
    }
    let bytes = std::fs::read(file).map_err(|error| format!("{name} is not sent: {error}"))?;
    let mime = media_type_of(&bytes)
        .filter(|mime| mime.starts_with("image/"))
        .ok_or_else(|| format!("{name} is not sent: it is not a PNG, JPEG, GIF or WebP"))?;
    let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
    let short = file.file_name().and_then(|name| name.to_str()).unwrap_or(name).to_owned();
    Ok(Some(Media {
        kind: MediaKind::Image,
        mime: mime.to_owned(),
        source: MediaSource::Base64(data),
        name: Some(short),
    }))
}

/// Describes an image by its name, type and size.
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
    fn image_paths_are_found_however_they_are_written() {
        let text =
            "see @shot.png, '/tmp/My Pic.JPG' and /tmp/a\\ b.gif or file:///x/y.webp (not https://e.org/z.png) x.txt";
        assert_eq!(named_images(text), ["shot.png", "/tmp/My Pic.JPG", "/tmp/a b.gif", "/x/y.webp"]);
        assert!(named_images("it's a test of don't").is_empty());
        let text = "(a.png) `b.png` [c.png] \"d e.png\" @\"f g.png\" ~/h.png";
        assert_eq!(named_images(text), ["a.png", "b.png", "c.png", "d e.png", "f g.png", "~/h.png"]);
        assert_eq!(named_images("file:///my%20docs/pic%20one.png"), ["/my docs/pic one.png"]);
        assert!(named_images("see /my docs/pic one.png now").contains(&"/my docs/pic one.png".to_owned()));
        assert_eq!(named_images("an 'open quote and a.png"), ["a.png"]);
    }
}
