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
    command("model", "[NAME]", "show or change the model"),
    command("effort", "[low|medium|high|off]", "how much the model thinks"),
    command("clear", "", "begin a new thread"),
    command("threads", "", "earlier conversations of this directory"),
    command("rewind", "", "go back to before a message, restoring files"),
    command("undo", "", "undo the last message and what came of it"),
    command("redo", "", "undo the last /undo"),
    command("compact", "", "replace the conversation so far with a summary"),
    command("context", "", "what fills the model's window"),
    command("tokens", "", "tokens of this conversation"),
    command("cost", "", "tokens in and out, and their cost"),
    command("todos", "", "the agent's todo list"),
    command("goal", "[TEXT|clear]", "work on until a goal is met, as a model judges it"),
    command("rubric", "[TEXT|clear]", "what every result is judged by"),
    command("plan", "[TASK]", "plan before anything is changed"),
    command("tools", "", "what the model may call"),
    command("agents", "", "the sub-agents there are"),
    command("tree", "", "the sub-agents of this conversation and what they did"),
    command("skills", "", "the skills there are; /skill:NAME uses one"),
    command("mcp", "", "MCP servers and their state"),
    command("trust", "", "files of this directory that you have not agreed to"),
    command("memory", "", "the notes that every conversation starts with"),
    command("remember", "[WHAT]", "note something in AGENTS.md"),
    command("diff", "", "what has changed in the directory since the last commit"),
    command("mode", "[ask|auto|plan]", "when you are asked before a change"),
    command("permissions", "[clear]", "what you are no longer asked about"),
    command("sandbox", "", "how commands are sandboxed"),
    command("status", "", "model, thread, directory, mode"),
    command("resume", "[ID]", "resume an unfinished run, or a thread"),
    command("takeover", "", "take over a thread from another program"),
    command("background", "", "move the run to the background"),
    command("copy", "", "copy the last answer to the clipboard"),
    command("export", "[FILE]", "export the conversation: .md, .json or .html"),
    command("editor", "", "write the message in your editor"),
    command("theme", "[NAME]", "colours"),
    command("keys", "", "the keys"),
    command("auth", "[PROVIDER]", "enter the key of a provider"),
    command("config", "", "settings, and where each comes from"),
    command("doctor", "", "what this machine has"),
    command("new", "", "begin a new thread"),
    command("init", "", "write notes on this directory to AGENTS.md"),
    command("review", "[WHAT]", "review changes"),
    command("bug", "", "what to include in a bug report"),
    command("quit", "", "quit; the thread is kept"),
];

/// Commands that are not in the menu: other names, and those that people know from other programs. A file may define a
/// command of the same name.
const UNLISTED: [&str; 9] = ["about", "ask", "auto", "criteria", "manual", "offload", "q", "reload", "version"];

/// The keys and their descriptions: the action whose key can be rebound, other keys, the text.
pub(crate) const KEYS: [(Option<Action>, &str, &str); 21] = [
    (None, "Enter", "send; while the agent works, it reads this before its next step"),
    (Some(Action::Newline), "Alt+Enter", "begin a new line"),
    (Some(Action::Stop), "", "stop what is in progress; close a menu"),
    (None, "Ctrl+C", "clear the input, or stop; twice: quit"),
    (Some(Action::Quit), "", "quit if the input is empty"),
    (Some(Action::Mode), "", "switch the mode (ask, auto, plan)"),
    (Some(Action::Details), "", "show everything: output, calls, sub-agents; again: back"),
    (Some(Action::Background), "", "while the agent works: move it to the background"),
    (None, "Up, Down, Ctrl+P, Ctrl+N", "edit messages that are waiting; earlier messages"),
    (Some(Action::Search), "", "search earlier messages"),
    (None, "@", "files below the directory; Tab takes one"),
    (None, "!COMMAND", "run a command; the model sees it with your next message"),
    (None, "!!COMMAND", "run a command that only you see"),
    (Some(Action::Editor), "", "write the message, or the answer to a question, in your editor"),
    (None, "Ctrl+A, Ctrl+E", "start and end of the line"),
    (None, "Alt+B, Alt+F", "a word back, a word forward"),
    (None, "Ctrl+W, Ctrl+U, Ctrl+K", "delete a word, to the start, to the end"),
    (None, "Ctrl+Y, Ctrl+_", "paste what was deleted; undo"),
    (Some(Action::Redraw), "", "redraw the screen"),
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
    match parse_command(typed) {
        Some(Parsed::Command(name, _)) => {
            is_line || COMMANDS.iter().any(|one| one.name == name && !one.args.is_empty())
        }
        Some(Parsed::Skill(..)) => true,
        Some(Parsed::Other(name, _)) => is_line || (!name.is_empty() && is_name(name)),
        None => false,
    }
}

/// Parses input that begins with a slash, on one line or several. Returns `None` for a path.
pub(crate) fn parse_command(text: &str) -> Option<Parsed<'_>> {
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

/// Returns whether this is the name of a built-in command that is not in the menu.
pub(crate) fn is_unlisted(name: &str) -> bool {
    UNLISTED.contains(&name)
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
