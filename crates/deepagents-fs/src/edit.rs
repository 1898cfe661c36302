//! Exact text replacement, implemented once for all backends.
//!
//! Matching works on the text that [`read_lines`](Backend::read_lines) shows: `\n` in the old text also matches `\r\n`,
//! and a byte-order mark is invisible. The written file keeps its own line endings and mark; where they are mixed, the
//! new text gets those of the line it begins in. If the old text contains `\r\n` as the file does, old and new text are
//! taken exactly, so line endings can be replaced.

mod error;
mod lf_text;
mod loose;
mod near;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use deepagents_core::state::{State, Update};
use serde::{Deserialize, Serialize};

pub use self::error::{EditError, LooseMatch, NearLine};
use self::lf_text::{LfText, Positions};
use self::loose::loose_matches;
use self::near::nearest;
use crate::lines::BOM;
use crate::{Backend, FsError, VPath, Version, WriteMode};

/// One replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// The text to replace, exactly as it is in the file.
    pub old: String,
    /// The replacement.
    pub new: String,
    /// Replace every occurrence; otherwise there must be exactly one.
    #[serde(default)]
    pub replace_all: bool,
}

impl Edit {
    /// Replaces the only occurrence of a text.
    pub fn new(old: impl Into<String>, new: impl Into<String>) -> Self {
        Self { old: old.into(), new: new.into(), replace_all: false }
    }

    /// Replaces every occurrence.
    #[must_use]
    pub fn all(mut self) -> Self {
        self.replace_all = true;
        self
    }
}

/// Result of editing a file.
#[derive(Clone, Debug)]
pub struct EditResult {
    /// The state update.
    pub update: Update,
    /// The new version of the file.
    pub version: Version,
    /// Number of occurrences that each edit replaced.
    pub replaced: Vec<usize>,
    /// The content before.
    pub before: Bytes,
    /// The content after.
    pub after: Bytes,
}

/// Maximum size of a file in bytes, before and after its edits. Editing holds several copies of it in memory.
pub const MAX_BYTES: u64 = 16 << 20;

/// Time limit for the edits of one call.
const EDIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Above either of these, the edits run on the blocking thread pool.
const BLOCKING_BYTES: usize = 64 << 10;
const BLOCKING_EDITS: usize = 16;

/// Number of attempts to edit a file that others keep changing. Of any concurrent attempts one succeeds, so this fails
/// only with more writers than attempts.
const MAX_ATTEMPTS: usize = 256;

/// Applies edits to a file in order, all or none.
///
/// With `expected`, the file must still be at that version. Without it, the edits apply to the current content, and are
/// retried if the file changes in the meantime.
///
/// ```
/// use deepagents_core::state::State;
/// use deepagents_fs::{Backend, LocalBackend, VPath, WriteMode, edit};
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # let dir = tempfile::tempdir()?;
/// # runtime.block_on(async {
/// let files = LocalBackend::open(dir.path())?;
/// let (state, path) = (State::default(), VPath::parse("/hello.txt")?);
/// files.write(&state, &path, "Hello, World\n".into(), WriteMode::Create).await?;
/// let edited = edit::edit(&files, &state, &path, &[edit::Edit::new("World", "you")], None).await?;
/// assert_eq!(&edited.after[..], b"Hello, you\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error if an edit does not apply, or if reading or writing fails.
pub async fn edit(
    backend: &dyn Backend,
    state: &State,
    path: &VPath,
    edits: &[Edit],
    expected: Option<&Version>,
) -> Result<EditResult, EditError> {
    let _turn = backend.lock(path).await;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let file = backend.read_to_change(state, path).await?;
        if expected.is_some_and(|expected| *expected != file.stat.version) {
            return Err(FsError::Changed(path.clone()).into());
        }
        let (after, replaced) = match apply_aside(path, &file.bytes, edits).await {
            Err(error) if error.quotes_file() && !may_be_read(backend, state, path).await => {
                return Err(error.without_quotes());
            }
            result => result?,
        };
        let after = Bytes::from(after);
        match backend.write(state, path, after.clone(), WriteMode::IfVersion(file.stat.version)).await {
            Ok(written) => {
                let (update, version) = (written.update, written.version);
                return Ok(EditResult { update, version, replaced, before: file.bytes, after });
            }
            Err(FsError::Changed(_)) if expected.is_none() && attempt < MAX_ATTEMPTS => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Applies edits, using the blocking thread pool if they may take long.
async fn apply_aside(path: &VPath, content: &Bytes, edits: &[Edit]) -> Result<(Vec<u8>, Vec<usize>), EditError> {
    if content.len() <= BLOCKING_BYTES && edits.len() <= BLOCKING_EDITS {
        return apply(path, content, edits);
    }
    let (own, content, edits) = (path.clone(), content.clone(), edits.to_vec());
    let lost = |_| FsError::io(path, std::io::ErrorKind::Other, "the edits did not finish");
    tokio::task::spawn_blocking(move || apply(&own, &content, &edits)).await.map_err(lost)?
}

/// Returns whether an error message may quote the file.
async fn may_be_read(backend: &dyn Backend, state: &State, path: &VPath) -> bool {
    !matches!(backend.stat(state, path).await, Err(FsError::Denied { .. }))
}

/// Applies edits to content in order, all or none. Returns the new content and the number of occurrences that each edit
/// replaced.
///
/// # Errors
/// Returns an error if the content is not text, an edit does not apply, the content would grow beyond [`MAX_BYTES`], or
/// the edits take longer than ten seconds. `path` is used only in the error.
pub fn apply(path: &VPath, content: &[u8], edits: &[Edit]) -> Result<(Vec<u8>, Vec<usize>), EditError> {
    if edits.is_empty() {
        return Err(EditError::NoEdits(path.clone()));
    }
    let (bom, body) = match content.strip_prefix(BOM) {
        Some(body) => (BOM, body),
        None => (&[][..], content),
    };
    let text = std::str::from_utf8(body).map_err(|_| EditError::Binary(path.clone()))?;
    if text.contains('\0') {
        return Err(EditError::Binary(path.clone()));
    }
    let mut text = Cow::Borrowed(text);
    let mut replaced = Vec::with_capacity(edits.len());
    let started = Instant::now();
    for (index, edit) in edits.iter().enumerate() {
        if started.elapsed() > EDIT_TIMEOUT {
            let reason = format!("the edits took longer than {} s; make fewer at once", EDIT_TIMEOUT.as_secs());
            return Err(FsError::TimedOut { path: path.clone(), reason }.into());
        }
        let (next, count) = replace(path, index, &text, edit)?;
        replaced.push(count);
        text = Cow::Owned(next);
    }
    if bom.is_empty() {
        return Ok((text.into_owned().into_bytes(), replaced));
    }
    Ok(([bom, text.as_bytes()].concat(), replaced))
}

fn replace(path: &VPath, index: usize, text: &str, edit: &Edit) -> Result<(String, usize), EditError> {
    let path = || path.clone();
    let is_exact = edit.old.contains("\r\n") && text.contains(&edit.old);
    let file = if is_exact { LfText::unchanged(text) } else { LfText::new(text) };
    if edit.old.is_empty() {
        return Err(EditError::EmptyOld { path: path(), index });
    }
    // A line may have a `\r` of its own before its `\r\n`; then the old text matches as given, too.
    let own_cr = edit.old.contains("\r\n") && file.text.contains(&edit.old);
    let old = if own_cr { edit.old.clone() } else { edit.old.replace("\r\n", "\n") };
    let finder = memchr::memmem::Finder::new(&old);
    let found = || finder.find_iter(file.text.as_bytes());
    let count = found().count();
    if count == 0 {
        if let Some(stripped) = old.strip_suffix('\n').filter(|s| !s.is_empty() && file.text.ends_with(s)) {
            let count = file.text.matches(stripped).count();
            return Err(EditError::NoFinalNewline { path: path(), index, count });
        }
        // A guess could change the wrong place, so the exact text is shown instead.
        let (places, count) = loose_matches(&file.text, &old);
        return Err(match count {
            0 => EditError::NotFound { path: path(), index, nearest: nearest(&file.text, &old) },
            _ => EditError::OtherWhiteSpace { path: path(), index, places, count },
        });
    }
    if count > 1 && !edit.replace_all {
        let lines = found().take(10).map(|at| line_number(&file.text, at)).collect();
        return Err(EditError::NotUnique { path: path(), index, count, lines });
    }
    // The new text gets the file's line endings, also if the edit assumes `\r\n` but the file has none.
    let assumes_crlf = !own_cr && (file.has_crlf() || edit.old.contains("\r\n"));
    let new: Cow<'_, str> = if assumes_crlf { edit.new.replace("\r\n", "\n").into() } else { edit.new.as_str().into() };
    // Where line ends are mixed, the place decides about those of the new text, unless it has its own.
    let is_mixed = !own_cr && file.is_mixed();
    let has_own = is_mixed && edit.new.contains("\r\n") && !edit.old.contains("\r\n");
    let (with_crlf, with_lf) = if has_own {
        (Cow::Borrowed(&*edit.new), Cow::Borrowed(&*edit.new))
    } else {
        (if file.has_crlf() { new.replace('\n', "\r\n").into() } else { new.clone() }, new)
    };
    let new_at = |positions: &mut Positions<'_>, start| {
        if !is_mixed || positions.is_crlf_at(start) { &*with_crlf } else { &*with_lf }
    };
    let mut positions = file.positions();
    let mut size = text.len();
    for at in found() {
        let start = positions.original(at);
        let taken = positions.original(at + old.len()) - start;
        size = size.saturating_sub(taken).saturating_add(new_at(&mut positions, start).len());
    }
    if size as u64 > MAX_BYTES {
        return Err(EditError::TooLarge { path: path(), index, size: size as u64, limit: MAX_BYTES });
    }
    let (mut out, mut positions, mut done) = (String::with_capacity(size), file.positions(), 0);
    for at in found() {
        let (start, end) = (positions.original(at), positions.original(at + old.len()));
        out.push_str(text.get(done..start).unwrap_or_default());
        out.push_str(new_at(&mut positions, start));
        done = end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    if out == text && edit.old != edit.new {
        return Err(EditError::NoChange { path: path(), index });
    }
    Ok((out, count))
}

fn line_number(text: &str, at: usize) -> u64 {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    memchr::memchr_iter(b'\n', before).count() as u64 + 1
}
