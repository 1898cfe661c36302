//! Runs are followed to their end, and what was begun for them is ended.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::recording::Replay;
use deepagents::{DeepAgent, RunInput};

use super::approvals::{Approver, Decisions};
use super::exit_status::Limits;
use super::recording::{Played, Recording};
use super::stream::Stream;
use super::{background, interrupt, live};
use crate::exit::Exit;
use crate::output;
use crate::render::{JsonLines, Renderer};
use crate::runtime::RunThread;

/// Takes turns as lines on stdin ask for them.
pub(super) fn stream_turns(runtime: RunThread, turns: &Stream<'_>) -> Result<Exit> {
    let exit = runtime.block_on(async {
        let signals = interrupt::catch().map_err(|error| anyhow!("Ctrl-C cannot be caught: {error}"))?;
        let exit = turns.serve(signals, &mut JsonLines).await;
        background::leave(turns.agent, turns.limits).await;
        end_sessions(turns.limits).await;
        if let Some(lost) = turns.limits.tracing.finish().await {
            output::remark(&format!("tracing: {lost}"));
        }
        Ok::<_, anyhow::Error>(exit?)
    });
    runtime.shutdown();
    exit
}

/// Plays the model's part by a script: nothing is kept and nothing is asked.
pub(crate) fn play(agent: &DeepAgent, task: String, renderer: &mut dyn Renderer) -> Result<Exit> {
    let runtime = RunThread::start()?;
    drive(runtime, agent, RunInput::new(task), &Limits::default(), &mut Approver::for_script(agent), renderer)
}

/// Plays a recorded run and the decisions that were made in it.
pub(crate) fn replay(
    runtime: RunThread,
    agent: &DeepAgent,
    input: RunInput,
    replay: &Arc<Replay>,
    answers: Vec<Decisions>,
    turns: Option<u32>,
    renderer: &mut dyn Renderer,
) -> Result<Exit> {
    let limits = Limits { turns, recording: Recording::Replay(replay.clone()), ..Limits::default() };
    let mut renderer = Played { replay, renderer };
    drive(runtime, agent, input, &limits, &mut Approver::Recorded(answers.into()), &mut renderer)
}

/// Runs the hooks for the end of what was begun: a thread, or where nothing is kept the run. A signal ends them, also where
/// none was to stop the run.
async fn end_sessions(limits: &Limits) {
    let Some(hooks) = &limits.hooks else { return };
    // Before the first of them runs, so that none is missed.
    let signals = interrupt::catch();
    let signal = async {
        match signals {
            Ok(mut signals) => drop(signals.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    let sessions = limits.thread.clone().map_or_else(|| hooks.sessions(), |thread| vec![thread]);
    let ends = async {
        for session in sessions {
            hooks.session_end(&session, "exit").await;
        }
    };
    tokio::select! {
        () = ends => {}
        () = signal => output::remark("the hooks for the end of the session are ended"),
    }
}

/// Runs to the end and says on stderr what stood in the way.
pub(super) fn drive(
    runtime: RunThread,
    agent: &DeepAgent,
    input: RunInput,
    limits: &Limits,
    approver: &mut Approver,
    renderer: &mut dyn Renderer,
) -> Result<Exit> {
    let ending = runtime.block_on(async {
        let signals = interrupt::catch().map_err(|error| anyhow!("Ctrl-C cannot be caught: {error}"))?;
        let ending = live::follow(agent, input, limits, signals, approver, renderer).await;
        background::leave(agent, limits).await;
        if let Some(servers) = &limits.servers {
            servers.close().await;
        }
        end_sessions(limits).await;
        if let Some(lost) = limits.tracing.finish().await {
            output::remark(&format!("tracing: {lost}"));
        }
        Ok::<_, anyhow::Error>((ending?, limits.recording.finish().await))
    });
    // A tool that ignores its end must not hold the program.
    runtime.shutdown();
    let (ending, written) = ending?;
    let (exit, words) = limits.recording.exit_status(&ending, limits);
    if let Some(words) = words {
        output::print_error(&words);
    }
    if let Err(error) = written {
        output::print_error(&format!("the recording ends before the run did: {error}"));
        return Ok(if exit == Exit::Done { Exit::Failed } else { exit });
    }
    Ok(exit)
}
