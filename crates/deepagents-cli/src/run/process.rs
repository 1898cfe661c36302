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
    #[serde(flatten)]
    place: Place,
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
        let process = json!({"id": std::process::id(), "host": host, "boot": boot, "namespace": namespace});
        // Earlier versions noted the machine beside it.
        [(PROCESS.to_owned(), process), ("host".to_owned(), Value::Null)].into_iter().collect()
    }

    /// Whether it was a process of this machine and is no more.
    fn is_gone(&self, thread: &ThreadInfo) -> bool {
        let process = thread.metadata.get(PROCESS).and_then(|noted| Process::deserialize(noted).ok());
        let here = process.filter(|process| process.place == *Place::here());
        here.and_then(|process| Pid::from_raw(process.id)).is_some_and(|id| test_kill_process(id) == Err(Errno::SRCH))
    }
}

/// Whether the process that works on a thread is known to be gone: its lease need not run out. What was noted by another
/// than the owner of now says nothing.
pub(crate) fn is_gone(thread: &ThreadInfo) -> bool {
    thread.is_noted_by_owner() && ThisProcess.is_gone(thread)
}
