//! Plans made by a model.

use std::sync::Arc;

use deepagents_core::error::BoxError;
use deepagents_core::message::Message;
use deepagents_core::model::{ChatModel, ModelRequest, SystemBlock};
use deepagents_core::run::Context;

use super::Planner;
use crate::shared::Shared;

/// Maximum number of items of a plan.
const MAX_ITEMS: usize = 20;

/// Asks a model, usually a small one, for the steps of a task: once, without tools, before the first call of the
/// agent's model. Its usage is charged to the run. If the answer is not a list of steps, the run continues without a
/// plan, and the event `planning_failed` informs the application.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::middleware::todo::{ModelPlanner, SizePlanner};
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// let light = ScriptedModel::new([Turn::text(r#"["Read the log", "Mend the error"]"#)]);
/// let planner = SizePlanner::new(ModelPlanner::new(light));
/// let agent = DeepAgent::builder().model(ScriptedModel::new([])).planner(planner).build()?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModelPlanner {
    model: Shared<dyn ChatModel>,
    prompt: Arc<str>,
}

impl ModelPlanner {
    /// Creates a planner that asks this model.
    pub fn new(model: impl ChatModel) -> Self {
        let prompt = include_str!("../../prompts/planner.md").trim_end().into();
        Self { model: Shared(Arc::new(model)), prompt }
    }

    crate::shared::setters! {
        /// Sets the prompt. The answer must be a JSON array of strings, empty if there is nothing to plan.
        prompt(prompt: impl Into<Arc<str>>) => prompt = prompt.into();
    }
}

impl Planner for ModelPlanner {
    async fn plan(&self, task: &str, cx: &Context) -> Result<Vec<String>, BoxError> {
        let mut request = ModelRequest::new(vec![Message::user(task)]);
        request.system = vec![SystemBlock::new(self.prompt.clone())];
        let output = cx.invoke_model(&self.model.0, request).await?;
        steps(&output.message.text())
    }
}

/// Parses the steps in an answer, which may have text or a code fence around them.
fn steps(answer: &str) -> Result<Vec<String>, BoxError> {
    let array = answer.find('[').zip(answer.rfind(']')).and_then(|(from, to)| answer.get(from..=to));
    let array = array.ok_or("the model did not answer with a list of steps")?;
    let steps: Vec<String> = serde_json::from_str(array)
        .map_err(|error| format!("the model did not answer with a list of steps: {error}"))?;
    if steps.len() > MAX_ITEMS {
        return Err(format!("the model answered with {} steps, but a plan has at most {MAX_ITEMS}", steps.len()).into());
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planner_answer_is_a_list_of_strings_whatever_surrounds_it() {
        assert_eq!(steps("[\"Read\", \"Mend\"]").unwrap(), ["Read", "Mend"]);
        assert_eq!(steps("Here:\n```json\n[\"Read\"]\n```").unwrap(), ["Read"]);
        assert!(steps("[]").unwrap().is_empty());
        for wrong in ["", "I would read it.", "[1]", "] [", "[\"Read\""] {
            assert!(steps(wrong).unwrap_err().to_string().contains("a list of steps"), "{wrong}");
        }
        let many = serde_json::to_string(&vec!["Read"; 21]).unwrap();
        assert!(steps(&many).unwrap_err().to_string().contains("21 steps"));
    }
}
