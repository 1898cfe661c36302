//! Simulates whole worlds, each determined by a seed.
//!
//! In a world, processes run agents that delegate, raise interrupts, are compacted, steered, cancelled and suspended.
//! The storage fails, hangs and loses responses; processes crash, freeze and take over from each other; clocks jump,
//! and subscribers are slow or dead. Between runs, the thread is rewound, pruned, or continued as a copy. Another
//! process follows it without running it.
//!
//! After every run, the invariants of ARCHITECTURE.md must hold. Time is simulated and advances whenever all tasks
//! wait.
//!
//! ```text
//! simulate --seconds N [--seed S]
//! simulate --seed S [--trace]
//! ```
//!
//! Simulates seeds for N seconds, starting from S or from a random seed. A single given seed is simulated once;
//! `--trace` prints everything that happens. A seed whose invariants break is printed with what broke, and breaks again
//! when it is given.
//!
//! Exits with 1 if an invariant broke. The last line is `N seeds, M faults injected, K broken`.
#![allow(clippy::print_stdout, reason = "a program's output")]

mod attempt;
mod branches;
mod cast;
mod changes;
mod clock;
mod invariants;
mod journal;
mod process;
mod scenario;
mod script;
mod trial;
mod watching;
mod world;

use std::io::{Write, stderr};
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use trial::Trial;
use world::World;

const USAGE: &str = "usage: simulate --seconds N [--seed S] | --seed S [--trace]";

fn main() -> ExitCode {
    match simulate() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If this fails, there is nowhere left to report to.
            let _ = writeln!(stderr(), "simulate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The results of all seeds.
#[derive(Default)]
struct Tally {
    seeds: AtomicU64,
    faults: AtomicU64,
    broken: AtomicU64,
}

/// Runs the simulation. Returns whether nothing broke.
fn simulate() -> Result<bool> {
    let mut args = std::env::args().skip(1);
    let (mut seconds, mut seed, mut traces) = (None, None, false);
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--seconds" => seconds = Some(value()?.parse::<u64>()?),
            "--seed" => seed = Some(value()?.parse::<u64>()?),
            "--trace" => traces = true,
            "-h" | "--help" => {
                println!("{USAGE}");
                return Ok(true);
            }
            other => bail!("there is no `{other}`; {USAGE}"),
        }
    }
    let tally = Tally::default();
    match (seconds, seed) {
        (None, None) => bail!(USAGE),
        (None, Some(seed)) => count(&tally, seed, traces),
        (Some(seconds), seed) => {
            let first = seed.unwrap_or_else(|| fastrand::u64(..u64::MAX / 2));
            let (next, until) = (AtomicU64::new(first), Instant::now() + Duration::from_secs(seconds));
            let workers = std::thread::available_parallelism().map_or(1, usize::from);
            std::thread::scope(|scope| {
                for _ in 0..workers {
                    scope.spawn(|| {
                        while Instant::now() < until {
                            count(&tally, next.fetch_add(1, Ordering::Relaxed), false);
                        }
                    });
                }
            });
        }
    }
    let [seeds, faults, broken] = [&tally.seeds, &tally.faults, &tally.broken].map(|n| n.load(Ordering::Relaxed));
    println!("{seeds} seeds, {faults} faults injected, {broken} broken");
    Ok(broken == 0)
}

/// Simulates a seed and prints what broke.
fn count(tally: &Tally, seed: u64, traces: bool) {
    let simulated = std::panic::catch_unwind(AssertUnwindSafe(|| one(seed, traces)));
    let (faults, broken) = match simulated {
        Ok(Ok(seen)) => (seen.faults, seen.broken),
        Ok(Err(error)) => (0, vec![format!("the simulation failed: {error:#}")]),
        Err(_) => (0, vec!["the simulation panicked".to_owned()]),
    };
    tally.seeds.fetch_add(1, Ordering::Relaxed);
    tally.faults.fetch_add(faults, Ordering::Relaxed);
    if !broken.is_empty() {
        tally.broken.fetch_add(1, Ordering::Relaxed);
        println!("broken: --seed {seed}: {}", broken.join("; "));
    }
}

/// The result of a seed.
struct SeedResult {
    faults: u64,
    broken: Vec<String>,
}

fn one(seed: u64, traces: bool) -> Result<SeedResult> {
    // Seeds the library's own randomness, such as that of its retry pauses.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let world = runtime.block_on(async {
        let world = World::new(seed, traces);
        Trial::new(world.clone()).run().await?;
        anyhow::Ok(world)
    })?;
    let known = world.lock();
    if traces {
        println!("{:#?}", world.scenario);
        println!("digest {:016x}", known.digest());
    }
    Ok(SeedResult { faults: known.faults, broken: known.broken.clone() })
}
