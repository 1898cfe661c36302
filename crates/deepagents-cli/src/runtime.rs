//! The threads that asynchronous work runs on.

use anyhow::{Result, anyhow};
use tokio::runtime::{Builder, Runtime};

/// Two of them: the program waits far more than it works.
pub(crate) fn start() -> Result<Runtime> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| anyhow!("the program could not start its threads: {error}"))
}
