//! `deepagents threads rewind`.

use std::io::{self, BufRead, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::DeepAgent;
use deepagents::core::journal::ThreadInfo;
use deepagents::core::model::NoModel;
use deepagents::fs::{
    ConflictReason, FileChange, FileVersion, OnConflict, RestoreError, RestorePlan, UndoStore, VPath,
};
use deepagents::rewind::{Rewind, RewindError, RewindReport};
use deepagents_persist::Sqlite;
use serde_json::Value;

use crate::again::Again;
use crate::args::{AgentArgs, Conflicts, RewindFiles};
use crate::render::escaped;
use crate::render::style::printable;
use crate::{agent, output};

/// The remark if the thread has worked in several directories.
const ELSEWHERE: &str = "changes in other directories are kept";

/// Rewinds a thread to an earlier position, and its files too if wanted.
pub(super) async fn rewind(
    database: Arc<Sqlite>,
    store: Option<&UndoStore>,
    info: &ThreadInfo,
    position: u64,
    files: RewindFiles,
    conflicts: Option<Conflicts>,
    again: &Again,
) -> Result<String> {
    let (Some(store), false) = (store, files == RewindFiles::No) else {
        super::access(database)?.rewind(&info.id, position).await?;
        return Ok(format!("{} continues from position {position}; files stay as they are", info.id));
    };
    let Some(root) = info.metadata.get("root").and_then(Value::as_str) else {
        bail!("the directory of thread {} is not known; give --files no to leave its files as they are", info.id);
    };
    if !Path::new(root).is_dir() {
        bail!(
            "the directory {root} of thread {} does not exist; give --files no to leave its files as they are",
            info.id
        );
    }
    let files_of = agent::open_async(&AgentArgs::at(Path::new(root)), Some(store.clone()))
        .await
        .map_err(|error| anyhow!("{error}; give --files no to leave the thread's files as they are"))?;
    let builder = DeepAgent::builder().model(NoModel).journal(database);
    let agent = builder.backend(files_of.clone()).build()?;
    let back = Rewind::new(&agent, &files_of, info.id.as_str(), position);
    let plan = back.plan().await.map_err(explain_error)?;
    if plan.elsewhere > 0 && plan.changes.is_empty() && plan.conflicts.is_empty() && plan.skipped.is_empty() {
        bail!(
            "the files that thread {} has changed since are in a directory other than {root}, or it was moved; nothing \
             was done: give --files no to leave them as they are",
            info.id
        );
    }
    let on = decide(&plan, root, files, conflicts).await?;
    let done = back.apply(&plan, on).await.map_err(explain_error)?;
    Ok(printable(&report(&info.id, position, &plan, &done, again)).into_owned())
}

fn explain_error(error: RewindError) -> anyhow::Error {
    match error {
        RewindError::Files(RestoreError::Stale(_)) => {
            anyhow!("files changed in the meantime; nothing was done, try again")
        }
        // If it is about the position, it is reported as wrong usage.
        RewindError::Thread(error) => error.into(),
        error => error.into(),
    }
}

/// Decides what to do about conflicts, asking the user if necessary.
async fn decide(
    plan: &RestorePlan,
    root: &str,
    files: RewindFiles,
    conflicts: Option<Conflicts>,
) -> Result<OnConflict> {
    let on = conflicts.map(|conflicts| match conflicts {
        Conflicts::Refuse => OnConflict::Refuse,
        Conflicts::Skip => OnConflict::Skip,
        Conflicts::Overwrite => OnConflict::Overwrite,
    });
    if plan.changes.is_empty() && plan.conflicts.is_empty() {
        return Ok(on.unwrap_or_default());
    }
    let terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    let others = plan.conflicts.iter().map(|conflict| &conflict.change.path);
    if !plan.conflicts.is_empty() && (on == Some(OnConflict::Refuse) || on.is_none() && !terminal) {
        bail!(
            "someone else has changed {} in {root}; nothing was done: give --conflicts skip or --conflicts overwrite, \
             or leave the files as they are with --files no",
            path_list(others)
        );
    }
    if files == RewindFiles::Ask && !terminal {
        let paths = plan.changes.iter().map(|change| &change.path).chain(others);
        bail!("{} in {root} would change; nothing was done: give --files yes or --files no", path_list(paths));
    }
    if !terminal {
        return Ok(on.unwrap_or_default());
    }
    let shown = shown(plan, root);
    if let (false, None) = (plan.conflicts.is_empty(), on) {
        let question = "Files marked ! contain someone else's changes: [s]kip them, [o]verwrite them, [c]ancel? ";
        return match ask(shown, question).await? {
            's' => Ok(OnConflict::Skip),
            'o' => Ok(OnConflict::Overwrite),
            _ => bail!("nothing was done"),
        };
    }
    if files != RewindFiles::Ask {
        output::say(&shown);
    } else if ask(shown, "Go back? [y]es, [n]o ").await? != 'y' {
        bail!("nothing was done");
    }
    Ok(on.unwrap_or_default())
}

/// Shows a plan and returns the first letter of the user's answer.
async fn ask(plan: String, question: &'static str) -> Result<char> {
    let answer = tokio::task::spawn_blocking(move || {
        output::ask(None, &plan, question);
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    Ok(answer.await??.trim().to_lowercase().chars().next().unwrap_or(' '))
}

/// Formats the plan for the user.
fn shown(plan: &RestorePlan, root: &str) -> String {
    let mut out = format!("In {}:", escaped(root));
    for change in &plan.changes {
        out += &format!("\n  {}", line(change));
    }
    for conflict in &plan.conflicts {
        let reason = match conflict.reason {
            ConflictReason::ChangedBetween => "changed by someone else before the agent changed it again",
            _ => "changed by someone else",
        };
        out += &format!("\n! {}  ({reason})", line(&conflict.change));
    }
    for skipped in &plan.skipped {
        out += &format!("\n  stays     {}: {}", escaped(skipped.path.as_str()), skipped.reason);
    }
    if plan.elsewhere > 0 {
        out += &format!("\n  {ELSEWHERE}");
    }
    out
}

fn line(change: &FileChange) -> String {
    let verb = match (&change.now, &change.to) {
        (_, FileVersion::Absent) => "remove    ",
        (FileVersion::Absent, _) => "bring back",
        _ => "put back  ",
    };
    format!("{verb} {}", escaped(change.path.as_str()))
}

/// Describes what was done.
fn report(id: &str, position: u64, plan: &RestorePlan, done: &RewindReport, again: &Again) -> String {
    let mut out = format!("{id} continues from position {position}");
    let mut add = |what: &str, paths: Vec<&VPath>| {
        if !paths.is_empty() {
            out += &format!("\n{what}: {}", path_list(paths));
        }
    };
    let removed = |path: &&VPath| {
        let changes = plan.changes.iter().chain(plan.conflicts.iter().map(|conflict| &conflict.change));
        changes.into_iter().any(|change| change.path == **path && change.to == FileVersion::Absent)
    };
    let (gone, back): (Vec<&VPath>, Vec<&VPath>) = done.restored.iter().partition(removed);
    add("put back", back);
    add("removed", gone);
    add("left as they are", done.skipped.iter().collect());
    add("changed by calls whose outcome is unknown", plan.unrecorded.iter().collect());
    for skipped in &plan.skipped {
        out += &format!("\nnot put back: {}: {}", escaped(skipped.path.as_str()), skipped.reason);
    }
    if plan.elsewhere > 0 {
        out += &format!("\n{ELSEWHERE}");
    }
    if plan.is_empty() {
        out += "\nno file had to be restored";
    }
    if done.commands > 0 {
        out += "\nchanges made by commands are kept";
    }
    if !done.restored.is_empty() {
        let command = again.command(&format!("deepagents threads rewind {id} {}", done.left));
        out += &format!("\nto undo this: {command}");
    }
    out
}

fn path_list<'a>(paths: impl IntoIterator<Item = &'a VPath>) -> String {
    let paths: Vec<String> = paths.into_iter().map(|path| escaped(path.as_str())).collect();
    match paths.as_slice() {
        [a, b, c, d, e, rest @ ..] if !rest.is_empty() => format!("{a}, {b}, {c}, {d}, {e} and {} more", rest.len()),
        few => few.join(", "),
    }
}
