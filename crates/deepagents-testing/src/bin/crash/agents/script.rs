//! The model's part: an agent's next step, derived only from what it is shown.

use std::collections::BTreeMap;
use std::fmt;

use super::plan::{Operation, Plan};

/// Identifies a call in its provider id: the agent, the number of its answer that made the call, and the operation of
/// the plan.
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

    /// Returns the operation in the plan.
    pub(crate) fn operation<'a>(&self, plan: &'a Plan) -> Option<&'a Operation> {
        plan.find(&self.agent)?.turns.get(self.turn)?.get(self.at)
    }
}

/// A piece of a conversation.
pub(crate) enum Piece {
    User(String),
    Call { id: String, tool: String },
    Outcome { id: String, text: String },
}

/// What an agent knows from its conversation.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) agent: String,
    /// The last call in the conversation.
    pub(crate) last: Option<Tag>,
    /// The calls of the last answer: tool and result.
    pub(crate) calls: BTreeMap<Tag, (String, String)>,
}

/// Returns the task text that tells an agent who it is.
pub(crate) fn task(agent: &str) -> String {
    format!("agent={agent}; Do your part.")
}

/// Returns the final answer of an agent.
pub(crate) fn report(agent: &str) -> String {
    format!("{agent} is done.")
}

/// Whether a result says that it is unknown whether the call took effect.
pub(crate) fn is_unknown(text: &str) -> bool {
    text.contains("whether it took effect is unknown")
}

impl View {
    pub(crate) fn new(pieces: impl IntoIterator<Item = Piece>) -> Self {
        let mut view = Self::default();
        let mut calls: BTreeMap<String, (String, Option<String>)> = BTreeMap::new();
        let mut tags: Vec<Tag> = Vec::new();
        for piece in pieces {
            match piece {
                Piece::User(text) => {
                    if view.agent.is_empty() {
                        let name = text.split("agent=").nth(1).and_then(|rest| rest.split(';').next());
                        view.agent = name.unwrap_or_default().to_owned();
                    }
                    // A summary mentions calls that are no longer shown.
                    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                    tags.extend(words.filter_map(Tag::parse));
                }
                Piece::Call { id, tool } => {
                    tags.extend(Tag::parse(&id));
                    calls.insert(id, (tool, None));
                }
                Piece::Outcome { id, text } => {
                    if let Some((_, outcome)) = calls.get_mut(&id) {
                        *outcome = Some(text);
                    }
                }
            }
        }
        tags.retain(|tag| tag.agent == view.agent);
        view.last = tags.into_iter().max_by_key(|tag| tag.answer);
        let answer = view.last.as_ref().map(|tag| tag.answer);
        for (id, (tool, outcome)) in calls {
            if let (Some(tag), Some(outcome)) = (Tag::parse(&id), outcome)
                && tag.agent == view.agent
                && Some(tag.answer) == answer
            {
                view.calls.insert(tag, (tool, outcome));
            }
        }
        view
    }

    /// Returns the calls of the next answer, or none at the end.
    pub(crate) fn next(&self, plan: &Plan) -> Vec<(Tag, Operation)> {
        let Some(agent) = plan.find(&self.agent) else { return Vec::new() };
        let answer = self.last.as_ref().map_or(0, |tag| tag.answer + 1);
        let again = |tag: &Tag, operation: Operation| (Tag { answer, ..tag.clone() }, operation);
        // After a file change with an unknown outcome, the agent reads the file and then repeats the change, which is
        // idempotent.
        let unknown = self.calls.iter().filter(|(_, (_, text))| is_unknown(text));
        let reads: Vec<_> = unknown
            .filter_map(|(tag, _)| {
                let path = tag.operation(plan)?.path()?.to_owned();
                Some(again(tag, Operation::Read { path }))
            })
            .collect();
        if !reads.is_empty() {
            return reads;
        }
        let looked_into = self.calls.iter().filter(|(_, (tool, _))| tool == "read_file");
        let changes = looked_into.filter_map(|(tag, _)| Some((tag, tag.operation(plan)?)));
        let changes = changes.filter(|(_, operation)| operation.path().is_some());
        let repeated: Vec<_> = changes.map(|(tag, operation)| again(tag, operation.clone())).collect();
        if !repeated.is_empty() {
            return repeated;
        }
        let turn = self.last.as_ref().map_or(0, |tag| tag.turn + 1);
        let operations = agent.turns.get(turn).into_iter().flatten().cloned().enumerate();
        let tag = |at| Tag { agent: self.agent.clone(), answer, turn, at };
        operations.map(|(at, operation)| (tag(at), operation)).collect()
    }
}
