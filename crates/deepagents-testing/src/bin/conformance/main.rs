//! Runs scenarios against a scripted model server and writes traces of them.
//!
//! ```text
//! conformance SCENARIO_DIR TRACE_DIR [--mockllm PATH] [--only NAME]
//! ```
//!
//! Each scenario file produces a trace file of the same name, to be compared with that of another implementation. The
//! server is the script given with `--mockllm`, which this program starts.
#![allow(clippy::print_stdout, reason = "a program's output")]
#![allow(clippy::indexing_slicing, reason = "JSON objects are built by index, which adds what is not there")]

mod build;
mod scenario;
mod server;
mod trace;

use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use deepagents::core::interrupt::ActionRequests;
use deepagents::{ActionRequest, FinishReason, Interrupt, MemoryJournal, RunInput, State};
use serde_json::{Value, json};

use build::Built;
use scenario::Scenario;
use server::Server;

/// The default path of the server's script.
const DEFAULT_SERVER: &str = "../shared/conformance/mockllm.py";

const USAGE: &str = "usage: conformance SCENARIO_DIR TRACE_DIR [--mockllm PATH] [--only NAME]";

#[tokio::main]
async fn main() -> ExitCode {
    match run_all().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If this fails, there is nowhere left to report to.
            let _ = writeln!(stderr(), "conformance: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run_all() -> Result<()> {
    let mut folders = Vec::new();
    let (mut script, mut only) = (PathBuf::from(DEFAULT_SERVER), None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--mockllm" => script = args.next().context("--mockllm needs a path")?.into(),
            "--only" => only = Some(args.next().context("--only needs a name")?),
            "-h" | "--help" => {
                println!("{USAGE}");
                return Ok(());
            }
            flag if flag.starts_with('-') => bail!("there is no option {flag}; {USAGE}"),
            _ => folders.push(PathBuf::from(arg)),
        }
    }
    let [scenarios, traces] = folders.as_slice() else { bail!(USAGE) };
    std::fs::create_dir_all(traces).with_context(|| format!("cannot create {}", traces.display()))?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(scenarios)
        .with_context(|| format!("cannot read {}", scenarios.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "json"));
    files.sort();
    let server = Server::start(&script).await?;
    let (mut ran, mut failed) = (0, 0);
    for path in files {
        match play(&path, &server, only.as_deref()).await {
            Ok(None) => continue,
            Ok(Some((name, trace))) => {
                write(traces, &path, &trace)?;
                println!("ran {name}");
            }
            // Continue with the other scenarios. Without a trace, this one counts as different.
            Err(error) => {
                println!("cannot run {}: {error:#}", path.display());
                failed += 1;
            }
        }
        ran += 1;
    }
    if let (0, Some(name)) = (ran, only) {
        bail!("there is no scenario `{name}`");
    }
    if failed > 0 {
        bail!("{failed} of {ran} scenarios could not be run");
    }
    Ok(())
}

/// Runs a scenario and returns its name and trace, unless another one was selected.
async fn play(path: &Path, server: &Server, only: Option<&str>) -> Result<Option<(String, Value)>> {
    let source = std::fs::read(path)?;
    let scenario: Scenario = serde_json::from_slice(&source).context("not a scenario")?;
    if only.is_some_and(|name| *name != scenario.name) {
        return Ok(None);
    }
    let trace = run(&scenario, server, &source).await?;
    Ok(Some((scenario.name, trace)))
}

fn write(traces: &Path, scenario: &Path, trace: &Value) -> Result<()> {
    let name = scenario.file_name().context("a scenario without a name")?;
    Ok(std::fs::write(traces.join(name), serde_json::to_vec_pretty(trace)?)?)
}

async fn run(scenario: &Scenario, server: &Server, source: &[u8]) -> Result<Value> {
    server.load(source).await?;
    let journal = Arc::new(MemoryJournal::new());
    let mut steps = Vec::new();
    match build::agent(scenario, server.url(), journal).await {
        Err(error) => {
            // A scenario for an unsupported part yields a trace that says so, and therefore differs.
            let error = format!("{error:#}");
            steps.extend(scenario.steps.iter().map(|_| json!({"messages": [], "error": error})));
        }
        Ok(built) => {
            for (at, step) in scenario.steps.iter().enumerate() {
                let thread = step.thread.clone().unwrap_or_else(|| "t1".to_owned());
                let input = match (&step.input, &step.resume) {
                    (Some(input), _) => {
                        let run = RunInput::messages(scenario::messages(&input.messages)?).thread(thread.clone());
                        Ok(if at == 0 { run.update(built.initial.clone()) } else { run })
                    }
                    (None, Some(resume)) => answers(&built, &thread, &resume.decisions).await?,
                    (None, None) => bail!("step {at} has neither input nor resume"),
                };
                let error = match input {
                    Err(error) => Some(error),
                    Ok(input) => match built.agent.invoke(input).await {
                        Ok(outcome) if outcome.stop == FinishReason::StepLimit => Some("step_limit".to_owned()),
                        Ok(_) => None,
                        Err(error) => Some(format!("{}: {error}", error.kind())),
                    },
                };
                let state = built.agent.state(&thread).await?;
                let questions = open(&state);
                steps.push(trace::step(&state, &built, questions, error).await?);
            }
        }
    }
    Ok(json!({"requests": server.log().await?, "steps": steps}))
}

fn open(state: &State) -> Vec<ActionRequest> {
    let asked = state.get::<ActionRequests>().cloned().unwrap_or_default();
    asked.into_values().filter(|asked| asked.decision.is_none()).map(|asked| asked.request).collect()
}

/// Returns the decisions for the only interrupt of a thread, or why they cannot be applied.
async fn answers(built: &Built, thread: &str, decisions: &[Value]) -> Result<Result<RunInput, String>> {
    let interrupts = Interrupt::group(open(&built.agent.state(thread).await?));
    let interrupt = match interrupts.as_slice() {
        [interrupt] => interrupt,
        [] => return Ok(Err(format!("thread {thread} does not wait for a decision"))),
        // Unnamed decisions go by order, which is undefined across interrupts.
        several => return Ok(Err(format!("thread {thread} has {} pauses: say which is meant", several.len()))),
    };
    let decisions = interrupt.decisions(decisions.to_vec()).map_err(|error| error.to_string());
    Ok(decisions.map(|decisions| {
        let resume = RunInput::resume(thread);
        decisions.into_iter().fold(resume, |input, (id, decision)| input.decide(id, decision))
    }))
}
