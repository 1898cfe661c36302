//! `deepagents import`: imports files made for Claude Code and for the reference implementation's layouts.

mod agents;
mod commands;
mod definition;
mod hooks;
mod layout;
mod part;
mod place;
mod report;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

use crate::args::ImportArgs;
use crate::context_files::{AGENTS, MEMORY, SKILLS};
use crate::exit::{self, Exit, WrongUsage};
use crate::file_commands::COMMANDS;
use crate::output;
use crate::own_files::{OWN, named_home};
use crate::render::{escaped, json_text};
use place::Place;
use report::Report;

/// The directory with Claude Code's files.
const CLAUDE: &str = ".claude";
/// Memory file of Claude Code.
const CLAUDE_MEMORY: &str = "CLAUDE.md";
/// The directory with skills that several programs share.
const SHARED: &str = ".agents";

/// Imports what exists, and reports what was done and what could not be imported.
pub(crate) fn import(args: &ImportArgs) -> Result<Exit> {
    let (from, to) = places(args)?;
    let mut report = Report::new(args.dry_run, Place::new(&from, args.user));
    let claude = from.join(CLAUDE);
    // A project's memory file is in its root, the user's next to their settings.
    let notes = if args.user { claude.join(CLAUDE_MEMORY) } else { from.join(CLAUDE_MEMORY) };
    let memory = if args.user { to.join(MEMORY) } else { from.join(MEMORY) };
    let mut notes = vec![notes, claude.join(CLAUDE_MEMORY)];
    notes.dedup();
    notes_of(&notes, &memory, &mut report);
    for (file, own) in [(from.join("CLAUDE.local.md"), MEMORY), (claude.join("settings.local.json"), "hooks.json")] {
        if !args.user && file.exists() {
            report.note_skipped(&file, format!("it is personal; put what applies to you everywhere in ~/{OWN}/{own}"));
        }
    }
    agents::import(&claude.join("agents"), &to.join(AGENTS), &mut report);
    for skills in [claude.join(SKILLS), from.join(SHARED).join(SKILLS)] {
        report.copy_tree(&skills, &to.join(SKILLS));
    }
    commands::import(&claude.join(COMMANDS), &to.join(COMMANDS), &mut report);
    let (settings, own_hooks) = (claude.join("settings.json"), to.join("hooks.json"));
    // The reference implementation keeps its hooks in the same file, in the same format.
    if own_hooks.exists() && !settings.exists() {
        report.unchanged(&own_hooks, "is read as is; `deepagents hooks list` shows its hooks");
    }
    hooks::import(&settings, &own_hooks, &mut report);
    layout::import(&from, &to, &mut report);
    if args.user {
        hooks::servers(&from.join(".claude.json"), &to.join(".mcp.json"), &mut report);
    }
    if !args.user && from.join(".mcp.json").exists() {
        report.unchanged(&from.join(".mcp.json"), "is read as is; `deepagents mcp list` shows its servers");
    }
    if report.lines.is_empty() && !args.json {
        let place = escaped(&from.display().to_string());
        return exit::shown(&format!("there is nothing to import in {place}"));
    }
    output::print(&if args.json { json_text(&report.lines)? } else { report.to_string() })?;
    Ok(if report.has_failed { Exit::Failed } else { Exit::Done })
}

/// Imports the first memory file that exists. Reports the others, and the files that they include.
fn notes_of(files: &[PathBuf], to: &Path, report: &mut Report) {
    let mut taken: Option<&PathBuf> = None;
    for file in files {
        let Some(bytes) = report.read(file) else { continue };
        match taken {
            None => drop(report.write(file, to, &bytes)),
            Some(first) => report.note_skipped(file, format!("there is also {}; merge them by hand", first.display())),
        }
        taken.get_or_insert(file);
        for path in included_files(&String::from_utf8_lossy(&bytes), file) {
            report.note_skipped(
                file,
                format!("@{path} does not include the file here; the agent reads a file when it is told to"),
            );
        }
    }
}

/// Returns the files that a memory file includes, without duplicates: an `@` before a path, if it begins a line or the
/// file exists. Other words may begin with `@` too, such as package names.
fn included_files(notes: &str, file: &Path) -> BTreeSet<String> {
    let beside = file.parent().unwrap_or(Path::new("."));
    let is_there = |path: &str| match (path.strip_prefix("~/"), named_home()) {
        (Some(path), Some(home)) => home.join(path).is_file(),
        _ => beside.join(path).is_file(),
    };
    let words = notes.lines().flat_map(|line| line.split_whitespace().enumerate());
    let paths =
        words.filter_map(|(at, word)| Some((at, word.strip_prefix('@')?.trim_end_matches(['.', ',', ';', ':', ')']))));
    let brings = |at: usize, path: &str| at == 0 && path.contains(['/', '.']) || is_there(path);
    paths.filter(|(at, path)| !path.is_empty() && brings(*at, path)).map(|(_, path)| path.to_owned()).collect()
}

/// Returns the source and the target directory.
fn places(args: &ImportArgs) -> Result<(PathBuf, PathBuf)> {
    if args.user {
        let home = named_home()
            .ok_or_else(|| anyhow!("your personal files are in your home directory, but HOME is not set"))?;
        return Ok((home.clone(), home.join(OWN)));
    }
    let root = args.root.clone().unwrap_or_else(|| PathBuf::from("."));
    if !fs::metadata(&root).is_ok_and(|about| about.is_dir()) {
        bail!(WrongUsage::new(format!("`{}` is not a directory", root.display())));
    }
    let own = root.join(OWN);
    Ok((root, own))
}
