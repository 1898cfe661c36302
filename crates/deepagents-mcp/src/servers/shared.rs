//! State shared by the servers of a set.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use deepagents_core::event::MiddlewareEvent;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::McpError;
use crate::http::Clients;
use crate::options::McpOptions;
use crate::sync::lock;

/// State shared by the servers of a set.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: McpOptions,
    pub(crate) notices: Notices,
    pub(crate) groups: Groups,
    pub(crate) http: Clients,
}

impl Shared {
    pub(super) fn new(options: McpOptions) -> Self {
        Self { options, notices: Notices::default(), groups: Groups::default(), http: Clients::default() }
    }
}

/// Notices not yet reported.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    waiting: Mutex<Vec<MiddlewareEvent>>,
    /// The last reported failure of each server. A retry that fails in the same way is not reported again.
    failures: Mutex<HashMap<String, String>>,
}

impl Notices {
    /// Reports that a server offers this many tools.
    pub(super) fn connected(&self, server: &str, tools: usize) {
        lock(&self.failures).remove(server);
        self.push(server, tools, None);
    }

    /// Reports that a server is not available.
    pub(super) fn failed(&self, server: &str, error: &McpError) {
        let problem = error.line();
        let mut failures = lock(&self.failures);
        let before = failures.insert(server.to_owned(), problem.clone());
        drop(failures);
        if before.as_ref() != Some(&problem) {
            self.push(server, 0, Some(problem));
        }
    }

    /// Reports that a tool is not offered.
    pub(super) fn withheld(&self, server: &str, tools: usize, why: String) {
        self.push(server, tools, Some(why));
    }

    /// Drops notices about tools that are not offered.
    pub(super) fn forget_withheld(&self) {
        let is_withheld = |notice: &MiddlewareEvent| matches!(notice, MiddlewareEvent::McpServer { tools, problem: Some(_), .. } if *tools > 0);
        lock(&self.waiting).retain(|notice| !is_withheld(notice));
    }

    fn push(&self, server: &str, tools: usize, problem: Option<String>) {
        let notice = MiddlewareEvent::McpServer { server: server.to_owned(), tools, problem, starting: false };
        lock(&self.waiting).push(notice);
    }

    pub(super) fn take(&self) -> Vec<MiddlewareEvent> {
        std::mem::take(&mut *lock(&self.waiting))
    }
}

/// The running process groups, for a program that has no time to close servers one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups(Arc<Mutex<HashSet<Pid>>>);

impl Groups {
    pub(crate) fn add(&self, group: Pid) {
        lock(&self.0).insert(group);
    }

    pub(crate) fn remove(&self, group: Pid) {
        lock(&self.0).remove(&group);
    }

    /// Kills all of them.
    pub(super) fn kill(&self) {
        for group in lock(&self.0).drain() {
            // The group may have exited already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
