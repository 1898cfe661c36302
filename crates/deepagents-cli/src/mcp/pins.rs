//! The tools of the project's servers as they were when the user agreed to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Result, anyhow};
use deepagents::core::tool::ToolSpec;
use deepagents::trust::{Consent, FoundItem, TrustItem, TrustKind, TrustRecord};

use super::discover::{Found, Source};
use crate::render::escaped;
use crate::trust::{self, Undecided};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compares the tools of the project's servers with what the user agreed to. A server may change its tools later; a
/// changed tool is left out until the user agrees to it again.
#[derive(Debug)]
pub(super) struct Pins {
    root: PathBuf,
    known: Mutex<Vec<TrustRecord>>,
    /// The files that describe the project's servers, by server name.
    sources: BTreeMap<String, String>,
    /// Whether everything that the servers say now is agreed to.
    accepts: bool,
    /// Whether consent is stored.
    remembers: bool,
    new: Mutex<Vec<TrustItem>>,
    /// Tools that are left out, with their current descriptions.
    changed: Mutex<Vec<(TrustItem, String)>>,
}

impl Pins {
    pub(super) fn open(root: &Path, found: &Found, undecided: Undecided, for_once: bool) -> Result<Self> {
        let project = found.servers.iter().filter(|server| server.source == Source::Project);
        let sources = project.map(|server| (server.name.clone(), server.file.display().to_string())).collect();
        let known = match trust::store() {
            Some(store) => store.of_root(root).map_err(|error| anyhow!("{error}"))?,
            None => Vec::new(),
        };
        let accepts = for_once || undecided == Undecided::Accept;
        Ok(Self {
            root: root.to_owned(),
            known: Mutex::new(known),
            sources,
            accepts,
            remembers: !for_once,
            new: Mutex::default(),
            changed: Mutex::default(),
        })
    }

    /// Returns an error if a tool may not be offered.
    pub(super) fn check(&self, server: &str, tool: &ToolSpec) -> Result<(), String> {
        let Some(source) = self.sources.get(server) else { return Ok(()) };
        let said = serde_json::to_string(tool).unwrap_or_default();
        let item = TrustItem::new(TrustKind::McpServer, &tool.name, source, said);
        let known = lock(&self.known);
        if known.iter().any(|record| record.item == item && record.consent == Consent::Trusted) {
            return Ok(());
        }
        let changed = known.iter().any(|known| (&known.item.name, &known.item.source) == (&item.name, &item.source));
        drop(known);
        if changed && !self.accepts {
            let mut changed = lock(&self.changed);
            if !changed.iter().any(|(other, _)| *other == item) {
                changed.push((item, tool.description.clone()));
            }
            drop(changed);
            return Err(format!(
                "MCP server {}: the tool {} has changed since you agreed to it and is left out; its description is now: \
                 {}. Use it with --trust",
                escaped(server),
                tool.name,
                escaped(&tool.description)
            ));
        }
        let mut new = lock(&self.new);
        if !new.contains(&item) {
            new.push(item);
        }
        Ok(())
    }

    /// Whether any of the servers is the project's.
    pub(super) fn covers_any(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Returns the tools that are left out because they have changed since the user agreed to them.
    pub(super) fn changed(&self) -> Vec<FoundItem> {
        let changed = lock(&self.changed).clone();
        let found =
            |(item, says): (TrustItem, String)| FoundItem::new(item, vec![format!("its new description: {says}")]);
        changed.into_iter().map(found).collect()
    }

    /// Offers these tools from now on. The caller has already stored the consent.
    pub(super) fn accept(&self, items: &[TrustItem]) {
        lock(&self.changed).retain(|(item, _)| !items.contains(item));
        let root = self.root.display().to_string();
        let record = |item: &TrustItem| TrustRecord {
            root: root.clone(),
            item: item.clone(),
            consent: Consent::Trusted,
            at: String::new(),
        };
        lock(&self.known).extend(items.iter().map(record));
    }

    /// Stores which tools were agreed to.
    pub(super) fn save(&self) -> Result<()> {
        let new = std::mem::take(&mut *lock(&self.new));
        match trust::store() {
            Some(store) if self.remembers && !new.is_empty() => {
                store.decide(&self.root, &new, Consent::Trusted).map_err(|error| anyhow!("{error}"))
            }
            _ => Ok(()),
        }
    }
}
