//! Tools that are offered once the skill that names them has been read.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use deepagents_core::message::{Message, Messages};
use deepagents_core::state::{Channel, ChannelError, Sharing};
use deepagents_fs::VPath;
use serde::{Deserialize, Serialize};

use crate::channels::SkillCatalogue;

const READ: &str = "read_file";

/// The skills that have been read, and the skill tools in the last request.
#[derive(Debug)]
pub(super) struct SkillReads;

impl Channel for SkillReads {
    const NAME: &'static str = "skill_reads";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    type Value = Reads;
    type Update = ReadsUpdate;

    fn reduce(value: &mut Reads, update: ReadsUpdate) -> Result<(), ChannelError> {
        match update {
            ReadsUpdate::Scanned { upto, last, read } => {
                value.upto = upto;
                value.last = last;
                value.read.extend(read);
            }
            ReadsUpdate::Pinned(read) => value.read.extend(read),
            ReadsUpdate::Offered(offered) => value.offered = offered,
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Reads {
    /// Number of messages scanned.
    upto: usize,
    /// The id of the last of them, to detect a rewritten history.
    last: String,
    /// For each skill file, the message that shows it, the latest if there are several.
    read: BTreeMap<VPath, String>,
    /// Skill tools in the last request.
    pub(super) offered: BTreeSet<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReadsUpdate {
    Scanned { upto: usize, last: String, read: BTreeMap<VPath, String> },
    Pinned(BTreeMap<VPath, String>),
    Offered(BTreeSet<String>),
}

impl Reads {
    /// Scans the messages since the last call.
    pub(super) fn scan(&self, messages: &Messages, catalogue: &SkillCatalogue) -> Option<ReadsUpdate> {
        let upto = messages.len();
        let seen = self.upto.checked_sub(1).and_then(|at| messages.get(at)).is_some_and(|m| m.id() == self.last);
        if seen && self.upto == upto {
            return None;
        }
        let mut calls: HashMap<&str, VPath> = HashMap::new();
        let mut read = BTreeMap::new();
        for message in messages.tail(if seen { self.upto } else { 0 }) {
            match &**message {
                Message::Assistant(answer) => {
                    let reads = answer.tool_calls().filter(|call| call.name == READ);
                    calls = reads
                        .filter_map(|call| Some((&*call.id, VPath::parse(call.args.get("file_path")?.as_str()?).ok()?)))
                        .filter(|(_, path)| catalogue.skills.iter().any(|s| s.path == *path && !s.tools.is_empty()))
                        .collect();
                }
                Message::Tool(result) if !result.is_error => {
                    if let Some(path) = calls.remove(&*result.call_id) {
                        read.insert(path, result.id.clone());
                    }
                }
                _ => {}
            }
        }
        let last = messages.last().map(|m| m.id().to_owned()).unwrap_or_default();
        Some(ReadsUpdate::Scanned { upto, last, read })
    }

    /// Returns the tools of skills whose text is in these messages.
    pub(super) fn unlocked<'a>(
        &'a self,
        visible: &'a Messages,
        catalogue: &'a SkillCatalogue,
    ) -> impl Iterator<Item = &'a str> {
        let in_view = move |path: &VPath| self.read.get(path).is_some_and(|id| visible.by_id(id).is_some());
        let read = catalogue.skills.iter().filter(move |skill| in_view(&skill.path));
        read.flat_map(|skill| skill.tools.iter().map(String::as_str))
    }
}
