//! Programs that run other programs, and what they run.

use super::mentions;
use super::pattern::is_private;
use super::runners;
use super::script::{Document, Doubt, MOST_WRAPPERS, Script, Simple};
use super::shells;
use super::word::Word;

/// How a program takes the command that it runs.
struct Wrapper {
    names: &'static [&'static str],
    /// Short options without a value, and with one.
    flags: &'static str,
    valued: &'static str,
    /// Long options without a value; others need theirs behind `=`, or are in the second list.
    long: &'static [&'static str],
    long_valued: &'static [&'static str],
    /// Options that do something of their own, such as writing a file.
    acts: &'static [&'static str],
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

const NONE: Wrapper = Wrapper {
    names: &[],
    flags: "",
    valued: "",
    long: &[],
    long_valued: &[],
    acts: &[],
    operands: 0,
    runs: Runs::Rest,
};

/// Whether a program of this name runs another one.
pub(super) fn is_known(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.names.contains(&name))
}

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
        acts: &["-o", "--output"],
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
        acts: &["-C", "--chdir"],
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
        // The value of `--max-lines` may be left out, and is never the next word.
        long: &["null", "open-tty", "interactive", "no-run-if-empty", "verbose", "exit", "max-lines"],
        long_valued: &["arg-file", "delimiter", "max-args", "max-procs", "max-chars", "process-slot-var"],
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

/// Lists a command, and those that it runs.
pub(super) fn list(script: &mut Script, mut simple: Simple, document: Document, depth: usize) {
    runners::variables(script, &simple.assignments, depth);
    let Some(program) = simple.words.first() else {
        simple.inert = true;
        simple.kept |= !simple.assignments.is_empty();
        return script.commands.push(simple);
    };
    // The shell changes its directory also by `command cd`.
    script.moves |= program.known().is_none_or(|name| matches!(name, "cd" | "pushd" | "popd" | "chdir"));
    let Some(path) = program.known().filter(|name| !name.is_empty() && !name.starts_with('-')) else {
        script.doubts.push(Doubt::Program);
        return script.commands.push(simple);
    };
    if depth > MOST_WRAPPERS {
        script.doubts.push(Doubt::TooMuch);
        return script.commands.push(simple);
    }
    let standard = is_standard(path);
    let name = super::pattern::base_name(path).to_ascii_lowercase();
    let name = name.as_str();
    let args = simple.words.get(1..).unwrap_or_default().to_vec();
    let from = script.commands.len();
    // What it runs is listed, and nothing else is.
    let mut lists = standard;
    shells::evaluates(script, name, &args, depth);
    runners::look(script, name, &args, depth);
    match WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) {
        Some(wrapper) => {
            if name == "eval" {
                script.doubts.push(Doubt::Evaluation);
            }
            // A text is run by a shell, which takes notice of variables itself.
            let own = wrapper.runs != Runs::Text || is_plain(&simple.assignments);
            simple.transparent = standard && own && wrapper.runs != Runs::Elevated && !wrapper.acts(&args);
            script.moves |= wrapper.acts(&args);
            inside(script, wrapper, name, &simple, &args, document, depth);
        }
        None if shells::SHELLS.contains(&name) => {
            let runs = shells::run(script, &simple, &args, document, depth);
            simple.transparent = runs && standard && is_plain(&simple.assignments);
            lists = runs;
        }
        None if shells::OTHERS.contains(&name) && shells::is_unread(script, &simple, name, &args) => {
            script.doubts.push(Doubt::NotRead);
            lists = false;
        }
        None if matches!(name, "." | "source")
            && args.first().is_some_and(|file| shells::reads(script, &simple, file)) =>
        {
            match document {
                Document::Known(text) if args.first().is_some_and(|file| file.known() == Some("/dev/stdin")) => {
                    script.text(&text, depth + 1);
                }
                _ => script.doubts.push(Doubt::Input),
            }
        }
        None if name == "find" => {
            found(script, &args, depth);
            lists &= !args.iter().any(|arg| arg.known().is_none_or(|arg| arg.starts_with("-fp") || arg == "-fls"));
        }
        None if name == "trap" => {
            script.compound = true;
            match args.iter().find(|arg| arg.known() != Some("--")).map(Word::known) {
                Some(Some(text)) => script.text(text, depth + 1),
                Some(None) => script.doubts.push(Doubt::Evaluation),
                None => {}
            }
        }
        None => lists = false,
    }
    simple.inert = lists;
    if !lists {
        mentions::given(&mut simple, name, standard);
    } else if script.has_live(from) {
        // What is given to it is there for what it runs.
        mentions::around(&mut simple);
    }
    script.commands.push(simple);
}

/// Whether a program is the one that is known by its name, and not another one of that name elsewhere.
fn is_standard(path: &str) -> bool {
    let name = path.strip_prefix("/usr").unwrap_or(path).strip_prefix("/bin/").unwrap_or(path);
    !name.contains('/') && !name.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Whether variables change nothing for a shell.
fn is_plain(assignments: &[(String, Word)]) -> bool {
    assignments.iter().all(|(name, _)| is_private(name))
}

/// The command behind the options of a wrapper.
fn inside(
    script: &mut Script,
    wrapper: &Wrapper,
    name: &str,
    outer: &Simple,
    args: &[Word],
    document: Document,
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

/// What `find` runs.
fn found(script: &mut Script, args: &[Word], depth: usize) {
    // Words that are put in may be a whole condition.
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
        // Of a `+` elsewhere, not every `find` says the same.
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

/// Where a command behind `-exec` ends: at a `;`, or at a `+` behind the files.
fn end_of_command(words: &[Word]) -> Option<usize> {
    let is = |at: usize, text| words.get(at).and_then(Word::known) == Some(text);
    (0..words.len())
        .find(|at| is(*at, ";") || (is(*at, "+") && at.checked_sub(1).is_some_and(|before| is(before, "{}"))))
}

/// A variable that a word sets, and its value.
pub(super) fn assignment(word: &Word) -> Option<(String, Word)> {
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
    /// Whether it is told to do something beside running a command.
    fn acts(&self, args: &[Word]) -> bool {
        let acts = |arg: &Word| {
            let text = arg.known().unwrap_or_default();
            let of = |option: &&str| match option.strip_prefix("--") {
                Some(_) => text.split('=').next().is_some_and(|text| text.len() > 2 && option.starts_with(text)),
                None => text.starts_with('-') && option.strip_prefix('-').is_some_and(|letter| text.contains(letter)),
            };
            self.acts.iter().any(of)
        };
        // What stands behind the options may look like one, and then it is asked about once too often.
        args.iter().any(acts)
    }

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
