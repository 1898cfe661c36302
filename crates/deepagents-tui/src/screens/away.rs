//! The terminal is given to others for a while: to the shell, and to an editor.

use std::io::{self, Write};

use super::{Screens, TuiError};
use crate::app::Overlay;
use crate::terminal::{Modes, Surface, size};

impl Screens {
    pub(super) async fn finish_writing(&mut self) {
        self.output.written_if_busy().await;
    }

    /// Gives the terminal to the shell until the person comes back.
    pub(super) fn suspend(&mut self, modes: &mut Modes, surface: &mut Surface) -> Result<(), TuiError> {
        let alternate = surface.is_alternate();
        self.app.overlay = Overlay::None;
        surface.leave();
        let frame = surface.take();
        {
            let mut out = io::stdout().lock();
            out.write_all(&frame)?;
            out.flush()?;
        }
        modes.suspend(alternate)?;
        self.input.suspend();
        // The signal that cannot be caught: the one that was is taken already.
        let stopped = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
        stopped.map_err(io::Error::from)?;
        modes.resume()?;
        self.input.resume();
        let (columns, rows) = size();
        (self.app.size, self.app.repaint) = ((columns, rows), true);
        Ok(())
    }

    /// Lets the person write a text with an editor.
    pub(super) async fn edit(
        &mut self,
        text: String,
        modes: &mut Modes,
        surface: &mut Surface,
    ) -> Result<String, String> {
        self.finish_writing().await;
        let file = tempfile::Builder::new().prefix("message-").suffix(".md").tempfile();
        let mut file = file.map_err(|error| format!("no file for the editor can be made: {error}"))?;
        file.write_all(text.as_bytes()).map_err(|error| format!("the text cannot be given to the editor: {error}"))?;
        let path = file.into_temp_path();
        surface.leave();
        let frame = surface.take();
        let prepared = {
            let mut out = io::stdout().lock();
            out.write_all(&frame).and_then(|()| out.flush())
        };
        prepared.and_then(|()| modes.suspend(false)).map_err(|error| error.to_string())?;
        self.input.suspend();
        let editor = self.host.editor();
        // A command with arguments, as the variables may hold.
        let mut command = tokio::process::Command::new("sh");
        command.arg("-c").arg(format!("{editor} \"$1\"")).arg("editor").arg(&path);
        let status = command.status().await;
        modes.take_back().map_err(|error| error.to_string())?;
        self.input.resume();
        let (columns, rows) = size();
        (self.app.size, self.app.repaint) = ((columns, rows), true);
        match status {
            Ok(status) if status.success() => {
                std::fs::read_to_string(&path).map_err(|error| format!("what the editor left cannot be read: {error}"))
            }
            Ok(status) => Err(format!("the editor `{editor}` ended with {status}; the text stays as it was")),
            Err(error) => Err(format!("the editor `{editor}` cannot be run: {error}")),
        }
    }
}
