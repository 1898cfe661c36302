//! The cost of a database: one append per step, snapshots as they fall due, and a cold load.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use deepagents_core::agent::Agent;
use deepagents_core::journal::{Appended, Journal, JournalError};
use deepagents_core::middleware::{HookOutput, JumpTo, after_model};
use deepagents_core::run::{Context, RunInput};
use deepagents_models::scripted::{ScriptedModel, Turn};
use deepagents_persist::{SqliteOptions, Synchronous};
use deepagents_testing::watched::{Watch, Watched};
use serde_json::{Map, Value, json};

use super::bars::Bars;
use super::{Bench, timed, usage};

/// Number of rounds. Figures are medians, because a single run is short and shared machines are noisy.
const ROUNDS: usize = 5;

/// The step count and size for which the limits of size and time hold.
const STEPS: usize = 1_000;
const BYTES: usize = 2_048;

impl Bench {
    /// Runs [`ROUNDS`] rounds on new databases with each setting of `synchronous`, and one run with twice the steps.
    /// The database of the first round stays at PATH; the others are removed.
    pub(super) async fn journal(&self) -> Result<Map<String, Value>> {
        let (steps, bytes): (usize, usize) = (self.arg(0)?, self.arg(1)?);
        let path: PathBuf = self.args.get(2).context("argument 3 is missing: where the database is")?.into();
        ensure!(self.args.len() == 3, "usage: bench journal N B PATH");
        let (started, cpu) = (Instant::now(), usage::cpu());
        let normal = rounds(&path, true, steps, bytes, Synchronous::Normal).await?;
        let mut out = timed(started.elapsed() / ROUNDS as u32, usage::cpu().saturating_sub(cpu) / ROUNDS as u32);
        let full = rounds(&path, false, steps, bytes, Synchronous::Full).await?;
        let double = Figures::measure(&temporary_path(&path)?, steps * 2, bytes, Synchronous::Normal).await?;
        remove(&temporary_path(&path)?)?;
        let growth = double.mb / normal.mb;
        let (first_fifth, last_fifth) = normal.fifths();
        for (name, value) in [
            ("mb", normal.mb),
            ("mb_of_twice_the_steps", double.mb),
            ("append_p50_ms", normal.p50),
            ("append_p99_ms", normal.p99),
            ("first_fifth_ms", first_fifth),
            ("last_fifth_ms", last_fifth),
            ("full_append_p50_ms", full.p50),
            ("full_append_p99_ms", full.p99),
            ("load_ms", normal.load),
        ] {
            out.insert(name.to_owned(), json!(value));
        }
        let mut bars = Bars::default();
        bars.at_most("bytes of twice the steps to bytes", Some(growth), 2.3);
        bars.ratio_at_most("last fifth of the steps to first", Some(last_fifth / first_fifth), 1.5);
        if (steps, bytes) == (STEPS, BYTES) {
            bars.at_most("mb with the WAL", Some(normal.mb), 12.0);
            bars.takes_at_most("append p50 in ms, NORMAL", Some(normal.p50), 0.15);
            bars.takes_at_most("append p50 in ms, FULL", Some(full.p50), 1.5);
            bars.takes_at_most("cold load in ms", Some(normal.load), 15.0);
        }
        out.insert("bars".to_owned(), bars.into_value());
        Ok(out)
    }
}

/// The figures of one run.
struct Figures {
    mb: f64,
    p50: f64,
    p99: f64,
    load: f64,
    /// The time of each step.
    times: Vec<Duration>,
}

impl Figures {
    /// Returns the mean time of the first and of the last fifth of the steps, in milliseconds.
    fn fifths(&self) -> (f64, f64) {
        let fifth = self.times.len() / 5;
        let mean = |part: Option<&[Duration]>| {
            let part = part.unwrap_or_default();
            milliseconds(part.iter().sum::<Duration>()) / part.len().max(1) as f64
        };
        (mean(self.times.get(..fifth)), mean(self.times.get(self.times.len() - fifth..)))
    }
}

/// Returns the medians of all rounds, and the least time of each step. With `keep`, the first database is kept.
async fn rounds(path: &Path, keep: bool, steps: usize, bytes: usize, synchronous: Synchronous) -> Result<Figures> {
    let mut all = Vec::new();
    for round in 0..ROUNDS {
        let at = if keep && round == 0 { path.to_owned() } else { temporary_path(path)? };
        all.push(Figures::measure(&at, steps, bytes, synchronous).await?);
        if at != path {
            remove(&at)?;
        }
    }
    let median = |figure: fn(&Figures) -> f64| {
        let mut sorted: Vec<f64> = all.iter().map(figure).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    };
    // A step that the machine delays in one round is hardly delayed in all, whereas snapshots fall on the same steps.
    let count = all.iter().map(|figures| figures.times.len()).min().unwrap_or_default();
    let times = (0..count).filter_map(|step| all.iter().filter_map(|figures| figures.times.get(step)).min().copied());
    Ok(Figures {
        mb: median(|f| f.mb),
        p50: median(|f| f.p50),
        p99: median(|f| f.p99),
        load: median(|f| f.load),
        times: times.collect(),
    })
}

impl Figures {
    /// Measures one run on a new database, and the load of its thread through another connection.
    async fn measure(path: &Path, steps: usize, bytes: usize, synchronous: Synchronous) -> Result<Self> {
        let open = || SqliteOptions { synchronous, ..SqliteOptions::default() }.open(path);
        let database = open().await?;
        ensure!(database.threads().get("t").await?.is_none(), "{} has been used before; name another", path.display());
        let timer = Arc::new(Watched::new(Arc::new(database.clone()), Times::default()));
        let outcome = agent(timer.clone(), steps, bytes)?.invoke(RunInput::new("go").thread("t")).await?;
        ensure!(outcome.messages().len() == steps + 1, "the run made {} messages", outcome.messages().len());
        let mb = size(path) as f64 / 1e6;
        let times = timer.watch.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        database.close().await;
        let before = Value::Object(outcome.state.to_json(true)?);
        let database = open().await?;
        let reader = agent(Arc::new(database.clone()), steps, bytes)?;
        let started = Instant::now();
        let state = reader.state("t").await?;
        let load = milliseconds(started.elapsed());
        // Its file is removed next.
        database.close().await;
        ensure!(Value::Object(state.to_json(true)?) == before, "the thread came back as another");
        let mut sorted = times.clone();
        sorted.sort_unstable();
        let at = |share: usize| milliseconds(sorted.get(sorted.len() * share / 100).copied().unwrap_or_default());
        Ok(Self { mb, p50: at(50), p99: at(99), load, times })
    }
}

/// Returns the path of a temporary database next to another.
fn temporary_path(path: &Path) -> Result<PathBuf> {
    let mut name = path.file_name().context("the database needs a name")?.to_owned();
    name.push(".round");
    Ok(path.with_file_name(name))
}

/// Removes the database of a round.
#[allow(clippy::disallowed_methods, reason = "a program's own database")]
fn remove(path: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        match std::fs::remove_file(format!("{}{suffix}", path.display())) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Builds an agent whose model answers with the given number of bytes, once per step.
fn agent(journal: Arc<dyn Journal>, steps: usize, bytes: usize) -> Result<Agent> {
    let model = ScriptedModel::rules().always(Turn::with(move |_| Turn::text(random_text(bytes)))).build();
    let again = after_model(move |cx: Context| async move {
        Ok(if cx.messages().len() <= steps { HookOutput::go(JumpTo::Model) } else { HookOutput::next() })
    });
    Ok(Agent::builder(model).middleware(again).journal(journal).build()?)
}

/// Returns random text, so that nothing in it repeats.
fn random_text(bytes: usize) -> String {
    std::iter::repeat_with(fastrand::alphanumeric).take(bytes).collect()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Returns the size of the database and its WAL in bytes.
pub(super) fn size(path: &Path) -> u64 {
    let of = |suffix: &str| std::fs::metadata(format!("{}{suffix}", path.display())).map_or(0, |file| file.len());
    of("") + of("-wal")
}

/// The time of each append, including the snapshots that followed it.
#[derive(Default)]
struct Times(Mutex<Vec<Duration>>);

impl Watch for Times {
    fn appended(&self, _: Appended, took: Duration) -> Result<(), JournalError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(took);
        Ok(())
    }

    fn snapshot_put(&self, took: Duration) {
        // A snapshot is part of the cost of its step.
        if let Some(step) = self.0.lock().unwrap_or_else(PoisonError::into_inner).last_mut() {
            *step += took;
        }
    }
}
