//! Runs of deep agents with sub-agents, killed at random moments and resumed: what had finished at any depth is not made
//! again and not lost, and no agent begins from the start.

mod cast;
mod check;
mod log;
mod moments;
mod notes;
mod plan;
mod process;
mod scenario;
mod script;
mod trial;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use crate::database::Place;
pub(crate) use process::Order;
pub(crate) use scenario::Scenario;
use trial::{Trial, Undisturbed};

/// Processes that are killed at the same time.
const AT_ONCE: usize = 2;

/// What is to be tried.
pub(crate) struct Attack {
    pub(crate) scenarios: Vec<Scenario>,
    /// Kills of each scenario, at least.
    pub(crate) kills: u32,
    /// One trial of each scenario, with this seed.
    pub(crate) seed: Option<u64>,
}

/// What came of the trials of a scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) trials: u32,
    pub(crate) kills: u32,
    pub(crate) failures: u32,
}

/// What the trials share.
struct Board {
    tallies: Mutex<BTreeMap<Scenario, Tally>>,
    undisturbed: Mutex<BTreeMap<(Scenario, usize), Undisturbed>>,
    report: fn(&str),
}

impl Attack {
    /// Tries, tells of each failure, and gives what came of it by scenario.
    pub(crate) async fn run(
        &self,
        place: &Place,
        folder: &Path,
        report: fn(&str),
    ) -> Result<BTreeMap<Scenario, Tally>> {
        let tallies = self.scenarios.iter().map(|scenario| (*scenario, Tally::default())).collect();
        let board = Board { tallies: Mutex::new(tallies), undisturbed: Mutex::default(), report };
        let workers = (0..AT_ONCE).map(|worker| {
            // Two processes on one database would wait for each other.
            let (place, folder) = (place.of_worker(worker), folder.join(worker.to_string()));
            self.work(&board, place, folder, worker)
        });
        futures_util::future::try_join_all(workers).await?;
        Ok(board.tallies.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    async fn work(&self, board: &Board, place: Place, folder: PathBuf, worker: usize) -> Result<()> {
        std::fs::create_dir_all(&folder)?;
        loop {
            let Some(scenario) = self.next(board) else { return Ok(()) };
            let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
            let thread = format!("{}-{}-{worker}-{seed}", scenario.as_str(), std::process::id());
            let new = |thread: String| Trial::new(&place, folder.clone(), scenario, seed, thread);
            let mut trial = new(thread.clone());
            let known = lock(&board.undisturbed).get(&(scenario, trial.size())).cloned();
            let undisturbed = match known {
                Some(known) => known,
                None => {
                    let measured = new(format!("{thread}-undisturbed")).measure().await;
                    let measured = measured.with_context(|| format!("{} without kills", scenario.as_str()))?;
                    lock(&board.undisturbed).entry((scenario, trial.size())).or_insert(measured).clone()
                }
            };
            let outcome = trial.run(&undisturbed).await;
            trial.forget().await?;
            if let Err(error) = &outcome {
                let name = scenario.as_str();
                (board.report)(&format!("failed: --scenario {name} --seed {seed}: {error:#}"));
            }
            let mut tallies = lock(&board.tallies);
            let tally = tallies.entry(scenario).or_default();
            tally.kills += trial.kills;
            tally.failures += u32::from(outcome.is_err());
        }
    }

    /// The scenario that was tried least, unless all were tried enough.
    fn next(&self, board: &Board) -> Option<Scenario> {
        let mut tallies = lock(&board.tallies);
        let enough = |tally: &Tally| match self.seed {
            Some(_) => tally.trials > 0,
            None => tally.kills >= self.kills,
        };
        let open = tallies.iter_mut().filter(|(_, tally)| !enough(tally));
        let (scenario, tally) = open.min_by_key(|(_, tally)| tally.trials)?;
        tally.trials += 1;
        Some(*scenario)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
