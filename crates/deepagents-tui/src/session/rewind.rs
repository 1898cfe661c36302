//! Rewinds a thread, with or without its files.

use deepagents::State;
use deepagents::core::agent::RewindPlan;
use deepagents::core::journal::{Checkpoint, CheckpointSource};
use deepagents::fs::{
    Backend, ByteRange, FileChange, FileVersion, LocalBackend, OnConflict, RestoreError, RestorePlan, VPath,
};
use deepagents::rewind::{Rewind, RewindError};

use super::picking::is_human;
use super::{Result, Session};
use crate::app::effect::RewindScope;
use crate::app::event::{Choice, Opened};
use crate::app::transcript::Item;
use crate::host::Connection;
use crate::text::{count, shorten};

/// Maximum number of checkpoints searched for messages.
const MAX_CHECKPOINTS: usize = 2_000;

/// What happens to a file.
const REMOVED: &str = "removed";
const BROUGHT_BACK: &str = "brought back";
const PUT_BACK: &str = "put back";

/// Maximum bytes of a file whose diff is shown.
const MAX_DIFF_BYTES: u64 = 256 << 10;

/// The result of a rewind.
struct Back {
    notes: Vec<String>,
    /// The position of the thread before the rewind.
    left: u64,
}

impl Session {
    /// Returns the messages that can be rewound to, newest first, each with the position before it. Those found so far
    /// are given to `show` each time, which returns whether to go on.
    pub(super) async fn checkpoints(
        &self,
        most: usize,
        mut show: impl FnMut(&[Choice]) -> bool,
    ) -> Result<Vec<Choice>> {
        let mut rows = Vec::new();
        let Some(thread) = self.thread() else { return Ok(rows) };
        let connection = self.connection().await?;
        let history = connection.agent.history(&thread, None, MAX_CHECKPOINTS).await?;
        // A parent may be the end of a log that an undo left, which lies after the last checkpoint.
        let at = |position: u64| history.iter().find(|checkpoint| checkpoint.position <= position);
        // Walks the thread's current branch from its end; rewinds have left other branches.
        let mut next = history.first();
        while let Some(checkpoint) = next {
            next = checkpoint.parent.and_then(at);
            let Some(row) = message_before(&connection, &thread, checkpoint).await? else { continue };
            rows.push(row);
            if !show(&rows) || rows.len() >= most {
                break;
            }
        }
        Ok(rows)
    }

    pub(super) fn rewind(&self, position: u64, text: String, scope: RewindScope) {
        self.spawn_opening(|this| async move {
            let connection = this.connection().await?;
            let back = this.go_back(&connection, position, scope).await?;
            // A manual rewind cannot be redone.
            this.with(|state| state.redo_positions.clear());
            let text = if scope == RewindScope::Files { String::new() } else { text };
            this.after(&connection, "went back", back.notes, text).await
        });
    }

    /// Rewinds to before the last message, with the files.
    pub(super) fn undo(&self) {
        self.spawn_opening(|this| async move {
            let choice = this.checkpoints(1, |_| true).await?.pop().ok_or("there is nothing to undo")?;
            let connection = this.connection().await?;
            let back = this.go_back(&connection, choice.key.parse()?, RewindScope::Both).await?;
            this.with(|state| state.redo_positions.push(back.left));
            this.after(&connection, "undone; /redo reverts that", back.notes, choice.detail).await
        });
    }

    /// Returns to the position before the last undo.
    pub(super) fn redo(&self) {
        self.spawn_opening(|this| async move {
            let left = this.with(|state| state.redo_positions.last().copied()).ok_or("there is nothing to redo")?;
            let connection = this.connection().await?;
            let back = this.go_back(&connection, left, RewindScope::Both).await?;
            this.with(|state| state.redo_positions.pop());
            this.after(&connection, "redone", back.notes, String::new()).await
        });
    }

    async fn go_back(&self, connection: &Connection, position: u64, scope: RewindScope) -> Result<Back> {
        let thread = self.thread().ok_or("there is no thread")?;
        match scope {
            RewindScope::Both => {
                let back = Rewind::new(&connection.agent, &connection.files, thread.as_str(), position);
                let plan = match back.plan().await {
                    // If no file versions are recorded, there are no files to rewind.
                    Err(RewindError::Files(RestoreError::NotRecorded)) => {
                        let notes = vec!["files stay as they are: changes are not recorded here".to_owned()];
                        return rewind_messages(connection, &thread, position, notes).await;
                    }
                    plan => plan?,
                };
                let done = back.apply(&plan, OnConflict::Skip).await?;
                let mut notes = describe_files(&plan, &done.restored, &done.skipped);
                if done.commands > 0 {
                    notes.push(format!("what {} did stays", count(done.commands as u64, "command")));
                }
                Ok(Back { notes, left: done.left })
            }
            RewindScope::Conversation => rewind_messages(connection, &thread, position, Vec::new()).await,
            RewindScope::Files => self.restore_files(connection, &thread, position).await,
        }
    }

    /// Restores the files as of a position. The conversation continues from where it is.
    async fn restore_files(&self, connection: &Connection, thread: &str, position: u64) -> Result<Back> {
        let (agent, files) = (&connection.agent, &connection.files);
        let target = agent.state_at(thread, position).await?;
        let end = end(connection, thread).await?;
        let mut notes = Vec::new();
        let work = async |here: State, _: State| {
            let plan = files.plan_restore(thread, &here, &target).await?;
            let done = files.restore(thread, &here, &target, &plan, OnConflict::Skip).await?;
            notes = describe_files(&plan, &done.restored, &done.skipped);
            Ok::<_, RewindError>(RewindPlan { left: done.left, target: done.target })
        };
        let back = agent.rewind_with(thread, end, work).await?;
        Ok(Back { notes, left: back.left })
    }

    async fn after(&self, connection: &Connection, what: &str, mut notes: Vec<String>, text: String) -> Result<Opened> {
        let mut opened = self.present(connection).await?;
        notes.insert(0, what.to_owned());
        opened.note = Some(notes.join("; "));
        opened.input = (!text.is_empty()).then_some(text);
        Ok(opened)
    }

    /// Returns what a rewind to a position would do to files.
    pub(super) async fn rewind_preview(&self, position: u64) -> Result<Vec<Item>> {
        let connection = self.connection().await?;
        let thread = self.thread().ok_or("there is no thread")?;
        let back = Rewind::new(&connection.agent, &connection.files, thread.as_str(), position);
        match back.plan().await {
            Ok(plan) => Ok(planned(&connection.files, &plan).await),
            Err(error) => Ok(vec![note(error.to_string())]),
        }
    }
}

fn note(text: String) -> Item {
    Item::Note { text, bad: false }
}

/// Describes a restore plan, with diffs of text files.
async fn planned(files: &LocalBackend, plan: &RestorePlan) -> Vec<Item> {
    // Files that stay as they are come first, as there may be no room for all.
    let kept = plan.conflicts.iter().map(|conflict| &conflict.change.path);
    let kept = kept.map(|path| note(format!("{path}: kept, since someone else has changed it")));
    let skipped = plan.skipped.iter().map(|skipped| note(format!("{}: stays, {}", skipped.path, skipped.reason)));
    let mut items: Vec<Item> = kept.chain(skipped).collect();
    for change in &plan.changes {
        let title = format!("{}: {}", change.path, verb(change));
        items.push(match difference(files, change).await {
            Some((old, new)) => Item::FileDiff { title, old, new },
            None => note(title),
        });
    }
    if items.is_empty() {
        items.push(note("no file changes".to_owned()));
    }
    items
}

/// Returns the word for what happens to a file.
fn verb(change: &FileChange) -> &'static str {
    match (&change.now, &change.to) {
        (_, FileVersion::Absent) => REMOVED,
        (FileVersion::Absent, _) => BROUGHT_BACK,
        _ => PUT_BACK,
    }
}

/// Returns the present and the restored text of a file. Returns `None` if either is not text, too long or not recorded.
async fn difference(files: &LocalBackend, change: &FileChange) -> Option<(String, String)> {
    let old = match &change.now {
        FileVersion::Absent => String::new(),
        FileVersion::File { size, .. } if *size <= MAX_DIFF_BYTES => {
            let read = files.read(&State::default(), &change.path, ByteRange::first(MAX_DIFF_BYTES)).await.ok()?;
            String::from_utf8(read.bytes.to_vec()).ok()?
        }
        _ => return None,
    };
    let new = match &change.to {
        FileVersion::Absent => String::new(),
        FileVersion::File { size, .. } if *size <= MAX_DIFF_BYTES => {
            String::from_utf8(files.recorded(&change.to).await.ok()??).ok()?
        }
        _ => return None,
    };
    Some((old, new))
}

/// Describes what happened to files.
fn describe_files(plan: &RestorePlan, restored: &[VPath], skipped: &[VPath]) -> Vec<String> {
    let names = |paths: &[VPath]| paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let done = |path: &VPath| plan.changes.iter().find(|change| change.path == *path).map_or(PUT_BACK, verb);
    let mut notes = Vec::new();
    for what in [PUT_BACK, BROUGHT_BACK, REMOVED] {
        let paths: Vec<VPath> = restored.iter().filter(|path| done(path) == what).cloned().collect();
        if !paths.is_empty() {
            notes.push(format!("{what}: {}", names(&paths)));
        }
    }
    if !skipped.is_empty() {
        notes.push(format!("kept, since someone else has changed them: {}", names(skipped)));
    }
    notes
}

/// Rewinds the conversation alone.
async fn rewind_messages(connection: &Connection, thread: &str, position: u64, notes: Vec<String>) -> Result<Back> {
    let left = end(connection, thread).await?;
    connection.agent.rewind(thread, position).await?;
    Ok(Back { notes, left })
}

/// Returns the end of a thread's log.
async fn end(connection: &Connection, thread: &str) -> Result<u64> {
    Ok(connection.journal.threads().get(thread).await?.map_or(0, |info| info.end))
}

/// Returns the user message of a checkpoint, and the position before it.
async fn message_before(connection: &Connection, thread: &str, checkpoint: &Checkpoint) -> Result<Option<Choice>> {
    if checkpoint.origin != CheckpointSource::Input {
        return Ok(None);
    }
    let state = connection.agent.state_at(thread, checkpoint.position).await?;
    let message = state.messages().iter().rev().find(|message| is_human(message)).map(|message| message.text());
    let key = checkpoint.parent.unwrap_or(0).to_string();
    Ok(message.map(|text| Choice { key, label: shorten(&text, 200), detail: text }))
}
