//! The usage and cost of the thread. Its log overrides what was counted from events.

use deepagents::Usage;

use super::App;
use super::event::Event;

/// Whether the log may show other totals than those counted, after this event.
pub(super) fn is_spent_anew(event: &Event) -> bool {
    matches!(
        event,
        Event::Connected(Ok(_))
            | Event::Opened(Ok(_))
            | Event::Watched { .. }
            | Event::ThreadChangedElsewhere(_)
            | Event::RunEnded(_)
            | Event::Compacted(_)
            | Event::BackgroundEnded { .. }
    )
}

impl App {
    /// Adds the cost of an answer.
    pub(super) fn cost(&mut self, path: &[String], dollars: f64) {
        *self.session.dollars.get_or_insert_default() += dollars;
        self.live.cost(path, dollars);
    }

    /// Replaces the counted totals by those of the thread's log, unless a run is adding to them.
    pub(super) fn counted(&mut self, thread: Option<&str>, usage: Usage, dollars: Option<f64>) {
        if self.session.thread.as_deref() != thread || (self.is_busy() && !self.waits) {
            return;
        }
        let (before, paid) = &mut self.spent_before;
        before.output = (before.output + usage.output).saturating_sub(self.session.usage.output);
        *paid += dollars.unwrap_or_default() - self.session.dollars.unwrap_or_default();
        (self.session.usage, self.session.dollars) = (usage, dollars);
    }
}
