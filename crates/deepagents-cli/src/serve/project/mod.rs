//! What is served: agents described by the command line, a `deepagents.toml` or a directory.

#[cfg(test)]
mod damaged;
mod file;
mod layout;
mod plan;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::access::Access;
use crate::args::ServeArgs;
use crate::exit::WrongUsage;
use crate::own_files;

use file::Source;
pub(super) use file::{JwtSection, LimitsSection, ProjectFile, StoreSection};
pub(super) use layout::Layout;
pub(super) use plan::AgentPlan;
use plan::{described, laid_out, of_options};

/// Name of the file that describes several agents.
const FILE: &str = "deepagents.toml";

/// The agents to serve, and the server's settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Project {
    pub(super) agents: Vec<AgentPlan>,
    /// The file's settings other than the agents; paths are relative to the working directory of the program.
    pub(super) settings: ProjectFile,
    /// Files and directories that describe the agents.
    pub(super) described_by: Vec<PathBuf>,
}

impl Project {
    /// Reads the description that the command line names.
    pub(super) fn read(args: &ServeArgs) -> Result<Self> {
        if let Some(name) = args.name.as_deref().filter(|name| !is_name(name)) {
            bail!(WrongUsage::new(format!("--name cannot be `{name}`: {NAMES}")));
        }
        let Some(place) = &args.project else { return Ok(Self { agents: vec![of_options(args)], ..Self::default() }) };
        let (toml, json) = (place.join(FILE), place.join(layout::FILE));
        if place.is_dir() && toml.is_file() {
            Self::of_file(args, &toml)
        } else if place.is_dir() && json.is_file() {
            Self::of_layout(args, place)
        } else if place.file_name().is_some_and(|name| name == layout::FILE) {
            Self::of_layout(args, place.parent().unwrap_or(Path::new("")))
        } else if place.is_file() {
            Self::of_file(args, place)
        } else if place.is_dir() {
            bail!(WrongUsage::new(format!("{} has neither a {FILE} nor an {}", place.display(), layout::FILE)))
        } else {
            bail!(WrongUsage::new(format!("there is no `{}`; name a directory, or a {FILE}", place.display())))
        }
    }

    /// Returns the files that no agent may see: those that define agents and the server, and hold its secrets.
    pub(super) fn own_files(&self, args: &ServeArgs) -> Vec<PathBuf> {
        // A directory that describes an agent may also hold its files.
        let described = self.described_by.iter().filter(|place| !place.is_dir()).cloned();
        let agents = self.agents.iter().flat_map(AgentPlan::files);
        described.chain(agents).chain(Access::files(args, &self.settings)).collect()
    }

    fn of_layout(args: &ServeArgs, directory: &Path) -> Result<Self> {
        let mut agent = laid_out(&args.agent, args.approve, directory)?;
        agent.name = args.name.clone().unwrap_or(agent.name);
        Ok(Self { agents: vec![agent], described_by: vec![directory.to_owned()], ..Self::default() })
    }

    fn of_file(args: &ServeArgs, path: &Path) -> Result<Self> {
        if args.name.is_some() {
            bail!(WrongUsage::new(format!(
                "--name works for a single agent only; {} names its agents itself",
                path.display()
            )));
        }
        let (source, mut settings) = Source::read(path)?;
        if settings.agents.is_empty() {
            bail!("{}: it defines no agents; add a table [agents.NAME]", path.display());
        }
        let (mut agents, mut described_by) = (Vec::new(), vec![path.to_owned()]);
        for (name, section) in &settings.agents {
            if !is_name(name) {
                return Err(source.wrong(&["agents", name], NAMES).into());
            }
            let agent = described(args, &source, name, section)?;
            if section.root.is_none()
                && section.layout.is_none()
                && let Some((root, what)) = own_files::too_much(agent.options.directory())
            {
                let why = format!(
                    "{} is {what}, and the agent could use all of it; set `root` to a directory for it",
                    root.display()
                );
                return Err(source.wrong(&["agents", name], why).into());
            }
            described_by.extend(agent.layout.iter().map(|layout| layout.directory.clone()));
            agents.push(agent);
        }
        if settings.store.sqlite.is_some() && settings.store.postgres_env.is_some() {
            return Err(source.wrong(&["store", "postgres_env"], "`sqlite` is also given; remove one").into());
        }
        if settings.server.tls_cert.is_some() != settings.server.tls_key.is_some() {
            return Err(source.wrong(&["server"], "`tls_cert` and `tls_key` must be given together").into());
        }
        if settings.auth.jwt.as_ref().is_some_and(|jwt| jwt.audience.is_empty()) {
            return Err(source.wrong(&["auth", "jwt", "audience"], "it must name an audience").into());
        }
        let server = &mut settings.server;
        for place in [
            &mut server.audit,
            &mut server.tls_cert,
            &mut server.tls_key,
            &mut settings.store.sqlite,
            &mut settings.auth.tokens,
        ] {
            *place = place.take().map(|path| source.place(&path));
        }
        Ok(Self { agents, settings, described_by })
    }
}

/// The rule for agent names.
const NAMES: &str =
    "a name may only have letters, digits, `-`, `_` and `.`, and not dots alone, because it is part of addresses";

/// Whether this is a valid agent name.
fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    name.contains(is_letter) && name.chars().all(|c| is_letter(c) || c == '.')
}
