//! Resource usage of this process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of all threads, user and system.
pub(crate) fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the peak memory in MB.
pub(crate) fn peak_mb() -> f64 {
    status_bytes("VmHWM:") as f64 / 1e6
}

/// Returns the current resident memory in bytes.
pub(crate) fn resident_bytes() -> u64 {
    status_bytes("VmRSS:")
}

fn status_bytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
