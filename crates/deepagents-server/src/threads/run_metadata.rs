//! Metadata of a thread's runs, as shown in their checkpoints.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::app::App;
use crate::error::Result;
use crate::runs;

/// Looks up the run of each checkpoint, each run once.
pub(super) struct RunMetadata<'a> {
    app: &'a App,
    thread: &'a str,
    known: HashMap<String, Map<String, Value>>,
}

impl<'a> RunMetadata<'a> {
    pub(super) fn new(app: &'a App, thread: &'a str) -> Self {
        Self { app, thread, known: HashMap::new() }
    }

    /// Returns the metadata of a run with its plain configurable values, or nothing if the run is gone.
    pub(super) async fn of(&mut self, run: Option<&str>) -> Result<Map<String, Value>> {
        let Some(run) = run else { return Ok(Map::new()) };
        if let Some(known) = self.known.get(run) {
            return Ok(known.clone());
        }
        let found = match runs::find(self.app, self.thread, run).await {
            Ok(record) => {
                let configured = record.kwargs.config.as_ref().and_then(|config| config.get("configurable"));
                let configured = configured.and_then(Value::as_object).cloned().unwrap_or_default();
                let plain = |(_, value): &(String, Value)| value.is_string() || value.is_number() || value.is_boolean();
                configured.into_iter().filter(plain).chain(record.metadata).collect()
            }
            // A state update has an id that names no run.
            Err(error) if error.is_not_found() || error.is_invalid() => Map::new(),
            Err(error) => return Err(error),
        };
        self.known.insert(run.to_owned(), found.clone());
        Ok(found)
    }
}
