//! Feeds damaged input to code that reads untrusted input, and checks that its guarantees hold.
//!
//! ```text
//! fuzz [--seconds N] [--seed SEED] [TARGET]...
//! fuzz --list
//! ```
//!
//! Each target runs for N seconds, 10 by default: `paths`, `patterns`, `rules`, `edits`, `commands`, `proxy`,
//! `anthropic`, `openai`, `journal`; `requests`, `heads`, `tokens`, `keys` of the server; `remote` and `a2a` of other
//! servers.
//!
//! An input is a mutated sample of the target: bytes are replaced, or parts are repeated, removed, or taken from
//! another sample. A target fails on a panic, a broken guarantee, or an input that takes more than two seconds of CPU
//! time. The program prints the input, continues with the next target, and exits with 1 at the end. `--seed` with the
//! printed seed reproduces the inputs.
//!
//! It needs no special compiler and no instrumentation, so it finds only what a few million inputs find. For a run of
//! an hour, use `fuzz --seconds 240`.
#![allow(clippy::print_stdout, reason = "a program's output")]

mod mutate;
mod served;
mod targets;

use std::io::{Write, stderr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use mutate::Mutator;
use targets::{TARGETS, Target};

const USAGE: &str = "usage: fuzz [--seconds N] [--seed SEED] [TARGET]..., or fuzz --list";

/// Maximum CPU time per input. Inputs that take minutes are among the bugs to be found.
const MAX_CPU_TIME: Duration = Duration::from_secs(2);

/// Maximum wall-clock time per input, for a machine with other load.
const MAX_WALL_TIME: Duration = Duration::from_secs(60);

/// Returns the CPU time of this process.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

struct Arguments {
    /// Only list the names of the targets.
    lists: bool,
    seconds: u64,
    seed: u64,
    targets: Vec<&'static Target>,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If this fails, there is nowhere left to report to.
            let _ = writeln!(stderr(), "fuzz: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> Result<Arguments> {
    let mut out = Arguments { lists: false, seconds: 10, seed: fastrand::u64(..), targets: Vec::new() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = |name: &str| -> Result<u64> {
            let text = args.next().with_context(|| format!("{name} needs a number; {USAGE}"))?;
            text.parse().with_context(|| format!("`{text}` is no whole number"))
        };
        match arg.as_str() {
            "--seconds" => out.seconds = number("--seconds")?,
            "--list" => out.lists = true,
            "--seed" => out.seed = number("--seed")?,
            name => match TARGETS.iter().find(|target| target.name == name) {
                Some(target) => out.targets.push(target),
                None => bail!("there is no target {name}; there are {}", TARGETS.map(|target| target.name).join(", ")),
            },
        }
    }
    if out.targets.is_empty() {
        out.targets.extend(&TARGETS);
    }
    Ok(out)
}

/// Returns whether all guarantees held.
fn run() -> Result<bool> {
    let Arguments { lists, seconds, seed, targets } = arguments()?;
    if lists {
        targets.iter().for_each(|target| println!("{}", target.name));
        return Ok(true);
    }
    println!("fuzz: seed {seed}");
    let mut sound = true;
    for target in targets {
        let mut check = (target.start)()?;
        let mut mutator = Mutator::new(seed, target.samples);
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let mut tried = 0_u64;
        let failure = loop {
            let input = mutator.next_input();
            let (started, before) = (Instant::now(), cpu_time());
            let outcome = catch_unwind(AssertUnwindSafe(|| check(&input)));
            let (took, work) = (started.elapsed(), cpu_time().saturating_sub(before));
            tried += 1;
            match outcome {
                Ok(Ok(())) if work < MAX_CPU_TIME && took < MAX_WALL_TIME => {}
                Ok(Ok(())) => break Some((input, format!("it took {took:?}, {work:?} of them work"))),
                Ok(Err(broken)) => break Some((input, broken)),
                Err(_) => break Some((input, "it panicked".to_owned())),
            }
            if Instant::now() >= deadline {
                break None;
            }
        };
        match failure {
            None => println!("{:>10}: {tried} inputs", target.name),
            Some((input, broken)) => {
                sound = false;
                println!("{:>10}: FAILED at input {tried}: {broken}", target.name);
                println!("            b\"{}\"", input.escape_ascii());
            }
        }
    }
    Ok(sound)
}
