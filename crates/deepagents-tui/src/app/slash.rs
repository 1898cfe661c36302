//! Handles Enter: slash commands, shell commands, messages.

use super::commands::{Parsed, is_command, is_unlisted, nearest, parse_command};
use super::effect::{Effect, ListOf, Subject};
use super::export::export;
use super::pending::by_id;
use super::transcript::Item;
use super::{App, ShellRun, Work};
use crate::host::Page;
use crate::key_map::Action;
use crate::policy::Mode;

/// The prompt of `/init`.
const INIT: &str = "Look at this directory and write /AGENTS.md: what it is, how it is laid out, how it is built, tested \
                    and run, and the conventions that somebody who works here has to know. Keep it under 60 lines; if the \
                    file is there, improve it.";

/// What `/reload` does.
const RELOADED: &str = "the agent is built again, with what your settings and the files here define now; the model, the \
                        theme, the keys and other settings of the screens apply after a restart";

/// The prompt of `/remember`, before the text to note.
const REMEMBER: &str =
    "Note this for later conversations in /AGENTS.md, short, where it belongs, and change nothing else of it:";

impl App {
    /// Sends the input, or runs it as a command.
    pub(super) fn enter(&mut self) {
        // The placeholder of a paste is text, whatever the paste begins with.
        let is_command = is_command(self.editor.text().trim_end());
        let is_shell = self.editor.text().starts_with('!');
        let text = self.editor.take();
        self.menu = None;
        if text.trim().is_empty() {
            return self.carry_out_plan();
        }
        self.history.add(&text);
        match parse_command(&text).filter(|_| is_command) {
            Some(Parsed::Command(name, args)) => return self.command(name, args),
            Some(Parsed::Skill(name, typed)) => return self.skill(name, typed.skill_message(), &text),
            Some(Parsed::Other(name, args)) => return self.file_command(name, args),
            None => {}
        }
        match text.strip_prefix('!').filter(|_| is_shell) {
            Some(command) => self.shell(command),
            None => self.send(text, Vec::new()),
        }
    }

    /// Runs a shell command. After another `!`, only the user sees it.
    fn shell(&mut self, typed: &str) {
        let command = typed.strip_prefix('!').unwrap_or(typed).trim();
        if command.is_empty() {
            return;
        }
        if self.background_shell.is_some() || matches!(self.work, Work::Shell(_)) {
            self.note("a command of yours is still running; run this one after it", true);
            return self.editor.set(format!("!{typed}"));
        }
        let shared = !typed.starts_with('!');
        let run = ShellRun { command: command.to_owned(), output: String::new(), shared };
        if self.is_busy() {
            self.background_shell = Some(run);
            return self.request(Effect::ShellInBackground(command.to_owned()));
        }
        self.begin(Work::Shell(run));
        self.request(Effect::Shell(command.to_owned()));
    }

    fn skill(&mut self, name: &str, message: String, shown: &str) {
        if let Some(connected) = &self.session.connected {
            let offered = connected.offered.iter().filter(|offered| offered.kind == "skill");
            let skills = connected.skills.iter().map(|(name, _)| name.as_str());
            let known: Vec<&str> = skills.chain(offered.map(|offered| offered.name.as_str())).collect();
            if !known.contains(&name) {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return self.note(format!("there is no skill `{name}`; the skills are: {known}"), true);
            }
        }
        if self.is_busy() {
            self.note("something is in progress; use the skill after it", true);
            return self.editor.set(shown);
        }
        self.send(message, vec![name.to_owned()]);
    }

    /// Runs a command defined by a file.
    fn file_command(&mut self, name: &str, args: &str) {
        let connected = self.session.connected.as_ref();
        let found = connected.and_then(|connected| connected.commands.iter().find(|command| command.name == name));
        if let Some(command) = found {
            let message = command.message(args);
            if message.trim().is_empty() {
                return self.note(format!("/{name} has no text in its file: nothing is sent"), true);
            }
            return self.send(message, Vec::new());
        }
        let mut offered = connected.into_iter().flat_map(|connected| &connected.offered);
        if offered.any(|offered| offered.kind == "command" && offered.name == name) {
            let text = format!("/{name} comes from this directory: it can be used once you agree with /trust");
            return self.note(text, true);
        }
        if is_unlisted(name) {
            return self.command(name, args);
        }
        let guess = nearest(name).map(|known| format!("; did you mean /{known}?")).unwrap_or_default();
        self.note(format!("there is no command /{name}{guess} (unknown; /help lists them)"), true);
    }

    #[allow(clippy::too_many_lines, reason = "a table of commands")]
    fn command(&mut self, name: &str, args: &str) {
        match name {
            "help" => self.help(),
            "keys" => self.keys_card(),
            "model" if args.is_empty() => {
                self.card("Model", format!("{} is in use; /model NAME uses another one", self.session.model));
                self.request(Effect::List(ListOf::Models));
            }
            "model" => self.use_model(args),
            "effort" if args.is_empty() => self.efforts(),
            "effort" => self.use_effort(args),
            "clear" | "new" => self.leave_thread(None),
            "threads" => self.request(Effect::List(ListOf::Threads)),
            "resume" if !args.is_empty() => self.leave_thread(Some(args.to_owned())),
            "resume" if self.is_busy() => self.note("something is in progress", true),
            "takeover" if self.is_busy() => self.note("something is in progress here", true),
            "resume" | "takeover" => {
                self.begin(Work::Run);
                self.resumed_at = Some(self.items.len());
                let by_force = name == "takeover";
                let answers = if by_force { Vec::new() } else { by_id(std::mem::take(&mut self.left)) };
                self.request(Effect::Resume { answers, by_force });
            }
            "background" => self.move_to_background(),
            "rewind" if self.is_busy() => self.note(self.stop_first(), true),
            "rewind" => self.request(Effect::List(ListOf::Checkpoints)),
            "undo" => self.begin_if_idle("going back", Effect::Undo),
            "redo" => self.begin_if_idle("going back", Effect::Redo),
            "compact" | "offload" => self.begin_if_idle("compacting", Effect::Compact),
            "context" | "tokens" => self.show(Subject::Context { used: self.session.context }),
            "cost" => self.show(Subject::Cost),
            "todos" if self.todos.is_empty() => self.note("nothing is planned", false),
            "todos" => self.items.push(Item::Todos(self.todos.clone())),
            "tools" => self.show(Subject::Tools),
            "agents" => self.show(Subject::Agents),
            "tree" => self.request(Effect::List(ListOf::SubAgents)),
            "skills" => self.show(Subject::Skills),
            "mcp" => self.show(Subject::Servers),
            "trust" => self.show(Subject::Offers),
            "memory" => self.show(Subject::Memory),
            "sandbox" => self.show(Subject::Sandbox),
            "status" | "version" | "about" => self.show(Subject::Status),
            "goal" | "rubric" | "criteria" => self.goal(name == "goal", args),
            "diff" => self.show(Subject::Diff),
            "auth" => self.auth(args),
            "config" => {
                if !args.is_empty() {
                    self.note("/config shows the settings; `deepagents config set NAME VALUE` changes one", true);
                }
                self.show(Subject::Page(Page::Config));
            }
            "doctor" => self.show(Subject::Page(Page::Doctor)),
            "bug" => self.show(Subject::Page(Page::Bug)),
            "permissions" if args == "clear" => {
                self.note("you are asked about everything again, as the mode says", false);
                self.request(Effect::ForgetRules);
            }
            "permissions" => self.show(Subject::Page(Page::Permissions)),
            "mode" => match args {
                "" => self.card(
                    "Mode",
                    format!("{}; {} switches to the next one", self.mode.as_str(), self.keys.name(Action::Mode)),
                ),
                "ask" => self.set_mode(Mode::Ask),
                "auto" => self.set_mode(Mode::Auto),
                "plan" => self.set_mode(Mode::Plan),
                other => self.note(format!("there is no mode `{other}`: ask, auto or plan"), true),
            },
            "plan" => {
                self.in_mode(Mode::Plan, args);
                if args.is_empty() {
                    let key = self.keys.name(Action::Mode);
                    self.note(format!("nothing is changed from now on; {key} leaves plan mode"), false);
                }
            }
            "ask" | "manual" => self.in_mode(Mode::Ask, args),
            "auto" => self.in_mode(Mode::Auto, args),
            "reload" if self.is_busy() => self.note(self.stop_first(), true),
            "reload" => {
                self.note(RELOADED, false);
                self.request(Effect::Reload);
            }
            "copy" => self.copy(),
            "export" if args.contains('\n') => self.note("the name of a file is one line: /export [FILE]", true),
            "export" => {
                let first = self.items.iter().find_map(|item| match item {
                    Item::User(text) => Some(crate::text::shorten(text, 80)),
                    _ => None,
                });
                let (file, text) = export(args, &first.unwrap_or_else(|| "Conversation".to_owned()), &self.items);
                self.request(Effect::Export { file, text });
            }
            "editor" => {
                let aside = self.aside.take_if(|_| args.is_empty());
                self.request(Effect::Edit(aside.map_or_else(|| args.to_owned(), |text| text.expanded())));
            }
            "theme" => self.theme(args),
            "init" => self.send(INIT.to_owned(), Vec::new()),
            "remember" => {
                let what = if args.is_empty() { "what of this conversation is worth it" } else { args };
                self.send(format!("{REMEMBER} {what}"), Vec::new());
            }
            "review" => {
                let what = if args.is_empty() { "the changes that are not committed yet" } else { args };
                let text = format!("Review {what}. Look for what is wrong, missing or unclear; name files and lines.");
                self.send(text, Vec::new());
            }
            "quit" | "exit" | "q" => self.request(Effect::Quit),
            "debug-panic" if self.debug => debug_panic(),
            other => self.note(format!("there is no command /{other} (unknown; /help lists them)"), true),
        }
    }

    /// Switches to a mode, and sends a task if there is one.
    fn in_mode(&mut self, mode: Mode, task: &str) {
        self.set_mode(mode);
        if !task.is_empty() {
            self.send(task.to_owned(), Vec::new());
        }
    }

    /// Shows, clears or sets what results are judged by. A goal is worked on at once.
    fn goal(&mut self, is_goal: bool, text: &str) {
        match text {
            "" => self.show(Subject::Goal),
            "clear" => {
                self.note("from your next message on, nothing is judged", false);
                self.request(Effect::SetGoal { text: None, once: false });
            }
            _ if self.is_busy() => {
                self.note("something is in progress; set the goal after it", true);
                self.editor.set(format!("/{} {text}", if is_goal { "goal" } else { "rubric" }));
            }
            _ => {
                self.request(Effect::SetGoal { text: Some(text.to_owned()), once: is_goal });
                if is_goal {
                    self.send(text.to_owned(), Vec::new());
                } else {
                    self.note("from your next message on, every result is judged by this", false);
                }
            }
        }
    }

    fn show(&mut self, subject: Subject) {
        self.request(Effect::Show(subject));
    }

    /// Moves the run to the background.
    pub(super) fn move_to_background(&mut self) {
        if self.work == Work::Run && !self.waits && !self.stopping {
            return self.request(Effect::MoveToBackground);
        }
        self.note("there is nothing to move to the background", false);
    }
}

#[allow(clippy::panic, reason = "what a crash looks like is tried by it")]
fn debug_panic() {
    panic!("the command /debug-panic was given");
}
