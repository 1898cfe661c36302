//! Finding hooks, and the shells they run in.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use deepagents::State;
use deepagents::fs::permissions::programs_of;
use deepagents::fs::shell::{Confinement, LocalShell};
use deepagents::fs::{Backend, ByteRange, FsError, VPath};
use deepagents::middleware::hooks::{HookRunner, Hooks, HooksError};
use deepagents::trust::{FoundItem, TrustKind};
use serde_json::Value;

use super::sender::Sender;
use crate::args::AgentArgs;
use crate::model_choice::ordered_providers;
use crate::output;
use crate::own_files::{OWN, home, is_same, of_user};
use crate::small_file;
use crate::trust::{Brought, Whole};

/// Name of a hooks file.
const FILE: &str = "hooks.json";
/// Name of the directory for the conversations that hooks ask for.
const TRANSCRIPTS: &str = "transcripts";
/// Maximum size of such a file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The hooks of a run.
#[derive(Debug, Default)]
pub(crate) struct FoundHooks {
    /// Runs them; `None` if there are none.
    pub(crate) runner: Option<HookRunner>,
    /// Descriptions of the entries in their files that are ignored.
    pub(crate) problems: Vec<String>,
}

/// Finds the hooks for runs in a root: first the directory's, as far as they may be used, confined like the agent's
/// commands; then the user's. Prints the problems with them.
///
/// # Errors
/// Returns an error as [`find_quietly`] does.
pub(crate) async fn find(
    options: &AgentArgs,
    brought: &Brought,
    confinement: Confinement,
) -> Result<Option<HookRunner>> {
    let FoundHooks { runner, problems } = find_quietly(options, brought, confinement).await?;
    output::remarks(problems);
    Ok(runner)
}

/// Like [`find`], but returns the problems instead of printing them.
///
/// # Errors
/// Returns an error if a file cannot be used: a missing guard must not go unnoticed.
pub(crate) async fn find_quietly(
    options: &AgentArgs,
    brought: &Brought,
    confinement: Confinement,
) -> Result<FoundHooks> {
    if options.no_hooks {
        return Ok(FoundHooks::default());
    }
    let root = options.directory().canonicalize()?;
    let mut hooks = Hooks::default();
    let of_root = place()?;
    let users = of_user(FILE).filter(|file| file.exists());
    let is_users = users.as_ref().is_some_and(|file| is_same(file, &root.join(OWN).join(FILE)));
    if brought.has(&of_root) && !is_users {
        let read = brought.files.read(&State::default(), &of_root, ByteRange::first(MAX_FILE_BYTES)).await;
        let text = read.map_err(|error| anyhow!("{error}"))?.bytes;
        let shell = shell(&root, confinement, false)?;
        // The directory's hooks get no HTTP client: they may not send their input anywhere.
        let read = Hooks::parse(&String::from_utf8_lossy(&text), of_root.as_str(), shell);
        hooks = hooks.and(read.map_err(unusable)?.only_restricting());
    }
    if let Some(file) = users {
        let text =
            fs::read_to_string(&file).map_err(|error| anyhow!("`{}` cannot be read: {error}", file.display()))?;
        let shell = shell(&root, Confinement::Unconfined, true)?;
        let read = Hooks::parse_with_services(&text, file.display().to_string(), shell, Arc::new(Sender::default()));
        hooks = hooks.and(read.map_err(unusable)?);
    }
    let problems = hooks.problems().to_vec();
    let runner = (!hooks.is_empty()).then(|| {
        let runner = HookRunner::new(hooks).root(root);
        of_user(TRANSCRIPTS).into_iter().fold(runner, HookRunner::transcripts)
    });
    Ok(FoundHooks { runner, problems })
}

#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unusable(error: HooksError) -> anyhow::Error {
    anyhow!("{error}; fix it, or give --no-hooks")
}

/// Opens a shell in the root. The user's own hooks get the user's environment, except the keys of providers.
fn shell(root: &Path, confinement: Confinement, is_users: bool) -> Result<Arc<LocalShell>> {
    let shell = LocalShell::open(root, confinement)
        .map_err(|error| anyhow!("hooks cannot be run in this directory: {error}"))?;
    let keys: Vec<&str> = ordered_providers().iter().filter_map(|provider| provider.key_variable).collect();
    let own = |name: &str| is_users && !keys.contains(&name) && name != "DEEPAGENTS_API_KEY";
    let vars =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let shell = vars.filter(|(name, _)| own(name)).fold(shell, |shell, (name, value)| shell.env(name, value));
    let directory = root.display().to_string();
    Ok(Arc::new(shell.env("DEEPAGENTS_PROJECT_DIR", &directory).env("CLAUDE_PROJECT_DIR", &directory)))
}

pub(super) fn place() -> Result<VPath> {
    Ok(VPath::parse(&format!("/{OWN}/{FILE}"))?)
}

/// Returns the directory's hooks, with the programs in it that they run, as an item that the directory brings. Returns
/// an error if they cannot be read.
pub(crate) async fn brought(files: &dyn Backend, root: &Path) -> Result<Option<FoundItem>, String> {
    let path = place().map_err(|error| error.to_string())?;
    let read = match files.read(&State::default(), &path, ByteRange::first(MAX_FILE_BYTES + 1)).await {
        Ok(read) => read,
        Err(FsError::NotFound(_) | FsError::NotADirectory(_)) => return Ok(None),
        Err(error) => return Err(format!("hooks: {error}")),
    };
    if read.bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("{path} is larger than {} MB and is not used", MAX_FILE_BYTES >> 20));
    }
    let (commands, root) = (commands(&read.bytes), root.to_owned());
    let asks_for = commands.iter().map(|command| format!("to run `{command}`")).collect();
    let whole = Whole { kind: TrustKind::Hook, name: FILE.to_owned(), source: path.as_str().to_owned(), asks_for };
    // Blocking, because the programs are read.
    let item = tokio::task::spawn_blocking(move || {
        let root = root.canonicalize().unwrap_or(root);
        whole.with(read.bytes.to_vec(), &run_by(&commands, &root), &root)
    });
    item.await.map(Some).map_err(|error| format!("hooks: {error}"))
}

/// Returns the programs in a directory that hooks run: the user's hooks, and those that the directory brings.
pub(crate) fn programs_run(root: &Path) -> BTreeSet<VPath> {
    run_by(&commands_run(root), root)
}

/// Returns the commands of these hooks.
pub(crate) fn commands_run(root: &Path) -> Vec<String> {
    let files = of_user(FILE).into_iter().chain([root.join(OWN).join(FILE)]);
    let texts = files.filter_map(|file| small_file::bytes(&file, MAX_FILE_BYTES).ok()?);
    texts.flat_map(|text| commands(&text)).collect()
}

fn run_by(commands: &[String], root: &Path) -> BTreeSet<VPath> {
    commands.iter().flat_map(|command| programs_of(command, root, root, home().as_deref())).collect()
}

/// Returns the commands in a hooks file; none if it cannot be parsed.
fn commands(file: &[u8]) -> Vec<String> {
    let file: Value = serde_json::from_slice(file).unwrap_or_default();
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let events = file.get("hooks").and_then(Value::as_object).into_iter().flat_map(|events| events.values());
    let groups = events.flat_map(|event| list(Some(event)));
    let hooks = groups.flat_map(|group| list(group.get("hooks")));
    hooks.filter_map(|hook| hook.get("command")?.as_str().map(str::to_owned)).collect()
}
