//! Changes in the directory, as git reports them.
//!
//! Git runs programs that a repository configures, and an agent or a stranger may have written that configuration. Git
//! is therefore called so that it runs none of them.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use super::Result;
use crate::text::shorten;

/// Maximum bytes of a diff that are shown.
const MAX_DIFF_BYTES: usize = 256 * 1024;

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
    let names = run(root, &[], &["config", "--list", "--name-only", "-z"]).await?;
    let mut off = Vec::new();
    for name in names.split('\0') {
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
    let mut text = run(root, settings, args).await?;
    text.truncate(text.floor_char_boundary(MAX_DIFF_BYTES));
    Ok(text)
}

async fn run(root: &Path, settings: &[String], args: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.arg("--no-pager");
    for setting in OFF.into_iter().chain(settings.iter().map(String::as_str)) {
        command.args(["-c", setting]);
    }
    // A repository may keep objects in a remote, from which git would fetch them by running a program.
    command.env("GIT_ALLOW_PROTOCOL", "none").env("GIT_NO_LAZY_FETCH", "1").env("GIT_OPTIONAL_LOCKS", "0");
    let output = command.args(args).current_dir(root).stdin(Stdio::null()).output().await;
    let output = output.map_err(|error| format!("git cannot be run: {error}"))?;
    if !output.status.success() {
        let problem = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git says: {}", shorten(&problem, 300)).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
