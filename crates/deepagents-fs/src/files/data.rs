//! A file in the state, and its JSON form.

use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::Version;

/// Content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// UTF-8 text.
    Text(String),
    /// Other bytes.
    Binary(Vec<u8>),
}

impl Content {
    /// Creates text if the bytes are UTF-8, binary content otherwise.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Binary(bytes.to_vec()),
        }
    }

    /// Returns the content as bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }
}

/// A file.
#[derive(Clone, Debug)]
pub struct FileData {
    content: Content,
    created_at: Option<String>,
    modified_at: Option<String>,
    version: OnceLock<Version>,
}

impl FileData {
    /// Creates a file without timestamps.
    pub fn new(content: Content) -> Self {
        Self { content, created_at: None, modified_at: None, version: OnceLock::new() }
    }

    /// Creates the file that a write at `at` produces, given the file it replaces.
    pub fn written(bytes: &[u8], at: Timestamp, before: Option<&Self>) -> Self {
        let at = format!("{at:.6}");
        let created_at = before.and_then(|file| file.created_at.clone()).or_else(|| Some(at.clone()));
        Self { created_at, modified_at: Some(at), ..Self::new(Content::from_bytes(bytes)) }
    }

    /// Returns the content.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Returns the time of the first write, in RFC 3339.
    pub fn created_at(&self) -> Option<&str> {
        self.created_at.as_deref()
    }

    /// Returns the time of the last write, in RFC 3339.
    pub fn modified_at(&self) -> Option<&str> {
        self.modified_at.as_deref()
    }

    /// Returns the version of the content.
    pub fn version(&self) -> &Version {
        self.version.get_or_init(|| Version::from_content(self.content.bytes()))
    }

    pub(crate) fn modified(&self) -> Option<Timestamp> {
        self.modified_at.as_deref().and_then(|at| at.parse().ok())
    }
}

impl PartialEq for FileData {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content && self.created_at == other.created_at && self.modified_at == other.modified_at
    }
}

/// Returns the bytes of a file in the state without copying them.
pub(crate) fn shared_bytes(file: &Arc<FileData>) -> Bytes {
    struct Owner(Arc<FileData>);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            self.0.content.bytes()
        }
    }
    Bytes::from_owner(Owner(file.clone()))
}

impl Serialize for FileData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (content, encoding) = match &self.content {
            Content::Text(text) => (text.as_str().into(), "utf-8"),
            Content::Binary(bytes) => (STANDARD.encode(bytes).into(), "base64"),
        };
        let (created_at, modified_at) = (self.created_at(), self.modified_at());
        Record { content, encoding, created_at, modified_at }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FileData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[derive(Serialize)]
struct Record<'a> {
    content: std::borrow::Cow<'a, str>,
    encoding: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_at: Option<&'a str>,
}

fn parse(json: Value) -> Result<FileData, String> {
    let mut record = match json {
        Value::String(text) => return Ok(FileData::new(Content::Text(text))),
        Value::Object(record) => record,
        _ => return Err("a file is a text or an object with `content`".to_owned()),
    };
    let text = match record.remove("content") {
        Some(Value::String(text)) => text,
        Some(Value::Array(lines)) => {
            let lines: Option<Vec<&str>> = lines.iter().map(Value::as_str).collect();
            lines.ok_or("the lines of a file's `content` must be texts")?.join("\n")
        }
        _ => return Err("a file's `content` must be a text or a list of lines".to_owned()),
    };
    let content = match record.get("encoding") {
        None | Some(Value::Null) => Content::Text(text),
        Some(Value::String(name)) if name == "utf-8" => Content::Text(text),
        Some(Value::String(name)) if name == "base64" => {
            Content::Binary(STANDARD.decode(&text).map_err(|error| format!("a file's base64 content: {error}"))?)
        }
        Some(other) => return Err(format!("a file's `encoding` must be \"utf-8\" or \"base64\", not {other}")),
    };
    let mut date = |key: &str| match record.remove(key) {
        Some(Value::String(date)) => Ok(Some(date)),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(format!("a file's `{key}` must be a text")),
    };
    let (created_at, modified_at) = (date("created_at")?, date("modified_at")?);
    Ok(FileData { created_at, modified_at, ..FileData::new(content) })
}
