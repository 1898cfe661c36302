//! The completion menu.

use super::App;
use super::effect::Effect;
use super::menu::{Menu, MenuKind};

impl App {
    /// Updates the menu after a change of the input.
    pub(super) fn complete(&mut self) {
        if self.editor.text() == self.closed && !self.closed.is_empty() {
            return;
        }
        self.closed.clear();
        if let Some((start, query)) = self.editor.file_before() {
            let query = query.to_owned();
            let menu = self.menu.take().filter(|menu| menu.kind == MenuKind::File && menu.start == start);
            self.menu = menu.and_then(|menu| menu.narrowed(&query));
            return self.request(Effect::FindFiles(query));
        }
        let connected = self.session.connected.as_ref();
        let skills = connected.map_or(&[][..], |connected| &connected.skills);
        let files = connected.map_or(&[][..], |connected| &connected.commands);
        self.menu = Menu::commands(self.editor.text(), files, skills);
    }

    /// Shows the files found for a query, unless the input has changed in the meantime.
    pub(super) fn files_found(&mut self, query: &str, found: Vec<String>) {
        let Some((start, name)) = self.editor.file_before() else { return };
        if name == query && self.editor.text() != self.closed {
            self.menu = Menu::files(found, start);
        }
    }

    /// Inserts the selected completion.
    pub(super) fn take_completion(&mut self) {
        let Some(menu) = self.menu.take() else { return };
        let Some(row) = menu.current() else { return };
        self.editor.replace_from(menu.start, &row.text);
        self.close_menu();
    }

    /// Inserts the selected completion so that typing can continue: a space follows a command, for its arguments.
    pub(super) fn take_completion_and_go_on(&mut self) {
        let is_command = self.menu.as_ref().is_some_and(|menu| menu.kind == MenuKind::Command);
        self.take_completion();
        if is_command {
            self.editor.insert(" ");
        }
    }

    /// Closes the menu until the input changes.
    pub(super) fn close_menu(&mut self) {
        self.menu = None;
        self.editor.text().clone_into(&mut self.closed);
    }
}
