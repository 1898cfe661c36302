//! The loop: what comes in, what is done about it, what is drawn.

use std::io::{self, Write};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use crossterm::event::Event as TerminalEvent;
use futures_util::FutureExt;
use ratatui::text::Line;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::app::event::{Effect, Event};
use crate::app::{App, Overlay, SessionInfo, Work};
use crate::host::{Begin, Host, Options};
use crate::input::{History, Vi};
use crate::policy::Policy;
use crate::preferences::{KeyMap, Preferences};
use crate::session::Session;
use crate::terminal::{Canvas, Graphics, Input, Modes, Output, Surface, cell, last_panic, size};
use crate::theme::Themes;
use crate::title;
use crate::view::{self, Printed, Printer};

/// So long the word is waited for that a question was written, before a key is taken for something else.
const WRITTEN: Duration = Duration::from_millis(50);
/// The shortest time between two frames that no key asked for.
const FRAME: Duration = Duration::from_millis(16);
/// How long a size has to stay before it is drawn for.
const SETTLED: Duration = Duration::from_millis(150);
/// How often a clock moves.
const TICK: Duration = Duration::from_millis(100);
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
    let alternate = surface.is_alternate();
    let hung_up = matches!(end, End::Signal(number) if number == SignalKind::hangup().as_raw_value());
    if !hung_up {
        surface.leave();
        if titled {
            surface.send(&title::pop(screens.preferences.progress));
        }
        let frame = surface.take();
        let mut out = io::stdout().lock();
        // A terminal that is gone need not be tidy.
        let _ = out.write_all(&frame).and_then(|()| out.flush());
    }
    let _ = modes.suspend(alternate && hung_up);
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

/// The signals that end the program or send it to sleep.
struct Signals {
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
    stop: Signal,
    go_on: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            stop: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
            go_on: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }
}

/// What woke the loop.
enum Woken {
    Written(io::Result<()>),
    Terminal(Option<io::Result<TerminalEvent>>),
    Event(Option<Event>),
    Tick,
    Frame,
    Signal(i32),
    Suspend,
    GoOn,
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

    async fn wait(&mut self, signals: &mut Signals) -> Woken {
        let moving = self.app.is_moving();
        let since_frame = self.drawn.elapsed();
        let unsettled = self.until_settled();
        let waits_for_frame = self.dirty && !self.output.is_busy();
        let next_frame = unsettled.unwrap_or_else(|| FRAME.saturating_sub(since_frame));
        let wakes = self.app.wakes();
        let later = wakes.map_or(TICK, |at| at.saturating_duration_since(Instant::now()));
        tokio::select! {
            biased;
            written = self.output.written() => Woken::Written(written),
            _ = signals.terminate.recv() => Woken::Signal(SignalKind::terminate().as_raw_value()),
            _ = signals.hangup.recv() => Woken::Signal(SignalKind::hangup().as_raw_value()),
            _ = signals.interrupt.recv() => Woken::Signal(SignalKind::interrupt().as_raw_value()),
            _ = signals.stop.recv() => Woken::Suspend,
            _ = signals.go_on.recv() => Woken::GoOn,
            event = self.input.next() => Woken::Terminal(event),
            event = self.events.recv() => Woken::Event(event),
            () = tokio::time::sleep(next_frame), if waits_for_frame => Woken::Frame,
            () = tokio::time::sleep(TICK.saturating_sub(since_frame)), if moving && !waits_for_frame => Woken::Tick,
            () = tokio::time::sleep(later), if wakes.is_some() && !moving && !waits_for_frame => Woken::Tick,
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

    /// Makes the next frame, unless the last one is still being written or came a moment ago, or the size is being changed.
    fn draw(&mut self, surface: &mut Surface) {
        if self.until_settled().is_some() {
            return;
        }
        self.resized = None;
        if !self.dirty || self.output.is_busy() || (!self.urgent && self.drawn.elapsed() < FRAME) {
            return;
        }
        (self.dirty, self.urgent, self.drawn) = (false, false, Instant::now());
        let app = &mut self.app;
        if matches!(app.overlay, Overlay::Pager(_)) {
            surface.switch(true);
            if surface.size() != app.size {
                surface.clear(app.size.0, app.size.1);
                app.repaint = true;
            }
            if let Some(picture) = view::pager(app) {
                surface.draw(&picture, None);
            }
        } else {
            surface.switch(false);
            let is_anew = std::mem::take(&mut app.repaint);
            if is_anew {
                if let Some(graphics) = self.preferences.images.filter(|_| self.pictured) {
                    surface.send(graphics.erase());
                }
                surface.clear(app.size.0, app.size.1);
            }
            let frame = view::frame(app, &mut self.printer, is_anew);
            self.pictured |= print(surface, &frame.printed, self.preferences.images);
            surface.draw(&frame.live, frame.cursor);
        }
        self.show_title(surface);
        let frame = surface.take();
        if frame.is_empty() {
            drop(self.app.update(Event::Drawn));
        } else {
            self.output.write(frame);
        }
    }

    /// How long it is until the size counts as settled, where it was changed a moment ago: what is drawn for a size that the
    /// terminal has no more wraps, and is in the scrollback then.
    fn until_settled(&self) -> Option<Duration> {
        self.resized?.checked_add(SETTLED)?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// Tells the person that the agent waits or is done.
    fn notify(&mut self, text: &str, surface: &mut Surface) {
        let wanted = &self.preferences.notifications;
        if wanted.bell {
            surface.send(b"\x07");
        }
        if wanted.terminal {
            let text: String = text.chars().filter(|c| !c.is_control()).take(100).collect();
            surface.send(format!("\x1b]9;deepagents: {text}\x07").as_bytes());
        }
        self.session.notify(text);
    }

    /// Says in the title what goes on, where that has changed.
    fn show_title(&mut self, surface: &mut Surface) {
        let preferences = &self.preferences;
        if !preferences.title && !preferences.progress {
            return;
        }
        let state = title::State::of(&self.app);
        let title = title::text(&self.app, state);
        if title != self.title {
            surface.send(&title::sequence(&title, state, preferences));
            self.title = title;
        }
    }

    async fn finish_writing(&mut self) {
        self.output.written_if_busy().await;
    }

    /// Gives the terminal to the shell until the person comes back.
    fn suspend(&mut self, modes: &mut Modes, surface: &mut Surface) -> Result<(), TuiError> {
        let alternate = surface.is_alternate();
        self.app.overlay = Overlay::None;
        surface.leave();
        let frame = surface.take();
        {
            let mut out = io::stdout().lock();
            out.write_all(&frame)?;
            out.flush()?;
        }
        modes.suspend(alternate)?;
        self.input.suspend();
        // The signal that cannot be caught: the one that was is taken already.
        let stopped = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
        stopped.map_err(io::Error::from)?;
        modes.resume()?;
        self.input.resume();
        let (columns, rows) = size();
        (self.app.size, self.app.repaint) = ((columns, rows), true);
        Ok(())
    }

    /// Lets the person write a text with an editor.
    async fn edit(&mut self, text: String, modes: &mut Modes, surface: &mut Surface) -> Result<String, String> {
        self.finish_writing().await;
        let file = tempfile::Builder::new().prefix("message-").suffix(".md").tempfile();
        let mut file = file.map_err(|error| format!("no file for the editor can be made: {error}"))?;
        file.write_all(text.as_bytes()).map_err(|error| format!("the text cannot be given to the editor: {error}"))?;
        let path = file.into_temp_path();
        surface.leave();
        let frame = surface.take();
        let prepared = {
            let mut out = io::stdout().lock();
            out.write_all(&frame).and_then(|()| out.flush())
        };
        prepared.and_then(|()| modes.suspend(false)).map_err(|error| error.to_string())?;
        self.input.suspend();
        let editor = self.host.editor();
        // A command with arguments, as the variables may hold.
        let mut command = tokio::process::Command::new("sh");
        command.arg("-c").arg(format!("{editor} \"$1\"")).arg("editor").arg(&path);
        let status = command.status().await;
        modes.take_back().map_err(|error| error.to_string())?;
        self.input.resume();
        let (columns, rows) = size();
        (self.app.size, self.app.repaint) = ((columns, rows), true);
        match status {
            Ok(status) if status.success() => {
                std::fs::read_to_string(&path).map_err(|error| format!("what the editor left cannot be read: {error}"))
            }
            Ok(status) => Err(format!("the editor `{editor}` ended with {status}; the text stays as it was")),
            Err(error) => Err(format!("the editor `{editor}` cannot be run: {error}")),
        }
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
        if !self.session.is_running() && !matches!(self.app.work, Work::Shell { .. }) {
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

/// Writes lines above the live area, with their pictures where the terminal draws them; says whether there were any.
fn print(surface: &mut Surface, printed: &Printed, images: Option<Graphics>) -> bool {
    let (mut from, mut drawn) = (0, false);
    for (at, picture) in images.iter().flat_map(|_| &printed.pictures) {
        commit(surface, printed.lines.get(from..*at));
        from = *at;
        let columns = surface.size().0.saturating_sub(1);
        let canvas = Canvas { columns, rows: surface.room(), cell: cell() };
        if let Some(drawing) = images.and_then(|graphics| graphics.draw(picture, canvas)) {
            surface.picture(&drawing);
            drawn = true;
        }
    }
    commit(surface, printed.lines.get(from..));
    drawn
}

fn commit(surface: &mut Surface, lines: Option<&[Line<'_>]>) {
    if let Some(lines) = lines.filter(|lines| !lines.is_empty()) {
        surface.commit(lines);
    }
}

/// The state and the session that screens begin with; the agent is being made.
pub(crate) fn begin(
    host: &Arc<dyn Host>,
    policy: Policy,
    options: Options,
    size: (u16, u16),
) -> (App, Session, mpsc::UnboundedReceiver<Event>) {
    let (to, events) = mpsc::unbounded_channel();
    let preferences = &options.preferences;
    let (themes, theme, mut problems) = Themes::new(preferences, options.colour);
    let (keys, wrong) = KeyMap::new(&preferences.keys);
    problems.extend(wrong);
    let facts = SessionInfo {
        version: options.version,
        model: options.model,
        directory: short_path(&options.root, options.home.as_deref()),
        ..SessionInfo::default()
    };
    let history = History::open(options.history);
    let mut app = App::new(size, (themes, theme), options.mode, facts, history);
    app.debug = options.debug;
    app.keys = keys;
    app.vi = preferences.vi.then(Vi::default);
    app.providers = host.providers();
    app.has_status_command = preferences.status_line.is_some();
    for problem in problems {
        app.note(problem, true);
    }
    let session = Session::new(host.clone(), policy, to, (options.root, options.home), options.shell, preferences);
    if options.onboarding {
        app.without_model = true;
        // Who goes on with a thread sees that first; a provider is asked for once something is said.
        if options.begin == Begin::New {
            app.choose_provider();
        }
    }
    if !options.onboarding || options.begin != Begin::New {
        session.connect(None);
    }
    if options.begin != Begin::New {
        session.begin(options.begin);
    }
    (app, session, events)
}

/// A path as people write it, below their home with a tilde.
fn short_path(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}
