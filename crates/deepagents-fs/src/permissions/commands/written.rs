//! Files that a script writes and then has a shell or git run.
//!
//! Text that is written to a file which the same script runs is judged like the input of a program: a command that a
//! rule denies or asks about may not be mentioned in it. Where the text is put together from pieces, such as by `tr` or
//! by escapes of `printf`, it cannot be judged.

use std::collections::{BTreeMap, BTreeSet};

use super::pattern::base_name;
use super::script::{Doubt, Script, Simple};
use super::word::Word;
use super::{mentions, runners, shells, wrappers};

/// Programs whose output may be text that stands neither in their arguments nor in their input.
const ASSEMBLING: [&str; 24] = [
    "awk", "base64", "column", "cut", "expand", "expr", "fmt", "fold", "gawk", "hexdump", "join", "jq", "mawk", "nawk",
    "nl", "numfmt", "od", "paste", "rev", "sed", "seq", "tac", "tr", "unexpand",
];
/// Names of files from which git takes settings or which it runs, wherever they are.
const GIT_FILES: [&str; 6] = [".gitconfig", "gitconfig", "config.worktree", "commondir", ".git", "hooks"];

/// What a group of commands whose output goes to the same places writes.
#[derive(Default)]
struct Group {
    /// Names of files, without their directories.
    names: BTreeSet<String>,
    /// Whether it writes a file whose name is unknown.
    is_unknown: bool,
    /// Whether it prints text that is written in the script.
    has_text: bool,
}

/// Records what the files contain that a script writes and runs.
pub(super) fn judge(script: &mut Script) {
    if sets_git(script) {
        script.hides = Some(Doubt::Settings);
    }
    let groups = run_groups(script);
    if groups.is_empty() {
        return;
    }
    let (mut is_assembled, mut printing, mut has_piece, mut texts) = (false, 0, false, Vec::new());
    for simple in script.commands.iter_mut().filter(|simple| simple.inert && !simple.guessed) {
        let Some(group) = groups.get(&simple.flow) else { continue };
        is_assembled |= assembles(simple) && (group.has_text || !group.is_unknown);
        has_piece |= !ends_lines(simple);
        printing += usize::from(!simple.words.is_empty());
        mentions::all(simple);
        texts.extend(simple.texts.iter().cloned().chain(printed(simple)));
    }
    let commands: Vec<_> = texts.iter().flat_map(|text| commands(text)).collect();
    script.commands.extend(commands);
    script.commands.iter_mut().for_each(mentions::values);
    // Of several texts, one that ends within a line continues in the next.
    if is_assembled || (has_piece && printing > 1) {
        script.hides = Some(Doubt::Assembled);
    }
}

/// Returns the text that a command prints which prints its arguments.
fn printed(simple: &Simple) -> Option<String> {
    let is_printing = name(simple).is_some_and(|name| matches!(name.as_str(), "echo" | "printf"));
    let words = simple.words.iter().skip(1).filter_map(Word::known);
    is_printing.then(|| words.collect::<Vec<_>>().join(" ").replace("\\n", "\n"))
}

/// Returns the commands of a text that a shell may run, up to their first computed word. The rest of the text is not
/// judged: it may be in another language.
fn commands(text: &str) -> Vec<Simple> {
    let mut script = Script::default();
    script.text(text, 1);
    let known = |simple: Simple| {
        let words = simple.words.into_iter().take_while(|word| word.known().is_some()).collect();
        Simple { words, guessed: true, ..Simple::default() }
    };
    script.commands.into_iter().map(known).filter(|simple| !simple.words.is_empty()).collect()
}

/// Returns the groups that write files which the script runs.
fn run_groups(script: &Script) -> BTreeMap<usize, Group> {
    let mut groups: BTreeMap<usize, Group> = BTreeMap::new();
    for simple in script.commands.iter().filter(|simple| !simple.guessed) {
        for path in written(simple) {
            let group = groups.entry(simple.flow).or_default();
            match base_name(path) {
                "" => group.is_unknown = true,
                name => drop(group.names.insert(name.to_owned())),
            }
        }
    }
    if groups.is_empty() {
        return groups;
    }
    for simple in &script.commands {
        if let Some(group) = groups.get_mut(&simple.flow) {
            let prints = name(simple).is_some_and(|name| matches!(name.as_str(), "echo" | "printf"));
            group.has_text |= prints || !simple.texts.is_empty();
        }
    }
    let run: BTreeSet<String> = script.commands.iter().flat_map(run_names).collect();
    let has_shell = |simple: &Simple| {
        let is_path = simple.words.first().and_then(Word::known).is_some_and(|program| program.contains('/'));
        is_path || name(simple).is_some_and(|name| runs_files(&name))
    };
    let has_shell = script.commands.iter().any(has_shell);
    let renamed: BTreeSet<&str> =
        script.commands.iter().filter(|simple| renames(simple)).flat_map(written).map(base_name).collect();
    groups.retain(|_, group| {
        let is_renamed = || renamed.contains("") || group.names.iter().any(|name| renamed.contains(&**name));
        let is_run = group.names.iter().any(|name| run.contains(name) || (run.contains("git") && is_hook(name)));
        is_run || (has_shell && (group.is_unknown || is_renamed()))
    });
    let printing = script.commands.iter().filter(|simple| simple.inert && !simple.guessed);
    let printing: BTreeSet<usize> = printing.map(|simple| simple.flow).collect();
    groups.retain(|flow, _| printing.contains(flow));
    groups
}

fn name(simple: &Simple) -> Option<String> {
    Some(base_name(simple.words.first()?.known()?).to_ascii_lowercase())
}

/// Returns whether a script writes, or changes the place of, what git takes settings and hooks from, and runs git.
fn sets_git(script: &Script) -> bool {
    let named = |wanted: fn(&str) -> bool| {
        script.commands.iter().filter(move |simple| name(simple).is_some_and(|name| wanted(&name)))
    };
    let is_git = |name: &str| name == "git" || name.starts_with("git-");
    if named(is_git).next().is_none() {
        return false;
    }
    let goes_there = |arg: &Word| arg.known().is_none_or(|path| path.contains("git"));
    let goes = named(|name| matches!(name, "cd" | "pushd")).any(|simple| simple.words.iter().skip(1).any(goes_there))
        || script.commands.iter().any(names_repository);
    let writes = |simple: &Simple| written(simple).any(|path| is_of_git(path, goes && !renames(simple)));
    let moves_home = |simple: &Simple| {
        let name = name(simple).unwrap_or_default();
        let set = simple.words.iter().filter(|_| mentions::sets_variables(&name)).filter_map(wrappers::assignment);
        let reaches = name.is_empty() || is_git(&name) || runs_files(&name);
        let set = set.chain(simple.assignments.iter().filter(|_| reaches).cloned());
        set.into_iter().any(|(name, _)| matches!(name.as_str(), "HOME" | "XDG_CONFIG_HOME"))
    };
    script.commands.iter().any(|simple| writes(simple) || moves_home(simple))
}

fn renames(simple: &Simple) -> bool {
    name(simple).is_some_and(|name| name != "dd" && mentions::gives_names(&name))
}

/// Returns the files that a command writes or renames, or the known ends of their paths.
fn written(simple: &Simple) -> impl Iterator<Item = &str> {
    let opened = simple.redirections.iter().filter(|redirection| redirection.writes);
    let opened = opened.map(|redirection| redirection.to.known().unwrap_or(redirection.tail.as_str()));
    let takes_names =
        renames(simple) || name(simple).is_some_and(|name| matches!(name.as_str(), "tee" | "dd" | "sponge"));
    let args = simple.words.get(1..).unwrap_or_default();
    let named = args.iter().filter_map(Word::known).chain(simple.tails.iter().map(String::as_str));
    let named = named.filter(move |_| takes_names).map(|arg| arg.strip_prefix("of=").unwrap_or(arg));
    // Other programs have an option for it.
    let joined = args.iter().filter_map(|arg| arg.known()?.strip_prefix("--output="));
    let is_output = |pair: &&[Word]| matches!(pair, [option, _] if matches!(option.known(), Some("-o" | "--output")));
    let behind = args.windows(2).filter(is_output).filter_map(|pair| pair.last()?.known());
    let all = opened.chain(named).chain(joined).chain(behind);
    all.filter(|path| *path != "/dev/null" && !path.starts_with('-'))
}

/// Returns whether a command makes or uses a repository at a place that is not called `.git`.
fn names_repository(simple: &Simple) -> bool {
    let names = |arg: &Word| {
        arg.known().is_some_and(|arg| matches!(arg, "--bare" | "--mirror") || arg.starts_with("--git-dir"))
    };
    simple.words.iter().any(names)
        || simple.assignments.iter().any(|(name, _)| matches!(name.as_str(), "GIT_DIR" | "GIT_COMMON_DIR"))
}

/// Returns whether git takes settings or hooks from a file. `is_there`: the script may be in a git directory.
fn is_of_git(path: &str, is_there: bool) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let last = parts.last().copied().unwrap_or_default();
    let has = |name: &str| parts.iter().any(|part| part.eq_ignore_ascii_case(name));
    // Other files in it are lists and messages.
    let is_in_repository = has(".git") && !has("info") && !last.ends_with("_MSG");
    GIT_FILES.contains(&last) || is_in_repository || (last == "config" && (has("git") || is_there))
}

/// Returns whether a program of this name runs files that its arguments name.
fn runs_files(name: &str) -> bool {
    matches!(name, "." | "source" | "find")
        || shells::SHELLS.contains(&name)
        || shells::OTHERS.contains(&name)
        || wrappers::is_known(name)
        || runners::before_command(name, &[Word::Known(String::new())]) == Some(0)
}

/// Returns the names of the files that a command may run, without their directories.
fn run_names(simple: &Simple) -> Vec<String> {
    let runs = name(simple).is_some_and(|name| runs_files(&name));
    let words = simple.words.iter().take(if runs { usize::MAX } else { 1 });
    let values = simple.assignments.iter().filter(|(name, _)| matches!(name.as_str(), "BASH_ENV" | "ENV"));
    let all = words.chain(values.map(|(_, value)| value)).filter_map(Word::known);
    all.flat_map(|text| text.split(['=', ' '])).map(|path| base_name(path).to_owned()).collect()
}

/// Returns whether git may run a file of this name as a hook.
fn is_hook(name: &str) -> bool {
    let begins = ["pre-", "post-", "commit-msg", "prepare-commit-msg", "applypatch-msg", "reference-transaction"];
    begins.iter().any(|begins| name.starts_with(begins))
        || matches!(name, "update" | "proc-receive" | "push-to-checkout")
}

/// Returns whether what a command prints is text that does not stand in the script as such.
fn assembles(simple: &Simple) -> bool {
    let name = name(simple).unwrap_or_default();
    let args = simple.words.get(1..).unwrap_or_default();
    match name.as_str() {
        "echo" | "printf" => {
            let first = args.iter().find(|arg| arg.known().is_none_or(|arg| !is_option_of_echo(arg)));
            let is_computed = |arg: &Word| match arg {
                Word::Known(_) => false,
                Word::Computed(begins) => !begins.as_deref().unwrap_or_default().contains([' ', '\n']),
            };
            let inserts = name == "printf"
                && args.first().and_then(Word::known).is_some_and(|format| inserts(format, args.len()));
            first.is_some_and(is_computed) || inserts || args.iter().filter_map(Word::known).any(is_escaped)
        }
        name => ASSEMBLING.contains(&name),
    }
}

fn is_option_of_echo(arg: &str) -> bool {
    arg.len() > 1 && arg.strip_prefix('-').is_some_and(|letters| letters.bytes().all(|letter| b"neE".contains(&letter)))
}

/// Returns whether a format puts its arguments together, other than each on a line of its own.
fn inserts(format: &str, words: usize) -> bool {
    let format = format.replace("%%", "");
    match format.as_str() {
        "%s\\n" | "%s\n" => false,
        "%s" => words > 2,
        format => format.contains('%'),
    }
}

/// Returns whether a text has escapes that may stand for other characters than line ends and the like.
fn is_escaped(text: &str) -> bool {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\\'
            && !matches!(chars.next(), Some('n' | 't' | 'r' | '\\' | '"' | '\'' | '$' | '`' | '!' | '#' | '.' | '/'))
        {
            return true;
        }
    }
    false
}

/// Returns whether what a command prints ends with a line end, so that the next text begins another line.
fn ends_lines(simple: &Simple) -> bool {
    let args = || simple.words.get(1..).unwrap_or_default().iter();
    match name(simple).as_deref() {
        Some("printf") => args()
            .next()
            .is_none_or(|format| format.known().is_some_and(|text| text.ends_with("\\n") || text.ends_with('\n'))),
        Some("echo") => !args()
            .take_while(|arg| arg.known().is_some_and(is_option_of_echo))
            .any(|arg| arg.known().is_some_and(|arg| arg.contains('n'))),
        _ => true,
    }
}
