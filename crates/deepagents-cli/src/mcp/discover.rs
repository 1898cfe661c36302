//! Which MCP servers there are: files of the user, of the project, and one named by hand.

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

/// What a file of servers is called.
pub(super) const FILE: &str = ".mcp.json";

/// Who wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The user.
    User,
    /// Whoever made the project.
    Project,
    /// Whoever runs the program has named it.
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

/// All servers there are; of two with one name the more important one.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) servers: Vec<Described>,
    /// Those of the project that nobody has consented to.
    pub(super) untrusted: Vec<Described>,
}

/// The file of the user.
pub(super) fn of_user() -> Option<PathBuf> {
    env("HOME").map(|home| Path::new(&home).join(OWN).join(FILE))
}

/// Reads all files. One that was named by hand and cannot be used is an error; the others are told of and passed over. Of
/// those of the project nothing counts before somebody agrees to it.
pub(super) fn find(sources: &McpSources, root: &Path, undecided: Undecided) -> Result<Found> {
    let (mut found, problems) = collect(sources, root)?;
    problems.iter().for_each(|problem| output::remark(&format!("warning: {problem}")));
    if !sources.trust_project_mcp {
        found.admit(root, undecided)?;
    }
    Ok(found.by_importance())
}

/// The same without a word: what is wrong with files is given, and of the servers of the project those count that were
/// agreed to.
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

/// Reads all files, and says what is wrong with them.
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

/// The files, from the least to the most important one.
pub(super) fn files(root: &Path) -> Vec<(PathBuf, Source)> {
    let own = root.join(OWN).join(FILE);
    let user = of_user();
    // The home may be the project.
    let is_user = user.as_ref().is_some_and(|user| same(user, &own));
    let project = (!is_user).then_some((own, Source::Project));
    let user = user.map(|file| (file, Source::User)).into_iter();
    user.chain(project).chain([(root.join(FILE), Source::Project)]).collect()
}

/// What the project brings, to be agreed to.
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

/// What a file holds, if it is there.
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
            // One of the project does not take the place of another before it counts.
            self.servers.retain(|known| known.name != name || (source == Source::Project) != (known.source == source));
            self.servers.push(Described { name, entry, source, file: path.to_owned() });
        }
    }

    /// Leaves out what nobody has agreed to, and then the less important one of two with one name.
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

    /// One server a name: the one of the most important file.
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

    /// The server of a name.
    pub(super) fn get(&self, name: &str) -> Result<&Described> {
        if let Some(server) = self.servers.iter().find(|server| server.name == name) {
            return Ok(server);
        }
        if self.untrusted.iter().any(|server| server.name == name) {
            bail!(
                "MCP server {name} is described by the project; agree to it with --trust, or for once with --trust-project-mcp"
            );
        }
        let known: Vec<&str> = self.servers.iter().map(|server| server.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        bail!(WrongUsage(format!("there is no MCP server `{name}`; there are: {known}")))
    }
}

impl Described {
    /// How it is reached, with the variables of the environment put in. What it says of its tools is believed: it is the user's
    /// own, or the user has agreed to it and to what its tools say.
    pub(super) fn config(&self) -> Result<ServerConfig, EntryError> {
        let lookup = |name: &str| std::env::var(name).ok();
        let config = self.entry.clone().and_then(|entry| entry.config(&lookup))?;
        Ok(config.trusted(true))
    }

    /// Whether it is switched off.
    pub(super) fn is_disabled(&self) -> bool {
        self.entry.as_ref().is_ok_and(|entry| entry.disabled)
    }
}
