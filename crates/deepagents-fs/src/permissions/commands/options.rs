//! Separates options from operands, as far as that is possible without knowing every program.

use super::pattern::{Glob, Match};
use super::word::Word;

/// Options before the subcommand that take the next word as their value, by program. For other programs, a word after
/// an option may or may not be its value.
const VALUED: [(&str, &[&str]); 8] = [
    (
        "git",
        &[
            "-C",
            "-c",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--exec-path",
            "--super-prefix",
            "--config-env",
            "--attr-source",
            "--shallow-file",
        ],
    ),
    ("cargo", &["-C", "-Z", "--config", "--color", "--explain"]),
    (
        "docker",
        &["-H", "-c", "-l", "--host", "--context", "--config", "--log-level", "--tlscacert", "--tlscert", "--tlskey"],
    ),
    ("podman", &["-c", "--connection", "--url", "--root", "--runroot", "--log-level", "--identity"]),
    (
        "kubectl",
        &["-n", "-s", "-v", "--namespace", "--context", "--kubeconfig", "--server", "--user", "--cluster", "--token"],
    ),
    ("npm", &["-C", "-w", "--prefix", "--workspace", "--loglevel", "--registry", "--userconfig"]),
    ("rm", &[]),
    ("gh", &["-R", "--repo"]),
];

/// Programs with more options that take the next word as their value than are listed.
const MORE_VALUED: [&str; 4] = ["docker", "podman", "kubectl", "npm"];

/// Short and long forms of the same option.
const SAME: [(&str, char, char, &str); 8] = [
    ("rm", 'r', 'R', "recursive"),
    ("rm", 'f', 'f', "force"),
    ("rm", 'd', 'd', "dir"),
    ("cp", 'r', 'R', "recursive"),
    ("chmod", 'R', 'R', "recursive"),
    ("chown", 'R', 'R', "recursive"),
    ("chgrp", 'R', 'R', "recursive"),
    ("git", 'f', 'f', "force"),
];

/// Returns whether an option is among the arguments: on its own, in a cluster of letters, or in its equivalent long or
/// short form.
pub(super) fn has(program: &str, args: &[Word], option: &Glob) -> Match {
    let Some(wanted) = option.literal() else {
        return args.iter().map(|arg| option.of(arg)).max().unwrap_or(Match::No);
    };
    // After `--`, only operands follow.
    let end = args.iter().position(|arg| arg.known() == Some("--")).unwrap_or(args.len());
    let args = args.get(..end).unwrap_or_default();
    if wanted.starts_with("--") {
        let (name, valued) = wanted.split_once('=').map_or((wanted.as_str(), false), |(name, _)| (name, true));
        return args.iter().map(|arg| long(program, arg, &wanted, name, valued)).max().unwrap_or(Match::No);
    }
    let letters = wanted.strip_prefix('-').unwrap_or(&wanted);
    letters
        .chars()
        .map(|wanted| args.iter().map(|arg| letter(program, arg, wanted)).max().unwrap_or(Match::No))
        .min()
        .unwrap_or(Match::Yes)
}

fn long(program: &str, arg: &Word, wanted: &str, name: &str, valued: bool) -> Match {
    let Some(text) = arg.known() else { return computed(arg) };
    let own = if valued { text } else { text.split('=').next().unwrap_or(text) };
    let same = SAME.iter().find(|(of, _, _, word)| *of == program && name.strip_prefix("--") == Some(word));
    match () {
        () if own == if valued { wanted } else { name } => Match::Yes,
        // Many programs accept abbreviated long options.
        () if own.len() > 2 && own.starts_with("--") && name.starts_with(own) => Match::Perhaps,
        () => same
            .map_or(Match::No, |(_, small, large, _)| letter(program, arg, *small).max(letter(program, arg, *large))),
    }
}

fn letter(program: &str, arg: &Word, wanted: char) -> Match {
    let Some(text) = arg.known() else { return computed(arg) };
    let same = SAME.iter().find(|(of, small, large, _)| *of == program && (*small == wanted || *large == wanted));
    if let Some(word) = text.strip_prefix("--") {
        let is_same = same.is_some_and(|(.., long)| !word.is_empty() && long.starts_with(word));
        return if is_same { Match::Yes } else { Match::No };
    }
    let letters = text.strip_prefix('-').unwrap_or_default();
    let has = letters.contains(wanted) || same.is_some_and(|(_, small, large, _)| letters.contains([*small, *large]));
    if has { Match::Yes } else { Match::No }
}

/// A computed word may be an option, unless its known prefix rules that out.
fn computed(arg: &Word) -> Match {
    match arg {
        Word::Computed(Some(begins)) if !begins.is_empty() && !begins.starts_with('-') => Match::No,
        _ => Match::Perhaps,
    }
}

/// Returns the subcommand of a program that has subcommands, if it is known.
pub(super) fn sub_command<'a>(program: &str, args: &'a [Word]) -> Option<&'a str> {
    let operands = Operands::new(program, args);
    let (first, maybe_value) = operands.words.first().filter(|_| operands.sub_command)?;
    first.known().filter(|_| !maybe_value)
}

/// Returns whether the program's options are known, so that it does not take an operand for a program to run.
pub(super) fn are_known(program: &str) -> bool {
    VALUED.iter().any(|(of, options)| *of == program && !options.is_empty())
}

/// The arguments that are not options, in order.
pub(super) struct Operands<'a> {
    /// Each with whether it may instead be the value of an option.
    words: Vec<(&'a Word, bool)>,
    /// Whether the first operand is a subcommand.
    sub_command: bool,
}

impl<'a> Operands<'a> {
    pub(super) fn new(program: &str, args: &'a [Word]) -> Self {
        let valued = VALUED.iter().find(|(of, _)| of.eq_ignore_ascii_case(program)).map(|(_, options)| *options);
        let mut words = Vec::new();
        let mut rest = args.iter();
        let mut maybe_value = false;
        while let Some(arg) = rest.next() {
            let option = arg.known().filter(|text| text.len() > 1 && text.starts_with(['-', '+']));
            match option {
                Some("--") => {
                    words.extend(rest.by_ref().map(|arg| (arg, false)));
                }
                Some(option) => {
                    let takes_next = valued.is_some_and(|valued| valued.contains(&option));
                    if takes_next {
                        // This may define a subcommand under any name.
                        if let Some(value) =
                            rest.next().filter(|value| value.known().is_none_or(|text| text.starts_with("alias.")))
                        {
                            words.push((value, true));
                        }
                    }
                    let is_open = valued.is_none() || MORE_VALUED.contains(&program);
                    maybe_value = is_open && !takes_next && !option.contains('=');
                    continue;
                }
                None => words.push((arg, maybe_value)),
            }
            maybe_value = false;
        }
        Self { words, sub_command: valued.is_some_and(|valued| !valued.is_empty()) }
    }

    /// Returns whether the operands contain these in this order. A subcommand must come first.
    pub(super) fn contain(&self, wanted: &[&Glob]) -> Match {
        let mut words = self.words.iter();
        let mut all = Match::Yes;
        for (at, glob) in wanted.iter().enumerate() {
            loop {
                let Some((word, maybe_value)) = words.next() else { return Match::No };
                if *maybe_value && word.known().is_some_and(|text| text.starts_with("alias.")) {
                    return Match::Perhaps;
                }
                match glob.of(word) {
                    Match::Yes => break,
                    // It may be any number of words, so what follows is unknown.
                    Match::Perhaps => return Match::Perhaps,
                    Match::No if at > 0 || *maybe_value => {}
                    Match::No if self.sub_command => return Match::No,
                    // It may be a subcommand of an unknown program.
                    Match::No => all = Match::Perhaps,
                }
            }
        }
        all
    }
}
