//! The tools of the project's servers as they were when the user agreed to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use deepagents::core::tool::ToolSpec;
use deepagents::trust::{Consent, FoundItem, TrustItem, TrustKind};

use super::discover::{Found, Source};
use crate::render::escaped;
use crate::trust::{self, Consents, Undecided};

/// Compares the tools of the project's servers with what the user agreed to. A server may change its tools later; a
/// changed tool is left out until the user agrees to it again.
#[derive(Debug)]
pub(super) struct Pins {
    root: PathBuf,
    /// The files that describe the project's servers, by server name.
    sources: BTreeMap<String, String>,
    /// Whether everything that the servers say now is agreed to.
    accepts: bool,
    /// Whether consent is stored.
    remembers: bool,
    tools: Mutex<Tools>,
}

/// The tools as far as they were compared.
#[derive(Debug, Default)]
struct Tools {
    known: Consents,
    /// Those agreed to with their server, or now, which are stored at the end.
    new: Vec<TrustItem>,
    /// Those left out, with their current descriptions.
    changed: Vec<(TrustItem, String)>,
}

impl Pins {
    pub(super) fn open(root: &Path, found: &Found, undecided: Undecided, for_once: bool) -> Result<Self> {
        let project = found.servers.iter().filter(|server| server.source == Source::Project);
        let sources: BTreeMap<_, _> =
            project.map(|server| (server.name.clone(), server.file.display().to_string())).collect();
        // The tools of other servers need no consent.
        let known = if sources.is_empty() { Consents::default() } else { Consents::of_root(root)? };
        let tools = Mutex::new(Tools { known, ..Tools::default() });
        let accepts = for_once || undecided == Undecided::Accept;
        Ok(Self { root: root.to_owned(), sources, accepts, remembers: !for_once, tools })
    }

    fn tools(&self) -> MutexGuard<'_, Tools> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error if a tool may not be offered.
    pub(super) fn check(&self, server: &str, tool: &ToolSpec) -> Result<(), String> {
        let Some(source) = self.sources.get(server) else { return Ok(()) };
        let said = serde_json::to_string(tool).unwrap_or_default();
        let item = TrustItem::new(TrustKind::McpServer, &tool.name, source, said);
        let mut tools = self.tools();
        if tools.known.has(&item) {
            return Ok(());
        }
        if tools.known.has_version_of(&item) && !self.accepts {
            if !tools.changed.iter().any(|(other, _)| *other == item) {
                tools.changed.push((item, tool.description.clone()));
            }
            return Err(format!(
                "MCP server {}: the tool {} has changed since you agreed to it and is left out; its description is now: \
                 {}. Use it with --trust",
                escaped(server),
                tool.name,
                escaped(&tool.description)
            ));
        }
        // From now on, another version of the tool is a change.
        tools.known.add([item.clone()]);
        tools.new.push(item);
        Ok(())
    }

    /// Whether any of the servers is the project's.
    pub(super) fn covers_any(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Returns the tools that are left out because they have changed since the user agreed to them.
    pub(super) fn changed(&self) -> Vec<FoundItem> {
        let found = |(item, says): &(TrustItem, String)| {
            FoundItem::new(item.clone(), vec![format!("its new description: {says}")])
        };
        self.tools().changed.iter().map(found).collect()
    }

    /// Offers these tools from now on. The caller has already stored the consent.
    pub(super) fn accept(&self, items: Vec<TrustItem>) {
        let mut tools = self.tools();
        tools.changed.retain(|(item, _)| !items.contains(item));
        tools.known.add(items);
    }

    /// Stores which tools were agreed to.
    pub(super) fn save(&self) -> Result<()> {
        let new = std::mem::take(&mut self.tools().new);
        if self.remembers { trust::decide(&self.root, &new, Consent::Trusted) } else { Ok(()) }
    }
}
