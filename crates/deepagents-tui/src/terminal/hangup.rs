//! Notices when the terminal has gone.
//!
//! The kernel sends SIGHUP only to the session that the terminal controls. A program in another session, such as one
//! that a wrapper started, would stay, and crossterm would read the end of its input over and over.

use std::future::pending;
use std::io::IsTerminal as _;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches the standard input, if it is a terminal.
#[derive(Debug, Default)]
pub(crate) struct Hangup {
    terminal: Option<AsyncFd<OwnedFd>>,
}

impl Hangup {
    #[allow(deprecated, reason = "the replacement is unsafe to call; an owned descriptor stays open, as it demands")]
    pub(crate) fn new() -> Self {
        let input = std::io::stdin();
        let copy = input.is_terminal().then(|| input.as_fd().try_clone_to_owned().ok()).flatten();
        // Without it, SIGHUP and failed writes still end the program.
        Self { terminal: copy.and_then(|copy| AsyncFd::with_interest(copy, Interest::READABLE).ok()) }
    }

    /// Returns whether the terminal has gone.
    pub(crate) fn has_happened(&self) -> bool {
        let Some(terminal) = &self.terminal else { return false };
        // Without requested events, only errors and the end are reported.
        let mut states = [PollFd::new(terminal.get_ref(), PollFlags::empty())];
        let polled = poll(&mut states, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        polled.is_ok_and(|count| count > 0)
    }

    /// Waits until the terminal has gone.
    pub(crate) async fn wait(&self) {
        let Some(terminal) = &self.terminal else { return pending().await };
        while let Ok(mut ready) = terminal.readable().await {
            if self.has_happened() {
                return;
            }
            // It was input, which crossterm reads.
            ready.clear_ready();
        }
        pending().await
    }
}
