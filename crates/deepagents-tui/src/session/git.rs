//! Changes in the directory, as git reports them.
//!
//! Git runs programs that a repository configures, and an agent or a stranger may have written that configuration. Git
//! is therefore called so that it runs none of them.

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use super::Result;
use crate::text::shorten;

/// Maximum bytes of a diff that are shown.
const MAX_DIFF_BYTES: usize = 256 * 1024;
/// Maximum bytes of a configuration, and of an error.
const MAX_CONFIG_BYTES: usize = 1 << 20;
const MAX_ERROR_BYTES: usize = 4096;

/// Settings that are always disabled: the file system monitor and hooks.
const OFF: [&str; 2] = ["core.fsmonitor=false", "core.hooksPath=/dev/null"];
/// The filter settings that name a command. Git treats an empty value as no command.
const FILTER: [&str; 3] = ["clean", "smudge", "process"];

/// Returns the changes since the last commit, and the untracked files.
pub(super) async fn diff(root: &Path) -> Result<String> {
    let off = filters_off(root).await?;
    // Compares files as they are on disk, without filters. Submodules are ignored, as their own configuration may name
    // other programs.
    let args = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "HEAD"];
    let mut text = git(root, &off, &args).await?;
    let fresh = git(root, &off, &["ls-files", "--others", "--exclude-standard"]).await?;
    if !fresh.trim().is_empty() {
        text.push_str(if text.is_empty() { "" } else { "\n" });
        text.push_str(&format!("untracked files:\n{fresh}"));
    }
    Ok(if text.trim().is_empty() { "nothing has changed".to_owned() } else { text })
}

/// Returns settings that disable all configured filters.
async fn filters_off(root: &Path) -> Result<Vec<String>> {
    // Listing the configuration runs no program. Filter names may contain any characters, including line breaks.
    let names = run(root, &[], &["config", "--list", "--name-only", "-z"], MAX_CONFIG_BYTES).await?;
    if names.len() == MAX_CONFIG_BYTES {
        return Err("changes are not shown: the configuration of the repository is too long".into());
    }
    let mut off = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| name.starts_with(b"filter.")) {
        // A setting can only be named exactly.
        let name = std::str::from_utf8(name)
            .map_err(|_| "changes are not shown: the repository has filters with names that are not UTF-8")?;
        let Some((filter, part)) = name.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.')) else {
            continue;
        };
        if FILTER.contains(&part) || part == "required" {
            if filter.contains('=') {
                return Err(format!(
                    "changes are not shown: the filter `{filter}` of the repository cannot be switched off"
                )
                .into());
            }
            off.push(format!("{name}={}", if part == "required" { "false" } else { "" }));
        }
    }
    Ok(off)
}

/// Returns git's output, cut to the maximum that is shown.
async fn git(root: &Path, settings: &[String], args: &[&str]) -> Result<String> {
    // Enough for a whole character at the end.
    let output = run(root, settings, args, MAX_DIFF_BYTES + 3).await?;
    let mut text = String::from_utf8_lossy(&output).into_owned();
    text.truncate(text.floor_char_boundary(MAX_DIFF_BYTES));
    Ok(text)
}

/// Returns the first `most` bytes of git's output. Git is killed once it has written them.
async fn run(root: &Path, settings: &[String], args: &[&str], most: usize) -> Result<Vec<u8>> {
    let mut command = Command::new("git");
    command.arg("--no-pager");
    for setting in OFF.into_iter().chain(settings.iter().map(String::as_str)) {
        command.args(["-c", setting]);
    }
    // A repository may keep objects in a remote, from which git would fetch them by running a program.
    command.env("GIT_ALLOW_PROTOCOL", "none").env("GIT_NO_LAZY_FETCH", "1").env("GIT_OPTIONAL_LOCKS", "0");
    command.args(args).current_dir(root).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |error| format!("git cannot be run: {error}");
    let mut git = command.kill_on_drop(true).spawn().map_err(failed)?;
    let (output, problem) = (beginning(git.stdout.take(), most), errors(git.stderr.take()));
    let (output, problem) = tokio::try_join!(output, problem).map_err(failed)?;
    if output.len() < most && !git.wait().await.map_err(failed)?.success() {
        return Err(format!("git says: {}", shorten(&String::from_utf8_lossy(&problem), 300)).into());
    }
    Ok(output)
}

/// Reads the first `most` bytes of an output.
async fn beginning(output: Option<impl AsyncRead + Unpin>, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(output) = output {
        output.take(most as u64).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Reads the first bytes of the errors and drops the rest, because git is killed if it writes to a closed pipe.
async fn errors(output: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut output) = output {
        (&mut output).take(MAX_ERROR_BYTES as u64).read_to_end(&mut bytes).await?;
        tokio::io::copy(&mut output, &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}
