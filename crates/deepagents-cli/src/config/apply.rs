//! Applying settings to options.

use anyhow::{Result, anyhow};
use deepagents_tui::{Colours, Graphics, Mode, Notifications, Preferences, UserTheme};

use super::file::Value;
use super::{Config, Source};
use crate::args::{AgentArgs, EditWith, Effort, InteractiveArgs, mode_of};
use crate::model_choice::env;
use crate::output;
use crate::own_files::of_user;

/// The settings given on the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags(Vec<(&'static str, Value)>);

impl Flags {
    /// Returns those of an agent's options.
    pub(crate) fn of_agent(args: &AgentArgs) -> Self {
        let mut flags = Self::default();
        flags.add("model", args.model.clone().map(Value::Text));
        flags.add("base_url", args.base_url.clone().map(Value::Text));
        flags.add("effort", args.effort.map(|effort| Value::Text(effort.as_str().to_owned())));
        flags.add("text_tool_calls", args.text_tool_calls.then_some(Value::Flag(true)));
        flags.add("tool_search", args.tool_search.then_some(Value::Flag(true)));
        flags.add("edit_tool", args.edit_tool.map(|tool| Value::Text(tool.as_str().to_owned())));
        flags
    }

    /// Returns those of the screens' options.
    pub(crate) fn of_screens(args: &InteractiveArgs) -> Self {
        let mut flags = Self::of_agent(&args.agent);
        flags.add("approve", args.approve.map(|mode| Value::Text(mode.as_str().to_owned())));
        flags.add("theme", args.theme.clone().map(Value::Text));
        flags
    }

    fn add(&mut self, name: &'static str, given: Option<Value>) {
        self.0.extend(given.map(|given| (name, given)));
    }

    pub(super) fn value(&self, name: &str) -> Option<Value> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, given)| given.clone())
    }
}

/// Fills the options that the command line leaves open from the settings.
///
/// # Errors
/// Returns an error if a settings file cannot be used.
pub(crate) fn for_agent(args: &AgentArgs) -> Result<(AgentArgs, Vec<String>)> {
    let config =
        Config::load(args.directory(), args.trust, &Flags::of_agent(args)).map_err(|error| anyhow!("{error}"))?;
    Ok((with(args, &config), config.problems))
}

/// Like [`for_agent`], but prints the problems with the settings.
///
/// # Errors
/// Returns an error if a settings file cannot be used.
pub(crate) fn completed(args: &AgentArgs) -> Result<AgentArgs> {
    let (options, problems) = for_agent(args)?;
    output::remarks(problems);
    Ok(options)
}

fn with(args: &AgentArgs, config: &Config) -> AgentArgs {
    let mut args = args.clone();
    // The code that chooses the model reads this variable itself, to report it as the reason.
    let from_env = |name| matches!(config.entry(name), Some((_, _, Source::Environment("DEEPAGENTS_MODEL"))));
    if !from_env("model") {
        args.model = config.text("model").map(str::to_owned);
    }
    // An address belongs to the model that it was set with: naming another model must not send its key there.
    let strength = |name| config.entry(name).map_or(0, |(.., source)| source.precedence());
    let is_of_model = strength("base_url") >= strength("model");
    args.base_url = config.text("base_url").filter(|_| is_of_model).map(str::to_owned);
    args.effort = config.text("effort").and_then(Effort::from_word);
    args.text_tool_calls = config.flag("text_tool_calls");
    args.tool_search = config.flag("tool_search");
    args.edit_tool = config.text("edit_tool").and_then(EditWith::from_name);
    args
}

/// Options and preferences of the screens.
pub(crate) struct Screens {
    pub(crate) agent: AgentArgs,
    pub(crate) mode: Mode,
    pub(crate) preferences: Preferences,
    pub(crate) config: Config,
}

/// Returns the options of the screens, completed from the settings.
///
/// # Errors
/// Returns an error if a settings file cannot be used.
pub(crate) fn for_screens(args: &InteractiveArgs) -> Result<Screens> {
    let flags = Flags::of_screens(args);
    let config = Config::load(args.agent.directory(), args.agent.trust, &flags);
    let mut config = config.map_err(|error| anyhow!("{error}"))?;
    let mode = config.text("approve").and_then(mode_of).unwrap_or_default();
    let (themes, problems) = themes();
    config.problems.extend(problems);
    config.problems.extend(config.shared_keys());
    let keys = super::KEYS.iter().filter(|key| config.is_set(key.name)).filter_map(|key| {
        let action = key.name.strip_prefix("keys.")?;
        Some((action.to_owned(), config.text(key.name)?.to_owned()))
    });
    let preferences = Preferences {
        theme: config.text("theme").unwrap_or("dark").to_owned(),
        themes,
        unicode: config.flag("unicode") && (config.is_set("unicode") || shows_unicode()),
        colours: shows_colours(),
        screen_reader: config.flag("screen_reader"),
        images: match config.text("images") {
            _ if config.flag("screen_reader") => None,
            Some("kitty") => Some(Graphics::Kitty),
            Some("iterm2") => Some(Graphics::Iterm2),
            Some("sixel") => Some(Graphics::Sixel),
            Some("off") => None,
            _ => draws_images(),
        },
        vi: config.flag("vi"),
        title: config.flag("title"),
        progress: if config.is_set("progress") { config.flag("progress") } else { shows_progress() },
        keys: keys.collect(),
        status_line: config.text("status_line").map(str::to_owned),
        notifications: Notifications {
            bell: config.flag("notify.bell"),
            terminal: config.flag("notify.terminal"),
            command: config.text("notify.command").map(str::to_owned),
        },
    };
    Ok(Screens { agent: with(&args.agent, &config), mode, preferences, config })
}

/// Whether the locale allows UTF-8. A locale without a character set does, except `C` and `POSIX`, which mean ASCII.
fn shows_unicode() -> bool {
    let locale = env("LC_ALL").or_else(|| env("LC_CTYPE")).or_else(|| env("LANG")).unwrap_or_default();
    match locale.split_once('.') {
        Some((_, charset)) => charset.to_ascii_lowercase().starts_with("utf"),
        None => !matches!(locale.as_str(), "C" | "POSIX"),
    }
}

/// Returns how many colours the terminal has, as far as the environment tells.
fn shows_colours() -> Colours {
    let (term, program) = (env("TERM").unwrap_or_default(), env("TERM_PROGRAM").unwrap_or_default());
    let says = |word: &str| term.contains(word);
    match env("COLORTERM").as_deref() {
        Some("truecolor" | "24bit") => Colours::All,
        _ if matches!(program.as_str(), "iTerm.app" | "WezTerm" | "ghostty" | "vscode") => Colours::All,
        _ if env("WT_SESSION").is_some() => Colours::All,
        _ if ["direct", "kitty", "ghostty", "alacritty", "foot", "wezterm", "contour"].into_iter().any(says) => {
            Colours::All
        }
        _ if says("256color") => Colours::Indexed,
        _ => Colours::Sixteen,
    }
}

/// Whether the terminal is known to show progress; others would take it for a notification.
fn shows_progress() -> bool {
    let program = env("TERM_PROGRAM").unwrap_or_default();
    env("WT_SESSION").is_some() || matches!(program.as_str(), "ghostty" | "WezTerm")
}

/// Returns the image protocol of the terminal, as far as the environment tells. Terminal multiplexers hide images or
/// break them.
fn draws_images() -> Option<Graphics> {
    if env("TMUX").is_some() || env("STY").is_some() || env("ZELLIJ").is_some() {
        return None;
    }
    let (term, program) = (env("TERM").unwrap_or_default(), env("TERM_PROGRAM").unwrap_or_default());
    match (term.as_str(), program.as_str()) {
        ("xterm-kitty" | "xterm-ghostty", _) | (_, "ghostty") => Some(Graphics::Kitty),
        (_, "iTerm.app" | "WezTerm" | "mintty") => Some(Graphics::Iterm2),
        ("foot" | "foot-extra" | "mlterm" | "contour", _) => Some(Graphics::Sixel),
        // An SSH session passes on only the locale variables.
        (_, "") if env("LC_TERMINAL").as_deref() == Some("iTerm2") => Some(Graphics::Iterm2),
        _ => None,
    }
}

/// Reads the user's own themes: `NAME.toml` in `~/.deepagents/themes`, with a colour on each line.
pub(super) fn themes() -> (Vec<UserTheme>, Vec<String>) {
    let (mut themes, mut problems) = (Vec::new(), Vec::new());
    let entries = of_user("themes").and_then(|place| std::fs::read_dir(place).ok());
    for entry in entries.into_iter().flatten().flatten().take(100) {
        let path = entry.path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
        let (Some(name), true) = (name, path.extension().is_some_and(|ending| ending == "toml")) else { continue };
        let text = match super::file::text(&path) {
            Ok(text) => text.unwrap_or_default(),
            Err(error) => {
                problems.push(error.to_string());
                continue;
            }
        };
        match text.parse::<toml_edit::DocumentMut>() {
            Ok(document) => {
                let mut colours = Vec::new();
                for (key, item) in document.iter() {
                    let text = item.as_str().map(str::to_owned);
                    match text.or_else(|| Some(item.as_integer()?.to_string())) {
                        Some(colour) => colours.push((key.to_owned(), colour)),
                        None => problems.push(format!(
                            "`{}`: `{key}` is not a colour; give a name, a number or #rrggbb",
                            path.display()
                        )),
                    }
                }
                themes.push(UserTheme { name, colours: colours.into_iter().collect() });
            }
            Err(error) => problems.push(format!("`{}` is not valid TOML: {}", path.display(), error.message())),
        }
    }
    themes.sort_by(|a, b| a.name.cmp(&b.name));
    (themes, problems)
}
