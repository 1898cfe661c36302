//! Driving runs to their end, and ending what was started for them.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::core::journal::JournalError;
use deepagents::recording::Replay;
use deepagents::{DeepAgent, Error, RunInput};

use super::approvals::{Approver, Decisions};
use super::exit_status::RunContext;
use super::recording::{Played, Recording};
use super::stream::Stream;
use super::{background, busy, interrupt, live, owner_in};
use crate::exit::Exit;
use crate::output;
use crate::render::{Ending, JsonLines, Renderer};
use crate::runtime::RunThread;

/// Runs the turns that lines on stdin ask for.
pub(super) fn stream_turns(runtime: RunThread, turns: &Stream<'_>) -> Result<Exit> {
    let exit = runtime.block_on(async {
        let signals = interrupt::catch().map_err(|error| anyhow!("Ctrl-C cannot be caught: {error}"))?;
        let exit = turns.serve(signals, &mut JsonLines).await;
        end_everything(turns.agent, turns.limits).await;
        Ok::<_, anyhow::Error>(exit?)
    });
    runtime.shutdown();
    exit
}

/// Runs an agent with a scripted model: nothing is saved and nothing is asked.
pub(crate) fn play(agent: &DeepAgent, task: String, renderer: &mut dyn Renderer) -> Result<Exit> {
    let runtime = RunThread::start()?;
    let mut approver = Approver::Recorded(VecDeque::new());
    drive(runtime, agent, RunInput::new(task), &RunContext::default(), &mut approver, renderer)
}

/// Replays a recorded run and the decisions made in it.
pub(crate) fn replay(
    runtime: RunThread,
    agent: &DeepAgent,
    input: RunInput,
    replay: &Arc<Replay>,
    answers: Vec<Decisions>,
    turns: Option<u32>,
    renderer: &mut dyn Renderer,
) -> Result<Exit> {
    let limits = RunContext { turns, recording: Recording::Replay(replay.clone()), ..RunContext::default() };
    let mut renderer = Played { replay, renderer };
    drive(runtime, agent, input, &limits, &mut Approver::Recorded(answers.into()), &mut renderer)
}

/// Ends what was started for the runs of an agent.
async fn end_everything(agent: &DeepAgent, limits: &RunContext) {
    background::suspend_tasks(agent, limits).await;
    if let Some(servers) = &limits.servers {
        servers.close().await;
    }
    end_sessions(limits).await;
    limits.tracing.finish().await;
}

/// Runs the hooks for the end of the sessions: the thread's, or the run's if nothing is saved. A signal stops them,
/// even if signals were not to stop the run.
async fn end_sessions(limits: &RunContext) {
    let Some(hooks) = &limits.hooks else { return };
    // Install the handlers before the first hook runs, so that no signal is missed.
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
        () = signal => output::remark("stopping the hooks for the end of the session"),
    }
}

/// Returns the message about a run whose thread another process works on, with what is known of that process.
async fn refused_as_busy(agent: &DeepAgent, ending: &Ending) -> Option<String> {
    let Err(error) = &ending.result else { return None };
    let Error::Journal(JournalError::Busy { thread, owner, .. }) = &*error.error else { return None };
    Some(busy(thread, &owner_in(&**agent.threads().ok()?.journal(), thread, owner).await))
}

/// Drives a run to its end, and prints errors on stderr.
pub(super) fn drive(
    runtime: RunThread,
    agent: &DeepAgent,
    input: RunInput,
    limits: &RunContext,
    approver: &mut Approver,
    renderer: &mut dyn Renderer,
) -> Result<Exit> {
    let ending = runtime.block_on(async {
        let signals = interrupt::catch().map_err(|error| anyhow!("Ctrl-C cannot be caught: {error}"))?;
        let ending = live::follow(agent, input, limits, signals, approver, renderer).await;
        end_everything(agent, limits).await;
        let ending = ending?;
        let busy = refused_as_busy(agent, &ending).await;
        Ok::<_, anyhow::Error>((ending, busy, limits.recording.finish().await))
    });
    // A tool that ignores cancellation must not hold up the program.
    runtime.shutdown();
    let (ending, busy, written) = ending?;
    let (exit, words) = limits.recording.exit_status(&ending, limits);
    if let Some(words) = busy.or(words) {
        output::print_error(&words);
    }
    if let Err(error) = written {
        output::print_error(&format!("the recording ends before the run did: {error}"));
        return Ok(if exit == Exit::Done { Exit::Failed } else { exit });
    }
    Ok(exit)
}
