//! Slash commands: commands from files, and skills by name.

use deepagents::channels::Skill;
use deepagents_acp::SlashCommand;
use deepagents_tui::CommandFile;

/// Returns the commands from files, and the skills whose names no command has.
pub(super) fn all(files: Vec<CommandFile>, skills: Vec<Skill>) -> Vec<SlashCommand> {
    let of_file = |file: CommandFile| SlashCommand {
        name: file.name,
        description: file.about,
        hint: Some(file.args).filter(|args| !args.is_empty()),
        prompt: file.text,
    };
    // A name with a space cannot be told apart from the arguments.
    let typed = files.into_iter().filter(|file| !file.text.is_empty() && !file.name.contains(char::is_whitespace));
    let mut all: Vec<SlashCommand> = typed.map(of_file).collect();
    for skill in skills {
        if is_name(&skill.name) && all.iter().all(|known| known.name != skill.name) {
            all.push(of_skill(skill));
        }
    }
    all
}

fn of_skill(skill: Skill) -> SlashCommand {
    let Skill { name, description, .. } = skill;
    let prompt = format!("Use the skill {name}: read its SKILL.md first, and do as it says.\n\n$ARGUMENTS");
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    SlashCommand { name, description, hint: Some("what to do with it".to_owned()), prompt }
}

/// Whether it can be typed as a command.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}
