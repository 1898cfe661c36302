//! The last of what a call has told of its progress, for whoever learns that it did not come to its end.

/// How much is kept of it, in bytes.
const KEPT: usize = 4096;

/// The end of what a call has told.
#[derive(Default)]
pub(crate) struct ProgressTail {
    text: String,
    /// Whether there was more before it.
    is_cut: bool,
}

impl ProgressTail {
    pub(crate) fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
        // Cut now and then: each cut moves what stays.
        if self.text.len() > 2 * KEPT {
            self.cut();
        }
    }

    /// The words, unless there are none.
    pub(crate) fn take(&mut self) -> Option<String> {
        self.cut();
        let text = std::mem::take(&mut self.text);
        let (said, mark) = (text.trim_end(), if self.is_cut { "…" } else { "" });
        (!said.trim_start().is_empty()).then(|| format!("{mark}{said}"))
    }

    fn cut(&mut self) {
        let Some(over) = self.text.len().checked_sub(KEPT).filter(|over| *over > 0) else { return };
        let from = (over..self.text.len()).find(|at| self.text.is_char_boundary(*at));
        self.text.drain(..from.unwrap_or(0));
        self.is_cut = true;
    }
}
