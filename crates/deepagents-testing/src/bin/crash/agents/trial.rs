//! One trial: a run that is killed and resumed until it ends.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use deepagents::fs::{ByteRange, VPath};
use deepagents_core::journal::{Journal, RunStatus};
use fastrand::Rng;
use tokio::process::Command;

use super::cast::Parts;
use super::check::Known;
use super::log::Log;
use super::notes::{Note, Notes, read};
use super::process::{Ended, Order};
use super::scenario::Scenario;
use crate::database::Place;

/// More than a process needs in any circumstances.
const HANGS: Duration = Duration::from_secs(60);
/// Kills of one trial, at least and at most.
const KILLS: RangeInclusive<u32> = 3..=8;

/// What a run without kills is like.
#[derive(Clone, Debug)]
pub(crate) struct Undisturbed {
    moments: u64,
    /// From the start of the process to that of the work.
    start: Duration,
    work: Duration,
    files: BTreeMap<String, String>,
}

/// One trial.
pub(crate) struct Trial {
    place: Place,
    order: Order,
    scenario: Scenario,
    rng: Rng,
    known: Known,
    pub(crate) kills: u32,
}

/// What became of a process.
enum Exit {
    Killed,
    Ended(Ended),
}

/// When a process is killed.
enum Kill {
    /// By itself.
    AtMoment(u64),
    /// From outside.
    After(Duration),
    Never,
}

impl Trial {
    /// A trial that its seed makes; another for each thread.
    pub(crate) fn new(place: &Place, folder: PathBuf, scenario: Scenario, seed: u64, thread: String) -> Self {
        let mut rng = Rng::with_seed(seed);
        let order = Order {
            place: place.argument(),
            folder,
            thread,
            scenario: scenario.as_str().to_owned(),
            size: rng.usize(0..Scenario::SIZES),
            last: None,
            decides: rng.bool(),
        };
        Self { place: place.clone(), order, scenario, rng, known: Known::default(), kills: 0 }
    }

    pub(crate) fn size(&self) -> usize {
        self.order.size
    }

    /// Runs to the end without a kill.
    pub(crate) async fn measure(mut self) -> Result<Undisturbed> {
        self.order.decides = true;
        let started = Instant::now();
        let Exit::Ended(ended) = self.process(&Kill::Never).await? else { bail!("nobody killed it") };
        let whole = started.elapsed();
        let work = Duration::from_secs_f64(ended.work);
        let files = self.files().await?;
        Ok(Undisturbed { moments: ended.moments, start: whole.saturating_sub(work), work, files })
    }

    /// Kills and resumes until the run ends.
    pub(crate) async fn run(&mut self, undisturbed: &Undisturbed) -> Result<()> {
        let planned = self.rng.u32(KILLS);
        loop {
            let kill = if self.kills < planned { self.draw(planned, undisturbed) } else { Kill::Never };
            match self.process(&kill).await? {
                Exit::Killed => {
                    self.kills += 1;
                    Notes::open(&self.order.notes())?.add(&Note::Killed)?;
                    self.check(true).await.with_context(|| format!("after kill {}", self.kills))?;
                }
                Exit::Ended(Ended { waits: true, .. }) => {
                    ensure!(!self.order.decides, "the run waits for what was decided");
                    self.check(false).await.context("while it waits")?;
                    self.order.decides = true;
                }
                Exit::Ended(_) => break,
            }
        }
        self.end().await?;
        let files = self.files().await?;
        for (path, text) in &undisturbed.files {
            let found = files.get(path);
            ensure!(found == Some(text), "{path} should hold {text:?} and holds {found:?}");
        }
        Ok(())
    }

    /// Half of the kills are at moments that can be found again, half of them just happen.
    fn draw(&mut self, planned: u32, undisturbed: &Undisturbed) -> Kill {
        // On the average, processes that are killed come as far as to leave something to the last one.
        if self.rng.bool() {
            return Kill::AtMoment(self.rng.u64(0..=undisturbed.moments * 3 / 2 / u64::from(planned)));
        }
        let (start, work) = (undisturbed.start, undisturbed.work * 3 / 2 / planned);
        Kill::After(start.mul_f64(0.5 + self.rng.f64() / 2.0) + work.mul_f64(self.rng.f64()))
    }

    async fn process(&mut self, kill: &Kill) -> Result<Exit> {
        self.order.last = if let Kill::AtMoment(last) = kill { Some(*last) } else { None };
        let mut child = Command::new(std::env::current_exe()?)
            .arg("act")
            .arg(serde_json::to_string(&self.order)?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("the run could not be started")?;
        let limit = if let Kill::After(time) = kill { *time } else { HANGS };
        let in_time = tokio::time::timeout(limit, child.wait()).await.is_ok();
        ensure!(in_time || matches!(kill, Kill::After(_)), "the run hangs");
        if !in_time {
            child.start_kill()?;
        }
        let output = child.wait_with_output().await?;
        match output.status.code() {
            Some(0) => Ok(Exit::Ended(serde_json::from_slice(&output.stdout)?)),
            Some(_) => bail!("the run failed: {}", String::from_utf8_lossy(&output.stderr).trim()),
            None => Ok(Exit::Killed),
        }
    }

    async fn check(&mut self, killed: bool) -> Result<()> {
        let journal = self.place.open().await?;
        let log = Log::read(&*journal, &self.order.thread).await?;
        let plan = self.scenario.plan(self.order.size);
        self.known.check(&plan, &log, &read(&self.order.notes())?, killed)
    }

    /// Looks at the whole of a run that has ended.
    async fn end(&mut self) -> Result<()> {
        self.check(false).await?;
        let parts = self.parts().await?;
        let thread = &self.order.thread;
        let status = parts.journal.threads().get(thread).await?.map(|info| info.status);
        ensure!(status == Some(RunStatus::Ended), "the thread is {status:?}");
        let state = parts.main()?.state(thread).await?;
        let log = Log::read(&*parts.journal, thread).await?;
        self.known.check_end(&parts.plan, &log, &read(&self.order.notes())?, state.messages())
    }

    async fn parts(&self) -> Result<Parts> {
        Order { last: None, ..self.order.clone() }.parts().await
    }

    /// The files that agents write.
    async fn files(&self) -> Result<BTreeMap<String, String>> {
        let parts = self.parts().await?;
        let state = parts.main()?.state(&self.order.thread).await?;
        let mut files = BTreeMap::new();
        for path in parts.plan.paths() {
            let text = match parts.backend.read(&state, &VPath::parse(path)?, ByteRange::ALL).await {
                Ok(found) => String::from_utf8_lossy(&found.bytes).into_owned(),
                Err(error) => error.to_string(),
            };
            files.insert(path.to_owned(), text);
        }
        Ok(files)
    }

    /// Leaves nothing behind, so that the thousandth trial is as quick as the first.
    pub(crate) async fn forget(&self) -> Result<()> {
        let journal: Arc<dyn Journal> = self.place.open().await?;
        journal.threads().delete(&self.order.thread).await?;
        self.place.check().await
    }
}
