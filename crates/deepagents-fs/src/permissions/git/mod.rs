//! What git runs from a workspace because of repository settings, user settings and hooks.
//!
//! A repository's settings may name files outside `.git`: more settings, hooks, filters. Whoever can write those
//! controls the user's next `git status`, even if the settings themselves are unchanged. The same goes for the targets
//! of links in a repository, and for what hooks run.

mod setting;
mod text;
mod user;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::programs::{Search, beginning, is_program};
use super::words::{Word, without_variables, words};
use setting::{Kind, Setting, settings};
pub(crate) use user::UserGit;
use user::expanded;

/// Maximum number of bytes read of one settings file, and of all.
const MAX_FILE_BYTES: u64 = 256 << 10;
const MAX_TOTAL_BYTES: u64 = 1 << 20;
/// Maximum number of settings files read.
const MAX_FILES: usize = 64;
/// The hooks that git runs.
const HOOKS: [&str; 28] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];
/// Maximum number of other entries examined in a hooks directory. Hooks may run them.
const MAX_OTHERS: usize = 128;
/// Directory in which Husky places hooks that run those in its parent.
const HUSKY: &str = "_";
/// Maximum number of directories that settings name as the base of relative paths.
const MAX_TREES: usize = 4;

/// Returns the files and directories below a root that a repository makes git run or read settings from; they need not
/// exist. `repository` is the path of a `.git`, below the root or absolute, or of a repository under another name.
pub(crate) fn run_from(root: &Path, repository: &Path, user: &UserGit) -> BTreeSet<PathBuf> {
    let git = root.join(repository);
    let is_named = repository.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
    let tree = if is_named { git.parent().unwrap_or(root) } else { &git };
    let directory = match beginning(&git, MAX_FILE_BYTES) {
        Some(text) => text.strip_prefix(b"gitdir:").map_or(git.clone(), |path| tree.join(path_of(path))),
        None => git.clone(),
    };
    let common = beginning(&directory.join("commondir"), MAX_FILE_BYTES).map(|path| directory.join(path_of(&path)));
    let search = Search::of_repository(root, tree, user.home.as_deref());
    let (trees, read) = (vec![tree.to_owned()], BTreeSet::new());
    let mut found = Repository { root, trees, user, search, read, left: MAX_TOTAL_BYTES };
    let mut settings = Vec::new();
    for directory in std::iter::once(&directory).chain(&common) {
        for name in ["config", "config.worktree"] {
            settings.extend(found.read(&directory.join(name)));
        }
        found.hooks(&directory.join("hooks"));
    }
    let worktrees = settings.iter().filter(|setting| setting.kind == Kind::Worktree);
    found.trees.extend(worktrees.map(|setting| directory.join(&setting.value)).take(MAX_TREES));
    for setting in &settings {
        found.take(setting, true);
    }
    for setting in &user.settings {
        found.take(setting, false);
    }
    // Files inside the repository are protected with it.
    let own = [Some(directory.clone()), directory.canonicalize().ok()];
    let inside = |path: &PathBuf| own.iter().flatten().any(|own| root.join(path).starts_with(own));
    found.search.found.into_iter().filter(|path| !inside(path)).collect()
}

/// Returns the repositories above a root, which [`run_from`] accepts too. Their settings and hooks may name files below
/// it.
pub(crate) fn repositories_above(root: &Path) -> impl Iterator<Item = PathBuf> {
    root.ancestors().skip(1).map(|above| above.join(".git")).filter(|git| git.symlink_metadata().is_ok())
}

struct Repository<'a> {
    root: &'a Path,
    /// Where relative paths of programs start: the directory around the repository, and others that its settings name.
    trees: Vec<PathBuf>,
    user: &'a UserGit,
    search: Search<'a>,
    /// Settings files already read: they may include each other, or themselves.
    read: BTreeSet<PathBuf>,
    /// Number of bytes of settings that may still be read.
    left: u64,
}

impl Repository<'_> {
    /// Returns the settings in a file and in those that it includes.
    fn read(&mut self, first: &Path) -> Vec<Setting> {
        let (mut todo, mut found) = (vec![first.to_owned()], Vec::new());
        while let Some(file) = todo.pop() {
            self.search.add(&file);
            let Ok(real) = file.canonicalize() else { continue };
            if self.read.len() >= MAX_FILES || !self.read.insert(real) {
                continue;
            }
            let Some(text) = beginning(&file, MAX_FILE_BYTES.min(self.left)) else { continue };
            self.left = self.left.saturating_sub(text.len() as u64);
            for setting in settings(&String::from_utf8_lossy(&text)) {
                if setting.kind == Kind::Include {
                    let directory = file.parent().unwrap_or(self.root);
                    todo.push(expanded(&setting.value, self.user.home.as_deref(), directory));
                } else {
                    found.push(setting);
                }
            }
        }
        found
    }

    /// Adds what a setting names. What the user's settings include has already been read.
    fn take(&mut self, setting: &Setting, is_own: bool) {
        let home = self.user.home.as_deref();
        for tree in self.trees.clone() {
            let path = expanded(&setting.value, home, &tree);
            match setting.kind {
                Kind::Include | Kind::File => self.search.add(&path),
                Kind::Hooks => {
                    self.search.add(&path);
                    self.hooks(&path);
                    if let (Some(beside), true) = (path.parent(), path.ends_with(HUSKY)) {
                        self.search.add(beside);
                        self.hooks(beside);
                    }
                }
                Kind::Command => self.command(&setting.value, &tree, is_own),
                Kind::Worktree => {}
            }
        }
    }

    /// Adds what a text names that may be a command. Many settings contain commands, so every setting that names a file
    /// here counts.
    fn command(&mut self, text: &str, tree: &Path, is_own: bool) {
        let (value, variable) = (without_variables(text), self.search.root_in(text));
        for word in words(&value).filter(Word::may_be_here) {
            for path in self.search.places(word.text, tree, &[], variable) {
                // User settings apply to all repositories, so their words may happen to be names of anything here.
                let is_there = if is_own { path.is_file() } else { is_program(&path) };
                if is_there {
                    self.search.program(&path);
                } else if may_be_a_program(word.text) && !path.exists() {
                    self.search.add(&path);
                }
            }
        }
        for file in words(&value).filter_map(|word| word.file_of_a_program()) {
            let path = tree.join(file);
            if !path.exists() {
                self.search.add(&path);
            }
        }
        if words(&value).any(|word| matches!(word.text, "cd" | "-C" | "-m")) {
            self.search.commands(text, tree);
        }
    }

    /// Adds the hooks in a directory, their link targets, and what they run.
    fn hooks(&mut self, directory: &Path) {
        if directory.is_symlink() {
            self.search.add(directory);
        }
        // The root cannot be protected as a whole, only the names in it that git runs.
        let is_root =
            directory.canonicalize().is_ok_and(|real| self.root.canonicalize().is_ok_and(|root| root == real));
        for hook in HOOKS.map(|name| directory.join(name)) {
            if hook.is_file() {
                self.search.program(&hook);
            } else if is_root {
                self.search.add(&hook);
            }
        }
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten().take(MAX_OTHERS) {
            let hook = entry.path();
            if hook.extension().is_some_and(|ending| ending == "sample") || !hook.is_file() {
                continue;
            }
            self.search.program(&hook);
        }
    }
}

/// Returns whether a word looks like the path of a program that may be created later.
fn may_be_a_program(word: &str) -> bool {
    let is_path = word.contains('/') && !word.ends_with('/') && !word.starts_with(['-', '/']);
    is_path && !word.contains([':', '*', '?', '[', '%', '\\', '@', ','])
}

fn path_of(text: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(text.trim_ascii()))
}
