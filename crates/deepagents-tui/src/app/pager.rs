//! The full-screen pager.

use std::sync::Arc;

use ratatui::text::Line;

use super::event::PendingApproval;
use super::picker::Picker;
use super::reading::TrustQuestion;
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
    /// The first part that was last drawn, and the number of its lines, so that scrolling within it lays nothing out.
    measured: Option<(usize, usize)>,
    /// The number of rows when it was last drawn.
    pub(crate) room: usize,
    /// Whether it stays at the end.
    pub(crate) at_end: bool,
    /// Whether the end has been laid out, and whether it has been on the screen.
    shows_end: bool,
    read: bool,
}

impl Pager {
    /// Creates a pager at the end of the conversation.
    pub(crate) fn conversation() -> Self {
        Self { at_end: true, ..Self::of(Source::Conversation) }
    }

    /// Creates a pager at the first line.
    pub(crate) fn of(source: Source) -> Self {
        Self { source, top: (0, 0), measured: None, room: 0, at_end: false, shows_end: false, read: false }
    }

    /// Marks what was laid out last as shown.
    pub(crate) fn drawn(&mut self) {
        self.read |= self.shows_end;
    }

    /// Returns whether the end has been on the screen, so that a question about the contents can be answered with yes.
    pub(crate) fn is_read(&self) -> bool {
        self.read
    }

    /// Returns whether the end has been laid out.
    pub(crate) fn has_shown_end(&self) -> bool {
        self.shows_end
    }

    /// Returns the lines visible in `rows` rows. `part` lays out one of `parts` parts.
    pub(crate) fn view(
        &mut self,
        rows: usize,
        parts: usize,
        part: impl Fn(usize) -> Vec<Line<'static>>,
    ) -> Vec<Line<'static>> {
        self.room = rows;
        if !self.at_end {
            let mut lines = Vec::new();
            let (first, skip) = self.top;
            for at in first..parts {
                let all = part(at);
                if at == first {
                    self.measured = Some((first, all.len()));
                }
                lines.extend(all.into_iter().skip(if at == first { skip } else { 0 }));
                if lines.len() > rows {
                    lines.truncate(rows);
                    return lines;
                }
            }
            self.at_end = true;
            self.shows_end = true;
            // The contents do not end above the last row if there is more to show above.
            if lines.len() == rows || self.top == (0, 0) {
                return lines;
            }
        }
        self.shows_end = true;
        let passed;
        (self.top, passed) = back(parts, rows, &part, (parts, 0));
        self.measured = passed.last().map(|all| (self.top.0, all.len()));
        passed.into_iter().rev().flatten().skip(self.top.1).collect()
    }

    /// Scrolls by `by` lines, up if negative.
    pub(crate) fn scroll(&mut self, by: isize, parts: usize, part: impl Fn(usize) -> Vec<Line<'static>>) {
        if by < 0 {
            (self.top, _) = back(parts, by.unsigned_abs(), &part, self.top);
            self.at_end = false;
            return;
        }
        if self.at_end {
            return;
        }
        let (mut at, mut line) = self.top;
        let mut left = by.unsigned_abs();
        while at < parts {
            let length = match self.measured {
                Some((of, length)) if of == at => length,
                _ => part(at).len(),
            };
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

/// Returns the position `lines` lines before another, and the parts laid out on the way, the last one first.
fn back(
    parts: usize,
    lines: usize,
    part: &impl Fn(usize) -> Vec<Line<'static>>,
    from: (usize, usize),
) -> ((usize, usize), Vec<Vec<Line<'static>>>) {
    let (mut at, mut line) = (from.0.min(parts), from.1);
    let (mut left, mut passed) = (lines, Vec::new());
    loop {
        if left <= line {
            return ((at, line - left), passed);
        }
        left -= line;
        match at.checked_sub(1) {
            Some(before) => {
                at = before;
                let all = part(at);
                line = all.len();
                passed.push(all);
            }
            None => return ((0, 0), passed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Parts of so many lines, each of which says where it is, and the parts that were laid out.
    struct Parts(Vec<usize>, RefCell<Vec<usize>>);

    impl Parts {
        fn lay_out(&self, at: usize) -> Vec<Line<'static>> {
            self.1.borrow_mut().push(at);
            (0..self.0[at]).map(|line| Line::from(format!("{at}.{line}"))).collect()
        }

        fn view(&self, pager: &mut Pager, rows: usize) -> Vec<String> {
            let lines = pager.view(rows, self.0.len(), |at| self.lay_out(at));
            lines.iter().map(ToString::to_string).collect()
        }

        fn scroll(&self, pager: &mut Pager, by: isize) {
            pager.scroll(by, self.0.len(), |at| self.lay_out(at));
        }

        fn laid_out(&self) -> Vec<usize> {
            self.1.take()
        }
    }

    #[test]
    fn a_part_is_laid_out_once_for_a_view_and_not_again_to_scroll_in_it() {
        let parts = Parts(vec![2, 100, 3], RefCell::default());
        let mut pager = Pager::conversation();
        assert_eq!(parts.view(&mut pager, 5), ["1.98", "1.99", "2.0", "2.1", "2.2"]);
        assert_eq!(parts.laid_out(), [2, 1]);
        parts.scroll(&mut pager, -10);
        assert_eq!(parts.laid_out(), [] as [usize; 0]);
        assert_eq!(parts.view(&mut pager, 3), ["1.88", "1.89", "1.90"]);
        assert_eq!(parts.laid_out(), [1]);
        parts.scroll(&mut pager, 4);
        assert_eq!(parts.laid_out(), [] as [usize; 0]);
        assert_eq!(parts.view(&mut pager, 3), ["1.92", "1.93", "1.94"]);
    }

    #[test]
    fn scrolling_goes_from_part_to_part_and_stops_at_both_ends() {
        let parts = Parts(vec![2, 3, 0, 2], RefCell::default());
        let mut pager = Pager::of(Source::Conversation);
        assert_eq!(parts.view(&mut pager, 3), ["0.0", "0.1", "1.0"]);
        parts.scroll(&mut pager, 3);
        assert_eq!(parts.view(&mut pager, 3), ["1.1", "1.2", "3.0"]);
        assert!(!pager.at_end);
        parts.scroll(&mut pager, 1);
        assert_eq!(parts.view(&mut pager, 3), ["1.2", "3.0", "3.1"]);
        assert!(pager.at_end);
        parts.scroll(&mut pager, 5);
        assert_eq!(parts.view(&mut pager, 3), ["1.2", "3.0", "3.1"]);
        parts.scroll(&mut pager, -20);
        assert_eq!(parts.view(&mut pager, 20).len(), 7);
        assert!(pager.at_end);
    }
}
