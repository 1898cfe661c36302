//! The first stage of the helper: creates the namespaces.

use std::fs;
use std::os::fd::{AsFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getegid, geteuid, pidfd_open, pidfd_send_signal};
use rustix::stdio::stdin;
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use super::failure::{At, Failure};
use super::read_plan;
use crate::sandbox::protocol::{INNER, NetworkAccess, OuterPlan};

/// Creates the namespaces, starts the second stage in them and waits until it ends.
pub(super) fn run() -> Result<i32, Failure> {
    // A new process session has no terminal, and its group can be killed at once.
    rustix::process::setsid().at("start a session")?;
    close_inherited().at("close inherited files")?;
    let plan: OuterPlan = read_plan()?;
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let mut spaces = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    spaces.set(UnshareFlags::NEWNET, plan.network != NetworkAccess::Host);
    unshare(spaces).map_err(|error| {
        Failure::new("make namespaces", format!("{error}; unprivileged user namespaces may be switched off here"))
    })?;
    // Required before mapping a group. It also prevents dropping groups to get at files that are denied to them.
    fs::write("/proc/self/setgroups", "deny").at("map the user")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1")).at("map the user")?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1")).at("map the user")?;
    keep_capabilities().at("keep capabilities for the second stage")?;
    let mut inner = Command::new("/proc/self/exe");
    inner.arg(INNER).env_clear().stdin(Stdio::inherit());
    let mut inner = inner.spawn().at("start the second stage")?;
    let ended = wait(&mut inner);
    if ended.is_err() {
        // The failure is reported, so nothing may keep running unsupervised.
        let _ = inner.kill();
    }
    ended.at("wait for the second stage")
}

/// Waits until the second stage ends. Kills it, and with it the sandbox, when the other side closes the socket.
///
/// The second stage cannot do this itself. It would need a second thread, and while the first thread starts the command
/// with its signals blocked, the kernel would let a signal from inside the sandbox kill the process through the other
/// thread.
fn wait(inner: &mut Child) -> std::io::Result<i32> {
    let process = pidfd_open(Pid::from_child(inner), PidfdFlags::empty())?;
    let mut sources =
        [PollFd::from_borrowed_fd(stdin(), PollFlags::RDHUP), PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    while let Err(error) = poll(&mut sources, None) {
        if error != Errno::INTR {
            return Err(error.into());
        }
    }
    let [program, ended] = &sources;
    if ended.revents().is_empty() && !program.revents().is_empty() {
        pidfd_send_signal(&process, Signal::KILL)?;
        inner.wait()?;
        return Ok(0);
    }
    let status = inner.wait()?;
    Ok(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(125))
}

/// Closes files that the program left open for child processes, knowingly or not. An open host directory would be a way
/// out of the sandbox. Nothing in this process uses these files afterwards.
fn close_inherited() -> std::io::Result<()> {
    let mut inherited = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        inherited.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()).filter(|fd| *fd > 2));
    }
    for fd in inherited {
        // The descriptor used for the listing itself is already closed.
        let _ = nix::unistd::close(fd);
    }
    Ok(())
}

#[expect(
    deprecated,
    reason = "unsafe for CLONE_FILES alone, which detaches file descriptors; it is not among the flags"
)]
fn unshare(spaces: UnshareFlags) -> rustix::io::Result<()> {
    debug_assert!(!spaces.contains(UnshareFlags::FILES));
    rustix::thread::unshare(spaces)
}

/// Passes the capabilities of the new user namespace, which apply only in it, through the next `exec`.
fn keep_capabilities() -> rustix::io::Result<()> {
    let own = rustix::thread::capabilities(None)?;
    rustix::thread::set_capabilities(None, CapabilitySets { inheritable: own.permitted, ..own })?;
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if own.permitted.contains(capability) {
            rustix::thread::configure_capability_in_ambient_set(capability, true)?;
        }
    }
    Ok(())
}
