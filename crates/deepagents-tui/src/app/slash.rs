//! Handles Enter: slash commands, shell commands, messages.

use super::commands::{Parsed, is_command, nearest, parse_command};
use super::effect::{Effect, ListOf, Subject};
use super::export::export;
use super::pending::by_id;
use super::transcript::Item;
use super::{App, Overlay, ShellRun, Work};
use crate::host::{Effort, Page};
use crate::key_map::Action;
use crate::policy::Mode;

/// The prompt of `/init`.
const INIT: &str = "Look at this directory and write /AGENTS.md: what it is, how it is laid out, how it is built, tested \
                    and run, and the conventions that somebody who works here has to know. Keep it under 60 lines; if the \
                    file is there, improve it.";

/// The prompt of `/remember`, before the text to note.
const REMEMBER: &str =
    "Note this for later conversations in /AGENTS.md, short, where it belongs, and change nothing else of it:";

impl App {
    /// Sends the input, or runs it as a command.
    pub(super) fn enter(&mut self) -> Vec<Effect> {
        // The placeholder of a paste is text, whatever the paste begins with.
        let is_command = is_command(self.editor.text().trim_end());
        let is_shell = self.editor.text().starts_with('!');
        let text = self.editor.take();
        self.menu = None;
        if text.trim().is_empty() {
            return self.carry_out_plan();
        }
        self.history.add(&text);
        if let Some(parsed) = parse_command(&text).filter(|_| is_command) {
            return match parsed {
                Parsed::Command(name, args) => self.command(name, args),
                Parsed::Skill(name, typed) => self.skill(name, typed.skill_message(), &text),
                Parsed::Other(name, args) => self.file_command(name, args),
            };
        }
        if let Some(command) = text.strip_prefix('!').filter(|_| is_shell) {
            let (command, shared) = command.strip_prefix('!').map_or((command, true), |command| (command, false));
            return self.shell(command.trim(), shared);
        }
        self.send(text, Vec::new())
    }

    fn shell(&mut self, command: &str, shared: bool) -> Vec<Effect> {
        if command.is_empty() {
            return Vec::new();
        }
        if self.background_shell.is_some() || matches!(self.work, Work::Shell(_)) {
            self.note("a command of yours is still running; run this one after it", true);
            self.editor.set(format!("{}{command}", if shared { "!" } else { "!!" }));
            return Vec::new();
        }
        let run = ShellRun { command: command.to_owned(), output: String::new(), shared };
        if self.is_busy() {
            self.background_shell = Some(run);
            return vec![Effect::ShellInBackground(command.to_owned())];
        }
        self.begin(Work::Shell(run));
        vec![Effect::Shell(command.to_owned())]
    }

    fn skill(&mut self, name: &str, message: String, shown: &str) -> Vec<Effect> {
        if let Some(connected) = &self.session.connected {
            let offered =
                connected.offered.iter().filter(|offered| offered.kind == "skill").map(|offered| &offered.name);
            let known: Vec<&String> = connected.skills.iter().map(|(name, _)| name).chain(offered).collect();
            if !known.iter().any(|known| *known == name) {
                let known: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                self.note(format!("there is no skill `{name}`; the skills are: {known}"), true);
                return Vec::new();
            }
        }
        if self.is_busy() {
            self.note("something is in progress; use the skill after it", true);
            self.editor.set(shown);
            return Vec::new();
        }
        self.send(message, vec![name.to_owned()])
    }

    /// Runs a command defined by a file.
    fn file_command(&mut self, name: &str, args: &str) -> Vec<Effect> {
        let connected = self.session.connected.as_ref();
        let found = connected.and_then(|connected| connected.commands.iter().find(|command| command.name == name));
        if let Some(command) = found {
            let message = command.message(args);
            if message.trim().is_empty() {
                self.note(format!("/{name} has no text in its file: nothing is sent"), true);
                return Vec::new();
            }
            return self.send(message, Vec::new());
        }
        let is_it = |offered: &&crate::host::Offered| offered.kind == "command" && offered.name == name;
        if connected.is_some_and(|connected| connected.offered.iter().any(|offered| is_it(&offered))) {
            self.note(format!("/{name} comes from this directory: it can be used once you agree with /trust"), true);
            return Vec::new();
        }
        let guess = nearest(name).map(|known| format!("; did you mean /{known}?")).unwrap_or_default();
        self.note(format!("there is no command /{name}{guess} (unknown; /help lists them)"), true);
        Vec::new()
    }

    #[allow(clippy::too_many_lines, reason = "a table of commands")]
    fn command(&mut self, name: &str, args: &str) -> Vec<Effect> {
        let show = |subject| vec![Effect::Show(subject)];
        match name {
            "help" => self.help(),
            "keys" => self.keys_card(),
            "model" if args.is_empty() => {
                self.card("Model", format!("{} is in use; /model NAME uses another one", self.session.model));
                return vec![Effect::List(ListOf::Models)];
            }
            "model" => return self.use_model(args),
            "effort" if args.is_empty() => self.efforts(),
            "effort" => return self.use_effort(args),
            "clear" | "new" => return self.when_idle(Effect::NewThread),
            "threads" => return vec![Effect::List(ListOf::Threads)],
            "resume" if args.is_empty() => {
                if self.is_busy() {
                    self.note("something is in progress", true);
                    return Vec::new();
                }
                self.begin(Work::Run);
                self.resumed_at = Some(self.items.len());
                let left = by_id(std::mem::take(&mut self.left));
                return vec![if left.is_empty() { Effect::Resume } else { Effect::Answer(left) }];
            }
            "resume" => return self.when_idle(Effect::Open(args.to_owned())),
            "takeover" if self.is_busy() => self.note("something is in progress here", true),
            "takeover" => {
                self.begin(Work::Run);
                self.resumed_at = Some(self.items.len());
                return vec![Effect::TakeOver];
            }
            "background" => return self.move_to_background(),
            "rewind" | "undo" | "redo" | "compact" if self.is_busy() => {
                self.note(self.stop_first(), true);
            }
            "rewind" => return vec![Effect::List(ListOf::Checkpoints)],
            "undo" | "redo" => {
                self.begin(Work::Other("going back"));
                return vec![if name == "undo" { Effect::Undo } else { Effect::Redo }];
            }
            "compact" => {
                self.begin(Work::Other("compacting"));
                return vec![Effect::Compact];
            }
            "context" | "tokens" => return show(Subject::Context { used: self.session.context }),
            "cost" => return show(Subject::Cost),
            "todos" if self.todos.is_empty() => self.note("nothing is planned", false),
            "todos" => self.items.push(Item::Todos(self.todos.clone())),
            "tools" => return show(Subject::Tools),
            "agents" => return show(Subject::Agents),
            "tree" => return vec![Effect::List(ListOf::SubAgents)],
            "skills" => return show(Subject::Skills),
            "mcp" => return show(Subject::Servers),
            "trust" => return show(Subject::Offers),
            "memory" => return show(Subject::Memory),
            "sandbox" => return show(Subject::Sandbox),
            "status" => return show(Subject::Status),
            "diff" => return show(Subject::Diff),
            "auth" => self.auth(args),
            "config" => {
                if !args.is_empty() {
                    self.note("/config shows the settings; `deepagents config set NAME VALUE` changes one", true);
                }
                return show(Subject::Page(Page::Config));
            }
            "doctor" => return show(Subject::Page(Page::Doctor)),
            "bug" => return show(Subject::Page(Page::Bug)),
            "permissions" if args == "clear" => {
                self.note("you are asked about everything again, as the mode says", false);
                return vec![Effect::ForgetRules];
            }
            "permissions" => return show(Subject::Page(Page::Permissions)),
            "mode" => match args {
                "" => self.card(
                    "Mode",
                    format!("{}; {} switches to the next one", self.mode.as_str(), self.keys.name(Action::Mode)),
                ),
                "ask" => return self.set_mode(Mode::Ask),
                "auto" => return self.set_mode(Mode::Auto),
                "plan" => return self.set_mode(Mode::Plan),
                other => self.note(format!("there is no mode `{other}`: ask, auto or plan"), true),
            },
            "plan" => {
                let mut effects = self.set_mode(Mode::Plan);
                if args.is_empty() {
                    let key = self.keys.name(Action::Mode);
                    self.note(format!("nothing is changed from now on; {key} leaves plan mode"), false);
                } else {
                    effects.extend(self.send(args.to_owned(), Vec::new()));
                }
                return effects;
            }
            "copy" => return self.copy(),
            "export" if args.contains('\n') => self.note("the name of a file is one line: /export [FILE]", true),
            "export" => {
                let first = self.items.iter().find_map(|item| match item {
                    Item::User(text) => Some(crate::text::shorten(text, 80)),
                    _ => None,
                });
                let (file, text) = export(args, &first.unwrap_or_else(|| "Conversation".to_owned()), &self.items);
                return vec![Effect::Export { file, text }];
            }
            "editor" => return vec![Effect::Edit(args.to_owned())],
            "theme" => self.theme(args),
            "init" => return self.send(INIT.to_owned(), Vec::new()),
            "remember" => {
                let what = if args.is_empty() { "what of this conversation is worth it" } else { args };
                return self.send(format!("{REMEMBER} {what}"), Vec::new());
            }
            "review" => {
                let what = if args.is_empty() { "the changes that are not committed yet" } else { args };
                let text = format!("Review {what}. Look for what is wrong, missing or unclear; name files and lines.");
                return self.send(text, Vec::new());
            }
            "quit" | "exit" => return vec![Effect::Quit],
            "debug-panic" if self.debug => debug_panic(),
            other => self.note(format!("there is no command /{other} (unknown; /help lists them)"), true),
        }
        Vec::new()
    }

    /// Requests an effect that needs the current work to end, and stops that work first.
    fn when_idle(&mut self, effect: Effect) -> Vec<Effect> {
        if let Work::Nothing = self.work {
            return vec![effect];
        }
        self.waiting.clear();
        self.after.push(effect);
        self.stop()
    }

    /// Moves the run to the background.
    pub(super) fn move_to_background(&mut self) -> Vec<Effect> {
        if self.work == Work::Run && !self.waits && !self.stopping {
            return vec![Effect::MoveToBackground];
        }
        self.note("there is nothing to move to the background", false);
        Vec::new()
    }

    pub(super) fn use_model(&mut self, name: &str) -> Vec<Effect> {
        // A run that waits for a decision makes no model call before it.
        if self.is_busy() && !self.waits {
            self.note(format!("model: {name}, after this turn"), false);
            self.next_model = Some(name.to_owned());
            return Vec::new();
        }
        self.without_model = false;
        name.clone_into(&mut self.session.model);
        self.note(format!("model: {name}"), false);
        vec![Effect::Connect(name.to_owned())]
    }

    /// Switches to the model chosen while other work was in progress.
    pub(super) fn use_next_model(&mut self) -> Vec<Effect> {
        if self.is_busy() && !self.waits {
            return Vec::new();
        }
        self.next_model.take().map(|name| self.use_model(&name)).unwrap_or_default()
    }

    pub(super) fn use_effort(&mut self, word: &str) -> Vec<Effect> {
        if self.is_busy() {
            self.note("the effort can be changed after this turn", true);
            return Vec::new();
        }
        let effort = match (word, Effort::from_word(word)) {
            (_, Some(effort)) => Some(effort),
            ("off" | "none" | "default", None) => None,
            _ => {
                self.note(format!("there is no effort `{word}`: low, medium, high or off"), true);
                return Vec::new();
            }
        };
        vec![Effect::SetEffort(effort)]
    }
}

#[allow(clippy::panic, reason = "what a crash looks like is tried by it")]
fn debug_panic() {
    panic!("the command /debug-panic was given");
}

/// Whether something covers the input.
impl Overlay {
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}
