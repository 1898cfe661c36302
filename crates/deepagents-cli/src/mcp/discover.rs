//! Finding MCP servers: in the user's file, the project's files, and a file named on the command line.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use deepagents::mcp::{ConfigFile, Entry, EntryError, FileError, ServerConfig};
use deepagents::trust::{FoundItem, TrustItem};

use crate::args::McpSources;
use crate::exit::WrongUsage;
use crate::output;
use crate::own_files::{OWN, is_same, of_user};
use crate::small_file;
use crate::trust::{self, Undecided};

/// Name of a servers file.
pub(super) const FILE: &str = ".mcp.json";
/// The directory whose servers `deepagents mcp` shows and changes.
pub(super) const HERE: &str = ".";

/// Where a file comes from, in order of increasing precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// The user's own.
    User,
    /// The project's.
    Project,
    /// Named on the command line.
    Named,
}

/// A server that a file describes.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) name: String,
    pub(super) entry: Result<Entry, EntryError>,
    pub(super) source: Source,
    pub(super) file: PathBuf,
}

/// All servers; of two with the same name, only the one with the higher precedence.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) servers: Vec<Described>,
    /// Servers of the project that the user has not agreed to.
    pub(super) untrusted: Vec<Described>,
}

/// Finds the servers of this directory, for commands about servers. Those that the user has not agreed to stay so.
pub(super) fn find_here(sources: &McpSources) -> Result<Found> {
    find(sources, Path::new(HERE), Undecided::LeaveOut)
}

/// Reads all files. A file named on the command line that cannot be used is an error; others are reported and skipped.
/// The project's servers are included only if the user agrees to them.
pub(super) fn find(sources: &McpSources, root: &Path, undecided: Undecided) -> Result<Found> {
    let (mut found, problems) = collect(sources, root)?;
    output::remarks(problems.iter().map(|problem| format!("warning: {problem}")));
    if !sources.trust_project_mcp {
        let project = found.servers.iter().filter(|server| server.source == Source::Project);
        let admitted = trust::admit(root, project.map(|server| server.item(root)).collect(), undecided)?;
        found.keep_agreed(root, |item| admitted.iter().any(|found| found.item == *item));
    }
    Ok(found.by_importance())
}

/// Like [`find`], but prints and asks nothing: returns the problems with files, and only the project's servers that
/// were agreed to.
pub(super) fn find_quietly(
    sources: &McpSources,
    root: &Path,
    is_agreed: impl Fn(&TrustItem) -> bool,
) -> Result<(Found, Vec<String>)> {
    let (mut found, problems) = collect(sources, root)?;
    if !sources.trust_project_mcp {
        found.keep_agreed(root, is_agreed);
    }
    Ok((found.by_importance(), problems))
}

/// Reads all files, and returns the problems with them.
fn collect(sources: &McpSources, root: &Path) -> Result<(Found, Vec<String>)> {
    let (mut found, mut problems) = (Found::default(), Vec::new());
    for (file, source) in files(root) {
        match read(&file) {
            Ok(Some(servers)) => found.take(servers, source, &file),
            Ok(None) => {}
            Err(problem) => problems.push(format!("{}: {problem}; its MCP servers are left out", file.display())),
        }
    }
    if let Some(file) = &sources.mcp_config {
        let wrong = |why| WrongUsage::new(format!("the file `{}` given with --mcp-config {why}", file.display()));
        match read(file) {
            Ok(Some(servers)) => found.take(servers, Source::Named, file),
            Ok(None) => bail!(wrong("does not exist".to_owned())),
            Err(problem) => bail!(wrong(format!("cannot be used: {problem}"))),
        }
    }
    Ok((found, problems))
}

/// Returns the files in order of increasing precedence.
pub(super) fn files(root: &Path) -> Vec<(PathBuf, Source)> {
    let own = root.join(OWN).join(FILE);
    let user = of_user(FILE);
    // The project may be the user's home.
    let is_user = user.as_ref().is_some_and(|user| is_same(user, &own));
    let project = (!is_user).then_some((own, Source::Project));
    let user = user.map(|file| (file, Source::User)).into_iter();
    user.chain(project).chain([(root.join(FILE), Source::Project)]).collect()
}

/// Returns the project's servers as items to agree to.
pub(crate) fn brought(root: &Path) -> Vec<FoundItem> {
    let mut found = Found::default();
    for (file, source) in files(root).into_iter().filter(|(_, source)| *source == Source::Project) {
        if let Ok(Some(servers)) = read(&file) {
            found.take(servers, source, &file);
        }
    }
    found.servers.iter().map(|server| server.item(root)).collect()
}

/// Reads a file; `None` if it does not exist.
pub(super) fn read(file: &Path) -> Result<Option<ConfigFile>, String> {
    match small_file::read(file).map_err(|error| error.to_string())? {
        Some(text) => {
            ConfigFile::parse(small_file::without_mark(&text)).map(Some).map_err(|error: FileError| error.to_string())
        }
        None => Ok(None),
    }
}

impl Found {
    fn take(&mut self, file: ConfigFile, source: Source, path: &Path) {
        for (name, entry) in file.servers {
            // A project's server does not replace another source's before the user has agreed to it.
            self.servers.retain(|known| known.name != name || (source == Source::Project) != (known.source == source));
            self.servers.push(Described { name, entry, source, file: path.to_owned() });
        }
    }

    /// Removes the project's servers that the user has not agreed to.
    fn keep_agreed(&mut self, root: &Path, is_agreed: impl Fn(&TrustItem) -> bool) {
        let counts = |server: &Described| server.source != Source::Project || is_agreed(&server.item(root).item);
        (self.servers, self.untrusted) = std::mem::take(&mut self.servers).into_iter().partition(counts);
    }

    /// Keeps one server per name: that of the file with the highest precedence.
    fn by_importance(mut self) -> Self {
        self.servers.sort_by_key(|server| server.source);
        let mut kept: Vec<Described> = Vec::new();
        for server in self.servers {
            kept.retain(|known| known.name != server.name);
            kept.push(server);
        }
        Self { servers: kept, untrusted: self.untrusted }
    }

    /// Returns the server with this name.
    pub(super) fn get(&self, name: &str) -> Result<&Described> {
        if let Some(server) = self.servers.iter().find(|server| server.name == name) {
            return Ok(server);
        }
        if self.untrusted.iter().any(|server| server.name == name) {
            bail!(
                "MCP server {name} is described by the project; agree to it with --trust, or once with --trust-project-mcp"
            );
        }
        let known: Vec<&str> = self.servers.iter().map(|server| server.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        bail!(WrongUsage::new(format!("there is no MCP server `{name}`; the servers are: {known}")))
    }

    /// Returns the configuration of the server with this name.
    pub(super) fn usable(&self, name: &str) -> Result<ServerConfig> {
        self.get(name)?.config().map_err(|error| anyhow!("MCP server {name} cannot be used: {error}"))
    }
}

impl Described {
    /// Returns its configuration, with environment variables substituted. What it says about its tools is trusted: it
    /// is the user's own, or the user has agreed to it and to what its tools say.
    pub(super) fn config(&self) -> Result<ServerConfig, EntryError> {
        let lookup = |name: &str| std::env::var(name).ok();
        let config = self.entry.clone().and_then(|entry| entry.config(&lookup))?;
        Ok(config.trusted(true))
    }

    /// Whether it is disabled.
    pub(super) fn is_disabled(&self) -> bool {
        self.entry.as_ref().is_ok_and(|entry| entry.disabled)
    }
}
