//! Changes to files that undo each other.

use serde_json::Value;

use super::turns::{Args, Call, Turn};

/// A change to a file, derived from the arguments of a successful call, whatever the tool is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change<'a> {
    Replaced { old: &'a str, new: &'a str },
    Written(&'a str),
}

fn change<'a>(call: &Call<'a>) -> Option<(&'a str, Change<'a>)> {
    if call.result.is_none_or(|result| result.is_error) {
        return None;
    }
    let Args::Json(args) = call.args else { return None };
    let text = |key: &str| args.get(key).and_then(Value::as_str);
    let path = text("file_path")?;
    let replaced = text("old_string").zip(text("new_string")).map(|(old, new)| Change::Replaced { old, new });
    Some((path, replaced.or_else(|| text("content").map(Change::Written))?))
}

/// A series of changes that undo each other.
pub(super) struct UndoneEdits {
    /// The length of the series.
    pub(super) times: u32,
    /// Upper bound on how many of them the last turn made.
    pub(super) last_turn_edits: u32,
    /// The tools that the last turn called.
    pub(super) tools: Vec<String>,
}

/// Returns how many consecutive changes to the file that the last turn changed undid the previous one, up to `most`.
pub(super) fn undone<'a>(turns: impl Iterator<Item = Turn<'a>>, most: u32) -> Option<UndoneEdits> {
    let mut turns = turns.peekable();
    let last = turns.peek()?;
    let (path, _) = last.calls.iter().rev().find_map(change)?;
    let tools = last.tools();
    let made = last.calls.iter().filter_map(change).filter(|(of, _)| *of == path).count();
    let last_turn_edits = u32::try_from(made).unwrap_or(u32::MAX);
    let changes = turns.flat_map(|turn| {
        let mut calls: Vec<_> = turn.calls.iter().filter_map(change).collect();
        calls.reverse();
        calls
    });
    let changes = changes.filter(|(of, _)| *of == path).map(|(_, change)| change);
    let wanted = usize::try_from(most).unwrap_or(usize::MAX).saturating_add(2);
    let changes: Vec<Change<'_>> = changes.take(wanted).collect();
    let undoes = |at: &usize| match (changes.get(*at), changes.get(at + 1), changes.get(at + 2)) {
        (Some(Change::Replaced { old, new }), Some(Change::Replaced { old: was, new: became }), _) => {
            old == became && new == was && old != new
        }
        (Some(Change::Written(now)), Some(Change::Written(before)), Some(Change::Written(earlier))) => {
            now == earlier && now != before
        }
        _ => false,
    };
    let times = u32::try_from((0..changes.len()).take_while(undoes).count()).unwrap_or(u32::MAX);
    (times > 0).then_some(UndoneEdits { times, last_turn_edits, tools })
}
