//! What the main loop waits for.

use std::io;
use std::time::{Duration, Instant};

use crossterm::event::Event as TerminalEvent;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Screens;
use super::draw::FRAME_INTERVAL;
use crate::app::event::Event;

/// The interval at which clocks are updated.
const TICK: Duration = Duration::from_millis(100);

/// The signals that terminate, stop and continue the program.
pub(super) struct Signals {
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
    pub(super) stop: Signal,
    cont: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            stop: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
            cont: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }
}

/// What woke the main loop.
pub(super) enum Woken {
    Written(io::Result<()>),
    Terminal(Option<io::Result<TerminalEvent>>),
    Event(Option<Event>),
    Tick,
    Frame,
    Signal(i32),
    Suspend,
    Continued,
}

impl Screens {
    pub(super) async fn wait(&mut self) -> Woken {
        let moving = self.app.is_moving();
        let since_frame = self.drawn.elapsed();
        let unsettled = self.until_settled();
        let waits_for_frame = self.dirty && !self.output.is_busy();
        let next_frame = unsettled.unwrap_or_else(|| FRAME_INTERVAL.saturating_sub(since_frame));
        let wakes = self.app.wakes();
        let later = wakes.map_or(TICK, |at| at.saturating_duration_since(Instant::now()));
        tokio::select! {
            biased;
            written = self.output.written() => Woken::Written(written),
            _ = self.signals.terminate.recv() => Woken::Signal(SignalKind::terminate().as_raw_value()),
            _ = self.signals.hangup.recv() => Woken::Signal(SignalKind::hangup().as_raw_value()),
            _ = self.signals.interrupt.recv() => Woken::Signal(SignalKind::interrupt().as_raw_value()),
            _ = self.signals.stop.recv() => Woken::Suspend,
            _ = self.signals.cont.recv() => Woken::Continued,
            event = self.input.next() => Woken::Terminal(event),
            event = self.events.recv() => Woken::Event(event),
            () = tokio::time::sleep(next_frame), if waits_for_frame => Woken::Frame,
            () = tokio::time::sleep(TICK.saturating_sub(since_frame)), if moving && !waits_for_frame => Woken::Tick,
            () = tokio::time::sleep(later), if wakes.is_some() && !moving && !waits_for_frame => Woken::Tick,
        }
    }
}
