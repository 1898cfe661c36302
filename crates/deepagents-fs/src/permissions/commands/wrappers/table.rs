//! Table of programs that run other programs: their options, and how they take the command.

use crate::permissions::commands::word::Word;

/// How a program takes the command it runs.
pub(super) struct Wrapper {
    pub(super) names: &'static [&'static str],
    /// Short options, without and with a value.
    flags: &'static str,
    valued: &'static str,
    /// Long options, without and with a value.
    long: &'static [&'static str],
    long_valued: &'static [&'static str],
    /// Options with an effect of their own, such as writing a file.
    acts: &'static [&'static str],
    /// Number of words between the options and the command.
    operands: usize,
    pub(super) runs: Runs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs {
    /// The rest, unchanged; nothing else matters.
    Rest,
    /// The rest, after assignments of variables for it.
    Assigned,
    /// The rest, with other privileges, which needs a decision of its own.
    Elevated,
    /// The rest, with words appended that are read from elsewhere.
    Extended,
    /// The rest, as text for a shell.
    Text,
}

impl Wrapper {
    /// Returns whether the program is told to do something besides running a command.
    pub(super) fn acts(&self, args: &[Word]) -> bool {
        let acts = |arg: &Word| {
            let text = arg.known().unwrap_or_default();
            let of = |option: &&str| match option.strip_prefix("--") {
                Some(_) => text.split('=').next().is_some_and(|text| text.len() > 2 && option.starts_with(text)),
                None => text.starts_with('-') && option.strip_prefix('-').is_some_and(|letter| text.contains(letter)),
            };
            self.acts.iter().any(of)
        };
        // Words after the options may look like one; the cost is an unnecessary question.
        args.iter().any(acts)
    }

    /// Returns the words after the options and operands; `None` if the options are not understood.
    pub(super) fn behind_options<'a>(&self, args: &'a [Word]) -> Option<&'a [Word]> {
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
                    // The value is the next word unless it is in this one.
                    Some((at, letter)) if self.valued.contains(letter) && at + letter.len_utf8() == short.len() => {
                        rest = rest.get(1..)?;
                    }
                    Some((_, letter)) if self.valued.contains(letter) => {}
                    Some(_) => return None,
                }
            } else {
                // `env -` clears the environment.
                if option != "-" {
                    rest = args.get(args.len() - rest.len() - 1..)?;
                    break;
                }
            }
        }
        rest.get(self.operands..).or(Some(&[]))
    }
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

/// Returns whether a program of this name runs other programs.
pub(in crate::permissions::commands) fn is_known(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.names.contains(&name))
}

/// The known wrappers. Any other option is a doubt.
pub(super) const WRAPPERS: [Wrapper; 17] = [
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
        // The value of `--max-lines` is optional and never the next word.
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
