//! What the harness itself stores among the files of an agent, which the agent only reads.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use deepagents_core::message::{Media, MediaKind, MediaSource};
use deepagents_core::run::Context;
use deepagents_core::state::{State, Update};
use deepagents_fs::{Backend, CompositeBackend, FsError, PathError, VPath, WriteMode, Written};

/// Asks where a run keeps one of the directories of the harness; see
/// [`DeepAgentBuilder::artifact_files`](crate::DeepAgentBuilder::artifact_files).
///
/// ```
/// use std::sync::Arc;
///
/// use deepagents::fs::{Backend, LocalBackend};
/// use deepagents::{ArtifactRequest, DeepAgent};
///
/// # fn directory_of(_thread: &str, _directory: &str) -> std::path::PathBuf { std::env::temp_dir() }
/// let find = |request: &ArtifactRequest<'_>| -> Option<Arc<dyn Backend>> {
///     // Runs without a thread keep them in their workspace.
///     let directory = directory_of(request.cx.root_thread()?, request.directory);
///     Some(Arc::new(LocalBackend::open(directory).ok()?))
/// };
/// let builder = DeepAgent::builder().artifact_files(find);
/// # drop(builder);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ArtifactRequest<'a> {
    /// The run, or a sub-agent of it.
    pub cx: &'a Context,
    /// The name of the directory: `large_tool_results` or `conversation_history`.
    pub directory: &'static str,
    /// Whether the harness may write to it now. Otherwise the agent only reads and searches it.
    pub writes: bool,
}

/// Returns the files of a directory, or `None` if it is part of the workspace.
pub(crate) type FindArtifacts = dyn Fn(&ArtifactRequest<'_>) -> Option<Arc<dyn Backend>> + Send + Sync;

/// The name of the directory for large tool results.
const RESULTS: &str = "large_tool_results";
/// The name of the directory for what summaries replace, and for long messages.
const HISTORY: &str = "conversation_history";

/// The directories that the harness writes.
#[derive(Clone, Debug)]
pub(crate) struct Artifacts {
    /// Large tool results.
    results: VPath,
    /// Messages that summaries replace, and long messages.
    history: VPath,
}

impl Default for Artifacts {
    fn default() -> Self {
        let at = |name| VPath::root().join(name).unwrap_or_default();
        Self { results: at(RESULTS), history: at(HISTORY) }
    }
}

impl Artifacts {
    /// Places the directories below another one.
    ///
    /// # Errors
    /// Returns an error if their paths would be too long.
    pub(crate) fn below(root: &VPath) -> Result<Self, PathError> {
        Ok(Self { results: root.join(RESULTS)?, history: root.join(HISTORY)? })
    }

    pub(crate) fn results(&self) -> &VPath {
        &self.results
    }

    pub(crate) fn history(&self) -> &VPath {
        &self.history
    }

    pub(crate) fn directories(&self) -> impl Iterator<Item = VPath> + use<> {
        [self.results.clone(), self.history.clone()].into_iter()
    }

    /// Mounts those of the directories that a run keeps elsewhere.
    pub(crate) fn mount(
        &self,
        files: Arc<dyn Backend>,
        find: &FindArtifacts,
        cx: &Context,
        writes: bool,
    ) -> Arc<dyn Backend> {
        let names = [(&self.results, RESULTS), (&self.history, HISTORY)];
        let found =
            |(path, directory): (&VPath, _)| Some((path.clone(), find(&ArtifactRequest { cx, directory, writes })?));
        let routes: Vec<_> = names.into_iter().filter_map(found).collect();
        if routes.is_empty() {
            return files;
        }
        let all = CompositeBackend::new(files);
        Arc::new(routes.into_iter().fold(all, |all, (path, files)| all.route(path, files)))
    }

    /// Writes a file in one of the directories. If the directory is new and on disk, version control is told to ignore
    /// it first. Fails if a link is on the way: a command may have created it, and nobody has approved a change of its
    /// target.
    pub(crate) async fn store(
        &self,
        backend: &dyn Backend,
        state: &State,
        path: &VPath,
        data: Bytes,
        mode: WriteMode,
    ) -> Result<Written, FsError> {
        let ignored = self.ignored(backend, state, path).await;
        let mut after = state.clone();
        let state = if after.apply(&ignored).is_ok() { &after } else { state };
        let written = write_unlinked(backend, state, path, data, mode).await?;
        Ok(Written { update: ignored.and(written.update), ..written })
    }

    /// Writes the ignore file of a new directory on disk. What is stored is not the user's work, and may be secret.
    async fn ignored(&self, backend: &dyn Backend, state: &State, path: &VPath) -> Update {
        let directory = self.directories().find(|directory| path.starts_with(directory));
        let Some(directory) = directory.filter(|directory| backend.shell_visible(directory)) else {
            return Update::none();
        };
        if !matches!(backend.stat(state, &directory).await, Err(FsError::NotFound(_))) {
            return Update::none();
        }
        let Ok(file) = directory.join(".gitignore") else { return Update::none() };
        let written = write_unlinked(backend, state, &file, Bytes::from_static(b"*\n"), WriteMode::Create).await;
        written.map(|written| written.update).unwrap_or_default()
    }
}

async fn write_unlinked(
    backend: &dyn Backend,
    state: &State,
    path: &VPath,
    data: Bytes,
    mode: WriteMode,
) -> Result<Written, FsError> {
    let led = backend.pinned(path, path);
    led.as_deref().unwrap_or(backend).write(state, path, data, mode).await
}

/// The tools with which an agent can read a stored file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readers {
    read_file: bool,
    grep: bool,
    execute: bool,
}

impl Readers {
    /// Returns those that an agent has now. Commands count if they see the file.
    pub(crate) fn of(cx: &Context, backend: &dyn Backend, path: &VPath) -> Self {
        let names = cx.tool_names();
        let has = |name: &str| names.contains(&name);
        let is_seen = || !backend.shell_unreachable().iter().any(|place| path.starts_with(place));
        Self {
            read_file: has("read_file"),
            grep: has("grep"),
            execute: has("execute") && backend.shell().is_some() && is_seen(),
        }
    }

    /// Leaves out the file tools, which cannot reach the file.
    pub(crate) fn without_file_tools(self) -> Self {
        Self { read_file: false, grep: false, ..self }
    }

    pub(crate) fn any(self) -> bool {
        self.read_file || self.grep || self.execute
    }

    /// Returns whether pictures can be read again.
    pub(crate) fn can_attach(self) -> bool {
        self.read_file
    }

    /// Returns how to read a text. Empty if there is no way.
    pub(crate) fn advice(self) -> &'static str {
        match (self.read_file, self.grep, self.execute) {
            (true, true, _) => "read it in parts with read_file and its offset and limit, or search it with grep",
            (true, false, _) => "read it in parts with read_file and its offset and limit",
            (false, true, false) => "search it with grep",
            (false, true, true) => "search it with grep, or print parts of it with execute",
            (false, false, true) => "print parts of it with execute",
            (false, false, false) => "",
        }
    }
}

/// Returns the base64 data of a medium, unless only a reference to it is known.
pub(crate) fn inline_data(media: &Media) -> Option<&str> {
    match &media.source {
        MediaSource::Base64(text) => Some(text),
        MediaSource::Url(url) => Some(url.strip_prefix("data:")?.split_once(',')?.1),
        _ => None,
    }
}

/// Returns the bytes of a medium, unless only a reference to it is known. Invalid base64 is returned unchanged.
pub(crate) fn inline_bytes(media: &Media) -> Option<Vec<u8>> {
    let text = inline_data(media)?;
    Some(STANDARD.decode(text.trim()).unwrap_or_else(|_| text.as_bytes().to_vec()))
}

/// Returns the extension of a file for a medium.
pub(crate) fn extension(mime: &str) -> String {
    let known = [("image/jpeg", "jpg"), ("audio/mpeg", "mp3"), ("text/plain", "txt"), ("image/svg+xml", "svg")];
    let known = known.into_iter().find(|(kind, _)| *kind == mime).map(|(_, extension)| extension);
    let kind = known.unwrap_or_else(|| mime.rsplit('/').next().unwrap_or_default());
    let plain: String = kind.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    if plain.is_empty() { "bin".to_owned() } else { plain.to_ascii_lowercase() }
}

/// Returns the name of a kind of medium, and that of the medium itself if it has one.
pub(crate) fn media_label(media: &Media) -> String {
    let kind = match media.kind {
        MediaKind::Image => "image",
        MediaKind::Audio => "audio",
        MediaKind::Video => "video",
        _ => "file",
    };
    media.name.as_ref().map_or_else(|| kind.to_owned(), |name| format!("{kind} {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_plain_words() {
        assert_eq!(extension("image/png"), "png");
        assert_eq!(extension("audio/mpeg"), "mp3");
        assert_eq!(extension(""), "bin");
    }
}
