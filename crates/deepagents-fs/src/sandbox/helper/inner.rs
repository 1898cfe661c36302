//! The second stage of the helper: the first process in the sandbox.

use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, WaitOptions};
use rustix::stdio::{stderr, stdout};

use super::failure::{At, Failure};
use super::{confine, guard, limits, loopback, proxy, read_plan, root_fs, seccomp, send};
use crate::sandbox::protocol::{InnerPlan, Message, NetworkAccess};
use crate::sandbox::{Part, SandboxReport};

/// Builds the sandbox around itself, runs the command and reports how it ended.
pub(super) fn run() -> Result<i32, Failure> {
    let plan: InnerPlan = read_plan()?;
    // When memory runs out, the kernel should kill commands before the program. If this cannot be set, continue without
    // it.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let mut parts = vec![Part::on("user, mount, process, IPC and host name namespaces", "")];
    rustix::system::sethostname(b"sandbox").at("set the host name")?;
    let mut variables = Vec::new();
    if plan.network == NetworkAccess::Host {
        parts.push(Part::off("network namespace", "the policy gives the host's network"));
    } else {
        loopback::up().at("bring up the loopback interface")?;
        parts.push(Part::on("network namespace", ""));
    }
    if let NetworkAccess::Proxy { direct } = &plan.network {
        variables = proxy::open(direct)?;
        parts.push(Part::on("allow-list of hosts", "by a proxy"));
    }
    root_fs::build(&plan)?;
    parts.extend(guard::all(&plan)?);
    parts.push(limits::processes(&plan.limits));
    root_fs::seal()?;
    parts.push(limits::each(&plan.limits)?);
    std::env::set_current_dir(&plan.cwd).on("enter the working directory", plan.cwd.display())?;
    confine::drop_capabilities()?;
    parts.push(Part::on("no capabilities, no new privileges", ""));
    parts.push(confine::landlock(&plan)?);
    seccomp::apply()?;
    parts.push(Part::on("seccomp", ""));
    let report = SandboxReport::new(parts);
    if report.level < plan.least {
        return Err(Failure::new("reach the required level", format!("{} is required, but {report}", plan.least)));
    }
    // The first stage watches the program; without the first stage, nothing would.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at("tie itself to the first stage")?;

    let mut command = Command::new(&plan.program);
    // Its own process group, so that signals to its group do not reach the first stage outside.
    command.args(&plan.args).env_clear().envs(plan.env).envs(variables).process_group(0);
    if plan.takes_input {
        command.stdin(again(stderr()).at("pass the input on")?).stderr(again(stdout()).at("pass the output on")?);
    } else {
        command.stdin(Stdio::null());
    }
    let child = command.spawn().on("start the command", plan.program.display())?;
    send(&Message::Ready { parts: report.parts }).at("answer")?;
    let (code, signal) = collect(Pid::from_child(&child)).at("wait for the command")?;
    send(&Message::Exited { code, signal }).at("answer")?;
    Ok(0)
}

/// Duplicates one of the helper's own streams for the command.
fn again(stream: BorrowedFd<'_>) -> rustix::io::Result<Stdio> {
    rustix::io::fcntl_dupfd_cloexec(stream, 3).map(Stdio::from)
}

/// Waits for the command and, as the first process must, reaps orphaned processes.
fn collect(command: Pid) -> std::io::Result<(Option<i32>, Option<i32>)> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == command => {
                return Ok((status.exit_status(), status.terminating_signal()));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
