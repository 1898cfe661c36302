//! Sandboxing of commands.
//!
//! On Linux, a command runs in its own namespaces (user, mount, process, IPC, host name, network) with a file system
//! built for it: the workspace, at its own path and writable; the system's programs and libraries, read-only; a private
//! `/tmp` and home, deleted when the command ends; a `/proc` that shows its own processes; and five harmless devices.
//! There is nothing else, so there are no home directories, keys, sockets or disks to find.
//!
//! The command has no capabilities and cannot gain any. Landlock and seccomp back up the namespaces, and resource
//! limits apply. There is no network unless allowed: either to a list of hosts, through a proxy in the program, or
//! without restriction. [`SandboxPolicy`] says what is allowed; [`Sandbox::probe`] reports what this machine supports.
//!
//! Repositories in the workspace, and files that control the agent, are readable but not writable.
//!
//! The sandbox has limits. It hides nothing *in* the workspace, so do not use a home directory as one; commands can
//! connect to sockets there. It does not limit the total memory used, only that of each process, and of the disk it
//! only keeps some space free. The kernel is shared, so a vulnerability in the kernel is one in the sandbox. Other
//! systems have no sandbox.
//!
//! # The helper
//!
//! A single-threaded helper process enters the sandbox, since a multi-threaded program cannot. A program is its own
//! helper if it calls [`init`] at the very start of `main`. A program that does not is never run again by accident: it
//! uses the `deepagents-sandbox` program of this crate, next to its own executable or at a [given
//! path](Sandbox::helper).
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

/// Whether this program can act as its own helper.
static CAN_BE_HELPER: AtomicBool = AtomicBool::new(false);

/// Name of this crate's helper program.
pub const HELPER: &str = "deepagents-sandbox";

/// Makes this program its own sandbox helper. Call it before anything else in `main`, in particular before any threads
/// are started. In a process started as a helper, it does the helper's work and does not return.
pub fn init() {
    #[cfg(target_os = "linux")]
    helper::take_over(std::env::args_os());
    CAN_BE_HELPER.store(true, Ordering::Relaxed);
}

/// Creates sandboxes, and caches whether this machine supports them. Clones share the cache.
#[derive(Clone, Debug)]
pub struct Sandbox {
    helper: Option<PathBuf>,
    report: Arc<OnceLock<SandboxReport>>,
}

impl Sandbox {
    /// Creates a sandbox that finds its helper itself: this program, if it calls [`init`], or else [`HELPER`] next to
    /// it.
    ///
    /// All sandboxes created this way share one cached report.
    pub fn new() -> Self {
        static REPORT: LazyLock<Arc<OnceLock<SandboxReport>>> = LazyLock::new(Arc::default);
        Self { helper: None, report: REPORT.clone() }
    }

    /// Creates a sandbox that uses this program as its helper. The program must call [`init`].
    pub fn helper(program: impl Into<PathBuf>) -> Self {
        Self { helper: Some(program.into()), report: Arc::default() }
    }

    /// Returns what the sandbox provides on this machine. The first call blocks for some milliseconds to run a command
    /// in a sandbox; the result is cached.
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

    /// Returns the program to start as a helper, or the reason there is none.
    #[cfg(unix)]
    fn program(&self) -> Result<PathBuf, String> {
        if let Some(helper) = &self.helper {
            return Ok(helper.clone());
        }
        if CAN_BE_HELPER.load(Ordering::Relaxed) {
            // This remains the running program even if its file is replaced by a newer one.
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
