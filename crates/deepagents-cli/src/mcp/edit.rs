//! `deepagents mcp add` and `remove`.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use serde_json::{Map, Value, json};

use super::discover::{self, FILE};
use crate::args::{McpAddArgs, Scope};
use crate::exit::Exit;
use crate::output;

/// Describes a server in a file.
pub(super) fn add(args: &McpAddArgs, root: &Path) -> Result<Exit> {
    let file = file(args.options.scope.unwrap_or_default(), root)?;
    let mut config = Config::open(&file)?;
    if config.servers()?.contains_key(&args.name) {
        bail!("{} describes a server `{}` already; remove it first", file.display(), args.name);
    }
    config.servers()?.insert(args.name.clone(), entry(args)?);
    config.write()?;
    output::print(&format!("added {} to {}", args.name, file.display()))?;
    Ok(Exit::Done)
}

fn entry(args: &McpAddArgs) -> Result<Value> {
    let Some((first, rest)) = args.target.split_first() else { bail!("say the address, or the program behind `--`") };
    let all = |pairs: &[(String, String)]| -> Map<String, Value> {
        pairs.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
    };
    let mut entry = Map::new();
    let options = &args.options;
    if args.is_address() {
        if !rest.is_empty() || !options.env.is_empty() {
            bail!("an address has neither arguments nor an environment");
        }
        entry.extend([("type".to_owned(), json!("http")), ("url".to_owned(), json!(first))]);
        if !options.headers.is_empty() {
            entry.insert("headers".to_owned(), all(&options.headers).into());
        }
    } else {
        if !options.headers.is_empty() {
            bail!("a program has no headers; an address begins with http:// or https://");
        }
        entry.extend([("command".to_owned(), json!(first)), ("args".to_owned(), json!(rest))]);
        if !options.env.is_empty() {
            entry.insert("env".to_owned(), all(&options.env).into());
        }
    }
    entry.extend(options.sampling.iter().map(|how| ("sampling".to_owned(), json!(how))));
    Ok(entry.into())
}

/// Takes a server out of a file.
pub(super) fn remove(name: &str, scope: Scope, root: &Path) -> Result<Exit> {
    let file = file(scope, root)?;
    let mut config = Config::open(&file)?;
    if config.servers()?.shift_remove(name).is_none() {
        bail!("{} describes no server `{name}`", file.display());
    }
    config.write()?;
    output::print(&format!("removed {name} from {}", file.display()))?;
    Ok(Exit::Done)
}

fn file(scope: Scope, root: &Path) -> Result<PathBuf> {
    match scope {
        Scope::Project => Ok(root.join(FILE)),
        Scope::User => discover::of_user().ok_or_else(|| anyhow!("there is no home directory; set HOME")),
    }
}

/// A file of servers that is changed. What else it holds stays.
struct Config {
    file: PathBuf,
    value: Value,
}

impl Config {
    fn open(file: &Path) -> Result<Self> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => bail!("{} cannot be read: {error}", file.display()),
        };
        let text = if text.trim().is_empty() { "{}" } else { &text };
        let value = serde_json::from_str(text).map_err(|error| anyhow!("{} is no JSON: {error}", file.display()))?;
        Ok(Self { file: file.to_owned(), value })
    }

    fn servers(&mut self) -> Result<&mut Map<String, Value>> {
        let wrong = || anyhow!("{} is not of the form {{\"mcpServers\": {{NAME: {{...}}}}}}", self.file.display());
        let servers = self.value.as_object_mut().map(|file| file.entry("mcpServers").or_insert_with(|| json!({})));
        servers.and_then(Value::as_object_mut).ok_or_else(wrong)
    }

    /// Writes a new file and puts it in the place of the old one.
    fn write(&self) -> Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let failed = |error: &dyn std::fmt::Display| anyhow!("{} cannot be written: {error}", self.file.display());
        fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        // A link is followed, as those make who keep their settings elsewhere.
        let target = self.file.canonicalize().unwrap_or_else(|_| self.file.clone());
        let folder = target.parent().unwrap_or(folder);
        let mut new = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
        writeln!(new, "{}", serde_json::to_string_pretty(&self.value)?).map_err(|error| failed(&error))?;
        new.persist(&target).map_err(|error| failed(&error))?;
        Ok(())
    }
}
