//! Tools of the project's servers as they were when somebody agreed to them.

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

/// What the tools of the project's servers said when somebody agreed to them. A server may say something else later, so a
/// tool that has changed is left out until somebody agrees to it again.
#[derive(Debug)]
pub(super) struct Pins {
    root: PathBuf,
    known: Mutex<Vec<TrustRecord>>,
    /// The files that describe the project's servers, by their names.
    sources: BTreeMap<String, String>,
    /// Whether whatever the servers say now is agreed to.
    accepts: bool,
    /// Whether that is remembered.
    remembers: bool,
    new: Mutex<Vec<TrustItem>>,
    /// Tools that are left out, with what they say now.
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

    /// Whether a tool may be offered.
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
                "MCP server {}: the tool {} is not what you have agreed to any more and is left out; what it says now is: \
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

    /// Whether a project has any of the servers.
    pub(super) fn covers_any(&self) -> bool {
        !self.sources.is_empty()
    }

    /// The tools that are left out because they are not what somebody has agreed to.
    pub(super) fn changed(&self) -> Vec<FoundItem> {
        let changed = lock(&self.changed).clone();
        let found = |(item, says): (TrustItem, String)| FoundItem::new(item, vec![format!("saying now: {says}")]);
        changed.into_iter().map(found).collect()
    }

    /// Offers these from now on. Whoever agreed has had that remembered.
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

    /// Remembers what was agreed to.
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
