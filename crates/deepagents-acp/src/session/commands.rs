//! Slash commands.

use deepagents::slash::{self, Slash};

use super::Session;
use crate::host::AgentHost;
use crate::policy::Mode;
use crate::wire;

/// A prompt after its command, if any, was handled.
pub(super) enum Prompt {
    /// The prompt is for the agent. A goal is what its work is judged by.
    Work { blocks: Vec<wire::ContentBlock>, goal: Option<String> },
    /// The command was handled; the text to show.
    Done(String),
}

impl Prompt {
    fn work(blocks: Vec<wire::ContentBlock>) -> Self {
        Self::Work { blocks, goal: None }
    }
}

impl<H: AgentHost> Session<H> {
    /// Returns the available commands for the editor.
    pub(crate) fn commands(&self) -> wire::SessionUpdate {
        let modes = Mode::ALL.into_iter().map(|mode| {
            let description = format!("{}; with a task, does it in this mode", mode.description());
            command(mode.as_str(), &description, Some("task"))
        });
        let goal = command("goal", "Works on until a goal is met, as a model judges it", Some("goal"));
        let context = command("context", "Shows what the agent is made of, and what that costs", None);
        let of_host = self.agent().commands;
        let of_host =
            of_host.iter().map(|own| command(&own.name, &own.description, own.hint.as_deref())).collect::<Vec<_>>();
        let all = modes.chain([goal, context]).chain(of_host).collect();
        wire::SessionUpdate::AvailableCommandsUpdate(wire::AvailableCommandsUpdate::new(all))
    }

    /// Handles a command at the start of a prompt, or replaces it with its prepared prompt. A text that starts with a
    /// slash but is not a command, such as a path, goes to the agent.
    pub(super) fn command(&self, mut blocks: Vec<wire::ContentBlock>) -> Prompt {
        let Some(wire::ContentBlock::Text(first)) = blocks.first_mut() else { return Prompt::work(blocks) };
        let Some(typed) = Slash::parse(first.text.trim_start()) else { return Prompt::work(blocks) };
        let (name, arguments) = (typed.name, typed.args.to_owned());
        if name == "context" {
            return Prompt::Done(self.agent().agent.explain().to_string());
        }
        if name == "goal" {
            if arguments.is_empty() {
                return Prompt::Done("Write the goal after the command: /goal all tests pass".to_owned());
            }
            first_text(&mut blocks, arguments.clone());
            return Prompt::Work { blocks, goal: Some(arguments) };
        }
        if let Some(mode) = Mode::from_id(name) {
            self.switch(mode);
            if arguments.is_empty() && blocks.len() == 1 {
                return Prompt::Done(format!("{}: {}.", mode.title(), mode.description()));
            }
            first_text(&mut blocks, arguments);
            return Prompt::work(blocks);
        }
        let Some(command) = self.agent().commands.into_iter().find(|command| command.name == name) else {
            return Prompt::work(blocks);
        };
        let prompt = slash::message(&command.prompt, &arguments);
        first_text(&mut blocks, prompt);
        Prompt::work(blocks)
    }
}

fn first_text(blocks: &mut [wire::ContentBlock], text: String) {
    if let Some(first) = blocks.first_mut() {
        *first = wire::ContentBlock::from(text);
    }
}

fn command(name: &str, description: &str, hint: Option<&str>) -> wire::AvailableCommand {
    let input = hint.map(|hint| wire::AvailableCommandInput::Unstructured(wire::UnstructuredCommandInput::new(hint)));
    wire::AvailableCommand::new(name, description).input(input)
}
