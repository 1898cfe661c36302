//! Tasks and messages that begin with a slash: commands from files, and skills by name.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use deepagents::channels::{PinnedSkills, Skill, SkillPin, SkillsMetadata};
use deepagents::fs::Backend;
use deepagents::slash::Slash;
use deepagents::trust::FoundItem;
use deepagents::{DeepAgent, RunInput, Update};
use deepagents_tui::CommandFile;

use crate::args::AgentArgs;
use crate::exit::WrongUsage;
use crate::file_commands;
use crate::trust::{Consents, Undecided, admit, is_users_own};

/// The middleware that finds skills.
const SKILLS: &str = "Skills";

/// The meaning of a text that was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    /// The message.
    pub(crate) text: String,
    /// The skill to use for it.
    pub(crate) skill: Option<String>,
}

impl Typed {
    /// A literal message.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), skill: None }
    }
}

/// The commands that files define, of the user and of a directory.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    root: PathBuf,
    /// Those that may be used.
    pub(crate) usable: Vec<CommandFile>,
    /// Those of the directory that the user has not agreed to.
    open: Vec<FoundItem>,
    /// What to do if one of the latter is used.
    undecided: Undecided,
}

impl Commands {
    /// Returns the given commands only.
    pub(crate) fn of(usable: Vec<CommandFile>) -> Self {
        Self { usable, ..Self::default() }
    }

    /// Finds the commands. Problems with command files are reported by `trust show` and by the screens.
    pub(crate) async fn find(args: &AgentArgs, files: &dyn Backend, undecided: Undecided) -> Result<Self> {
        let (found, _) = file_commands::brought(files).await?;
        let root = args.directory().to_owned();
        let sorted = tokio::task::spawn_blocking(move || {
            let known = Consents::of_root(&root)?;
            let is_trusted = |found: &FoundItem| {
                undecided == Undecided::Accept || is_users_own(&root, found) || known.has(&found.item)
            };
            let (trusted, open): (Vec<FoundItem>, Vec<FoundItem>) = found.into_iter().partition(is_trusted);
            Ok::<_, anyhow::Error>(Self { usable: file_commands::usable(&trusted), open, root, undecided })
        });
        sorted.await?
    }

    /// Interprets a text. A text that names no command, such as a path, is a literal message.
    pub(crate) fn read(&self, text: &str) -> Result<Typed> {
        let Some(typed) = Slash::parse(text.trim()) else { return Ok(Typed::plain(text)) };
        if let Some(skill) = typed.skill() {
            return Ok(Typed { text: typed.skill_message(), skill: Some(skill.to_owned()) });
        }
        let is_it = |found: &&FoundItem| found.item.name == typed.name;
        let usable = self.usable.iter().find(|command| command.name == typed.name);
        let command = match (usable, self.open.iter().find(is_it)) {
            (Some(command), _) => command.clone(),
            (None, Some(found)) => self.agreed(found)?,
            (None, None) => return Ok(Typed::plain(text)),
        };
        let message = command.message(typed.args);
        if message.trim().is_empty() {
            bail!(WrongUsage::new(format!("/{} has no text in its file", command.name)));
        }
        Ok(Typed::plain(message))
    }

    /// Returns a command that was not agreed to, if the user agrees to it now.
    fn agreed(&self, found: &FoundItem) -> Result<CommandFile> {
        let is_asked = self.undecided == Undecided::Ask;
        let admitted = if is_asked { admit(&self.root, vec![found.clone()], Undecided::Ask)? } else { Vec::new() };
        admitted.iter().find_map(file_commands::of_item).ok_or_else(|| {
            anyhow!(
                "/{} comes from this directory, and you have not agreed to it: inspect it with `deepagents trust show`, \
                 use it with --trust",
                found.item.name
            )
        })
    }
}

/// Returns an agent's skills.
pub(crate) async fn skills(agent: &DeepAgent) -> Result<Vec<Skill>> {
    let state = agent.load_state(&[SKILLS]).await?;
    let catalogue = state.get::<SkillsMetadata>().cloned().flatten();
    Ok(catalogue.map(|catalogue| catalogue.skills).unwrap_or_default())
}

/// Returns the names of an agent's skills.
pub(crate) async fn skill_names(agent: &DeepAgent) -> Result<Vec<String>> {
    Ok(skills(agent).await?.into_iter().map(|skill| skill.name).collect())
}

/// Returns an error if the skill does not exist.
pub(crate) fn check_skill(skill: Option<&String>, known: &[String]) -> Result<()> {
    let Some(skill) = skill.filter(|skill| !known.contains(skill)) else { return Ok(()) };
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    bail!(WrongUsage::new(format!("there is no skill `{skill}`; the skills are: {known}")))
}

/// Pins a skill in an input, so that the model is shown it.
pub(crate) fn pin(input: RunInput, skill: Option<&String>) -> RunInput {
    match skill {
        Some(skill) => input.update(Update::new::<PinnedSkills>(SkillPin::Pin(vec![skill.clone()]))),
        None => input,
    }
}
