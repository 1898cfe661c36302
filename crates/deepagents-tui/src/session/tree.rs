//! The sub-agents of a conversation: which there are, and what each has said and done.

use std::collections::{BTreeMap, BTreeSet};

use deepagents::State;
use deepagents::core::interrupt::ActionRequests;
use deepagents::core::journal::{LogPosition, RunStatus, SubAgentInfo};
use serde::{Deserialize, Serialize};

use super::Session;
use crate::app::event::{Choice, Choices, Event, ListOf, Opened, PendingApproval};
use crate::app::transcript::{AgentWork, Item, items_of};
use crate::host::Connection;
use crate::text::shorten;

/// Sub-agents that are listed.
const MOST: usize = 200;
/// Sub-agents whose work is read when a conversation is opened.
const FILLED: usize = 20;
/// Records that are read for that, as a conversation is to open at once: each of them takes the log once. Those that wait
/// within a question are read in any case.
const READ: u64 = 40_000;

/// What a sub-agent is found by.
#[derive(Serialize, Deserialize)]
enum Key {
    /// Its place below the agent of the conversation.
    Path(Vec<String>),
    /// The thread of one in the background.
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
    pub(super) fn list_sub_agents(&self) {
        let this = self.clone();
        self.spawn(async move { Some(Event::Choose(this.sub_agents().await)) });
    }

    /// The sub-agents as a tree: each below the one that it works for, in order of their beginning.
    async fn sub_agents(&self) -> Result<Choices, String> {
        let mut rows = Vec::new();
        if let Some(thread) = self.thread() {
            let connection = self.connection().await?;
            let found = connection.agent.sub_agents(&thread).await.map_err(|error| error.to_string())?;
            let state = connection.agent.state(&thread).await.map_err(|error| error.to_string())?;
            let asked = |path: &[String]| {
                let mut asked = state.get::<ActionRequests>().into_iter().flat_map(|asked| asked.values());
                asked.any(|review| review.request.call.path.starts_with(path))
            };
            for info in as_tree(found).into_iter().take(MOST) {
                let state = connection.agent.sub_agent_state(&thread, &info.path).await;
                let task = state.ok().and_then(|state| Some(state.messages().get(0)?.text())).unwrap_or_default();
                let detail = match info.status {
                    // The conversation has gone on without an answer.
                    RunStatus::Interrupted if !asked(&info.path) => "left without a decision",
                    status => status_word(status),
                };
                let indent = "  ".repeat(info.path.len().saturating_sub(1));
                rows.push(Choice {
                    key: Key::Path(info.path).to_text(),
                    label: format!("{indent}{}: {}", info.agent, shorten(&task, 60)),
                    detail: detail.to_owned(),
                });
            }
            // Those that nobody waits for have threads of their own.
            let tasks = connection.agent.background(&thread).await.map_err(|error| error.to_string())?;
            for task in tasks.into_iter().take(MOST) {
                let state = connection.agent.state(&task.thread).await;
                let first = state.ok().and_then(|state| Some(state.messages().get(0)?.text())).unwrap_or_default();
                rows.push(Choice {
                    key: Key::Thread(task.thread).to_text(),
                    label: format!("{}: {}", task.agent, shorten(&first, 60)),
                    detail: format!("in the background · {}", status_word(task.status)),
                });
            }
        }
        Ok(Choices { of: ListOf::SubAgents, rows })
    }

    /// Gives the sub-agents of a conversation what they have done. Those that wait within a question go on once it is answered,
    /// and are left to that.
    pub(super) async fn fill_sub_agents(&self, connection: &Connection, opened: &mut Opened, end: LogPosition) {
        let Some(thread) = opened.thread.clone() else { return };
        let most = opened.items.iter().filter(|item| matches!(item, Item::Agent(_))).count().min(FILLED);
        if most == 0 {
            return;
        }
        let most = usize::try_from(READ / end.max(1)).unwrap_or(usize::MAX).min(most);
        // What cannot be read is told by /tree.
        let Ok(found) = connection.agent.sub_agents(&thread).await else { return };
        let asking: BTreeSet<Vec<String>> = opened
            .questions
            .iter()
            .filter_map(|question| question.request.call.path.get(..1).map(<[String]>::to_vec))
            .collect();
        let mut filled = BTreeSet::new();
        // The last ones first: a conversation that was compacted has lost its beginning.
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
            // The call that is asked about has not been made.
            work.items.retain(|item| !is_asked(item, &opened.questions));
            opened.agents.insert(info.path, work);
        }
        let waits = |item: &Item| match item {
            Item::Agent(work) => work.is_open && opened.agents.values().any(|other| other.task == work.task),
            _ => false,
        };
        opened.items.retain(|item| !waits(item));
    }

    /// Reads what a sub-agent has said and done.
    pub(super) fn open_sub_agent(&self, key: String, title: String) {
        let this = self.clone();
        self.spawn(async move {
            let read = async {
                let key: Key = serde_json::from_str(&key).map_err(|error| error.to_string())?;
                let thread = this.thread().ok_or("there is no thread")?;
                let connection = this.connection().await?;
                let state = match &key {
                    Key::Path(path) => connection.agent.sub_agent_state(&thread, path).await,
                    Key::Thread(thread) => connection.agent.state(thread).await,
                };
                let state = state.map_err(|error| error.to_string())?;
                Ok::<_, String>(items_of(state.messages().iter().map(|message| &**message)))
            };
            Some(match read.await {
                Ok(items) => Event::Transcript { title, items },
                Err(problem) => Event::Notice { text: problem, bad: true },
            })
        });
    }
}

/// Whether a call is one that is asked about, and has no result.
fn is_asked(item: &Item, questions: &[PendingApproval]) -> bool {
    let Item::Call(call) = item else { return false };
    let is_it = |question: &PendingApproval| question.request.tool == call.name && question.request.args == call.args;
    call.result.is_empty() && !call.failed && questions.iter().any(is_it)
}

/// What a sub-agent has done, as its own records say, and what it was given to do.
fn work_of(state: &State) -> (AgentWork, String) {
    let messages = state.messages();
    let task = messages.get(0).map(|message| message.text()).unwrap_or_default();
    let items = items_of(messages.tail(1).map(|message| &**message));
    let calls = items.iter().filter(|item| matches!(item, Item::Call(_) | Item::Agent(_))).count();
    let spent = messages.iter().filter_map(|message| message.as_assistant()?.usage);
    let tokens = spent.fold(0_u64, |all, usage| all.saturating_add(usage.total()));
    (AgentWork { items, calls, tokens, ..AgentWork::default() }, task)
}

/// In the order of a tree.
fn as_tree(mut all: Vec<SubAgentInfo>) -> Vec<SubAgentInfo> {
    let starts: BTreeMap<Vec<String>, u64> = all.iter().map(|info| (info.path.clone(), info.start)).collect();
    all.sort_by_cached_key(|info| {
        let above = (1..=info.path.len()).filter_map(|depth| info.path.get(..depth));
        above.map(|path| starts.get(path).copied().unwrap_or(0)).collect::<Vec<u64>>()
    });
    all
}
