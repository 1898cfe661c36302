//! Lets a model select the tools that are offered to the agent's model.

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

/// The default prompt for the selecting model.
const PROMPT: &str = "Choose the tools that help with the user's request.";

/// The tools selected for a message of a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Selection {
    /// The id of the message.
    message: String,
    /// The tools that could be selected.
    among: BTreeSet<String>,
    /// The tools that were selected.
    tools: BTreeSet<String>,
}

deepagents_core::last_value!(
    /// The last selection.
    Selected("selected_tools"): Option<Selection> => private
);

/// Lets a model select the tools that are offered to the agent's model, based on the last message of a person.
///
/// It selects once per such message, and again if the available tools change, so the provider's cache stays valid for
/// the turns in between. With many tools, [`ToolSearch`](crate::middleware::ToolSearch) is the better choice: it needs
/// no extra request, and the model can look for more tools. Calls of tools that were not selected still work.
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
    max_tools: usize,
    always: BTreeSet<String>,
    retries: u32,
    on_failure: SelectionFailure,
}

/// What to offer if the selection fails.
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
        Self { model: None, prompt: PROMPT.into(), max_tools: usize::MAX, always, retries: 1, on_failure }
    }
}

impl ToolSelector {
    crate::shared::setters! {
        /// Selects with this model instead of the agent's own.
        model(model: impl ChatModel) => model = Some(Shared(Arc::new(model)));

        /// Sets the prompt of the selecting model.
        system_prompt(prompt: impl Into<Arc<str>>) => prompt = prompt.into();

        /// Offers at most this many of the selected tools, the first ones. There is no limit by default.
        most(tools: usize) => max_tools = tools;

        /// Always offers these tools, if they exist.
        always(tools: impl IntoIterator<Item = impl Into<String>>)
            => always = tools.into_iter().map(Into::into).collect();

        /// Sets how often to retry if the selection is invalid or names unknown tools; once by default.
        retries(retries: u32) => retries = retries;

        /// Sets what to offer if the selection fails; all tools by default.
        on_failure(on_failure: SelectionFailure) => on_failure = on_failure;
    }

    /// Returns the tools that the model selected.
    async fn choose(
        &self,
        cx: &Context,
        model: &Arc<dyn ChatModel>,
        asked: &Message,
        tools: &[Arc<ToolSpec>],
    ) -> std::result::Result<BTreeSet<String>, String> {
        let listed: Vec<String> = tools.iter().map(|tool| format!("- {}: {}", tool.name, tool.description)).collect();
        let most = if self.max_tools == usize::MAX {
            String::new()
        } else {
            format!(" At most {}, the most helpful first.", self.max_tools)
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
                Ok(chosen) => return Ok(chosen.into_iter().take(self.max_tools).collect()),
                Err(why) => problem = why,
            }
            request.system =
                vec![SystemBlock::new(format!("{prompt}\n\nYour last answer could not be used: {problem}."))];
        }
        Err(problem)
    }
}

/// Parses a selection into names, in order and without duplicates.
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

/// Returns the last message of a person.
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
        // Reuses the selection of an earlier attempt, which was already paid for.
        let cx = next.cx().with_queued_updates()?;
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
                cx.queue_update(Update::new::<Selected>(Some(selection)));
                tools
            }
        };
        request.tools.retain(|tool| tools.contains(&tool.name) || is_fixed(&tool.name));
        next.run(request).await
    }
}
