//! Putting the agent of the command line together.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use deepagents::core::model::ChatModel;
use deepagents::fs::LocalBackend;
use deepagents::fs::shell::{Confinement, LocalShell, WithShell};
use deepagents::{DeepAgent, DeepAgentBuilder, ModelSettings};

use crate::args::AgentArgs;

/// The agent that the options describe, to be built.
pub(crate) fn builder(args: &AgentArgs, model: Arc<dyn ChatModel>) -> Result<DeepAgentBuilder> {
    let mut settings = ModelSettings::default();
    settings.max_tokens = args.max_tokens;
    let files = open(&args.root)?;
    let mut builder = DeepAgent::builder().model(model).settings(settings);
    builder = if args.execute { builder.backend(with_commands(files)?) } else { builder.backend(files) };
    if let Some(text) = &args.system {
        builder = builder.system_prompt(system(text)?);
    }
    if args.no_todos {
        builder = builder.without("TodoList");
    }
    Ok(builder)
}

/// The directory, and commands in it, in a sandbox.
pub(crate) fn with_commands(files: LocalBackend) -> Result<WithShell<LocalBackend>> {
    let shell = LocalShell::open(files.host_path(), Confinement::sandboxed());
    Ok(WithShell::new(files, shell.map_err(|error| anyhow!("commands cannot be run there: {error}"))?))
}

/// The directory as a workspace.
pub(crate) fn open(root: &Path) -> Result<LocalBackend> {
    LocalBackend::open(root).map_err(|error| {
        let root = root.display();
        match error.source.kind() {
            ErrorKind::NotFound => anyhow!("the directory `{root}` does not exist; create it or give --root another"),
            ErrorKind::NotADirectory => anyhow!("`{root}` is not a directory; give --root one"),
            _ => anyhow!("the directory `{root}` cannot be used: {}", error.source),
        }
    })
}

/// A system prompt as given: a text, or `@` and a file that holds it.
fn system(text: &str) -> Result<String> {
    let Some(file) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    match fs::read_to_string(file) {
        Ok(text) if text.trim().is_empty() => bail!("the file `{file}` given with --system is empty"),
        Ok(text) => Ok(text.trim_end().to_owned()),
        Err(error) => bail!("the file `{file}` given with --system cannot be read: {error}"),
    }
}
