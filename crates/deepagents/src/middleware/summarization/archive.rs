//! Stores evicted content on the backend and verifies it before anything is evicted.

use bytes::Bytes;
use deepagents_core::message::{Block, Message};
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelError, State, Update};
use deepagents_fs::{Backend, ByteRange, FsError, PathError, VPath, WriteMode};

use super::render::Stored;
use crate::artifacts::{self, Artifacts, Readers};
use crate::digest::sha256_hex;

/// Size in bytes at which the history continues in another file. Files stay small because every addition rewrites the
/// whole file.
const MAX_PART_BYTES: usize = 1 << 20;
/// Maximum number of attempts at a file that others change concurrently.
const MAX_ATTEMPTS: usize = 4;

/// An error from storing content.
#[derive(Debug, thiserror::Error)]
pub(super) enum ArchiveError {
    #[error(transparent)]
    Fs(#[from] FsError),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    State(#[from] ChannelError),
    #[error("{0} does not hold what was written to it")]
    Unverified(VPath),
}

/// Writes to the backend and collects the resulting state changes.
pub(super) struct Archive<'a> {
    artifacts: &'a Artifacts,
    backend: &'a dyn Backend,
    state: State,
    pub(super) update: Update,
}

impl<'a> Archive<'a> {
    pub(super) fn new(artifacts: &'a Artifacts, backend: &'a dyn Backend, state: &State) -> Self {
        Self { artifacts, backend, state: state.clone(), update: Update::none() }
    }

    /// Appends a section to the history of a thread, in file number `part` or a later one. A section that was already
    /// written before a crash is not written again.
    pub(super) async fn append(
        &mut self,
        name: &str,
        part: u32,
        head: &str,
        body: &str,
    ) -> Result<(VPath, u32), ArchiveError> {
        let mut part = part.max(1);
        let mut tries = 0;
        loop {
            let suffix = if part == 1 { String::new() } else { format!("-{part}") };
            let path = self.artifacts.history().join(&format!("{name}{suffix}.md"))?;
            let guard = self.backend.lock(&path).await;
            let (before, mode) = match self.backend.read(&self.state, &path, ByteRange::ALL).await {
                Ok(file) => (file.bytes, WriteMode::IfVersion(file.stat.version)),
                Err(FsError::NotFound(_)) => (Bytes::new(), WriteMode::Create),
                Err(error) => return Err(error.into()),
            };
            if before.ends_with(body.as_bytes()) {
                return Ok((path, part));
            }
            if before.len() > MAX_PART_BYTES {
                part += 1;
                continue;
            }
            let data = [before.as_ref(), head.as_bytes(), body.as_bytes()].concat();
            let written = self.add(&path, data.into(), mode, before.len() as u64).await;
            drop(guard);
            match written {
                Ok(()) => return Ok((path, part)),
                Err(ArchiveError::Fs(FsError::Changed(_) | FsError::AlreadyExists(_))) if tries < MAX_ATTEMPTS => {
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Stores the inline media of messages, deduplicated by content.
    pub(super) async fn media(&mut self, messages: &[impl AsRef<Message>]) -> Result<Stored, ArchiveError> {
        let mut stored = Stored::new();
        for (place, message) in messages.iter().enumerate() {
            for (at, block) in message.as_ref().content().iter().enumerate() {
                let Block::Media(media) = block else { continue };
                let Some(data) = artifacts::inline_bytes(media) else { continue };
                let extension = artifacts::extension(&media.mime);
                let name = format!("media/{}.{extension}", sha256_hex(&data, 8));
                let path = self.artifacts.history().join(&name)?;
                stored.insert((place, at), self.create(path, data.into()).await?);
            }
        }
        Ok(stored)
    }

    /// Returns the tools with which the agent can read a stored file.
    pub(super) fn readers(&self, path: &VPath, cx: &Context) -> Readers {
        Readers::of(cx, self.backend, path)
    }

    /// Stores a whole result under a name derived from its message id.
    pub(super) async fn result(&mut self, id: &str, text: &str) -> Result<VPath, ArchiveError> {
        self.create(self.artifacts.results().join(&safe(id))?, text.to_owned().into()).await
    }

    /// Writes a file whose name identifies its content; an existing one is verified.
    async fn create(&mut self, path: VPath, data: Bytes) -> Result<VPath, ArchiveError> {
        match self.write(&path, data.clone(), WriteMode::Create).await {
            Ok(()) | Err(ArchiveError::Fs(FsError::AlreadyExists(_))) => {}
            Err(error) => return Err(error),
        }
        let there = self.backend.read(&self.state, &path, ByteRange::ALL).await?;
        if there.bytes == data { Ok(path) } else { Err(ArchiveError::Unverified(path)) }
    }

    /// Rewrites a file with more content at its end, and verifies the content from an offset on. Another process may
    /// have appended to it since.
    async fn add(&mut self, path: &VPath, data: Bytes, mode: WriteMode, from: u64) -> Result<(), ArchiveError> {
        self.write(path, data.clone(), mode).await?;
        let range = ByteRange { offset: from, length: None };
        let there = self.backend.read(&self.state, path, range).await?;
        let whole = there.bytes.starts_with(&range.slice(&data));
        if whole { Ok(()) } else { Err(ArchiveError::Unverified(path.clone())) }
    }

    async fn write(&mut self, path: &VPath, data: Bytes, mode: WriteMode) -> Result<(), ArchiveError> {
        let written = self.artifacts.store(self.backend, &self.state, path, data, mode).await?;
        self.state.apply(&written.update)?;
        self.update = std::mem::take(&mut self.update).and(written.update);
        Ok(())
    }
}

/// Returns the name of an agent's history: its thread, or else its run, and its path.
pub(super) fn history_name(cx: &Context) -> String {
    let thread = safe(cx.thread().unwrap_or_else(|| cx.run_id()));
    cx.path().iter().fold(thread, |name, part| format!("{name}.{}", safe(part)))
}

/// Returns a text as a valid file name: invalid characters are replaced, and a hash keeps names distinct.
fn safe(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let kept: String = text.chars().map(|c| if fits(c) { c } else { '_' }).take(100).collect();
    if kept == text && !text.is_empty() {
        return kept;
    }
    format!("{}-{}", kept.chars().take(60).collect::<String>(), sha256_hex(text, 4))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn safe_names_are_kept_and_others_do_not_collide() {
        assert_eq!(safe("thread-1_a"), "thread-1_a");
        assert_ne!(safe("a/b"), safe("a:b"));
        assert_ne!(safe("../x"), safe(".._x"));
    }

    proptest! {
        #[test]
        fn any_thread_id_gives_a_path_in_the_directory(id: String) {
            let path = Artifacts::default().history().join(&format!("{}.md", safe(&id))).unwrap();
            prop_assert_eq!(path.as_str().matches('/').count(), 2);
        }
    }
}
