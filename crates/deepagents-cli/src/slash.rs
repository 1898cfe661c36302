//! Tasks and messages that begin with a slash: commands of files, and skills by their names.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use deepagents::channels::{PinnedSkills, SkillPin, SkillsMetadata};
use deepagents::fs::Backend;
use deepagents::slash::Slash;
use deepagents::trust::{Consent, FoundItem};
use deepagents::{DeepAgent, RunInput, Update};
use deepagents_tui::CommandFile;

use crate::args::AgentArgs;
use crate::exit::WrongUsage;
use crate::file_commands;
use crate::trust::{Undecided, admit, is_users_own, store};

/// The middleware that finds skills.
const SKILLS: &str = "Skills";

/// What a text that was typed means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    /// The message.
    pub(crate) text: String,
    /// The skill that it is to be done with.
    pub(crate) skill: Option<String>,
}

impl Typed {
    /// A message that is meant as it stands.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), skill: None }
    }
}

/// The commands of files, of the user and of a directory.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    root: PathBuf,
    /// Those that may be used.
    pub(crate) usable: Vec<CommandFile>,
    /// Those of the directory that nobody has agreed to.
    open: Vec<FoundItem>,
    /// What happens to one of those that is used.
    undecided: Option<Undecided>,
}

impl Commands {
    /// Commands that may be used, and no others.
    pub(crate) fn of(usable: Vec<CommandFile>) -> Self {
        Self { usable, ..Self::default() }
    }

    /// Finds them. What is wrong with files of commands is said by `trust show` and by the screens.
    pub(crate) async fn find(args: &AgentArgs, files: &dyn Backend, undecided: Undecided) -> Result<Self> {
        let (found, _) = file_commands::brought(files).await?;
        let root = args.directory().to_owned();
        let sorted = tokio::task::spawn_blocking(move || {
            let known = match store() {
                Some(store) => store.of_root(&root).map_err(|error| anyhow!("{error}"))?,
                None => Vec::new(),
            };
            let is_trusted = |found: &FoundItem| {
                undecided == Undecided::Accept
                    || is_users_own(&root, found)
                    || known.iter().any(|record| record.item == found.item && record.consent == Consent::Trusted)
            };
            let (trusted, open): (Vec<FoundItem>, Vec<FoundItem>) = found.into_iter().partition(is_trusted);
            Ok::<_, anyhow::Error>(Self {
                usable: file_commands::usable(&trusted),
                open,
                root,
                undecided: Some(undecided),
            })
        });
        sorted.await?
    }

    /// What a text means. One that names no command, such as a path, is meant as it stands.
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
            bail!(WrongUsage(format!("/{} has no text in its file", command.name)));
        }
        Ok(Typed::plain(message))
    }

    /// A command that nobody has agreed to before, if somebody does now.
    fn agreed(&self, found: &FoundItem) -> Result<CommandFile> {
        let admitted = match self.undecided {
            Some(Undecided::Ask) => admit(&self.root, vec![found.clone()], Undecided::Ask)?,
            _ => Vec::new(),
        };
        let command = admitted.iter().find_map(file_commands::of_item);
        command.ok_or_else(|| {
            anyhow!(
                "/{} comes from this directory, and you have not agreed to it: look at it with `deepagents trust show`, \
                 use it with --trust",
                found.item.name
            )
        })
    }
}

/// The skills of an agent, by name.
pub(crate) async fn skills(agent: &DeepAgent) -> Result<Vec<String>> {
    let state = agent.load_state(&[SKILLS]).await?;
    let catalogue = state.get::<SkillsMetadata>().cloned().flatten();
    Ok(catalogue.into_iter().flat_map(|catalogue| catalogue.skills).map(|skill| skill.name).collect())
}

/// Refuses a skill that is not there.
pub(crate) fn check_skill(skill: Option<&String>, known: &[String]) -> Result<()> {
    let Some(skill) = skill.filter(|skill| !known.contains(skill)) else { return Ok(()) };
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    bail!(WrongUsage(format!("there is no skill `{skill}`; there are: {known}")))
}

/// An input for which the model is shown a skill.
pub(crate) fn pin(input: RunInput, skill: Option<&String>) -> RunInput {
    match skill {
        Some(skill) => input.update(Update::new::<PinnedSkills>(SkillPin::Pin(vec![skill.clone()]))),
        None => input,
    }
}
