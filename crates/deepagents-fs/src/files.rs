//! Files inside a thread's state: the `files` channel.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use deepagents_core::state::{Channel, ChannelError, Merge, Sharing, Update};
use jiff::Timestamp;
use rpds::RedBlackTreeMapSync;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{PathError, VPath, Version};

/// The channel of files kept in the state, as a map from path to file.
///
/// Its JSON is an object of paths to records `{content, encoding, created_at, modified_at}`, `encoding` being `utf-8`
/// or `base64`; plain text and records with a list of lines are read too. An update names the paths that change;
/// `null` deletes one. A sub-agent gets the files of its parent and hands back what it changed.
#[derive(Debug)]
pub struct Files;

/// The value of the channel: files in order of path. Cloning it costs one reference count.
#[derive(Clone, Default, PartialEq)]
pub struct FileMap {
    files: RedBlackTreeMapSync<VPath, Arc<FileData>>,
}

/// Changes to files: a file to put there, or none to delete it.
pub type FilesUpdate = BTreeMap<VPath, Option<Arc<FileData>>>;

/// One file.
#[derive(Clone, Debug)]
pub struct FileData {
    content: Content,
    created_at: Option<String>,
    modified_at: Option<String>,
    version: OnceLock<Version>,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// UTF-8 text.
    Text(String),
    /// Other bytes.
    Binary(Vec<u8>),
}

impl Content {
    /// Text if the bytes are UTF-8.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Binary(bytes.to_vec()),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }
}

impl FileData {
    /// A file without dates.
    pub fn new(content: Content) -> Self {
        Self { content, created_at: None, modified_at: None, version: OnceLock::new() }
    }

    /// The file that a write at a time leaves, given the one it replaces.
    pub fn written(bytes: &[u8], at: Timestamp, before: Option<&Self>) -> Self {
        let at = format!("{at:.6}");
        let created_at = before.and_then(|file| file.created_at.clone()).or_else(|| Some(at.clone()));
        Self { created_at, modified_at: Some(at), ..Self::new(Content::from_bytes(bytes)) }
    }

    /// What it holds.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// When it was first written, RFC 3339.
    pub fn created_at(&self) -> Option<&str> {
        self.created_at.as_deref()
    }

    /// When it was last written, RFC 3339.
    pub fn modified_at(&self) -> Option<&str> {
        self.modified_at.as_deref()
    }

    /// The version of its content.
    pub fn version(&self) -> &Version {
        self.version.get_or_init(|| Version::from_content(self.content.bytes()))
    }

    pub(crate) fn modified(&self) -> Option<Timestamp> {
        self.modified_at.as_deref().and_then(|at| at.parse().ok())
    }

    fn same_content(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

impl PartialEq for FileData {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content && self.created_at == other.created_at && self.modified_at == other.modified_at
    }
}

/// The bytes of a file in the state, shared with it.
pub(crate) fn shared_bytes(file: &Arc<FileData>) -> Bytes {
    struct Owner(Arc<FileData>);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            self.0.content.bytes()
        }
    }
    Bytes::from_owner(Owner(file.clone()))
}

impl Files {
    /// The update that puts these files into the state, such as those that a run is given. Each replaces what is at its path,
    /// and has no dates.
    ///
    /// ```
    /// use deepagents_core::run::RunInput;
    /// use deepagents_fs::Files;
    /// let input = RunInput::new("Mend the notes.").update(Files::put([("/notes.md", "Three brids.")])?);
    /// # Ok::<(), deepagents_fs::PathError>(())
    /// ```
    ///
    /// # Errors
    /// When a path is none of the state: it climbs with `..`, or begins with `~` or a drive letter.
    pub fn put<P, C>(files: impl IntoIterator<Item = (P, C)>) -> Result<Update, PathError>
    where
        P: AsRef<str>,
        C: AsRef<[u8]>,
    {
        let put = |(path, content): (P, C)| {
            let file = FileData::new(Content::from_bytes(content.as_ref()));
            Ok((VPath::parse(path.as_ref())?, Some(Arc::new(file))))
        };
        Ok(Update::new::<Self>(files.into_iter().map(put).collect::<Result<FilesUpdate, PathError>>()?))
    }
}

impl FileMap {
    /// The text of the file at a path; none where there is no file or it holds other bytes.
    ///
    /// ```
    /// use deepagents_core::run::Outcome;
    /// use deepagents_fs::Files;
    /// fn report(outcome: &Outcome) -> Option<&str> {
    ///     outcome.state.get::<Files>()?.text("/report.md")
    /// }
    /// ```
    pub fn text(&self, path: &str) -> Option<&str> {
        match self.get(&VPath::parse(path).ok()?)?.content() {
            Content::Text(text) => Some(text),
            Content::Binary(_) => None,
        }
    }

    /// The file at a path.
    pub fn get(&self, path: &VPath) -> Option<&Arc<FileData>> {
        self.files.get(path)
    }

    /// The files in order of path.
    pub fn iter(&self) -> impl Iterator<Item = (&VPath, &Arc<FileData>)> {
        self.files.iter()
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The files below a directory, in order of path.
    pub fn below(&self, directory: &VPath) -> Vec<(&VPath, &Arc<FileData>)> {
        use std::ops::Bound::{Excluded, Included};
        // '0' follows '/', so this is the first text after everything below the directory.
        let base = directory.as_str().trim_end_matches('/');
        let (first, end) = (format!("{base}/"), format!("{base}0"));
        self.files.range::<str, _>((Included(first.as_str()), Excluded(end.as_str()))).collect()
    }

    /// The first file at or after a text, in order of path.
    pub(crate) fn first_from(&self, from: &str) -> Option<(&VPath, &Arc<FileData>)> {
        use std::ops::Bound::{Included, Unbounded};
        self.files.range::<str, _>((Included(from), Unbounded)).next()
    }

    /// Whether there are files below a path.
    pub fn is_directory(&self, path: &VPath) -> bool {
        if path.is_root() {
            return true;
        }
        let base = format!("{path}/");
        self.first_from(&base).is_some_and(|(file, _)| file.as_str().starts_with(&base))
    }

    /// The nearest path above that is a file.
    pub fn file_above(&self, path: &VPath) -> Option<VPath> {
        path.ancestors().find(|above| self.files.contains_key(above))
    }

    /// Applies changes, deletions first. What cannot be a file is left out, and given back with the reason.
    fn apply(&mut self, update: FilesUpdate) -> Vec<(VPath, String)> {
        for path in update.iter().filter(|(_, file)| file.is_none()).map(|(path, _)| path) {
            self.files.remove_mut(path);
        }
        let mut refused = Vec::new();
        for (path, file) in update {
            let Some(file) = file else { continue };
            match self.obstacle(&path) {
                Some(reason) => refused.push((path, reason)),
                None => self.files.insert_mut(path, file),
            }
        }
        refused
    }

    fn obstacle(&self, path: &VPath) -> Option<String> {
        if path.is_root() {
            return Some("/ is the root and cannot be a file".to_owned());
        }
        if self.is_directory(path) {
            return Some(format!("{path} is a directory and cannot be a file"));
        }
        self.file_above(path).map(|above| format!("{above} is a file, so {path} cannot be below it"))
    }
}

impl fmt::Debug for FileMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.files.iter()).finish()
    }
}

impl FromIterator<(VPath, Arc<FileData>)> for FileMap {
    fn from_iter<I: IntoIterator<Item = (VPath, Arc<FileData>)>>(files: I) -> Self {
        Self { files: files.into_iter().collect() }
    }
}

impl Serialize for FileMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.files.iter())
    }
}

impl<'de> Deserialize<'de> for FileMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut out = Self::default();
        for (path, file) in BTreeMap::<VPath, Arc<FileData>>::deserialize(deserializer)? {
            if let Some(obstacle) = out.obstacle(&path) {
                return Err(D::Error::custom(obstacle));
            }
            out.files.insert_mut(path, file);
        }
        Ok(out)
    }
}

impl Channel for Files {
    const NAME: &'static str = "files";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::merged(FileMap::clone, joined);
    type Value = FileMap;
    type Update = FilesUpdate;

    fn reduce(value: &mut FileMap, update: FilesUpdate) -> Result<(), ChannelError> {
        match value.apply(update).into_iter().next() {
            Some((_, reason)) => Err(ChannelError::Refused { channel: Self::NAME, reason }),
            None => Ok(()),
        }
    }
}

/// Joins path by path, deletions included; of a path that both sides changed the parent's version stays.
fn joined(parent: &FileMap, given: &FileMap, child: &FileMap) -> Merge<FilesUpdate> {
    let mut conflicts = Vec::new();
    let mut update = FilesUpdate::new();
    for (path, before, after) in changes(given, child) {
        let now = parent.get(path);
        if same(now, after) {
            continue;
        }
        if same(now, before) {
            update.insert(path.clone(), after.cloned());
        } else {
            conflicts.push(format!("{path} was changed on both sides; the parent's version was kept"));
        }
    }
    // What is refused below would drop the whole update, so those paths are left out one by one.
    for (path, obstacle) in parent.clone().apply(update.clone()) {
        conflicts.push(format!("{path} was not taken over: {obstacle}"));
        update.remove(&path);
    }
    Merge { update: (!update.is_empty()).then_some(update), conflicts }
}

type Slot<'a> = Option<&'a Arc<FileData>>;

fn same(a: Slot<'_>, b: Slot<'_>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a.same_content(b),
        _ => false,
    }
}

/// The paths at which two maps differ, with what is there in each.
fn changes<'a>(before: &'a FileMap, after: &'a FileMap) -> Vec<(&'a VPath, Slot<'a>, Slot<'a>)> {
    let (mut left, mut right) = (before.iter().peekable(), after.iter().peekable());
    let mut out = Vec::new();
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return out,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let old = if order.is_le() { left.next() } else { None };
        let new = if order.is_ge() { right.next() } else { None };
        let (was, is) = (old.map(|(_, file)| file), new.map(|(_, file)| file));
        if let Some((path, _)) = old.or(new).filter(|_| !same(was, is)) {
            out.push((path, was, is));
        }
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
