//! A model chooses the tools that another is offered.

use std::collections::BTreeSet;
use std::sync::Arc;

use deepagents_core::error::{Error, Result};
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::{Author, Message, Messages};
use deepagents_core::middleware::{Middleware, ModelNext, ModelResponse};
use deepagents_core::model::{ChatModel, ModelRequest, OutputSchema, SystemBlock, ToolSpec};
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, Update};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::json_answer;
use crate::shared::Shared;

/// What the model that chooses is told, unless told otherwise.
const PROMPT: &str = "Choose the tools that help with the user's request.";

/// The tools that were chosen for a word of a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Selection {
    /// Id of the message.
    message: String,
    /// Those that could be chosen.
    among: BTreeSet<String>,
    /// Those that were.
    tools: BTreeSet<String>,
}

deepagents_core::last_value!(
    /// The last choice.
    Selected("selected_tools"): Option<Selection> => private
);

/// Has a model choose the tools that the agent's model is offered, by the last word of a person.
///
/// It chooses once for each such word, and again where other tools are there, so that what a provider has cached serves the
/// turns between. With many tools [`ToolSearch`](crate::middleware::ToolSearch) is better: it costs no request, and the model
/// can look for more. A call of a tool that was not chosen is made all the same.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::middleware::tool_selector::ToolSelector;
/// use deepagents::models::scripted::ScriptedModel;
/// let small = ScriptedModel::new([]);
/// let selector = ToolSelector::default().model(small).most(5).always(["write_todos", "ls"]);
/// let agent = DeepAgent::builder().model(ScriptedModel::new([])).middleware(selector).build()?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ToolSelector {
    model: Option<Shared<dyn ChatModel>>,
    prompt: Arc<str>,
    most: usize,
    always: BTreeSet<String>,
    retries: u32,
    on_failure: SelectionFailure,
}

/// What is offered where no choice can be had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SelectionFailure {
    /// All tools.
    #[default]
    All,
    /// These, and those that are always offered.
    Only(BTreeSet<String>),
    /// Nothing: the run fails.
    Error,
}

impl Default for ToolSelector {
    fn default() -> Self {
        let (always, on_failure) = (BTreeSet::new(), SelectionFailure::All);
        Self { model: None, prompt: PROMPT.into(), most: usize::MAX, always, retries: 1, on_failure }
    }
}

impl ToolSelector {
    /// Another model chooses than the agent's own.
    #[must_use]
    pub fn model(mut self, model: impl ChatModel) -> Self {
        self.model = Some(Shared(Arc::new(model)));
        self
    }

    /// Tells it in other words what to choose.
    #[must_use]
    pub fn system_prompt(mut self, prompt: impl Into<Arc<str>>) -> Self {
        self.prompt = prompt.into();
        self
    }

    /// Offers no more than so many of those it names, the first; as many as it names.
    #[must_use]
    pub fn most(mut self, tools: usize) -> Self {
        self.most = tools;
        self
    }

    /// Always offers these tools, if they are there.
    #[must_use]
    pub fn always<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.always = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Asks so many times again where the choice cannot be read or names tools that there are not; once.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// What is offered where no choice can be had; all tools, unless told otherwise.
    #[must_use]
    pub fn on_failure(mut self, on_failure: SelectionFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// The names that the model chose.
    async fn choose(
        &self,
        cx: &Context,
        model: &Arc<dyn ChatModel>,
        asked: &Message,
        tools: &[Arc<ToolSpec>],
    ) -> std::result::Result<BTreeSet<String>, String> {
        let listed: Vec<String> = tools.iter().map(|tool| format!("- {}: {}", tool.name, tool.description)).collect();
        let most = if self.most == usize::MAX {
            String::new()
        } else {
            format!(" At most {}, the most helpful first.", self.most)
        };
        let prompt = format!(
            "{}{most} Answer with JSON alone, as in {{\"tools\": [\"name\"]}}.\n\n{}",
            self.prompt,
            listed.join("\n")
        );
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let schema = json!({
            "type": "object",
            "properties": {"tools": {"type": "array", "items": {"type": "string", "enum": names}}},
            "required": ["tools"],
            "additionalProperties": false,
        });
        let mut request = ModelRequest::new(vec![Message::user(asked.text())]);
        request.system = vec![SystemBlock::new(prompt.as_str())];
        request.output_schema = Some(OutputSchema { name: "tools".to_owned(), schema: Arc::new(schema) });
        let mut problem = String::new();
        for _ in 0..=self.retries {
            let output = cx.invoke_model(model, request.clone()).await.map_err(|error| error.to_string())?;
            match read(&output.message.text(), &names) {
                Ok(chosen) => return Ok(chosen.into_iter().take(self.most).collect()),
                Err(why) => problem = why,
            }
            request.system =
                vec![SystemBlock::new(format!("{prompt}\n\nYour last answer could not be used: {problem}."))];
        }
        Err(problem)
    }
}

/// Reads a choice: names in order, each once.
fn read(text: &str, names: &[&str]) -> std::result::Result<Vec<String>, String> {
    #[derive(Deserialize)]
    struct Choice {
        tools: Vec<String>,
    }
    let choice: Choice = json_answer::read(text)?;
    let mut chosen: Vec<String> = Vec::new();
    for name in choice.tools {
        if !names.contains(&name.as_str()) {
            return Err(format!("there is no tool `{name}`"));
        }
        if !chosen.contains(&name) {
            chosen.push(name);
        }
    }
    Ok(chosen)
}

/// The last word of a person.
fn last_word(messages: &Messages) -> Option<&Arc<Message>> {
    messages.iter().rev().find(|message| message.as_user().is_some_and(|said| said.author == Author::Human))
}

impl Middleware for ToolSelector {
    fn name(&self) -> &str {
        "ToolSelector"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Selected>()]
    }

    async fn wrap_model_call(&self, mut request: ModelRequest, next: ModelNext) -> Result<ModelResponse> {
        let answer = next.cx().answer_tool().map(str::to_owned);
        let is_fixed = |name: &String| self.always.contains(name) || answer.as_ref() == Some(name);
        let open: Vec<_> = request.tools.iter().filter(|tool| !is_fixed(&tool.name)).cloned().collect();
        let word = last_word(&request.messages).cloned();
        let (Some(word), false) = (word, open.is_empty()) else { return next.run(request).await };
        // What an earlier try has paid for is not asked again.
        let cx = next.cx().with_kept()?;
        let among: BTreeSet<String> = open.iter().map(|tool| tool.name.clone()).collect();
        let known = cx.get::<Selected>().filter(|known| known.message == word.id() && known.among == among);
        let tools = match known {
            Some(known) => known.tools,
            None => {
                let model = self.model.as_ref().map_or_else(|| next.model().clone(), |model| model.0.clone());
                let tools = match (self.choose(&cx, &model, &word, &open).await, &self.on_failure) {
                    (Ok(tools), _) => tools,
                    (Err(problem), SelectionFailure::Error) => {
                        return Err(Error::other(format!("{} chose no tools: {problem}", model.name())));
                    }
                    (Err(_), SelectionFailure::All) => among.clone(),
                    (Err(_), SelectionFailure::Only(names)) => names.clone(),
                };
                cx.report(MiddlewareEvent::ToolsSelected { tools: tools.clone() });
                let selection = Selection { message: word.id().to_owned(), among, tools: tools.clone() };
                cx.keep(Update::new::<Selected>(Some(selection)));
                tools
            }
        };
        request.tools.retain(|tool| tools.contains(&tool.name) || is_fixed(&tool.name));
        next.run(request).await
    }
}
