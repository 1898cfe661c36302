//! The process that works on a thread, as the thread notes it.

use std::sync::OnceLock;

use deepagents::core::journal::{ProcessIdentity, ThreadInfo};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The key under which a thread notes the process.
const PROCESS: &str = "process";

/// What tells a process from all others, here and elsewhere.
#[derive(Debug, Deserialize, Serialize)]
struct Process {
    id: i32,
    /// When it began, as the system counts: a number is given again. Not noted by earlier versions, nor where it is not known.
    #[serde(default)]
    start: Option<u64>,
    #[serde(flatten)]
    place: Place,
}

impl Process {
    /// Whether it has ended, though its number may be another's by now, or its parent has not asked how it ended.
    fn is_gone(&self) -> bool {
        match stat(&self.id.to_string()) {
            Some((state, start)) => matches!(state, 'Z' | 'X') || self.start.is_some_and(|noted| noted != start),
            None => Pid::from_raw(self.id).is_some_and(|id| test_kill_process(id) == Err(Errno::SRCH)),
        }
    }
}

/// The state of a process and when it began, where the system has a file that says so.
fn stat(id: &str) -> Option<(char, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program may have blanks and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// Where the number of a process means that process: machines may have one name, and containers of one machine have
/// numbers of their own.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Place {
    host: String,
    /// Since the machine was started; nothing where it does not say.
    boot: Option<String>,
    /// The namespace of the number, where there are such.
    namespace: Option<String>,
}

impl Place {
    /// That of this process.
    fn here() -> &'static Self {
        static HERE: OnceLock<Place> = OnceLock::new();
        HERE.get_or_init(|| {
            let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
            let namespace = std::fs::read_link("/proc/self/ns/pid");
            Self {
                host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
                boot: boot.ok().map(|id| id.trim().to_owned()),
                namespace: namespace.ok().map(|name| name.to_string_lossy().into_owned()),
            }
        })
    }
}

/// This process, for agents whose threads it works on.
pub(crate) struct ThisProcess;

impl ProcessIdentity for ThisProcess {
    fn metadata(&self) -> Map<String, Value> {
        let Place { host, boot, namespace } = Place::here();
        static START: OnceLock<Option<u64>> = OnceLock::new();
        let start = START.get_or_init(|| stat("self").map(|(_, start)| start));
        let process =
            json!({"id": std::process::id(), "start": start, "host": host, "boot": boot, "namespace": namespace});
        // Earlier versions noted the machine beside it.
        [(PROCESS.to_owned(), process), ("host".to_owned(), Value::Null)].into_iter().collect()
    }

    /// Whether it was a process of this machine and is no more.
    fn is_gone(&self, thread: &ThreadInfo) -> bool {
        let process = thread.metadata.get(PROCESS).and_then(|noted| Process::deserialize(noted).ok());
        let here = process.filter(|process| process.place == *Place::here());
        here.is_some_and(|process| process.is_gone())
    }
}

/// Whether the process that works on a thread is known to be gone: its lease need not run out. What was noted by another
/// than the owner of now says nothing.
pub(crate) fn is_gone(thread: &ThreadInfo) -> bool {
    thread.is_noted_by_owner() && ThisProcess.is_gone(thread)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_given_again_is_another_process() {
        let (state, start) = stat("self").unwrap();
        assert!(matches!(state, 'R' | 'S') && start > 0);
        let id = i32::try_from(std::process::id()).unwrap();
        let place = || Place { host: String::new(), boot: None, namespace: None };
        let is_gone = |start| Process { id, start, place: place() }.is_gone();
        assert_eq!((is_gone(Some(start)), is_gone(None), is_gone(Some(start + 1))), (false, false, true));
    }
}
