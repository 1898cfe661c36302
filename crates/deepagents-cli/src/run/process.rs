//! The process that works on a thread, as noted in the thread.

use std::sync::OnceLock;

use deepagents::core::journal::{Journal, ProcessIdentity, ThreadInfo};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::render::escaped;

/// Metadata key for the process.
const PROCESS: &str = "process";

/// Identifies a process among all others, here and elsewhere.
#[derive(Debug, Deserialize, Serialize)]
struct Process {
    id: i32,
    /// Start time in the system's units, as IDs are reused. Absent if unknown, or noted by an earlier version.
    #[serde(default)]
    start: Option<u64>,
    #[serde(flatten)]
    place: ProcessScope,
}

impl Process {
    /// Returns this process.
    fn current() -> &'static Self {
        static CURRENT: OnceLock<Process> = OnceLock::new();
        CURRENT.get_or_init(|| {
            let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
            let namespace = std::fs::read_link("/proc/self/ns/pid");
            let place = ProcessScope {
                host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
                boot: boot.ok().map(|id| id.trim().to_owned()),
                namespace: namespace.ok().map(|name| name.to_string_lossy().into_owned()),
            };
            let start = stat("self").map(|(_, start)| start);
            Self { id: rustix::process::getpid().as_raw_nonzero().get(), start, place }
        })
    }

    /// Whether it has ended, even if its ID has been reused or it is a zombie.
    fn is_gone(&self) -> bool {
        match stat(&self.id.to_string()) {
            Some((state, start)) => matches!(state, 'Z' | 'X') || self.start.is_some_and(|noted| noted != start),
            None => Pid::from_raw(self.id).is_some_and(|id| test_kill_process(id) == Err(Errno::SRCH)),
        }
    }
}

/// Returns the state and start time of a process, if the system has `/proc`.
fn stat(id: &str) -> Option<(char, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The program's name may contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// The scope of a process ID: machines may share a name, and containers on one machine number their processes
/// separately.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct ProcessScope {
    host: String,
    /// The boot ID of the machine; `None` if unavailable.
    boot: Option<String>,
    /// The PID namespace, if there are namespaces.
    namespace: Option<String>,
}

/// Identifies this process, for agents whose threads it works on.
pub(crate) struct ThisProcess;

impl ProcessIdentity for ThisProcess {
    fn metadata(&self) -> Map<String, Value> {
        // Remove the separate `host` entry of earlier versions.
        [(PROCESS.to_owned(), json!(Process::current())), ("host".to_owned(), Value::Null)].into_iter().collect()
    }

    /// Whether it was a process of this machine and has ended.
    fn is_gone(&self, thread: &ThreadInfo) -> bool {
        let process = thread.metadata.get(PROCESS).and_then(|noted| Process::deserialize(noted).ok());
        let here = process.filter(|process| process.place == Process::current().place);
        here.is_some_and(|process| process.is_gone())
    }
}

/// Whether the process that works on a thread is known to have ended, so that its lease need not expire first. What an
/// earlier owner noted does not count.
pub(crate) fn is_gone(thread: &ThreadInfo) -> bool {
    thread.is_noted_by_owner() && ThisProcess.is_gone(thread)
}

/// Describes who works on a thread, if that is known: `process 1234 on this machine`.
pub(crate) fn owner_of(thread: &ThreadInfo) -> Option<String> {
    let noted = thread.metadata.get(PROCESS).filter(|_| thread.is_noted_by_owner())?;
    let Process { id, place, .. } = Process::deserialize(noted).ok()?;
    let here = &Process::current().place;
    Some(match () {
        () if place == *here => format!("process {id} on this machine"),
        () if place.host == here.host && place.boot == here.boot => format!("process {id} in another container"),
        () => format!("process {id} on {}", escaped(&place.host)),
    })
}

/// Describes who works on a thread, whatever is known of it.
pub(crate) async fn owner_in(journal: &dyn Journal, thread: &str, owner: &str) -> String {
    let found = journal.threads().get(thread).await.ok().flatten();
    found.as_ref().and_then(owner_of).unwrap_or_else(|| escaped(owner))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_reused_process_id_is_a_different_process() {
        let (state, start) = stat("self").unwrap();
        assert!(matches!(state, 'R' | 'S') && start > 0);
        let id = i32::try_from(std::process::id()).unwrap();
        let place = || ProcessScope { host: String::new(), boot: None, namespace: None };
        let is_gone = |start| Process { id, start, place: place() }.is_gone();
        assert_eq!((is_gone(Some(start)), is_gone(None), is_gone(Some(start + 1))), (false, false, true));
    }
}
