//! Skills as commands: what can be typed after a slash.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use deepagents::fs::VPath;
use deepagents_acp::SlashCommand;

use crate::args::AgentArgs;
use crate::model_choice::env;
use crate::small_file;
use crate::sources::{OWN, SKILLS};
use crate::trust::Brought;

/// The skills of the user and of the directory, which come before those of the same name; see
/// [`sources`](crate::sources). One that nobody has agreed to is none; one whose file cannot be read is left out here, and told by the agent.
pub(super) fn commands(options: &AgentArgs, brought: &Brought) -> Vec<SlashCommand> {
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

/// What the front matter of a skill says of it, in one line.
fn described(directory: &Path) -> Option<String> {
    let text = small_file::read(&directory.join("SKILL.md")).ok()??;
    let front = text.strip_prefix("---")?.split("\n---").next()?;
    let line = front.lines().find_map(|line| line.strip_prefix("description:"))?;
    let line = line.trim().trim_matches(['"', '\'']).trim();
    Some(line.to_owned()).filter(|line| !line.is_empty())
}
