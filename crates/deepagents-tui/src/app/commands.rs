//! The slash commands.

use deepagents::slash::Slash;

use crate::key_map::Action;

/// A command: its name, its arguments and its description.
#[derive(Debug)]
pub(crate) struct CommandInfo {
    pub(crate) name: &'static str,
    pub(crate) args: &'static str,
    pub(crate) about: &'static str,
}

const fn command(name: &'static str, args: &'static str, about: &'static str) -> CommandInfo {
    CommandInfo { name, args, about }
}

/// All commands, in the order of the menu.
pub(crate) const COMMANDS: &[CommandInfo] = &[
    command("help", "", "commands and keys"),
    command("model", "[NAME]", "the model in use, or another one"),
    command("effort", "[low|medium|high|off]", "how much the model thinks"),
    command("clear", "", "begin a new thread"),
    command("threads", "", "earlier conversations of this directory"),
    command("rewind", "", "go back to before a message, with the files"),
    command("undo", "", "take the last message and what came of it back"),
    command("redo", "", "take the last /undo back"),
    command("compact", "", "put a summary in the place of what was said"),
    command("context", "", "what fills the model's window"),
    command("tokens", "", "tokens of this conversation"),
    command("cost", "", "tokens in and out, and what they cost"),
    command("todos", "", "what is planned and done"),
    command("plan", "[TASK]", "have it planned before anything is changed"),
    command("tools", "", "what the model may call"),
    command("agents", "", "the sub-agents there are"),
    command("tree", "", "the sub-agents of this conversation, each with its own"),
    command("skills", "", "the skills there are; /skill:NAME uses one"),
    command("mcp", "", "servers of tools and how they are"),
    command("trust", "", "what this directory brings and you have not agreed to"),
    command("memory", "", "the notes that every conversation begins with"),
    command("remember", "[WHAT]", "have it noted in AGENTS.md"),
    command("diff", "", "what has changed in the directory since the last commit"),
    command("mode", "[ask|auto|plan]", "what happens before something is changed"),
    command("permissions", "[clear]", "what is not asked about any more"),
    command("sandbox", "", "how commands are confined"),
    command("status", "", "model, thread, directory, mode"),
    command("resume", "[ID]", "go on with what was left unfinished, or with a thread"),
    command("takeover", "", "go on here with what another program works on"),
    command("background", "", "let the run go on in the background"),
    command("copy", "", "the last answer, to the clipboard"),
    command("export", "[FILE]", "the conversation, to a file: .md, .json or .html"),
    command("editor", "", "write the message in your editor"),
    command("theme", "[NAME]", "colours"),
    command("keys", "", "the keys"),
    command("auth", "[PROVIDER]", "give the key of a provider"),
    command("config", "", "settings, and where each comes from"),
    command("doctor", "", "what this machine has"),
    command("new", "", "begin a new thread"),
    command("init", "", "have notes on this directory written to AGENTS.md"),
    command("review", "[WHAT]", "have changes reviewed"),
    command("bug", "", "what a report of a mistake should hold"),
    command("quit", "", "end; the thread stays"),
];

/// The keys and their descriptions: the action whose key can be rebound, other keys, the text.
pub(crate) const KEYS: [(Option<Action>, &str, &str); 21] = [
    (None, "Enter", "send; while the agent works: tell it before its next step"),
    (Some(Action::Newline), "Alt+Enter", "begin a new line"),
    (Some(Action::Stop), "", "stop what is under way; close a menu"),
    (None, "Ctrl+C", "clear the input, or stop; twice: quit"),
    (Some(Action::Quit), "", "quit, where the input is empty"),
    (Some(Action::Mode), "", "another mode of asking"),
    (Some(Action::Details), "", "everything whole: output, calls, sub-agents; again: back"),
    (Some(Action::Background), "", "while the agent works: let it go on in the background"),
    (None, "Up, Down, Ctrl+P, Ctrl+N", "what waits to be told, to be changed; earlier messages"),
    (Some(Action::Search), "", "search earlier messages"),
    (None, "@", "files below the directory; Tab takes one"),
    (None, "!COMMAND", "run a command; the model sees it with your next message"),
    (None, "!!COMMAND", "run a command for yourself alone"),
    (Some(Action::Editor), "", "write the message, or the answer to a question, in your editor"),
    (None, "Ctrl+A, Ctrl+E", "begin and end of the line"),
    (None, "Alt+B, Alt+F", "a word back, a word on"),
    (None, "Ctrl+W, Ctrl+U, Ctrl+K", "delete the word, to the begin, to the end"),
    (None, "Ctrl+Y, Ctrl+_", "put back what was deleted; undo"),
    (Some(Action::Redraw), "", "draw the screen anew"),
    (Some(Action::Suspend), "", "suspend"),
    (
        None,
        "y n a p f e t",
        "at a question: yes, no, always in this session, always in this directory, no with a reason, edit, all calls together",
    ),
];

/// A parsed slash command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    /// A built-in command and its argument.
    Command(&'a str, &'a str),
    /// A skill, and the text that names it.
    Skill(&'a str, Slash<'a>),
    /// A name that is not built in, and its argument. A file may define the command.
    Other(&'a str, &'a str),
}

/// Returns whether the input is a command. The first line decides; further lines are part of the argument. Input with
/// several lines is a message if the built-in command takes no argument, or if the first word is not a valid name.
pub(crate) fn is_command(typed: &str) -> bool {
    let is_line = !typed.contains('\n');
    let is_name = |name: &str| name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '.'));
    match words(typed) {
        Some(Parsed::Command(name, _)) => {
            is_line || COMMANDS.iter().any(|one| one.name == name && !one.args.is_empty())
        }
        Some(Parsed::Skill(..)) => true,
        Some(Parsed::Other(name, _)) => is_line || (!name.is_empty() && is_name(name)),
        None => false,
    }
}

/// Parses input that begins with a slash, on one line or several. Returns `None` for a path.
pub(crate) fn words(text: &str) -> Option<Parsed<'_>> {
    let typed = Slash::parse(text)?;
    if let Some(skill) = typed.skill() {
        return Some(Parsed::Skill(skill, typed));
    }
    let (name, args) = (typed.name, typed.args);
    let known = is_known(name) || name == "debug-panic" || name == "exit";
    Some(if known { Parsed::Command(name, args) } else { Parsed::Other(name, args) })
}

/// Returns whether this is the name of a built-in command.
pub(crate) fn is_known(name: &str) -> bool {
    COMMANDS.iter().any(|command| command.name == name)
}

/// Returns the built-in command whose name is most similar to a mistyped one.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let distance = |known: &str| {
        let mut letters: Vec<char> = known.chars().collect();
        let extra = name.chars().filter(|c| match letters.iter().position(|l| l == c) {
            Some(at) => {
                letters.swap_remove(at);
                false
            }
            None => true,
        });
        extra.count() + letters.len()
    };
    COMMANDS.iter().map(|command| command.name).min_by_key(|known| distance(known)).filter(|known| distance(known) <= 2)
}
