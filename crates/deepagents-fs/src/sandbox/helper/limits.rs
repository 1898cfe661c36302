//! Bounds on what the command may use.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};

use super::failure::{At, Failure};
use crate::sandbox::{Limits, Part};

const PROCESSES: &str = "process limit";
const PID_MAX: &str = "/proc/sys/kernel/pid_max";
/// The kernel takes no lower number of processes for a process namespace.
const LEAST_PID_MAX: u64 = 301;

/// Bounds the number of processes, by what the kernel offers.
pub(super) fn processes(limits: &Limits) -> Part {
    let wanted = limits.processes;
    let in_namespace = fs::write(PID_MAX, wanted.max(LEAST_PID_MAX).to_string()).is_ok()
        // Kernels before 6.14 have one number for all namespaces and refuse the write; it is read back all the same.
        && fs::read_to_string(PID_MAX).is_ok_and(|text| text.trim() == wanted.max(LEAST_PID_MAX).to_string());
    // The limit of a user counts within its user namespace since 5.14; before that it would count all the user runs.
    let by_user = kernel() >= (5, 14) && lower(Resource::Nproc, wanted).is_ok();
    // The kernel does not hold root to it.
    if by_user && !getuid().is_root() {
        Part::on(PROCESSES, format!("{wanted}"))
    } else if in_namespace {
        Part::on(PROCESSES, format!("{}", wanted.max(LEAST_PID_MAX)))
    } else {
        Part::off(PROCESSES, "this kernel cannot bound the processes of this user")
    }
}

/// Bounds each process.
pub(super) fn each(limits: &Limits) -> Result<Part, Failure> {
    let bounds = [
        (Resource::Fsize, Some(limits.file_size)),
        (Resource::Nofile, Some(limits.open_files)),
        (Resource::As, limits.address_space),
        (Resource::Cpu, limits.cpu_seconds),
        // None is written with less than two bytes. And 1, unlike 0, keeps the kernel from piping one to the host's program
        // for crashes, which would read as root what a command has prepared.
        (Resource::Core, Some(1)),
    ];
    for (resource, bound) in bounds {
        if let Some(bound) = bound {
            lower(resource, bound).at("set resource limits")?;
        }
    }
    Ok(Part::on("limits of each process", ""))
}

/// Sets a limit, or leaves a lower one.
fn lower(resource: Resource, bound: u64) -> rustix::io::Result<()> {
    let bound = getrlimit(resource).maximum.map_or(bound, |maximum| maximum.min(bound));
    setrlimit(resource, Rlimit { current: Some(bound), maximum: Some(bound) })
}

/// The kernel's version.
fn kernel() -> (u32, u32) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
