//! Commands run by `find`.

use super::list;
use crate::permissions::commands::script::{Document, Doubt, Script, Simple};
use crate::permissions::commands::word::Word;

/// Adds the commands that `find` runs.
pub(super) fn found(script: &mut Script, args: &[Word], depth: usize) {
    // An expansion may contain a complete expression.
    if args.iter().any(|word| matches!(word, Word::Computed(None))) {
        script.doubts.push(Doubt::Evaluation);
    }
    let runs = |word: &Word| match word {
        Word::Known(text) => matches!(text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir"),
        Word::Computed(begins) => begins.as_deref().is_none_or(|begins| "-execdir".starts_with(begins)),
    };
    let mut rest = args;
    while let Some(at) = rest.iter().position(runs) {
        let guessed = rest.get(at).is_some_and(|word| word.known().is_none());
        let behind = rest.get(at + 1..).unwrap_or_default();
        let end = end_of_command(behind);
        // Implementations of `find` disagree on a `+` elsewhere.
        if behind.get(..end.unwrap_or(behind.len())).unwrap_or_default().iter().any(|word| word.known() == Some("+")) {
            script.doubts.push(Doubt::Options);
        }
        rest = behind.get(if guessed { 0 } else { end.unwrap_or(behind.len()) }..).unwrap_or_default();
        if guessed && end.is_none() {
            continue;
        }
        let command = behind.get(..end.unwrap_or(behind.len())).unwrap_or_default().iter();
        let words: Vec<Word> = command
            .map(|word| match word.known() {
                Some(text) if text.contains("{}") => Word::Computed(None),
                _ => word.clone(),
            })
            .collect();
        if guessed {
            script.commands.push(Simple { words, guessed, ..Simple::default() });
            continue;
        }
        script.compound = true;
        list(script, Simple { words, ..Simple::default() }, Document::None, depth + 1);
    }
}

/// Returns the end of a command after `-exec`: a `;`, or a `+` that follows `{}`.
fn end_of_command(words: &[Word]) -> Option<usize> {
    let is = |at: usize, text| words.get(at).and_then(Word::known) == Some(text);
    (0..words.len())
        .find(|at| is(*at, ";") || (is(*at, "+") && at.checked_sub(1).is_some_and(|before| is(before, "{}"))))
}
