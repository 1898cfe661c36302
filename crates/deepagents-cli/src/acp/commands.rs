//! Slash commands: commands from files, and skills by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use deepagents::front_matter::parse;
use deepagents::fs::VPath;
use deepagents_acp::SlashCommand;
use deepagents_tui::CommandFile;

use crate::args::AgentArgs;
use crate::context_files::SKILLS;
use crate::front_matter;
use crate::model_choice::env;
use crate::own_files::OWN;
use crate::small_file;
use crate::trust::Brought;

/// Returns the commands from files, and the skills whose names no command has.
pub(super) fn all(files: Vec<CommandFile>, options: &AgentArgs, brought: &Brought) -> Vec<SlashCommand> {
    let of_file = |file: CommandFile| SlashCommand {
        name: file.name,
        description: file.about,
        hint: Some(file.args).filter(|args| !args.is_empty()),
        prompt: file.text,
    };
    // A name with a space cannot be told apart from the arguments.
    let typed = files.into_iter().filter(|file| !file.text.is_empty() && !file.name.contains(char::is_whitespace));
    let mut all: Vec<SlashCommand> = typed.map(of_file).collect();
    for skill in skills(options, brought) {
        if all.iter().all(|known| known.name != skill.name) {
            all.push(skill);
        }
    }
    all
}

/// Returns the skills of the user and of the directory; of two with the same name, the directory's is used; see
/// [`context_files`](crate::context_files). A skill that the user has not agreed to is omitted, as is one whose file
/// cannot be read, which the agent reports.
fn skills(options: &AgentArgs, brought: &Brought) -> Vec<SlashCommand> {
    if options.no_skills {
        return Vec::new();
    }
    let home = env("HOME").map(PathBuf::from);
    let roots = home.as_deref().map(|home| (home, false)).into_iter().chain([(options.directory(), true)]);
    let mut found = BTreeMap::new();
    for (root, needs_consent) in roots {
        for entry in fs::read_dir(root.join(OWN).join(SKILLS)).into_iter().flatten().flatten() {
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let file = VPath::parse(&format!("/{OWN}/{SKILLS}/{name}/SKILL.md"));
            if needs_consent && !file.is_ok_and(|file| brought.has(&file)) {
                continue;
            }
            if let Some(description) = described(&entry.path()).filter(|_| is_name(&name)) {
                found.insert(name, description);
            }
        }
    }
    found.into_iter().map(|(name, description)| command(name, description)).collect()
}

fn command(name: String, description: String) -> SlashCommand {
    let prompt = format!("Use the skill {name}: read its SKILL.md first, and do as it says.\n\n$ARGUMENTS");
    SlashCommand { name, description, hint: Some("what to do with it".to_owned()), prompt }
}

/// Whether it can be typed as a command.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Returns a skill's description from its front matter, on one line. Front matter that the agent cannot read either
/// yields `None`.
fn described(directory: &Path) -> Option<String> {
    let text = small_file::read(&directory.join("SKILL.md")).ok()??;
    front_matter::line(&parse(&text).ok()?.0, "description")
}
