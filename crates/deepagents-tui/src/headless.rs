//! The interface without a terminal, for tests and screenshots.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::{Event as TerminalEvent, KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use tokio::sync::mpsc;

use crate::app::effect::Effect;
use crate::app::event::Event;
use crate::app::{App, Moment, Overlay};
use crate::host::{Host, Options};
use crate::policy::Policy;
use crate::preferences::{KeyError, key_named};
use crate::screens::begin;
use crate::session::Session;
use crate::view::{self, Printer};

/// The interface as a user would see it, driven by simulated key presses. Runs, threads and files are real. The clock
/// is the machine's, plus what [`pass`](Self::pass) adds.
///
/// ```no_run
/// # async fn f(host: std::sync::Arc<dyn deepagents_tui::Host>, options: deepagents_tui::Options)
/// # -> Result<(), deepagents_tui::KeyError> {
/// use deepagents_tui::{Headless, Mode, Policy};
/// let mut screens = Headless::new(&host, Policy::new(Mode::Ask), options, 80, 24);
/// screens.type_text("What is here?").await;
/// screens.press("enter").await?;
/// screens.wait_for("A README").await;
/// println!("{}", screens.text());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Headless {
    /// How far the interface's clock is ahead of the machine's.
    ahead: Duration,
    app: App,
    session: Session,
    printer: Printer,
    events: mpsc::UnboundedReceiver<Event>,
    scrollback: Vec<String>,
    picture: Buffer,
    cursor: Option<(u16, u16)>,
    sent: Vec<String>,
    quit: bool,
}

/// Time limit for each wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

impl Headless {
    /// Starts the interface on a screen of this size.
    pub fn new(host: &Arc<dyn Host>, policy: Policy, options: Options, columns: u16, rows: u16) -> Self {
        let (app, session, events) = begin(host, policy, options, (columns.max(1), rows.max(1)));
        let picture = Buffer::default();
        let (scrollback, sent) = (Vec::new(), Vec::new());
        let printer = Printer::default();
        let (ahead, cursor, quit) = (Duration::ZERO, None, false);
        let mut screens = Self { ahead, app, session, printer, events, scrollback, picture, cursor, sent, quit };
        screens.draw();
        screens
    }

    /// Handles a terminal event.
    pub async fn event(&mut self, event: TerminalEvent) {
        self.take(Event::Terminal(event));
        self.catch_up().await;
    }

    /// Presses keys given by name, separated by spaces: `enter`, `esc`, `tab`, `shift-tab`, `up`, `ctrl-o`, `alt-b`,
    /// `y`, …
    ///
    /// # Errors
    /// Returns an error if one of the names is not a key; then no key is pressed.
    pub async fn press(&mut self, keys: &str) -> Result<(), KeyError> {
        let keys = keys.split_whitespace().map(key_named).collect::<Result<Vec<_>, _>>()?;
        for key in keys {
            self.event(TerminalEvent::Key(key)).await;
        }
        Ok(())
    }

    /// Types a text, one key at a time.
    pub async fn type_text(&mut self, text: &str) {
        for c in text.chars() {
            self.event(TerminalEvent::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE))).await;
        }
    }

    /// Advances the interface's clock.
    pub fn pass(&mut self, time: Duration) {
        self.ahead += time;
        self.take(Event::Tick);
        self.draw();
    }

    /// Resizes the screen.
    pub async fn resize(&mut self, columns: u16, rows: u16) {
        self.event(TerminalEvent::Resize(columns, rows)).await;
    }

    /// Waits until the text appears anywhere. Returns whether it did.
    pub async fn wait_for(&mut self, words: &str) -> bool {
        self.wait_until(|screens| screens.text().contains(words)).await
    }

    /// Waits until the text appears in the live area. Returns whether it did.
    pub async fn wait_until_live(&mut self, words: &str) -> bool {
        self.wait_until(|screens| screens.live().join("\n").contains(words)).await
    }

    /// Waits until no work is in progress. Returns whether that state was reached.
    pub async fn wait_idle(&mut self) -> bool {
        self.wait_until(|screens| !screens.app.is_busy()).await
    }

    async fn wait_until(&mut self, met: impl Fn(&Self) -> bool) -> bool {
        let end = Instant::now() + WAIT_TIMEOUT;
        loop {
            if met(self) {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left, self.events.recv()).await {
                Ok(Some(event)) => {
                    self.take(event);
                    self.catch_up().await;
                }
                Ok(None) | Err(_) => return met(self),
            }
        }
    }

    /// Returns all visible text: the scrollback, and the live area or the overlay that covers it.
    pub fn text(&self) -> String {
        let mut lines = self.scrollback.clone();
        lines.extend(self.live());
        lines.join("\n")
    }

    /// Returns the rows of the live area, or of the overlay that covers the screen.
    pub fn live(&self) -> Vec<String> {
        let area = self.picture.area;
        (0..area.height)
            .map(|y| {
                let row: String =
                    (0..area.width).filter_map(|x| self.picture.cell((x, y))).map(|cell| cell.symbol()).collect();
                row.trim_end().to_owned()
            })
            .collect()
    }

    /// Returns the position of the cursor in the live area.
    pub fn cursor(&self) -> Option<(u16, u16)> {
        self.cursor
    }

    /// Returns the texts copied to the clipboard and the notifications sent, in order.
    pub fn sent(&self) -> &[String] {
        &self.sent
    }

    /// Returns whether the user has quit.
    pub fn has_ended(&self) -> bool {
        self.quit
    }

    /// Returns the id of the open thread.
    pub fn thread(&self) -> Option<String> {
        self.session.thread()
    }

    fn take(&mut self, event: Event) {
        self.app.now = Moment(Instant::now() + self.ahead);
        let effects = self.app.update(event);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Quit | Effect::Demo => {
                    self.quit = true;
                    if let Err(problem) = self.session.hand_over() {
                        self.app.note(problem, true);
                    }
                }
                Effect::Copy(text) => self.sent.push(text),
                Effect::Notify(text) => {
                    self.session.notify(&text);
                    self.sent.push(text);
                }
                Effect::Suspend => {}
                // There is no terminal to run an editor in.
                Effect::Edit(text) => self.take(Event::EditorClosed(Ok(text))),
                other => self.session.effect(other),
            }
        }
    }

    /// Handles all pending events, then draws.
    async fn catch_up(&mut self) {
        tokio::task::yield_now().await;
        while let Ok(event) = self.events.try_recv() {
            self.take(event);
        }
        self.draw();
    }

    fn draw(&mut self) {
        if matches!(self.app.overlay, Overlay::Pager(_)) {
            self.picture = view::pager(&mut self.app).unwrap_or_default();
            self.cursor = None;
        } else {
            let is_anew = std::mem::take(&mut self.app.repaint);
            let frame = view::frame(&mut self.app, &mut self.printer, is_anew);
            self.scrollback.extend(frame.printed.lines.iter().map(ToString::to_string));
            (self.picture, self.cursor) = (frame.live, frame.cursor);
        }
        let effects = self.app.update(Event::Drawn);
        self.carry_out(effects);
    }
}
