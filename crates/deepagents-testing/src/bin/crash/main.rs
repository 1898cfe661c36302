//! Kills runs and checks that nothing was lost or done twice.
//!
//! ```text
//! crash --kills N [--scenario NAME]... [--seed SEED] [--postgres URL [--server FOLDER]]
//! crash --kills N [--scenario NAME]... [--seed SEED] --program PATH
//! ```
//!
//! A run of 40 turns with 5 tool calls each is killed at random points and resumed until the number of kills is
//! reached; when a run ends, another one starts. After every kill, the log must contain every acknowledged append, the
//! database must be intact, and no forbidden call may have run.
//!
//! With `--server`, which names a folder of `.ci/postgres.sh`, every fourth kill also kills the database server. At the
//! end, a run is frozen past its lease: if another owner has claimed the thread, the run must write nothing after it
//! wakes up.
//!
//! After that, runs of the scenarios are killed and resumed, with the same number of kills each: agents with parallel
//! sub-agents, nested ones, agents that change files, are compacted, or wait for a person. `--scenario` selects
//! scenarios and skips the first part. `--seed` runs one trial of each scenario, to reproduce a reported failure.
//!
//! With `--program`, the killed runs are those of `deepagents run`, with a scripted model server in this program.
//!
//! Exits with 1 and the reasons if a guarantee is broken.
#![allow(clippy::print_stdout, reason = "a program's output")]

mod agents;
mod database;
mod frozen;
mod trial;
mod watch;

use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use agents::{Attack, Order, Scenario, Tallies, Tally};
use database::Place;
use trial::Trial;

const USAGE: &str = "usage: crash --kills N [--scenario NAME]... [--seed SEED] \
                     [--program PATH | --postgres URL [--server FOLDER]]";

fn main() -> ExitCode {
    match crash() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If this fails, there is nowhere left to report to.
            let _ = writeln!(stderr(), "crash: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn crash() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut kills, mut url, mut server, mut seed, mut program) = (None, None, None, None, None);
    let mut scenarios = Vec::new();
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            // Started by this program itself: the runs to be killed.
            "run" => {
                let (place, thread, folder, lease) = (value()?, value()?, value()?, value()?);
                let lease = Duration::from_millis(lease.parse()?);
                return runtime.block_on(trial::run(&Place::parse(&place), &thread, folder.as_ref(), lease));
            }
            "act" => {
                let order: Order = serde_json::from_str(&value()?)?;
                println!("{}", serde_json::to_string(&runtime.block_on(order.execute())?)?);
                return Ok(());
            }
            "--kills" => kills = Some(value()?.parse::<u32>()?),
            "--postgres" => url = Some(value()?),
            "--server" => server = Some(value()?),
            "--program" => program = Some(PathBuf::from(value()?)),
            "--seed" => seed = Some(value()?.parse::<u64>()?),
            "--scenario" => {
                let name = value()?;
                let known = Scenario::ALL.map(Scenario::as_str).join(", ");
                scenarios
                    .push(Scenario::parse(&name).with_context(|| format!("no scenario `{name}`; there are {known}"))?);
            }
            "-h" | "--help" => {
                println!("{USAGE}");
                return Ok(());
            }
            other => bail!("there is no `{other}`; {USAGE}"),
        }
    }
    let kills = if seed.is_some() { kills.unwrap_or(0) } else { kills.context(USAGE)? };
    let folder = tempfile::tempdir()?;
    let place = match url {
        Some(url) => Place::Postgres { url, server: server.map(Into::into) },
        None => Place::Sqlite(folder.path().join("threads.db")),
    };
    runtime.block_on(async {
        let started = Instant::now();
        if let Some(program) = program {
            if scenarios.is_empty() {
                scenarios = Scenario::OF_PROGRAM.to_vec();
            }
            let attack = Attack { scenarios, kills, seed, report: |line| println!("{line}") };
            return sum_up(&attack.program(&program, folder.path()).await?, started);
        }
        if scenarios.is_empty() && seed.is_none() {
            kill_one_agent(&place, folder.path(), kills).await?;
        }
        if scenarios.is_empty() {
            scenarios = Scenario::ALL.to_vec();
        }
        let attack = Attack { scenarios, kills, seed, report: |line| println!("{line}") };
        sum_up(&attack.library(&place, folder.path()).await?, started)
    })
}

/// Kills long runs of one agent, and freezes one.
async fn kill_one_agent(place: &Place, folder: &Path, kills: u32) -> Result<()> {
    let started = Instant::now();
    let mut trial = Trial::new(place.clone(), folder.to_owned());
    trial.kill_often(kills).await?;
    frozen::check(place, folder).await?;
    let seen = trial.seen();
    println!(
        "{kills} kills, {} of the server, over {} runs in {:.1} s: {} appends acknowledged and none lost, {} calls \
         finished and none run again, {} calls in flight at a kill of which {} were made again; a frozen run \
         with a successor wrote nothing",
        seen.server_kills,
        seen.runs,
        started.elapsed().as_secs_f64(),
        seen.appends,
        seen.finished,
        seen.in_doubt,
        seen.repeated,
    );
    Ok(())
}

/// Prints the results. Returns an error if any trial failed.
fn sum_up(tallies: &Tallies, started: Instant) -> Result<()> {
    for (scenario, tally) in tallies {
        println!(
            "{:12} {:4} trials, {:5} kills, {} failures",
            scenario.as_str(),
            tally.trials,
            tally.kills,
            tally.failures
        );
    }
    let sum = |number: fn(&Tally) -> u32| tallies.values().map(number).sum::<u32>();
    let failures = sum(|tally| tally.failures);
    let failed = tallies.iter().filter(|(_, tally)| tally.failures > 0);
    let failed: Vec<String> =
        failed.map(|(scenario, tally)| format!("{} {}", scenario.as_str(), tally.failures)).collect();
    let by_scenario = if failed.is_empty() { String::new() } else { format!(" ({})", failed.join(", ")) };
    println!(
        "{} trials, {} kills, {failures} failures{by_scenario} in {:.1} s",
        sum(|tally| tally.trials),
        sum(|tally| tally.kills),
        started.elapsed().as_secs_f64()
    );
    ensure!(failures == 0, "promises were broken");
    Ok(())
}
