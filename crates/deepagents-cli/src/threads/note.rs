//! What a thread notes of the work in it, whichever part of the program does it: `run`, the screens, an editor, a server. Whoever
//! goes on with it finds it by its directory, and goes on with its model and in its mode.

use std::path::Path;

use clap::ValueEnum;
use deepagents::core::journal::ThreadInfo;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::model;
use crate::args::{Approve, RedactedKind};
use crate::render::style::first_line;

/// The key under which a thread notes its directory.
const ROOT: &str = "root";
/// The key under which a thread notes what it is called.
const TITLE: &str = "title";
/// The key under which a thread notes how decisions are made in it.
const MODE: &str = "approve";
/// The key under which a thread notes what is hidden in it.
const REDACT: &str = "redact";
/// Characters of the first message that a thread is called by.
const TITLE_LENGTH: usize = 80;

/// What is done in a thread, and where.
pub(crate) struct Noted<'a> {
    /// The directory, where it has one and does not note another.
    pub(crate) root: Option<&'a Path>,
    /// The model, and the address that it was given with; none where there is no model.
    pub(crate) model: Option<(&'a str, Option<&'a str>)>,
    pub(crate) approve: Approve,
    /// What is hidden in it.
    pub(crate) redact: &'a [RedactedKind],
}

impl Noted<'_> {
    /// As the thread notes it.
    pub(crate) fn metadata(&self) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.extend(self.root.map(|root| (ROOT.to_owned(), json!(self::root(root)))));
        if let Some((name, address)) = self.model {
            model::note(&mut metadata, name, address);
        }
        metadata.insert(MODE.to_owned(), json!(self.approve));
        // A thread in which something was hidden once goes on so.
        if !self.redact.is_empty() {
            metadata.insert(REDACT.to_owned(), json!(self.redact));
        }
        metadata
    }
}

/// Calls a thread by the first message in it, if that says something.
pub(crate) fn name(metadata: &mut Map<String, Value>, message: &str) {
    let title = first_line(message, TITLE_LENGTH);
    if !title.is_empty() {
        metadata.insert(TITLE.to_owned(), json!(title));
    }
}

/// Whether a thread is called something.
pub(crate) fn has_name(thread: &ThreadInfo) -> bool {
    thread.metadata.get(TITLE).and_then(Value::as_str).is_some_and(|title| !title.is_empty())
}

/// Whether a thread has a directory.
pub(crate) fn has_root(thread: &ThreadInfo) -> bool {
    thread.metadata.contains_key(ROOT)
}

/// The mode that a thread was run in last, if that was noted.
pub(crate) fn mode_of(thread: &ThreadInfo) -> Option<Approve> {
    Approve::deserialize(thread.metadata.get(MODE)?).ok()
}

/// What was hidden in a thread, if that was noted.
pub(crate) fn redaction_of(thread: &ThreadInfo) -> Vec<RedactedKind> {
    let noted = thread.metadata.get(REDACT).and_then(Value::as_array).into_iter().flatten();
    // A later version may know more kinds; those that are known here stay hidden.
    noted.filter_map(|kind| RedactedKind::deserialize(kind).ok()).collect()
}

/// Adds what was hidden in a thread to what is to be hidden, where no option says what is. Gives what to tell of it.
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
    Some(format!("this thread goes on with what was hidden in it: --redact {}", names.join(",")))
}

/// The directory as threads note it.
pub(crate) fn root(given: &Path) -> String {
    given.canonicalize().unwrap_or_else(|_| given.to_owned()).display().to_string()
}
