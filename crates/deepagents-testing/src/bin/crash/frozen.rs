//! A run that is frozen past its lease and then wakes up. It continues unless another owner has claimed its thread.

use std::io::Read as _;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use deepagents_core::journal::Claim;
use deepagents_persist::DatabaseError;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Map;

use super::database::Place;
use super::trial::spawn;

/// Long enough for a busy machine. After waking up, a run retries the renewal of its lease for a third of this.
const LEASE: Duration = Duration::from_millis(1_200);

/// Freezes one run whose thread nobody claims, and one whose thread another owner claims before it wakes up.
pub(crate) async fn check(place: &Place, folder: &Path) -> Result<()> {
    for taken in [false, true] {
        let mut tries = 0;
        while !freeze(place, folder, &format!("frozen-{}-{taken}-{tries}", std::process::id()), taken).await? {
            tries += 1;
            ensure!(tries < 20, "no run could be frozen under way and outside a commit");
        }
    }
    Ok(())
}

/// Freezes a run. Returns `false` if it was frozen in the middle of a commit, which blocks other owners, or if it ended
/// before it could be frozen.
async fn freeze(place: &Place, folder: &Path, thread: &str, taken: bool) -> Result<bool> {
    let mut child = spawn(place, thread, folder, LEASE)?;
    let journal = place.open().await?;
    while journal.load(thread, None).await?.end < 30 {
        if has_ended(&mut child)? {
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process id")?;
    kill_process(pid, Signal::STOP)?;
    tokio::time::sleep(LEASE * 2).await;
    if has_ended(&mut child)? {
        return Ok(false);
    }
    if let Err(error) = journal.threads().set_metadata("probe", Map::new()).await {
        kill_process(pid, Signal::KILL)?;
        child.wait()?;
        let locked = matches!(DatabaseError::of_journal(&error), Some(DatabaseError::Locked { .. }));
        return if locked { Ok(false) } else { Err(error.into()) };
    }
    let owner = if taken { Some(journal.claim(thread, Claim::new("another", LEASE * 100)).await?) } else { None };
    let end = journal.load(thread, None).await?.end;
    kill_process(pid, Signal::CONT)?;
    let status = child.wait()?;
    let now = journal.load(thread, None).await?.end;
    let Some(fence) = owner else {
        let mut said = String::new();
        if let Some(mut errors) = child.stderr.take() {
            errors.read_to_string(&mut said)?;
        }
        ensure!(status.success(), "a run that was frozen past its lease did not go on, though nobody had come: {said}");
        return Ok(true);
    };
    ensure!(!status.success(), "a run that was frozen past its lease ended as if nothing had been");
    ensure!(now == end, "a run that was frozen past its lease wrote {} records", now - end);
    journal.renew(thread, fence, LEASE).await.context("the new owner lost the thread")?;
    Ok(true)
}

/// Whether the run has ended. A failed run is an error.
fn has_ended(child: &mut Child) -> Result<bool> {
    let status = child.try_wait()?;
    ensure!(status.is_none_or(|status| status.success()), "a run that was to be frozen failed before that");
    Ok(status.is_some())
}
