//! Stores evicted content on the backend and verifies it before anything is evicted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use deepagents_core::message::{Block, MediaSource, Message};
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelError, State, Update};
use deepagents_fs::{Backend, ByteRange, FsError, PathError, VPath, WriteMode};

use super::render::Stored;
use crate::digest::sha256_hex;
use crate::workspace::{self, HISTORY, RESULTS};

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
    backend: &'a dyn Backend,
    state: State,
    pub(super) update: Update,
}

impl<'a> Archive<'a> {
    pub(super) fn new(backend: &'a dyn Backend, state: &State) -> Self {
        Self { backend, state: state.clone(), update: Update::none() }
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
            let path = VPath::parse(&format!("{HISTORY}/{name}{suffix}.md"))?;
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
                let text = match &media.source {
                    MediaSource::Base64(text) => text.as_str(),
                    MediaSource::Url(url) => match url.strip_prefix("data:").and_then(|rest| rest.split_once(',')) {
                        Some((_, data)) => data,
                        None => continue,
                    },
                    _ => continue,
                };
                // Invalid base64 is stored unchanged.
                let data = STANDARD.decode(text.trim()).unwrap_or_else(|_| text.as_bytes().to_vec());
                let name = format!("{HISTORY}/media/{}.{}", sha256_hex(&data, 8), extension(&media.mime));
                stored.insert((place, at), self.create(&name, data.into()).await?);
            }
        }
        Ok(stored)
    }

    /// Stores a whole result under a name derived from its message id.
    pub(super) async fn result(&mut self, id: &str, text: &str) -> Result<VPath, ArchiveError> {
        self.create(&format!("{RESULTS}/{}", safe(id)), text.to_owned().into()).await
    }

    /// Writes a file whose name identifies its content; an existing one is verified.
    async fn create(&mut self, path: &str, data: Bytes) -> Result<VPath, ArchiveError> {
        let path = VPath::parse(path)?;
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
        let written = workspace::store_file(self.backend, &self.state, path, data, mode).await?;
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

fn extension(mime: &str) -> String {
    let known = [("image/jpeg", "jpg"), ("audio/mpeg", "mp3"), ("text/plain", "txt"), ("image/svg+xml", "svg")];
    let known = known.into_iter().find(|(kind, _)| *kind == mime).map(|(_, extension)| extension);
    let kind = known.unwrap_or_else(|| mime.rsplit('/').next().unwrap_or_default());
    let plain: String = kind.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    if plain.is_empty() { "bin".to_owned() } else { plain.to_ascii_lowercase() }
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
        assert_eq!(extension("image/png"), "png");
        assert_eq!(extension(""), "bin");
    }

    proptest! {
        #[test]
        fn any_thread_id_gives_a_path_in_the_directory(id: String) {
            let path = VPath::parse(&format!("{HISTORY}/{}.md", safe(&id))).unwrap();
            prop_assert_eq!(path.as_str().matches('/').count(), 2);
        }
    }
}
