//! The tail of a call's progress output, shown if the call does not finish.

/// Maximum size of the tail in bytes.
const MAX_TAIL_BYTES: usize = 4096;

/// The tail of a call's progress output.
#[derive(Default)]
pub(crate) struct ProgressTail {
    text: String,
    /// Whether earlier output was cut off.
    is_cut: bool,
}

impl ProgressTail {
    pub(crate) fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
        // Cut only now and then, because each cut moves the rest.
        if self.text.len() > 2 * MAX_TAIL_BYTES {
            self.cut();
        }
    }

    /// Takes the text, unless it is blank.
    pub(crate) fn take(&mut self) -> Option<String> {
        self.cut();
        let text = std::mem::take(&mut self.text);
        let (said, mark) = (text.trim_end(), if self.is_cut { "…" } else { "" });
        (!said.trim_start().is_empty()).then(|| format!("{mark}{said}"))
    }

    fn cut(&mut self) {
        let Some(over) = self.text.len().checked_sub(MAX_TAIL_BYTES).filter(|over| *over > 0) else { return };
        self.text.drain(..self.text.ceil_char_boundary(over));
        self.is_cut = true;
    }
}
