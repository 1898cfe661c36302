//! Watching one process from its start to its end, on a thread of its own.
//!
//! One loop waits for output, for the end of the process, for the caller and for the clock at once, so that no command
//! can hold up the others or the executor, whatever it does with its output.

use std::io::{ErrorKind, PipeReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::sync::mpsc;

use super::capture::{Capture, Decoder};

/// How long a sandbox has to end by itself before its processes are killed one group at a time.
const GRACE: Duration = Duration::from_secs(3);

/// A process to watch.
#[derive(Debug)]
pub(crate) struct Job {
    /// The program, without its standard streams.
    pub(crate) command: std::process::Command,
    /// What a sandbox helper is told over its standard input; none for a program that is no helper.
    pub(crate) plan: Option<Vec<u8>>,
    /// How long it may run.
    pub(crate) timeout: Duration,
    /// Bytes of output to keep.
    pub(crate) limit: usize,
}

/// A process that ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) output: String,
    pub(crate) dropped: u64,
    pub(crate) end: End,
    pub(crate) duration: Duration,
    /// What the helper said.
    pub(crate) said: Vec<u8>,
}

/// Why it ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Exited(ExitStatus),
    TimedOut,
    Cancelled,
}

/// Runs a process to its end. The far end of `caller` closing means that nobody wants it any more.
pub(crate) fn supervise(
    job: Job,
    caller: &PipeReader,
    progress: Option<mpsc::Sender<String>>,
) -> std::io::Result<Finished> {
    let started = Instant::now();
    let Job { mut command, plan, timeout, limit } = job;
    let (output, writer) = std::io::pipe()?;
    rustix::io::ioctl_fionbio(&output, true)?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let control = match plan {
        Some(plan) => {
            let (ours, theirs) = UnixStream::pair()?;
            command.stdin(OwnedFd::from(theirs));
            Some((ours, plan))
        }
        None => {
            command.stdin(Stdio::null()).process_group(0);
            None
        }
    };
    let child = command.spawn()?;
    // Drops our copies of the child's ends.
    drop(command);

    let mut watched = Watched::new(child, control.as_ref().map(|(ours, _)| ours))?;
    if let Some((ours, plan)) = &control {
        // A helper that died at once shows in how it ended, not here.
        let mut ours: &UnixStream = ours;
        ours.set_write_timeout(Some(GRACE))?;
        let _ = ours.write_all(plan);
    }
    let mut sink = Sink { output: Some(output), capture: Capture::new(limit), decoder: Decoder::default(), progress };
    let end = watched.wait(&mut sink, caller, started.checked_add(timeout))?;
    drop(watched);
    sink.drain();
    let mut said = Vec::new();
    if let Some((mut ours, _)) = control {
        ours.set_nonblocking(true)?;
        let _ = ours.read_to_end(&mut said);
    }
    let (output, dropped) = sink.finish();
    Ok(Finished { output, dropped, end, duration: started.elapsed(), said })
}

/// A running process. It is killed and waited for when this is dropped.
struct Watched<'a> {
    child: Child,
    control: Option<&'a UnixStream>,
    ended: PipeReader,
    waiter: Option<std::thread::JoinHandle<()>>,
}

impl<'a> Watched<'a> {
    fn new(child: Child, control: Option<&'a UnixStream>) -> std::io::Result<Self> {
        let (ended, end) = std::io::pipe()?;
        let pid = Pid::from_child(&child);
        let mut watched = Self { child, control, ended, waiter: None };
        let waiter =
            std::thread::Builder::new().name("deepagents-wait".to_owned()).stack_size(64 << 10).spawn(move || {
                // The process is left unreaped, so that its number and group stay its own until they are not needed.
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), options) {}
                drop(end);
            });
        watched.waiter = Some(waiter?);
        Ok(watched)
    }

    fn wait(&mut self, sink: &mut Sink, caller: &PipeReader, deadline: Option<Instant>) -> std::io::Result<End> {
        let mut verdict = None;
        let mut deadline = deadline;
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let mut fds = vec![PollFd::new(&self.ended, PollFlags::IN)];
            if verdict.is_none() {
                fds.push(PollFd::new(caller, PollFlags::IN));
            }
            if let Some(output) = &sink.output {
                fds.push(PollFd::new(output, PollFlags::IN));
            }
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            match rustix::event::poll(&mut fds, timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => continue,
                result => result?,
            };
            let fired = |fd: rustix::fd::BorrowedFd<'_>| {
                use rustix::fd::AsRawFd;
                fds.iter().any(|p| p.as_fd().as_raw_fd() == fd.as_raw_fd() && !p.revents().is_empty())
            };
            let (ended, unwanted) = (fired(self.ended.as_fd()), fired(caller.as_fd()));
            if sink.output.as_ref().is_some_and(|output| fired(output.as_fd())) {
                sink.read();
            }
            if ended {
                break;
            }
            let late = deadline.is_some_and(|deadline| deadline <= Instant::now());
            if verdict.is_none() && (unwanted || late) {
                verdict = Some(if unwanted { End::Cancelled } else { End::TimedOut });
                self.stop();
                deadline = Some(Instant::now() + GRACE);
            } else if late {
                self.kill();
                deadline = None;
            }
        }
        // What the command left running in its group goes with it.
        self.kill();
        let status = self.reap()?;
        Ok(verdict.unwrap_or(End::Exited(status)))
    }

    /// Asks for the end. A sandbox takes its whole process tree with it and is waited for; the rest is killed.
    fn stop(&self) {
        match self.control {
            Some(control) if control.shutdown(Shutdown::Write).is_ok() => {}
            _ => self.kill(),
        }
    }

    /// Kills the process group and the process.
    fn kill(&self) {
        let pid = Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }

    fn reap(&mut self) -> std::io::Result<ExitStatus> {
        if let Some(waiter) = self.waiter.take() {
            let _ = waiter.join();
        }
        self.child.wait()
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        // Nothing to do once it was reaped: `try_wait` knows.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
            let _ = self.reap();
        }
    }
}

/// Where output goes.
struct Sink {
    output: Option<PipeReader>,
    capture: Capture,
    decoder: Decoder,
    progress: Option<mpsc::Sender<String>>,
}

impl Sink {
    /// Takes one piece; whether there may be more at hand.
    fn read(&mut self) -> bool {
        let Some(output) = &mut self.output else { return false };
        let mut buffer = [0; 16 << 10];
        match output.read(&mut buffer) {
            Ok(0) => self.output = None,
            Ok(length) => {
                let piece = buffer.get(..length).unwrap_or_default();
                self.capture.push(piece);
                if self.progress.is_some() {
                    let text = self.decoder.push(piece);
                    self.tell(text);
                }
                return true;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.output = None,
        }
        false
    }

    /// Takes what is in the pipe. It does not wait for the far end to close: a process that got away may hold it open.
    fn drain(&mut self) {
        // A pipe holds a megabyte at most where its size was not raised; a writer that got away cannot keep us here.
        let mut pieces = 1024;
        while pieces > 0 && self.read() {
            pieces -= 1;
        }
    }

    fn tell(&self, text: String) {
        if let Some(progress) = &self.progress
            && !text.is_empty()
        {
            let _ = progress.try_send(text);
        }
    }

    fn finish(mut self) -> (String, u64) {
        let rest = std::mem::take(&mut self.decoder).finish();
        self.tell(rest);
        self.capture.finish()
    }
}
