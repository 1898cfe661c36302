//! Calls under way on a connection: who wants their progress, and whom a question of the server is about.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deepagents_core::tool::{ToolContext, ToolError};
use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use rmcp::service::InboundStreamOrigin;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::text;

/// Notices that came before their call was known and are kept for it.
const EARLY: usize = 32;
/// Characters of a notice.
const SHOWN: usize = 300;
/// How long a notice of a call stands before the next one is told; of those that come meanwhile the last one is.
const PACE: Duration = Duration::from_millis(50);

/// The calls under way on a connection.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    inner: Mutex<Inner>,
    /// Whether the server has asked something without saying which of several calls it was about.
    unclear: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<ProgressToken, Arc<Call>>,
    early: VecDeque<(ProgressToken, String)>,
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct Call {
    id: RequestId,
    pub(crate) cx: ToolContext,
    progress: Mutex<Progress>,
    /// Why it is to end: it waits for a person.
    interrupt: Mutex<Option<ToolError>>,
    interrupted: Notify,
}

/// What was told of a call's progress.
#[derive(Debug, Default)]
struct Progress {
    /// Until when what was told last stands.
    until: Option<Instant>,
    /// What is told then.
    waiting: Option<String>,
}

/// A call is known as long as this lives.
pub(crate) struct Registered<'a> {
    calls: &'a Calls,
    token: ProgressToken,
    pub(crate) call: Arc<Call>,
}

impl Calls {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call known under the id and the token of its request.
    pub(crate) fn register(&self, id: RequestId, token: ProgressToken, cx: &ToolContext) -> Registered<'_> {
        let call = Arc::new(Call {
            id,
            cx: cx.clone(),
            progress: Mutex::default(),
            interrupt: Mutex::default(),
            interrupted: Notify::new(),
        });
        let mut inner = self.inner();
        inner.open.insert(token.clone(), call.clone());
        let early: Vec<String> =
            inner.early.iter().filter(|(other, _)| *other == token).map(|(_, text)| text.clone()).collect();
        inner.early.retain(|(other, _)| *other != token);
        drop(inner);
        early.into_iter().for_each(|text| call.tell(text));
        Registered { calls: self, token, call }
    }

    /// Tells the call that a notice is about.
    pub(crate) fn progress(&self, notice: &ProgressNotificationParam) {
        let text = said(notice);
        let mut inner = self.inner();
        match inner.open.get(&notice.progress_token).cloned() {
            Some(call) => {
                drop(inner);
                call.tell(text);
            }
            None => {
                inner.early.push_back((notice.progress_token.clone(), text));
                if inner.early.len() > EARLY {
                    inner.early.pop_front();
                }
            }
        }
    }

    /// The call that a question is about: the one in whose answer it came, where that can be seen, or else the only one
    /// under way.
    pub(crate) fn asked_by(&self, origin: Option<&InboundStreamOrigin>) -> Option<Arc<Call>> {
        let inner = self.inner();
        if let Some(InboundStreamOrigin::OutboundRequest(id)) = origin {
            return inner.open.values().find(|call| call.id == *id).cloned();
        }
        let mut open = inner.open.values();
        let (first, second) = (open.next(), open.next());
        if second.is_some() {
            self.unclear.store(true, Ordering::Release);
        }
        first.filter(|_| second.is_none()).cloned()
    }

    /// Whether the server has asked something of which it was unclear what it was about.
    pub(crate) fn is_unclear(&self) -> bool {
        self.unclear.load(Ordering::Acquire)
    }
}

impl Call {
    /// Tells of its progress, at a pace that can be followed.
    fn tell(self: &Arc<Self>, text: String) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        match progress.until.filter(|until| now < *until) {
            Some(until) => {
                if progress.waiting.replace(text).is_none() {
                    let call = self.clone();
                    tokio::spawn(async move {
                        sleep_until(until).await;
                        call.tell_waiting();
                    });
                }
            }
            None => {
                progress.until = Some(now + PACE);
                drop(progress);
                self.cx.progress(text);
            }
        }
    }

    /// Tells what waits to be told.
    fn tell_waiting(&self) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(text) = progress.waiting.take() else { return };
        progress.until = Some(Instant::now() + PACE);
        drop(progress);
        self.cx.progress(text);
    }

    /// Ends it: it is made again once a person has answered.
    pub(crate) fn interrupt(&self, why: ToolError) {
        *self.interrupt.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        self.interrupted.notify_one();
    }

    /// Waits for [`interrupt`](Self::interrupt).
    pub(crate) async fn interrupted(&self) -> ToolError {
        loop {
            if let Some(why) = self.interrupt.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return why;
            }
            self.interrupted.notified().await;
        }
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.calls.inner().open.remove(&self.token);
        self.call.tell_waiting();
    }
}

/// A notice in words, in a line of its own: what a call tells of its progress is read as one text.
fn said(notice: &ProgressNotificationParam) -> String {
    let amount = match notice.total {
        Some(total) if total > 0.0 => format!("{} of {total}", notice.progress),
        _ => notice.progress.to_string(),
    };
    match notice.message.as_deref().map(|message| text::line(message, SHOWN)).filter(|message| !message.is_empty()) {
        Some(message) => format!("{message} ({amount})\n"),
        None => format!("{amount}\n"),
    }
}
