//! Measures the harness against a model server that answers at once or after a delay.
//!
//! ```text
//! bench URL cold                         from process start to the first answer
//! bench URL loop N [memory|sqlite [PATH]] [loop|write] [traced]  one run of N tool turns
//! bench URL many K N D                   K runs at once of N tool turns, the model taking D ms
//! bench URL fan K D                      one run of K tasks in one turn, the model taking D ms
//! bench journal N B PATH                 runs of N steps of B bytes on a database at PATH
//! bench - idle K                         memory of K agents that are built and do nothing
//! bench - watchers K                     one run of 2,000 pieces that K subscribers watch
//! bench - tui PROGRAM                  the screens of the program on a pseudo-terminal
//! bench - serve [STREAMS] [IDLE]        a server and its clients in one process
//! bench - wires N                       one run of N tool turns on each protocol of models
//! bench - program PROGRAM N C           `run` of the program with N turns of C calls
//! bench - files [--files N] [--megabytes N] [--dir DIR]  searching, reading and editing on disk, beside `rg` and `find`
//! ```
//!
//! The name of the model is the server's script. The output is one JSON line:
//! `{"impl","case","args","seconds","cpu","rss_mb",…}`, with wall-clock seconds, CPU seconds (user and system) of this
//! process, and its peak memory in MB; `idle` and `many` add the memory per agent. `fan`, `files`, `journal`, `program`,
//! `serve`, `tui`, `watchers` and `wires` have limits; the program exits with 1 if one is exceeded.
#![allow(clippy::print_stdout, reason = "a program's output")]

mod bars;
mod fan;
mod files;
mod journal;
mod screens;
mod serve;
mod traced;
mod usage;
mod watchers;
mod wires;

use std::io::{Write, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use deepagents::middleware::todo::TodoPolicy;
use deepagents::models::{ModelConfig, Registry};
use deepagents::{DeepAgent, FinishReason, Journal, MemoryJournal, RunInput, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

// As a host of thousands of agents should choose it.
#[cfg(all(feature = "jemalloc", not(target_env = "msvc")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Deserialize, JsonSchema)]
struct Weather {
    city: String,
}

struct Bench {
    started: Instant,
    registry: Registry,
    args: Vec<String>,
}

const USAGE: &str = "\
usage:
  bench URL cold                         from process start to the first answer
  bench URL loop N [memory|sqlite [PATH]] [loop|write] [traced]  one run of N tool turns
  bench URL many K N D                   K runs at once of N tool turns, the model taking D ms
  bench URL fan K D                      one run of K tasks in one turn, the model taking D ms
  bench journal N B PATH                 runs of N steps of B bytes on a database at PATH
  bench - idle K                         memory of K agents that are built and do nothing
  bench - watchers K                     one run of 2,000 pieces that K subscribers watch
  bench - tui PROGRAM                    the screens of the program on a pseudo-terminal
  bench - serve [STREAMS] [IDLE]         a server and its clients in one process
  bench - wires N                        one run of N tool turns on each protocol of models
  bench - program PROGRAM N C            `run` of the program with N turns of C calls
  bench - files [--files N] [--megabytes N] [--dir DIR]  searching, reading and editing on disk";

fn main() -> ExitCode {
    match measure() {
        Ok(code) => code,
        Err(error) => {
            // If this fails, there is nowhere left to report to.
            let _ = writeln!(stderr(), "bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<ExitCode> {
    let started = Instant::now();
    let mut args = std::env::args().skip(1).peekable();
    if args.peek().is_some_and(|arg| arg == "-h" || arg == "--help") {
        println!("{USAGE}");
        return Ok(ExitCode::SUCCESS);
    }
    // `journal` needs no model, and may be the first argument.
    let url = args.next_if(|arg| arg != "journal").filter(|url| url != "-");
    let case = args.next().context("usage: bench URL CASE [ARGS]; --help lists the cases")?;
    let needs_model = matches!(case.as_str(), "cold" | "loop" | "many" | "fan");
    ensure!(url.is_some() || !needs_model, "`{case}` needs the URL of a model server");
    let config = ModelConfig { api_key: Some("any".into()), base_url: url, ..ModelConfig::default() };
    let mut registry = Registry::new();
    registry.configure("anthropic", config);
    let bench = Bench { started, registry, args: args.collect() };
    // A single run needs no thread pool, which would add the cost of waking idle cores.
    let mut runtime = match case.as_str() {
        "cold" | "loop" | "wires" => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let mut out = runtime.enable_all().build()?.block_on(async {
        match case.as_str() {
            "cold" => bench.cold().await,
            "loop" => bench.one_long_run().await,
            "many" => bench.many().await,
            "fan" => bench.fan().await,
            "idle" => bench.idle(),
            "watchers" => bench.watchers().await,
            "journal" => bench.journal().await,
            "files" => bench.files().await,
            "tui" => bench.screens().await,
            "serve" => bench.serve().await,
            "wires" => bench.wires().await,
            "program" => bench.program().await,
            "answer" => bench.answer().await,
            other => bail!("there is no case `{other}`"),
        }
    })?;
    let mut line = json!({"impl": "rust", "case": case, "args": bench.args});
    // This case resets the peak, so it is not that of the process.
    if case != "files" {
        out.insert("rss_mb".to_owned(), json!(usage::peak_mb()));
    }
    let held = bars::all_within_limits(&out);
    line.as_object_mut().context("an object")?.extend(out);
    println!("{line}");
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Bench {
    fn arg<T: std::str::FromStr>(&self, at: usize) -> Result<T> {
        self.args.get(at).and_then(|arg| arg.parse().ok()).with_context(|| format!("argument {} is missing", at + 1))
    }

    fn agent(&self, script: &str, journal: Option<Arc<dyn Journal>>) -> Result<DeepAgent> {
        self.agent_of(&format!("anthropic:{script}"), journal)
    }

    fn agent_of(&self, model: &str, journal: Option<Arc<dyn Journal>>) -> Result<DeepAgent> {
        let weather = tool_fn("get_weather", "Weather of a city.", |args: Weather, _cx| async move {
            Ok(format!("It is sunny in {}.", args.city))
        });
        let mut builder = DeepAgent::builder()
            .model(self.registry.model(model)?)
            .todos(TodoPolicy::off())
            .without("Summarization")
            .system_prompt("You are a careful assistant.")
            .tool(weather);
        if let Some(journal) = journal {
            builder = builder.journal(journal);
        }
        Ok(builder.build()?)
    }

    async fn cold(&self) -> Result<Map<String, Value>> {
        let outcome = self.agent("answer", None)?.invoke("hi").await?;
        ensure!(outcome.stop == FinishReason::Done, "the run ended with {:?}", outcome.stop);
        Ok(timed(self.started.elapsed(), usage::cpu()))
    }

    /// Parses the arguments after the number of turns: the journal, the path of its database, the script, and whether
    /// the run is traced.
    fn loop_args(&self) -> Result<(&str, Option<&str>, &str, bool)> {
        const USAGE: &str = "usage: bench URL loop N [memory|sqlite [PATH]] [loop|write] [traced]";
        let traced = self.args.last().is_some_and(|arg| arg == "traced");
        let given = self.args.len() - usize::from(traced);
        let mut args = self.args.iter().take(given).skip(1).map(String::as_str).peekable();
        let script = |arg: &&str| matches!(*arg, "loop" | "write");
        let store = args.next_if(|arg| !script(arg)).unwrap_or("none");
        ensure!(matches!(store, "none" | "memory" | "sqlite"), "there is no journal `{store}` to measure; {USAGE}");
        let path = if store == "sqlite" { args.next_if(|arg| !script(arg)) } else { None };
        let kind = args.next().unwrap_or("loop");
        ensure!(script(&kind) && args.next().is_none(), "`{kind}` and what follows cannot be understood; {USAGE}");
        Ok((store, path, kind, traced))
    }

    async fn one_long_run(&self) -> Result<Map<String, Value>> {
        let turns: u32 = self.arg(0)?;
        let (store, given, kind, traced) = self.loop_args()?;
        let folder = tempfile::tempdir()?;
        let path = given.map_or_else(|| folder.path().join("threads.db"), PathBuf::from);
        let journal: Option<Arc<dyn Journal>> = match store {
            "memory" => Some(Arc::new(MemoryJournal::new())),
            "sqlite" => Some(Arc::new(deepagents_persist::Sqlite::open(&path).await?)),
            _ => None,
        };
        if let Some(journal) = &journal {
            ensure!(journal.threads().get("t").await?.is_none(), "{} has been used before", path.display());
        }
        let input = if journal.is_some() { RunInput::new("go").thread("t") } else { RunInput::new("go") };
        let agent = self.agent(&format!("{kind}-{turns}"), journal)?;
        let tracer = if traced { Some(traced::tracer()?) } else { None };
        let (started, cpu) = (Instant::now(), usage::cpu());
        let input = tracer.iter().fold(input, |input, tracer| tracer.observe(input));
        // The pace at the end is measured by events, which every run has.
        let mut run = agent.run(input);
        let mut turn_times = Vec::new();
        while let Some(event) = futures_util::StreamExt::next(&mut run).await {
            if matches!(event.kind, deepagents::EventKind::ModelFinished { .. }) {
                turn_times.push(Instant::now());
            }
        }
        let outcome = run.outcome().await?;
        let report = match &tracer {
            Some(tracer) => Some(tracer.shutdown(Duration::from_secs(10)).await),
            None => None,
        };
        let (seconds, cpu) = (started.elapsed(), usage::cpu().saturating_sub(cpu));
        if let Some(report) = &report {
            ensure!(report.dropped == 0 && report.exported > 2 * u64::from(turns), "spans were lost: {report:?}");
        }
        ensure!(
            outcome.stop == FinishReason::Done && outcome.model_calls == turns + 1,
            "the run ended early: {:?}",
            outcome.stop
        );
        let mut out = timed(seconds, cpu);
        out.insert("messages".to_owned(), json!(outcome.messages().len()));
        out.insert("ms_per_step".to_owned(), json!(seconds.as_secs_f64() * 1000.0 / f64::from(turns.max(1))));
        if store == "sqlite" {
            out.insert("db_bytes".to_owned(), json!(journal::size(&path)));
        }
        let last = turn_times.len().saturating_sub(100);
        if let (Some(from), Some(to)) = (turn_times.get(last), turn_times.last()) {
            let steps = (turn_times.len() - last).saturating_sub(1).max(1);
            let pace = to.duration_since(*from).as_secs_f64() * 1000.0 / steps as f64;
            out.insert("ms_per_last_step".to_owned(), json!(pace));
        }
        Ok(out)
    }

    async fn many(&self) -> Result<Map<String, Value>> {
        let (runs, turns, delay): (u64, u64, u64) = (self.arg(0)?, self.arg(1)?, self.arg(2)?);
        let agent = self.agent(&format!("loop-{turns}-d{delay}"), None)?;
        let (before, started, cpu) = (usage::resident_bytes(), Instant::now(), usage::cpu());
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..runs {
            let agent = agent.clone();
            tasks.spawn(async move { agent.invoke(format!("go {n}")).await });
        }
        while let Some(outcome) = tasks.join_next().await {
            ensure!(outcome??.stop == FinishReason::Done, "a run ended early");
        }
        let (seconds, cpu) = (started.elapsed(), usage::cpu().saturating_sub(cpu));
        let mut out = timed(seconds, cpu);
        out.insert("steps_per_s".to_owned(), json!((runs * (turns + 1)) as f64 / seconds.as_secs_f64()));
        let each = (usage::peak_mb() * 1e6 - before as f64) / runs.max(1) as f64;
        out.insert("kb_per_agent".to_owned(), json!(each / 1000.0));
        Ok(out)
    }

    fn idle(&self) -> Result<Map<String, Value>> {
        let count: usize = self.arg(0)?;
        // The first agent allocates what all agents share.
        let first = self.agent("answer", None)?;
        let (before, started, cpu) = (usage::resident_bytes(), Instant::now(), usage::cpu());
        let agents = (0..count).map(|_| self.agent("answer", None)).collect::<Result<Vec<_>>>()?;
        let mut out = timed(started.elapsed(), usage::cpu().saturating_sub(cpu));
        let each = usage::resident_bytes().saturating_sub(before) as f64 / count.max(1) as f64;
        out.insert("kb_per_agent".to_owned(), json!(each / 1000.0));
        drop((first, agents));
        Ok(out)
    }
}

fn timed(seconds: Duration, cpu: Duration) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("seconds".to_owned(), json!(seconds.as_secs_f64()));
    out.insert("cpu".to_owned(), json!(cpu.as_secs_f64()));
    out
}
