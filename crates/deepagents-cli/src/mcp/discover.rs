//! Which MCP servers there are: files of the user, of the project, and one named by hand.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use deepagents::mcp::{ConfigFile, Entry, EntryError, FileError, ServerConfig};

use crate::args::McpSources;
use crate::model_choice::env;
use crate::output;

/// What a file of servers is called.
pub(super) const FILE: &str = ".mcp.json";
/// The directory of our own, in a home and in a project.
const OWN: &str = ".deepagents";

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

/// Reads all files. One that was named by hand and cannot be used is an error; the others are told of and passed over.
pub(super) fn find(sources: &McpSources, root: &Path) -> Result<Found> {
    let mut found = Found::default();
    let user = of_user();
    let own = root.join(OWN).join(FILE);
    // The home may be the project.
    let is_user = user.as_ref().is_some_and(|user| same(user, &own));
    let files = user.map(|file| (file, Source::User)).into_iter();
    let files = files.chain((!is_user).then_some((own, Source::Project))).chain([(root.join(FILE), Source::Project)]);
    for (file, source) in files {
        match read(&file) {
            Ok(Some(servers)) => found.take(servers, source, &file, sources.trust_project_mcp),
            Ok(None) => {}
            Err(problem) => {
                output::remark(&format!("warning: {}: {problem}; its MCP servers are left out", file.display()))
            }
        }
    }
    if let Some(file) = &sources.mcp_config {
        match read(file) {
            Ok(Some(servers)) => found.take(servers, Source::Named, file, true),
            Ok(None) => bail!("the file `{}` given with --mcp-config does not exist", file.display()),
            Err(problem) => bail!("the file `{}` given with --mcp-config cannot be used: {problem}", file.display()),
        }
    }
    Ok(found)
}

fn same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// What a file holds, if it is there.
pub(super) fn read(file: &Path) -> Result<Option<ConfigFile>, String> {
    match fs::read_to_string(file) {
        Ok(text) => ConfigFile::parse(&text).map(Some).map_err(|error: FileError| error.to_string()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

impl Found {
    fn take(&mut self, file: ConfigFile, source: Source, path: &Path, trusted: bool) {
        let is_trusted = source != Source::Project || trusted;
        let list = if is_trusted { &mut self.servers } else { &mut self.untrusted };
        for (name, entry) in file.servers {
            list.retain(|known| known.name != name);
            list.push(Described { name, entry, source, file: path.to_owned() });
        }
    }

    /// The server of a name.
    pub(super) fn get(&self, name: &str) -> Result<&Described> {
        if let Some(server) = self.servers.iter().find(|server| server.name == name) {
            return Ok(server);
        }
        if self.untrusted.iter().any(|server| server.name == name) {
            bail!("MCP server {name} is described by the project; consent to it with --trust-project-mcp");
        }
        let known: Vec<&str> = self.servers.iter().map(|server| server.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        bail!("there is no MCP server `{name}`; there are: {known}")
    }

    /// What is left out and why, in lines.
    pub(super) fn remarks(&self) -> Vec<String> {
        let names: Vec<&str> = self.untrusted.iter().map(|server| server.name.as_str()).collect();
        if names.is_empty() {
            return Vec::new();
        }
        vec![format!(
            "MCP servers of this project were not started, since nobody has consented to them: {}; look at {FILE} and allow \
             them with --trust-project-mcp",
            names.join(", ")
        )]
    }
}

impl Described {
    /// How it is reached, with the variables of the environment put in. What it says of its tools is believed where it is
    /// the user's own.
    pub(super) fn config(&self) -> Result<ServerConfig, EntryError> {
        let lookup = |name: &str| std::env::var(name).ok();
        let config = self.entry.clone().and_then(|entry| entry.config(&lookup))?;
        Ok(config.trusted(self.source != Source::Project))
    }

    /// Whether it is switched off.
    pub(super) fn is_disabled(&self) -> bool {
        self.entry.as_ref().is_ok_and(|entry| entry.disabled)
    }
}
