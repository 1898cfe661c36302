//! `deepagents config`.

use std::process::Command;

use anyhow::{Result, anyhow, bail};
use deepagents::fs::locked_file;
use serde_json::{Map, json};

use super::apply::themes;
use super::file::{self, template, text, value};
use super::keys::{find, schema};
use super::{Config, FILE, Flags};
use crate::agent;
use crate::args::{ConfigArgs, ConfigCommand};
use crate::exit::{self, Exit, WrongUsage};
use crate::model_choice::env;
use crate::output;
use crate::own_files::of_user;
use crate::render::json_text;

/// Shows and changes settings.
pub(crate) fn config(args: &ConfigArgs) -> Result<Exit> {
    let own = || {
        of_user(FILE).ok_or_else(|| anyhow!("settings are stored in ~/.deepagents/config.toml, but HOME is not set"))
    };
    let text = match &args.command {
        ConfigCommand::List { json } | ConfigCommand::Get { name: None, json } => {
            let config = load(args)?;
            output::remarks(&config.problems);
            if *json { as_json(&config)? } else { config.listed() }
        }
        ConfigCommand::Get { name: Some(name), json } => {
            let config = load(args)?;
            let Some((key, value, source)) = config.entry(name) else {
                return Err(unknown(name));
            };
            match json {
                true => json_text(&json!({"name": key.name, "value": value, "source": source.to_string()}))?,
                false => {
                    // On stderr, so that `$(deepagents config get model)` yields the value alone.
                    output::remark(&format!("({source})"));
                    value.to_string()
                }
            }
        }
        ConfigCommand::Set { name, value: given } => {
            let key = find(name).ok_or_else(|| unknown(name))?;
            let value = value(key, given).map_err(|error| WrongUsage::new(error.to_string()))?;
            check(name, given)?;
            let file = own()?;
            file::set(&file, key, Some(&value))?;
            value_in_force(args, name, &format!("{name} = {value} in {}", file.display()))?
        }
        ConfigCommand::Unset { name } => {
            let key = find(name).ok_or_else(|| unknown(name))?;
            let file = own()?;
            let done = match file::set(&file, key, None)? {
                true => format!("removed {name} from {}", file.display()),
                false => format!("there is no {name} in {}", file.display()),
            };
            value_in_force(args, name, &done)?
        }
        ConfigCommand::Path => own()?.display().to_string(),
        ConfigCommand::Schema => json_text(&schema())?,
        ConfigCommand::Edit => {
            // The file to edit may be the one that cannot be used.
            let editor = load(args).ok().and_then(|config| config.text("editor").map(str::to_owned));
            edit(&own()?, editor)?
        }
    };
    exit::shown(&text)
}

fn unknown(name: &str) -> anyhow::Error {
    WrongUsage::new(file::ConfigError::Unknown(name.to_owned()).to_string()).into()
}

/// Rejects values that a file may contain but that would be useless.
fn check(name: &str, given: &str) -> Result<()> {
    match name {
        "theme" => check_theme(given),
        "model" | "base_url" if given.trim().is_empty() => {
            bail!(WrongUsage::new(format!("{name} cannot be empty; `deepagents config unset {name}` removes it")))
        }
        "base_url" if !is_address(given) => {
            let words =
                format!("base_url cannot be `{given}`: it must be an address that begins with http:// or https://");
            bail!(WrongUsage::new(words))
        }
        _ => Ok(()),
    }
}

fn is_address(given: &str) -> bool {
    let rest = given.strip_prefix("http://").or_else(|| given.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    !host.is_empty() && !given.contains(char::is_whitespace)
}

/// Returns an error if there is no such theme. The screens accept any name from a file and report it if it is wrong.
fn check_theme(given: &str) -> Result<()> {
    let own = themes().0;
    let mut names: Vec<&str> = deepagents_tui::theme_names().into();
    names.extend(own.iter().map(|theme| theme.name.as_str()));
    if names.contains(&given) {
        return Ok(());
    }
    bail!(WrongUsage::new(format!("there is no theme `{given}`; the themes are {}", names.join(", "))))
}

fn load(args: &ConfigArgs) -> Result<Config> {
    let root = args.root.as_deref().unwrap_or(std::path::Path::new("."));
    agent::check_root(root)?;
    Ok(Config::load(root, false, &Flags::default())?)
}

/// Returns what was done, and the value in force if it comes from elsewhere.
fn value_in_force(args: &ConfigArgs, name: &str, done: &str) -> Result<String> {
    let config = load(args)?;
    output::remarks(config.shared_keys());
    Ok(match config.entry(name) {
        Some((_, value, source)) if !matches!(source, super::Source::User(_) | super::Source::Default) => {
            format!("{done}; but {value} is in effect ({source})")
        }
        _ => done.to_owned(),
    })
}

fn as_json(config: &Config) -> Result<String> {
    let entry = |(key, value, source): &(&'static super::Key, file::Value, super::Source)| {
        (key.name.to_owned(), json!({"value": value, "source": source.to_string(), "about": key.about}))
    };
    Ok(json_text(&config.values.iter().map(entry).collect::<Map<_, _>>())?)
}

/// Opens the file in the user's editor, and reports problems with it afterwards.
fn edit(file: &std::path::Path, editor: Option<String>) -> Result<String> {
    if text(file)?.is_none() {
        locked_file::replace(file, template().as_bytes())?;
    }
    let editor = editor.or_else(|| env("VISUAL")).or_else(|| env("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("editor").arg(file).status()?;
    if !status.success() {
        bail!("the editor `{editor}` ended with {status}");
    }
    output::remarks(file::read(file)?.unwrap_or_default().problems);
    Ok(format!("{} is valid", file.display()))
}
