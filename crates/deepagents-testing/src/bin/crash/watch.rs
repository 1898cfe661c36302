//! Records acknowledged appends in a file that survives the process.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use deepagents_core::journal::{Appended, JournalError};
use deepagents_testing::watched::Watch;

pub(crate) struct Acknowledged(pub(crate) File);

impl Watch for Acknowledged {
    fn appended(&self, appended: Appended, _: Duration) -> Result<(), JournalError> {
        // A line is written completely or not at all, even if the process is killed.
        (&self.0)
            .write_all(format!("{:020}\n", appended.end).as_bytes())
            .map_err(|error| JournalError::Storage(Box::new(error)))
    }
}
