//! Options whose value is a command, or says which one is run.

use super::options;
use super::runners::written;
use super::script::{Doubt, Script};
use super::word::Word;

/// Options of a program whose value is a command.
struct Values {
    names: &'static [&'static str],
    /// As whole words, and as the beginning of one where they are a letter.
    options: &'static [&'static str],
    /// Letters that say the same among others, such as the `I` of `tar -cI`.
    letters: &'static str,
}

const VALUES: [Values; 9] = [
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
    Values { names: &["zip"], options: &["-TT", "--unzip-command"], letters: "" },
];

/// Whether options of a program are among these.
pub(super) fn are_known(name: &str) -> bool {
    VALUES.iter().any(|values| values.names.contains(&name))
}

/// What the options of a program run.
pub(super) fn look(script: &mut Script, name: &str, args: &[Word], depth: usize) {
    if name == "git" && args.iter().filter_map(Word::known).any(sets) {
        script.hides = Some(Doubt::Settings);
    }
    let Some(values) = VALUES.iter().find(|values| values.names.contains(&name)) else { return };
    // What the letters of git mean depends on the sub-command.
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
            // The beginning of a long one stands for it.
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
    // In the old style the letters stand without a hyphen, and their values behind them.
    let first = args.first().and_then(Word::known).filter(|_| name == "tar").unwrap_or_default();
    if first.contains(['I', 'F']) && first.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        for value in args.iter().skip(1).take(first.len()).filter_map(Word::known) {
            written(script, value, depth);
        }
    }
}

/// The value of one of some letters in a cluster of them.
fn among_letters<'a>(text: &'a str, letters: &str, next: Option<&'a str>) -> Option<&'a str> {
    let cluster = text.strip_prefix('-').filter(|cluster| !cluster.starts_with('-'))?;
    let (_, rest) = cluster.split_once(|letter| letters.contains(letter))?;
    // Where the value of `git grep -O` is not in the word, there is none.
    if rest.is_empty() { next.filter(|_| letters != "O") } else { Some(rest) }
}

/// A text that may be a command, or set a name to one; git has aliases that begin with a mark.
pub(super) fn setting(script: &mut Script, text: &str, depth: usize) {
    let is_key = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    written(script, text, depth);
    if let Some((_, value)) = text.split_once('=').filter(|(name, _)| is_key(name.trim_end())) {
        written(script, value.trim_start().trim_start_matches('!'), depth);
    }
}

/// Whether an argument sets what git runs by a way of which the value does not show it.
fn sets(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["--config-env", "alias.", "include.path", "includeif."].iter().any(|begins| text.starts_with(begins))
        || text.contains("ext::")
}
