//! Lists threads as sessions, and reads and writes their metadata.

use std::path::{Path, PathBuf};

use deepagents::core::journal::{Journal, ThreadCursor, ThreadInfo, ThreadQuery};
use serde_json::{Map, Value, json};

use super::Session;
use crate::host::AgentHost;
use crate::show::short_title;
use crate::wire;

/// Sessions per page.
const PAGE_SIZE: usize = 100;

/// Metadata key of the directory, with symbolic links resolved.
const ROOT: &str = "root";
/// Metadata key of the directory as the editor names it.
const CWD: &str = "cwd";
const TITLE: &str = "title";
/// Metadata key of the reasoning effort.
const EFFORT: &str = "effort";

/// Lists the threads that have a directory as sessions, the most recently updated first.
pub(crate) async fn list(
    journal: &dyn Journal,
    cwd: Option<&Path>,
    cursor: Option<&str>,
) -> Result<wire::ListSessionsResponse, wire::Error> {
    let mut query = ThreadQuery::default().limit(PAGE_SIZE);
    query.after = cursor.map(|cursor| read_cursor(cursor).ok_or_else(unknown)).transpose()?;
    if let Some(cwd) = cwd {
        if !cwd.is_absolute() {
            return Err(wire::invalid(format!("the directory `{}` is not absolute", cwd.display())));
        }
        query = query.metadata(ROOT, real(cwd).await.display().to_string());
    }
    let (mut sessions, mut last) = (Vec::new(), None);
    loop {
        let threads = journal.threads().list(&query).await.map_err(|error| wire::failed(&error))?;
        for thread in &threads {
            let Some(session) = info(thread) else { continue };
            if sessions.len() == PAGE_SIZE {
                return Ok(wire::ListSessionsResponse::new(sessions).next_cursor(last));
            }
            sessions.push(session);
            last = Some(format!("{} {}", thread.updated_at, thread.id));
        }
        if threads.len() < PAGE_SIZE {
            return Ok(wire::ListSessionsResponse::new(sessions));
        }
        query.after = threads.last().map(ThreadCursor::from);
    }
}

fn unknown() -> wire::Error {
    wire::invalid("the cursor was not issued here")
}

/// Parses a cursor: the time and ID of the last thread returned. It is not an offset, because threads come and go
/// between two pages.
fn read_cursor(cursor: &str) -> Option<ThreadCursor> {
    let (at, id) = cursor.split_once(' ')?;
    let updated_at = at.parse().ok()?;
    // Sessions are not sorted by creation.
    Some(ThreadCursor { id: id.to_owned(), created_at: updated_at, updated_at })
}

/// Converts a thread to a session, if it has an absolute directory.
fn info(thread: &ThreadInfo) -> Option<wire::SessionInfo> {
    let text = |key: &str| thread.metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    let cwd = PathBuf::from(text(CWD).or_else(|| text(ROOT))?);
    if !cwd.is_absolute() {
        return None;
    }
    let info = wire::SessionInfo::new(thread.id.clone(), cwd);
    Some(info.title(text(TITLE).filter(|title| !title.is_empty())).updated_at(thread.updated_at.to_string()))
}

/// Returns the thread with this ID, if it exists and is not a child thread.
pub(crate) async fn remembered(journal: &dyn Journal, thread: &str) -> Result<Option<ThreadInfo>, wire::Error> {
    if thread.is_empty() || thread.len() > 512 || thread.contains('\0') {
        return Ok(None);
    }
    let info = journal.threads().get(thread).await.map_err(|error| wire::failed(&error))?;
    Ok(info.filter(|info| info.parent.is_none()))
}

/// Returns the model and effort for a session to start with: those of its thread if they still exist, otherwise the
/// defaults.
pub(super) fn model<H: AgentHost>(
    host: &H,
    known: Option<&ThreadInfo>,
) -> Result<(String, Option<String>), wire::Error> {
    let models = host.models();
    let noted = known.and_then(|thread| host.model_of(thread));
    if let Some(model) = noted.and_then(|noted| models.iter().find(|model| model.name == noted)) {
        let effort = known.and_then(|thread| thread.metadata.get(EFFORT)).and_then(Value::as_str).map(str::to_owned);
        return Ok((model.name.clone(), effort.filter(|effort| model.efforts.contains(effort))));
    }
    let model = models.first().ok_or_else(|| wire::failed(&"no model is configured"))?;
    Ok((model.name.clone(), None))
}

/// Resolves symbolic links in a directory, as for the metadata.
pub(crate) async fn real(cwd: &Path) -> PathBuf {
    let given = cwd.to_owned();
    #[allow(clippy::disallowed_methods, reason = "a thread notes the directory as it is on disk")]
    let real = tokio::task::spawn_blocking(move || given.canonicalize().unwrap_or(given)).await;
    real.unwrap_or_else(|_| cwd.to_owned())
}

impl<H: AgentHost> Session<H> {
    /// Returns the metadata to store with the thread at a prompt. The first prompt sets the title.
    pub(super) async fn note(&self, prompt: &str) -> Result<Map<String, Value>, wire::Error> {
        let journal = self.host.journal();
        let known = remembered(&*journal, self.thread()).await?;
        let setup = self.setup();
        let mut metadata = self.host.metadata(&setup);
        // The editor may have loaded the thread in another directory.
        metadata.insert(CWD.to_owned(), json!(self.cwd));
        metadata.insert(ROOT.to_owned(), json!(real(&self.cwd).await));
        metadata.insert(EFFORT.to_owned(), json!(setup.effort));
        let titled = known.as_ref().and_then(|info| info.metadata.get(TITLE)).and_then(Value::as_str);
        let title = match titled.filter(|title| !title.is_empty()) {
            Some(title) => title.to_owned(),
            None => {
                // A prompt that the agent does not accept must not become the title.
                let title = short_title(&self.agent().agent.receive_text(prompt).unwrap_or_default());
                metadata.insert(TITLE.to_owned(), json!(title));
                title
            }
        };
        let mut told = self.title.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if told.as_ref() != Some(&title) && !title.is_empty() {
            *told = Some(title.clone());
            self.editor.update(wire::SessionUpdate::SessionInfoUpdate(wire::SessionInfoUpdate::new().title(title)));
        }
        Ok(metadata)
    }
}
