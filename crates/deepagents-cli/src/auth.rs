//! Keys of providers: those in the environment, and those that the user has stored.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use deepagents::fs::locked_file::{self, FileLock};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::{AuthArgs, AuthCommand};
use crate::exit::{self, Exit, WrongUsage};
use crate::model_choice::{key_variable, ordered_providers};
use crate::output;
use crate::own_files::of_user;
use crate::render::json_text;
use crate::small_file;

/// Name of the file.
const FILE: &str = "auth.json";
/// Maximum length of a key in bytes.
const MAX_KEY_BYTES: usize = 16 << 10;

/// The file: version 1, keys by the name of the variable that each stands for.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    v: u32,
    keys: BTreeMap<String, String>,
}

/// The keys last read, with the path of their file.
static LAST_READ: Mutex<Option<(PathBuf, BTreeMap<String, String>)>> = Mutex::new(None);

/// Returns the stored key for a variable. A file that cannot be read counts as empty: `deepagents auth list` reports
/// what is wrong.
pub(crate) fn stored_key(variable: &str) -> Option<String> {
    let file = of_user(FILE)?;
    let mut known = LAST_READ.lock().unwrap_or_else(PoisonError::into_inner);
    if known.as_ref().is_none_or(|(of, _)| *of != file) {
        *known = Some((file.clone(), read(&file).unwrap_or_default().keys));
    }
    known.as_ref().and_then(|(_, keys)| keys.get(variable).cloned())
}

/// Returns why the stored keys cannot be used, if they cannot.
pub(crate) fn problem() -> Option<String> {
    read(&of_user(FILE)?).err().map(|error| format!("{error:#}"))
}

fn read(file: &Path) -> Result<Keys> {
    let text = small_file::read(file).with_context(|| format!("`{}` cannot be read", file.display()))?;
    let Some(text) = text else { return Ok(Keys::default()) };
    restrict_to_owner(file);
    let keys: Keys = serde_json::from_str(&text).map_err(|error| {
        anyhow!("`{}` cannot be parsed ({error}); remove it and add your keys again", file.display())
    })?;
    if keys.v != 1 {
        bail!("`{}` has version {}, but this program only supports version 1", file.display(), keys.v);
    }
    Ok(keys)
}

/// Mode bits that give others access.
const OTHERS_MODE: u32 = 0o077;

/// Restricts the file to its owner if others may read it, and reports that.
fn restrict_to_owner(file: &Path) {
    let Some(mode) =
        fs::metadata(file).ok().map(|about| about.permissions().mode()).filter(|mode| mode & OTHERS_MODE != 0)
    else {
        return;
    };
    let (name, was) = (file.display(), mode & 0o777);
    output::remark(&match fs::set_permissions(file, Permissions::from_mode(was & !OTHERS_MODE)) {
        Ok(()) => {
            format!("`{name}` had mode {was:04o}, which lets others read your keys; now only you can read it")
        }
        Err(error) => {
            format!("`{name}` has mode {was:04o}, which lets others read your keys, and it cannot be changed: {error}")
        }
    });
}

/// Changes the stored keys. Writes nothing if the change returns `false`.
fn change(change: impl FnOnce(&mut BTreeMap<String, String>) -> bool) -> Result<PathBuf> {
    let file =
        of_user(FILE).ok_or_else(|| anyhow!("keys are stored in ~/.deepagents/auth.json, but HOME is not set"))?;
    let failed = |error: io::Error| anyhow!("`{}` cannot be written: {error}", file.display());
    let _lock = FileLock::take(&file).map_err(failed)?;
    remove_leftovers(&file);
    let mut all = read(&file)?;
    all.v = 1;
    if !change(&mut all.keys) {
        return Ok(file);
    }
    let text = serde_json::to_string_pretty(&all)?;
    locked_file::replace_secret(&file, text.as_bytes()).map_err(failed)?;
    *LAST_READ.lock().unwrap_or_else(PoisonError::into_inner) = None;
    Ok(file)
}

/// Removes what killed processes have left of their writes, since that has keys too. Other processes write only while
/// they hold the lock.
fn remove_leftovers(file: &Path) {
    let is_leftover = |name: &str| name.starts_with(&format!("{FILE}.")) && name.ends_with(".new");
    for entry in file.parent().and_then(|place| fs::read_dir(place).ok()).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_leftover) {
            // What cannot be removed now is left for the next change.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the variable that holds a provider's key.
fn variable(provider: &str) -> Result<&'static str> {
    let known = ordered_providers();
    if !known.iter().any(|known| known.name == provider) {
        let names: Vec<&str> =
            known.iter().filter(|provider| provider.key_variable.is_some()).map(|provider| provider.name).collect();
        bail!(WrongUsage::new(format!("there is no provider `{provider}`: choose one of {}", names.join(", "))));
    }
    key_variable(provider).ok_or_else(|| anyhow!("{provider} needs no key"))
}

/// Stores the key of a provider.
///
/// # Errors
/// Returns an error if it is not a key, or the file cannot be written.
pub(crate) fn set(provider: &str, key: &str) -> Result<PathBuf> {
    let (variable, key) = (variable(provider)?, key.trim().to_owned());
    if key.is_empty() || key.len() > MAX_KEY_BYTES || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!("that is not a key: a key is made of ASCII characters, without spaces");
    }
    change(|keys| {
        keys.insert(variable.to_owned(), key);
        true
    })
}

/// `deepagents auth`.
pub(crate) fn auth(args: &AuthArgs) -> Result<Exit> {
    let text = match &args.command {
        AuthCommand::Set { provider } => {
            variable(provider)?;
            let Some(key) = ask(provider)? else { return Ok(Exit::Interrupted) };
            let file = set(provider, &key)?;
            format!("stored the key for {provider} in {}", file.display())
        }
        AuthCommand::Remove { provider } => {
            let variable = variable(provider)?;
            let mut gone = false;
            change(|keys| {
                gone = keys.remove(variable).is_some();
                gone
            })?;
            if !gone {
                let words = format!("no key for {provider} is stored; `deepagents auth list` shows the stored ones");
                bail!(WrongUsage::new(words));
            }
            format!("removed the key for {provider}")
        }
        AuthCommand::List { json } => list(*json)?,
    };
    exit::shown(&text)
}

fn list(as_json: bool) -> Result<String> {
    let kept = of_user(FILE).map(|file| read(&file)).transpose()?.unwrap_or_default().keys;
    let mut rows = Vec::new();
    for provider in ordered_providers() {
        let Some(variable) = provider.key_variable else { continue };
        let is_set = std::env::var(variable).is_ok_and(|value| !value.trim().is_empty());
        let place = match (is_set, kept.contains_key(variable)) {
            (true, true) => "environment, before the one that is kept",
            (true, false) => "environment",
            (false, true) => "kept",
            (false, false) => continue,
        };
        rows.push((provider.name, variable, place));
    }
    if as_json {
        let row = |(provider, variable, place): &(&str, &str, &str)| json!({"provider": provider, "variable": variable, "from": place});
        return Ok(json_text(&rows.iter().map(row).collect::<Vec<_>>())?);
    }
    if rows.is_empty() {
        return Ok("there are no keys; `deepagents auth set PROVIDER` stores one".to_owned());
    }
    let line = |(provider, variable, place): &(&str, &str, &str)| format!("{provider:<20} {variable:<25} {place}");
    Ok(rows.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Characters that cancel the input on a terminal: Ctrl-C and Ctrl-\\.
const CANCEL_KEYS: [u8; 2] = [0x03, 0x1c];

/// Reads the key from stdin, without echo on a terminal. Returns `None` if the user cancels.
fn ask(provider: &str) -> Result<Option<String>> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return piped(&mut stdin.lock()).map(Some);
    }
    let before = tcgetattr(&stdin)?;
    let mut hidden = before.clone();
    // A signal would end or suspend the program with echo off; instead, the keys that send them end the line.
    hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
    let [interrupt, quit] = CANCEL_KEYS;
    hidden.special_codes[SpecialCodeIndex::VEOL] = interrupt;
    hidden.special_codes[SpecialCodeIndex::VEOL2] = quit;
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    output::ask(None, "", &format!("key for {provider} (it is not shown): "));
    let read = typed(&mut stdin.lock());
    // Restore the echo, whatever the outcome.
    tcsetattr(&stdin, OptionalActions::Now, &before)?;
    output::say("");
    let typed = read?;
    if typed.last().is_some_and(|last| CANCEL_KEYS.contains(last)) {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&typed).into_owned()))
}

/// Reads a key from a pipe: one line. Does not wait for the end of input, as the writer may keep the pipe open.
fn piped(input: &mut impl Read) -> Result<String> {
    let most = u64::try_from(MAX_KEY_BYTES).unwrap_or(u64::MAX);
    let (mut input, mut line) = (BufReader::new(input.take(most.saturating_add(2))), Vec::new());
    while line.trim_ascii().is_empty() {
        line.clear();
        if input.read_until(b'\n', &mut line).context("the key cannot be read from stdin")? == 0 {
            break;
        }
    }
    let text = String::from_utf8(line).map_err(|_| WrongUsage::new("the key on stdin is not text in UTF-8"))?;
    if text.trim().is_empty() {
        bail!(WrongUsage::new("there is no key on stdin: pipe it, or call this at a terminal and type it"));
    }
    if !input.buffer().trim_ascii().is_empty() {
        bail!(WrongUsage::new("stdin has several lines, but a key is a single line"));
    }
    Ok(text.trim().to_owned())
}

/// Reads a line, up to the character that cancels it if there is one.
fn typed(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut typed = Vec::new();
    loop {
        let piece = input.fill_buf()?;
        let read = piece.len();
        typed.extend_from_slice(piece);
        input.consume(read);
        if read == 0
            || typed.len() > MAX_KEY_BYTES
            || typed.last().is_some_and(|last| *last == b'\n' || CANCEL_KEYS.contains(last))
        {
            return Ok(typed);
        }
    }
}
