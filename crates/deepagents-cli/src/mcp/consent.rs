//! What agreeing to a project's MCP server covers, and how changes to it are noticed.

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

/// Extensions of files that programs in these languages load by name.
const LOADED: [&str; 8] = ["py", "js", "cjs", "mjs", "ts", "cts", "mts", "node"];
/// Maximum number of directory entries examined.
const MAX_ENTRIES: usize = 1000;
/// The file that defines what `npm run` runs, and its maximum size in bytes.
const PACKAGE: &str = "package.json";
const MAX_PACKAGE_BYTES: u64 = 1 << 20;
/// Programs that run more than their arguments name, and the files that define what some of them run.
const RUNNERS: [&str; 11] = ["npm", "pnpm", "yarn", "bun", "deno", "make", "just", "cargo", "go", "uv", "poetry"];
const MANIFESTS: [&str; 5] = [PACKAGE, "deno.json", "Makefile", "makefile", "justfile"];

impl Described {
    /// Returns the item to agree to: the entry as written, named by its file's path in the project, with the project's
    /// files that it names and those next to them, which are what is run.
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
            asks_for.push("to run files of the directory, not all of which are checked for changes".to_owned());
        }
        let whole = Whole { kind: TrustKind::McpServer, name: self.name.clone(), source, asks_for };
        let files = run.files.union(&run.beside).cloned().collect();
        whole.with(text.into_bytes(), &files, &root)
    }
}

/// Describes everything that a server does or gets if the user agrees to it.
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
        Some(Sampling::Ask) => asks.push("the use of the model, asking each time".to_owned()),
        _ => {}
    }
    asks
}

/// What a server runs from a directory.
#[derive(Debug, Default)]
struct Run {
    /// The files that are named.
    files: BTreeSet<VPath>,
    /// The files next to them, which they may load. Consent covers them, but they are not protected: the agent's work
    /// may consist of them.
    beside: BTreeSet<VPath>,
    /// Whether it may run other files.
    is_partly_known: bool,
}

/// Returns the files that an entry names in its command and arguments, those that these programs name, and the files
/// next to programs that load their neighbours.
fn run_by(entry: &Entry, root: &Path) -> Run {
    let Some(TransportConfig::Stdio(program)) = entry.config(&env).ok().map(|config| config.transport) else {
        return Run::default();
    };
    let start = program.cwd.as_ref().map_or_else(|| root.to_owned(), |cwd| root.join(cwd));
    let words: Vec<&str> =
        [program.command.as_str()].into_iter().chain(program.args.iter().map(String::as_str)).collect();
    // The value of an option may be a file name too.
    let names = words.iter().flat_map(|word| [Some(*word), word.split_once('=').map(|(_, value)| value)]).flatten();
    let named = names.flat_map(|name| {
        let written = start.join(name);
        let real = written.canonicalize().ok().filter(|file| file.is_file());
        // Include the link itself, as replacing it changes what is run. A link on the way to the file goes unnoticed.
        real.into_iter().flat_map(move |real| [written.clone(), real])
    });
    let named: BTreeSet<VPath> = named.filter_map(|file| below(&file, root)).collect();
    // A named file may run others, whichever program it is passed to, and an argument with spaces may be a command of
    // its own.
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
        let Some(directory) = file.parent().filter(|_| loads_siblings(file)) else { continue };
        if directory.is_root() {
            // The other files there are the project itself.
            run.is_partly_known = true;
        } else if directories.insert(directory.clone()) {
            match programs_in(root, &directory) {
                Some(files) => run.beside.extend(files),
                None => run.is_partly_known = true,
            }
        }
    }
    run
}

/// Returns the package's scripts that the words name, and those that these name in turn.
fn scripts(package: &Path, words: &[&str]) -> Vec<String> {
    let bytes = small_file::bytes(package, MAX_PACKAGE_BYTES).ok().flatten().unwrap_or_default();
    let package: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let Some(scripts) = package.get("scripts").and_then(Value::as_object) else { return Vec::new() };
    let mut left: Vec<(&str, &str)> =
        scripts.iter().filter_map(|(name, text)| Some((name.as_str(), text.as_str()?))).collect();
    let mut found: Vec<String> = Vec::new();
    let mut names: BTreeSet<String> = words.iter().map(|word| (*word).to_owned()).collect();
    while !names.is_empty() {
        // The scripts that run before and after another are named after it.
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

/// Returns the programs in a directory; `None` if it has too many entries.
fn programs_in(root: &Path, directory: &VPath) -> Option<BTreeSet<VPath>> {
    let (mut todo, mut left) = (vec![root.join(directory.relative())], MAX_ENTRIES);
    let mut files = BTreeSet::new();
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            left = left.checked_sub(1)?;
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(path),
                _ => files.extend(below(&path, root).filter(loads_siblings)),
            }
        }
    }
    Some(files)
}

/// Whether programs in the file's language load files next to them.
fn loads_siblings(file: &VPath) -> bool {
    let ending = Path::new(file.as_str()).extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| LOADED.contains(&ending))
}

fn below(file: &Path, root: &Path) -> Option<VPath> {
    VPath::parse(&format!("/{}", file.strip_prefix(root).ok()?.to_str()?)).ok()
}

/// Returns the files in a directory that MCP servers run. They run outside the sandbox, and a call may start them
/// again. `named` is a servers file in addition to the user's and the project's.
pub(crate) fn programs_run(root: &Path, named: Option<&Path>) -> BTreeSet<VPath> {
    entries(root, named).flat_map(|entry| run_by(&entry, root).files).collect()
}

/// Returns the commands that start these servers, with their arguments.
pub(crate) fn commands_run(root: &Path, named: Option<&Path>) -> Vec<String> {
    let commands = entries(root, named).filter_map(|entry| Some((entry.command?, entry.args)));
    commands.map(|(command, args)| format!("{command} {}", args.join(" "))).collect()
}

fn entries(root: &Path, named: Option<&Path>) -> impl Iterator<Item = Entry> {
    let files = discover::files(root).into_iter().map(|(file, _)| file).chain(named.map(Path::to_owned));
    let entries = files.filter_map(|file| discover::read(&file).ok()?).flat_map(|file| file.servers);
    entries.filter_map(|(_, entry)| entry.ok()).filter(|entry| !entry.disabled)
}
