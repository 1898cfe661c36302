//! Reading stdin: the task, or answers.

use std::io::{self, BufRead, IsTerminal, Read};
use std::thread;

use anyhow::{Result, anyhow, bail};
use tokio::sync::mpsc;

use super::piped::Piped;
use crate::exit::WrongUsage;
use crate::slash::{Commands, Typed};
use crate::small_file::without_mark;

/// What to do.
#[derive(Debug)]
pub(super) enum Task {
    /// Resume the work of an earlier run.
    Rest,
    /// The task as given.
    Given(String),
    /// Read the task from stdin, to its end.
    OnStdin,
}

impl Task {
    /// Returns the task as given; read from stdin if absent or `-`.
    pub(super) fn from_arg(given: Option<&str>) -> Result<Self> {
        match given {
            Some(text) if text != "-" => not_empty(text.to_owned()).map(Self::Given),
            None if io::stdin().is_terminal() => {
                let words = "there is no task: give one, as in `deepagents run \"Summarise README.md\"`, or pipe it in";
                bail!(WrongUsage::new(words))
            }
            _ => Ok(Self::OnStdin),
        }
    }

    /// Returns the task, if there is one, with the text piped in beside it. Reads stdin if the task is there.
    pub(super) fn read(self, commands: &Commands, beside: Option<Piped>, has_to_say: bool) -> Result<Option<Typed>> {
        let task = match self {
            Self::Given(text) => text,
            Self::Rest => return Ok(None),
            Self::OnStdin => not_empty(read()?)?,
        };
        let mut typed = commands.read(&task)?;
        if let Some(beside) = beside {
            typed.text = beside.below(typed.text, has_to_say)?;
        }
        Ok(Some(typed))
    }
}

/// Returns the text on stdin, unless it is a terminal or blank.
pub(crate) fn piped() -> Result<Option<String>> {
    if io::stdin().is_terminal() {
        return Ok(None);
    }
    Ok(Some(read()?).filter(|text| !text.trim().is_empty()))
}

fn not_empty(text: String) -> Result<String> {
    if text.trim().is_empty() {
        bail!(WrongUsage::new("the task is empty: say what to do, as in `deepagents run \"Summarise README.md\"`"));
    }
    Ok(text)
}

fn read() -> Result<String> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).map_err(|error| anyhow!("the task could not be read: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| WrongUsage::new("the task on stdin is not text in UTF-8"))?;
    Ok(without_mark(&text).to_owned())
}

/// Lines of stdin, read by a separate thread once the first one is requested. Nothing else may read stdin.
#[derive(Debug)]
pub(super) struct Lines {
    wanted: std::sync::mpsc::Sender<()>,
    lines: mpsc::UnboundedReceiver<io::Result<String>>,
    /// Whether a line was requested and has not arrived.
    asked: bool,
}

impl Lines {
    pub(super) fn read() -> Self {
        let (wanted, wants) = std::sync::mpsc::channel::<()>();
        let (to, lines) = mpsc::unbounded_channel();
        thread::spawn(move || {
            for () in wants {
                let mut bytes = Vec::new();
                let line = match io::stdin().lock().read_until(b'\n', &mut bytes) {
                    Ok(0) => return,
                    Ok(_) => Ok(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned()),
                    Err(error) => Err(error),
                };
                if to.send(line).is_err() {
                    return;
                }
            }
        });
        Self { wanted, lines, asked: false }
    }

    /// Returns the next line; `None` at the end. Cancel-safe: a dropped future loses no line.
    pub(super) async fn next(&mut self) -> io::Result<Option<String>> {
        if !self.asked {
            // The thread has ended if stdin has.
            let _ = self.wanted.send(());
            self.asked = true;
        }
        let line = self.lines.recv().await;
        self.asked = false;
        line.transpose()
    }
}
