//! Commands mentioned in the input of programs that may run them in unknown ways.
//!
//! `make -f /dev/stdin`, `sqlite3 x '.shell …'` and `python3 -c …` run commands written in languages of their own. If
//! the input of such a program contains the words of a command that a rule denies or asks about, a person is asked.
//! Programs that run nothing, such as `echo` and `grep`, may be given anything, as long as their output does not go to
//! a program that may run it.

use super::pattern::{CommandPattern, Match, is_private};
use super::script::Simple;
use super::word::Word;
use super::{filters, options, runners, values};

/// Number of words after a name that are taken for its arguments.
const MAX_ARGUMENTS: usize = 32;

/// Programs that run nothing from their arguments or input.
const INERT: &[&str] = &[
    ":", "[", "apropos", "base64", "basename", "bg", "break", "cat", "cd", "chgrp", "chmod", "chown", "cmp", "column",
    "comm", "continue", "cut", "date", "df", "diff", "dir", "dirname", "dirs", "du", "echo", "egrep", "exit", "expand",
    "expr", "export", "false", "fg", "fgrep", "file", "fmt", "fold", "getopts", "grep", "head", "hexdump", "hostname",
    "id", "jobs", "join", "jq", "kill", "killall", "local", "ls", "man", "mkdir", "nl", "numfmt", "od", "paste",
    "pgrep", "pkill", "popd", "printenv", "printf", "ps", "pushd", "pwd", "read", "readlink", "readonly", "realpath",
    "return", "rev", "rg", "rm", "rmdir", "seq", "set", "shift", "sleep", "stat", "strings", "tac", "tail", "test",
    "times", "touch", "tr", "tree", "true", "truncate", "tty", "type", "typeset", "declare", "ulimit", "umask",
    "uname", "unexpand", "unset", "wait", "wc", "whatis", "whereis", "which", "whoami", "yes",
];

/// Subcommands that run nothing either.
const INERT_SUB_COMMANDS: [(&str, &[&str]); 3] = [
    (
        "git",
        &[
            "add",
            "annotate",
            "apply",
            "blame",
            "branch",
            "cat-file",
            "checkout",
            "cherry-pick",
            "clean",
            "commit",
            "describe",
            "diff",
            "for-each-ref",
            "format-patch",
            "grep",
            "init",
            "log",
            "ls-files",
            "ls-tree",
            "merge",
            "merge-base",
            "mv",
            "notes",
            "range-diff",
            "reflog",
            "remote",
            "reset",
            "restore",
            "rev-list",
            "rev-parse",
            "revert",
            "rm",
            "shortlog",
            "show",
            "show-ref",
            "stash",
            "status",
            "switch",
            "tag",
            "worktree",
        ],
    ),
    ("gh", &["api", "browse", "gist", "issue", "label", "pr", "release", "repo", "run", "search", "workflow"]),
    ("cargo", &["add", "info", "remove", "search", "tree"]),
];

/// What a program does with its input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Runs none of it.
    None,
    /// Runs words only in ways that are handled elsewhere, but a word may contain more text. This many leading
    /// arguments are not commands.
    Texts(usize),
    /// Gives a program another name.
    Names,
    /// Unknown.
    Unknown,
}

/// Kinds of programs that print checksums, such as `sha256sum`.
const CHECKSUMS: [&str; 6] = ["", "ck", "md5", "sha1", "sha256", "sha512"];

/// Returns whether a program of this name runs nothing.
fn is_inert(name: &str) -> bool {
    INERT.contains(&name) || name.strip_suffix("sum").is_some_and(|kind| CHECKSUMS.contains(&kind))
}

/// Returns whether the input of a program of this name may be ignored.
pub(super) fn may_be_inert(name: &str) -> bool {
    is_inert(name)
        || matches!(name, "sed" | "awk" | "gawk" | "mawk" | "nawk" | "sort")
        || INERT_SUB_COMMANDS.iter().any(|(of, _)| *of == name)
}

fn of(name: &str, is_standard: bool, args: &[Word]) -> Use {
    let sub_command = options::sub_command(name, args);
    let among = |subs: &&[&str]| sub_command.is_some_and(|sub| subs.contains(&sub));
    let inert = match name {
        "sed" => filters::is_plain_sed(args),
        "awk" | "gawk" | "mawk" | "nawk" => filters::is_plain_awk(args),
        // Options may make it write files.
        "sort" => !args.iter().any(|arg| arg.known().is_none_or(|arg| arg.starts_with('-') && arg.contains('o'))),
        _ => is_inert(name) || INERT_SUB_COMMANDS.iter().any(|(of, subs)| *of == name && among(subs)),
    };
    match runners::before_command(name, args) {
        _ if is_standard && inert => Use::None,
        Some(before) => Use::Texts(before),
        None if options::are_known(name) || values::are_known(name) => Use::Texts(args.len()),
        None if gives_names(name) => Use::Names,
        None => Use::Unknown,
    }
}

/// Returns whether a program of this name gives a file another name, or copies it.
pub(super) fn gives_names(name: &str) -> bool {
    matches!(name, "cp" | "ln" | "mv" | "install" | "dd")
}

/// Records the arguments of a program that may be a command to it.
pub(super) fn add_mentions(simple: &mut Simple, name: &str, is_standard: bool) {
    let args = simple.words.get(1..).unwrap_or_default();
    let mut found = Vec::new();
    match of(name, is_standard, args) {
        Use::None => {
            simple.inert = true;
            simple.kept |= sets_variables(name) || writes_its_input(name, args);
            return;
        }
        Use::Texts(before) => {
            let texts = args.iter().take(before).filter_map(Word::known).filter(|text| !is_bare(text));
            found.extend(texts.flat_map(words));
        }
        // Whatever arguments it will be called with.
        Use::Names => found.extend(args.iter().map(|arg| vec![arg.clone(), Word::Computed(None)])),
        Use::Unknown => {
            let split = |arg: &Word| match arg {
                Word::Known(text) => words(text).next().unwrap_or_default(),
                Word::Computed(_) => vec![arg.clone()],
            };
            found.push(args.iter().flat_map(split).collect());
            found.extend(args.iter().filter_map(Word::known).flat_map(|text| words(text).skip(1)));
        }
    }
    // The program's word may contain more than a name, such as `!touch` in another language.
    found.extend(simple.words.first().and_then(Word::known).into_iter().filter(|text| !is_bare(text)).flat_map(words));
    simple.mentions = found;
    around(simple);
}

/// Records what a program gets besides its arguments: its input, and variables.
pub(super) fn around(simple: &mut Simple) {
    let values = simple.assignments.iter().filter_map(|(_, value)| value.known());
    let found: Vec<_> = values.chain(simple.texts.iter().map(String::as_str)).flat_map(words).collect();
    simple.mentions.extend(found);
}

/// Records the output of a program that runs nothing.
pub(super) fn printed(simple: &mut Simple) {
    if !simple.mentions.is_empty() {
        return;
    }
    let args = simple.words.get(1..).unwrap_or_default();
    let name = simple.words.first().and_then(Word::known).unwrap_or_default();
    let mut found = Vec::new();
    if matches!(name, "echo" | "printf" | "yes") {
        let all = args.iter().map(|arg| arg.known().unwrap_or_default()).collect::<Vec<_>>().join(" ");
        found.extend(words(&all));
    }
    let set = args.iter().filter(|_| sets_variables(name)).filter_map(super::wrappers::assignment);
    let set = set.chain(simple.assignments.iter().filter(|_| name.is_empty()).cloned());
    found.extend(
        set.filter(|(name, _)| !is_private(name))
            .flat_map(|(_, value)| value.known().map(|value| words(value).collect::<Vec<_>>()).unwrap_or_default()),
    );
    found.extend(simple.texts.iter().flat_map(|text| words(text)));
    simple.mentions = found;
}

/// Records all arguments of a program that runs nothing, since what it prints may be run.
pub(super) fn all(simple: &mut Simple) {
    let args = simple.words.iter().skip(1).filter_map(Word::known).collect::<Vec<_>>().join(" ");
    let mut found: Vec<_> = words(&args).chain(words(&args.replace(['/', '+', '%', '='], " "))).collect();
    // A copy of a program may be called with any arguments.
    if simple.words.first().and_then(Word::known).is_some_and(|name| !matches!(name, "echo" | "printf")) {
        found.iter_mut().for_each(|words| words.push(Word::Computed(None)));
    }
    found.extend(simple.texts.iter().flat_map(|text| words(text)));
    simple.mentions.extend(found);
}

/// Records the values of variables that a command sets for those that follow.
pub(super) fn values(simple: &mut Simple) {
    if simple.words.is_empty() {
        let values = simple.assignments.iter().filter_map(|(_, value)| value.known());
        let found: Vec<_> = values.flat_map(words).collect();
        simple.mentions.extend(found);
    }
}

/// Returns whether a program writes its input to files that it names.
pub(super) fn writes_its_input(name: &str, args: &[Word]) -> bool {
    name == "git" && options::sub_command(name, args) == Some("apply")
}

/// Returns whether the arguments of a program of this name are assignments.
pub(super) fn sets_variables(name: &str) -> bool {
    matches!(name, "export" | "readonly" | "declare" | "typeset" | "local")
}

/// Returns whether a command's input mentions a command that the pattern is about.
pub(super) fn has(simple: &Simple, pattern: &CommandPattern) -> bool {
    simple.mentions.iter().any(|words| {
        words.iter().enumerate().any(|(at, word)| {
            word.known().is_some_and(|word| pattern.may_name(word)) && {
                let words = words.iter().skip(at).take(MAX_ARGUMENTS).cloned().collect();
                pattern.takes_away(&Simple { words, ..Simple::default() }) != Match::No
            }
        })
    })
}

/// Splits text in any language into words. If it contains backslashes, `\n` is read both as a letter and as a line end.
pub(super) fn words(text: &str) -> impl Iterator<Item = Vec<Word>> {
    let plain = split(text);
    let ends = ["\\n", "\\t", "\\r"];
    let unescaped = ends
        .iter()
        .any(|end| text.contains(end))
        .then(|| split(&ends.iter().fold(text.to_owned(), |text, end| text.replace(end, " "))));
    [Some(plain), unescaped].into_iter().flatten()
}

fn split(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            // Quotes and backslashes may be inside a word.
            '\\' => {}
            // A URL scheme is not the name of a program.
            ':' if rest.as_str().starts_with("//") => word.push(c),
            // Added lines of a patch begin with it.
            '+' if word.is_empty() => {}
            c if is_of_word(c) => word.push(c),
            _ if word.is_empty() => {}
            _ => words.push(Word::Known(std::mem::take(&mut word))),
        }
    }
    if !word.is_empty() {
        words.push(Word::Known(word));
    }
    words
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || "-_./+~^%".contains(c)
}

/// Returns whether a word is a single name rather than text.
fn is_bare(text: &str) -> bool {
    text.chars().all(|c| is_of_word(c) || ":,@*".contains(c))
}
