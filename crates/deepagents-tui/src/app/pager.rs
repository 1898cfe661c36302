//! Reading everything whole.

use std::sync::Arc;

use ratatui::text::Line;

use super::event::PendingApproval;
use super::picker::Picker;
use super::state::TrustQuestion;
use super::transcript::Item;

/// What is read.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// The conversation, nothing folded.
    Conversation,
    /// What somebody else has said and done, such as a sub-agent.
    Items { title: String, items: Arc<Vec<Item>> },
    /// A call that waits for a decision.
    Approval(Box<PendingApproval>),
    /// Calls that are decided about together.
    Together(Vec<PendingApproval>),
    /// What is known of something that may be chosen in this list.
    Preview(Arc<Picker>),
    /// What a directory brings and nobody has agreed to yet.
    Trust(Box<TrustQuestion>),
}

/// A view that scrolls. It stands on a line of one of its parts, so that only what is seen has to be laid out.
#[derive(Clone, Debug)]
pub(crate) struct Pager {
    pub(crate) source: Source,
    /// The part and the line of it in the first row.
    pub(crate) top: (usize, usize),
    /// Rows that it had when it was last shown.
    pub(crate) room: usize,
    /// Whether the end is shown, wherever that is.
    pub(crate) at_end: bool,
}

impl Pager {
    /// Begins at the end of the conversation.
    pub(crate) fn conversation() -> Self {
        Self { source: Source::Conversation, top: (0, 0), room: 0, at_end: true }
    }

    /// Begins at the first line.
    pub(crate) fn of(source: Source) -> Self {
        Self { source, top: (0, 0), room: 0, at_end: false }
    }

    /// The lines that are seen in so many rows: `part` lays out one of `parts` parts.
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
        // What is shown never ends above the last row, if there is more above it.
        if lines.len() < rows && self.top != (0, 0) && !self.at_end {
            self.at_end = true;
            return self.view(rows, parts, part);
        }
        self.at_end = lines.len() <= rows;
        lines.truncate(rows);
        lines
    }

    /// Scrolls by so many lines, up where that is negative.
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

/// The place so many lines before another.
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
