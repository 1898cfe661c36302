//! Which runs wait and which are under way.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::store::{NamespaceQuery, StoreError};

use super::create::Strategy;
use super::execute::execute;
use super::live::{CancelAction, LiveRun};
use super::record::{RunRecord, Status, of_thread};
use crate::app::App;
use crate::error::{ApiError, Result};

/// Finished runs whose streams can still be read again.
const REMEMBERED: usize = 256;

/// The runs of this process.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    threads: HashMap<String, Queue>,
    live: HashMap<String, Arc<LiveRun>>,
    /// Those that have ended, oldest first.
    ended: VecDeque<String>,
}

#[derive(Debug, Default)]
struct Queue {
    current: Option<Arc<LiveRun>>,
    pending: VecDeque<Arc<LiveRun>>,
}

impl Runs {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread has a run that waits or is under way.
    pub(crate) fn is_busy(&self, thread: &str) -> bool {
        self.lock().threads.contains_key(thread)
    }

    /// A run of this process.
    pub(crate) fn get(&self, run: &str) -> Option<Arc<LiveRun>> {
        self.lock().live.get(run).cloned()
    }

    /// The runs of a thread that wait or are under way.
    pub(crate) fn open(&self, thread: &str) -> Vec<Arc<LiveRun>> {
        let inner = self.lock();
        let queue = inner.threads.get(thread);
        queue.map(|queue| queue.current.iter().chain(&queue.pending).cloned().collect()).unwrap_or_default()
    }

    fn next(&self, thread: &str) -> Option<Arc<LiveRun>> {
        let mut inner = self.lock();
        let queue = inner.threads.get_mut(thread)?;
        queue.current = queue.pending.pop_front();
        let next = queue.current.clone();
        if next.is_none() {
            inner.threads.remove(thread);
        }
        next
    }

    fn remember(&self, run: &LiveRun) {
        let mut inner = self.lock();
        inner.ended.push_back(run.id.clone());
        if inner.ended.len() > REMEMBERED
            && let Some(oldest) = inner.ended.pop_front()
        {
            inner.live.remove(&oldest);
        }
    }

    pub(super) fn forget(&self, run: &str) {
        self.lock().live.remove(run);
    }
}

/// Accepts a run: it is kept, and its turn comes when those before it have ended.
pub(crate) async fn accept(app: &Arc<App>, record: RunRecord) -> Result<Arc<LiveRun>> {
    let thread = record.thread_id.clone();
    let open = app.runs.open(&thread);
    if !open.is_empty() {
        match record.multitask_strategy {
            Strategy::Reject => {
                return Err(ApiError::conflict(
                    "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.",
                ));
            }
            Strategy::Enqueue => {}
            Strategy::Interrupt => open.iter().for_each(|run| run.end(CancelAction::Interrupt)),
            Strategy::Rollback => open.iter().for_each(|run| run.end(CancelAction::Rollback)),
        }
    }
    record.save(app).await?;
    Ok(enqueue(app, record, false))
}

fn enqueue(app: &Arc<App>, record: RunRecord, recovered: bool) -> Arc<LiveRun> {
    let thread = record.thread_id.clone();
    let run = Arc::new(LiveRun::new(record, recovered));
    let is_new = {
        let mut inner = app.runs.lock();
        inner.live.insert(run.id.clone(), run.clone());
        let is_new = !inner.threads.contains_key(&thread);
        inner.threads.entry(thread.clone()).or_default().pending.push_back(run.clone());
        is_new
    };
    if is_new {
        tokio::spawn(work(app.clone(), thread));
    }
    run
}

/// Works on the runs of a thread until none is left.
async fn work(app: Arc<App>, thread: String) {
    while let Some(run) = app.runs.next(&thread) {
        execute(&app, &run).await;
        app.runs.remember(&run);
        run.finish();
    }
}

/// Takes up what an earlier process had accepted and not finished.
pub(crate) async fn recover(app: &Arc<App>) -> Result<(), StoreError> {
    let below = ["deepagents-server".to_owned(), "runs".to_owned()];
    let mut query = NamespaceQuery::default();
    query.prefix = below.to_vec();
    for namespace in app.store.list_namespaces(&query).await? {
        let found = app.store.search(&namespace, &Default::default()).await?;
        let mut open: Vec<RunRecord> = found
            .into_iter()
            .filter_map(|item| serde_json::from_value::<RunRecord>(item.value).ok())
            .filter(|record| record.status.is_open())
            .collect();
        open.sort_by(|a, b| a.run_id.cmp(&b.run_id));
        for record in open {
            let begun = record.status == Status::Running;
            enqueue(app, record, begun);
        }
    }
    Ok(())
}

/// Ends and forgets the runs of a thread that is about to go.
pub(crate) async fn forget_thread(app: &Arc<App>, thread: &str) -> Result<()> {
    for run in app.runs.open(thread) {
        run.end(CancelAction::Interrupt);
        run.ended().await;
    }
    for record in of_thread(app, thread).await? {
        record.delete(app).await?;
        app.runs.forget(&record.run_id);
    }
    Ok(())
}
