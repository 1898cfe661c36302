//! Resource limits of the command.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};

use super::failure::{At, Failure};
use crate::sandbox::{Limits, Part};

const PROCESSES: &str = "process limit";
const PID_MAX: &str = "/proc/sys/kernel/pid_max";
/// Lowest process limit that the kernel accepts for a PID namespace.
const MIN_PID_MAX: u64 = 301;

/// Limits the number of processes, by whichever means the kernel offers.
pub(super) fn processes(limits: &Limits) -> Part {
    let wanted = limits.processes;
    let of_namespace = wanted.max(MIN_PID_MAX).to_string();
    let in_namespace = fs::write(PID_MAX, &of_namespace).is_ok()
        // Kernels before 6.14 have one value for all namespaces and refuse the write; read it back to be sure.
        && fs::read_to_string(PID_MAX).is_ok_and(|text| text.trim() == of_namespace);
    // Since 5.14, a user's limit counts per user namespace; before, it would count all of the user's processes.
    let by_user = kernel() >= (5, 14) && lower(Resource::Nproc, wanted).is_ok();
    // The kernel does not enforce it for root.
    if by_user && !getuid().is_root() {
        Part::on(PROCESSES, wanted.to_string())
    } else if in_namespace {
        Part::on(PROCESSES, of_namespace)
    } else {
        Part::off(PROCESSES, "this kernel cannot bound the processes of this user")
    }
}

/// Sets the limits of each process.
pub(super) fn each(limits: &Limits) -> Result<Part, Failure> {
    let bounds = [
        (Resource::Fsize, Some(limits.file_size)),
        (Resource::Nofile, Some(limits.open_files)),
        (Resource::As, limits.address_space),
        (Resource::Cpu, limits.cpu_seconds),
        // With less than two bytes, no core dump is written. Unlike 0, a limit of 1 also stops the kernel from piping a
        // core dump to the host's crash handler, which would process data prepared by a command as root.
        (Resource::Core, Some(1)),
    ];
    for (resource, bound) in bounds {
        if let Some(bound) = bound {
            lower(resource, bound).at("set resource limits")?;
        }
    }
    Ok(Part::on("limits of each process", ""))
}

/// Lowers a limit, or keeps it if it is already lower.
fn lower(resource: Resource, bound: u64) -> rustix::io::Result<()> {
    let bound = getrlimit(resource).maximum.map_or(bound, |maximum| maximum.min(bound));
    setrlimit(resource, Rlimit { current: Some(bound), maximum: Some(bound) })
}

/// Returns the kernel version.
fn kernel() -> (u32, u32) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
