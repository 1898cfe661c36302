//! The task, from the command line or from stdin.

use std::io::{self, IsTerminal, Read};

use anyhow::{Result, anyhow, bail};

/// The task as given; stdin's content where it is absent or `-`.
pub(super) fn task(given: Option<&str>) -> Result<String> {
    let text = match given {
        Some(text) if text != "-" => text.to_owned(),
        None if io::stdin().is_terminal() => {
            bail!("there is no task: give one, as in `deepagents run \"Summarise README.md\"`, or pipe it in")
        }
        _ => read()?,
    };
    if text.trim().is_empty() {
        bail!("the task is empty: say what is to be done, as in `deepagents run \"Summarise README.md\"`");
    }
    Ok(text)
}

fn read() -> Result<String> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).map_err(|error| anyhow!("the task could not be read: {error}"))?;
    String::from_utf8(bytes).map_err(|_| anyhow!("the task on stdin is not text in UTF-8"))
}
