//! The shell sessions of runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use deepagents_core::run::Context;
use deepagents_fs::Backend;
use deepagents_fs::shell::{SessionOptions, Shell};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

type Sessions = Mutex<BTreeMap<String, Session>>;

/// The sessions of the runs that go on. They end when this is dropped for the last time.
#[derive(Clone, Default)]
pub(super) struct ShellSessions(Arc<Sessions>);

impl fmt::Debug for ShellSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShellSessions").finish_non_exhaustive()
    }
}

struct Session {
    shell: Arc<dyn Shell>,
    used: Instant,
    /// Ends the task that watches over it.
    _watched: DropGuard,
}

impl ShellSessions {
    /// Each agent of a run has its own.
    fn key(cx: &Context) -> String {
        std::iter::once(cx.run_id()).chain(cx.path().iter().map(String::as_str)).collect::<Vec<_>>().join("/")
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Session>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The session of an agent's run; none where the backend has none. It ends when the run ends or is cancelled, and when
    /// it was not used for so long: a run that failed may be taken up again, or not.
    pub(super) fn open(
        &self,
        cx: &Context,
        backend: &dyn Backend,
        options: &SessionOptions,
        patience: Duration,
    ) -> Option<Arc<dyn Shell>> {
        let key = Self::key(cx);
        let known = self.with(|sessions| {
            let session = sessions.get_mut(&key)?;
            session.used = Instant::now();
            Some(session.shell.clone())
        });
        if known.is_some() {
            return known;
        }
        let shell = backend.shell()?.session(options)?;
        let watched = CancellationToken::new();
        let watch = watch(Arc::downgrade(&self.0), key.clone(), cx.cancellation().clone(), watched.clone(), patience);
        let session = Session { shell: shell.clone(), used: Instant::now(), _watched: watched.drop_guard() };
        // Of two calls of one turn one comes first.
        let shell = self.with(|sessions| sessions.entry(key).or_insert(session).shell.clone());
        tokio::spawn(watch);
        Some(shell)
    }

    /// Ends the session of an agent's run.
    pub(super) fn end(&self, cx: &Context) {
        let ended = self.with(|sessions| sessions.remove(&Self::key(cx)));
        drop(ended);
    }
}

/// Ends a session that nobody will use any more.
async fn watch(
    sessions: Weak<Sessions>,
    key: String,
    cancel: CancellationToken,
    ended: CancellationToken,
    patience: Duration,
) {
    let mut until = Instant::now() + patience;
    loop {
        tokio::select! {
            biased;
            () = ended.cancelled() => return,
            () = cancel.cancelled() => {}
            () = tokio::time::sleep_until(until) => {}
        }
        let Some(sessions) = sessions.upgrade() else { return };
        let mut open = sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(used) = open.get(&key).map(|session| session.used) else { return };
        until = used + patience;
        if cancel.is_cancelled() || until <= Instant::now() {
            let ended = open.remove(&key);
            drop(open);
            drop(ended);
            return;
        }
    }
}
