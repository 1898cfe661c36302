//! Kills runs and looks whether anything was lost or done twice.
//!
//! ```text
//! crash --kills N [--postgres URL [--server FOLDER]]
//! ```
//!
//! A run of 40 turns with 5 tools each is killed at random moments and resumed, until it was killed so often; runs that
//! end are followed by others. After every kill the log must hold every append that was acknowledged, the database must
//! be sound, and no call may have run that must not have. With `--server`, which names a folder of `.ci/postgres.sh`,
//! the server is killed too, at every fourth kill. At the end a run is frozen past its lease: when it wakes up it must
//! write nothing.
//!
//! Exits with 1 and the reason when a promise is broken.
#![allow(clippy::print_stdout, reason = "a program's output")]

mod database;
mod frozen;
mod trial;
mod watch;

use std::io::{Write, stderr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use database::Place;
use trial::Trial;

const USAGE: &str = "usage: crash --kills N [--postgres URL [--server FOLDER]]";

fn main() -> ExitCode {
    match crash() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to report to when even this fails.
            let _ = writeln!(stderr(), "crash: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn crash() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (mut kills, mut url, mut server) = (None, None, None);
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            // What this program starts itself: the run that is killed.
            "run" => {
                let (place, thread, folder, lease) = (value()?, value()?, value()?, value()?);
                let lease = Duration::from_millis(lease.parse()?);
                return runtime.block_on(trial::run(&Place::parse(&place), &thread, folder.as_ref(), lease));
            }
            "--kills" => kills = Some(value()?.parse::<u32>()?),
            "--postgres" => url = Some(value()?),
            "--server" => server = Some(value()?),
            "-h" | "--help" => {
                println!("{USAGE}");
                return Ok(());
            }
            other => bail!("there is no `{other}`; {USAGE}"),
        }
    }
    let kills = kills.context(USAGE)?;
    let folder = tempfile::tempdir()?;
    let place = match url {
        Some(url) => Place::Postgres { url, server: server.map(Into::into) },
        None => Place::Sqlite(folder.path().join("threads.db")),
    };
    let started = Instant::now();
    runtime.block_on(async {
        let mut trial = Trial::new(place.clone(), folder.path().to_owned());
        trial.kill_often(kills).await?;
        frozen::check(&place, folder.path()).await?;
        let seen = trial.seen();
        println!(
            "{kills} kills, {} of the server, over {} runs in {:.1} s: {} appends acknowledged and none lost, {} calls \
             finished and none run again, {} calls in flight at a kill of which {} were made again; a frozen run with \
             a successor wrote nothing",
            seen.server_kills,
            seen.runs,
            started.elapsed().as_secs_f64(),
            seen.appends,
            seen.finished,
            seen.in_doubt,
            seen.repeated,
        );
        Ok(())
    })
}
