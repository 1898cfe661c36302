//! Media as content parts.

use deepagents_core::message::{Media, MediaKind, MediaSource};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A medium as a part of a user's content.
pub(super) struct MediaPart<'a>(pub(super) &'a Media);

/// One field, written as an object.
struct One<K, V>(K, V);

impl<K: Serialize, V: Serialize> Serialize for One<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(&self.0, &self.1)])
    }
}

/// Where the bytes are, as one text: an address or the bytes themselves.
struct Address<'a>(&'a Media);

impl Serialize for Address<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.source {
            MediaSource::Base64(data) => serializer.collect_str(&format_args!("data:{};base64,{data}", self.0.mime)),
            MediaSource::Url(url) => serializer.serialize_str(url),
            _ => Err(serde::ser::Error::custom("only documents can be named by the id of an uploaded file here")),
        }
    }
}

impl Serialize for MediaPart<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let media = self.0;
        let mut map = serializer.serialize_map(None)?;
        match (media.kind, &media.source) {
            (MediaKind::Image, _) => {
                map.serialize_entry("type", "image_url")?;
                map.serialize_entry("image_url", &One("url", Address(media)))?;
            }
            (MediaKind::Video, _) => {
                map.serialize_entry("type", "video_url")?;
                map.serialize_entry("video_url", &One("url", Address(media)))?;
            }
            (MediaKind::Audio, MediaSource::Base64(data)) => {
                let format = if media.mime.ends_with("wav") || media.mime.ends_with("wave") { "wav" } else { "mp3" };
                map.serialize_entry("type", "input_audio")?;
                map.serialize_entry("input_audio", &serde_json::json!({"data": data, "format": format}))?;
            }
            (MediaKind::File, MediaSource::FileId(id)) => {
                map.serialize_entry("type", "file")?;
                map.serialize_entry("file", &One("file_id", id))?;
            }
            (MediaKind::File, _) => {
                map.serialize_entry("type", "file")?;
                map.serialize_entry("file", &File(media))?;
            }
            _ => return Err(serde::ser::Error::custom(format!("{} content cannot be sent this way", media.mime))),
        }
        map.end()
    }
}

struct File<'a>(&'a Media);

impl Serialize for File<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("filename", self.0.name.as_deref().unwrap_or("document.pdf"))?;
        map.serialize_entry("file_data", &Address(self.0))?;
        map.end()
    }
}
