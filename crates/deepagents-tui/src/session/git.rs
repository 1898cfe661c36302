//! What git says about the directory.
//!
//! Git runs programs that a repository names, and the repository may be the work of an agent or of somebody else. So it is
//! asked in a way in which it runs none.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::text::shorten;

/// Bytes of a change that is shown.
const DIFF: usize = 256 * 1024;

/// Settings that are switched off whatever the repository says: programs that are told of changes, and hooks.
const OFF: [&str; 2] = ["core.fsmonitor=false", "core.hooksPath=/dev/null"];
/// What a filter of files runs. Git takes an empty text for none.
const FILTER: [&str; 3] = ["clean", "smudge", "process"];

/// Changes since the last commit, and the files that git does not know.
pub(super) async fn diff(root: &Path) -> Result<String, String> {
    let off = filters_off(root).await?;
    // Files as they are in the directory, without what filters would make of them. A repository in this one has settings
    // of its own, and may name other programs in them.
    let args = ["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "HEAD"];
    let mut text = git(root, &off, &args).await?;
    let fresh = git(root, &off, &["ls-files", "--others", "--exclude-standard"]).await?;
    if !fresh.trim().is_empty() {
        text.push_str(if text.is_empty() { "" } else { "\n" });
        text.push_str(&format!("files that git does not know yet:\n{fresh}"));
    }
    Ok(if text.trim().is_empty() { "nothing has changed".to_owned() } else { text })
}

/// Settings by which none of the filters that are configured runs anything.
async fn filters_off(root: &Path) -> Result<Vec<String>, String> {
    // To list the configuration runs nothing. Names of filters are of any letters, and ends of lines may be among them.
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
                ));
            }
            off.push(format!("{name}={}", if part == "required" { "false" } else { "" }));
        }
    }
    Ok(off)
}

/// What git prints, as much of it as is shown.
async fn git(root: &Path, settings: &[String], args: &[&str]) -> Result<String, String> {
    let mut text = run(root, settings, args).await?;
    text.truncate(text.floor_char_boundary(DIFF));
    Ok(text)
}

async fn run(root: &Path, settings: &[String], args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command.arg("--no-pager");
    for setting in OFF.into_iter().chain(settings.iter().map(String::as_str)) {
        command.args(["-c", setting]);
    }
    // A repository may leave objects with another, which is asked for them by a program.
    command.env("GIT_ALLOW_PROTOCOL", "none").env("GIT_NO_LAZY_FETCH", "1").env("GIT_OPTIONAL_LOCKS", "0");
    let output = command.args(args).current_dir(root).stdin(Stdio::null()).output().await;
    let output = output.map_err(|error| format!("git cannot be run: {error}"))?;
    if !output.status.success() {
        let problem = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git says: {}", shorten(&problem, 300)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
