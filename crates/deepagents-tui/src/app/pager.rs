//! The full-screen pager.

use std::sync::Arc;

use ratatui::text::Line;

use super::event::PendingApproval;
use super::picker::Picker;
use super::state::TrustQuestion;
use super::transcript::Item;

/// The contents of a pager.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The whole conversation, nothing folded.
    Conversation,
    /// A transcript, such as that of a sub-agent.
    Items { title: String, items: Arc<Vec<Item>> },
    /// A call that needs a decision.
    Approval(Box<PendingApproval>),
    /// Calls that are decided on together.
    Together(Vec<PendingApproval>),
    /// The preview of the selected entry of this list.
    Preview(Arc<Picker>),
    /// Definitions or servers in the directory that need approval.
    Trust(Box<TrustQuestion>),
}

/// A scrolling view. Its position is a line of a part, so that only visible parts are laid out.
#[derive(Clone, Debug)]
pub(crate) struct Pager {
    pub(crate) source: Source,
    /// The part, and its line, in the first row.
    pub(crate) top: (usize, usize),
    /// The number of rows when it was last drawn.
    pub(crate) room: usize,
    /// Whether it stays at the end.
    pub(crate) at_end: bool,
}

impl Pager {
    /// Creates a pager at the end of the conversation.
    pub(crate) fn conversation() -> Self {
        Self { source: Source::Conversation, top: (0, 0), room: 0, at_end: true }
    }

    /// Creates a pager at the first line.
    pub(crate) fn of(source: Source) -> Self {
        Self { source, top: (0, 0), room: 0, at_end: false }
    }

    /// Returns the lines visible in `rows` rows. `part` lays out one of `parts` parts.
    pub(crate) fn view(
        &mut self,
        rows: usize,
        parts: usize,
        part: impl Fn(usize) -> Vec<Line<'static>>,
    ) -> Vec<Line<'static>> {
        self.room = rows;
        if self.at_end {
            self.top = back(parts, rows, &part, (parts, 0));
        }
        let mut lines = Vec::new();
        let (first, skip) = self.top;
        for at in first..parts {
            let all = part(at);
            lines.extend(all.into_iter().skip(if at == first { skip } else { 0 }));
            if lines.len() > rows {
                break;
            }
        }
        // The contents do not end above the last row if there is more to show above.
        if lines.len() < rows && self.top != (0, 0) && !self.at_end {
            self.at_end = true;
            return self.view(rows, parts, part);
        }
        self.at_end = lines.len() <= rows;
        lines.truncate(rows);
        lines
    }

    /// Scrolls by `by` lines, up if negative.
    pub(crate) fn scroll(&mut self, by: isize, parts: usize, part: impl Fn(usize) -> Vec<Line<'static>>) {
        if by < 0 {
            self.top = back(parts, by.unsigned_abs(), &part, self.top);
            self.at_end = false;
            return;
        }
        if self.at_end {
            return;
        }
        let (mut at, mut line) = self.top;
        let mut left = by.unsigned_abs();
        while at < parts {
            let length = part(at).len();
            if line + left < length {
                self.top = (at, line + left);
                return;
            }
            left -= length.saturating_sub(line);
            (at, line) = (at + 1, 0);
        }
        self.at_end = true;
    }
}

/// Returns the position `lines` lines before another.
fn back(
    parts: usize,
    lines: usize,
    part: &impl Fn(usize) -> Vec<Line<'static>>,
    from: (usize, usize),
) -> (usize, usize) {
    let (mut at, mut line) = (from.0.min(parts), from.1);
    let mut left = lines;
    loop {
        if left <= line {
            return (at, line - left);
        }
        left -= line;
        match at.checked_sub(1) {
            Some(before) => {
                at = before;
                line = part(at).len();
            }
            None => return (0, 0),
        }
    }
}
