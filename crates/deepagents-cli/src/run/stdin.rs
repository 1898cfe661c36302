//! What comes from stdin: the task, or answers.

use std::io::{self, BufRead, IsTerminal, Read};
use std::thread;

use anyhow::{Result, anyhow, bail};
use tokio::sync::mpsc;

use super::piped::Piped;
use crate::exit::WrongUsage;
use crate::slash::{Commands, Typed};
use crate::small_file::without_mark;

/// What is to be done.
#[derive(Debug)]
pub(super) enum Task {
    /// What an earlier run has left.
    Rest,
    /// This.
    Given(String),
    /// What stdin says, to its end.
    OnStdin,
}

impl Task {
    /// The task as given; stdin's content where it is absent or `-`.
    pub(super) fn from_arg(given: Option<&str>) -> Result<Self> {
        match given {
            Some(text) if text != "-" => not_empty(text.to_owned()).map(Self::Given),
            None if io::stdin().is_terminal() => {
                let words = "there is no task: give one, as in `deepagents run \"Summarise README.md\"`, or pipe it in";
                bail!(WrongUsage(words.to_owned()))
            }
            _ => Ok(Self::OnStdin),
        }
    }

    /// What the task is, if there is one, with what is piped in beside it; reads stdin where the task is there.
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

/// The text on stdin, where it is no terminal and says something.
pub(crate) fn piped() -> Result<Option<String>> {
    if io::stdin().is_terminal() {
        return Ok(None);
    }
    Ok(Some(read()?).filter(|text| !text.trim().is_empty()))
}

fn not_empty(text: String) -> Result<String> {
    if text.trim().is_empty() {
        let words = "the task is empty: say what is to be done, as in `deepagents run \"Summarise README.md\"`";
        bail!(WrongUsage(words.to_owned()));
    }
    Ok(text)
}

fn read() -> Result<String> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).map_err(|error| anyhow!("the task could not be read: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|_| WrongUsage("the task on stdin is not text in UTF-8".to_owned()))?;
    Ok(without_mark(&text).to_owned())
}

/// Lines of stdin, read by a thread of their own from the first one that is wanted: nothing else reads stdin.
#[derive(Debug)]
pub(super) struct Lines {
    wanted: std::sync::mpsc::Sender<()>,
    lines: mpsc::UnboundedReceiver<io::Result<String>>,
    /// Whether a line is wanted that has not come.
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

    /// The next line; nothing at the end. A future that is dropped loses no line.
    pub(super) async fn next(&mut self) -> io::Result<Option<String>> {
        if !self.asked {
            // A thread that has come to the end wants no more.
            let _ = self.wanted.send(());
            self.asked = true;
        }
        let line = self.lines.recv().await;
        self.asked = false;
        line.transpose()
    }
}
