//! Runs scenarios against a scripted model server and writes what was seen.
//!
//! ```text
//! conformance SCENARIO_DIR TRACE_DIR [--mockllm PATH] [--only NAME]
//! ```
//!
//! Each scenario file gives one trace file of the same name, to be compared with what another implementation did on
//! the same scenario. The server is the script given with `--mockllm`, started by this program.
#![allow(clippy::print_stdout, reason = "a program's output")]
#![allow(clippy::indexing_slicing, reason = "JSON objects are built by index, which adds what is not there")]

mod build;
mod scenario;
mod server;
mod trace;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use deepagents::core::ask::{AnswerError, Questions};
use deepagents::{Interrupt, MemoryJournal, Question, RunInput, State, Stop};
use serde_json::{Value, json};

use build::Built;
use scenario::Scenario;
use server::Server;

/// Where the server's script is unless told otherwise.
const DEFAULT_SERVER: &str = "../shared/conformance/mockllm.py";

#[tokio::main]
async fn main() -> Result<()> {
    let mut folders = Vec::new();
    let (mut script, mut only) = (PathBuf::from(DEFAULT_SERVER), None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--mockllm" => script = args.next().context("--mockllm needs a path")?.into(),
            "--only" => only = Some(args.next().context("--only needs a name")?),
            _ => folders.push(PathBuf::from(arg)),
        }
    }
    let [scenarios, traces] = folders.as_slice() else {
        bail!("usage: conformance SCENARIO_DIR TRACE_DIR [--mockllm PATH] [--only NAME]")
    };
    std::fs::create_dir_all(traces).with_context(|| format!("cannot create {}", traces.display()))?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(scenarios)
        .with_context(|| format!("cannot read {}", scenarios.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "json"));
    files.sort();
    let server = Server::start(&script).await?;
    for path in files {
        let scenario: Scenario = serde_json::from_slice(&std::fs::read(&path)?)
            .with_context(|| format!("{} is not a scenario", path.display()))?;
        if only.as_ref().is_some_and(|name| *name != scenario.name) {
            continue;
        }
        let trace = run(&scenario, &server, &std::fs::read(&path)?).await.with_context(|| scenario.name.clone())?;
        write(traces, &path, &trace)?;
        println!("ran {}", scenario.name);
    }
    Ok(())
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
            // A scenario for a part that is not there leaves a trace that says so, and differs.
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
                    Err(error) => Some(error.to_string()),
                    Ok(input) => match built.agent.invoke(input).await {
                        Ok(outcome) if outcome.stop == Stop::StepLimit => Some("step_limit".to_owned()),
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

fn open(state: &State) -> Vec<Question> {
    let asked = state.get::<Questions>().cloned().unwrap_or_default();
    asked.into_values().filter(|asked| asked.answer.is_none()).map(|asked| asked.question).collect()
}

/// Decisions for the one pause of a thread, or why they cannot be taken.
async fn answers(built: &Built, thread: &str, decisions: &[Value]) -> Result<Result<RunInput, AnswerError>> {
    let interrupts = Interrupt::group(open(&built.agent.state(thread).await?));
    let Some(interrupt) = interrupts.first() else { bail!("thread {thread} does not wait for a decision") };
    Ok(interrupt.decisions(decisions.to_vec()).map(|decisions| {
        let resume = RunInput::resume(thread);
        decisions.into_iter().fold(resume, |input, (id, decision)| input.answer(id, decision))
    }))
}
