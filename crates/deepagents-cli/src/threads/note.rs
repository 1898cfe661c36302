//! The metadata that a thread stores about the work in it, whichever part of the program does it: `run`, the screens,
//! an editor, a server. A thread is found by its directory, and resumed with its model and in its mode.

use std::path::Path;

use clap::ValueEnum;
use deepagents::core::journal::ThreadInfo;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::model;
use crate::args::{Approve, RedactedKind};
use crate::render::style::first_line;

/// Metadata key for the directory.
const ROOT: &str = "root";
/// Metadata key for the title.
const TITLE: &str = "title";
/// Metadata key for the approval mode.
const MODE: &str = "approve";
/// Metadata key for what is redacted.
const REDACT: &str = "redact";
/// Maximum length of a title in characters.
const TITLE_LENGTH: usize = 80;

/// The circumstances of a run, as noted in its thread.
pub(crate) struct Noted<'a> {
    /// The directory, unless there is none or somebody else notes it.
    pub(crate) root: Option<&'a Path>,
    /// The model, and the address given with it; `None` if there is no model.
    pub(crate) model: Option<(&'a str, Option<&'a str>)>,
    pub(crate) approve: Approve,
    /// What is redacted.
    pub(crate) redact: &'a [RedactedKind],
}

impl Noted<'_> {
    /// Returns the thread metadata.
    pub(crate) fn metadata(&self) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.extend(self.root.map(|root| (ROOT.to_owned(), json!(self::root(root)))));
        if let Some((name, address)) = self.model {
            model::note(&mut metadata, name, address);
        }
        metadata.insert(MODE.to_owned(), json!(self.approve));
        // Once a thread redacts something, it continues to do so.
        if !self.redact.is_empty() {
            metadata.insert(REDACT.to_owned(), json!(self.redact));
        }
        metadata
    }
}

/// Takes the first message as the thread's title, unless it is blank.
pub(crate) fn name(metadata: &mut Map<String, Value>, message: &str) {
    let title = first_line(message, TITLE_LENGTH);
    if !title.is_empty() {
        metadata.insert(TITLE.to_owned(), json!(title));
    }
}

/// Whether a thread has a title.
pub(crate) fn has_name(thread: &ThreadInfo) -> bool {
    thread.metadata.get(TITLE).and_then(Value::as_str).is_some_and(|title| !title.is_empty())
}

/// Whether a thread has a directory.
pub(crate) fn has_root(thread: &ThreadInfo) -> bool {
    thread.metadata.contains_key(ROOT)
}

/// Returns the mode of the thread's last run, if noted.
pub(crate) fn mode_of(thread: &ThreadInfo) -> Option<Approve> {
    Approve::deserialize(thread.metadata.get(MODE)?).ok()
}

/// Returns an error if a thread is in a mode that allows less than that of an agent which is to work on it. `option`
/// writes a mode as the option of the server that chooses it.
pub(crate) fn keeps_mode(thread: &ThreadInfo, mode: Approve, option: impl Fn(&str) -> String) -> Result<(), String> {
    let Some(noted) = thread.metadata.get(MODE) else { return Ok(()) };
    // A mode of a later version may allow nothing.
    let own = mode_of(thread).unwrap_or(Approve::Deny);
    if allowed(own) >= allowed(mode) {
        return Ok(());
    }
    let name = |mode: Approve| mode.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    // Servers have no `allow-list`.
    let served = option(&name(if own == Approve::Ask { own } else { Approve::Deny }));
    let (own, mode, id) = (noted.as_str().unwrap_or("unknown"), name(mode), &thread.id);
    Err(format!(
        "this thread is in the mode `{own}`, which allows less than `{mode}`, the mode of this agent: continue it in the terminal \
         with `deepagents run --resume {id}`, or serve an agent with `{served}`"
    ))
}

/// Orders the modes by how much they allow.
fn allowed(mode: Approve) -> u8 {
    match mode {
        Approve::Deny => 0,
        Approve::AllowList => 1,
        Approve::Ask => 2,
        Approve::Auto => 3,
    }
}

/// Returns what the thread redacts, if noted.
pub(crate) fn redaction_of(thread: &ThreadInfo) -> Vec<RedactedKind> {
    let noted = thread.metadata.get(REDACT).and_then(Value::as_array).into_iter().flatten();
    // Kinds from a later version are unknown here; the known ones stay redacted.
    noted.filter_map(|kind| RedactedKind::deserialize(kind).ok()).collect()
}

/// Adds what the thread redacted before to `kinds`, unless an option says what to redact. Returns a remark about it for
/// the user.
pub(crate) fn keep_redaction(
    kinds: &mut Vec<RedactedKind>,
    named: &[RedactedKind],
    noted: &[RedactedKind],
) -> Option<String> {
    let more: Vec<RedactedKind> = noted.iter().filter(|kind| !kinds.contains(kind)).copied().collect();
    if !named.is_empty() || more.is_empty() {
        return None;
    }
    kinds.extend(more);
    let names: Vec<String> =
        kinds.iter().filter_map(|kind| Some(kind.to_possible_value()?.get_name().to_owned())).collect();
    Some(format!("this thread keeps redacting as before: --redact {}", names.join(",")))
}

/// Returns a directory in the form that threads note.
pub(crate) fn root(given: &Path) -> String {
    given.canonicalize().unwrap_or_else(|_| given.to_owned()).display().to_string()
}
