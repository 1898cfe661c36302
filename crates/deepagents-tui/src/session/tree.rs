//! The sub-agents of a conversation and their transcripts.

use std::collections::{BTreeMap, BTreeSet};

use deepagents::State;
use deepagents::core::interrupt::ActionRequests;
use deepagents::core::journal::{LogPosition, RunStatus, SubAgentInfo};
use serde::{Deserialize, Serialize};

use super::{Result, Session};
use crate::app::event::{Choice, Event, Opened};
use crate::app::transcript::{AgentWork, Item, items_of};
use crate::host::Connection;
use crate::text::shorten;

/// Maximum number of sub-agents in the list.
const MAX_LISTED: usize = 200;
/// Maximum number of sub-agents whose work is read when a conversation is opened.
const MAX_LOADED: usize = 20;
/// Maximum number of records read for that, so that a conversation opens without delay: each sub-agent requires one
/// pass over the log. Sub-agents with a pending interrupt are always read.
const MAX_RECORDS: u64 = 40_000;

/// Identifies a sub-agent.
#[derive(Serialize, Deserialize)]
enum Key {
    /// Its path below the conversation's agent.
    Path(Vec<String>),
    /// The thread of a background sub-agent.
    Thread(String),
}

impl Key {
    fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn status_word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Ended => "done",
        RunStatus::Failed => "failed",
        RunStatus::Interrupted => "waits for a decision",
        _ => "at work",
    }
}

impl Session {
    /// Returns the sub-agents as a tree, each below its parent agent, in order of their start.
    pub(super) async fn sub_agents(&self) -> Result<Vec<Choice>> {
        let mut rows = Vec::new();
        let Some(thread) = self.thread() else { return Ok(rows) };
        let connection = self.connection().await?;
        let found = connection.agent.sub_agents(&thread).await?;
        let state = connection.agent.state(&thread).await?;
        let asked = |path: &[String]| {
            let mut asked = state.get::<ActionRequests>().into_iter().flat_map(|asked| asked.values());
            asked.any(|review| review.request.call.path.starts_with(path))
        };
        let task_of = |state: Option<State>| {
            let task = state.and_then(|state| Some(state.messages().get(0)?.text()));
            shorten(&task.unwrap_or_default(), 60)
        };
        for info in as_tree(found).into_iter().take(MAX_LISTED) {
            let task = task_of(connection.agent.sub_agent_state(&thread, &info.path).await.ok());
            let detail = match info.status {
                // The conversation continued without a decision.
                RunStatus::Interrupted if !asked(&info.path) => "left without a decision",
                status => status_word(status),
            };
            let indent = "  ".repeat(info.path.len().saturating_sub(1));
            let label = format!("{indent}{}: {task}", info.agent);
            rows.push(Choice::new(Key::Path(info.path).to_text(), label, detail));
        }
        // Background sub-agents have threads of their own.
        for background in connection.agent.background(&thread).await?.into_iter().take(MAX_LISTED) {
            let task = task_of(connection.agent.state(&background.thread).await.ok());
            let label = format!("{}: {task}", background.agent);
            let detail = format!("in the background · {}", status_word(background.status));
            rows.push(Choice::new(Key::Thread(background.thread).to_text(), label, detail));
        }
        Ok(rows)
    }

    /// Fills in the work of a conversation's sub-agents. Those with a pending interrupt move from the items to
    /// `agents`, where their work continues after the decision.
    pub(super) async fn fill_sub_agents(&self, connection: &Connection, opened: &mut Opened, end: LogPosition) {
        let Some(thread) = opened.thread.clone() else { return };
        let most = opened.items.iter().filter(|item| matches!(item, Item::Agent(_))).count().min(MAX_LOADED);
        if most == 0 {
            return;
        }
        let most = usize::try_from(MAX_RECORDS / end.max(1)).unwrap_or(usize::MAX).min(most);
        // `/tree` reports read errors.
        let Ok(found) = connection.agent.sub_agents(&thread).await else { return };
        let asking: BTreeSet<Vec<String>> = opened
            .questions
            .iter()
            .filter_map(|question| question.request.call.path.get(..1).map(<[String]>::to_vec))
            .collect();
        let mut filled = BTreeSet::new();
        // Latest first, because a compacted conversation has lost its beginning.
        let own = found.into_iter().rev().filter(|info| info.path.len() == 1).enumerate();
        for (_, info) in own.filter(|(at, info)| *at < most || asking.contains(&info.path)) {
            let Ok(state) = connection.agent.sub_agent_state(&thread, &info.path).await else { continue };
            let (done, task) = work_of(&state);
            let is_it = |(at, item): &(usize, &mut Item)| {
                let Item::Agent(work) = item else { return false };
                !filled.contains(at) && work.name == info.agent && task.contains(work.task.trim())
            };
            let Some((at, Item::Agent(work))) = opened.items.iter_mut().enumerate().rfind(is_it) else { continue };
            filled.insert(at);
            (work.items, work.calls, work.tokens) = (done.items, done.calls, done.tokens);
            if !work.is_open || !asking.contains(&info.path) {
                continue;
            }
            let mut work = work.clone();
            work.calls = work.calls.saturating_sub(1);
            // The call that needs approval has not run yet.
            work.items.retain(|item| !opened.questions.iter().any(|question| question.is_about(item)));
            opened.agents.insert(info.path, work);
        }
        let waits = |item: &Item| match item {
            Item::Agent(work) => work.is_open && opened.agents.values().any(|other| other.task == work.task),
            _ => false,
        };
        opened.items.retain(|item| !waits(item));
    }

    /// Shows the transcript of a sub-agent.
    pub(super) fn open_sub_agent(&self, key: String, title: String) {
        self.spawn(|this| async move {
            let thread = this.thread().ok_or("there is no thread")?;
            let connection = this.connection().await?;
            let state = match serde_json::from_str(&key)? {
                Key::Path(path) => connection.agent.sub_agent_state(&thread, &path).await?,
                Key::Thread(thread) => connection.agent.state(&thread).await?,
            };
            let items = items_of(state.messages().iter().map(|message| &**message));
            Ok(Some(Event::Transcript { title, items }))
        });
    }
}

/// Returns the work that a sub-agent's own records describe, and its task.
fn work_of(state: &State) -> (AgentWork, String) {
    let messages = state.messages();
    let task = messages.get(0).map(|message| message.text()).unwrap_or_default();
    let items = items_of(messages.tail(1).map(|message| &**message));
    let calls = items.iter().filter(|item| matches!(item, Item::Call(_) | Item::Agent(_))).count();
    let spent = messages.iter().filter_map(|message| message.as_assistant()?.usage);
    let tokens = spent.fold(0_u64, |all, usage| all.saturating_add(usage.total()));
    (AgentWork { items, calls, tokens, ..AgentWork::default() }, task)
}

/// Sorts sub-agents in tree order.
fn as_tree(mut all: Vec<SubAgentInfo>) -> Vec<SubAgentInfo> {
    let starts: BTreeMap<Vec<String>, u64> = all.iter().map(|info| (info.path.clone(), info.start)).collect();
    all.sort_by_cached_key(|info| {
        let above = (1..=info.path.len()).filter_map(|depth| info.path.get(..depth));
        above.map(|path| starts.get(path).copied().unwrap_or(0)).collect::<Vec<u64>>()
    });
    all
}
