//! The status for the user's status line command.

use serde_json::json;

use super::App;

impl App {
    /// Returns the status as JSON for the user's status line command.
    pub(super) fn status(&self) -> String {
        let connected = self.session.connected.as_ref();
        json!({
            "model": self.session.model,
            "mode": self.mode.as_str(),
            "directory": self.session.directory,
            "thread": self.session.thread,
            "context_tokens": self.session.context,
            "context_window": connected.and_then(|connected| connected.window),
            "input_tokens": self.session.usage.input,
            "output_tokens": self.session.usage.output,
            "cost": self.session.dollars,
            "busy": self.is_busy(),
            "waits": !self.questions.is_empty(),
        })
        .to_string()
    }
}
