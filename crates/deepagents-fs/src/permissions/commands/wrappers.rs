//! Programs that run other programs, and what they run.

use super::runners;
use super::script::{Doubt, MOST_WRAPPERS, Script, Simple};
use super::word::{Word, is_name};

/// How a program takes the command that it runs.
struct Wrapper {
    names: &'static [&'static str],
    /// Short options without a value, and with one.
    flags: &'static str,
    valued: &'static str,
    /// Long options without a value; others need theirs behind `=`, or are in the second list.
    long: &'static [&'static str],
    long_valued: &'static [&'static str],
    /// Words between the options and the command.
    operands: usize,
    runs: Runs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// The rest, as it is; nothing but that matters.
    Rest,
    /// The rest, behind variables that are set for it.
    Assigned,
    /// The rest, with other rights: that it may be run so is a question of its own.
    Elevated,
    /// The rest, with words added that are read from somewhere.
    Extended,
    /// The rest, as a text for a shell.
    Text,
}

const NONE: Wrapper =
    Wrapper { names: &[], flags: "", valued: "", long: &[], long_valued: &[], operands: 0, runs: Runs::Rest };

/// What is known of them. An option that is not in here is a doubt.
const WRAPPERS: [Wrapper; 17] = [
    Wrapper { names: &["command"], flags: "p", ..NONE },
    Wrapper { names: &["builtin", "busybox", "toybox"], ..NONE },
    Wrapper { names: &["exec"], flags: "cl", valued: "a", ..NONE },
    Wrapper { names: &["nohup"], ..NONE },
    Wrapper { names: &["setsid"], flags: "cfw", long: &["ctty", "fork", "wait"], ..NONE },
    Wrapper {
        names: &["time"],
        flags: "apqv",
        valued: "fo",
        long: &["append", "portability", "quiet", "verbose"],
        long_valued: &["format", "output"],
        ..NONE
    },
    Wrapper { names: &["nice"], flags: "0123456789", valued: "n", long_valued: &["adjustment"], ..NONE },
    Wrapper {
        names: &["ionice"],
        flags: "t",
        valued: "cn",
        long: &["ignore"],
        long_valued: &["class", "classdata"],
        ..NONE
    },
    Wrapper { names: &["taskset"], flags: "ac", long: &["all-tasks", "cpu-list"], operands: 1, ..NONE },
    Wrapper {
        names: &["timeout"],
        flags: "fpv",
        valued: "ks",
        long: &["foreground", "preserve-status", "verbose"],
        long_valued: &["kill-after", "signal"],
        operands: 1,
        ..NONE
    },
    Wrapper { names: &["stdbuf"], valued: "ioe", long_valued: &["input", "output", "error"], ..NONE },
    Wrapper {
        names: &["env"],
        flags: "i0v",
        valued: "uC",
        long: &["ignore-environment", "null", "debug"],
        long_valued: &["unset", "chdir"],
        runs: Runs::Assigned,
        ..NONE
    },
    Wrapper {
        names: &["sudo"],
        flags: "ABbEHknPSsi",
        valued: "CDghpRTtru",
        long: &[
            "askpass",
            "background",
            "preserve-env",
            "set-home",
            "non-interactive",
            "preserve-groups",
            "stdin",
            "reset-timestamp",
            "login",
            "shell",
        ],
        long_valued: &["close-from", "chdir", "group", "host", "prompt", "chroot", "role", "type", "user"],
        runs: Runs::Elevated,
        ..NONE
    },
    Wrapper { names: &["doas"], flags: "Lns", valued: "aCu", runs: Runs::Elevated, ..NONE },
    Wrapper {
        names: &["xargs"],
        flags: "0optrx",
        valued: "adEILnPs",
        long: &["null", "open-tty", "interactive", "no-run-if-empty", "verbose", "exit"],
        long_valued: &["arg-file", "delimiter", "max-lines", "max-args", "max-procs", "max-chars", "process-slot-var"],
        runs: Runs::Extended,
        ..NONE
    },
    Wrapper {
        names: &["watch"],
        flags: "bcdegprtwx",
        valued: "n",
        long: &["beep", "color", "differences", "errexit", "chgexit", "precise", "no-rerun", "no-title", "exec"],
        long_valued: &["interval"],
        runs: Runs::Text,
        ..NONE
    },
    Wrapper { names: &["eval"], runs: Runs::Text, ..NONE },
];

/// Programs that run a text with `-c`, a file, or what they read.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "rbash", "su"];

/// What changes how the rest is read, or keeps text to run it later.
const UNREADABLE: [&str; 14] = [
    "alias",
    "unalias",
    "shopt",
    "enable",
    "hash",
    "bind",
    "complete",
    "fc",
    "parallel",
    "mapfile",
    "readarray",
    "coproc",
    "at",
    "batch",
];

/// What evaluates its arguments, so that a subscript among them may run something.
const EVALUATING: [&str; 12] =
    ["let", "test", "[", "printf", "read", "unset", "declare", "typeset", "local", "export", "readonly", "getopts"];

/// Lists a command, and those that it runs.
pub(super) fn list(script: &mut Script, mut simple: Simple, document: Option<Option<String>>, depth: usize) {
    let Some(program) = simple.words.first() else { return script.commands.push(simple) };
    let Some(path) = program.known().filter(|name| !name.is_empty() && !name.starts_with('-')) else {
        script.doubts.push(Doubt::Program);
        return script.commands.push(simple);
    };
    if depth > MOST_WRAPPERS {
        script.doubts.push(Doubt::TooMuch);
        return script.commands.push(simple);
    }
    let name = super::pattern::base_name(path).to_ascii_lowercase();
    let name = name.as_str();
    let args = simple.words.get(1..).unwrap_or_default().to_vec();
    if UNREADABLE.contains(&name) {
        script.doubts.push(Doubt::Evaluation);
    }
    if EVALUATING.contains(&name) && evaluates(name, &args) {
        script.doubts.push(Doubt::Evaluation);
    }
    runners::look(script, &simple, name, &args, depth);
    match WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) {
        Some(wrapper) => {
            if name == "eval" {
                script.doubts.push(Doubt::Evaluation);
            }
            simple.transparent = matches!(wrapper.runs, Runs::Rest | Runs::Assigned | Runs::Extended | Runs::Text);
            inside(script, wrapper, name, &simple, &args, document, depth);
        }
        None if SHELLS.contains(&name) => shell(script, &mut simple, name, &args, document, depth),
        None if matches!(name, "." | "source") && args.first().is_some_and(is_stream) => match document {
            Some(Some(text)) => script.text(&text, depth + 1),
            _ => script.doubts.push(Doubt::Input),
        },
        None if name == "find" => found(script, &args, depth),
        None if name == "trap" => {
            script.compound = true;
            match args.iter().find(|arg| arg.known() != Some("--")).map(Word::known) {
                Some(Some(text)) => script.text(text, depth + 1),
                Some(None) => script.doubts.push(Doubt::Evaluation),
                None => {}
            }
        }
        None => {}
    }
    script.commands.push(simple);
}

/// The command behind the options of a wrapper.
fn inside(
    script: &mut Script,
    wrapper: &Wrapper,
    name: &str,
    outer: &Simple,
    args: &[Word],
    document: Option<Option<String>>,
    depth: usize,
) {
    // It only says what a command is.
    if name == "command" && args.first().and_then(Word::known).is_some_and(|option| matches!(option, "-v" | "-V")) {
        return;
    }
    let Some(mut rest) = wrapper.behind_options(args) else { return script.doubts.push(Doubt::Options) };
    let mut inner = Simple { redirections: outer.redirections.clone(), ..Simple::default() };
    if matches!(wrapper.runs, Runs::Assigned | Runs::Elevated) {
        while let Some((first, after)) = rest.split_first() {
            let Some((name, value)) = assignment(first) else { break };
            inner.assignments.push((name, value));
            rest = after;
        }
    }
    if rest.is_empty() {
        return;
    }
    script.compound = true;
    if wrapper.runs == Runs::Text {
        return match joined(rest) {
            Some(text) => script.text(&text, depth + 1),
            None => script.doubts.push(Doubt::Evaluation),
        };
    }
    inner.assignments.extend(outer.assignments.iter().cloned());
    inner.words = rest.to_vec();
    if wrapper.runs == Runs::Extended {
        inner.words.push(Word::Computed(None));
        // What is put into the middle of the command is not known either.
        if args.iter().any(|arg| arg.known().is_none_or(|arg| arg.starts_with("-I") || arg.starts_with("-i"))) {
            script.doubts.push(Doubt::Input);
        }
    }
    list(script, inner, document, depth + 1);
}

/// A shell: a text behind `-c`, or what it reads.
fn shell(
    script: &mut Script,
    simple: &mut Simple,
    name: &str,
    args: &[Word],
    document: Option<Option<String>>,
    depth: usize,
) {
    let mut rest = args.iter();
    let mut text = None;
    while let Some(arg) = rest.next() {
        match arg.known() {
            None => return script.doubts.push(Doubt::Evaluation),
            Some("+o" | "+O" | "--rcfile" | "--init-file") => drop(rest.next()),
            Some("-c" | "--command") => text = text.or(Some(())),
            Some(option) if option.starts_with("--") && option.len() > 2 => {}
            Some(option) if option.starts_with('-') && option.len() > 1 && option != "--" => {
                if option.contains('c') {
                    text = Some(());
                }
                if option.contains('s') {
                    return script.doubts.push(Doubt::Input);
                }
                if option.contains(['o', 'O']) {
                    rest.next();
                }
            }
            Some("--" | "-") => {}
            Some(operand) => {
                if text.is_some() || name == "su" {
                    if name == "su" && text.is_none() {
                        continue;
                    }
                    simple.transparent = name != "su";
                    script.compound = true;
                    return script.text(operand, depth + 1);
                }
                if is_stream(arg) {
                    return script.doubts.push(Doubt::Input);
                }
                // A file, which is a program like others.
                return;
            }
        }
    }
    match document {
        Some(Some(document)) => {
            simple.transparent = true;
            script.compound = true;
            script.text(&document, depth + 1);
        }
        _ => script.doubts.push(Doubt::Input),
    }
}

/// Whether a file is what is given to a command to read, or one that is made while it runs.
fn is_stream(file: &Word) -> bool {
    file.known().is_none_or(|file| file.starts_with("/dev/") || file.starts_with("/proc/"))
}

/// What `find` runs.
fn found(script: &mut Script, args: &[Word], depth: usize) {
    let runs = |word: &Word| matches!(word.known(), Some("-exec" | "-execdir" | "-ok" | "-okdir"));
    let mut rest = args;
    while let Some(at) = rest.iter().position(runs) {
        let behind = rest.get(at + 1..).unwrap_or_default();
        let end = behind.iter().position(|word| matches!(word.known(), Some(";" | "+"))).unwrap_or(behind.len());
        let command = behind.get(..end).unwrap_or_default().iter();
        let words: Vec<Word> = command
            .map(|word| match word.known() {
                Some(text) if text.contains("{}") => Word::Computed(None),
                _ => word.clone(),
            })
            .collect();
        script.compound = true;
        list(script, Simple { words, ..Simple::default() }, None, depth + 1);
        rest = behind.get(end..).unwrap_or_default();
    }
}

/// Whether arguments hold, or may hold, a subscript that runs something.
fn evaluates(name: &str, args: &[Word]) -> bool {
    let runs = |text: &str| text.contains("$(") || text.contains('`');
    let tests = matches!(name, "test" | "[");
    args.iter().enumerate().any(|(at, arg)| match arg {
        // What is printed is not evaluated, unless it goes into a variable.
        Word::Known(text) if name == "printf" => text.starts_with("-v"),
        Word::Known(text) if tests => text == "-v" || text == "-R" || runs(text),
        Word::Known(text) => runs(text) || name == "let",
        // One word that is not at the place of an operator is a text to be compared.
        Word::Computed(Some(_)) if tests => false,
        Word::Computed(_) if name == "printf" => at == 0,
        Word::Computed(Some(begins)) => !begins.split_once('=').is_some_and(|(name, _)| is_name(name)),
        Word::Computed(None) => true,
    })
}

fn assignment(word: &Word) -> Option<(String, Word)> {
    let (text, computed) = match word {
        Word::Known(text) => (text, false),
        Word::Computed(Some(begins)) => (begins, true),
        Word::Computed(None) => return None,
    };
    let (name, value) = text.split_once('=')?;
    let value = if computed { Word::Computed(Some(value.to_owned())) } else { Word::Known(value.to_owned()) };
    Some((name.to_owned(), value))
}

fn joined(words: &[Word]) -> Option<String> {
    words.iter().map(Word::known).collect::<Option<Vec<_>>>().map(|words| words.join(" "))
}

impl Wrapper {
    /// What follows the options and operands; none where they are not understood.
    fn behind_options<'a>(&self, args: &'a [Word]) -> Option<&'a [Word]> {
        let mut rest = args;
        loop {
            let Some((first, after)) = rest.split_first() else { return Some(rest) };
            let option = match first {
                Word::Known(option) => option.as_str(),
                Word::Computed(Some(begins)) if !begins.is_empty() && !begins.starts_with('-') => break,
                Word::Computed(_) => return None,
            };
            rest = after;
            if option == "--" {
                break;
            }
            if let Some(long) = option.strip_prefix("--") {
                let (long, has_value) = long.split_once('=').map_or((long, false), |(long, _)| (long, true));
                match () {
                    () if self.long.contains(&long) => {}
                    () if self.long_valued.contains(&long) && has_value => {}
                    () if self.long_valued.contains(&long) => rest = rest.get(1..)?,
                    () => return None,
                }
            } else if let Some(short) = option.strip_prefix('-').filter(|short| !short.is_empty()) {
                match short.char_indices().find(|(_, letter)| !self.flags.contains(*letter)) {
                    None => {}
                    // Its value is the next word, unless it is in this one.
                    Some((at, letter)) if self.valued.contains(letter) && at + letter.len_utf8() == short.len() => {
                        rest = rest.get(1..)?;
                    }
                    Some((_, letter)) if self.valued.contains(letter) => {}
                    Some(_) => return None,
                }
            } else {
                // `env -` takes the environment away.
                if option != "-" {
                    rest = args.get(args.len() - rest.len() - 1..)?;
                    break;
                }
            }
        }
        rest.get(self.operands..).or(Some(&[]))
    }
}
