//! Finds the workspace programs that the text of a command names.
//!
//! A command that someone approved, or wrote, stays the same only as long as the files it runs do.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use super::words::{last_part, without_variables, words};
use crate::VPath;

/// Number of bytes of a program that are searched for other programs it runs.
const MAX_READ_BYTES: u64 = 8 << 10;
/// Maximum number of words looked up in total.
const MAX_WORDS: usize = 4096;
/// Extensions of program files that are text.
const ENDINGS: [&str; 17] =
    ["sh", "bash", "zsh", "fish", "py", "js", "cjs", "mjs", "jsx", "ts", "cts", "mts", "rb", "pl", "php", "lua", "ps1"];
/// Files that make a directory runnable, as in `python3 tools` and `node .`.
const ENTRIES: [&str; 2] = ["__main__.py", "index.js"];
const RUNNERS: [&str; 4] = ["python", "node", "bun", "deno"];
/// Extensions of shell scripts.
const SHELLS: [&str; 4] = ["sh", "bash", "zsh", "fish"];
/// Maximum number of directories in which the words of one text are looked up.
const MAX_DIRECTORIES: usize = 8;

/// Returns the programs below a root that a command runs, as far as its words name them: both the paths as written and
/// their link targets. Includes programs named in those programs.
///
/// A word counts if it is in the position of a program or follows a program that runs files. It must also contain a
/// directory, have a program's extension, or follow a program that runs files, since other names are looked up in
/// `PATH`. A program that does not exist yet counts if it has a program's extension or starts with `./`.
///
/// `start` is the working directory of the command; `home` is the directory that `~` stands for.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let root = dir.path().canonicalize()?;
/// use deepagents_fs::permissions::programs_of;
/// std::fs::create_dir(root.join("tools"))?;
/// std::fs::write(root.join("tools/lint.sh"), "exec ./tools/all.py\n")?;
/// std::fs::write(root.join("tools/all.py"), "")?;
/// let found = programs_of("cd tools && sh lint.sh ../README.md", &root, &root, None);
/// assert_eq!(found.iter().map(|path| path.as_str()).collect::<Vec<_>>(), ["/tools/all.py", "/tools/lint.sh"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn programs_of(text: &str, root: &Path, start: &Path, home: Option<&Path>) -> BTreeSet<VPath> {
    let mut search = Search::new(root, start, home);
    search.commands(text, start);
    search.paths()
}

/// A search for programs, with its results and remaining budget.
pub(super) struct Search<'a> {
    root: &'a Path,
    start: &'a Path,
    home: Option<&'a Path>,
    /// The path of the root in a repository around it. A variable stands for the root only where a text has this path.
    path_of_root: Option<&'a str>,
    /// Found paths, relative to the root.
    pub(super) found: BTreeSet<PathBuf>,
    read: BTreeSet<PathBuf>,
    left: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(root: &'a Path, start: &'a Path, home: Option<&'a Path>) -> Self {
        Self { root, start, home, path_of_root: None, found: BTreeSet::new(), read: BTreeSet::new(), left: MAX_WORDS }
    }

    /// A search for what a repository runs, whose directory may contain the root.
    pub(super) fn of_repository(root: &'a Path, tree: &'a Path, home: Option<&'a Path>) -> Self {
        let below = root.strip_prefix(tree).ok().and_then(Path::to_str);
        Self { path_of_root: below.filter(|path| !path.is_empty()), ..Self::new(root, tree, home) }
    }

    /// Returns the root if variables in a text may stand for it.
    pub(super) fn root_in(&self, text: &str) -> Option<&'a Path> {
        self.path_of_root.is_none_or(|path| text.contains(path)).then_some(self.root)
    }

    /// Adds the programs that a command names which starts in a directory, and those they name.
    pub(super) fn commands(&mut self, text: &str, start: &Path) {
        let (variable, mut starts) = (self.root_in(text), vec![start.to_owned()]);
        let text = without_variables(text);
        for found in words(&text) {
            let (word, before) = (found.text, found.before);
            let module = if before == "-m" { word.replace('.', "/") } else { String::new() };
            let (mut is_found, mut absent) = (false, Vec::new());
            for base in starts.clone() {
                if !module.is_empty() {
                    let module = base.join(&module);
                    let beside = ENTRIES.iter().chain(&["__init__.py"]).map(|name| module.join(name));
                    let files: Vec<PathBuf> = beside.chain([module.with_extension("py")]).collect();
                    files.iter().filter(|file| file.is_file()).for_each(|file| self.program(file));
                }
                for path in self.places(word, &base, &[], variable) {
                    if path.is_dir() && path.starts_with(self.root) {
                        if runs_directories(before) {
                            let files = ENTRIES.iter().map(|name| path.join(name)).filter(|file| file.is_file());
                            files.for_each(|file| self.program(&file));
                        }
                        // As in `cd tools && ./run`.
                        if path != start && starts.len() < MAX_DIRECTORIES {
                            starts.push(path);
                        }
                    } else if !found.may_be_run() {
                        continue;
                    } else if is_program(&path) {
                        is_found = true;
                        self.program(&path);
                    } else if !path.exists() {
                        absent.push(path);
                    }
                }
            }
            if !is_found && is_named_as_one(word) {
                absent.iter().for_each(|path| self.add(path));
            }
        }
    }

    /// Adds a program and the programs it names.
    pub(super) fn program(&mut self, file: &Path) {
        self.add(file);
        self.look_into(file);
    }

    /// Adds the existing programs that a program names.
    pub(super) fn look_into(&mut self, file: &Path) {
        let Ok(real) = file.canonicalize() else { return };
        if !self.read.insert(real.clone()) {
            return;
        }
        let Some(text) = beginning(file, MAX_READ_BYTES).filter(|text| !text.contains(&0)) else { return };
        let text = without_variables(&String::from_utf8_lossy(&text)).into_owned();
        let (is_shell, variable) = (is_of_a_shell(file, &text), self.root_in(&text));
        let beside: Vec<PathBuf> = [file, &real].iter().filter_map(|file| Some(file.parent()?.to_owned())).collect();
        for word in words(&text).filter(|word| if is_shell { word.may_be_run() } else { word.may_be_here() }) {
            for path in self.places(word.text, self.start, &beside, variable) {
                if path != file && path.starts_with(self.root) && is_program(&path) {
                    self.add(&path);
                }
            }
        }
    }

    /// Returns the paths a word may stand for: it may start with `~`, with a removed variable, or in one of the
    /// directories. An absolute path does not hide these: `"$ROOT"/bin/test` is not `/bin/test`. A variable may stand
    /// for the working directory, the home, and `variable`.
    pub(super) fn places(
        &mut self,
        word: &str,
        base: &Path,
        beside: &[PathBuf],
        variable: Option<&Path>,
    ) -> Vec<PathBuf> {
        let Some(left) = self.left.checked_sub(1) else { return Vec::new() };
        self.left = left;
        let bases = || std::iter::once(base.to_owned()).chain(beside.iter().cloned());
        if let Some(rest) = word.strip_prefix("~/") {
            return self.home.map(|home| home.join(rest)).into_iter().collect();
        }
        if let Some(rest) = word.strip_prefix('/') {
            let rest = rest.trim_start_matches('/');
            let bases = bases().chain([variable, self.home].into_iter().flatten().map(Path::to_owned));
            let bases = bases.filter(|_| !rest.is_empty()).map(|base| base.join(rest));
            return std::iter::once(PathBuf::from(word)).chain(bases).collect();
        }
        bases().map(|base| base.join(word)).collect()
    }

    /// Returns what was found.
    pub(super) fn paths(&self) -> BTreeSet<VPath> {
        self.found.iter().filter_map(|path| VPath::try_from(path.to_str()?.to_owned()).ok()).collect()
    }

    /// Adds a path as written and its link target, if they are below the root.
    pub(super) fn add(&mut self, path: &Path) {
        let below = |path: PathBuf| path.strip_prefix(self.root).ok().map(Path::to_owned);
        let both = [Some(written(path)), path.canonicalize().ok()].into_iter().flatten().filter_map(below);
        let both: Vec<PathBuf> = both.filter(|path| !path.as_os_str().is_empty()).collect();
        self.found.extend(both);
    }
}

/// Returns whether a program is a shell script, which it is unless its extension or first line says otherwise.
fn is_of_a_shell(file: &Path, text: &str) -> bool {
    match (file.extension().and_then(|ending| ending.to_str()), text.strip_prefix("#!")) {
        (_, Some(rest)) => rest.lines().next().is_some_and(|line| line.contains("sh")),
        (Some(ending), None) => SHELLS.contains(&ending) || !ENDINGS.contains(&ending),
        (None, None) => true,
    }
}

/// Returns whether a program runs a directory named after it.
fn runs_directories(program: &str) -> bool {
    let name = last_part(program);
    RUNNERS.iter().any(|runner| name.starts_with(runner))
}

/// Returns whether a word looks like the name of a program, whether it exists or not.
pub(super) fn is_named_as_one(word: &str) -> bool {
    let path = Path::new(word);
    let ending = path.extension().and_then(|ending| ending.to_str());
    let is_plain = !word.contains(['*', '?', '[', '\\', ':', '%', ',']);
    is_plain && (word.starts_with("./") || ending.is_some_and(|ending| ENDINGS.contains(&ending)))
}

/// Returns whether a file exists that can be run, or is text that another program runs.
pub(super) fn is_program(file: &Path) -> bool {
    let Ok(found) = file.metadata() else { return false };
    let ending = file.extension().and_then(|ending| ending.to_str());
    found.is_file()
        && (found.permissions().mode() & 0o111 != 0
            || ending.is_some_and(|ending| ENDINGS.contains(&ending))
            || beginning(file, 2).is_some_and(|text| text == b"#!"))
}

/// Removes `.` and `..` from a path without resolving links.
fn written(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// Reads the beginning of a regular file. Does not block if the path is a FIFO.
pub(crate) fn beginning(file: &Path, most: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = openat(CWD, file, flags, Mode::empty()).ok()?;
    let regular = FileType::from_raw_mode(fstat(&fd).ok()?.st_mode) == FileType::RegularFile;
    let mut content = Vec::new();
    File::from(fd).take(most).read_to_end(&mut content).ok().filter(|_| regular)?;
    Some(content)
}
