//! A description of an agent's parts and their token costs.

use std::collections::BTreeSet;
use std::fmt;

use deepagents_core::agent::Agent;
use deepagents_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::json;

use crate::tokens;

/// Name of the default tokenizer.
const ESTIMATE: &str = "estimate";

/// Describes the parts of an agent and the tokens that each contributes to its first request: the static system prompt
/// and the tools offered from the start. `Display` formats it for people, serde for programs.
///
/// Token counts are estimates, about four ASCII characters each, unless counted with a tokenizer: see
/// [`counted`](Self::counted).
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::models::scripted::ScriptedModel;
/// let agent = DeepAgent::builder().model(ScriptedModel::new([])).build()?;
/// let explanation = agent.explain();
/// assert!(explanation.fixed_tokens > explanation.system_tokens);
/// println!("{explanation}");
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The model, as `provider:model`.
    pub model: String,
    /// The tokenizer that counted: `estimate`, or the name given to [`counted`](Self::counted).
    pub tokenizer: String,
    /// The middlewares in order, with the cost of their prompt sections.
    pub middlewares: Vec<ExplainedPart>,
    /// The tools by name, with the cost of their name, description and schema.
    pub tools: Vec<ExplainedPart>,
    /// Tools that need approval but do not exist yet. Expected if a server provides them later; otherwise the name is
    /// wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked_later: Vec<String>,
    /// The static system prompt.
    pub system: String,
    /// Number of tokens of the system prompt.
    pub system_tokens: usize,
    /// Number of tokens at the start of every request: system prompt and tools.
    pub fixed_tokens: usize,
}

/// A part of an agent and its cost in tokens.
///
/// ```
/// use deepagents::models::scripted::ScriptedModel;
/// use deepagents::{DeepAgent, ExplainedPart};
/// let explanation = DeepAgent::builder().model(ScriptedModel::new([])).build()?.explain();
/// let dearest: Option<&ExplainedPart> = explanation.tools.iter().max_by_key(|tool| tool.tokens);
/// assert!(dearest.is_some_and(|tool| tool.text.contains(&tool.name)));
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExplainedPart {
    /// The name of the part.
    pub name: String,
    /// Its cost in tokens.
    pub tokens: usize,
    /// The counted text: a prompt section, or a tool as JSON.
    #[serde(skip)]
    pub text: String,
}

impl ExplainedPart {
    fn new(name: &str, text: String) -> Self {
        Self { name: name.to_owned(), tokens: 0, text }
    }
}

/// Formats a tool in the form in which providers receive it.
fn written(tool: &ToolSpec) -> String {
    json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema}).to_string()
}

impl Explanation {
    /// Describes an agent; the tools named in `withheld` are not offered at first.
    pub(crate) fn new(agent: &Agent, withheld: &BTreeSet<String>, asked_later: &[String]) -> Self {
        let system: Vec<&str> = agent.system().iter().map(|block| &*block.text).collect();
        let section = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let offered = agent.tools().iter().filter(|tool| !withheld.contains(&tool.name));
        let explanation = Self {
            model: agent.model().name().to_owned(),
            middlewares: agent
                .middlewares()
                .map(|m| ExplainedPart::new(m.name(), section(m.system_prompt())))
                .collect(),
            tools: offered.map(|tool| ExplainedPart::new(&tool.name, written(tool))).collect(),
            asked_later: asked_later.to_vec(),
            system: system.join("\n\n"),
            ..Self::default()
        };
        explanation.counted(ESTIMATE, |text| usize::try_from(tokens::estimate(text)).unwrap_or(usize::MAX))
    }

    /// Recounts with a tokenizer of this name.
    ///
    /// ```
    /// use deepagents::DeepAgent;
    /// use deepagents::models::scripted::ScriptedModel;
    /// let agent = DeepAgent::builder().model(ScriptedModel::new([])).build()?;
    /// let words = agent.explain().counted("words", |text| text.split_whitespace().count());
    /// assert_eq!(words.system_tokens, words.system.split_whitespace().count());
    /// # Ok::<(), deepagents::BuildError>(())
    /// ```
    #[must_use]
    pub fn counted(mut self, tokenizer: impl Into<String>, count: impl Fn(&str) -> usize) -> Self {
        self.tokenizer = tokenizer.into();
        for part in self.middlewares.iter_mut().chain(&mut self.tools) {
            part.tokens = count(&part.text);
        }
        self.system_tokens = count(&self.system);
        self.fixed_tokens = self.system_tokens + self.tools.iter().map(|tool| tool.tokens).sum::<usize>();
        self
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (about, by) = match self.tokenizer.as_str() {
            ESTIMATE => ("about ", String::new()),
            name => ("", format!(" ({name})")),
        };
        let parts = |parts: &[ExplainedPart]| -> String {
            parts.iter().map(|part| format!("  {:<44}{:>8}\n", part.name, part.tokens)).collect()
        };
        writeln!(f, "model        {}", self.model)?;
        writeln!(f, "tokens       {}", self.tokenizer)?;
        writeln!(f, "\nmiddlewares, outermost first {:>25}", "tokens of prompt")?;
        writeln!(f, "{}\ntools\n{}", parts(&self.middlewares), parts(&self.tools))?;
        if !self.asked_later.is_empty() {
            writeln!(f, "asked about once there are tools with these names: {}\n", self.asked_later.join(", "))?;
        }
        writeln!(f, "system prompt{:>41}", self.system_tokens)?;
        for line in self.system.lines() {
            writeln!(f, "  | {line}")?;
        }
        write!(f, "\nevery request begins with {about}{} tokens{by}", self.fixed_tokens)
    }
}
