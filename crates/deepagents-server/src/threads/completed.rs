//! What an update from a client needs to know of the state that it changes.

use std::borrow::Cow;

use deepagents_core::agent::ThreadAccess;
use deepagents_core::journal::LogPosition;
use deepagents_core::state::{MessagesChannel, State, Update};
use serde_json::{Map, Value, json};

use crate::error::{ApiError, Result};
use crate::wire::{overwritten, read_update};

/// The channel of the files in a state.
const FILES: &str = "files";

/// Completes an update of a thread, at a position or where it stands. Files get the times that they lack. If the update
/// replaces all files, those that it does not name are removed.
///
/// # Errors
/// Returns an error if the update replaces a channel that can only be added to.
pub(crate) async fn completed<'a>(
    threads: &ThreadAccess,
    thread: &str,
    at: Option<LogPosition>,
    values: &'a Map<String, Value>,
) -> Result<Cow<'a, Map<String, Value>>> {
    let given = values.get(FILES);
    let replaces = given.and_then(overwritten);
    let files = replaces.or(given).and_then(Value::as_object);
    let files = files.filter(|files| replaces.is_some() || files.values().any(lacks_times));
    if files.is_none() && !values.values().any(|value| overwritten(value).is_some()) {
        return Ok(Cow::Borrowed(values));
    }
    let state = match at {
        Some(position) => threads.state_at(thread, position).await?,
        None => threads.state(thread).await?,
    };
    check_replaced(&state, values)?;
    let Some(files) = files else { return Ok(Cow::Borrowed(values)) };
    let had = state.to_json_where(|channel| channel.name() == FILES)?;
    let had = had.get(FILES).and_then(Value::as_object);
    let (mut files, now) = (files.clone(), crate::ids::now());
    for (path, file) in &mut files {
        if let Value::String(text) = file {
            *file = json!({"content": text, "encoding": "utf-8"});
        }
        if let Value::Object(file) = file {
            let created = had.and_then(|had| had.get(path)?.get("created_at")?.as_str()).unwrap_or(&now);
            for (key, time) in [("created_at", created), ("modified_at", &*now)] {
                file.entry(key).or_insert_with(|| time.into());
            }
        }
    }
    for path in had.filter(|_| replaces.is_some()).into_iter().flat_map(Map::keys) {
        files.entry(path.as_str()).or_insert(Value::Null);
    }
    let mut values = values.clone();
    values.insert(FILES.to_owned(), Value::Object(files));
    Ok(Cow::Owned(values))
}

/// Whether a file is given without its times.
fn lacks_times(file: &Value) -> bool {
    match file {
        Value::String(_) => true,
        Value::Object(file) => !file.contains_key("created_at") || !file.contains_key("modified_at"),
        _ => false,
    }
}

/// Refuses to replace the value of a channel whose updates change it: the update would be added to it.
fn check_replaced(state: &State, values: &Map<String, Value>) -> Result<()> {
    let schema = state.schema();
    for (name, value) in values {
        let (Some(value), Some(channel)) = (overwritten(value), schema.by_name(name)) else { continue };
        // These can be replaced.
        if channel.is_private() || channel.is::<MessagesChannel>() || name == FILES {
            continue;
        }
        let update = match value {
            Value::Null => Update::none(),
            value => read_update(schema, &Map::from_iter([(name.clone(), value.clone())]))?,
        };
        let (mut changed, mut replaced) = (state.clone(), State::new(schema.clone()));
        changed.apply(&update)?;
        replaced.apply(&update)?;
        let of = |state: &State| state.to_json_where(|channel| channel.name() == name);
        if of(&changed)? != of(&replaced)? {
            return Err(ApiError::invalid(format!(
                "channel `{name}` cannot be replaced: its updates change the value that it has; send the change \
                 itself, without `__overwrite__`"
            )));
        }
    }
    Ok(())
}
