//! Holding commands in.
//!
//! On Linux a command runs in namespaces of its own (user, mount, process, IPC, host name, network) with a file system
//! built for it: the workspace, at its own path and writable; the system's programs and libraries, read-only; a private
//! `/tmp` and home, gone when the command ends; a `/proc` that shows its own processes; five harmless devices; and
//! nothing else, so there are no home directories, keys, sockets or disks to find. It has no capabilities and cannot get
//! any, Landlock and seccomp stand behind the namespaces, resource limits bound it, and there is no network unless it is
//! allowed: as a list of hosts, reached through a proxy of the program, or whole. [`SandboxPolicy`] says what is allowed,
//! [`Sandbox::probe`] what this machine can do.
//!
//! Repositories in the workspace, and what steers the agent, can be read and not changed.
//!
//! What it does not do: it does not hide anything that is *in* the workspace, so do not give it a home directory, and a
//! socket there can be connected to; it does not bound the total of memory used, only what one process takes, and of the
//! disk it keeps some space free and no more; and the kernel is shared, so a hole in the kernel is a hole in the sandbox. On other systems there
//! is none.
//!
//! # The helper
//!
//! The steps into a sandbox are taken by a helper process of a single thread, since a program with threads cannot take
//! them. A program is its own helper when it calls [`init`] first thing in `main`; one that does not is never run
//! again by accident, it uses the program `deepagents-sandbox` of this crate, next to its own executable or
//! [named](Sandbox::helper).
//!
//! ```no_run
//! // First thing in `main`:
//! deepagents_fs::sandbox::init();
//! // and whenever somebody wants to know:
//! println!("{}", deepagents_fs::sandbox::Sandbox::new().probe());
//! ```

mod address;
#[cfg(unix)]
pub(crate) mod appeared;
#[cfg(unix)]
pub(crate) mod control;
#[cfg(unix)]
pub(crate) mod disk_guard;
#[cfg(target_os = "linux")]
mod helper;
#[cfg(unix)]
mod homes;
mod hosts;
#[cfg(unix)]
pub(crate) mod launch;
mod policy;
#[cfg(unix)]
pub(crate) mod protocol;
#[cfg(unix)]
mod proxy;
mod report;
#[cfg(unix)]
pub(crate) mod toolchains;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

pub use address::is_elsewhere;
pub use hosts::{HostPattern, HostPatternError};
pub use policy::{Git, Limits, Network, PolicyError, SandboxPolicy};
#[cfg(unix)]
pub use proxy::Proxy;
pub use report::{Level, Part, SandboxReport};
#[cfg(unix)]
pub use toolchains::{Cache, CacheAccess, ToolChains};

/// Whether this program answers when it is started as a helper.
static ANSWERS: AtomicBool = AtomicBool::new(false);

/// The name of the helper program of this crate.
pub const HELPER: &str = "deepagents-sandbox";

/// Makes this program its own sandbox helper. To be called before anything else in `main`, above all before threads are
/// started. In a process that was started as a helper it does the helper's work and does not return.
pub fn init() {
    #[cfg(target_os = "linux")]
    helper::take_over(std::env::args_os());
    ANSWERS.store(true, Ordering::Relaxed);
}

/// Makes sandboxes, and knows whether it can. Clones share what they know.
#[derive(Clone, Debug)]
pub struct Sandbox {
    helper: Option<PathBuf>,
    report: Arc<OnceLock<SandboxReport>>,
}

impl Sandbox {
    /// Finds its helper by itself: this program, if it calls [`init`], or else [`HELPER`] next to it.
    ///
    /// All that are made so share what they know.
    pub fn new() -> Self {
        static REPORT: LazyLock<Arc<OnceLock<SandboxReport>>> = LazyLock::new(Arc::default);
        Self { helper: None, report: REPORT.clone() }
    }

    /// Uses this program as helper. It must call [`init`].
    pub fn helper(program: impl Into<PathBuf>) -> Self {
        Self { helper: Some(program.into()), report: Arc::default() }
    }

    /// What the sandbox amounts to on this machine. The first call runs a command in one and takes some milliseconds
    /// during which it blocks; the answer is kept.
    pub fn probe(&self) -> SandboxReport {
        self.report.get_or_init(|| self.try_out()).clone()
    }

    #[cfg(target_os = "linux")]
    fn try_out(&self) -> SandboxReport {
        launch::try_out(self)
    }

    #[cfg(not(target_os = "linux"))]
    fn try_out(&self) -> SandboxReport {
        SandboxReport::none("the sandbox needs Linux")
    }

    /// The program to start as helper, or why there is none.
    #[cfg(unix)]
    fn program(&self) -> Result<PathBuf, String> {
        if let Some(helper) = &self.helper {
            return Ok(helper.clone());
        }
        if ANSWERS.load(Ordering::Relaxed) {
            // Stays the running program even when its file was replaced by a newer one.
            return Ok(PathBuf::from("/proc/self/exe"));
        }
        let beside = std::env::current_exe().ok().map(|program| program.with_file_name(HELPER));
        beside.filter(|program| program.is_file()).ok_or_else(|| {
            format!(
                "this program does not call `deepagents_fs::sandbox::init()`, and the program `{HELPER}` is not next to it"
            )
        })
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}
