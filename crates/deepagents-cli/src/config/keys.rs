//! The settings that exist.

use serde_json::{Map, Value as Json, json};

use super::file::Value;

/// The type of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// Yes or no.
    Flag,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// A setting.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name, prefixed with the name of its table and a dot if it is in one.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Its default, as it would be written.
    pub(crate) default: &'static str,
    /// The environment variable that sets it.
    pub(crate) variable: Option<&'static str>,
    /// Whether a directory may set it, once the user has agreed. A directory may not set what runs commands or where
    /// keys are sent.
    pub(crate) project: bool,
    pub(crate) about: &'static str,
}

const fn key(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Key {
    Key { name, kind, default, variable: None, project: true, about }
}

impl Key {
    const fn variable(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    const fn users(mut self) -> Self {
        self.project = false;
        self
    }

    pub(crate) fn default_value(&self) -> Value {
        match self.kind {
            Kind::Flag => Value::Flag(self.default == "true"),
            Kind::Text | Kind::OneOf(_) => Value::Text(self.default.to_owned()),
        }
    }
}

const EFFORTS: &[&str] = &["low", "medium", "high"];
const EDIT_TOOLS: &[&str] = &["edit_file", "apply_patch", "both"];
const MODES: &[&str] = &["ask", "auto", "plan"];
const IMAGES: &[&str] = &["auto", "kitty", "iterm2", "sixel", "off"];

/// All settings, in display order.
pub(crate) const KEYS: &[Key] = &[
    key("model", Kind::Text, "", "the model, such as anthropic:claude-sonnet-4-5").variable("DEEPAGENTS_MODEL"),
    key("base_url", Kind::Text, "", "the address of the model's server").variable("DEEPAGENTS_BASE_URL").users(),
    key("effort", Kind::OneOf(EFFORTS), "", "how much the model thinks").variable("DEEPAGENTS_EFFORT"),
    key("text_tool_calls", Kind::Flag, "false", "run tool calls that the model writes into its text"),
    key("tool_search", Kind::Flag, "false", "let the model search for MCP tools instead of listing them all"),
    key("edit_tool", Kind::OneOf(EDIT_TOOLS), "", "the tool with which the model edits files"),
    key("approve", Kind::OneOf(MODES), "ask", "the mode that the screens start in; `run` takes --approve").users(),
    key(
        "theme",
        Kind::Text,
        "dark",
        "colours: dark, light, contrast, ansi, terminal, plain, or a file in ~/.deepagents/themes",
    )
    .variable("DEEPAGENTS_THEME"),
    key("unicode", Kind::Flag, "true", "whether the terminal shows more than ASCII"),
    key("screen_reader", Kind::Flag, "false", "words instead of symbols, and no animation"),
    key("images", Kind::OneOf(IMAGES), "auto", "how images are drawn: as the terminal takes them, or not at all")
        .users(),
    key("vi", Kind::Flag, "false", "edit messages with vi keys"),
    key("title", Kind::Flag, "true", "show what is going on in the window's title"),
    key("progress", Kind::Flag, "false", "show progress in the taskbar (OSC 9;4)"),
    key("editor", Kind::Text, "", "the command of your editor").variable("VISUAL").users(),
    key("status_line", Kind::Text, "", "a command whose first line is shown below the input").users(),
    key("notify.bell", Kind::Flag, "true", "ring the bell when the agent waits or is done"),
    key("notify.terminal", Kind::Flag, "true", "notify through the terminal when it does (OSC 9)"),
    key("notify.command", Kind::Text, "", "a command to run when it does, with JSON on its stdin").users(),
    key("keys.newline", Kind::Text, "ctrl-j", "start a new line").users(),
    key("keys.stop", Kind::Text, "esc", "stop what is in progress").users(),
    key("keys.mode", Kind::Text, "shift-tab", "the next mode").users(),
    key("keys.details", Kind::Text, "ctrl-o", "show everything in full, and back").users(),
    key("keys.search", Kind::Text, "ctrl-r", "search earlier messages").users(),
    key("keys.editor", Kind::Text, "ctrl-g", "write the message in your editor").users(),
    key("keys.background", Kind::Text, "ctrl-b", "send the run to the background").users(),
    key("keys.redraw", Kind::Text, "ctrl-l", "redraw the screen").users(),
    key("keys.suspend", Kind::Text, "ctrl-z", "suspend").users(),
    key("keys.quit", Kind::Text, "ctrl-d", "quit if the input is empty").users(),
];

/// Returns the setting with this name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Returns the schema of a settings file, in JSON Schema 2020-12.
pub(crate) fn schema() -> Json {
    let mut top = Map::new();
    for key in KEYS {
        let mut described = match key.kind {
            Kind::Text => json!({"type": "string"}),
            Kind::Flag => json!({"type": "boolean"}),
            Kind::OneOf(words) => json!({"enum": words}),
        };
        if let Some(fields) = described.as_object_mut() {
            let where_ = if key.project { "" } else { "; not in a directory's own file" };
            fields.insert("description".to_owned(), json!(format!("{}{where_}", key.about)));
            if !key.default.is_empty() {
                fields.insert("default".to_owned(), json!(key.default_value()));
            }
        }
        match key.name.split_once('.') {
            None => drop(top.insert(key.name.to_owned(), described)),
            Some((table, name)) => {
                let table = top
                    .entry(table)
                    .or_insert_with(|| json!({"type": "object", "additionalProperties": false, "properties": {}}));
                if let Some(properties) = table.get_mut("properties").and_then(Json::as_object_mut) {
                    properties.insert(name.to_owned(), described);
                }
            }
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of deepagents: ~/.deepagents/config.toml and .deepagents/config.toml of a directory",
        "type": "object",
        "additionalProperties": false,
        "properties": top,
    })
}
