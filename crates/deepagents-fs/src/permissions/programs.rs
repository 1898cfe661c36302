//! Programs of a workspace that texts of commands name.
//!
//! A command that somebody agreed to, or wrote themselves, is what it was only as long as the files that it runs are.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};

use crate::VPath;

/// Bytes of a program that are looked at for others that it runs.
const MOST_READ: u64 = 8 << 10;
/// Words that are looked for in all.
const MOST_WORDS: usize = 4096;
/// How names of programs end that are text.
const ENDINGS: [&str; 17] =
    ["sh", "bash", "zsh", "fish", "py", "js", "cjs", "mjs", "jsx", "ts", "cts", "mts", "rb", "pl", "php", "lua", "ps1"];
/// What makes a directory a program to those that run one, as in `python3 tools` and `node .`.
const ENTRIES: [&str; 2] = ["__main__.py", "index.js"];
const RUNNERS: [&str; 4] = ["python", "node", "bun", "deno"];
/// Programs that take the name of a file without a directory as one of the directory that they run in, also with digits
/// behind.
const TAKE_FILES: [&str; 16] = [
    "sh", "bash", "zsh", "dash", "fish", "python", "node", "ruby", "perl", "php", "bun", "deno", "tsx", "ts-node",
    "source", ".",
];
/// Words behind which a program stands.
const LEAD_IN: [&str; 23] = [
    "exec", "env", "command", "nohup", "time", "timeout", "nice", "setsid", "sudo", "xargs", "-exec", "if", "then",
    "elif", "else", "while", "until", "do", "run", "npx", "bunx", "uvx", "watch",
];
/// How scripts of a shell end.
const SHELLS: [&str; 4] = ["sh", "bash", "zsh", "fish"];
/// Directories in which the words of one text are looked for.
const MOST_STARTS: usize = 8;

/// The programs below a root that commands in a text run, as far as its words name them: as they are written, and where links
/// lead. What these name themselves is among them. A word names one where a program stands in a command, or behind one
/// that runs files; it has a directory, or the ending of a program, or stands behind one that runs files: other names
/// are looked for in `PATH`. A program that is not there yet is one by the ending of its name, or where a `./` stands
/// before it.
///
/// `start` is the directory in which the commands run, `home` what `~` is.
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
    search.commands(text);
    search.found.iter().filter_map(|path| VPath::parse(path.to_str()?).ok()).collect()
}

/// What was found, and how much more is looked for.
pub(super) struct Search<'a> {
    root: &'a Path,
    start: &'a Path,
    home: Option<&'a Path>,
    /// Paths below the root.
    pub(super) found: BTreeSet<PathBuf>,
    read: BTreeSet<PathBuf>,
    left: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(root: &'a Path, start: &'a Path, home: Option<&'a Path>) -> Self {
        Self { root, start, home, found: BTreeSet::new(), read: BTreeSet::new(), left: MOST_WORDS }
    }

    /// Adds what commands name, and what that names.
    fn commands(&mut self, text: &str) {
        let (start, mut starts) = (self.start, vec![self.start.to_owned()]);
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
                for path in self.places(word, &base, &[]) {
                    if path.is_dir() && path.starts_with(self.root) {
                        if runs_directories(before) {
                            let files = ENTRIES.iter().map(|name| path.join(name)).filter(|file| file.is_file());
                            files.for_each(|file| self.program(&file));
                        }
                        // `cd tools && ./run`
                        if path != start && starts.len() < MOST_STARTS {
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

    /// Adds a program, and what it names itself.
    pub(super) fn program(&mut self, file: &Path) {
        self.add(file);
        self.look_into(file);
    }

    /// Adds the programs that are there and that a program names.
    pub(super) fn look_into(&mut self, file: &Path) {
        let Ok(real) = file.canonicalize() else { return };
        if !self.read.insert(real.clone()) {
            return;
        }
        let Some(text) = beginning(file, MOST_READ).filter(|text| !text.contains(&0)) else { return };
        let text = without_variables(&String::from_utf8_lossy(&text)).into_owned();
        let is_shell = is_of_a_shell(file, &text);
        let beside: Vec<PathBuf> = [file, &real].iter().filter_map(|file| Some(file.parent()?.to_owned())).collect();
        for word in words(&text).filter(|word| if is_shell { word.may_be_run() } else { word.may_be_here() }) {
            for path in self.places(word.text, self.start, &beside) {
                if path != file && path.starts_with(self.root) && is_program(&path) {
                    self.add(&path);
                }
            }
        }
    }

    /// Where a word may lead: it begins with `~`, with a variable that is gone, or in one of the directories. What is
    /// there on this machine hides none of them: `"$ROOT"/bin/test` is not `/bin/test`.
    pub(super) fn places(&mut self, word: &str, base: &Path, beside: &[PathBuf]) -> Vec<PathBuf> {
        let Some(left) = self.left.checked_sub(1) else { return Vec::new() };
        self.left = left;
        let bases = || std::iter::once(base.to_owned()).chain(beside.iter().cloned());
        if let Some(rest) = word.strip_prefix("~/") {
            return self.home.map(|home| home.join(rest)).into_iter().collect();
        }
        if let Some(rest) = word.strip_prefix('/') {
            let rest = rest.trim_start_matches('/');
            let bases = bases().chain([self.root.to_owned()]).chain(self.home.map(Path::to_owned));
            let bases = bases.filter(|_| !rest.is_empty()).map(|base| base.join(rest));
            return std::iter::once(PathBuf::from(word)).chain(bases).collect();
        }
        bases().map(|base| base.join(word)).collect()
    }

    /// Adds a path as it is written and where it leads, if that is below the root and not all of it.
    pub(super) fn add(&mut self, path: &Path) {
        let below = |path: PathBuf| path.strip_prefix(self.root).ok().map(Path::to_owned);
        let both = [Some(written(path)), path.canonicalize().ok()].into_iter().flatten().filter_map(below);
        let both: Vec<PathBuf> = both.filter(|path| !path.as_os_str().is_empty()).collect();
        self.found.extend(both);
    }
}

/// A word of a text of commands that may be the name of a file.
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    /// The one before it in its command, options other than `-m` left out.
    before: &'a str,
    /// Whether it stands where a program does.
    is_first: bool,
}

impl Word<'_> {
    /// Whether it may be a file here: one without a directory is looked for in `PATH`, unless it stands behind a
    /// program that runs files.
    pub(super) fn may_be_here(&self) -> bool {
        self.text.contains('/') || is_named_as_one(self.text) || takes_files(self.before)
    }

    /// Whether it may be a file here that is run: what stands behind other programs is what they work on.
    fn may_be_run(&self) -> bool {
        takes_files(self.before) || self.is_first && self.may_be_here()
    }
}

/// The words of a text of commands that may be names of files.
pub(super) fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    let (mut before, mut is_first, mut is_value) = ("", true, false);
    text.split_inclusive(is_separator).filter_map(move |piece| {
        let text = piece.trim_end_matches(is_separator);
        let word = Word { text, before, is_first };
        if !text.is_empty() {
            let is_option = text.starts_with('-');
            // The next word is a command of its own.
            let takes_text = is_option && !text.starts_with("--") && text.ends_with('c');
            let is_number = text.starts_with(|c: char| c.is_ascii_digit());
            let leads_in = LEAD_IN.contains(&last_part(text)) || takes_text;
            let sets = std::mem::replace(&mut is_value, piece.ends_with('=')) || is_value;
            is_first = leads_in || is_first && (is_option || is_number || sets);
            if !is_option || takes_text || text == "-m" {
                before = text;
            }
        }
        match piece.chars().next_back() {
            Some('\n' | ';' | '|' | '&' | '(' | ')' | '`') => (before, is_first, is_value) = ("", true, false),
            // What is read or written.
            Some('<' | '>') => (before, is_first) = ("", false),
            _ => {}
        }
        Some(word).filter(|word| !word.text.is_empty())
    })
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || "'\";|&()!<>=`${}".contains(c)
}

/// Whether a program runs a file that is named behind it.
fn takes_files(program: &str) -> bool {
    let name = last_part(program);
    TAKE_FILES.contains(&name) || TAKE_FILES.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
}

fn last_part(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Whether a program is a script of a shell: it is, where neither its name nor its first line says otherwise.
fn is_of_a_shell(file: &Path, text: &str) -> bool {
    match (file.extension().and_then(|ending| ending.to_str()), text.strip_prefix("#!")) {
        (_, Some(rest)) => rest.lines().next().is_some_and(|line| line.contains("sh")),
        (Some(ending), None) => SHELLS.contains(&ending) || !ENDINGS.contains(&ending),
        (None, None) => true,
    }
}

/// A text without `$NAME` and `${NAME}`: what stands behind one is looked for in the directories that there are. Lines
/// that go on are one.
pub(super) fn without_variables(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains('$') && !text.contains("\\\n") {
        return text.into();
    }
    let (mut out, mut chars) = (String::with_capacity(text.len()), text.chars().peekable());
    while let Some(c) = chars.next() {
        if c == '\\' && chars.next_if_eq(&'\n').is_some() {
            out.push(' ');
            continue;
        }
        if c != '$' {
            out.push(c);
            continue;
        }
        out.push(' ');
        if chars.next_if_eq(&'{').is_some() {
            // `${NAME:-tools/x}` has a word of its own.
            while chars.next_if(|c| c.is_alphanumeric() || "_:-".contains(*c)).is_some() {}
        } else {
            while chars.next_if(|c| c.is_alphanumeric() || *c == '_').is_some() {}
        }
    }
    out.into()
}

/// Whether a program runs a directory that is named behind it.
fn runs_directories(program: &str) -> bool {
    let name = last_part(program);
    RUNNERS.iter().any(|runner| name.starts_with(runner))
}

/// Whether a word is the name of a program, whether it is there or not.
fn is_named_as_one(word: &str) -> bool {
    let path = Path::new(word);
    let ending = path.extension().and_then(|ending| ending.to_str());
    let is_plain = !word.contains(['*', '?', '[', '\\', ':', '%', ',']);
    is_plain && (word.starts_with("./") || ending.is_some_and(|ending| ENDINGS.contains(&ending)))
}

/// Whether there is a file that can be run, or is text that another program runs.
pub(super) fn is_program(file: &Path) -> bool {
    let Ok(found) = file.metadata() else { return false };
    let ending = file.extension().and_then(|ending| ending.to_str());
    found.is_file()
        && (found.permissions().mode() & 0o111 != 0
            || ending.is_some_and(|ending| ENDINGS.contains(&ending))
            || beginning(file, 2).is_some_and(|text| text == b"#!"))
}

/// A path without `.` and `..`, as it is written.
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

/// The beginning of a regular file. Nothing else is opened: somebody may have put a FIFO there, which would be waited for.
pub(super) fn beginning(file: &Path, most: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = openat(CWD, file, flags, Mode::empty()).ok()?;
    let regular = FileType::from_raw_mode(fstat(&fd).ok()?.st_mode) == FileType::RegularFile;
    let mut content = Vec::new();
    File::from(fd).take(most).read_to_end(&mut content).ok().filter(|_| regular)?;
    Some(content)
}
