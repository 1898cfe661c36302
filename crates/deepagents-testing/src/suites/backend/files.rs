//! A backend together with its state.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use deepagents_core::state::{Schema, State};
use deepagents_fs::edit::{self, Edit, EditError, EditResult};
use deepagents_fs::lines::{LineRange, LineWindow};
use deepagents_fs::search::{GlobOutcome, GlobQuery, GrepOutcome, GrepQuery};
use deepagents_fs::{Backend, ByteRange, Entry, FsError, Kind, VPath, Version, WriteMode};

/// A backend and the state it works on. Each change applies the update that the backend returns.
pub struct Files {
    /// The backend.
    pub backend: Arc<dyn Backend>,
    /// The state, updated by what the backend returns.
    pub state: State,
    filling: Filling,
    kept: Vec<Box<dyn Any + Send + Sync>>,
}

/// How files are written.
enum Filling {
    /// Through a backend on the same files.
    Through(Arc<dyn Backend>),
    /// By making the backend again, with one file more.
    Again { make: Box<Make>, files: BTreeMap<VPath, Bytes> },
}

type Make = dyn Fn(BTreeMap<VPath, Bytes>) -> Arc<dyn Backend> + Send + Sync;

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Parses a path.
pub fn p(text: &str) -> VPath {
    VPath::parse(text).unwrap()
}

/// Formats the lines that a search found as `path:number:text`, with `-` instead of `:` for context lines.
pub fn shown(out: &GrepOutcome) -> Vec<String> {
    let mut lines = Vec::new();
    for file in &out.files {
        for line in &file.lines {
            let mark = if line.matched { ':' } else { '-' };
            lines.push(format!("{}{mark}{}{mark}{}", file.path, line.number, line.text));
        }
    }
    lines
}

impl Files {
    /// Creates files on a backend with a new state.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        let state = State::new(Arc::new(Schema::new(backend.channels()).unwrap()));
        Self { filling: Filling::Through(backend.clone()), backend, state, kept: Vec::new() }
    }

    /// Creates files on a backend that receives its files when it is made, such as an archive, for
    /// `backend_suite!(reading: …)`. Each write of the suite makes it again, from the paths and contents of all files:
    /// `Files::made(|files| Archive::of(files))`.
    pub fn made<B: Backend>(make: impl Fn(BTreeMap<VPath, Bytes>) -> B + Send + Sync + 'static) -> Self {
        let files = Self::new(Arc::new(make(BTreeMap::new())));
        let make = Box::new(move |files| Arc::new(make(files)) as Arc<dyn Backend>);
        Self { filling: Filling::Again { make, files: BTreeMap::new() }, ..files }
    }

    /// Makes changes through another backend on the same files, for a backend that is read-only.
    #[must_use]
    pub fn filled_through(mut self, writer: Arc<dyn Backend>) -> Self {
        self.filling = Filling::Through(writer);
        self
    }

    /// Keeps a value, such as a temporary directory, alive as long as the files.
    #[must_use]
    pub fn keeping(mut self, value: impl Any + Send + Sync) -> Self {
        self.kept.push(Box::new(value));
        self
    }

    fn writer(&self) -> &Arc<dyn Backend> {
        match &self.filling {
            Filling::Through(writer) => writer,
            Filling::Again { .. } => &self.backend,
        }
    }

    /// Writes a file under a condition.
    ///
    /// # Errors
    /// Returns the error of the backend.
    pub async fn write_mode(
        &mut self,
        path: &str,
        data: impl Into<Bytes>,
        mode: WriteMode,
    ) -> Result<Version, FsError> {
        match &mut self.filling {
            Filling::Through(writer) => {
                let written = writer.write(&self.state, &p(path), data.into(), mode).await?;
                self.state.apply(&written.update).unwrap();
                Ok(written.version)
            }
            Filling::Again { make, files } => {
                assert!(matches!(mode, WriteMode::Overwrite), "a backend that is made again has no conditional writes");
                files.insert(p(path), data.into());
                self.backend = make(files.clone());
                Ok(self.backend.stat(&self.state, &p(path)).await?.version)
            }
        }
    }

    /// Writes a file unconditionally.
    ///
    /// # Errors
    /// Returns the error of the backend.
    pub async fn write(&mut self, path: &str, data: impl Into<Bytes>) -> Result<Version, FsError> {
        self.write_mode(path, data, WriteMode::Overwrite).await
    }

    /// Writes several files.
    pub async fn fill(&mut self, files: &[(&str, &str)]) {
        for (path, content) in files {
            self.write(path, (*content).to_owned()).await.unwrap();
        }
    }

    /// Deletes a path.
    ///
    /// # Errors
    /// Returns the error of the backend.
    pub async fn delete(&mut self, path: &str) -> Result<(), FsError> {
        let update = self.writer().delete(&self.state, &p(path)).await?;
        self.state.apply(&update).unwrap();
        Ok(())
    }

    /// Edits a file, whatever its version.
    ///
    /// # Errors
    /// Returns the error of the edit.
    pub async fn edit(&mut self, path: &str, edits: &[Edit]) -> Result<EditResult, EditError> {
        let edited = edit::edit(&**self.writer(), &self.state, &p(path), edits, None).await?;
        self.state.apply(&edited.update).unwrap();
        Ok(edited)
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// Returns the error of the backend.
    pub async fn read(&self, path: &str) -> Result<Vec<u8>, FsError> {
        Ok(self.backend.read(&self.state, &p(path), ByteRange::ALL).await?.bytes.to_vec())
    }

    /// Returns the version of an existing file.
    pub async fn version(&self, path: &str) -> Version {
        self.backend.stat(&self.state, &p(path)).await.unwrap().version
    }

    /// Reads a window of lines.
    ///
    /// # Errors
    /// Returns the error of the backend.
    pub async fn lines(&self, path: &str, offset: u64, limit: u64) -> Result<LineWindow, FsError> {
        self.window(path, LineRange::new(offset, limit)).await
    }

    /// Reads a window of lines with limits.
    ///
    /// # Errors
    /// Returns the error of the backend.
    pub async fn window(&self, path: &str, range: LineRange) -> Result<LineWindow, FsError> {
        self.backend.read_lines(&self.state, &p(path), range).await
    }

    /// Searches by name.
    ///
    /// # Errors
    /// Returns the error of the backend.
    pub async fn glob(&self, query: &GlobQuery) -> Result<GlobOutcome, FsError> {
        self.backend.glob(&self.state, query).await
    }

    /// Searches by content.
    ///
    /// # Errors
    /// Returns the error of the backend.
    pub async fn grep(&self, query: &GrepQuery) -> Result<GrepOutcome, FsError> {
        self.backend.grep(&self.state, query).await
    }

    /// Returns all files that match a pattern below a path.
    pub async fn found(&self, path: &str, pattern: &str) -> Vec<String> {
        let out = self.glob(&GlobQuery::new(pattern, p(path)).unwrap()).await.unwrap();
        assert_eq!((out.truncation, out.errors.count), (None, 0));
        out.files.iter().map(ToString::to_string).collect()
    }

    /// Returns the lines that a search finds, formatted by [`shown`].
    pub async fn lines_with(&self, query: &GrepQuery) -> Vec<String> {
        shown(&self.grep(query).await.unwrap())
    }

    /// Lists the children of a directory, with a slash after the names of directories.
    ///
    /// # Errors
    /// Returns the error of the backend.
    pub async fn list(&self, path: &str) -> Result<Vec<String>, FsError> {
        let listing = self.backend.list(&self.state, &p(path)).await?;
        let show = |e: &Entry| format!("{}{}", e.path, if e.kind == Kind::Directory { "/" } else { "" });
        Ok(listing.entries.iter().map(show).collect())
    }
}
