//! Programs that run another one which stands among their arguments, where only a part of their options is known.
//!
//! What they run is looked for rather than read: a command that a rule denies or asks about is found from whatever word it
//! begins at. For rules that allow, they are programs like others.

use super::script::{Doubt, Script, Simple};
use super::word::Word;

/// Words that are looked at as the beginning of a command.
const MOST_BEGINNINGS: usize = 64;
/// Commands behind which texts are read no more.
const MOST_COMMANDS: usize = 2_000;

/// Programs, and the words behind which they take a command; from their first argument where there are none.
const RUNNERS: [(&[&str], &[&str]); 8] = [
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
        ],
        &[],
    ),
    (
        &[
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
    (&["ssh", "rsh", "mosh"], &[]),
    (&["uv", "poetry", "pipenv", "conda", "mamba", "micromamba", "hatch", "pdm", "rye", "coverage"], &["run"]),
    (&["npm", "pnpm", "yarn", "bun", "bundle", "direnv", "mise", "rbenv", "pyenv", "asdf"], &["exec", "x", "dlx"]),
    (&["docker", "podman", "kubectl", "nerdctl", "ip", "flatpak", "snap"], &["exec", "run"]),
    (&["nix", "nix-shell", "guix"], &["--command", "-c", "--run", "--"]),
    (&["git"], &["run", "foreach", "--exec"]),
];

/// Variables whose values programs run.
const RUN_VALUES: [&str; 14] = [
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
    "BROWSER",
    "GIT_SSH",
    "LESSOPEN",
    "GIT_EXTERNAL_DIFF",
];

/// Commands that a command may run, as far as they are written in it.
pub(super) fn look(script: &mut Script, simple: &Simple, name: &str, args: &[Word], depth: usize) {
    for (variable, value) in &simple.assignments {
        let runs = RUN_VALUES.contains(&variable.as_str())
            || ["_COMMAND", "_EDITOR", "_PAGER", "_ASKPASS"].iter().any(|end| variable.ends_with(end))
            || variable.starts_with("BASH_FUNC_");
        if let Some(text) = value.known().filter(|_| runs) {
            // A function is written behind its parentheses.
            written(script, text.strip_prefix("()").unwrap_or(text), depth);
        }
    }
    if name.starts_with("ld-linux") || name.starts_with("ld-musl") {
        return begins(script, args, depth);
    }
    let Some((_, behind)) = RUNNERS.iter().find(|(names, _)| names.contains(&name)) else { return };
    if behind.is_empty() {
        return begins(script, args, depth);
    }
    let marks = |word: &Word| {
        word.known().is_some_and(|text| behind.contains(&text.split_once('=').map_or(text, |(option, _)| option)))
    };
    if let Some(at) = args.iter().position(marks) {
        begins(script, args.get(at..).unwrap_or_default(), depth);
    }
}

/// A command may begin at any of the words, and be written in any of them.
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
            written(script, value.unwrap_or_default(), depth);
        }
        // It may be the program, or a text of commands.
        if matches!(word, Word::Computed(begins) if begins.as_deref().is_none_or(str::is_empty)) {
            script.doubts.push(Doubt::Program);
        }
        if starts(word) {
            beginnings += 1;
            let words = args.get(at..).unwrap_or_default().to_vec();
            script.commands.push(Simple { words, guessed: true, ..Simple::default() });
        }
        if beginnings > MOST_BEGINNINGS {
            return script.doubts.push(Doubt::TooMuch);
        }
    }
}

/// A text that is, or may be, a command.
fn written(script: &mut Script, text: &str, depth: usize) {
    let from = script.commands.len();
    if from > MOST_COMMANDS {
        return script.doubts.push(Doubt::TooMuch);
    }
    script.text(text, depth + 1);
    for simple in script.commands.iter_mut().skip(from) {
        simple.guessed = true;
    }
}
