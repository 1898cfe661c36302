//! The file tools.

mod change;
mod execute;
mod patch;
mod read;
mod refusal;
mod search;

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use deepagents_core::interrupt::{ActionRequests, Decision, DecisionKind};
use deepagents_core::tool::{DynTool, Effect, Tool, ToolContext, ToolError, ToolOutput};
use deepagents_fs::permissions::AccessMode;
use deepagents_fs::{Backend, FsError, VPath};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

pub(crate) use execute::NO_SESSION;
pub(super) use execute::end_in_words;

use super::{BackgroundCommands, Filesystem};
use crate::tokens;
use crate::workspace;

/// What a call gives.
type Answered = Result<ToolOutput, ToolError>;

/// Characters of an error at most: what it quotes came from the model, which may have sent a lot.
const LONGEST_ERROR: usize = 4_000;

/// An error for the model; a refusal where a rule is behind it.
pub(super) fn failed<E: std::fmt::Display + Any>(error: E) -> ToolError {
    let text = format!("Error: {error}");
    let text = match text.char_indices().nth(LONGEST_ERROR) {
        Some((end, _)) => format!("{} [cut]", text.get(..end).unwrap_or_default()),
        None => text,
    };
    match refusal::rule_of(&error) {
        Some(rule) => ToolError::denied_by(rule, text),
        None => ToolError::model(text),
    }
}

/// A failure of a call about a path, which is named where the error is about another one, such as a file on the way.
fn failed_at<E: std::fmt::Display + Any>(path: &VPath) -> impl FnOnce(E) -> ToolError {
    move |error| {
        let (text, rule) = (error.to_string(), refusal::rule_of(&error));
        let path = path.quoted().to_string();
        let text = if text.contains(&path) { text } else { format!("{path}: {text}") };
        match (failed(text), rule) {
            (ToolError::Model { text, .. }, Some(rule)) => ToolError::denied_by(rule, text),
            (error, _) => error,
        }
    }
}

/// The answer where there is no place to look in: nothing was found, and why.
fn no_place(what: &str, error: FsError) -> Answered {
    match error {
        FsError::NotFound(_) | FsError::NotADirectory(_) => Ok(format!("No {what} found: {error}").into()),
        error => Err(failed(error)),
    }
}

/// What an operation does with a link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtLink {
    /// It goes where the link leads.
    Follows,
    /// It is about the link itself.
    NoFollow,
}

/// A path that a call is to change.
struct Target {
    path: VPath,
    /// Where it leads.
    place: VPath,
    /// Whether a person is to be asked first.
    asks: bool,
    /// The files, in which the path leads to that place and nowhere else: what is changed is what was judged.
    backend: Arc<dyn Backend>,
}

impl Target {
    /// Asks a person where that is needed, unless one has agreed to the call already.
    fn approved(&self, cx: &ToolContext) -> Result<(), ToolError> {
        Self::all_approved(std::slice::from_ref(self), cx)
    }

    /// Asks a person once about all that need it.
    fn all_approved(targets: &[Self], cx: &ToolContext) -> Result<(), ToolError> {
        let asks: Vec<&Self> = targets.iter().filter(|target| target.asks).collect();
        let all = |name: fn(&Self) -> &VPath| {
            asks.iter().map(|target| name(target).quoted().to_string()).collect::<Vec<_>>().join(", ")
        };
        let path = all(|target| &target.path);
        let decided = cx.state().get::<ActionRequests>().and_then(|asked| asked.get(&cx.call_id().to_string()));
        if asks.is_empty() || decided.is_some_and(|review| review.decision.is_some()) {
            return Ok(());
        }
        if cx.thread().is_none() && cx.path().is_empty() {
            let why = "is changed only where a person agrees, and nobody can be asked in this run";
            return Err(ToolError::denied_by(format!("protected place: {path}"), format!("Error: {path} {why}")));
        }
        let place = all(|target| &target.place);
        let leads = if place == path { String::new() } else { format!(", which leads to {place},") };
        let (are, them) = if asks.len() > 1 { ("are", "them") } else { ("is", "it") };
        let text = format!("{path}{leads} {are} part of what steers the agent. May {} change {them}?", cx.tool_name());
        let rule = format!("protected place: {place}");
        match cx.interrupt_by(rule, text, [DecisionKind::Approve, DecisionKind::Reject])? {
            Decision::Approve => Ok(()),
            Decision::Reject { message: Some(message) } => Err(failed(format!("{path} may not be changed: {message}"))),
            _ => Err(failed(format!("{path} may not be changed: a person was asked and refused"))),
        }
    }
}

impl Filesystem {
    /// A path as the model gave it, if the tools reach it and where it leads.
    async fn reach(&self, path: &str, cx: &ToolContext) -> Result<VPath, ToolError> {
        let path = self.named(path)?;
        if !self.options.allowed_prefixes.is_empty() {
            let place = self.place(&path, AtLink::Follows, cx).await?;
            self.check_place(&path, place.as_ref().unwrap_or(&path))?;
        }
        Ok(path)
    }

    /// A path that may be changed: what the harness keeps for the agent may not.
    async fn reach_to_change(&self, path: &str, at_link: AtLink, cx: &ToolContext) -> Result<Target, ToolError> {
        let path = self.named(path)?;
        if path.is_root() {
            return Err(failed(
                "the path names the root of the workspace; give that of a file below it, such as /notes.md",
            ));
        }
        let led = self.place(&path, at_link, cx).await?;
        let place = led.clone().unwrap_or_else(|| path.clone());
        self.check_place(&path, &place)?;
        for kept in workspace::kept() {
            if [&path, &place].iter().any(|path| path.starts_with(&kept) || kept.starts_with(path)) {
                return Err(failed(format!("{path} holds what is kept for you and cannot be changed")));
            }
        }
        let backend = self.workspace.backend_for(cx);
        let mut asks = false;
        for path in [&path, &place] {
            asks |= backend.change_access(path).await == AccessMode::Ask;
        }
        let led = led.and_then(|place| backend.leading(&path, &place));
        Ok(Target { path, place, asks, backend: led.unwrap_or(backend) })
    }

    /// The path to search, given what the model said: where the tools reach one directory alone, that.
    async fn reach_to_search(&self, path: Option<&str>, cx: &ToolContext) -> Result<VPath, ToolError> {
        match (path, &self.options.allowed_prefixes[..]) {
            (None, [only]) => self.reach(only.as_str(), cx).await,
            (path, _) => self.reach(path.unwrap_or("/"), cx).await,
        }
    }

    fn named(&self, path: &str) -> Result<VPath, ToolError> {
        let path = VPath::parse(path).map_err(failed)?;
        if self.within(&path) {
            return Ok(path);
        }
        let allowed: Vec<&str> = self.options.allowed_prefixes.iter().map(VPath::as_str).collect();
        Err(failed(format!("{path} is out of reach; give a path below {}", allowed.join(" or "))))
    }

    fn within(&self, path: &VPath) -> bool {
        let allowed = &self.options.allowed_prefixes;
        allowed.is_empty() || allowed.iter().any(|prefix| path.starts_with(prefix))
    }

    fn check_place(&self, path: &VPath, place: &VPath) -> Result<(), ToolError> {
        if self.within(place) { Ok(()) } else { Err(failed(format!("{path} leads out of reach"))) }
    }

    /// Where a path leads. Nothing where rules keep that from being known.
    async fn place(&self, path: &VPath, at_link: AtLink, cx: &ToolContext) -> Result<Option<VPath>, ToolError> {
        let backend = self.workspace.backend_for(cx);
        let (from, name) = match (at_link, path.parent(), path.name()) {
            (AtLink::NoFollow, Some(parent), Some(name)) => (parent, Some(name)),
            _ => (path.clone(), None),
        };
        let place = match backend.resolve(cx.state(), &from).await {
            // Rules that keep this from being read may let it be written; they judge that themselves.
            Err(FsError::Denied { .. }) if self.options.allowed_prefixes.is_empty() => return Ok(None),
            result => result.map_err(failed_at(path))?,
        };
        // A name of one path can be that of another.
        Ok(Some(name.and_then(|name| place.join(name).ok()).unwrap_or(place)))
    }
}

/// A write to this path, so that two calls of one turn do not overtake each other; an illegal path touches nothing.
fn writes(path: &str) -> Effect {
    VPath::parse(path).map_or(Effect::Read, |path| Effect::write(path.as_str()))
}

/// What the model is told of a tool: its name, and what it does.
type Told = (&'static str, &'static str);

const LS: Told = ("ls", "Lists a directory, one absolute path a line; directories end with /.");
const READ_FILE: Told = (
    "read_file",
    "Reads a file. Text comes with line numbers and a tab before each line, which are not part of the file; a part of a file ends with where to go on. What is not text is attached, such as pictures and PDF. Read several files in one turn.",
);
const WRITE_FILE: Told = (
    "write_file",
    "Writes a whole file, with the directories above it; what was there is replaced. To change a part of a file use edit_file.",
);
const EDIT_FILE: Told = (
    "edit_file",
    "Replaces text in a file that you have read. The old text must occur exactly once unless replace_all is set.",
);
const APPLY_PATCH: Told = (
    "apply_patch",
    "Changes files: `*** Begin Patch`, then of each file `*** Add File: PATH` with its lines after a `+`, `*** Delete File: PATH`, or `*** Update File: PATH` (`*** Move to: PATH` below it renames) with hunks: `@@ LINE`, a line that stands above the place, then lines after a blank (they stay), `-` or `+`; last `*** End Patch`. Paths are absolute. If a hunk does not apply, no file is changed. Read files before you update them.",
);
const DELETE: Told = ("delete", "Deletes a file, or a directory with everything in it. There is no way back.");
const GLOB: Told = (
    "glob",
    "Finds files by name, one absolute path a line, sorted. Names that begin with a dot are found only where the pattern or path says so.",
);
const GREP: Told = (
    "grep",
    "Searches the lines of files. Gives the paths of files with a match, the matching lines with their numbers (content), or how many there are in each file (count).",
);
const EXECUTE: Told = (
    "execute",
    "Runs a shell command in the workspace and gives its output and exit code. Each command runs in a shell of its own, without input; what it leaves running is ended. For reading, writing and searching files the file tools are better.",
);

const EXECUTE_IN_SESSION: Told = (
    "execute",
    "Runs a shell command and gives its output and exit code. All commands share one shell that begins in the workspace, one after the other, without input: directory, variables and background jobs (&) stay until a command ends the shell or takes too long. For reading, writing and searching files the file tools are better.",
);

const COMMAND_OUTPUT: Told = (
    "command_output",
    "Gives what a command in the background has printed since you looked last, and whether it has ended.",
);

const STOP_COMMAND: Told = ("stop_command", "Ends a command in the background and gives the rest of its output.");

/// A tool on files.
struct FileTool<A, F> {
    files: Arc<Filesystem>,
    told: Told,
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
        self.told.0
    }

    fn description(&self) -> &str {
        self.told.1
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

/// All the tools on these files; `execute` only where commands may be run.
pub(super) fn all(files: &Arc<Filesystem>) -> Vec<Arc<dyn DynTool>> {
    fn tool<A, F, Fut>(files: &Arc<Filesystem>, told: Told, effect: fn(&A) -> Effect, call: F) -> Arc<dyn DynTool>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(Arc<Filesystem>, A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Answered> + Send + 'static,
    {
        let bounds_results = files.bounds_results(told);
        Arc::new(FileTool { files: files.clone(), told, effect, bounds_results, call })
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

impl Filesystem {
    /// Whether results of a tool stay within a bound: listings within theirs, files within that of all results, and what is
    /// said of a change is short. What a command prints is as long as it likes.
    fn bounds_results(&self, told: Told) -> bool {
        match told {
            EXECUTE | EXECUTE_IN_SESSION => false,
            LS | GLOB | GREP => tokens::limit(self.options.listing_tokens).is_some(),
            _ => true,
        }
    }

    /// What a result may weigh, in quarters of a token, if there is a limit.
    pub(super) fn budget(&self) -> Option<usize> {
        tokens::limit(self.options.result_tokens)
    }

    /// Lines as one text within the budget of listings, with notes on what is left out.
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
