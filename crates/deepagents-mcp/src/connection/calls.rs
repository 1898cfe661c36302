//! Calls in flight on a connection: routes progress notifications and server requests to them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::tool::{ToolContext, ToolError};
use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use rmcp::service::InboundStreamOrigin;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::sync::lock;
use crate::text;

/// Maximum number of progress notifications buffered for calls that are not registered yet.
const MAX_EARLY: usize = 32;
/// Maximum length of a progress message, in characters.
const MAX_PROGRESS_CHARS: usize = 300;
/// Minimum interval between two progress reports of a call. Of the notifications in between, the last is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

/// The calls in flight on a connection.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    inner: Mutex<Inner>,
    /// Whether the server has sent a request that could not be assigned to one of several calls.
    unclear: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<ProgressToken, Arc<Call>>,
    early: VecDeque<(ProgressToken, String)>,
}

/// A call in flight.
#[derive(Debug)]
pub(crate) struct Call {
    id: RequestId,
    pub(crate) cx: ToolContext,
    progress: Mutex<Progress>,
    /// The interrupt that ends the call, if it has to wait for a person.
    interrupt: mpsc::Sender<ToolError>,
}

/// Rate limiter of a call's progress reports.
#[derive(Debug, Default)]
struct Progress {
    /// When the next report may be made.
    until: Option<Instant>,
    /// The report to make then.
    waiting: Option<String>,
}

/// Keeps a call registered until dropped.
pub(crate) struct Registered<'a> {
    calls: &'a Calls,
    token: ProgressToken,
    call: Arc<Call>,
    /// The interrupt that ends the call.
    pub(crate) interrupt: mpsc::Receiver<ToolError>,
}

impl Calls {
    /// Registers a call under the request ID and progress token of its request.
    pub(crate) fn register(&self, id: RequestId, token: ProgressToken, cx: &ToolContext) -> Registered<'_> {
        let (sender, interrupt) = mpsc::channel(1);
        let call = Arc::new(Call { id, cx: cx.clone(), progress: Mutex::default(), interrupt: sender });
        let mut inner = lock(&self.inner);
        inner.open.insert(token.clone(), call.clone());
        let early: Vec<String> =
            inner.early.iter().filter(|(other, _)| *other == token).map(|(_, text)| text.clone()).collect();
        inner.early.retain(|(other, _)| *other != token);
        drop(inner);
        early.into_iter().for_each(|text| call.report(text));
        Registered { calls: self, token, call, interrupt }
    }

    /// Passes a progress notification to its call.
    pub(crate) fn progress(&self, notice: &ProgressNotificationParam) {
        let text = progress_text(notice);
        let mut inner = lock(&self.inner);
        match inner.open.get(&notice.progress_token).cloned() {
            Some(call) => {
                drop(inner);
                call.report(text);
            }
            None => {
                inner.early.push_back((notice.progress_token.clone(), text));
                if inner.early.len() > MAX_EARLY {
                    inner.early.pop_front();
                }
            }
        }
    }

    /// Returns the call that a server request belongs to: the call on whose response stream it arrived if that is
    /// known, otherwise the only call in flight.
    pub(crate) fn asked_by(&self, origin: Option<&InboundStreamOrigin>) -> Option<Arc<Call>> {
        let inner = lock(&self.inner);
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

    /// Whether the server has sent a request that could not be assigned to a call.
    pub(crate) fn is_unclear(&self) -> bool {
        self.unclear.load(Ordering::Acquire)
    }
}

impl Call {
    /// Reports progress, at most once per [`PROGRESS_INTERVAL`].
    fn report(self: &Arc<Self>, text: String) {
        let mut progress = lock(&self.progress);
        let now = Instant::now();
        match progress.until.filter(|until| now < *until) {
            Some(until) => {
                if progress.waiting.replace(text).is_none() {
                    let call = self.clone();
                    tokio::spawn(async move {
                        sleep_until(until).await;
                        call.report_pending();
                    });
                }
            }
            None => {
                progress.until = Some(now + PROGRESS_INTERVAL);
                drop(progress);
                self.cx.progress(text);
            }
        }
    }

    /// Makes the pending report.
    fn report_pending(&self) {
        let mut progress = lock(&self.progress);
        let Some(text) = progress.waiting.take() else { return };
        progress.until = Some(Instant::now() + PROGRESS_INTERVAL);
        drop(progress);
        self.cx.progress(text);
    }

    /// Ends the call with an interrupt. The call is made again once a person has answered.
    pub(crate) fn interrupt(&self, why: ToolError) {
        // One is enough: the others are raised again by the next call.
        let _ = self.interrupt.try_send(why);
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        lock(&self.calls.inner).open.remove(&self.token);
        self.call.report_pending();
    }
}

/// Formats a notification as a line of its own, because the progress of a call is read as one text.
fn progress_text(notice: &ProgressNotificationParam) -> String {
    let amount = match notice.total {
        Some(total) if total > 0.0 => format!("{} of {total}", notice.progress),
        _ => notice.progress.to_string(),
    };
    match notice
        .message
        .as_deref()
        .map(|message| text::line(message, MAX_PROGRESS_CHARS))
        .filter(|message| !message.is_empty())
    {
        Some(message) => format!("{message} ({amount})\n"),
        None => format!("{amount}\n"),
    }
}
