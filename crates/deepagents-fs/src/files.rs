//! Files inside a thread's state: the `files` channel.

mod data;
mod map;

use std::sync::Arc;

use deepagents_core::state::{Channel, ChannelError, Merge, Sharing, Update};

use crate::{PathError, VPath};
pub(crate) use data::shared_bytes;
pub use data::{Content, FileData};
pub use map::{FileMap, FilesUpdate};

/// The channel of files in the state: a map from path to file.
///
/// In JSON, it is an object that maps paths to records `{content, encoding, created_at, modified_at}`, where `encoding`
/// is `utf-8` or `base64`; plain text and records with a list of lines are accepted too. An update names the paths that
/// change; `null` deletes a path. A sub-agent receives its parent's files and returns its changes.
#[derive(Debug)]
pub struct Files;

impl Files {
    /// Returns the update that puts files into the state, for example as input of a run. Each replaces any file at its
    /// path, and has no timestamps.
    ///
    /// ```
    /// use deepagents_core::run::RunInput;
    /// use deepagents_fs::Files;
    /// let input = RunInput::new("Mend the notes.").update(Files::put([("/notes.md", "Three brids.")])?);
    /// # Ok::<(), deepagents_fs::PathError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if a path is invalid in the state: it contains `..`, or begins with `~` or a drive letter.
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

/// Merges path by path, including deletions. For a path that both sides changed, the parent's version wins.
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
    // One refused path would fail the whole update, so such paths are removed from it and reported.
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
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a.content() == b.content(),
        _ => false,
    }
}

/// Returns the paths at which two maps differ, with the file on each side.
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
