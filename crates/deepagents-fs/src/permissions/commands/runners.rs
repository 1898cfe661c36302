//! Programs that run a program from their arguments, and whose options are only partly known.
//!
//! The commands they run are searched for rather than parsed: a denied or asked-about command is found at any word
//! where it may begin. Allowing rules treat these programs like any other.

use super::directory::Directories;
use super::script::{Doubt, Script, Simple};
use super::shells;
use super::values;
use super::word::Word;

/// Maximum number of words tried as the beginning of a command.
const MAX_BEGINNINGS: usize = 64;
/// Number of commands after which no further texts are parsed.
const MAX_COMMANDS: usize = 2_000;

/// Programs, and the words after which a command follows; if there are none, it may begin at the first argument.
const RUNNERS: [(&[&str], &[&str]); 7] = [
    (
        &[
            "chrt",
            "choom",
            "chroot",
            "coresched",
            "cpulimit",
            "dbus-launch",
            "dbus-run-session",
            "fakeroot",
            "faketime",
            "firejail",
            "bwrap",
            "proot",
            "flock",
            "i386",
            "linux32",
            "linux64",
            "uname26",
            "x86_64",
            "setarch",
            "nsenter",
            "unshare",
            "numactl",
            "pkexec",
            "prlimit",
            "run0",
            "runuser",
            "runcon",
            "setpriv",
            "softlimit",
            "chpst",
            "setuidgid",
            "gosu",
            "su-exec",
            "capsh",
            "script",
            "scriptreplay",
            "uclampset",
            "eatmydata",
            "fakechroot",
            "cgexec",
            "schedtool",
            "setlock",
            "sg",
            "pipesz",
            "ssh",
            "rsh",
            "mosh",
            "ssh-agent",
            "systemd-run",
            "systemd-inhibit",
            "start-stop-daemon",
            "strace",
            "ltrace",
            "valgrind",
            "perf",
            "gdb",
            "rr",
            "catchsegv",
            "hyperfine",
            "unbuffer",
            "rlwrap",
            "chronic",
            "ts",
            "ifne",
            "entr",
            "xvfb-run",
            "torsocks",
            "torify",
            "proxychains",
            "proxychains4",
            "screen",
            "tmux",
            "npx",
            "bunx",
            "pnpx",
            "uvx",
            "tini",
            "dumb-init",
            "daemonize",
            "caffeinate",
            "winpty",
            "wsl",
            "arch",
            "toolbox",
            "distrobox",
        ],
        &[],
    ),
    (&["uv", "poetry", "pipenv", "conda", "mamba", "micromamba", "hatch", "pdm", "rye", "coverage"], &["run"]),
    (
        &["npm", "pnpm", "yarn", "bun", "bundle", "direnv", "mise", "rbenv", "pyenv", "asdf"],
        &["exec", "x", "dlx", "explore"],
    ),
    (&["docker", "podman", "kubectl", "nerdctl", "ip", "flatpak", "snap"], &["exec", "run"]),
    (&["nix", "nix-shell", "guix"], &["--command", "-c", "--run", "--"]),
    (&["git"], &["run", "foreach"]),
    (&["fd", "fdfind"], &["-x", "-X", "--exec", "--exec-batch"]),
];

/// Git subcommands equivalent to others.
const PLUMBING: [(&str, &str); 3] = [("send-pack", "push"), ("http-push", "push"), ("fetch-pack", "fetch")];

/// Variables whose values programs run.
const RUN_VALUES: [&str; 17] = [
    "BASH_ENV",
    "ENV",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "MANPAGER",
    "MANOPT",
    "BROWSER",
    "GIT_SSH",
    "LESSOPEN",
    "LESSCLOSE",
    "SHELL",
    "GIT_EXTERNAL_DIFF",
];

/// Adds the commands in the values of variables, as far as they are known.
pub(super) fn variables(script: &mut Script, set: &[(String, Word)], depth: usize) {
    for (name, value) in set {
        if name == "CDPATH" {
            script.place = Directories::UNKNOWN;
        }
        let runs = RUN_VALUES.contains(&name.as_str())
            || ["_COMMAND", "_EDITOR", "_PAGER", "_ASKPASS", "_RSH"].iter().any(|end| name.ends_with(end))
            || name.starts_with("GIT_CONFIG")
            || name.starts_with("BASH_FUNC_");
        // A shell reads this file at startup, and it may be one of the command's inputs.
        if matches!(name.as_str(), "BASH_ENV" | "ENV") && shells::is_stream(value) {
            script.doubts.push(Doubt::Input);
        }
        let settings = name == "TAR_OPTIONS" || (name.starts_with("GIT_CONFIG") && name != "GIT_CONFIG_NOSYSTEM");
        if settings && value.known() != Some("/dev/null") {
            script.hides = Some(Doubt::Settings);
        }
        match value.known().filter(|_| runs) {
            // A function's body follows its parentheses; a git alias may begin with `!`.
            Some(text) => written(script, text.strip_prefix("()").unwrap_or(text).trim_start_matches('!'), depth),
            None if runs => script.doubts.push(Doubt::Evaluation),
            None => {}
        }
    }
}

/// Adds commands that a command may run, as far as they are written in it.
pub(super) fn add_commands(script: &mut Script, name: &str, args: &[Word], depth: usize) {
    // A subcommand can be a separate program.
    if let Some((program, sub)) = name.split_once('-').filter(|(program, _)| matches!(*program, "git" | "cargo")) {
        let words = [program, sub].map(|word| Word::Known(word.to_owned())).into_iter().chain(args.iter().cloned());
        guess(script, words.collect());
    }
    for (plumbing, same) in PLUMBING.iter().filter(|_| name == "git") {
        if let Some(at) = args.iter().position(|arg| arg.known() == Some(plumbing)) {
            let behind = args.get(at + 1..).unwrap_or_default().iter().cloned();
            guess(script, ["git", same].map(|word| Word::Known(word.to_owned())).into_iter().chain(behind).collect());
        }
    }
    // These have git run a subcommand that follows, perhaps behind options.
    let leads = |arg: &Word| matches!(arg.known(), Some("for-each-repo" | "subtree"));
    if let Some(at) = args.iter().position(leads).filter(|_| name == "git") {
        for from in (at + 1..args.len()).take(MAX_BEGINNINGS) {
            let behind = args.get(from..).unwrap_or_default().iter().cloned();
            guess(script, std::iter::once(Word::Known("git".to_owned())).chain(behind).collect());
        }
    }
    values::add_commands(script, name, args, depth);
    if let Some(before) = before_command(name, args) {
        begins(script, args.get(before..).unwrap_or_default(), depth);
    }
}

fn is_mark(marks: &[&str], word: &Word) -> bool {
    word.known().is_some_and(|text| marks.contains(&text.split_once('=').map_or(text, |(option, _)| option)))
}

fn has_letter(word: &Word, letters: [char; 2]) -> bool {
    word.known().is_some_and(|text| !text.starts_with("--") && text.starts_with('-') && text.contains(letters))
}

/// Returns how many leading arguments such a program does not take for commands; `None` if it is not such a program.
pub(super) fn before_command(name: &str, args: &[Word]) -> Option<usize> {
    let is_linker = ["ld-", "ld.so", "ld64.so"].iter().any(|linker| name.starts_with(linker));
    if is_linker || shells::OTHERS.contains(&name) {
        return Some(0);
    }
    let (_, marks) = RUNNERS.iter().find(|(names, _)| names.contains(&name))?;
    if marks.is_empty() {
        return Some(0);
    }
    let begins = |arg: &Word| is_mark(marks, arg) || (marks.contains(&"-x") && has_letter(arg, ['x', 'X']));
    Some(args.iter().position(begins).unwrap_or(args.len()))
}

/// A command may begin at any word, and any word may contain one.
fn begins(script: &mut Script, args: &[Word], depth: usize) {
    let starts = |word: &Word| word.known().is_none_or(|text| !text.starts_with('-'));
    let mut beginnings = 0;
    for (at, word) in args.iter().enumerate() {
        if let Some(text) = word.known().filter(|text| text.contains([' ', '\t', '\n', ';', '&', '|', '(', '`'])) {
            let value = match text {
                _ if text.starts_with("--") => text.split_once('=').map(|(_, value)| value),
                _ if text.starts_with('-') => text.split_once('c').map(|(_, value)| value),
                _ => Some(text),
            };
            values::setting(script, value.unwrap_or_default(), depth);
        }
        // It may be a program or the text of a command.
        if matches!(word, Word::Computed(begins) if begins.as_deref().is_none_or(str::is_empty)) {
            script.doubts.push(Doubt::Program);
        }
        if starts(word) {
            beginnings += 1;
            let words = args.get(at..).unwrap_or_default().to_vec();
            guess(script, words);
        }
        if beginnings > MAX_BEGINNINGS {
            return script.doubts.push(Doubt::TooMuch);
        }
    }
}

/// Adds a command that may be run.
fn guess(script: &mut Script, words: Vec<Word>) {
    script.commands.push(Simple { words, guessed: true, ..Simple::default() });
}

/// Adds the commands of a text that may be one.
pub(super) fn written(script: &mut Script, text: &str, depth: usize) {
    let from = script.commands.len();
    if from > MAX_COMMANDS {
        return script.doubts.push(Doubt::TooMuch);
    }
    script.text(text, depth + 1);
    for simple in script.commands.iter_mut().skip(from) {
        simple.guessed = true;
    }
}
