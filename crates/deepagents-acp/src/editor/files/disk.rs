//! Files on disk, with versions derived from their texts as in the editor.

use bytes::Bytes;
use deepagents::core::state::State;
use deepagents::fs::{Backend, ByteRange, FsError, VPath, Version, WriteMode, Written};

use super::EditorFiles;

/// Larger files are read from disk, because an editor returns files as a whole.
pub(super) const MAX_EDITOR_READ_BYTES: u64 = 4 << 20;
/// Number of bytes at the beginning of a file that tell whether it is text.
pub(super) const HEAD_BYTES: usize = 8 << 10;

impl EditorFiles {
    /// Returns the text on disk, if versions are derived from texts.
    pub(super) async fn text_on_disk(&self, state: &State, path: &VPath) -> Result<Option<Bytes>, FsError> {
        if !self.reads_and_writes() {
            return Ok(None);
        }
        let file = self.inner.read(state, path, ByteRange::first(MAX_EDITOR_READ_BYTES + 1)).await?;
        Ok(has_text_version(&file.bytes).then_some(file.bytes))
    }

    /// Writes a file on disk, if it is still at the version that the condition names in either form.
    pub(super) async fn save_on_disk(
        &self,
        state: &State,
        path: &VPath,
        data: &Bytes,
        mode: WriteMode,
    ) -> Result<Written, FsError> {
        let mode = match mode {
            WriteMode::IfVersion(version) if self.reads_and_writes() => {
                WriteMode::IfVersion(self.version_on_disk(state, path, version).await?)
            }
            mode => mode,
        };
        let written = self.inner.write(state, path, data.clone(), mode).await?;
        let version = if self.reads_and_writes() && has_text_version(data) {
            Version::from_content(data)
        } else {
            written.version
        };
        Ok(Written { version, ..written })
    }

    /// Returns the version on disk of a file, if `version` is that of its text.
    async fn version_on_disk(&self, state: &State, path: &VPath, version: Version) -> Result<Version, FsError> {
        match self.inner.read_to_change(state, path).await {
            Ok(file) if Version::from_content(&file.bytes) == version => Ok(file.stat.version),
            Ok(_) | Err(FsError::NotFound(_)) => Ok(version),
            Err(error) => Err(error),
        }
    }
}

/// Whether the beginning of a file looks like text.
pub(super) fn is_text(head: &[u8]) -> bool {
    !head.iter().take(HEAD_BYTES).any(|byte| *byte == 0)
}

/// Whether the version of a file with this content is derived from it, so that it is the same in the editor and on disk.
pub(super) fn has_text_version(content: &[u8]) -> bool {
    content.len() as u64 <= MAX_EDITOR_READ_BYTES && is_text(content)
}
