//! Finds the items in a directory that need consent.

use std::collections::BTreeMap;

use bytes::Bytes;
use deepagents_core::state::State;
use deepagents_fs::{Backend, ByteRange, Entry, FsError, Kind, VPath};

use super::{TrustItem, TrustKind, names};
use crate::digest::sha256_hex;
use crate::middleware::subagents::definition_file;

/// Maximum size in bytes of a file that is loaded, such as `SKILL.md`.
const MAX_LOADED: u64 = 10 << 20;
/// Maximum total size in bytes of a skill's files. Files beside `SKILL.md` count, as it tells the model to read and run
/// them.
const MAX_SKILL: u64 = 64 << 20;
/// Size in bytes up to which the text of a file that is not loaded is kept for display.
const MAX_SHOWN: usize = 64 << 10;
/// Maximum number of files of a skill.
const MAX_SKILL_FILES: usize = 2_000;
/// Maximum number of entries examined in a directory.
const MAX_ENTRIES: usize = 500;

/// Paths at which a directory may contain files that control an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustPlaces {
    /// Memory files.
    pub memory: Vec<VPath>,
    /// Directories of sub-agent files.
    pub agents: Vec<VPath>,
    /// Directories of skills.
    pub skills: Vec<VPath>,
}

/// An item found in a directory.
#[derive(Clone, Debug)]
pub struct FoundItem {
    /// The item.
    pub item: TrustItem,
    /// What it requests in addition to its text, as text: another model, tools, the place of a standard sub-agent.
    pub asks_for: Vec<String>,
    /// The files that the agent loads, and others short enough to display.
    files: BTreeMap<VPath, Bytes>,
    /// Files that are part of the hash but too long to display.
    long: Vec<VPath>,
}

impl FoundItem {
    /// Creates an item of a kind that [`survey`] does not look for, such as a server in a configuration file.
    pub fn new(item: TrustItem, asks_for: Vec<String>) -> Self {
        Self { item, asks_for, files: BTreeMap::new(), long: Vec::new() }
    }

    /// Adds a file, for display and for [`TrustedFiles`](super::TrustedFiles).
    #[must_use]
    pub fn file(mut self, path: VPath, content: impl Into<Bytes>) -> Self {
        self.files.insert(path, content.into());
        self
    }

    /// Returns its files by path: those that the agent loads, and others short enough to display.
    pub fn files(&self) -> impl Iterator<Item = (&VPath, &Bytes)> {
        self.files.iter()
    }

    /// Returns the files that are part of the hash but too long to display.
    pub fn long_files(&self) -> &[VPath] {
        &self.long
    }
}

/// The result of a [`survey()`].
///
/// ```
/// use deepagents::trust::Survey;
/// fn describe(survey: &Survey) -> Vec<String> {
///     let item = |found: &deepagents::trust::FoundItem| format!("{} {}", found.item.kind, found.item.name);
///     survey.items.iter().map(item).chain(survey.problems.iter().cloned()).collect()
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// All items found, by kind, in the order of the sources.
    pub items: Vec<FoundItem>,
    /// Problems with what could not be examined, as text; these are not among the items.
    pub problems: Vec<String>,
}

/// Finds the items at these places. Missing places are not a problem.
///
/// The hash of an item covers all its files, including a skill's scripts. Links that lead out of the backend are
/// skipped.
///
/// ```
/// use deepagents::fs::{StateBackend, VPath};
/// use deepagents::trust::{TrustPlaces, survey};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let places = TrustPlaces { memory: vec![VPath::parse("/AGENTS.md")?], ..TrustPlaces::default() };
/// assert!(survey(&StateBackend::new(), &places).await.items.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn survey(backend: &dyn Backend, places: &TrustPlaces) -> Survey {
    let mut survey = Survey::default();
    for directory in &places.agents {
        survey.agents(backend, directory).await;
    }
    for directory in &places.skills {
        survey.skills(backend, directory).await;
    }
    for file in &places.memory {
        survey.memory(backend, file).await;
    }
    survey
}

impl Survey {
    fn problem(&mut self, path: &VPath, why: impl std::fmt::Display) {
        self.problems.push(format!("{path} is left out: {why}"));
    }

    /// Adds an item that is a single file.
    fn add(&mut self, kind: TrustKind, name: &str, path: &VPath, bytes: Bytes, asks_for: Vec<String>) {
        let item = TrustItem::new(kind, name, path.as_str(), &bytes);
        self.items.push(FoundItem::new(item, asks_for).file(path.clone(), bytes));
    }

    async fn memory(&mut self, backend: &dyn Backend, path: &VPath) {
        match file(backend, path, MAX_LOADED).await {
            Ok(Some(bytes)) => self.add(TrustKind::Memory, path.as_str(), path, bytes, Vec::new()),
            Ok(None) => {}
            Err(why) => self.problem(path, why),
        }
    }

    async fn agents(&mut self, backend: &dyn Backend, directory: &VPath) {
        for entry in self.entries(backend, directory).await {
            let Some((name, path)) = definition_file(&entry) else { continue };
            match file(backend, &path, MAX_LOADED).await {
                Ok(Some(bytes)) => {
                    let (name, asks_for) = names::agent_file(&bytes, name);
                    self.add(TrustKind::SubAgent, &name, &path, bytes, asks_for);
                }
                Ok(None) => {}
                Err(why) => self.problem(&path, why),
            }
        }
    }

    async fn skills(&mut self, backend: &dyn Backend, directory: &VPath) {
        for entry in self.entries(backend, directory).await {
            if entry.kind != Kind::Directory {
                continue;
            }
            match skill(backend, &entry.path).await {
                Ok(found) => self.items.extend(found),
                Err(why) => self.problem(&entry.path, why),
            }
        }
    }

    /// Lists the children of a directory; empty if there is none.
    async fn entries(&mut self, backend: &dyn Backend, directory: &VPath) -> Vec<Entry> {
        match backend.list(&State::default(), directory).await {
            Ok(mut listing) => {
                if listing.entries.len() > MAX_ENTRIES {
                    self.problem(directory, format!("only the first {MAX_ENTRIES} of its entries are looked at"));
                    listing.entries.truncate(MAX_ENTRIES);
                }
                return listing.entries;
            }
            Err(FsError::NotFound(_)) => {}
            Err(error) => self.problem(directory, error),
        }
        Vec::new()
    }
}

/// Reads a whole file, if it exists.
async fn file(backend: &dyn Backend, path: &VPath, limit: u64) -> Result<Option<Bytes>, String> {
    match backend.read(&State::default(), path, ByteRange::first(limit + 1)).await {
        Ok(read) if read.bytes.len() as u64 > limit => Err(format!("it has more than {limit} bytes")),
        Ok(read) => Ok(Some(read.bytes)),
        Err(FsError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads a skill with everything in its directory. Returns `None` if the directory is not a skill.
async fn skill(backend: &dyn Backend, directory: &VPath) -> Result<Option<FoundItem>, String> {
    let below = |name: &str| directory.join(name).map_err(|error| error.to_string());
    let loaded @ [main, _] = &[below("SKILL.md")?, below("agents.yaml")?];
    if let Err(FsError::NotFound(_)) = backend.stat(&State::default(), main).await {
        return Ok(None);
    }
    let (mut files, mut long, mut hashes, mut room) = (BTreeMap::new(), Vec::new(), Vec::new(), MAX_SKILL);
    let mut open = vec![directory.clone()];
    while let Some(next) = open.pop() {
        let listing = backend.list(&State::default(), &next).await.map_err(|error| error.to_string())?;
        for entry in listing.entries {
            if hashes.len() >= MAX_SKILL_FILES {
                return Err(format!("it has more than {MAX_SKILL_FILES} files"));
            }
            let below = entry.path.strip_prefix(directory).map(|below| below.to_string()).unwrap_or_default();
            match entry.kind {
                // The target of a link is not part of the skill.
                Kind::Directory if entry.link => hashes.push((below, "link".to_owned())),
                Kind::Directory => open.push(entry.path),
                Kind::File => {
                    let limit = if loaded.contains(&entry.path) { room.min(MAX_LOADED) } else { room };
                    let Some(bytes) = file(backend, &entry.path, limit).await? else { continue };
                    room = room.saturating_sub(bytes.len() as u64);
                    hashes.push((below, sha256_hex(&bytes, 32)));
                    if loaded.contains(&entry.path) || bytes.len() <= MAX_SHOWN {
                        files.insert(entry.path, bytes);
                    } else {
                        long.push(entry.path);
                    }
                }
                _ => hashes.push((below, "other".to_owned())),
            }
        }
    }
    let name = directory.name().unwrap_or_default();
    let all = hashes.iter().map(|(path, hash)| (path.as_str(), hash.as_str()));
    let item = TrustItem::from_files(TrustKind::Skill, name, directory.as_str(), all);
    let asks_for = names::skill(&files, name, loaded);
    Ok(Some(FoundItem { item, asks_for, files, long }))
}
