//! The main loop: receive events, update the state, draw.

mod away;
mod begin;
mod draw;
mod wake;

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use crossterm::event::Event as TerminalEvent;
use futures_util::FutureExt;
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;

use crate::app::effect::Effect;
use crate::app::event::Event;
use crate::app::{App, Moment, Work};
use crate::host::{Host, Options};
use crate::policy::Policy;
use crate::preferences::Preferences;
use crate::session::Session;
use crate::terminal::{Input, Modes, Output, Surface, last_panic, size, write};
use crate::title;
use crate::view::Printer;
pub(crate) use begin::begin;
use wake::{Signals, Woken};

/// Time limit for confirming that a question was written, before a key press is taken for something other than its
/// answer.
const WRITE_TIMEOUT: Duration = Duration::from_millis(50);
/// Time limit for a run to end when the program quits.
const QUIT_TIMEOUT: Duration = Duration::from_millis(1_500);

/// How the interface ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The reason.
    pub end: End,
    /// The number of runs handed over to separate processes, or why one could not be.
    pub handed_over: Result<usize, String>,
    /// The open thread, if one was started and the terminal is still there.
    pub thread: Option<String>,
}

/// Why the interface ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The user quit.
    Quit,
    /// The user asked for the demonstration.
    Demo,
    /// The program received this signal.
    Signal(i32),
    /// The program panicked, with this message.
    Panic(String),
}

/// Reports why the interface cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// The terminal cannot be used.
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] io::Error),
}

/// Shows the interface until the user quits, or a signal or a panic ends it. The terminal is restored in each case.
/// Await this on the main thread of a multi-threaded runtime.
///
/// # Errors
/// Returns an error if the terminal cannot be used.
pub async fn run(host: Arc<dyn Host>, policy: Policy, options: Options) -> Result<Ended, TuiError> {
    let (modes, signals) = (Modes::enter()?, Signals::new()?);
    let mut screens = Screens::new(host, policy, options, modes, signals);
    let titled = screens.preferences.title;
    if titled {
        screens.surface.send(title::PUSH);
    }
    let looped = AssertUnwindSafe(screens.run()).catch_unwind().await;
    let end = match looped {
        Ok(end) => end?,
        Err(_) => End::Panic(last_panic().unwrap_or_else(|| "for an unknown reason".to_owned())),
    };
    // Let the frame in flight finish, as no frame may follow the restored terminal. If the terminal accepts no more
    // output, leave it alone: a write to it would block forever.
    let is_stuck = tokio::time::timeout(QUIT_TIMEOUT, screens.output.written_if_busy()).await.is_err();
    if is_stuck {
        screens.modes.abandon();
        return Ok(Ended { end, handed_over: Ok(0), thread: None });
    }
    screens.surface.leave();
    if titled {
        screens.surface.send(&title::pop(screens.preferences.progress));
    }
    // If the terminal is gone, there is nothing to restore.
    let _ = write(&screens.surface.take());
    let _ = screens.modes.suspend();
    // Anything slower is lost, as in a crash.
    let _ = tokio::time::timeout(QUIT_TIMEOUT, screens.session.wait_until_saved()).await;
    screens.session.end().await;
    let thread = screens.session.thread();
    let handed_over = if end == End::Quit { screens.session.hand_over() } else { Ok(0) };
    Ok(Ended { end, handed_over, thread })
}

/// The state of the main loop.
struct Screens {
    app: App,
    printer: Printer,
    session: Session,
    host: Arc<dyn Host>,
    events: mpsc::UnboundedReceiver<Event>,
    modes: Modes,
    surface: Surface,
    output: Output,
    input: Input,
    signals: Signals,
    /// Whether anything has changed since the last frame, and whether a key press caused it.
    dirty: bool,
    urgent: bool,
    drawn: Instant,
    /// When the size last changed, if no frame has been drawn for it yet.
    resized: Option<Instant>,
    quit: bool,
    /// Whether to show the demonstration after quitting.
    demo: bool,
    preferences: Preferences,
    /// Whether an image has been drawn.
    pictured: bool,
    /// The current window title.
    title: String,
}

impl Screens {
    fn new(host: Arc<dyn Host>, policy: Policy, options: Options, modes: Modes, signals: Signals) -> Self {
        let ((columns, rows), preferences) = (size(), options.preferences.clone());
        let surface = Surface::new(columns, rows, options.colour, preferences.unicode);
        let (app, session, events) = begin(&host, policy, options, (columns, rows));
        Self {
            app,
            printer: Printer::default(),
            session,
            host,
            events,
            modes,
            surface,
            output: Output::new(),
            input: Input::new(),
            signals,
            dirty: true,
            urgent: true,
            drawn: Instant::now(),
            resized: None,
            quit: false,
            demo: false,
            preferences,
            pictured: false,
            title: String::new(),
        }
    }

    async fn run(&mut self) -> Result<End, TuiError> {
        loop {
            self.draw();
            match self.wait().await {
                Woken::Written(Ok(())) => {
                    let effects = self.app.update(Event::Drawn);
                    self.carry_out(effects).await?;
                    continue;
                }
                Woken::Terminal(Some(Ok(event))) => {
                    self.urgent = true;
                    if matches!(event, TerminalEvent::Resize(..)) {
                        self.resized = Some(Instant::now());
                    }
                    // The user may answer a question before the write that showed it is confirmed.
                    if self.app.questions.has_unseen_part()
                        && self.output.is_busy()
                        && let Ok(Ok(())) = tokio::time::timeout(WRITE_TIMEOUT, self.output.written()).await
                    {
                        drop(self.app.update(Event::Drawn));
                    }
                    self.take(Event::Terminal(event)).await?;
                }
                // The terminal is gone.
                Woken::Terminal(_) | Woken::Written(Err(_)) => {
                    return self.leave(SignalKind::hangup().as_raw_value()).await;
                }
                Woken::Event(event) => {
                    let mut next = event;
                    while let Some(event) = next {
                        self.take(event).await?;
                        next = self.events.try_recv().ok();
                    }
                }
                Woken::Tick => {
                    self.urgent = true;
                    self.take(Event::Tick).await?;
                }
                Woken::Frame => {}
                Woken::Signal(number) => return self.leave(number).await,
                Woken::Suspend => self.suspend().await?,
                Woken::Continued => {
                    // As after a suspension, a terminal that is gone is noticed elsewhere.
                    let _ = self.modes.resume();
                    self.app.repaint = true;
                }
            }
            self.dirty = true;
            if self.quit {
                self.end_run().await;
                return Ok(if self.demo { End::Demo } else { End::Quit });
            }
        }
    }

    async fn take(&mut self, event: Event) -> Result<(), TuiError> {
        self.app.now = Moment::default();
        let effects = self.app.update(event);
        self.carry_out(effects).await
    }

    async fn carry_out(&mut self, effects: Vec<Effect>) -> Result<(), TuiError> {
        for effect in effects {
            match effect {
                Effect::Quit => self.quit = true,
                Effect::Suspend => self.suspend().await?,
                Effect::Copy(text) => {
                    let text = base64::engine::general_purpose::STANDARD.encode(text);
                    self.surface.send(format!("\x1b]52;c;{text}\x07").as_bytes());
                }
                Effect::Notify(text) => self.notify(&text),
                Effect::Demo => (self.quit, self.demo) = (true, true),
                Effect::Edit(text) => {
                    let edited = self.edit(text).await;
                    self.app.now = Moment::default();
                    drop(self.app.update(Event::EditorClosed(edited)));
                }
                other => self.session.effect(other),
            }
        }
        Ok(())
    }

    async fn leave(&mut self, number: i32) -> Result<End, TuiError> {
        if number == SignalKind::interrupt().as_raw_value() {
            self.session.stop_background();
            self.end_run().await;
        } else {
            // The user has not cancelled the task, so it can be resumed later.
            self.session.suspend_runs(QUIT_TIMEOUT).await;
        }
        Ok(End::Signal(number))
    }

    /// Cancels the run, so that its thread records the cancellation, or the user's shell command.
    async fn end_run(&mut self) {
        if !self.session.is_running() && !matches!(self.app.work, Work::Shell(_)) {
            return;
        }
        self.session.cancel();
        let ended = async {
            while let Some(event) = self.events.recv().await {
                if matches!(event, Event::RunEnded(_) | Event::ShellEnded { .. }) {
                    return;
                }
            }
        };
        // Anything slower is cut off, as in a crash; the thread can be resumed.
        let _ = tokio::time::timeout(QUIT_TIMEOUT, ended).await;
    }
}
