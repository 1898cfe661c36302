//! Opens, lists and compacts threads.

use deepagents::channels::Todos;
use deepagents::core::interrupt::ActionRequests;
use deepagents::core::journal::{RunStatus, ThreadInfo, ThreadQuery};
use deepagents::{ActionRequest, Block, State, Usage};
use serde_json::Value;

use super::drive::preview;
use super::follower::LookFirst;
use super::run::is_owned;
use super::{Result, Session};
use crate::app::event::{Choice, Event, Opened, PendingApproval};
use crate::app::transcript::{cut_off_items_of, items_of, settled_items_of, text_arg};
use crate::host::{Begin, Connection};
use crate::policy::Mode;
use crate::text::count;

/// Shown while another program works on the thread.
pub(super) const WORKED_ON: &str =
    "another program is working on this thread; you see what it does, and /takeover continues it here";
/// Maximum number of threads in the list.
const MAX_THREADS: usize = 200;

impl Session {
    /// Returns the threads of the directory as a list to choose from.
    pub(super) async fn threads(&self) -> Result<Vec<Choice>> {
        let found = self.newest_threads(&self.connection().await?, MAX_THREADS).await?;
        let present = self.thread();
        let rows = found.into_iter().filter(|info| info.damage.is_none()).map(|info| {
            let title = info.metadata.get("title").and_then(Value::as_str).unwrap_or("(untitled)").to_owned();
            let here = if present.as_ref() == Some(&info.id) { " · this one" } else { "" };
            let state = match (info.status, &info.stop) {
                (RunStatus::Interrupted, _) => " · waits for a decision".to_owned(),
                (RunStatus::Open, _) if is_owned(self, &info) => " · at work".to_owned(),
                (RunStatus::Open, _) => " · unfinished".to_owned(),
                (RunStatus::Failed, _) => " · failed".to_owned(),
                (RunStatus::Ended, Some(stop)) if !stop.is_complete() => format!(" · stopped: {}", stop.reason()),
                _ => String::new(),
            };
            let when = info.updated_at.to_string();
            let when = when.get(..16).unwrap_or(&when).replace('T', " ");
            Choice { key: info.id.clone(), label: title, detail: format!("{when}{state}{here}") }
        });
        Ok(rows.collect())
    }

    /// Returns the threads of the directory that changed last, newest first.
    async fn newest_threads(&self, connection: &Connection, most: usize) -> Result<Vec<ThreadInfo>> {
        let root = self.current_metadata().get("root").cloned().unwrap_or_default();
        Ok(connection.journal.threads().list(&ThreadQuery::default().metadata("root", root).limit(most)).await?)
    }

    /// Opens a thread.
    pub(crate) fn begin(&self, begin: Begin) {
        self.spawn_opening(|this| async move { this.opened(&begin).await });
    }

    pub(super) async fn opened(&self, begin: &Begin) -> Result<Opened> {
        let connection = self.connection().await?;
        let info = match begin {
            Begin::New => return Ok(Opened::default()),
            Begin::Resume(id) => self.host.find_thread(&*connection.journal, id).await?,
            Begin::Continue => {
                self.newest_threads(&connection, 1).await?.pop().ok_or("this directory has no threads yet")?
            }
        };
        let state = connection.agent.state(&info.id).await?;
        if self.thread().is_some_and(|open| open != info.id) {
            self.notify_closing("resume");
        }
        self.with(|shared| (shared.thread, shared.redo_positions) = (Some(info.id.clone()), Vec::new()));
        let is_at_work = is_owned(self, &info) || self.is_in_background(&info.id);
        // A call in flight elsewhere is shown once it has its result.
        let mut opened = if is_at_work { of_state_so_far(&state) } else { of_state(&state) };
        opened.thread = Some(info.id.clone());
        opened.note = self.unfinished(&info, &state);
        opened.waiting = self.waited(&info);
        opened.planned = info.status == RunStatus::Ended && self.host.mode_of(&info) == Some(Mode::Plan);
        opened.decided = self.decided_before(&info);
        self.follow(&connection, info.id.clone(), LookFirst::No);
        if matches!(info.status, RunStatus::Interrupted | RunStatus::Open) && !is_owned(self, &info) {
            opened.questions = self.open_questions(&connection, &state).await;
        }
        let was_cut_off = matches!(info.status, RunStatus::Open | RunStatus::Failed) && !is_at_work;
        if was_cut_off && opened.questions.is_empty() {
            opened.items = cut_off_items_of(state.messages().iter().map(|message| &**message));
        }
        opened.hide_asked();
        self.fill_sub_agents(&connection, &mut opened, info.end).await;
        Ok(opened)
    }

    /// Returns the pending approvals of a thread.
    pub(super) async fn open_questions(&self, connection: &Connection, state: &State) -> Vec<PendingApproval> {
        let mut questions = Vec::new();
        let asked = state.get::<ActionRequests>().into_iter().flat_map(|asked| asked.values());
        for review in asked.filter(|review| review.decision.is_none()) {
            let task = task_of(state, &review.request);
            questions.push(PendingApproval { task, ..preview(connection, review.request.clone()).await });
        }
        questions
    }

    /// Returns the notice for a run that has not ended.
    fn unfinished(&self, info: &ThreadInfo, state: &State) -> Option<String> {
        if self.is_in_background(&info.id) {
            return Some(
                "it continues in the background and is shown step by step; your messages are sent to it".to_owned(),
            );
        }
        if is_owned(self, info) {
            return Some(WORKED_ON.to_owned());
        }
        let open = open_calls(state);
        match info.status {
            RunStatus::Open | RunStatus::Failed if !open.is_empty() => Some(format!(
                "the last run was cut off during {}: whether that had an effect is not known, and it is not repeated \
                 automatically. Say how to go on, or /resume",
                open.join(", ")
            )),
            RunStatus::Open => {
                Some("the last run was cut off; say how to go on, or /resume to let it go on".to_owned())
            }
            _ => None,
        }
    }

    pub(super) fn compact(&self) {
        let job = self.new_job();
        self.spawn(|this| async move {
            let result = tokio::select! {
                result = this.compacted() => result.map_err(|problem| problem.to_string()),
                () = job.cancelled() => Err("interrupted; the conversation was not compacted".to_owned()),
            };
            Ok(Some(Event::Compacted(result)))
        });
    }

    async fn compacted(&self) -> Result<String> {
        let connection = self.ready().await?;
        let Some(thread) = self.thread() else { return Ok("there is nothing to compact yet".to_owned()) };
        let compacted = connection.agent.compact(&thread).await;
        self.follow(&connection, thread, LookFirst::No);
        let messages = compacted.map_err(|error| format!("the conversation was not compacted: {error}"))?;
        Ok(match messages {
            Some(messages) => format!("{} replaced with a summary for the model", count(messages as u64, "message")),
            None => "there is nothing to compact".to_owned(),
        })
    }
}

/// Converts a thread's state for display.
pub(super) fn of_state(state: &State) -> Opened {
    Opened { items: items_of(state.messages().iter().map(|message| &**message)), ..facts_of(state) }
}

/// Like [`of_state`], but for a thread that somebody else works on: a call is shown only once it has its result.
pub(super) fn of_state_so_far(state: &State) -> Opened {
    Opened { items: settled_items_of(state.messages().iter().map(|message| &**message)), ..facts_of(state) }
}

/// Returns what is shown of a thread besides its conversation.
pub(super) fn facts_of(state: &State) -> Opened {
    let (mut usage, mut context) = (Usage::default(), 0);
    for spent in state.messages().iter().filter_map(|message| message.as_assistant()?.usage) {
        usage += spent;
        context = spent.total();
    }
    Opened { todos: state.get::<Todos>().cloned().unwrap_or_default(), usage, context, ..Opened::default() }
}

/// Returns the task of the sub-agent whose call needs approval, from the open call in the conversation that runs that
/// sub-agent.
fn task_of(state: &State, request: &ActionRequest) -> Option<String> {
    let place = request.call.path.first()?.rsplit('.').next()?.parse().ok()?;
    let messages = state.messages();
    let answer = messages.get(messages.last_assistant()?)?;
    let calls = answer.content().iter().filter_map(|block| match block {
        Block::ToolCall(call) => Some(Some(call)),
        Block::InvalidToolCall(_) => Some(None),
        _ => None,
    });
    let call = calls.into_iter().nth(place)??;
    Some(text_arg(&call.args, "description").to_owned()).filter(|task| !task.is_empty())
}

/// Returns the titles of the last answer's calls that have no result.
fn open_calls(state: &State) -> Vec<String> {
    let messages = state.messages();
    let Some(at) = messages.last_assistant() else { return Vec::new() };
    let answered: Vec<String> = messages.results_of(at).map(|result| result.call_id.clone()).collect();
    let answer = messages.get(at).and_then(|message| message.as_assistant());
    let calls = answer.into_iter().flat_map(|answer| answer.tool_calls());
    calls
        .filter(|call| !answered.contains(&call.id))
        .map(|call| format!("`{}`", crate::view::call_title(&call.name, &call.args)))
        .collect()
}
