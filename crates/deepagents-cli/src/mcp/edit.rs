//! `deepagents mcp add` and `remove`.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use deepagents::fs::locked_file::{self, FileLock};
use deepagents::mcp::Entry;
use serde_json::{Map, Value, json};

use super::discover::{FILE, HERE};
use crate::args::{McpAddArgs, Scope};
use crate::exit::{self, Exit, WrongUsage};
use crate::own_files::of_user;
use crate::small_file::{self, without_mark};

/// Adds a server to a file.
pub(super) fn add(args: &McpAddArgs) -> Result<Exit> {
    if args.name.trim().is_empty() {
        bail!(WrongUsage::new("a server needs a name"));
    }
    let file = file(args.options.scope.unwrap_or_default())?;
    let mut config = Config::open(&file)?;
    if config.servers()?.contains_key(&args.name) {
        bail!(WrongUsage::new(format!("{} already has a server `{}`; remove it first", file.display(), args.name)));
    }
    config.servers()?.insert(args.name.clone(), entry(args)?);
    config.write()?;
    exit::shown(&format!("added {} to {}", args.name, file.display()))
}

fn entry(args: &McpAddArgs) -> Result<Value> {
    let Some((first, rest)) = args.target.split_first() else { bail!("give an address, or a program after `--`") };
    let all = |pairs: &[(String, String)]| -> Map<String, Value> {
        pairs.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
    };
    let mut entry = Map::new();
    let options = &args.options;
    if args.is_address() {
        if !rest.is_empty() || !options.env.is_empty() {
            bail!(WrongUsage::new("a server with an address takes no arguments and no environment"));
        }
        // An address with variables can only be checked once they are expanded.
        let described: Entry = serde_json::from_value(json!({"url": first}))?;
        if let (false, Err(wrong)) = (first.contains("${"), described.config(&|_| None)) {
            bail!(WrongUsage::new(wrong.to_string()));
        }
        entry.extend([("type".to_owned(), json!("http")), ("url".to_owned(), json!(first))]);
        if !options.headers.is_empty() {
            entry.insert("headers".to_owned(), all(&options.headers).into());
        }
    } else {
        if first.contains("://") || rest.is_empty() && is_host(first) {
            bail!(WrongUsage::new(format!(
                "`{first}` is not the address of a server; it must begin with http:// or https://"
            )));
        }
        if !options.headers.is_empty() {
            bail!(WrongUsage::new("a program takes no headers; an address must begin with http:// or https://"));
        }
        entry.extend([("command".to_owned(), json!(first)), ("args".to_owned(), json!(rest))]);
        if !options.env.is_empty() {
            entry.insert("env".to_owned(), all(&options.env).into());
        }
    }
    entry.extend(options.sampling.iter().map(|how| ("sampling".to_owned(), json!(how))));
    Ok(entry.into())
}

/// Whether a word is a host with a port: an address without its scheme.
fn is_host(word: &str) -> bool {
    let port = word.split_once(':').map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    port.is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Removes a server from a file.
pub(super) fn remove(name: &str, scope: Scope) -> Result<Exit> {
    let file = file(scope)?;
    let mut config = Config::open(&file)?;
    if config.servers()?.shift_remove(name).is_none() {
        bail!(WrongUsage::new(format!("{} has no server `{name}`", file.display())));
    }
    config.write()?;
    exit::shown(&format!("removed {name} from {}", file.display()))
}

fn file(scope: Scope) -> Result<PathBuf> {
    match scope {
        Scope::Project => {
            let root = Path::new(HERE);
            let file = root.join(FILE);
            // The project's author may have placed a link there that would make this change one of the user's files.
            let leads_out = |real: PathBuf| !root.canonicalize().is_ok_and(|root| real.starts_with(root));
            if file.canonicalize().is_ok_and(leads_out) {
                bail!("{} is a link out of the project, and its target is not changed", file.display());
            }
            Ok(file)
        }
        Scope::User => of_user(FILE).ok_or_else(|| anyhow!("there is no home directory; set HOME")),
    }
}

/// A servers file being changed; its other contents are kept.
struct Config {
    file: PathBuf,
    value: Value,
    /// Excludes other writers. The lock file is in the user's directory, so that nothing is left in a project.
    _lock: Option<FileLock>,
}

impl Config {
    fn open(file: &Path) -> Result<Self> {
        // If the lock cannot be taken, the user's file cannot be written either.
        let lock = of_user(FILE).and_then(|users| FileLock::take(&users).ok());
        let text = small_file::read(file).map_err(|error| anyhow!("{} cannot be read: {error}", file.display()))?;
        let text = without_mark(text.as_deref().unwrap_or_default()).trim();
        let text = if text.is_empty() { "{}" } else { text };
        let value =
            serde_json::from_str(text).map_err(|error| anyhow!("{} is not valid JSON: {error}", file.display()))?;
        Ok(Self { file: file.to_owned(), value, _lock: lock })
    }

    fn servers(&mut self) -> Result<&mut Map<String, Value>> {
        let wrong = || anyhow!("{} is not of the form {{\"mcpServers\": {{NAME: {{...}}}}}}", self.file.display());
        let servers = self.value.as_object_mut().map(|file| file.entry("mcpServers").or_insert_with(|| json!({})));
        servers.and_then(Value::as_object_mut).ok_or_else(wrong)
    }

    fn write(&self) -> Result<()> {
        let text = format!("{}\n", serde_json::to_string_pretty(&self.value)?);
        let failed = |error| anyhow!("{} cannot be written: {error}", self.file.display());
        locked_file::replace(&self.file, text.as_bytes()).map_err(failed)
    }
}
