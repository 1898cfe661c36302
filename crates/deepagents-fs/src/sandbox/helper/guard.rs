//! Parts of the workspace that are read-only or hidden.
//!
//! A mount on a directory does not keep the directory *above* it from being renamed, and another put in its place. So
//! every directory between the root and a guarded path becomes a mount as well: mounts cannot be renamed.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use super::failure::{At, Failure};
use super::mounts::{Access, bind, restrict};
use super::root_fs::TABLE;
use crate::sandbox::protocol::{Guard, GuardedPath};

const EMPTY_FILE: &str = "/run/hidden-file";
const EMPTY_DIRECTORY: &str = "/run/hidden-directory";

/// Guards all paths below the root.
pub(super) fn all(root: &Path, guarded: &[GuardedPath]) -> Result<(), Failure> {
    let mut pinned = BTreeSet::new();
    for GuardedPath { path, guard } in guarded {
        let Some((path, metadata)) = pin(root, path, *guard, &mut pinned)? else { continue };
        match guard {
            Guard::ProtectFile if metadata.is_dir() => continue,
            Guard::Protect | Guard::ProtectFile | Guard::ProtectMade => bind(&path, &path)?,
            Guard::Hide => bind(&hidden(&metadata)?, &path)?,
        }
        restrict(&path, Access::Read, Path::new(TABLE))?;
    }
    Ok(())
}

/// Makes every directory above a path a mount. None if there is nothing at the path.
fn pin(
    root: &Path,
    relative: &Path,
    guard: Guard,
    pinned: &mut BTreeSet<PathBuf>,
) -> Result<Option<(PathBuf, Metadata)>, Failure> {
    let step = "guard a path of the workspace";
    let mut at = root.to_owned();
    let mut names = relative.components().filter(|part| matches!(part, Component::Normal(_))).peekable();
    while let Some(name) = names.next() {
        let last = names.peek().is_none();
        at.push(name);
        let metadata = match at.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound && last && guard == Guard::ProtectMade => {
                fs::create_dir(&at).on(step, at.display())?;
                at.symlink_metadata().on(step, at.display())?
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => return Err(error).on(step, at.display()),
        };
        if metadata.is_symlink() {
            return Err(Failure::new(step, format!("{}: a symbolic link cannot be guarded", at.display())));
        }
        if last {
            return Ok(Some((at, metadata)));
        }
        if metadata.is_dir() && pinned.insert(at.clone()) {
            bind(&at, &at)?;
        }
    }
    Ok(None)
}

/// Something of the same kind that nobody may read.
fn hidden(metadata: &Metadata) -> Result<PathBuf, Failure> {
    let step = "hide a path of the workspace";
    let path = PathBuf::from(if metadata.is_dir() { EMPTY_DIRECTORY } else { EMPTY_FILE });
    if !path.exists() {
        if metadata.is_dir() { fs::create_dir(&path) } else { File::create(&path).map(drop) }.at(step)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).at(step)?;
    }
    Ok(path)
}
