//! The library as the subject: processes of this program are killed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use deepagents::fs::{ByteRange, VPath};
use deepagents_core::journal::RunStatus;
use deepagents_core::message::Messages;
use tokio::process::Command;

use super::log::Log;
use super::notes::{Note, Notes, read};
use super::plan::Plan;
use super::process::{Ended, Order};
use super::scenario::Scenario;
use super::trial::{Exit, HANG_TIMEOUT, Kill, Measured, Subject};
use crate::database::Place;

/// Runs of an agent of the library.
pub(crate) struct Library {
    place: Place,
    scenario: Scenario,
    order: Order,
}

impl Library {
    pub(crate) fn new(place: Place, folder: PathBuf, scenario: Scenario, size: usize, thread: String) -> Self {
        let (place_argument, scenario_name) = (place.argument(), scenario.as_str().to_owned());
        let order =
            Order { place: place_argument, folder, thread, scenario: scenario_name, size, last: None, decides: false };
        Self { place, scenario, order }
    }
}

impl Subject for Library {
    fn plan(&self) -> Plan {
        self.scenario.plan(self.order.size)
    }

    async fn process(&mut self, kill: Kill, decides: bool) -> Result<Exit> {
        let last = if let Kill::AtMoment(last) = kill { Some(last) } else { None };
        let order = Order { last, decides, ..self.order.clone() };
        let started = Instant::now();
        let mut child = Command::new(std::env::current_exe()?)
            .arg("act")
            .arg(serde_json::to_string(&order)?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("the run could not be started")?;
        let limit = if let Kill::After(time) = kill { time } else { HANG_TIMEOUT };
        let in_time = tokio::time::timeout(limit, child.wait()).await.is_ok();
        ensure!(in_time || matches!(kill, Kill::After(_)), "the run hangs");
        if !in_time {
            child.start_kill()?;
        }
        let output = child.wait_with_output().await?;
        match output.status.code() {
            Some(0) => {
                let ended: Ended = serde_json::from_slice(&output.stdout)?;
                let work = Duration::from_secs_f64(ended.work);
                let start = started.elapsed().saturating_sub(work);
                let measured = Measured { moments: ended.moments, start, work };
                Ok(if ended.waits { Exit::Waits } else { Exit::Ended(measured) })
            }
            Some(_) => bail!("the run failed: {}", String::from_utf8_lossy(&output.stderr).trim()),
            None => {
                Notes::open(&self.order.notes())?.add(&Note::Killed)?;
                Ok(Exit::Killed)
            }
        }
    }

    async fn evidence(&mut self) -> Result<(Log, Vec<Note>)> {
        let journal = self.place.open().await?;
        Ok((Log::read(&*journal, &self.order.thread).await?, read(&self.order.notes())?))
    }

    async fn end(&mut self) -> Result<(Messages, BTreeMap<String, String>)> {
        let parts = self.order.parts().await?;
        let thread = &self.order.thread;
        let status = parts.journal.threads().get(thread).await?.map(|info| info.status);
        ensure!(status == Some(RunStatus::Ended), "the thread is {status:?}");
        let state = parts.main()?.state(thread).await?;
        let mut files = BTreeMap::new();
        for path in parts.plan.paths() {
            let text = match parts.backend.read(&state, &VPath::parse(path)?, ByteRange::ALL).await {
                Ok(found) => String::from_utf8_lossy(&found.bytes).into_owned(),
                Err(error) => error.to_string(),
            };
            files.insert(path.to_owned(), text);
        }
        Ok((state.messages().clone(), files))
    }

    async fn forget(&mut self) -> Result<()> {
        self.place.open().await?.threads().delete(&self.order.thread).await?;
        self.place.check().await
    }
}
