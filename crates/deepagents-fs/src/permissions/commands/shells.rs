//! Shells: what they run, and which of their built-in commands evaluate text.

use super::script::{Document, Doubt, Script, Simple};
use super::word::{Word, is_name};
use super::{mentions, runners};

/// Shells whose options are known. Commands run by others are searched for, as with other programs that run programs.
pub(super) const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ash", "rbash"];

/// Shells with other languages, and programs that start one. Commands they run are searched for.
pub(super) const OTHERS: [&str; 13] =
    ["su", "zsh", "ksh", "ksh93", "mksh", "yash", "csh", "tcsh", "fish", "nu", "pwsh", "elvish", "xonsh"];

/// Option letters that do not affect what is run. Apart from these, only `-c`, `-o` and `-O` are accepted.
const FLAGS: &str = "abefhiklmnptruvxBCDEHPT";
/// Equivalent long options of bash without a value; also known with a single hyphen.
const LONG: [&str; 9] =
    ["debugger", "login", "noediting", "noprofile", "norc", "posix", "restricted", "verbose", "protected"];

/// Commands that change how the rest is read, or store text to run it later.
pub(super) const UNREADABLE: [&str; 17] = [
    "alias",
    "unalias",
    "shopt",
    "enable",
    "hash",
    "bind",
    "complete",
    "compgen",
    "compopt",
    "fc",
    "parallel",
    "mapfile",
    "readarray",
    "coproc",
    "at",
    "batch",
    "sem",
];

/// Commands that evaluate their arguments, so that a subscript in them may run something.
const EVALUATING: [&str; 13] = [
    "let", "test", "[", "printf", "read", "unset", "declare", "typeset", "local", "export", "readonly", "getopts",
    "wait",
];

/// Adds what a shell runs: the text after `-c`, or its input. Returns whether that is all it runs.
pub(super) fn run(script: &mut Script, simple: &Simple, args: &[Word], document: Document, depth: usize) -> bool {
    let mut rest = args.iter();
    let (mut text, mut starts, mut options) = (false, false, true);
    let mut operand = None;
    while let Some(arg) = rest.next() {
        let Some(word) = arg.known() else {
            script.doubts.push(Doubt::Evaluation);
            return false;
        };
        let short = word.strip_prefix(['-', '+']).filter(|_| options);
        match short {
            None => {
                operand = Some((arg, word));
                break;
            }
            Some("" | "-") => options = false,
            Some(word) if LONG.contains(&word.trim_start_matches('-')) => {}
            Some(word) if matches!(word.trim_start_matches('-'), "rcfile" | "init-file") => {
                starts = true;
                if rest.next().is_none_or(is_stream) {
                    script.doubts.push(Doubt::Input);
                }
            }
            Some(letters) => {
                for letter in letters.chars() {
                    match letter {
                        'c' => text = true,
                        'o' | 'O' => drop(rest.next()),
                        letter if FLAGS.contains(letter) => {}
                        _ => {
                            script.doubts.push(if letter == 's' { Doubt::Input } else { Doubt::Options });
                            return false;
                        }
                    }
                }
            }
        }
    }
    match (operand, document) {
        (Some((_, operand)), _) if text => {
            script.compound = true;
            script.text(operand, depth + 1);
            !starts
        }
        (Some((file, _)), _) => {
            if reads(script, simple, file) {
                script.doubts.push(Doubt::Input);
            }
            // A script file, which is a program like any other.
            false
        }
        (None, Document::Known(document)) => {
            script.compound = true;
            script.text(&document, depth + 1);
            !starts
        }
        (None, _) => {
            script.doubts.push(Doubt::Input);
            false
        }
    }
}

/// Returns whether a shell with another language runs something that cannot be read here: anything but a file.
pub(super) fn is_unread(script: &Script, simple: &Simple, name: &str, args: &[Word]) -> bool {
    let file = args.first().filter(|first| name != "su" && first.known().is_some_and(|first| !first.starts_with('-')));
    file.is_none_or(|file| reads(script, simple, file))
}

/// Returns whether the file that a command runs is its own input.
pub(super) fn reads(script: &Script, simple: &Simple, file: &Word) -> bool {
    // In another directory, a number may name an open descriptor.
    is_stream(file) || (simple.reads_text && script.moves)
}

/// Returns whether a file is an open stream, or may be created while the command runs. The directory of a relative path
/// is unknown.
pub(super) fn is_stream(file: &Word) -> bool {
    let Some(file) = file.known() else { return true };
    let mut parts: Vec<&str> = Vec::new();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let open = |name: &str| matches!(name, "stdin" | "stdout" | "stderr" | "tty" | "fd");
    parts.windows(2).any(|pair| matches!(pair, ["dev", name] if open(name)) || matches!(pair, ["proc", _] | ["fd", _]))
        || parts.last() == Some(&"stdin")
}

/// Handles built-in commands that change how text is read, or that evaluate text.
pub(super) fn evaluates(script: &mut Script, name: &str, args: &[Word], depth: usize) {
    if UNREADABLE.contains(&name) || (EVALUATING.contains(&name) && has_subscript(name, args)) {
        script.doubts.push(Doubt::Evaluation);
    }
    if mentions::sets_variables(name) {
        let set: Vec<_> = args.iter().filter_map(super::wrappers::assignment).collect();
        runners::variables(script, &set, depth);
        // A name reference is assigned through later, under another name.
        let refers = |arg: &Word| arg.known().is_some_and(|arg| arg.starts_with('-') && arg.contains('n'));
        if !matches!(name, "export" | "readonly") && args.iter().any(refers) {
            script.doubts.push(Doubt::Evaluation);
        }
    }
    let set = match name {
        "read" => read_into(args),
        "getopts" => args.get(1).into_iter().collect(),
        _ => Vec::new(),
    };
    let set = set.into_iter().filter_map(Word::known).map(|name| (name.to_owned(), Word::Computed(None)));
    script.assigned(set, depth);
    // `jobs -x` replaces job IDs in a command and runs it.
    if name == "jobs" && args.iter().any(|arg| arg.known().is_none_or(|arg| arg.starts_with('-') && arg.contains('x')))
    {
        script.doubts.push(Doubt::Evaluation);
    }
}

/// Returns the variables that `read` sets.
fn read_into(args: &[Word]) -> Vec<&Word> {
    let mut names = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let option = arg.known().and_then(|arg| arg.strip_prefix('-')).filter(|_| names.is_empty());
        let Some(option) = option else {
            names.push(arg);
            continue;
        };
        // The value is in the same word or the next; that of `-a` is a variable too.
        match option.char_indices().find(|(_, letter)| "adinNptu".contains(*letter)) {
            Some((at, 'a')) if at + 1 == option.len() => names.extend(rest.next()),
            Some((at, _)) if at + 1 == option.len() => drop(rest.next()),
            _ => {}
        }
    }
    names
}

/// Returns whether the arguments contain, or may contain, a subscript that runs something.
fn has_subscript(name: &str, args: &[Word]) -> bool {
    let runs = |text: &str| text.contains("$(") || text.contains('`');
    let tests = matches!(name, "test" | "[");
    args.iter().enumerate().any(|(at, arg)| match arg {
        // Printed text is not evaluated, unless `-v` stores it in a variable.
        Word::Known(text) if name == "printf" => text.starts_with("-v"),
        Word::Known(text) if tests => text == "-v" || text == "-R" || runs(text),
        Word::Known(text) => runs(text) || name == "let",
        // A single word that is not in the position of an operator is text to compare.
        Word::Computed(Some(_)) if tests => false,
        Word::Computed(_) if name == "printf" => at == 0,
        // A process ID expands to a single word.
        Word::Computed(_) if name == "wait" => false,
        Word::Computed(Some(begins)) => !begins.split_once('=').is_some_and(|(name, _)| is_name(name)),
        Word::Computed(None) => true,
    })
}
