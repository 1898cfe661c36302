//! Finds the workspace files that decide what the programs of a command run.
//!
//! `make lint` runs what a `Makefile` says, `cargo fmt` what an alias in `.cargo/config.toml` says, and `python3 x.py`
//! what `x.py` imports.

mod loaded;
mod tools;

use std::collections::BTreeSet;
use std::path::Path;

use super::programs::{Search, beginning};
use super::words::{Word, takes_files, without_variables, words};
use crate::VPath;

/// Number of bytes read of a package's description or a program.
const MAX_READ_BYTES: u64 = 256 << 10;
/// Maximum number of directories that a command may change to.
const MAX_DIRECTORIES: usize = 8;
/// Maximum number of commands that are followed into a package's scripts.
const MAX_COMMANDS: usize = 64;
/// Options of tools whose value is a file that they read.
const OPTIONS: [&str; 8] = ["-f", "-c", "-t", "--file", "--makefile", "--justfile", "--taskfile", "--config"];
/// Characters of a pattern that stands for several files.
const PATTERN: [char; 4] = ['*', '?', '[', '{'];

/// Returns the files and directories below a root that decide what the programs of a command run, besides the
/// [programs that it names](super::programs_of): the settings of tools such as `make`, `npm` and `cargo`, what is fed to
/// a shell or an interpreter, and the modules that Python is told to run. They need not exist.
///
/// What compilers and test runners run is not included, since that is the project itself.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let root = dir.path().canonicalize()?;
/// use deepagents_fs::permissions::inputs_of;
/// let found = inputs_of("make lint", &root, &root, None);
/// assert!(found.iter().any(|path| path.as_str() == "/Makefile"));
/// assert!(inputs_of("date +%F", &root, &root, None).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn inputs_of(text: &str, root: &Path, start: &Path, home: Option<&Path>) -> BTreeSet<VPath> {
    let mut inputs = Inputs { root, search: Search::new(root, start, home), seen: BTreeSet::new() };
    inputs.command(text, start);
    inputs.search.paths()
}

/// Returns the files below a root that Python and JavaScript programs load from their own directories, and what these
/// load in turn. A Python module that does not exist there counts too, since it would be loaded before others.
pub fn loaded_by<'a>(programs: impl IntoIterator<Item = &'a VPath>, root: &Path) -> BTreeSet<VPath> {
    let mut search = Search::new(root, root, None);
    let programs = programs.into_iter().map(|path| root.join(path.relative())).collect();
    loaded::add(&mut search, root, programs);
    search.paths()
}

struct Inputs<'a> {
    root: &'a Path,
    search: Search<'a>,
    /// Commands already followed.
    seen: BTreeSet<String>,
}

impl Inputs<'_> {
    fn command(&mut self, text: &str, start: &Path) {
        if self.seen.len() >= MAX_COMMANDS || !self.seen.insert(text.to_owned()) {
            return;
        }
        let plain = without_variables(text);
        let all: Vec<Word<'_>> = words(&plain).collect();
        let mut starts = vec![start.to_owned()];
        for word in &all {
            let path = start.join(word.text);
            if path.is_dir() && path.starts_with(self.root) && starts.len() < MAX_DIRECTORIES && !starts.contains(&path)
            {
                starts.push(path);
            }
        }
        for start in &starts {
            self.tools(&all, start);
            if is_fed(&all) {
                self.fed(&all, start);
            }
            self.modules(&all, start);
        }
    }

    /// Adds what the tools among the words read.
    fn tools(&mut self, all: &[Word<'_>], start: &Path) {
        for tool in all.iter().filter_map(|word| tools::of(word)) {
            for directory in start.ancestors().take_while(|directory| directory.starts_with(self.root)) {
                tool.files.iter().for_each(|file| self.search.add(&directory.join(file)));
            }
            // As in `make -f FILE`.
            for pair in all.windows(2) {
                let [option, file] = pair else { continue };
                if OPTIONS.contains(&option.text) && start.join(file.text).is_file() {
                    self.search.add(&start.join(file.text));
                }
            }
            if tool.has_scripts {
                for script in scripts(&start.join("package.json"), all) {
                    self.search.commands(&script, start);
                    self.command(&script, start);
                }
            }
        }
    }

    /// Adds the files and directories among the words, whose content a shell may run.
    fn fed(&mut self, all: &[Word<'_>], start: &Path) {
        for word in all.iter().filter(|word| !word.text.starts_with('-')) {
            let path = match word.text.find(PATTERN) {
                Some(at) => {
                    let (before, _) = word.text.split_at(at);
                    start.join(before.rsplit_once('/').map_or("", |(directory, _)| directory))
                }
                None => start.join(word.text),
            };
            let is_inside = path.starts_with(self.root) && path != self.root && path != start;
            if is_inside && path.is_file() {
                self.search.program(&path);
            } else if is_inside && (path.is_dir() || word.may_be_here()) {
                self.search.add(&path);
            }
        }
    }

    /// Adds the Python modules that a command loads by name.
    fn modules(&mut self, all: &[Word<'_>], start: &Path) {
        if !all.iter().any(|word| tools::is_python(word.text)) {
            return;
        }
        let named = |pair: &[Word<'_>]| {
            let [before, word] = pair else { return None };
            matches!(before.text, "import" | "from" | "-m").then(|| word.text.to_owned())
        };
        for name in all.windows(2).filter_map(named) {
            loaded::add_module(&mut self.search, start, &name);
        }
    }
}

/// Returns whether a shell, or another program that runs files, gets its file from elsewhere than the next word: from
/// its input, a variable or a list.
fn is_fed(all: &[Word<'_>]) -> bool {
    all.iter().enumerate().any(|(at, word)| {
        if word.text == "eval" {
            return true;
        }
        if !word.is_program() || !takes_files(word.text) {
            return false;
        }
        for next in all.get(at + 1..).unwrap_or_default().iter().take_while(|next| next.before == word.text) {
            match next.text {
                // The next words are arguments, or the end of `find -exec`.
                "-s" | "\\" => return true,
                option if option.starts_with('-') && !next.takes_text() && option != "-m" => {}
                _ => return false,
            }
        }
        true
    })
}

/// Returns the scripts of a package that the words name, and those that run before and after them.
fn scripts(package: &Path, all: &[Word<'_>]) -> Vec<String> {
    let bytes = beginning(package, MAX_READ_BYTES).unwrap_or_default();
    let package: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let scripts = package.get("scripts").and_then(serde_json::Value::as_object);
    let is_named = |name: &str| {
        let of = ["pre", "post"].into_iter().filter_map(|when| name.strip_prefix(when)).chain([name]);
        of.into_iter().any(|name| all.iter().any(|word| word.text == name))
    };
    let named = scripts.into_iter().flatten().filter(|(name, _)| is_named(name));
    named.filter_map(|(_, text)| text.as_str().map(str::to_owned)).collect()
}
