//! What all servers of a set have in common.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use deepagents_core::event::MiddlewareEvent;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::McpError;
use crate::http;
use crate::options::McpOptions;

/// What all servers of a set have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: McpOptions,
    pub(crate) notices: Notices,
    pub(crate) groups: Groups,
    http: OnceLock<reqwest::Client>,
}

impl Shared {
    pub(super) fn new(options: McpOptions) -> Self {
        Self { options, notices: Notices::default(), groups: Groups::default(), http: OnceLock::new() }
    }

    /// The client of all servers that are addresses: the certificates that it trusts are read once.
    pub(crate) fn http_client(&self) -> Result<reqwest::Client, String> {
        if let Some(client) = self.http.get() {
            return Ok(client.clone());
        }
        let client = http::client()?;
        // Of two that are made at once either will do.
        Ok(self.http.get_or_init(|| client).clone())
    }
}

/// What nobody has been told of yet.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    waiting: Mutex<Vec<MiddlewareEvent>>,
    /// What was told last of servers that could not be had: a start that is tried again fails in the same way.
    failures: Mutex<HashMap<String, String>>,
}

impl Notices {
    /// A server offers so many tools.
    pub(super) fn connected(&self, server: &str, tools: usize) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(server);
        self.push(MiddlewareEvent::McpServer { server: server.to_owned(), tools, problem: None, starting: false });
    }

    /// A server cannot be had.
    pub(super) fn failed(&self, error: &McpError) {
        let (server, problem) = (error.server().to_owned(), error.line());
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let before = failures.insert(server.clone(), problem.clone());
        drop(failures);
        if before.as_ref() != Some(&problem) {
            self.push(MiddlewareEvent::McpServer { server, tools: 0, problem: Some(problem), starting: false });
        }
    }

    /// A tool of a server is not offered.
    pub(super) fn withheld(&self, server: &str, tools: usize, why: String) {
        self.push(MiddlewareEvent::McpServer { server: server.to_owned(), tools, problem: Some(why), starting: false });
    }

    /// Forgets what was not offered.
    pub(super) fn forget_withheld(&self) {
        let is_withheld = |notice: &MiddlewareEvent| matches!(notice, MiddlewareEvent::McpServer { tools, problem: Some(_), .. } if *tools > 0);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).retain(|notice| !is_withheld(notice));
    }

    fn push(&self, notice: MiddlewareEvent) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(notice);
    }

    pub(super) fn take(&self) -> Vec<MiddlewareEvent> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The process groups that are alive, for a program that has no time to end them one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups(Arc<Mutex<HashSet<Pid>>>);

impl Groups {
    pub(crate) fn add(&self, group: Pid) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(group);
    }

    pub(crate) fn remove(&self, group: Pid) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&group);
    }

    /// Kills all of them.
    pub(super) fn kill(&self) {
        for group in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            // One that has gone needs no signal.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
