//! Finding MCP servers: in the user's file, the project's files, and a file named on the command line.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use deepagents::mcp::{ConfigFile, Entry, EntryError, FileError, ServerConfig};
use deepagents::trust::{FoundItem, TrustItem};

use crate::args::McpSources;
use crate::exit::WrongUsage;
use crate::model_choice::env;
use crate::output;
use crate::small_file;
use crate::sources::OWN;
use crate::trust::{self, Undecided};

/// Name of a servers file.
pub(super) const FILE: &str = ".mcp.json";

/// Where a file comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Returns the path of the user's file.
pub(super) fn of_user() -> Option<PathBuf> {
    env("HOME").map(|home| Path::new(&home).join(OWN).join(FILE))
}

/// Reads all files. A file named on the command line that cannot be used is an error; others are reported and skipped.
/// The project's servers are included only if the user agrees to them.
pub(super) fn find(sources: &McpSources, root: &Path, undecided: Undecided) -> Result<Found> {
    let (mut found, problems) = collect(sources, root)?;
    problems.iter().for_each(|problem| output::remark(&format!("warning: {problem}")));
    if !sources.trust_project_mcp {
        found.admit(root, undecided)?;
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
        let counts = |server: &Described| server.source != Source::Project || is_agreed(&server.item(root).item);
        (found.servers, found.untrusted) = std::mem::take(&mut found.servers).into_iter().partition(counts);
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
        let wrong = |why| WrongUsage(format!("the file `{}` given with --mcp-config {why}", file.display()));
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
    let user = of_user();
    // The project may be the user's home.
    let is_user = user.as_ref().is_some_and(|user| same(user, &own));
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

fn same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
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

    /// Removes the servers that the user has not agreed to.
    fn admit(&mut self, root: &Path, undecided: Undecided) -> Result<()> {
        let (project, others) =
            std::mem::take(&mut self.servers).into_iter().partition(|s: &Described| s.source == Source::Project);
        self.servers = others;
        let items = project.iter().map(|server: &Described| server.item(root)).collect();
        let admitted: Vec<TrustItem> =
            trust::admit(root, items, undecided)?.into_iter().map(|found| found.item).collect();
        let (trusted, untrusted) = project.into_iter().partition(|server| admitted.contains(&server.item(root).item));
        self.untrusted = untrusted;
        self.servers.extend::<Vec<Described>>(trusted);
        Ok(())
    }

    /// Keeps one server per name: that of the file with the highest precedence.
    fn by_importance(mut self) -> Self {
        let rank = |source: Source| match source {
            Source::User => 0,
            Source::Project => 1,
            Source::Named => 2,
        };
        self.servers.sort_by_key(|server| rank(server.source));
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
        bail!(WrongUsage(format!("there is no MCP server `{name}`; the servers are: {known}")))
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
