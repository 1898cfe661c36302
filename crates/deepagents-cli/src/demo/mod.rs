//! `deepagents demo`: a real agent with a scripted model.

mod files;
mod pace;
mod script;
mod web;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Result, anyhow, bail};
use deepagents::DeepAgent;
use deepagents::models::scripted::ScriptedModel;

use crate::args::DemoArgs;
use crate::exit::{Exit, WrongUsage};
use crate::render::Live;
use crate::run::play;
use crate::{agent, output};

/// The pause before each answer.
const ANSWER_DELAY: Duration = Duration::from_millis(350);
/// The pause after each piece of text.
const CHUNK_DELAY: Duration = Duration::from_millis(18);

/// Sets up a small project and shows an agent working on it.
pub(crate) fn demo(args: &DemoArgs) -> Result<Exit> {
    let (thinking, typing) = if args.fast { (Duration::ZERO, Duration::ZERO) } else { (ANSWER_DELAY, CHUNK_DELAY) };
    if args.web {
        let listen = args.listen.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, 0).into());
        return web::serve(listen, thinking, typing);
    }
    let directory = directory(args.dir.as_deref())?;
    files::write(&directory).map_err(|error| cannot_use(&directory, &error))?;
    let model = ScriptedModel::new(script::turns(thinking)).with_name("scripted:demo");
    let model = pace::Paced { model, pause: typing };
    let agent = DeepAgent::builder().model(model).backend(agent::open_at(&directory)?).build()?;
    let shown = directory.display();
    output::print(&format!(
        "A demo without a key: the model's answers are a fixed script. Everything else is real: the agent and\n\
         its tools work on files in {shown}\n\n> {}\n",
        script::TASK
    ))?;
    let exit = play(&agent, script::TASK.to_owned(), &mut Live::new(None))?;
    if exit == Exit::Done {
        output::print(&format!(
            "\nThe result is there to look at:   cat {shown}/report.md\n\
             To go on with a real model:       deepagents run --root {shown} \"Who spent most on groceries?\""
        ))?;
    }
    Ok(exit)
}

/// Returns a new or empty directory: the demo never mixes its files with others.
fn directory(given: Option<&Path>) -> Result<PathBuf> {
    let Some(path) = given else {
        let made = tempfile::Builder::new().prefix("deepagents-demo-").tempdir();
        let made =
            made.map_err(|error| anyhow!("no directory could be created for the demo: {error}; give one with --dir"))?;
        return Ok(made.keep());
    };
    fs::create_dir_all(path).map_err(|error| cannot_use(path, &error))?;
    if fs::read_dir(path).map_err(|error| cannot_use(path, &error))?.next().is_some() {
        let words = format!("the directory `{}` is not empty; give --dir a new or an empty one", path.display());
        bail!(WrongUsage::new(words));
    }
    Ok(path.to_owned())
}

fn cannot_use(path: &Path, error: &io::Error) -> anyhow::Error {
    anyhow!("the directory `{}` cannot be used for the demo: {error}", path.display())
}
