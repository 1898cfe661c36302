//! Resolves paths component by component, without leaving the root.
//!
//! Each directory is opened relative to the previous one without following links. Links are read and walked explicitly,
//! so a link that changes in the meantime causes an error instead of leading outside.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, mkdirat, openat, readlinkat, statat, unlinkat};
use rustix::io::Errno;

use super::open::{At, DIRECTORY, allow, failed};
use super::{Links, Root};
use crate::path::is_component;
use crate::{FsError, VPath};

/// Treatment of the last component if it is a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// Follow it.
    Follow,
    /// Return the link itself.
    NoFollow,
    /// Follow it, and create the missing directories above the last component.
    Create,
}

/// Location of an existing or missing file: an open directory, and a name in it that is not a link to follow.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: OwnedFd,
    /// `None` for the root.
    pub(super) name: Option<OsString>,
    /// Names from the root to the directory.
    above: Vec<OsString>,
    /// Names after `name` that were not examined because `name` does not exist.
    missing: Vec<OsString>,
    /// Directories created on the way, each as its names from the root.
    made: Vec<Vec<OsString>>,
}

impl Place {
    pub(super) fn name_or_dot(&self) -> &OsStr {
        self.name.as_deref().unwrap_or(OsStr::new("."))
    }

    /// Returns the path from the root, with bytes that are not UTF-8 replaced.
    pub(super) fn shown(&self) -> VPath {
        let names = self.above.iter().chain(&self.name).chain(&self.missing);
        names.fold(VPath::root(), |path, name| path.child(&name.to_string_lossy()))
    }

    /// Returns the number of missing directories above the file.
    #[cfg(feature = "undo")]
    pub(super) fn missing(&self) -> usize {
        self.missing.len()
    }
}

/// Maximum number of links followed in one path, as in the kernel.
const MAX_LINKS: usize = 40;
/// Number of retries of a step when the directory changes concurrently.
const MAX_RACES: usize = 64;

impl Root {
    /// Locates a path. Its parent directory must exist, or is created with [`Last::Create`].
    pub(super) fn locate(&self, path: &VPath, last: Last, links: Links) -> Result<Place, FsError> {
        let place = self.walk(path, last, links)?;
        if place.missing.is_empty() { Ok(place) } else { Err(FsError::NotFound(path.clone())) }
    }

    /// Resolves the links of a path.
    pub(super) fn real_path(&self, path: &VPath) -> Result<VPath, FsError> {
        real_of(path, &self.walk(path, Last::Follow, self.links)?)
    }

    /// Resolves a path as far as it exists.
    pub(super) fn walk(&self, path: &VPath, last: Last, links: Links) -> Result<Place, FsError> {
        let directory = self.reopen(path)?;
        let mut place = Place { directory, name: None, above: Vec::new(), missing: Vec::new(), made: Vec::new() };
        match self.walk_to(&mut place, path, last, links) {
            Ok(()) => Ok(place),
            Err(error) => {
                self.leave(&place);
                Err(error)
            }
        }
    }

    /// Removes the directories that were created on the way to a place that was not used. Those that others have put
    /// something into stay.
    pub(super) fn leave(&self, place: &Place) {
        place.made.iter().rev().for_each(|names| self.unmake(names));
    }

    /// Removes a directory if it is empty. Walks to it from the root without following links.
    fn unmake(&self, names: &[OsString]) {
        let Some((name, above)) = names.split_last() else { return };
        let open = |directory: OwnedFd, name: &OsString| openat(&directory, name, DIRECTORY, Mode::empty()).ok();
        let Ok(root) = self.fd.try_clone() else { return };
        if let Some(directory) = above.iter().try_fold(root, open) {
            // A failure leaves an empty directory behind.
            let _ = unlinkat(&directory, name, AtFlags::REMOVEDIR);
        }
    }

    /// Walks from the root, where the place is at first, to a path.
    fn walk_to(&self, place: &mut Place, path: &VPath, last: Last, on_links: Links) -> Result<(), FsError> {
        let outside = || FsError::Outside(path.clone());
        // Names still to be walked, in reverse order.
        let mut todo: Vec<OsString> = path.components().rev().map(OsString::from).collect();
        let (mut links, mut races) = (0, 0);
        while let Some(name) = todo.pop() {
            if name == ".." {
                if place.above.pop().is_none() {
                    return Err(outside());
                }
                // Walk again from the root: `..` of a directory that was moved could lead anywhere.
                todo.extend(place.above.drain(..).rev());
                place.directory = self.reopen(path)?;
                continue;
            }
            let is_last = todo.is_empty();
            let file_type = match statat(&place.directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) if is_last || last != Last::Create => {
                    todo.reverse();
                    (place.name, place.missing) = (Some(name), todo);
                    return Ok(());
                }
                Err(Errno::NOENT) => {
                    if !self.may_make(&name) {
                        return Err(FsError::Protected(path.clone()));
                    }
                    match mkdirat(&place.directory, &name, Mode::from_raw_mode(0o777)) {
                        Ok(()) => place.made.push(place.above.iter().chain([&name]).cloned().collect()),
                        result => allow(Errno::EXIST, result).at(path)?,
                    }
                    FileType::Directory
                }
                Err(errno) => return Err(failed(path, errno)),
            };
            match file_type {
                FileType::Symlink if !(is_last && last == Last::NoFollow) => {
                    links += 1;
                    if links > MAX_LINKS || on_links == Links::Refuse {
                        return Err(FsError::LinkLoop(path.clone()));
                    }
                    let target = match readlinkat(&place.directory, &name, Vec::new()) {
                        Ok(target) => OsString::from_vec(target.into_bytes()),
                        Err(Errno::INVAL) if races < MAX_RACES => {
                            races += 1;
                            todo.push(name);
                            continue;
                        }
                        Err(errno) => return Err(failed(path, errno)),
                    };
                    let target = Path::new(&target);
                    let target = if target.is_absolute() {
                        // The target is inside only if it starts with the root's own path; the names after that are
                        // walked like any others.
                        let inside = target.strip_prefix(&self.path).map_err(|_| outside())?;
                        place.above.clear();
                        place.directory = self.reopen(path)?;
                        inside
                    } else {
                        target
                    };
                    let names = target.components().rev().filter_map(|component| match component {
                        Component::Normal(name) => Some(name.to_owned()),
                        Component::ParentDir => Some(OsString::from("..")),
                        _ => None,
                    });
                    todo.extend(names);
                }
                _ if is_last => {
                    place.name = Some(name);
                    return Ok(());
                }
                FileType::Directory => match openat(&place.directory, &name, DIRECTORY, Mode::empty()) {
                    Ok(next) => {
                        place.directory = next;
                        place.above.push(name);
                    }
                    Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) if races < MAX_RACES => {
                        races += 1;
                        todo.push(name);
                    }
                    Err(errno) => return Err(failed(path, errno)),
                },
                _ => {
                    let path = vpath_of(place.above.iter().chain([&name])).unwrap_or_else(|| path.clone());
                    return Err(FsError::NotADirectory(path));
                }
            }
        }
        // The walk ended without a last name: at the root, or at a link target that ends in `..`.
        place.name = place.above.pop();
        if place.name.is_some() {
            place.directory = self.reopen(path)?;
            for name in &place.above {
                place.directory = openat(&place.directory, name, DIRECTORY, Mode::empty()).at(path)?;
            }
        }
        Ok(())
    }

    fn reopen(&self, path: &VPath) -> Result<OwnedFd, FsError> {
        self.fd.try_clone().at(path)
    }
}

/// Returns the path of the place that a path resolved to.
pub(super) fn real_of(path: &VPath, place: &Place) -> Result<VPath, FsError> {
    let bad_name = || FsError::BadName { path: path.clone(), reason: "it leads to a name not in UTF-8".to_owned() };
    vpath_of(place.above.iter().chain(&place.name).chain(&place.missing)).ok_or_else(bad_name)
}

/// Builds a path from names; `None` if one of them cannot be in a path.
fn vpath_of<'a>(names: impl Iterator<Item = &'a OsString>) -> Option<VPath> {
    let mut path = VPath::root();
    for name in names {
        path = path.child(name.to_str().filter(|name| is_component(name))?);
    }
    Some(path)
}
