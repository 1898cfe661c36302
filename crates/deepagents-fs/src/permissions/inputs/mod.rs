//! Finds the workspace files that decide what the programs of a command run.
//!
//! `make lint` runs what a `Makefile` says, `cargo fmt` what an alias in `.cargo/config.toml` says, and `python3 x.py`
//! what `x.py` imports.

mod blocks;
mod commands;
mod loaded;
mod tools;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use self::tools::{Commands, Tool};
use super::programs::{Search, beginning};
use super::words::{Word, takes_files, without_variables, words};
use crate::VPath;

/// Number of bytes read of a package's description or a program.
const MAX_READ_BYTES: u64 = 256 << 10;
/// Number of bytes read of a file that tells a tool what to run.
const MAX_TASKS_BYTES: u64 = 64 << 10;
/// Maximum number of directories that a command may change to.
const MAX_DIRECTORIES: usize = 8;
/// Maximum number of commands that are followed into a package's scripts or the like.
const MAX_COMMANDS: usize = 512;
/// Maximum number of files read that tell tools what to run.
const MAX_FILES: usize = 256;
/// Options of tools whose value is a file that they read.
const OPTIONS: [&str; 10] =
    ["-f", "-c", "-t", "--file", "--makefile", "--justfile", "--taskfile", "--config", "--config-file", "--rcfile"];
/// Characters of a pattern that stands for several files.
const PATTERN: [char; 4] = ['*', '?', '[', '{'];

/// Returns the files and directories below a root that decide what the programs of a command run, besides the
/// [programs that it names](super::programs_of): the settings of tools such as `make`, `npm` and `cargo` with the
/// programs and files that these name, what is fed to a shell or an interpreter, and the modules that Python is told to
/// run, all with [what they load](loaded_by). They need not exist.
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
    let search = Search::new(root, start, home);
    let mut inputs = Inputs { root, search, todo: Vec::new(), seen: BTreeSet::new(), left: MAX_FILES };
    inputs.command(text, start);
    while let Some((text, start)) = inputs.todo.pop() {
        if inputs.seen.len() < MAX_COMMANDS && inputs.seen.insert((text.clone(), start.clone())) {
            inputs.search.commands(&text, &start);
            inputs.command(&text, &start);
        }
    }
    let found = inputs.search.found.iter().map(|path| root.join(path)).collect();
    loaded::add(&mut inputs.search, root, found);
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
    /// Commands to be followed, with the directories that they start in.
    todo: Vec<(String, PathBuf)>,
    /// Commands already followed.
    seen: BTreeSet<(String, PathBuf)>,
    /// Number of files that may still be read that tell tools what to run.
    left: usize,
}

impl Inputs<'_> {
    fn command(&mut self, text: &str, start: &Path) {
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
        for tool in all.iter().flat_map(tools::of) {
            let root = self.root;
            for directory in start.ancestors().take_while(|directory| directory.starts_with(root)) {
                tool.files.iter().for_each(|file| self.tasks(directory.join(file), tool, all, directory));
            }
            // As in `make -f FILE` and `make -fFILE`.
            let named = all.windows(2).filter_map(|pair| match pair {
                [option, file] if OPTIONS.contains(&option.text) => Some(file.text),
                _ => None,
            });
            let joined = all.iter().filter_map(|word| word.text.strip_prefix("-f"));
            for file in named.chain(joined).filter(|file| !file.is_empty()).map(|file| start.join(file)) {
                if file.is_file() || (!file.exists() && tool.commands == Commands::Recipes) {
                    self.tasks(file, tool, all, start);
                }
            }
            if let Commands::Scripts { file, key } = tool.commands {
                let scripts = commands::scripts(&start.join(file), key, all);
                self.todo.extend(scripts.into_iter().map(|script| (script, start.to_owned())));
            }
        }
    }

    /// Adds a file that tells a tool what to run, those that it includes, and the commands in them.
    fn tasks(&mut self, file: PathBuf, tool: &Tool, all: &[Word<'_>], start: &Path) {
        let has_commands = matches!(tool.commands, Commands::Recipes | Commands::Values);
        let (mut todo, mut read, mut texts) = (vec![file], BTreeSet::new(), Vec::new());
        while let Some(file) = todo.pop() {
            self.search.add(&file);
            if !has_commands || !file.starts_with(self.root) || self.left == 0 || !read.insert(file.clone()) {
                continue;
            }
            let Some(text) = beginning(&file, MAX_TASKS_BYTES) else { continue };
            self.left -= 1;
            let text = commands::joined(&String::from_utf8_lossy(&text));
            // `make` looks from where it runs, others from the file.
            let beside = file.parent().filter(|directory| *directory != start);
            let bases: Vec<&Path> = std::iter::once(start).chain(beside).collect();
            let is_there = |name: &str| bases.iter().any(|base| base.join(name).is_file());
            let names = commands::included(&text, tool.commands, is_there);
            todo.extend(names.iter().flat_map(|name| bases.iter().map(move |base| base.join(name))));
            texts.push(text);
        }
        let found = commands::commands(&texts, tool.commands, all);
        self.todo.extend(found.into_iter().map(|command| (command, start.to_owned())));
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
