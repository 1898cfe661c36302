//! The task and the answer's structure as given on the command line.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use deepagents::core::structured::ResponseFormat;
use deepagents::core::tool::SchemaCheck;
use serde_json::Value;

use super::stdin::Task;
use crate::args::{Approve, InputFormat, RunArgs};
use crate::exit::WrongUsage;
use crate::small_file::without_mark;

/// Returns the task given on the command line.
pub(super) fn task(args: &RunArgs) -> Result<Task> {
    if args.input_format == InputFormat::StreamJson {
        if args.no_save {
            bail!(WrongUsage::new("the turns of a conversation are saved in a thread: remove --no-save"));
        }
        // The first message starts or resumes the thread.
        return Ok(Task::Given(String::new()));
    }
    match args.task.as_deref() {
        None if args.resumes() => Ok(Task::Rest),
        None | Some("-") if args.approve == Some(Approve::Ask) => {
            bail!(WrongUsage::new("with --approve ask, stdin is for your answers: give the task on the command line"))
        }
        given => Task::from_arg(given),
    }
}

/// Reads the answer's structure from a file with a JSON Schema.
pub(super) fn answer_format(file: &Path) -> Result<ResponseFormat> {
    let wrong = |what: String| WrongUsage::new(format!("`{}` given with --json-schema {what}", file.display()));
    let text = fs::read_to_string(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let schema: Value =
        serde_json::from_str(without_mark(&text)).map_err(|error| wrong(format!("is not valid JSON: {error}")))?;
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        bail!(wrong("is not a schema of an object: it lacks \"type\": \"object\"".to_owned()));
    }
    SchemaCheck::new(Arc::new(schema.clone()))
        .compile()
        .map_err(|error| wrong(format!("is not a valid JSON Schema: {error}")))?;
    Ok(ResponseFormat::json("answer", schema))
}
