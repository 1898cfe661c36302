//! What was decided about calls of a thread, and by whom, as its log says.

use std::collections::BTreeMap;

use anyhow::Result;
use deepagents::core::interrupt::{ActionRequestChange, ActionRequests};
use deepagents::core::journal::{Journal, Record, ThreadInfo};
use deepagents::core::state::Channel;
use deepagents::{ActionRequest, DecisionRecord};
use serde_json::{Value, json};

use super::history::entries;
use crate::render::{escaped, tool_line};

/// A decision about a call.
pub(super) struct Decided {
    question: ActionRequest,
    decision: DecisionRecord,
    at: String,
}

/// All decisions that the log has, in order. Those about calls of sub-agents are in the log of the main agent too.
pub(super) async fn of_thread(journal: &dyn Journal, info: &ThreadInfo) -> Result<Vec<Decided>> {
    let (mut asked, mut decided) = (BTreeMap::new(), Vec::new());
    for entry in journal.read(&info.id, 0..info.end).await? {
        let (Record::Update { update } | Record::StateUpdated { update } | Record::ToolFinished { update, .. }) =
            entry.record
        else {
            continue;
        };
        for (channel, change) in entries(&update)? {
            if channel != ActionRequests::NAME {
                continue;
            }
            for change in serde_json::from_value::<Vec<ActionRequestChange>>(change)? {
                match change {
                    ActionRequestChange::Request(question) => drop(asked.insert(question.id.clone(), *question)),
                    ActionRequestChange::Decide(id, decision) => {
                        let question = asked.get(&id).cloned();
                        decided.extend(question.map(|question| Decided {
                            question,
                            decision,
                            at: entry.at.to_string(),
                        }));
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(decided)
}

impl Decided {
    /// `approve  write_file /a.txt  by a person`.
    pub(super) fn line(&self) -> String {
        let call = tool_line(&self.question.tool, &self.question.args);
        let author = self.decision.author.as_ref().map_or_else(|| "not noted".to_owned(), ToString::to_string);
        format!("  {:<8} {call}  by {}", self.decision.decision.kind().as_str(), escaped(&author))
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "id": self.question.id,
            "tool": self.question.tool,
            "args": self.question.args,
            "decision": self.decision.decision,
            "author": self.decision.author,
            "at": self.at,
        })
    }
}
