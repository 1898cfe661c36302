//! Sessions as threads: listing, and what a thread says of itself.

use std::path::{Path, PathBuf};

use deepagents::core::journal::{Journal, ThreadInfo, ThreadQuery};
use serde_json::{Map, Value, json};

use super::Session;
use crate::host::AgentHost;
use crate::show::short_title;
use crate::wire;

/// Sessions that are listed at once.
const PAGE: usize = 100;

/// What of a thread is in its metadata: the directory, as it is on disk.
const ROOT: &str = "root";
/// The directory, as the editor names it.
const CWD: &str = "cwd";
const TITLE: &str = "title";

/// Threads that have a directory, as sessions: the one that changed last first.
pub(crate) async fn list(
    journal: &dyn Journal,
    cwd: Option<&Path>,
    cursor: Option<&str>,
) -> Result<wire::ListSessionsResponse, wire::Error> {
    let unknown = || wire::invalid("the cursor is not one that was given out");
    let mut offset: usize = cursor.map_or(Ok(0), str::parse).map_err(|_| unknown())?;
    let mut query = ThreadQuery::default();
    if let Some(cwd) = cwd {
        query = query.metadata(ROOT, real(cwd).await.display().to_string());
    }
    let (mut sessions, mut next) = (Vec::new(), None);
    loop {
        let page = query.clone().offset(offset).limit(PAGE + 1);
        let threads = journal.threads().list(&page).await.map_err(|error| wire::failed(&error))?;
        let is_last = threads.len() <= PAGE;
        for thread in threads {
            if sessions.len() == PAGE {
                next = Some(offset.to_string());
                break;
            }
            offset += 1;
            sessions.extend(info(&thread));
        }
        if is_last || next.is_some() {
            break;
        }
    }
    Ok(wire::ListSessionsResponse::new(sessions).next_cursor(next))
}

/// A thread as a session, if it says which directory it is about.
fn info(thread: &ThreadInfo) -> Option<wire::SessionInfo> {
    let text = |key: &str| thread.metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    let cwd = PathBuf::from(text(CWD).or_else(|| text(ROOT))?);
    if !cwd.is_absolute() {
        return None;
    }
    let info = wire::SessionInfo::new(thread.id.clone(), cwd);
    Some(info.title(text(TITLE).filter(|title| !title.is_empty())).updated_at(thread.updated_at.to_string()))
}

/// The thread with this id, if there is one that was begun and is nobody's background task.
pub(crate) async fn remembered(journal: &dyn Journal, thread: &str) -> Result<Option<ThreadInfo>, wire::Error> {
    if thread.is_empty() || thread.len() > 512 || thread.contains('\0') {
        return Ok(None);
    }
    let info = journal.threads().get(thread).await.map_err(|error| wire::failed(&error))?;
    Ok(info.filter(|info| info.parent.is_none()))
}

/// The directory without symbolic links, as threads note it.
async fn real(cwd: &Path) -> PathBuf {
    let given = cwd.to_owned();
    #[allow(clippy::disallowed_methods, reason = "a thread notes the directory as it is on disk")]
    let real = tokio::task::spawn_blocking(move || given.canonicalize().unwrap_or(given)).await;
    real.unwrap_or_else(|_| cwd.to_owned())
}

impl<H: AgentHost> Session<H> {
    /// What the thread is about, for it to note while it is worked on; the first prompt gives it its title.
    pub(super) async fn note(&self, prompt: &str) -> Result<Map<String, Value>, wire::Error> {
        let journal = self.journal();
        let known = remembered(&*journal, &self.thread).await?;
        let mut metadata = self.host.metadata(&self.setup());
        metadata.insert(CWD.to_owned(), json!(self.cwd));
        let titled = known.as_ref().and_then(|info| info.metadata.get(TITLE)).and_then(Value::as_str);
        let title = match titled.filter(|title| !title.is_empty()) {
            Some(title) => title.to_owned(),
            None => {
                metadata.insert(ROOT.to_owned(), json!(real(&self.cwd).await));
                let title = short_title(prompt);
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
