//! Options whose value is a command or selects one.

use super::options;
use super::runners::written;
use super::script::{Doubt, Script};
use super::word::Word;

/// Options of a program whose value is a command.
struct Values {
    names: &'static [&'static str],
    /// Complete words; a short option may also be the prefix of a word.
    options: &'static [&'static str],
    /// Letters with the same meaning inside a cluster, such as the `I` of `tar -cI`.
    letters: &'static str,
}

const VALUES: [Values; 11] = [
    Values {
        names: &["git"],
        options: &[
            "-c",
            "-x",
            "--config",
            "--exec",
            "--extcmd",
            "--upload-pack",
            "--receive-pack",
            "--open-files-in-pager",
            "--tree-filter",
            "--index-filter",
            "--env-filter",
            "--msg-filter",
            "--commit-filter",
            "--parent-filter",
            "--tag-name-filter",
        ],
        letters: "",
    },
    Values { names: &["split"], options: &["--filter"], letters: "" },
    Values { names: &["sort"], options: &["--compress-program"], letters: "" },
    Values { names: &["rsync"], options: &["--rsh", "--rsync-path"], letters: "e" },
    Values {
        names: &["tar", "bsdtar"],
        options: &[
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--rmt-command",
        ],
        letters: "IF",
    },
    Values { names: &["man"], options: &["--pager", "--html"], letters: "PH" },
    Values { names: &["ssh", "scp", "sftp", "slogin"], options: &["-S", "-D"], letters: "o" },
    Values { names: &["rg"], options: &["--pre", "--hostname-bin"], letters: "" },
    Values { names: &["fd", "fdfind"], options: &[], letters: "xX" },
    Values {
        names: &["npm", "pnpm"],
        options: &["--script-shell", "--shell", "--editor", "--viewer", "--browser", "--git"],
        letters: "",
    },
    Values { names: &["zip"], options: &["-TT", "--unzip-command"], letters: "" },
];

/// Returns whether a program has such options.
pub(super) fn are_known(name: &str) -> bool {
    VALUES.iter().any(|values| values.names.contains(&name))
}

/// Adds the commands that a program's options run.
pub(super) fn add_commands(script: &mut Script, name: &str, args: &[Word], depth: usize) {
    if name == "git" && args.iter().filter_map(Word::known).any(sets) {
        script.hides = Some(Doubt::Settings);
    }
    let Some(values) = VALUES.iter().find(|values| values.names.contains(&name)) else { return };
    // The meaning of git's letters depends on the subcommand.
    let letters = match options::sub_command(name, args) {
        Some("clone") => "uc",
        Some("ls-remote") => "u",
        Some("rebase" | "difftool") => "x",
        Some("grep") => "O",
        _ => values.letters,
    };
    for (at, arg) in args.iter().enumerate() {
        let Some(text) = arg.known() else { continue };
        let next = || args.get(at + 1).and_then(Word::known);
        let of = |option: &&str| match (text.starts_with("--"), option.starts_with("--")) {
            // Long options may be abbreviated.
            (true, true) => match text.split_once('=') {
                Some((name, value)) => Some(value).filter(|_| name.len() > 2 && option.starts_with(name)),
                None => next().filter(|_| text.len() > 2 && option.starts_with(text)),
            },
            (false, false) => match text.strip_prefix(option)? {
                "" => next(),
                rest => Some(rest),
            },
            _ => None,
        };
        for value in values.options.iter().filter_map(of).chain(among_letters(text, letters, next())) {
            setting(script, value, depth);
        }
    }
    // In the old style, the letters have no hyphen and the values follow them.
    let first = args.first().and_then(Word::known).filter(|_| name == "tar").unwrap_or_default();
    if first.contains(['I', 'F']) && first.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        for value in args.iter().skip(1).take(first.len()).filter_map(Word::known) {
            written(script, value, depth);
        }
    }
}

/// Returns the value of the first of some letters in a cluster.
fn among_letters<'a>(text: &'a str, letters: &str, next: Option<&'a str>) -> Option<&'a str> {
    let cluster = text.strip_prefix('-').filter(|cluster| !cluster.starts_with('-'))?;
    let (_, rest) = cluster.split_once(|letter| letters.contains(letter))?;
    // `git grep -O` takes a value only in the same word.
    if rest.is_empty() { next.filter(|_| letters != "O") } else { Some(rest) }
}

/// Adds a text that may be a command or assign one to a name. Git marks shell aliases with `!`.
pub(super) fn setting(script: &mut Script, text: &str, depth: usize) {
    let is_key = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    written(script, text, depth);
    if let Some((_, value)) = text.split_once('=').filter(|(name, _)| is_key(name.trim_end())) {
        written(script, value.trim_start().trim_start_matches('!'), depth);
    }
}

/// Returns whether an argument configures what git runs in a way that its text does not show.
fn sets(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    if matches!(text.as_str(), "help.autocorrect=0" | "help.autocorrect=never") {
        return false;
    }
    let begins = ["--config-env", "alias.", "include.path", "includeif.", "help.autocorrect"];
    begins.iter().any(|begins| text.starts_with(*begins)) || text.contains("ext::")
}
