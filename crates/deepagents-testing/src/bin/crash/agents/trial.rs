//! One trial: a run that is killed and resumed until it ends.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use deepagents_core::message::Messages;
use fastrand::Rng;

use super::check::{LoggedState, check_end};
use super::log::Log;
use super::notes::Note;
use super::plan::Plan;

/// Minimum and maximum number of kills in a trial.
const KILLS: RangeInclusive<u32> = 3..=8;
/// Longer than any process needs.
pub(crate) const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// The subject of a trial: processes that work on one thread.
pub(crate) trait Subject {
    /// Returns what its agents do.
    fn plan(&self) -> Plan;

    /// Starts a process and kills it or waits for its end. `decides` says whether pending interrupts are decided.
    async fn process(&mut self, kill: Kill, decides: bool) -> Result<Exit>;

    /// Returns what the processes have left so far.
    async fn evidence(&mut self) -> Result<(Log, Vec<Note>)>;

    /// Returns the main agent's conversation and the files, once the run has ended.
    async fn end(&mut self) -> Result<(Messages, BTreeMap<String, String>)>;

    /// Removes everything, so that later trials do not become slower.
    async fn forget(&mut self) -> Result<()>;
}

/// When a process is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kill {
    /// The process kills itself at a point.
    AtMoment(u64),
    /// The process is killed from outside.
    After(Duration),
    Never,
}

/// How a process ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exit {
    Killed,
    /// The run waits for decisions.
    Waits,
    Ended(Measured),
}

/// Measurements of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    /// Number of points at which it could kill itself, or 0 if it cannot.
    pub(crate) moments: u64,
    /// Time from the start of the process to the start of its work.
    pub(crate) start: Duration,
    pub(crate) work: Duration,
}

/// A run without kills.
#[derive(Clone, Debug)]
pub(crate) struct Undisturbed {
    measured: Measured,
    files: BTreeMap<String, String>,
}

/// One trial.
pub(crate) struct Trial<S> {
    pub(crate) subject: S,
    rng: Rng,
    known: LoggedState,
    pub(crate) kills: u32,
}

/// Measures a run without kills.
pub(crate) async fn measure(mut subject: impl Subject) -> Result<Undisturbed> {
    let Exit::Ended(measured) = subject.process(Kill::Never, true).await? else { bail!("it did not finish") };
    let files = subject.end().await?.1;
    subject.forget().await?;
    Ok(Undisturbed { measured, files })
}

impl<S: Subject> Trial<S> {
    pub(crate) fn new(subject: S, rng: Rng) -> Self {
        Self { subject, rng, known: LoggedState::default(), kills: 0 }
    }

    /// Kills and resumes until the run ends, and checks the result.
    pub(crate) async fn run(&mut self, undisturbed: &Undisturbed) -> Result<()> {
        let planned = self.rng.u32(KILLS);
        let mut waits = false;
        loop {
            let kill = if self.kills < planned { self.draw(planned, &undisturbed.measured) } else { Kill::Never };
            let decides = waits || self.rng.bool();
            waits = match self.subject.process(kill, decides).await? {
                Exit::Killed => {
                    self.kills += 1;
                    self.check().await.with_context(|| format!("after kill {}", self.kills))?;
                    false
                }
                Exit::Waits => {
                    ensure!(!decides, "the run waits for what was decided");
                    self.check().await.context("while it waits")?;
                    true
                }
                Exit::Ended(_) => break,
            };
        }
        self.check().await?;
        let (messages, files) = self.subject.end().await?;
        let (log, notes) = self.subject.evidence().await?;
        check_end(&self.subject.plan(), &log, &notes, &messages)?;
        for (path, text) in &undisturbed.files {
            let found = files.get(path);
            ensure!(found == Some(text), "{path} should hold {text:?} and holds {found:?}");
        }
        Ok(())
    }

    /// Chooses a kill. If possible, half of the kills are at reproducible points; the others are at random times.
    fn draw(&mut self, planned: u32, Measured { moments, start, work }: &Measured) -> Kill {
        // The intervals are chosen such that, on average, some work is left for the last process.
        if *moments > 0 && self.rng.bool() {
            return Kill::AtMoment(self.rng.u64(0..=moments * 3 / 2 / u64::from(planned)));
        }
        let work = *work * 3 / 2 / planned;
        Kill::After(start.mul_f64(0.5 + self.rng.f64() / 2.0) + work.mul_f64(self.rng.f64()))
    }

    async fn check(&mut self) -> Result<()> {
        let (log, notes) = self.subject.evidence().await?;
        self.known.check(&self.subject.plan(), &log, &notes)
    }
}
