//! What git runs from a workspace, by the settings of its repositories.
//!
//! Settings of a repository may name files that lie beside it: more settings, hooks, filters. Whoever writes those has his way
//! with the next `git status` of a person, although the settings themselves stay as they are.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

/// Bytes of settings that are looked at.
const MOST: u64 = 256 << 10;
/// Files of settings that include each other.
const MOST_INCLUDED: usize = 5;
/// The directory in which Husky has hooks that run those beside it.
const HUSKY: &str = "_";

/// The files and directories below a root that a repository has git run, or take settings from; they need not be there.
/// `repository` is the path below the root of a `.git` or of what is a repository by another name.
pub(crate) fn run_from(root: &Path, repository: &Path) -> BTreeSet<PathBuf> {
    let git = root.join(repository);
    let is_named = repository.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
    let tree = if is_named { git.parent().unwrap_or(root) } else { &git };
    let directory = match small(&git) {
        Some(text) => text.strip_prefix(b"gitdir:").map_or(git.clone(), |path| tree.join(path_of(path))),
        None => git.clone(),
    };
    let mut settings = Settings { root, tree, git: &directory, found: BTreeSet::new() };
    let common = small(&directory.join("commondir")).map(|path| directory.join(path_of(&path)));
    for directory in std::iter::once(&directory).chain(&common) {
        for name in ["config", "config.worktree"] {
            settings.read(&directory.join(name), MOST_INCLUDED);
        }
    }
    settings.found
}

struct Settings<'a> {
    root: &'a Path,
    /// What relative paths of programs are relative to.
    tree: &'a Path,
    git: &'a Path,
    found: BTreeSet<PathBuf>,
}

impl Settings<'_> {
    fn read(&mut self, file: &Path, depth: usize) {
        let Some(text) = small(file) else { return };
        for (section, key, value) in settings(&String::from_utf8_lossy(&text)) {
            match (section.as_str(), key.as_str()) {
                ("include" | "includeif", "path") => {
                    let included = file.parent().unwrap_or(self.root).join(&value);
                    self.add(&included);
                    if depth > 0 {
                        self.read(&included, depth - 1);
                    }
                }
                ("core", "hookspath") => {
                    let hooks = self.tree.join(&value);
                    self.add(&hooks);
                    if let (Some(beside), true) = (hooks.parent(), hooks.ends_with(HUSKY)) {
                        self.add(beside);
                    }
                }
                // Many settings hold commands, so each that names a file here counts.
                _ => {
                    for word in value.split(|c: char| c.is_whitespace() || "'\";|&()!<>=`$".contains(c)) {
                        let file = self.tree.join(word);
                        if !word.is_empty() && file.is_file() {
                            self.add(&file);
                        }
                    }
                }
            }
        }
    }

    /// Adds a path as it is written and where it leads, if that is below the root and not all of it.
    fn add(&mut self, path: &Path) {
        let mut written = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => drop(written.pop()),
                Component::CurDir => {}
                part => written.push(part),
            }
        }
        // What is in the repository is protected as a part of it.
        let below = |path: PathBuf| path.strip_prefix(self.root).ok().map(Path::to_owned);
        let own = |path: &PathBuf| path.as_os_str().is_empty() || self.root.join(path).starts_with(self.git);
        let both = [Some(written), path.canonicalize().ok()].into_iter().flatten();
        let both: Vec<PathBuf> = both.filter_map(below).filter(|path| !own(path)).collect();
        self.found.extend(both);
    }
}

/// The settings in a text: section without its second name, key, value.
fn settings(text: &str) -> Vec<(String, String, String)> {
    let text = text.replace("\\\r\n", "").replace("\\\n", "");
    let (mut section, mut out) = (String::new(), Vec::new());
    for line in text.lines() {
        let mut line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            let Some((name, rest)) = header.rsplit_once(']') else { continue };
            section =
                name.split(|c: char| c.is_whitespace() || c == '.').next().unwrap_or_default().to_ascii_lowercase();
            line = rest.trim();
        }
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';'])) else { continue };
        out.push((section.clone(), key.trim().to_ascii_lowercase(), unquoted(value.trim())));
    }
    out
}

/// A value without what is a remark, quotation marks and backslashes in front of other characters.
fn unquoted(value: &str) -> String {
    let (mut out, mut quoted, mut chars) = (String::new(), false, value.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' => out.extend(chars.next()),
            '#' | ';' if !quoted => break,
            c => out.push(c),
        }
    }
    out.trim_end().to_owned()
}

fn path_of(text: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(text.trim_ascii()))
}

/// The beginning of a regular file. Nothing else is opened: somebody may have put a FIFO there, which would be waited for.
fn small(file: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = openat(CWD, file, flags, Mode::empty()).ok()?;
    let regular = FileType::from_raw_mode(fstat(&fd).ok()?.st_mode) == FileType::RegularFile;
    let mut content = Vec::new();
    File::from(fd).take(MOST).read_to_end(&mut content).ok().filter(|_| regular)?;
    Some(content)
}
