//! Questions from the agent to a person.

mod question;

use std::sync::Arc;

use deepagents_core::interrupt::Decision;
use deepagents_core::middleware::Middleware;
use deepagents_core::tool::{DynTool, Effect, ToolContext, ToolError, tool_fn};

use question::{Answer, QuestionArgs};

/// Gives the agent the tool `ask_user`: a question to a person, answered in words, with one of several choices, or with
/// several of them.
///
/// A question waits as a call pending approval does: it is stored in the journal, the run ends with
/// [`FinishReason::Interrupted`](deepagents_core::run::FinishReason::Interrupted), and it resumes with
/// [`Decision::Respond`], possibly days later and in another process.
///
/// Choices are selected by number or text, separated by commas if there are several. An invalid number makes the tool
/// ask again; any other text is passed on as the person's own answer. [`Decision::Reject`] declines to answer. The
/// [`form`](deepagents_core::interrupt::ActionRequest::form) of the request holds the choices as data.
///
/// ```
/// use std::sync::Arc;
/// use deepagents::middleware::AskUser;
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// use deepagents::{Decision, DeepAgent, MemoryJournal, RunInput};
/// use serde_json::json;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let colours = json!({"question": "Which colour?", "choices": ["red", "blue"]});
/// let model = ScriptedModel::new([Turn::call("ask_user", colours), Turn::text("Blue it is.")]);
/// let agent = DeepAgent::builder().model(model).middleware(AskUser).journal(MemoryJournal::new()).build()?;
/// let waiting = agent.invoke(RunInput::new("Paint the door.").thread("door")).await?;
/// let question = waiting.action_requests().remove(0);
/// let answer = Decision::Respond { message: "2".into() };
/// let outcome = agent.invoke(RunInput::resume("door").decide(question.id, answer)).await?;
/// assert_eq!(outcome.text(), "Blue it is.");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AskUser;

impl Middleware for AskUser {
    fn name(&self) -> &str {
        "AskUser"
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        let description =
            "Asks the user a question and waits for the answer. Only for what you cannot find out and must not guess.";
        let ask = tool_fn("ask_user", description, |args: QuestionArgs, cx| async move { ask(&args, &cx) });
        vec![Arc::new(ask.effect(Effect::Read))]
    }
}

/// Asks until there is an answer that fits.
fn ask(question: &QuestionArgs, cx: &ToolContext) -> Result<String, ToolError> {
    question.check()?;
    let mut problem = None;
    loop {
        let text = question.text(problem.as_deref());
        let said = match cx.interrupt_for_answer(text, question.form())? {
            Decision::Respond { message } => message,
            Decision::Reject { message } => {
                let reason = message.filter(|reason| !reason.is_empty()).map(|reason| format!(": {reason}"));
                return Ok(format!("The user declined to answer{}.", reason.unwrap_or_default()));
            }
            // Decisions that are not allowed are never stored as an answer.
            _ => return Err(ToolError::model("Error: the answer could not be read.")),
        };
        problem = match question.read(&said) {
            Answer::Words(words) => return Ok(format!("The user answered: {words}")),
            Answer::Chosen(chosen) => return Ok(format!("The user chose: {}", chosen.join(", "))),
            Answer::Problem(problem) => Some(problem),
        };
    }
}
