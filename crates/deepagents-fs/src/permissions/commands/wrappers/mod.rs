//! Programs that run other programs.

mod find;
mod table;

use super::directory::Directories;
use super::pattern::{base_name, is_private};
use super::script::{Document, Doubt, MAX_WRAPPERS, Script, Simple};
use super::word::Word;
use super::{mentions, runners, shells};
use find::found;
pub(super) use table::is_known;
use table::{Runs, WRAPPERS, Wrapper};

/// Adds a command and the commands it runs.
pub(super) fn list(script: &mut Script, mut simple: Simple, document: Document, depth: usize) {
    runners::variables(script, &simple.assignments, depth);
    let Some(program) = simple.words.first() else {
        simple.inert = true;
        simple.kept |= !simple.assignments.is_empty();
        return script.commands.push(simple);
    };
    // `command cd` changes the shell's directory too.
    let moves = program.known().is_none_or(|name| matches!(name, "cd" | "pushd" | "popd" | "chdir"));
    if moves {
        script.moves = true;
        match program.known() {
            Some("cd" | "chdir") => script.place.enter(simple.words.get(1..).unwrap_or_default()),
            _ => script.place = Directories::UNKNOWN,
        }
    }
    let Some(path) = program.known().filter(|name| !name.is_empty() && !name.starts_with('-')) else {
        script.doubts.push(Doubt::Program);
        return script.commands.push(simple);
    };
    if depth > MAX_WRAPPERS {
        script.doubts.push(Doubt::TooMuch);
        return script.commands.push(simple);
    }
    let standard = is_standard(path);
    let name = base_name(path).to_ascii_lowercase();
    let name = name.as_str();
    let args = simple.words.get(1..).unwrap_or_default().to_vec();
    let from = script.commands.len();
    // Whether the command runs only what is listed.
    let mut lists = standard;
    shells::evaluates(script, name, &args, depth);
    runners::add_commands(script, name, &args, depth);
    match WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) {
        Some(wrapper) => {
            if name == "eval" {
                script.doubts.push(Doubt::Evaluation);
            }
            // Text is run by a shell, which itself reacts to variables.
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
        // It runs the programs in a directory.
        None if name == "run-parts" => {
            script.doubts.push(Doubt::Input);
            lists = false;
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
        mentions::add_mentions(&mut simple, name, standard);
    } else if script.has_live(from) {
        // Its input is available to what it runs.
        mentions::around(&mut simple);
    }
    script.commands.push(simple);
}

/// Returns whether a program is the standard one of its name, not one at another path.
fn is_standard(path: &str) -> bool {
    let name = path.strip_prefix("/usr").unwrap_or(path).strip_prefix("/bin/").unwrap_or(path);
    !name.contains('/') && !name.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// Returns whether the variables have no effect on a shell.
fn is_plain(assignments: &[(String, Word)]) -> bool {
    assignments.iter().all(|(name, _)| is_private(name))
}

/// Adds the command after a wrapper's options.
fn inside(
    script: &mut Script,
    wrapper: &Wrapper,
    name: &str,
    outer: &Simple,
    args: &[Word],
    document: Document,
    depth: usize,
) {
    // This only describes a command.
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
        return match rest.iter().map(Word::known).collect::<Option<Vec<_>>>() {
            Some(words) => script.text(&words.join(" "), depth + 1),
            None => script.doubts.push(Doubt::Evaluation),
        };
    }
    inner.assignments.extend(outer.assignments.iter().cloned());
    inner.words = rest.to_vec();
    if wrapper.runs == Runs::Extended {
        inner.words.push(Word::Computed(None));
        // Text inserted into the middle of the command is unknown as well.
        if args.iter().any(|arg| arg.known().is_none_or(|arg| arg.starts_with("-I") || arg.starts_with("-i"))) {
            script.doubts.push(Doubt::Input);
        }
    }
    // It may be in another process.
    let before = script.place.clone();
    list(script, inner, document, depth + 1);
    script.place.or(&before);
}

/// Returns the variable that a word sets and its value.
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
