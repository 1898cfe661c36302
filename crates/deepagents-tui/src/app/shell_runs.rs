//! Shell commands of the user.

use super::state::{App, ShellRun, Work};
use super::transcript::Item;

impl App {
    /// Adds output to the command that runs.
    pub(super) fn shell_output(&mut self, text: &str) {
        let run = match &mut self.work {
            Work::Shell(run) => Some(run),
            _ => self.background_shell.as_mut(),
        };
        if let Some(run) = run {
            run.output.push_str(text);
        }
    }

    /// Shows the result of a shell command. A shared one goes to the model with the next message.
    fn shell_done(&mut self, run: ShellRun, code: Option<i32>) {
        let ShellRun { command, output, shared } = run;
        if shared {
            let end = code.map_or("it was stopped".to_owned(), |code| format!("exit code {code}"));
            self.context.push(format!("The person ran `{command}` in the directory ({end}). Its output:\n{output}"));
        }
        self.items.push(Item::Shell { command, output, code, shared });
    }

    pub(super) fn shell_ended(&mut self, code: Option<i32>) {
        if let Some(run) = self.background_shell.take() {
            return self.shell_done(run, code);
        }
        if let Work::Shell(run) = std::mem::take(&mut self.work) {
            self.shell_done(run, code);
        }
        self.idle();
        match code {
            None => self.give_back(),
            Some(_) => self.next_waiting(),
        }
    }
}
