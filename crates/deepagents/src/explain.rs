//! What an agent is made of.

use std::fmt;

use deepagents_core::agent::Agent;
use serde::Serialize;

/// Characters that make a token, as an estimate.
const CHARS_PER_TOKEN: usize = 4;

/// What an agent is made of, and about how many tokens of every request each part costs. `Display` prints it for
/// people, serde for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The model, `provider:model`.
    pub model: String,
    /// The middlewares in order, with what their prompt section costs.
    pub middlewares: Vec<Part>,
    /// The tools by name, with what their description and schema cost.
    pub tools: Vec<Part>,
    /// The static system prompt.
    pub system: String,
    /// About how many tokens the system prompt has.
    pub system_tokens: usize,
    /// About how many tokens every request begins with: system prompt and tools.
    pub fixed_tokens: usize,
}

/// A part and about how many tokens it costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Part {
    /// Its name.
    pub name: String,
    /// About how many tokens it costs.
    pub tokens: usize,
}

fn tokens(text: &str) -> usize {
    text.chars().count().div_ceil(CHARS_PER_TOKEN)
}

impl Explanation {
    pub(crate) fn of(agent: &Agent) -> Self {
        let system: Vec<&str> = agent.system().iter().map(|block| &*block.text).collect();
        let system = system.join("\n\n");
        let middlewares = agent
            .middlewares()
            .map(|m| Part { name: m.name().to_owned(), tokens: m.system_prompt().map_or(0, tokens) })
            .collect();
        let tools: Vec<Part> = agent
            .tools()
            .iter()
            .map(|tool| Part {
                name: tool.name.clone(),
                tokens: tokens(&tool.name) + tokens(&tool.description) + tokens(&tool.schema.to_string()),
            })
            .collect();
        let system_tokens = tokens(&system);
        let fixed_tokens = system_tokens + tools.iter().map(|t| t.tokens).sum::<usize>();
        Self { model: agent.model().name().to_owned(), middlewares, tools, system, system_tokens, fixed_tokens }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "model        {}", self.model)?;
        writeln!(f, "\nmiddlewares, outermost first                about tokens")?;
        for part in &self.middlewares {
            writeln!(f, "  {:<44}{:>8}", part.name, part.tokens)?;
        }
        writeln!(f, "\ntools")?;
        for part in &self.tools {
            writeln!(f, "  {:<44}{:>8}", part.name, part.tokens)?;
        }
        writeln!(f, "\nsystem prompt{:>41}", self.system_tokens)?;
        for line in self.system.lines() {
            writeln!(f, "  | {line}")?;
        }
        write!(f, "\nevery request begins with about {} tokens", self.fixed_tokens)
    }
}
