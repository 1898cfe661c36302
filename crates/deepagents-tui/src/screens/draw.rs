//! What is drawn, and when.

use std::time::{Duration, Instant};

use ratatui::text::Line;

use super::Screens;
use crate::app::Overlay;
use crate::app::event::Event;
use crate::terminal::{Canvas, Graphics, Surface, cell};
use crate::title;
use crate::view::{self, Printed};

/// The minimum interval between two frames that no key press caused.
pub(super) const FRAME_INTERVAL: Duration = Duration::from_millis(16);
/// How long the size must be stable before a frame is drawn for it.
const RESIZE_DELAY: Duration = Duration::from_millis(150);

impl Screens {
    /// Draws the next frame, unless the last one is still being written or was drawn a moment ago, or the terminal is
    /// being resized.
    pub(super) fn draw(&mut self) {
        if self.until_settled().is_some() {
            return;
        }
        self.resized = None;
        if !self.dirty || self.output.is_busy() || (!self.urgent && self.drawn.elapsed() < FRAME_INTERVAL) {
            return;
        }
        (self.dirty, self.urgent, self.drawn) = (false, false, Instant::now());
        let (app, surface) = (&mut self.app, &mut self.surface);
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
            surface.shrink(frame.live.area.height);
            self.pictured |= print(surface, &frame.printed, self.preferences.images);
            surface.draw(&frame.live, frame.cursor);
        }
        self.show_title();
        let frame = self.surface.take();
        if frame.is_empty() {
            drop(self.app.update(Event::Drawn));
        } else {
            self.output.write(frame);
        }
    }

    /// Returns the time until the size counts as stable, if it changed a moment ago. A frame for an outdated size would
    /// wrap and leave its remains in the scrollback.
    pub(super) fn until_settled(&self) -> Option<Duration> {
        self.resized?.checked_add(RESIZE_DELAY)?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// Updates the title if it has changed.
    fn show_title(&mut self) {
        let preferences = &self.preferences;
        if !preferences.title && !preferences.progress {
            return;
        }
        let state = title::State::of(&self.app);
        let title = title::text(&self.app, state);
        if title != self.title {
            self.surface.send(&title::sequence(&title, state, preferences));
            self.title = title;
        }
    }

    /// Notifies the user that the agent waits or is done.
    pub(super) fn notify(&mut self, text: &str) {
        let wanted = &self.preferences.notifications;
        if wanted.bell {
            self.surface.send(b"\x07");
        }
        if wanted.terminal {
            let text: String = text.chars().filter(|c| !c.is_control()).take(100).collect();
            self.surface.send(format!("\x1b]9;deepagents: {text}\x07").as_bytes());
        }
        self.session.notify(text);
    }
}

/// Writes lines above the live area, with their images if the terminal can draw them. Returns whether an image was
/// drawn.
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
