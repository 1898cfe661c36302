//! What threads left whose deletion was cut off, by a kill for example.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use deepagents::core::journal::Journal;

use super::directory::blocking;
use super::{Artifacts, Place};
use crate::output;

/// How long after one removal the next one is due.
const INTERVAL: Duration = Duration::from_secs(24 * 3_600);
/// The file whose time is that of the last removal. No thread has a directory of this name.
const LAST: &str = ".last-cleanup";

/// Removes leftovers in the background, and reports an error.
pub(crate) fn remove_leftovers(artifacts: Option<Artifacts>, journal: Arc<dyn Journal>) {
    let Some(artifacts) = artifacts else { return };
    tokio::spawn(async move {
        if let Err(error) = artifacts.gc(&*journal).await {
            output::remark(&format!("what deleted threads left could not be removed: {error}"));
        }
    });
}

/// Removes leftovers in the background, unless that was done in the last day.
pub(crate) fn remove_leftovers_rarely(artifacts: Option<Artifacts>, journal: Arc<dyn Journal>) {
    let Some(artifacts) = artifacts else { return };
    // An error is not shown: the screens own the terminal, and leftovers only take space.
    tokio::spawn(async move { artifacts.remove_if_due(&*journal).await });
}

impl Artifacts {
    async fn remove_if_due(&self, journal: &dyn Journal) -> Result<()> {
        let Place::Directory(place) = &self.0 else { return Ok(()) };
        let asked = place.clone();
        if !blocking(move || is_due(&asked)).await? {
            return Ok(());
        }
        self.gc(journal).await?;
        let done = place.join(LAST);
        Ok(blocking(move || File::create(done)?.set_modified(SystemTime::now())).await?)
    }
}

fn is_due(place: &Path) -> io::Result<bool> {
    if !place.try_exists()? {
        return Ok(false);
    }
    match place.join(LAST).metadata() {
        // A time in the future is that of a clock which was wrong.
        Ok(about) => Ok(about.modified()?.elapsed().map_or(true, |age| age >= INTERVAL)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_due_a_day_after_the_last_one() {
        let place = tempfile::tempdir().unwrap();
        assert!(!is_due(&place.path().join("absent")).unwrap());
        assert!(is_due(place.path()).unwrap());
        let last = File::create(place.path().join(LAST)).unwrap();
        let now = SystemTime::now();
        for (time, due) in [(now, false), (now - INTERVAL, true), (now + INTERVAL, true)] {
            last.set_modified(time).unwrap();
            assert_eq!(is_due(place.path()).unwrap(), due, "{time:?}");
        }
    }
}
