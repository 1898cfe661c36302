//! The loop: what comes in, what is done about it, what is drawn.

mod away;
mod begin;
mod draw;
mod wake;

use std::io::{self, Write};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use crossterm::event::Event as TerminalEvent;
use futures_util::FutureExt;
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;

use crate::app::event::{Effect, Event};
use crate::app::{App, Work};
use crate::host::{Host, Options};
use crate::policy::Policy;
use crate::preferences::Preferences;
use crate::session::Session;
use crate::terminal::{Input, Modes, Output, Surface, last_panic, size};
use crate::title;
use crate::view::Printer;
pub(crate) use begin::begin;
use wake::{Signals, Woken};

/// So long the word is waited for that a question was written, before a key is taken for something else.
const WRITTEN: Duration = Duration::from_millis(50);
/// How long a run may take to end when the program does.
const LEAVE: Duration = Duration::from_millis(1_500);

/// How the screens ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub end: End,
    /// Runs that processes of their own go on with, or why there is none for one.
    pub handed_over: Result<usize, String>,
    /// The thread that was open, if one was begun and there is a terminal to say so on.
    pub thread: Option<String>,
}

/// Why the screens ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The person left.
    Quit,
    /// The person wants to see the demonstration.
    Demo,
    /// A signal of this number.
    Signal(i32),
    /// A mistake of the program, in words.
    Panic(String),
}

/// Why there are no screens.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// The terminal cannot be used.
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[from] io::Error),
}

/// Shows the screens until the person leaves, or a signal or a mistake ends them; the terminal is whole again then. To be
/// awaited on the main thread of a runtime of several.
///
/// # Errors
/// When the terminal cannot be used.
pub async fn run(host: Arc<dyn Host>, policy: Policy, options: Options) -> Result<Ended, TuiError> {
    let mut modes = Modes::enter()?;
    let (columns, rows) = size();
    let titled = options.preferences.title;
    let mut surface = Surface::new(columns, rows, options.colour, options.preferences.unicode);
    if titled {
        surface.send(title::PUSH);
    }
    let mut screens = Screens::new(host, policy, options, (columns, rows))?;
    let looped = AssertUnwindSafe(screens.run(&mut modes, &mut surface)).catch_unwind().await;
    let end = match looped {
        Ok(end) => end?,
        Err(_) => End::Panic(last_panic().unwrap_or_else(|| "for an unknown reason".to_owned())),
    };
    // What is being written is let out first: a frame must not come after the terminal is restored. A terminal that takes
    // nothing any more is left alone: whoever wrote to it would never come back.
    let is_stuck = tokio::time::timeout(LEAVE, screens.output.written_if_busy()).await.is_err();
    if is_stuck {
        modes.abandon();
        return Ok(Ended { end, handed_over: Ok(0), thread: None });
    }
    surface.leave();
    if titled {
        surface.send(&title::pop(screens.preferences.progress));
    }
    let frame = surface.take();
    {
        let mut out = io::stdout().lock();
        // A terminal that is gone need not be tidy.
        let _ = out.write_all(&frame).and_then(|()| out.flush());
    }
    let _ = modes.suspend(false);
    // What takes longer is lost, as by a crash.
    let _ = tokio::time::timeout(LEAVE, screens.session.keep_all()).await;
    screens.session.end().await;
    let thread = screens.session.thread();
    let handed_over = if end == End::Quit { screens.session.hand_over() } else { Ok(0) };
    Ok(Ended { end, handed_over, thread })
}

/// Everything that the loop needs.
struct Screens {
    app: App,
    printer: Printer,
    session: Session,
    host: Arc<dyn Host>,
    events: mpsc::UnboundedReceiver<Event>,
    output: Output,
    input: Input,
    /// Whether something has changed since the last frame, and whether a key has.
    dirty: bool,
    urgent: bool,
    drawn: Instant,
    /// When the size was changed last, where nothing was drawn for it yet.
    resized: Option<Instant>,
    quit: bool,
    /// Whether the demonstration is to be shown then.
    demo: bool,
    preferences: Preferences,
    /// Whether a picture was drawn.
    pictured: bool,
    /// What the window's title says.
    title: String,
}

impl Screens {
    fn new(host: Arc<dyn Host>, policy: Policy, options: Options, size: (u16, u16)) -> Result<Self, TuiError> {
        let preferences = options.preferences.clone();
        let (app, session, events) = begin(&host, policy, options, size);
        Ok(Self {
            app,
            printer: Printer::default(),
            session,
            host,
            events,
            output: Output::new(),
            input: Input::new(),
            dirty: true,
            urgent: true,
            drawn: Instant::now(),
            resized: None,
            quit: false,
            demo: false,
            preferences,
            pictured: false,
            title: String::new(),
        })
    }

    async fn run(&mut self, modes: &mut Modes, surface: &mut Surface) -> Result<End, TuiError> {
        let mut signals = Signals::new()?;
        loop {
            self.draw(surface);
            match self.wait(&mut signals).await {
                Woken::Written(written) => {
                    written?;
                    let effects = self.app.update(Event::Drawn);
                    self.carry_out(effects, modes, surface).await?;
                    continue;
                }
                Woken::Terminal(Some(Ok(event))) => {
                    self.urgent = true;
                    if matches!(event, TerminalEvent::Resize(..)) {
                        self.resized = Some(Instant::now());
                    }
                    // Whoever answers what was just written may be quicker than the word that it was.
                    if self.app.questions.is_unseen()
                        && self.output.is_busy()
                        && let Ok(written) = tokio::time::timeout(WRITTEN, self.output.written()).await
                    {
                        written?;
                        drop(self.app.update(Event::Drawn));
                    }
                    self.take(Event::Terminal(event), modes, surface).await?;
                }
                // The terminal is gone.
                Woken::Terminal(_) => return self.leave(SignalKind::hangup().as_raw_value()).await,
                Woken::Event(event) => {
                    let mut next = event;
                    while let Some(event) = next {
                        self.take(event, modes, surface).await?;
                        next = self.events.try_recv().ok();
                    }
                }
                Woken::Tick => {
                    self.urgent = true;
                    self.take(Event::Tick, modes, surface).await?;
                }
                Woken::Frame => {}
                Woken::Signal(number) => return self.leave(number).await,
                Woken::Suspend => {
                    self.finish_writing().await;
                    self.suspend(modes, surface)?;
                }
                Woken::GoOn => {
                    modes.resume()?;
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

    async fn take(&mut self, event: Event, modes: &mut Modes, surface: &mut Surface) -> Result<(), TuiError> {
        self.app.now = Instant::now();
        let effects = self.app.update(event);
        self.carry_out(effects, modes, surface).await
    }

    async fn carry_out(
        &mut self,
        effects: Vec<Effect>,
        modes: &mut Modes,
        surface: &mut Surface,
    ) -> Result<(), TuiError> {
        for effect in effects {
            match effect {
                Effect::Quit => self.quit = true,
                Effect::Suspend => {
                    self.finish_writing().await;
                    self.suspend(modes, surface)?;
                }
                Effect::Copy(text) => {
                    let text = base64::engine::general_purpose::STANDARD.encode(text);
                    surface.send(format!("\x1b]52;c;{text}\x07").as_bytes());
                }
                Effect::Notify(text) => self.notify(&text, surface),
                Effect::Demo => (self.quit, self.demo) = (true, true),
                Effect::Edit(text) => {
                    let edited = self.edit(text, modes, surface).await;
                    self.app.now = Instant::now();
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
            // Nobody has ended the task: it is gone on with later.
            self.session.leave_runs(LEAVE).await;
        }
        Ok(End::Signal(number))
    }

    /// Ends the run, so that its thread says that it was ended, or the command of the person.
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
        // What takes longer is cut off, as by a crash: the thread can be gone on with.
        let _ = tokio::time::timeout(LEAVE, ended).await;
    }
}
