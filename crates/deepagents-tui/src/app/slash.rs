//! What Enter does: commands of the program, commands of the shell, messages.

use super::commands::{COMMANDS, KEYS, Parsed, nearest, parse};
use super::event::{Effect, ListOf, Subject};
use super::transcript::{Item, to_markdown};
use super::{App, Overlay, Work};
use crate::policy::Mode;
use crate::text::grouped;
use crate::theme::Theme;

/// What `/init` asks for.
const INIT: &str = "Look at this directory and write /AGENTS.md: what it is, how it is laid out, how it is built, tested \
                    and run, and the conventions that somebody who works here has to know. Keep it under 60 lines; if the \
                    file is there, improve it.";

impl App {
    /// Sends or does what stands in the input.
    pub(super) fn enter(&mut self) -> Vec<Effect> {
        let shown = self.editor.text().to_owned();
        let text = self.editor.take();
        self.menu = None;
        if text.trim().is_empty() {
            return Vec::new();
        }
        self.history.add(&text);
        // A placeholder stands for text, whatever that begins with.
        if let Some(parsed) = parse(shown.trim_end()) {
            let shown = shown.clone();
            return match parsed {
                Parsed::Command(name, args) => self.command(name, args),
                Parsed::Skill(name, args) => self.skill(name, args, &shown),
                Parsed::Unknown(name) => {
                    let guess = nearest(name).map(|known| format!("; did you mean /{known}?")).unwrap_or_default();
                    self.note(format!("there is no command /{name}{guess} (unknown; /help lists them)"), true);
                    Vec::new()
                }
            };
        }
        if let Some(command) = shown.strip_prefix('!') {
            let (command, shared) = command.strip_prefix('!').map_or((command, true), |command| (command, false));
            return self.shell(command.trim(), shared);
        }
        self.send(text, Vec::new())
    }

    fn shell(&mut self, command: &str, shared: bool) -> Vec<Effect> {
        if command.is_empty() {
            return Vec::new();
        }
        if self.is_busy() {
            self.note("something is under way; the command can be run after it", true);
            self.editor.set(format!("!{command}"));
            return Vec::new();
        }
        self.begin(Work::Shell { command: command.to_owned(), output: String::new(), shared });
        vec![Effect::Shell(command.to_owned())]
    }

    fn skill(&mut self, name: &str, args: &str, shown: &str) -> Vec<Effect> {
        if let Some(connected) = &self.session.connected {
            let offered =
                connected.offered.iter().filter(|offered| offered.kind == "skill").map(|offered| &offered.name);
            let known: Vec<&String> = connected.skills.iter().map(|(name, _)| name).chain(offered).collect();
            if !known.iter().any(|known| *known == name) {
                let known: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                self.note(format!("there is no skill `{name}`; there are: {known}"), true);
                return Vec::new();
            }
        }
        let text = if args.is_empty() { format!("Use the skill {name}.") } else { args.to_owned() };
        if self.is_busy() {
            self.note("something is under way; the skill can be used after it", true);
            self.editor.set(shown);
            return Vec::new();
        }
        self.send(text, vec![name.to_owned()])
    }

    #[allow(clippy::too_many_lines, reason = "a table of commands")]
    fn command(&mut self, name: &str, args: &str) -> Vec<Effect> {
        let show = |subject| vec![Effect::Show(subject)];
        match name {
            "help" => self.help(),
            "keys" => self.card("Keys", keys()),
            "model" if args.is_empty() => {
                self.card("Model", format!("{} is in use; /model NAME uses another one", self.session.model));
                return vec![Effect::List(ListOf::Models)];
            }
            "model" => return self.use_model(args),
            "clear" | "new" => return self.when_idle(Effect::NewThread),
            "threads" => return vec![Effect::List(ListOf::Threads)],
            "resume" if args.is_empty() => {
                if self.is_busy() {
                    self.note("something is under way", true);
                    return Vec::new();
                }
                self.begin(Work::Run);
                return vec![Effect::Resume];
            }
            "resume" => return self.when_idle(Effect::Open(args.to_owned())),
            "rewind" if self.is_busy() => self.note("stop what is under way first (Esc)", true),
            "rewind" => return vec![Effect::List(ListOf::Checkpoints)],
            "compact" if self.is_busy() => self.note("stop what is under way first (Esc)", true),
            "compact" => {
                self.begin(Work::Other("compacting"));
                return vec![Effect::Compact];
            }
            "context" | "tokens" => {
                let body = self.context_body();
                self.card("Context", body);
            }
            "cost" => {
                let body = self.cost_body();
                self.card("Cost", body);
            }
            "todos" if self.todos.is_empty() => self.note("nothing is planned", false),
            "todos" => self.items.push(Item::Todos(self.todos.clone())),
            "tools" => return show(Subject::Tools),
            "agents" => return show(Subject::Agents),
            "skills" => return show(Subject::Skills),
            "mcp" => return show(Subject::Servers),
            "trust" => return show(Subject::Offers),
            "memory" => return show(Subject::Memory),
            "sandbox" => return show(Subject::Sandbox),
            "status" => return show(Subject::Status),
            "diff" => return show(Subject::Diff),
            "mode" => match args {
                "" => self.card("Mode", format!("{}; Shift+Tab goes to the next one", self.mode.as_str())),
                "ask" => return self.set_mode(Mode::Ask),
                "auto" => return self.set_mode(Mode::Auto),
                "plan" => return self.set_mode(Mode::Plan),
                other => self.note(format!("there is no mode `{other}`: ask, auto or plan"), true),
            },
            "copy" => return self.copy(),
            "export" => {
                let file = if args.is_empty() { "conversation.md" } else { args };
                return vec![Effect::Export { file: file.to_owned(), text: to_markdown(&self.items) }];
            }
            "editor" => return vec![Effect::Edit(String::new())],
            "theme" => self.theme(args),
            "init" => return self.send(INIT.to_owned(), Vec::new()),
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

    /// Does something that needs the run to have ended; ends it first.
    fn when_idle(&mut self, effect: Effect) -> Vec<Effect> {
        if let Work::Nothing = self.work {
            return vec![effect];
        }
        self.waiting.clear();
        self.after.push(effect);
        self.stop()
    }

    pub(super) fn use_model(&mut self, name: &str) -> Vec<Effect> {
        if self.is_busy() {
            self.note("the model can be changed once the turn has ended", true);
            return Vec::new();
        }
        name.clone_into(&mut self.session.model);
        self.note(format!("model: {name}"), false);
        vec![Effect::Connect(name.to_owned())]
    }

    fn help(&mut self) {
        let mut body = String::new();
        for command in &COMMANDS {
            let name = format!("/{} {}", command.name, command.args);
            body += &format!("{:<24} {}\n", name.trim_end(), command.about);
        }
        self.card("Commands", body);
        self.card("Keys", keys());
    }

    fn context_body(&self) -> String {
        let used = self.session.context;
        let connected = self.session.connected.as_ref();
        let Some(window) = connected.and_then(|connected| connected.window).filter(|window| *window > 0) else {
            return format!("{} tokens in use; how many the model takes is not known", grouped(used));
        };
        let share = used.saturating_mul(100) / window;
        let full = usize::try_from(share.min(100) / 4).unwrap_or(25);
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(25 - full));
        format!("{bar} {share} %\n{} of {} tokens in use", grouped(used), grouped(window))
    }

    fn cost_body(&self) -> String {
        let usage = self.session.usage;
        let mut body = format!(
            "in   {:>12}   ({} read from the cache)\nout  {:>12}",
            grouped(usage.input),
            grouped(usage.cache_read),
            grouped(usage.output)
        );
        body += &match self.session.connected.as_ref().and_then(|connected| connected.price) {
            Some(price) => format!("\ncost  ${:.4} at list prices", price.cost(usage)),
            None => format!("\nthe price of {} is not known", self.session.model),
        };
        body
    }

    fn copy(&mut self) -> Vec<Effect> {
        let answer = self.items.iter().rev().find_map(|item| match item {
            Item::Answer(text) => Some(text.clone()),
            _ => None,
        });
        match answer {
            Some(text) => {
                self.hint = Some("copied".to_owned());
                vec![Effect::Copy(text)]
            }
            None => {
                self.note("there is no answer to copy yet", false);
                Vec::new()
            }
        }
    }

    fn theme(&mut self, name: &str) {
        if let Some(theme) = Theme::named(name) {
            self.theme = theme;
            self.repaint = true;
            return;
        }
        let list: Vec<String> = Theme::NAMES.iter().map(|(name, about)| format!("{name:<10} {about}")).collect();
        let list = list.join("\n");
        if name.is_empty() {
            self.card("Themes", format!("{list}\n\n{} is in use; /theme NAME uses another one", self.theme.name));
        } else {
            self.note(format!("there is no theme `{name}`:\n{list}"), true);
        }
    }
}

fn keys() -> String {
    KEYS.iter().map(|(keys, about)| format!("{keys:<24} {about}\n")).collect()
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
