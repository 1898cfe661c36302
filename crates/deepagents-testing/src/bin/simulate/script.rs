//! The models' part: an agent's next step, derived only from its conversation.

use std::collections::BTreeMap;
use std::fmt;

use deepagents::{Message, ModelRequest};

use super::scenario::{Operation, Scenario};

/// Identifies a call in its provider id: the agent, the number of its answer that made the call, the turn of the plan,
/// and the position in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag {
    pub(crate) agent: String,
    pub(crate) answer: usize,
    pub(crate) turn: usize,
    pub(crate) at: usize,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{}", self.agent, self.answer, self.turn, self.at)
    }
}

impl Tag {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let agent = parts.next()?.to_owned();
        let mut number = || parts.next()?.parse().ok();
        let tag = Self { agent, answer: number()?, turn: number()?, at: number()? };
        parts.next().is_none().then_some(tag)
    }
}

/// Returns the task text that tells an agent who it is.
pub(crate) fn task(agent: &str) -> String {
    format!("agent={agent}; Do your part.")
}

/// Returns the final answer of an agent.
pub(crate) fn report(agent: &str) -> String {
    format!("{agent} is done.")
}

/// What an agent knows from its conversation.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) agent: String,
    /// The agent's last call in the conversation.
    pub(crate) last: Option<Tag>,
    /// The results in the conversation, by call id.
    pub(crate) results: BTreeMap<String, String>,
}

impl View {
    pub(crate) fn new(request: &ModelRequest) -> Self {
        let mut view = Self::default();
        let mut tags: Vec<Tag> = Vec::new();
        for message in request.messages.iter() {
            match &**message {
                Message::Assistant(answer) => tags.extend(answer.tool_calls().filter_map(|call| Tag::parse(&call.id))),
                Message::Tool(result) => {
                    view.results.insert(result.call_id.clone(), message.text());
                }
                _ => {
                    let text = message.text();
                    if view.agent.is_empty() {
                        let name = text.split("agent=").nth(1).and_then(|rest| rest.split(';').next());
                        view.agent = name.unwrap_or_default().to_owned();
                    }
                    // A summary mentions calls that are no longer shown.
                    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                    tags.extend(words.filter_map(Tag::parse));
                }
            }
        }
        tags.retain(|tag| tag.agent == view.agent);
        view.last = tags.into_iter().max_by_key(|tag| tag.answer);
        view
    }

    /// Returns the calls of the next answer, or none at the end.
    pub(crate) fn next(&self, scenario: &Scenario) -> Vec<(Tag, Operation)> {
        let Some(agent) = scenario.find(&self.agent) else { return Vec::new() };
        let answer = self.last.as_ref().map_or(0, |tag| tag.answer + 1);
        let turn = self.last.as_ref().map_or(0, |tag| tag.turn + 1);
        let operations = agent.turns.get(turn).into_iter().flatten().cloned().enumerate();
        operations.map(|(at, operation)| (Tag { agent: self.agent.clone(), answer, turn, at }, operation)).collect()
    }
}
