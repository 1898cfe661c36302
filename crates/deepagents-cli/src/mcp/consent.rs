//! What somebody agrees to who agrees to a server of the project, and what keeps it as it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use deepagents::fs::VPath;
use deepagents::fs::permissions::{AccessMode, Place, ProtectedPlace, ProtectedPlaces};
use deepagents::mcp::{Entry, Sampling, TransportConfig};
use deepagents::trust::{FoundItem, TrustItem, TrustKind};

use super::discover::{self, Described};
use crate::model_choice::env;
use crate::small_file;

/// Bytes of a file that a server runs, which are read to know it again.
const MOST: u64 = 64 << 20;
/// Bytes of one that is shown.
const MOST_SHOWN: usize = 64 << 10;

impl Described {
    /// What is agreed to: the entry as it is written, by the name of its file in the project, and the files of the project
    /// that it names, which are what is run.
    pub(super) fn item(&self, root: &Path) -> FoundItem {
        let source = format!("/{}", self.file.strip_prefix(root).unwrap_or(&self.file).display());
        let text = match &self.entry {
            Ok(entry) => serde_json::to_string_pretty(entry).unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        let mut asks_for = self.entry.as_ref().map(asks_for).unwrap_or_default();
        let item = |name: &str, content: &[u8]| TrustItem::new(TrustKind::McpServer, name, &source, content);
        let mut hashes = BTreeMap::from([(source.clone(), item(&self.name, text.as_bytes()))]);
        let mut shown = Vec::new();
        for (path, file) in self.entry.as_ref().map(|entry| run_by(entry, root)).unwrap_or_default() {
            let (content, is_read) = match small_file::bytes(&file, MOST) {
                Ok(content) => (content.unwrap_or_default(), true),
                Err(error) => {
                    asks_for.push(format!("the file {path}, whose changes are not seen: {error}"));
                    (error.to_string().into_bytes(), false)
                }
            };
            hashes.insert(path.as_str().to_owned(), item(path.as_str(), &content));
            if is_read && content.len() <= MOST_SHOWN {
                shown.push((path, content));
            }
        }
        let whole = if hashes.len() == 1 {
            item(&self.name, text.as_bytes())
        } else {
            let all = hashes.iter().map(|(path, item)| (path.as_str(), item.sha256.as_str()));
            TrustItem::from_files(TrustKind::McpServer, &self.name, &source, all)
        };
        let found = FoundItem::new(whole, asks_for);
        let entry = VPath::parse(&source).ok().map(|path| (path, text.into_bytes()));
        entry.into_iter().chain(shown).fold(found, |found, (path, content)| found.file(path, content))
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

/// The files below a directory that an entry names in its command and arguments.
fn run_by(entry: &Entry, root: &Path) -> BTreeMap<VPath, PathBuf> {
    let Some(TransportConfig::Stdio(program)) = entry.config(&env).ok().map(|config| config.transport) else {
        return BTreeMap::new();
    };
    let Ok(root) = root.canonicalize() else { return BTreeMap::new() };
    let start = program.cwd.as_ref().map_or_else(|| root.clone(), |cwd| root.join(cwd));
    let words = [&program.command].into_iter().chain(&program.args);
    // The value of an option may name one too.
    let names = words.flat_map(|word| [Some(word.as_str()), word.split_once('=').map(|(_, value)| value)]).flatten();
    names
        .flat_map(|name| {
            let written = start.join(name);
            let real = written.canonicalize().ok().filter(|file| file.is_file());
            // Whoever exchanges a link says what is run as well; one on the way to a file is not seen.
            real.into_iter().flat_map(move |real| [written.clone(), real])
        })
        .filter_map(|file| {
            let path = VPath::parse(&format!("/{}", file.strip_prefix(&root).ok()?.to_str()?)).ok()?;
            Some((path, file))
        })
        .collect()
}

/// What nobody changes on the side in a directory: the standard places, and the files that servers of tools are run from, since
/// these run outside of the sandbox and are started anew by a call.
pub(crate) fn protected(root: &Path) -> ProtectedPlaces {
    let entries = discover::files(root).into_iter().filter_map(|(file, _)| discover::read(&file).ok()?);
    let entries = entries.flat_map(|file| file.servers).filter_map(|(_, entry)| entry.ok());
    let files = entries.filter(|entry| !entry.disabled).flat_map(|entry| run_by(&entry, root).into_keys());
    let asked = files.map(|path| ProtectedPlace { place: Place::At(path), mode: AccessMode::Ask });
    ProtectedPlaces::new(ProtectedPlaces::default().iter().cloned().chain(asked))
}
