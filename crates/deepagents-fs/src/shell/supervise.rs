//! Supervises one process from start to end, on a dedicated thread.
//!
//! A single loop waits for output, the end of the process, the caller and the clock, so that no command can block other
//! commands or the executor, whatever it does with its output.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::capture::StreamedCapture;
use super::session::SessionOutput;
use super::watchdog::Watchdog;
use crate::sandbox::HostPattern;
use crate::sandbox::control::Control;
use crate::sandbox::disk_guard::Spare;

/// How long a sandbox has to end by itself before its processes are killed one group at a time.
const GRACE: Duration = Duration::from_secs(3);

/// A process to supervise.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    /// The program, without its standard streams.
    pub(crate) command: std::process::Command,
    /// Whether it leads a process session and waits for a line on its standard error before it starts.
    pub(crate) is_gated: bool,
    /// Set if the process is a sandbox helper.
    pub(crate) helper: Option<Helper>,
    /// Disk space that must stay free.
    pub(crate) spare: Option<Spare<'a>>,
    /// Standard input; empty if `None`.
    pub(crate) input: Option<PipeReader>,
}

/// Destination of a process's output.
#[derive(Debug)]
pub(crate) enum Output {
    /// Collect it.
    Captured(StreamedCapture),
    /// Pass it to the commands of a session.
    Session(Arc<SessionOutput>),
}

/// Inputs of a sandbox helper.
#[derive(Debug)]
pub(crate) struct Helper {
    /// The plan sent over its standard input.
    pub(crate) plan: Vec<u8>,
    /// Hosts that the command may reach through the proxy; `None` for no proxy.
    pub(crate) allowed: Option<Vec<HostPattern>>,
}

/// Result of a process.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) output: String,
    pub(crate) dropped: u64,
    pub(crate) end: End,
    pub(crate) duration: Duration,
    /// What the helper reported.
    pub(crate) said: Vec<u8>,
    /// Hosts that the proxy refused.
    pub(crate) refused: Vec<String>,
}

/// Reason a process ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Exited(ExitStatus),
    TimedOut,
    Cancelled,
    OutOfSpace,
}

/// Runs a process to its end. Ends it early after the time limit, or when the other end of `caller` is closed.
pub(crate) fn supervise(job: Job<'_>, timeout: Duration, caller: &PipeReader, to: Output) -> std::io::Result<Finished> {
    let started = Instant::now();
    let Job { mut command, is_gated, helper, spare, input } = job;
    let (output, writer) = std::io::pipe()?;
    rustix::io::ioctl_fionbio(&output, true)?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let (mut watchdog, mut gate) = (None, None);
    let (mut control, plan) = match helper {
        Some(Helper { plan, allowed }) => {
            let (ours, theirs) = UnixStream::pair()?;
            command.stdin(OwnedFd::from(theirs));
            if let Some(input) = input {
                // The helper's standard input is the control socket, so the command's input is passed as its standard
                // error.
                command.stderr(input);
            }
            (Some(Control::new(ours, allowed)), plan)
        }
        None => {
            command.stdin(input.map_or_else(Stdio::null, Stdio::from));
            if is_gated {
                let (closed, open) = std::io::pipe()?;
                command.stderr(closed);
                gate = Some(open);
                watchdog = Some(Watchdog::for_another()?);
            } else {
                let started = watchdog.insert(Watchdog::start()?);
                command.process_group(started.group().as_raw_nonzero().get());
            }
            (None, Vec::new())
        }
    };
    // Create this before the process starts: if it failed later, nothing would wait for the process.
    let ended = std::io::pipe()?;
    let child = command.spawn()?;
    // Drops this process's copies of the child's ends.
    drop(command);

    let mut watched = Watched::new(child, watchdog, ended)?;
    if let Some(gate) = gate {
        watched.begin(gate)?;
    }
    if let Some(control) = &control {
        control.plan(&plan, GRACE)?;
    }
    let mut sink = Sink { output: Some(output), to };
    let end = watched.wait(&mut sink, control.as_mut(), caller, started.checked_add(timeout), spare.as_ref())?;
    drop(watched);
    sink.drain();
    let (said, refused) = control.map(Control::finish).unwrap_or_default();
    let (output, dropped) = match sink.to {
        Output::Captured(capture) => capture.finish(),
        Output::Session(_) => Default::default(),
    };
    Ok(Finished { output, dropped, end, duration: started.elapsed(), said, refused })
}

/// Stack of the thread that waits for a process, in bytes. It does nothing else, but an allocator may need 64 kB to begin
/// in a thread, as jemalloc does without optimisation. What is not used takes no memory.
const WAITER_STACK: usize = 256 << 10;

/// A running process. Killed and reaped on drop.
struct Watched {
    child: Child,
    ended: PipeReader,
    waiter: Option<std::thread::JoinHandle<()>>,
    /// Leads the process group unless the process does so itself, and kills the group if this program is killed.
    watchdog: Option<Watchdog>,
}

impl Watched {
    fn new(child: Child, watchdog: Option<Watchdog>, (ended, end): (PipeReader, PipeWriter)) -> std::io::Result<Self> {
        let pid = Pid::from_child(&child);
        let mut watched = Self { child, ended, waiter: None, watchdog };
        let waiter =
            std::thread::Builder::new().name("deepagents-wait".to_owned()).stack_size(WAITER_STACK).spawn(move || {
                // Do not reap the process, so that its PID and process group are not reused while they are needed.
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), options) {}
                drop(end);
            });
        watched.waiter = Some(waiter?);
        Ok(watched)
    }

    /// Starts a waiting process, once the watchdog ensures that it cannot outlive this program.
    fn begin(&mut self, mut gate: PipeWriter) -> std::io::Result<()> {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.watch(Pid::from_child(&self.child))?;
        }
        match gate.write_all(b"\n") {
            // If the process has already ended, its exit status reports that.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    fn wait(
        &mut self,
        sink: &mut Sink,
        mut control: Option<&mut Control>,
        caller: &PipeReader,
        mut deadline: Option<Instant>,
        spare: Option<&Spare<'_>>,
    ) -> std::io::Result<End> {
        let mut cut_short = None;
        let mut look = Instant::now();
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let mut fds = vec![PollFd::new(&self.ended, PollFlags::IN)];
            if cut_short.is_none() {
                fds.push(PollFd::new(caller, PollFlags::IN));
            }
            if let Some(output) = &sink.output {
                fds.push(PollFd::new(output, PollFlags::IN));
            }
            let helper = control.as_ref().and_then(|control| control.waiting());
            if let Some(helper) = &helper {
                fds.push(PollFd::new(helper, PollFlags::IN));
            }
            // Check the disk at intervals until the process is told to end.
            let look_in = spare.filter(|_| cut_short.is_none()).map(|_| look.saturating_duration_since(Instant::now()));
            let left = left.into_iter().chain(look_in).min();
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
            let spoken = helper.is_some_and(fired);
            if sink.output.as_ref().is_some_and(|output| fired(output.as_fd())) {
                sink.read();
            }
            if let Some(control) = control.as_mut().filter(|_| spoken) {
                control.receive();
            }
            if ended {
                break;
            }
            let late = deadline.is_some_and(|deadline| deadline <= Instant::now());
            let mut full = false;
            if let Some(spare) = spare.filter(|_| look <= Instant::now()) {
                full = spare.is_used_up();
                look = Instant::now() + spare.next_check();
            }
            if cut_short.is_none() && (unwanted || late || full) {
                cut_short = Some(match () {
                    () if unwanted => End::Cancelled,
                    () if late => End::TimedOut,
                    () => End::OutOfSpace,
                });
                self.stop(control.as_deref());
                deadline = Some(Instant::now() + GRACE);
            } else if late {
                self.kill();
                deadline = None;
            }
        }
        // Kill whatever the command left running in its process group.
        self.kill();
        let status = self.reap()?;
        Ok(cut_short.unwrap_or(End::Exited(status)))
    }

    /// Stops the process. A sandbox is asked to end, with its whole process tree, and is waited for; anything else is
    /// killed.
    fn stop(&self, control: Option<&Control>) {
        if !control.is_some_and(Control::end) {
            self.kill();
        }
    }

    /// Kills the process group and the process.
    fn kill(&self) {
        let pid = Pid::from_child(&self.child);
        let group = self.watchdog.as_ref().map_or(pid, Watchdog::group);
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }

    fn reap(&mut self) -> std::io::Result<ExitStatus> {
        if let Some(waiter) = self.waiter.take() {
            let _ = waiter.join();
        }
        drop(self.watchdog.take());
        self.child.wait()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // A no-op if the process was already reaped.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
            let _ = self.reap();
        }
    }
}

/// Consumer of the process's output.
struct Sink {
    output: Option<PipeReader>,
    to: Output,
}

impl Sink {
    /// Reads one piece. Returns whether there may be more available.
    fn read(&mut self) -> bool {
        let Some(output) = &mut self.output else { return false };
        let mut buffer = [0; 16 << 10];
        match output.read(&mut buffer) {
            Ok(0) => self.output = None,
            Ok(length) => {
                let piece = buffer.get(..length).unwrap_or_default();
                match &mut self.to {
                    Output::Captured(capture) => capture.push(piece),
                    Output::Session(session) => session.push(piece),
                }
                return true;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.output = None,
        }
        false
    }

    /// Reads what is left in the pipe, without waiting for its end: an escaped process may keep it open.
    fn drain(&mut self) {
        // A pipe holds at most a megabyte unless its size was raised; the limit keeps an escaped writer from blocking
        // this thread.
        let mut pieces = 1024;
        while pieces > 0 && self.read() {
            pieces -= 1;
        }
    }
}
