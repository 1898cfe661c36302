//! The decisions about calls in a thread, and who made them, according to its log.

use std::collections::BTreeMap;

use anyhow::Result;
use deepagents::core::interrupt::{ActionRequestChange, ActionRequests};
use deepagents::core::journal::{Journal, Record, ThreadInfo};
use deepagents::core::message::MessageOp;
use deepagents::core::state::{Channel, MessagesChannel};
use deepagents::{ActionRequest, Block, Decision, DecisionAuthor, DecisionRecord, Message};
use serde::Serialize;
use serde_json::Value;

use super::history::entries;
use crate::render::{escaped, tool_line};

/// A decision about a call.
#[derive(Serialize)]
pub(super) struct Decided {
    id: String,
    tool: String,
    args: Value,
    /// The rule that caused the interrupt.
    rule: Option<String>,
    /// The sub-agent that made the call.
    agent: Option<String>,
    decision: Decision,
    author: Option<DecisionAuthor>,
    at: String,
}

/// What the log says about agents and their calls up to some record.
#[derive(Default)]
struct LoggedCalls {
    asked: BTreeMap<String, ActionRequest>,
    /// Arguments of the calls in each agent's last answer, in order.
    args: BTreeMap<Vec<String>, Vec<Value>>,
    /// Calls by ID, with the tool and the arguments.
    calls: BTreeMap<String, (String, Value)>,
    /// Names of sub-agents by path.
    agents: BTreeMap<Vec<String>, String>,
    decided: Vec<Decided>,
}

/// Returns all decisions in the log, in order. Decisions on a sub-agent's interrupts are taken from the main agent's
/// records, which repeat them; what rules decided about its calls is only in its own.
pub(super) async fn of_thread(journal: &dyn Journal, info: &ThreadInfo) -> Result<Vec<Decided>> {
    let mut seen = LoggedCalls::default();
    for entry in journal.read(&info.id, 0..info.end).await? {
        let at = entry.at.to_string();
        match entry.record {
            Record::Child { path, entry } => seen.record(&path, *entry, &at)?,
            record => seen.record(&[], record, &at)?,
        }
    }
    Ok(seen.decided)
}

impl LoggedCalls {
    fn record(&mut self, path: &[String], record: Record, at: &str) -> Result<()> {
        let update = match record {
            Record::AgentStarted { agent, .. } => {
                self.agents.insert(path.to_vec(), agent);
                return Ok(());
            }
            Record::ToolStarted { call, name, .. } => {
                let index = usize::try_from(call.index).unwrap_or(usize::MAX);
                let args = self.args.get(path).and_then(|args| args.get(index)).cloned().unwrap_or_default();
                self.calls.insert(call.to_string(), (name, args));
                return Ok(());
            }
            Record::Update { update } | Record::StateUpdated { update, .. } | Record::ToolFinished { update, .. } => {
                update
            }
            _ => return Ok(()),
        };
        for (channel, change) in entries(&update)? {
            if channel == MessagesChannel::NAME {
                self.store_arguments(path, serde_json::from_value(change)?);
            } else if channel == ActionRequests::NAME {
                for change in serde_json::from_value::<Vec<ActionRequestChange>>(change)? {
                    self.change(path, change, at);
                }
            }
        }
        Ok(())
    }

    /// Stores the arguments of the calls in an answer.
    fn store_arguments(&mut self, path: &[String], ops: Vec<MessageOp>) {
        for op in ops {
            let MessageOp::Put(message) = op else { continue };
            if !matches!(*message, Message::Assistant(_)) {
                continue;
            }
            let calls = message.content().iter().filter_map(|block| match block {
                Block::ToolCall(call) => Some(call.args.clone()),
                Block::InvalidToolCall(_) => Some(Value::Null),
                _ => None,
            });
            self.args.insert(path.to_vec(), calls.collect());
        }
    }

    fn change(&mut self, path: &[String], change: ActionRequestChange, at: &str) {
        let at = at.to_owned();
        match change {
            ActionRequestChange::Request(question) => drop(self.asked.insert(question.id.clone(), *question)),
            ActionRequestChange::Decide(id, decision) if path.is_empty() => {
                let Some(ActionRequest { id, tool, args, rule, agent, .. }) = self.asked.get(&id).cloned() else {
                    return;
                };
                let DecisionRecord { decision, author, .. } = decision;
                self.decided.push(Decided { id, tool, args, rule, agent, decision, author, at });
            }
            ActionRequestChange::Decided(call, decision) => {
                let id = call.to_string();
                let (tool, args) = self.calls.get(&id).cloned().unwrap_or_default();
                let agent = self.agents.get(path).filter(|_| !path.is_empty()).cloned();
                let DecisionRecord { decision, author, .. } = decision;
                self.decided.push(Decided { id, tool, args, rule: None, agent, decision, author, at });
            }
            _ => {}
        }
    }
}

impl Decided {
    /// Formats `approve write_file /a.txt by a person`; for an edit, also the edited call.
    pub(super) fn line(&self) -> String {
        let call = tool_line(&self.tool, &self.args);
        let author = self.author.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        let agent = self.agent.as_ref().map(|agent| format!(", called by {}", escaped(agent))).unwrap_or_default();
        let rule = self.rule.as_ref().map(|rule| format!("; asked by {}", escaped(rule))).unwrap_or_default();
        let edited = match &self.decision {
            Decision::Edit { edited_action } => {
                format!("  to  {}", tool_line(&edited_action.name, &edited_action.args))
            }
            _ => String::new(),
        };
        let kind = self.decision.kind().as_str();
        format!("  {kind:<8} {call}{edited}{agent}  by {}{rule}", escaped(&author))
    }
}
