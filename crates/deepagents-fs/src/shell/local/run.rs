//! Runs a command as a process, confined or not, and determines how it ended.

use std::collections::{BTreeMap, BTreeSet};
use std::io::PipeReader;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::{Confinement, Inner};
use crate::VPath;
use crate::sandbox::appeared::Appeared;
use crate::sandbox::protocol::Identity;
use crate::sandbox::{Level, launch};
use crate::shell::capture::StreamedCapture;
use crate::shell::own_session;
use crate::shell::supervise::{End, Finished, Job, Output, supervise};
use crate::shell::{Command, CommandOutput, Exit, SessionChange, ShellError};

/// Linux's limit for a single argument of a program.
const MAX_ARGUMENT_BYTES: usize = (128 << 10) - 1;

impl Inner {
    pub(super) fn execute(
        &self,
        command: &Command,
        caller: &PipeReader,
        progress: Option<mpsc::Sender<String>>,
    ) -> Result<CommandOutput, ShellError> {
        let (timeout, began) = (self.check(command)?, Instant::now());
        let cwd = self.directory(&command.cwd)?;
        let mut env = self.env.clone();
        env.extend(command.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        let job = self.job(&command.text, &cwd, env, None)?;
        let places = self.places()?;
        // Checks before the start count towards the time limit.
        let left = timeout.saturating_sub(began.elapsed());
        let to = Output::Captured(StreamedCapture::new(self.limit, progress));
        let done = supervise(job, left, caller, to).map_err(ShellError::start)?;
        let moved = places.map(|places| places.moved()).unwrap_or_default();
        let (exit, level) = self.end_of(&done)?;
        let Finished { output, dropped, duration, refused, .. } = done;
        let exit = if let Exit::TimedOut { .. } = exit { Exit::TimedOut { after: timeout } } else { exit };
        Ok(CommandOutput { output, exit, dropped, duration, level, refused, moved, session: SessionChange::default() })
    }

    /// Creates the job that runs a text, with `input` as standard input if given.
    pub(in crate::shell) fn job<'a>(
        &'a self,
        text: &'a str,
        cwd: &'a Path,
        env: BTreeMap<String, String>,
        input: Option<PipeReader>,
    ) -> Result<Job<'a>, ShellError> {
        let job = match &self.confinement {
            Confinement::Unconfined => {
                let (mut process, is_gated) = own_session::command(&self.program);
                process.arg("-c").arg(text).env_clear().envs(&env).current_dir(cwd);
                Job { command: process, is_gated, helper: None, spare: None, input: None }
            }
            Confinement::Sandboxed(policy) => {
                let report = self.sandbox.probe();
                if report.level < policy.least() {
                    return Err(ShellError::NoSandbox(report));
                }
                let task = launch::Task {
                    root: Some(&self.root),
                    identities: &self.identities,
                    cwd,
                    program: &self.program,
                    text,
                    takes_input: input.is_some(),
                };
                self.sandbox.job(policy, &task, env)?
            }
        };
        Ok(Job { input, ..job })
    }

    /// Records the current protected places, if commands are confined.
    pub(in crate::shell) fn places(&self) -> Result<Option<Appeared>, ShellError> {
        let Confinement::Sandboxed(policy) = &self.confinement else { return Ok(None) };
        let failed = |error: std::io::Error| ShellError::Setup {
            step: "look at the protected places".to_owned(),
            reason: error.to_string(),
        };
        Appeared::begin(&self.root, policy).map(Some).map_err(failed)
    }

    /// Returns the paths that a command started now could not change by name.
    pub(in crate::shell) fn guarded_by_name(&self) -> BTreeSet<PathBuf> {
        match &self.confinement {
            Confinement::Sandboxed(policy) => launch::guarded_by_name(&self.root, policy),
            Confinement::Unconfined => BTreeSet::new(),
        }
    }

    /// Returns the confinement of commands. The first call probes the sandbox, which takes a while.
    pub(in crate::shell) fn level(&self) -> Level {
        match &self.confinement {
            Confinement::Unconfined => Level::None,
            Confinement::Sandboxed(_) => self.sandbox.probe().level,
        }
    }

    /// Returns how a process ended and how it was confined.
    pub(in crate::shell) fn end_of(&self, done: &Finished) -> Result<(Exit, Level), ShellError> {
        // An unconfined process makes no report.
        let said = launch::HelperReport::parse(&done.said);
        if let Some((step, reason)) = said.failed {
            return Err(ShellError::Setup { step, reason });
        }
        let exit = match (done.end, said.exit, &self.confinement) {
            (End::TimedOut, ..) => Exit::TimedOut { after: done.duration },
            (End::Cancelled, ..) => Exit::Cancelled,
            (End::OutOfSpace, ..) => Exit::OutOfSpace,
            (End::Exited(_), Some(exit), _) => exit,
            (End::Exited(status), None, Confinement::Sandboxed(_)) => {
                return Err(ShellError::Lost(format!("the sandbox helper ended early ({status})")));
            }
            (End::Exited(status), None, Confinement::Unconfined) => match status.code() {
                Some(code) => Exit::Code(code),
                None => Exit::Signal(status.signal().unwrap_or_default()),
            },
        };
        Ok((exit, said.report.map_or(Level::None, |report| report.level)))
    }

    pub(in crate::shell) fn check(&self, command: &Command) -> Result<Duration, ShellError> {
        let text = &command.text;
        if text.trim().is_empty() {
            return Err(ShellError::Empty);
        }
        if text.len() > MAX_ARGUMENT_BYTES {
            return Err(ShellError::TooLong { bytes: text.len(), limit: MAX_ARGUMENT_BYTES });
        }
        let invalid = |what: String, character| Err(ShellError::Invalid { what, character });
        if text.contains('\0') {
            return invalid("the command".to_owned(), "a NUL character");
        }
        for (name, value) in self.env.iter().chain(&command.env) {
            if name.is_empty() || name.contains('=') {
                return invalid(format!("the name `{name}` of a variable"), "no text or `=`");
            }
            if name.contains('\0') || value.contains('\0') {
                return invalid(format!("the variable {}", name.escape_debug()), "a NUL character");
            }
        }
        let timeout = command.timeout.unwrap_or(self.timeout);
        if timeout.is_zero() { Err(ShellError::NoTime) } else { Ok(timeout) }
    }

    /// Returns the host path of a workspace directory.
    pub(in crate::shell) fn directory(&self, cwd: &VPath) -> Result<PathBuf, ShellError> {
        let refuse = |reason: String| ShellError::Directory { cwd: cwd.clone(), reason };
        let own = self.identities.iter().find(|identity| identity.path == self.root);
        if own != Identity::of(&self.root).ok().as_ref() {
            return Err(refuse(
                "the workspace is not the directory any more that it was when it was opened".to_owned(),
            ));
        }
        let there = self.root.join(cwd.relative()).canonicalize().map_err(|error| refuse(error.kind().to_string()))?;
        if !there.starts_with(&self.root) {
            return Err(refuse("it leads outside the workspace".to_owned()));
        }
        if !there.is_dir() {
            return Err(refuse("it is not a directory".to_owned()));
        }
        Ok(there)
    }
}
