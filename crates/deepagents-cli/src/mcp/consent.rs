//! What somebody agrees to who agrees to a server of the project, and what keeps it as it is.

use std::collections::BTreeSet;
use std::path::Path;

use deepagents::fs::VPath;
use deepagents::fs::permissions::programs_of;
use deepagents::mcp::{Entry, Sampling, TransportConfig};
use deepagents::trust::{FoundItem, TrustKind};
use serde_json::Value;

use super::discover::{self, Described};
use crate::model_choice::env;
use crate::own_files::home;
use crate::small_file;
use crate::trust::Whole;

/// How files end that programs of their language load by their names.
const LOADED: [&str; 8] = ["py", "js", "cjs", "mjs", "ts", "cts", "mts", "node"];
/// Entries of a directory that are looked at.
const MOST_BESIDE: usize = 1000;
/// Says what `npm run` runs, and may have so many bytes.
const PACKAGE: &str = "package.json";
const MOST_PACKAGE: u64 = 1 << 20;
/// Programs that run more than they are told to by name, and files that say what some of them run.
const RUNNERS: [&str; 11] = ["npm", "pnpm", "yarn", "bun", "deno", "make", "just", "cargo", "go", "uv", "poetry"];
const MANIFESTS: [&str; 5] = [PACKAGE, "deno.json", "Makefile", "makefile", "justfile"];

impl Described {
    /// What is agreed to: the entry as it is written, by the name of its file in the project, and the files of the project
    /// that it names, with those beside them, which are what is run.
    pub(super) fn item(&self, root: &Path) -> FoundItem {
        let source = format!("/{}", self.file.strip_prefix(root).unwrap_or(&self.file).display());
        let text = match &self.entry {
            Ok(entry) => serde_json::to_string_pretty(entry).unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        let mut asks_for = self.entry.as_ref().map(asks_for).unwrap_or_default();
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let run = self.entry.as_ref().map(|entry| run_by(entry, &root)).unwrap_or_default();
        if run.is_partly_known {
            asks_for.push("to run what lies in the directory, whose changes are not all seen".to_owned());
        }
        let whole = Whole { kind: TrustKind::McpServer, name: self.name.clone(), source, asks_for };
        let files = run.files.union(&run.beside).cloned().collect();
        whole.with(text.into_bytes(), &files, &root)
    }
}

/// All that a server does or gets by being agreed to, in words.
fn asks_for(entry: &Entry) -> Vec<String> {
    let mut asks = Vec::new();
    match (&entry.command, &entry.url) {
        (Some(command), _) => {
            asks.push(format!("the command {command} {}", entry.args.join(" ")).trim_end().to_owned())
        }
        (None, Some(url)) => asks.push(format!("the address {url}")),
        (None, None) => {}
    }
    asks.extend(entry.cwd.iter().map(|cwd| format!("the directory {cwd}")));
    asks.extend(entry.env.iter().map(|(name, value)| format!("the variable {name} as {value}")));
    asks.extend(entry.headers.iter().map(|(name, value)| format!("the header {name} as {value}")));
    asks.extend(entry.reads().into_iter().map(|(name, part)| format!("your variable {name} for its {part}")));
    match entry.sampling {
        Some(Sampling::Allow) => asks.push("the use of the model".to_owned()),
        Some(Sampling::Ask) => asks.push("the use of the model, asked for each time".to_owned()),
        _ => {}
    }
    asks
}

/// What a server runs from a directory.
#[derive(Debug, Default)]
struct Run {
    /// The files that are named.
    files: BTreeSet<VPath>,
    /// Those beside them, which they may load. They are agreed to with them, and not protected: they may be all that is
    /// worked on.
    beside: BTreeSet<VPath>,
    /// Whether it may run others.
    is_partly_known: bool,
}

/// What an entry names in its command and arguments, what those programs name, and what lies beside programs that load what
/// lies beside them.
fn run_by(entry: &Entry, root: &Path) -> Run {
    let Some(TransportConfig::Stdio(program)) = entry.config(&env).ok().map(|config| config.transport) else {
        return Run::default();
    };
    let start = program.cwd.as_ref().map_or_else(|| root.to_owned(), |cwd| root.join(cwd));
    let words: Vec<&str> =
        [program.command.as_str()].into_iter().chain(program.args.iter().map(String::as_str)).collect();
    // The value of an option may name one too.
    let names = words.iter().flat_map(|word| [Some(*word), word.split_once('=').map(|(_, value)| value)]).flatten();
    let named = names.flat_map(|name| {
        let written = start.join(name);
        let real = written.canonicalize().ok().filter(|file| file.is_file());
        // Whoever exchanges a link says what is run as well; one on the way to a file is not seen.
        real.into_iter().flat_map(move |real| [written.clone(), real])
    });
    let named: BTreeSet<VPath> = named.filter_map(|file| below(&file, root)).collect();
    // A file that is named runs others, whatever it is given to, and a text may be commands of its own.
    let texts = words.iter().filter(|word| word.contains(char::is_whitespace) || start.join(word).is_file());
    let texts = texts.map(|text| (*text).to_owned()).chain([words.join(" ")]);
    let mut run = Run::default();
    run.files.extend(texts.flat_map(|text| programs_of(&text, root, &start, home().as_deref())));
    run.files.extend(named);
    let tool = Path::new(&program.command).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if RUNNERS.contains(&tool) && start.starts_with(root) {
        let manifests = MANIFESTS.iter().map(|name| start.join(name)).filter(|file| file.is_file());
        run.files.extend(manifests.filter_map(|file| below(&file, root)));
        let scripts = scripts(&start.join(PACKAGE), &words);
        run.files.extend(scripts.iter().flat_map(|text| programs_of(text, root, &start, home().as_deref())));
        run.is_partly_known = true;
    }
    let mut directories = BTreeSet::new();
    for file in &run.files {
        let Some(directory) = file.parent().filter(|_| loads_beside(file)) else { continue };
        if directory.is_root() {
            // What else lies there is the project's.
            run.is_partly_known = true;
        } else if directories.insert(directory.clone()) {
            match beside(root, &directory) {
                Some(files) => run.beside.extend(files),
                None => run.is_partly_known = true,
            }
        }
    }
    run
}

/// The scripts of a package that words name, and those that these name.
fn scripts(package: &Path, words: &[&str]) -> Vec<String> {
    let bytes = small_file::bytes(package, MOST_PACKAGE).ok().flatten().unwrap_or_default();
    let package: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let Some(scripts) = package.get("scripts").and_then(Value::as_object) else { return Vec::new() };
    let mut left: Vec<(&str, &str)> =
        scripts.iter().filter_map(|(name, text)| Some((name.as_str(), text.as_str()?))).collect();
    let mut found: Vec<String> = Vec::new();
    let mut names: BTreeSet<String> = words.iter().map(|word| (*word).to_owned()).collect();
    while !names.is_empty() {
        // What runs before and after a script is named after it.
        let is_named = |name: &str| {
            let of = ["pre", "post"].into_iter().filter_map(|when| name.strip_prefix(when));
            of.chain([name]).any(|name| names.contains(name))
        };
        let (now, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|(name, _)| is_named(name));
        left = later;
        names = now.iter().flat_map(|(_, text)| text.split_whitespace().map(str::to_owned)).collect();
        found.extend(now.into_iter().map(|(_, text)| text.to_owned()));
    }
    found
}

/// The programs in a directory; none where there are too many to be looked at.
fn beside(root: &Path, directory: &VPath) -> Option<BTreeSet<VPath>> {
    let (mut todo, mut left) = (vec![root.join(directory.relative())], MOST_BESIDE);
    let mut files = BTreeSet::new();
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            left = left.checked_sub(1)?;
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(path),
                _ => files.extend(below(&path, root).filter(loads_beside)),
            }
        }
    }
    Some(files)
}

/// Whether a file is of a language whose programs load what lies beside them.
fn loads_beside(file: &VPath) -> bool {
    let ending = Path::new(file.as_str()).extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| LOADED.contains(&ending))
}

fn below(file: &Path, root: &Path) -> Option<VPath> {
    VPath::parse(&format!("/{}", file.strip_prefix(root).ok()?.to_str()?)).ok()
}

/// What servers of tools are run from in a directory, since these run outside of the sandbox and are started anew by a
/// call; `named` is a file of servers beside the user's and the project's.
pub(crate) fn run_here(root: &Path, named: Option<&Path>) -> BTreeSet<VPath> {
    entries(root, named).flat_map(|entry| run_by(&entry, root).files).collect()
}

/// The commands that start these servers, with their arguments.
pub(crate) fn commands_here(root: &Path, named: Option<&Path>) -> Vec<String> {
    let commands = entries(root, named).filter_map(|entry| Some((entry.command?, entry.args)));
    commands.map(|(command, args)| format!("{command} {}", args.join(" "))).collect()
}

fn entries(root: &Path, named: Option<&Path>) -> impl Iterator<Item = Entry> {
    let files = discover::files(root).into_iter().map(|(file, _)| file).chain(named.map(Path::to_owned));
    let entries = files.filter_map(|file| discover::read(&file).ok()?).flat_map(|file| file.servers);
    entries.filter_map(|(_, entry)| entry.ok()).filter(|entry| !entry.disabled)
}
