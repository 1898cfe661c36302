//! The file tools.

mod change;
mod execute;
mod patch;
mod reach;
mod read;
mod refusal;
mod search;

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use deepagents_core::tool::{DynTool, Effect, Tool, ToolContext, ToolError, ToolOutput, ToolSpec};
use deepagents_fs::{FsError, VPath};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{BackgroundCommands, Filesystem};
use crate::text::without_middle;
use crate::tokens;
pub(crate) use execute::NO_SESSION;
pub(super) use execute::end_in_words;
pub use execute::exit_failure;

/// The result of a call.
type Answered = Result<ToolOutput, ToolError>;

/// Maximum number of characters of an error, which may quote a lot of text sent by the model.
const MAX_ERROR_CHARS: usize = 4_000;

/// Converts an error for the model; a denial if a rule caused it.
pub(super) fn failed<E: std::fmt::Display + Any>(error: E) -> ToolError {
    refused(&error.to_string(), refusal::rule_of(&error))
}

/// Converts an error of a call on a path, and adds the path if the error is about another one, such as an ancestor.
fn failed_at<E: std::fmt::Display + Any>(path: &VPath) -> impl FnOnce(E) -> ToolError {
    move |error| {
        let (text, path) = (error.to_string(), path.quoted().to_string());
        let text = if text.contains(&path) { text } else { format!("{path}: {text}") };
        refused(&text, refusal::rule_of(&error))
    }
}

fn refused(why: &str, rule: Option<String>) -> ToolError {
    // A reason comes first or last, before or after what the model sent.
    let text = without_middle(&format!("Error: {why}"), MAX_ERROR_CHARS, " [cut] ");
    match rule {
        Some(rule) => ToolError::denied_by(rule, text),
        None => ToolError::model(text),
    }
}

/// Returns the result for a missing directory: nothing was found, and why.
fn no_place(what: &str, error: FsError) -> Answered {
    match error {
        FsError::NotFound(_) | FsError::NotADirectory(_) => Ok(format!("No {what} found: {error}").into()),
        error => Err(failed(error)),
    }
}

/// Returns a note on entries that no path can name, if there are any.
fn unnameable_note(entries: usize) -> Option<String> {
    (entries > 0).then(|| format!("[{entries} entries have names that cannot be shown]"))
}

/// Returns a write effect on this path, so that two calls of one turn do not overtake each other. An invalid path
/// touches nothing.
fn writes(path: &str) -> Effect {
    VPath::parse(path).map_or(Effect::Read, |path| Effect::write(path.as_str()))
}

/// The name of a tool and its description for the model.
type ToolText = (&'static str, &'static str);

const LS: ToolText = ("ls", "Lists a directory, one absolute path a line; directories end with /.");
const READ_FILE: ToolText = (
    "read_file",
    "Reads a file. Text comes with line numbers and a tab before each line, which are not part of the file; a part of a file ends with where to go on. What is not text is attached, such as pictures and PDF. Read several files in one turn.",
);
const WRITE_FILE: ToolText =
    ("write_file", "Writes a whole file, with the directories above it; what was there is replaced.");
const EDIT_FILE: ToolText = (
    "edit_file",
    "Replaces text in a file that you have read. The old text must occur exactly once unless replace_all is set.",
);
const APPLY_PATCH: ToolText = (
    "apply_patch",
    "Changes files: `*** Begin Patch`, then of each file `*** Add File: PATH` with its lines after a `+`, `*** Delete File: PATH`, or `*** Update File: PATH` (`*** Move to: PATH` below it renames) with hunks: `@@ LINE`, a line that stands above the place, then lines after a blank (they stay), `-` or `+`; last `*** End Patch`. Paths are absolute. If a hunk does not apply, no file is changed. Read files before you update them.",
);
const DELETE: ToolText = ("delete", "Deletes a file, or a directory with everything in it. There is no way back.");
const GLOB: ToolText = (
    "glob",
    "Finds files by name, one absolute path a line, sorted. Names that begin with a dot are found only where the pattern or path says so.",
);
const GREP: ToolText = (
    "grep",
    "Searches the lines of files. Gives the paths of files with a match, the matching lines with their numbers (content), or how many there are in each file (count).",
);
const EXECUTE: ToolText = (
    "execute",
    "Runs a shell command in the workspace and gives its output and exit code. Each command runs in a shell of its own, without input; what it leaves running is ended. For reading, writing and searching files the file tools are better.",
);

const EXECUTE_IN_SESSION: ToolText = (
    "execute",
    "Runs a shell command and gives its output and exit code. All commands share one shell that begins in the workspace, one after the other, without input: directory, variables and background jobs (&) stay until a command ends the shell or takes too long. For reading, writing and searching files the file tools are better.",
);

const COMMAND_OUTPUT: ToolText = (
    "command_output",
    "Gives what a command in the background has printed since you looked last, and whether it has ended.",
);

const STOP_COMMAND: ToolText = ("stop_command", "Ends a command in the background and gives the rest of its output.");

/// A tool that works on files.
struct FileTool<A, F> {
    files: Arc<Filesystem>,
    name: &'static str,
    description: String,
    effect: fn(&A) -> Effect,
    bounds_results: bool,
    call: F,
}

impl<A, F, Fut> Tool for FileTool<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(Arc<Filesystem>, A, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Answered> + Send + 'static,
{
    type Args = A;

    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn effect(&self, args: &A) -> Effect {
        (self.effect)(args)
    }

    fn bounds_results(&self) -> bool {
        self.bounds_results
    }

    async fn call(&self, args: A, cx: ToolContext) -> Answered {
        (self.call)(self.files.clone(), args, cx).await
    }
}

/// Returns all tools; `execute` only if commands may run.
pub(super) fn all(files: &Arc<Filesystem>) -> Vec<Arc<dyn DynTool>> {
    fn tool<A, F, Fut>(files: &Arc<Filesystem>, told: ToolText, effect: fn(&A) -> Effect, call: F) -> Arc<dyn DynTool>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(Arc<Filesystem>, A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Answered> + Send + 'static,
    {
        let (name, description, bounds_results) = (told.0, files.description_of(told), files.bounds_results(told));
        Arc::new(FileTool { files: files.clone(), name, description, effect, bounds_results, call })
    }
    let mut tools = vec![
        tool(files, LS, |_| Effect::Read, read::ls),
        tool(files, READ_FILE, |_| Effect::Read, read::read_file),
        tool(files, WRITE_FILE, |args: &change::WriteArgs| writes(&args.file_path), change::write_file),
        tool(files, EDIT_FILE, |args: &change::EditArgs| writes(&args.file_path), change::edit_file),
        tool(files, APPLY_PATCH, patch::effect, patch::apply_patch),
        tool(files, DELETE, |args: &change::DeleteArgs| writes(&args.file_path), change::delete),
        tool(files, GLOB, |_| Effect::Read, search::glob),
        tool(files, GREP, |_| Effect::Read, search::grep),
    ];
    if files.workspace.may_run_commands() {
        if files.options.shell_session.is_some() {
            let run = |files, args: execute::SessionArgs, cx| execute::execute(files, args.into(), cx);
            tools.push(tool(files, EXECUTE_IN_SESSION, |_| Effect::External, run));
        } else if files.options.background_commands == BackgroundCommands::Off {
            tools.push(tool(files, EXECUTE, |_| Effect::External, execute::execute));
        } else {
            let start = |files, args: execute::BackgroundArgs, cx| execute::execute(files, args.into(), cx);
            tools.push(tool(files, EXECUTE, |_| Effect::External, start));
            tools.push(tool(files, COMMAND_OUTPUT, |_| Effect::External, execute::command_output));
            tools.push(tool(files, STOP_COMMAND, |_| Effect::External, execute::stop_command));
        }
    }
    tools
}

/// Adds to the description of `execute` which paths commands reach.
pub(super) fn describe_reach(tools: &mut [Arc<ToolSpec>], unreachable: &[VPath]) {
    // A tool of this name that is not ours, and ours with another description, stay as they are.
    let is_ours =
        |tool: &ToolSpec| [EXECUTE, EXECUTE_IN_SESSION].contains(&(tool.name.as_str(), tool.description.as_str()));
    for tool in tools.iter_mut().filter(|tool| is_ours(tool)) {
        let description = format!("{}{}", tool.description, reach_of_commands(unreachable));
        *tool = Arc::new(ToolSpec { description, ..ToolSpec::clone(tool) });
    }
}

/// Returns which paths of the file tools commands reach, and where.
fn reach_of_commands(unreachable: &[VPath]) -> String {
    if unreachable.iter().any(VPath::is_root) {
        return " Commands do not see the files of the file tools.".to_owned();
    }
    let mut out = " The path /a/b of the file tools is a/b for commands.".to_owned();
    if !unreachable.is_empty() {
        let paths: Vec<String> = unreachable.iter().map(|path| path.quoted().to_string()).collect();
        out.push_str(&format!(" Commands do not see {}.", paths.join(", ")));
    }
    out
}

impl Filesystem {
    /// Returns the description of a tool, as far as it is known before a run.
    fn description_of(&self, (name, text): ToolText) -> String {
        match name {
            "write_file" => match ["edit_file", "apply_patch"].into_iter().find(|tool| self.offers(tool)) {
                Some(tool) => format!("{text} To change a part of a file use {tool}."),
                None => text.to_owned(),
            },
            "execute" => {
                let reach = self.workspace.shell_unreachable().map(|unreachable| reach_of_commands(&unreachable));
                format!("{text}{}", reach.unwrap_or_default())
            }
            _ => text.to_owned(),
        }
    }

    /// Returns `true` if the results of a tool are bounded: listings by their own limit, file contents by that of all
    /// results, and messages about changes are short. The output of a command is not bounded.
    fn bounds_results(&self, told: ToolText) -> bool {
        match told {
            EXECUTE | EXECUTE_IN_SESSION => false,
            LS | GLOB | GREP => tokens::limit(self.options.listing_tokens).is_some(),
            _ => true,
        }
    }

    /// Joins lines within the limit for listings, with notes on what is left out.
    fn bounded(&self, lines: &[String], notes: &[String]) -> String {
        let budget = tokens::limit(self.options.listing_tokens).unwrap_or(usize::MAX);
        let mut weight = 0;
        let fits = |line: &&String| {
            weight += tokens::quarters(line) + 1;
            weight <= budget
        };
        let mut out: Vec<&str> = lines.iter().take_while(fits).map(String::as_str).collect();
        let more = lines.len() - out.len();
        let more = (more > 0).then(|| format!("[{more} more lines are not shown; ask for less]"));
        out.extend(more.iter().chain(notes).map(String::as_str));
        out.join("\n")
    }
}
