//! Runs of deep agents with sub-agents, killed at random points and resumed. Finished work at any depth is neither
//! repeated nor lost, and no agent starts over.

mod cast;
mod check;
mod library;
mod log;
mod moments;
mod notes;
mod plan;
mod process;
mod program;
mod scenario;
mod script;
mod server;
mod threads;
mod trial;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use fastrand::Rng;

use crate::database::Place;
use library::Library;
pub(crate) use process::Order;
use program::Program;
pub(crate) use scenario::Scenario;
use trial::{Subject, Trial, Undisturbed, measure};

/// Number of trials in parallel.
const CONCURRENT_TRIALS: usize = 2;

/// What to try.
pub(crate) struct Attack {
    pub(crate) scenarios: Vec<Scenario>,
    /// Minimum number of kills per scenario.
    pub(crate) kills: u32,
    /// Seed of a single trial per scenario.
    pub(crate) seed: Option<u64>,
    /// Called for each failure.
    pub(crate) report: fn(&str),
}

/// The results of a scenario's trials.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) trials: u32,
    pub(crate) kills: u32,
    pub(crate) failures: u32,
}

pub(crate) type Tallies = BTreeMap<Scenario, Tally>;

/// State shared by the trials.
#[derive(Default)]
struct Board {
    tallies: Mutex<Tallies>,
    undisturbed: Mutex<BTreeMap<(Scenario, usize), Undisturbed>>,
}

/// The parameters of a trial.
struct Draw {
    worker: usize,
    scenario: Scenario,
    size: usize,
    name: String,
}

impl Attack {
    /// Kills agents of the library.
    pub(crate) async fn library(&self, place: &Place, folder: &Path) -> Result<Tallies> {
        let folder = folder.join("agents");
        std::fs::create_dir_all(&folder)?;
        self.run(|Draw { worker, scenario, size, name }| {
            // Two processes on one database would block each other.
            Ok(Library::new(place.of_worker(worker), folder.clone(), scenario, size, name))
        })
        .await
    }

    /// Kills the program.
    pub(crate) async fn program(&self, program: &Path, folder: &Path) -> Result<Tallies> {
        let program = program.canonicalize().with_context(|| format!("{} cannot be run", program.display()))?;
        self.run(|Draw { scenario, size, name, .. }| Program::new(&program, &folder.join(name), scenario, size)).await
    }

    /// Runs trials, reports each failure, and returns the results by scenario.
    async fn run<S: Subject>(&self, subject: impl Fn(Draw) -> Result<S>) -> Result<Tallies> {
        let tallies = self.scenarios.iter().map(|scenario| (*scenario, Tally::default())).collect();
        let board = Board { tallies: Mutex::new(tallies), ..Board::default() };
        futures_util::future::try_join_all((0..CONCURRENT_TRIALS).map(|worker| self.work(&board, worker, &subject)))
            .await?;
        Ok(board.tallies.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    async fn work<S: Subject>(&self, board: &Board, worker: usize, subject: impl Fn(Draw) -> Result<S>) -> Result<()> {
        while let Some(scenario) = self.next(board) {
            let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
            let mut rng = Rng::with_seed(seed);
            let (size, name) = (rng.usize(0..Scenario::SIZES), scenario.as_str());
            let subject = |kind: &str| {
                // The name contains nothing that a script could mistake for the tag of a call.
                let name = format!("{name}_{}_{worker}_{seed}{kind}", std::process::id());
                subject(Draw { worker, scenario, size, name })
            };
            let known = lock(&board.undisturbed).get(&(scenario, size)).cloned();
            let undisturbed = match known {
                Some(known) => known,
                None => {
                    let measured = measure(subject("_undisturbed")?).await;
                    let measured = measured.with_context(|| format!("{name} without kills"))?;
                    lock(&board.undisturbed).entry((scenario, size)).or_insert(measured).clone()
                }
            };
            let mut trial = Trial::new(subject("")?, rng);
            let outcome = trial.run(&undisturbed).await;
            trial.subject.forget().await?;
            if let Err(error) = &outcome {
                (self.report)(&format!("failed: --scenario {name} --seed {seed}: {error:#}"));
            }
            let mut tallies = lock(&board.tallies);
            let tally = tallies.entry(scenario).or_default();
            tally.kills += trial.kills;
            tally.failures += u32::from(outcome.is_err());
        }
        Ok(())
    }

    /// Returns the scenario with the fewest trials, or `None` if all have had enough.
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
