//! Search in the input history.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

use super::keys::control;
use super::{App, Overlay};

impl App {
    pub(super) fn begin_search(&mut self) {
        self.before_search = self.editor.text().to_owned();
        self.overlay = Overlay::Search { words: String::new(), skip: 0 };
    }

    /// Restores the input from before the search.
    pub(super) fn leave_search(&mut self) {
        let before = std::mem::take(&mut self.before_search);
        self.editor.restore(&before);
    }

    pub(super) fn search_key(&mut self, key: KeyEvent, mut words: String, mut skip: usize) {
        match (key.code, control(key)) {
            (KeyCode::Esc, _) => return self.leave_search(),
            (KeyCode::Enter | KeyCode::Tab | KeyCode::Right | KeyCode::End, _) => return self.before_search.clear(),
            (_, Some('r')) | (KeyCode::Up, _) => {
                skip += usize::from(self.history.search(&words, skip + 1).is_some());
            }
            (_, Some('s')) | (KeyCode::Down, _) => skip = skip.saturating_sub(1),
            (KeyCode::Backspace, _) => {
                let last = words.graphemes(true).next_back().map_or(0, str::len);
                words.truncate(words.len() - last);
                skip = 0;
            }
            (KeyCode::Char(c), None) if !key.modifiers.contains(KeyModifiers::ALT) => {
                words.push(c);
                skip = 0;
            }
            _ => {}
        }
        self.search(words, skip);
    }

    /// Shows the newest input that contains `words`, after skipping `skip` matches. Without words, shows the input from
    /// before the search.
    pub(super) fn search(&mut self, words: String, skip: usize) {
        if words.is_empty() {
            let before = self.before_search.clone();
            self.editor.restore(&before);
        } else if let Some(found) = self.history.search(&words, skip).map(str::to_owned) {
            self.editor.set(found);
        }
        self.overlay = Overlay::Search { words, skip };
    }
}
