//! Takes back changes of which a later one failed.

use bytes::Bytes;

use super::OverlayBackend;
use super::apply::ApplyError;
use super::layer::{Working, found, is_empty};
use crate::{FsError, VPath, Version, WriteMode};

/// What the lower backend had at a path.
#[derive(Clone)]
pub(super) enum Old {
    Absent,
    Content(Bytes),
    /// Something that cannot be made again: a link, or a file that is too large to be held.
    Lost,
}

/// A change that was made in the lower backend.
pub(super) enum Made {
    Written {
        path: VPath,
        version: Version,
        old: Old,
        /// The directories that did not exist, deepest first.
        missing: Vec<VPath>,
    },
    Deleted {
        path: VPath,
        old: Old,
    },
}

impl OverlayBackend {
    /// Takes back what was made, in reverse order.
    pub(super) async fn take_back(&self, mut working: Working, made: Vec<Made>, source: FsError) -> ApplyError {
        let mut changed = Vec::new();
        for made in made.into_iter().rev() {
            let (Made::Written { path, .. } | Made::Deleted { path, .. }) = &made;
            let path = path.clone();
            if self.take_one_back(&mut working, made).await.is_err() {
                changed.push(path);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        if changed.is_empty() { ApplyError::Failed(source) } else { ApplyError::Partly { changed, source } }
    }

    async fn take_one_back(&self, working: &mut Working, made: Made) -> Result<(), FsError> {
        let lower = &*self.lower;
        match made {
            Made::Written { path, version, old: Old::Content(old), .. } => {
                working.write(lower, &path, old, WriteMode::IfVersion(version)).await?;
            }
            Made::Written { path, version, old: Old::Absent, missing } => {
                let there = found(lower, &working.state, &path).await?;
                if there.is_none_or(|there| there.version != Some(version)) {
                    return Err(FsError::Changed(path));
                }
                working.delete(lower, &path).await?;
                for directory in missing {
                    if is_empty(lower, &working.state, &directory).await? {
                        working.delete(lower, &directory).await?;
                    }
                }
            }
            Made::Deleted { path, old: Old::Content(old) } => {
                working.write(lower, &path, old, WriteMode::Create).await?;
            }
            Made::Written { path, .. } | Made::Deleted { path, .. } => return Err(FsError::NotFound(path)),
        }
        Ok(())
    }
}
