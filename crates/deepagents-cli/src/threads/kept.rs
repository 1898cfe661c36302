//! A journal whose threads are copied and deleted together with what is kept beside the database.

use std::sync::Arc;

use deepagents::core::futures_core::future::BoxFuture;
use deepagents::core::journal::{Journal, JournalError, LogPosition, Threads};
use deepagents::{forward_journal, forward_threads};

use super::artifacts::Artifacts;

struct WithArtifacts {
    journal: Arc<dyn Journal>,
    artifacts: Artifacts,
}

/// Copies and deletes the artifacts of a journal's threads with them.
pub(crate) fn with_artifacts(journal: Arc<dyn Journal>, artifacts: Option<&Artifacts>) -> Arc<dyn Journal> {
    match artifacts.cloned() {
        Some(artifacts) => Arc::new(WithArtifacts { journal, artifacts }),
        None => journal,
    }
}

impl WithArtifacts {
    fn threads(&self) -> &dyn Threads {
        self.journal.threads()
    }
}

fn failed(thread: &str, what: &str, error: &anyhow::Error) -> JournalError {
    JournalError::Storage(format!("the large results of thread `{thread}` cannot be {what}: {error}").into())
}

impl Journal for WithArtifacts {
    forward_journal!([.journal]; claim, renew, release, append, load, read, put_snapshot, storage);

    fn threads(&self) -> &dyn Threads {
        self
    }
}

impl Threads for WithArtifacts {
    forward_threads!([.threads()]; get, list, set_metadata, update_metadata, set_parent, set_ttl, remove);

    fn copy<'a>(
        &'a self,
        from: &'a str,
        to: &'a str,
        until: Option<LogPosition>,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(async move {
            self.threads().copy(from, to, until).await?;
            let copied = self.artifacts.copy(&*self.journal, from, to).await;
            copied.map_err(|error| failed(from, "copied", &error))
        })
    }

    fn delete<'a>(&'a self, thread: &'a str) -> BoxFuture<'a, Result<bool, JournalError>> {
        Box::pin(async move {
            // First, so that a deletion which fails can be repeated, and a new thread of this name never finds them.
            let removed = self.artifacts.remove(&*self.journal, thread).await;
            removed.map_err(|error| failed(thread, "removed", &error))?;
            self.threads().delete(thread).await
        })
    }

    fn sweep(&self) -> BoxFuture<'_, Result<u64, JournalError>> {
        Box::pin(async move {
            let swept = self.threads().sweep().await?;
            if swept > 0 {
                let removed = self.artifacts.gc(&*self.journal).await;
                let failed = |error| format!("what deleted threads left cannot be removed: {error}");
                removed.map_err(|error| JournalError::Storage(failed(error).into()))?;
            }
            Ok(swept)
        })
    }
}
