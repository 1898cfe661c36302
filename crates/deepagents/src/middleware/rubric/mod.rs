//! Evaluation of work before it counts as done.

mod evaluation;
mod grade;
mod notice;
mod transcript;

use std::sync::Arc;

use deepagents_core::error::Result;
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::Message;
use deepagents_core::middleware::{HookOutput, JumpTo, Middleware};
use deepagents_core::model::ChatModel;
use deepagents_core::run::{Context, FinishReason};
use deepagents_core::state::{ChannelSpec, Update};

use crate::shared::Shared;
use grade::Grader;

pub use evaluation::{Criterion, Evaluation, RubricProgress, RubricResult, RubricStatus};
pub use notice::notice;

deepagents_core::last_value!(
    /// The rubric by which the work of a thread is evaluated; `None` for no evaluation. Sub-agents are not evaluated.
    pub RubricText("rubric"): Option<String> => separate, not_projected
);

deepagents_core::last_value!(
    /// Whether [`RubricText`] is removed once the work satisfies it. Without it, the work of every run is evaluated.
    pub RubricUntilMet("rubric_until_met"): bool => separate, not_projected
);

deepagents_core::last_value!(
    /// The progress of the work by its rubric.
    pub RubricState("rubric_progress"): RubricProgress => separate, not_projected
);

/// Default maximum number of evaluations.
const DEFAULT_MAX_EVALUATIONS: u32 = 3;

/// Evaluates the work by a rubric when the agent says that it is done, and makes it continue if something is missing.
///
/// The rubric is part of the state: set it for a run with an update of [`RubricText`]. A model that sees the rubric and
/// the end of the conversation judges each criterion. If some are not met, the agent is told which and why, and
/// continues, up to a maximum number of times. The criteria named by the first evaluation stay the criteria. The result
/// is in [`RubricState`]; a failing judge does not fail the run. A rubric stays until it is replaced, or with
/// [`RubricUntilMet`] until it is satisfied.
///
/// ```
/// use deepagents::middleware::rubric::{Rubric, RubricState, RubricStatus, RubricText};
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// use deepagents::{DeepAgent, RunInput, Update};
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let model = ScriptedModel::new([Turn::text("Roses are red."), Turn::text("Roses are red, violets are blue.")]);
/// let judge = ScriptedModel::new([
///     Turn::text(r#"{"result": "needs_revision", "explanation": "Short.",
///         "criteria": [{"name": "two flowers", "passed": false, "gap": "there is one"}]}"#),
///     Turn::text(r#"{"result": "satisfied", "explanation": "Good.", "criteria": [{"name": "two flowers", "passed": true}]}"#),
/// ]);
/// let agent = DeepAgent::builder().model(model).middleware(Rubric::default().model(judge)).build()?;
/// let rubric = Update::new::<RubricText>(Some("It names two flowers.".into()));
/// let outcome = agent.invoke(RunInput::new("Write a poem.").update(rubric)).await?;
/// assert_eq!(outcome.state.get::<RubricState>().and_then(|progress| progress.status), Some(RubricStatus::Satisfied));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rubric {
    model: Option<Shared<dyn ChatModel>>,
    prompt: Arc<str>,
    max_evaluations: u32,
}

impl Default for Rubric {
    fn default() -> Self {
        let prompt = include_str!("../../prompts/rubric.md").trim_end();
        Self { model: None, prompt: prompt.into(), max_evaluations: DEFAULT_MAX_EVALUATIONS }
    }
}

impl Rubric {
    crate::shared::setters! {
        /// Sets the judging model, instead of the agent's own.
        model(model: impl ChatModel) => model = Some(Shared(Arc::new(model)));

        /// Sets the prompt of the judge. It must ask for the same JSON.
        system_prompt(prompt: impl Into<Arc<str>>) => prompt = prompt.into();

        /// Sets the maximum number of evaluations, at least one; 3 by default.
        max_iterations(most: u32) => max_evaluations = most.max(1);
    }
}

/// Returns the current rubric, if there is one.
fn rubric(cx: &Context) -> Option<String> {
    cx.get::<RubricText>().filter(|rubric| !rubric.trim().is_empty())
}

impl Middleware for Rubric {
    fn name(&self) -> &str {
        "Rubric"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<RubricText>(), ChannelSpec::new::<RubricUntilMet>(), ChannelSpec::new::<RubricState>()]
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        let Some(given) = rubric(cx) else { return Ok(HookOutput::next()) };
        // The judge reads it, and the feedback may repeat it: redact it as messages are.
        let rubric = cx.receive_text(given.clone())?;
        let mut update = Update::none();
        if rubric != given {
            update = update.with::<RubricText>(Some(rubric.clone()));
        }
        let known = cx.get::<RubricState>();
        if known.rubric != rubric || known.status.is_some() {
            update = update.with::<RubricState>(RubricProgress { rubric, ..RubricProgress::default() });
        }
        Ok(HookOutput::update(update))
    }

    async fn after_agent(&self, cx: &Context) -> Result<HookOutput> {
        let done = matches!(cx.stop(), Some(FinishReason::Done | FinishReason::ReturnDirect));
        let Some(rubric) = rubric(cx).filter(|_| done) else { return Ok(HookOutput::next()) };
        let mut progress = cx.get::<RubricState>();
        if progress.status.is_some() {
            return Ok(HookOutput::next());
        }
        let iteration = progress.iterations;
        cx.report(MiddlewareEvent::RubricEvaluationStarted { iteration });
        let model = self.model.as_ref().map_or_else(|| cx.model().clone(), |model| model.0.clone());
        let grader = Grader { model, prompt: &self.prompt, rubric: &rubric, criteria: &progress.criteria };
        let evaluation = match grader.evaluate(cx).await {
            Ok(evaluation) => evaluation,
            Err(problem) => {
                let error = format!("{}: {problem}", grader.model.name());
                cx.report(MiddlewareEvent::RubricEvaluationFailed { error: error.clone() });
                progress.status = Some(RubricStatus::GraderError);
                progress.problem = Some(error);
                return Ok(HookOutput::set::<RubricState>(progress));
            }
        };
        cx.report(evaluation.event(iteration));
        progress.iterations = iteration.saturating_add(1);
        if progress.criteria.is_empty() && evaluation.result != RubricResult::Failed {
            progress.criteria = evaluation.criteria.iter().map(|criterion| criterion.name.clone()).collect();
        }
        progress.status = match evaluation.result {
            RubricResult::Satisfied => Some(RubricStatus::Satisfied),
            RubricResult::Failed => Some(RubricStatus::Failed),
            RubricResult::NeedsRevision if progress.iterations >= self.max_evaluations => {
                Some(RubricStatus::MaxIterationsReached)
            }
            RubricResult::NeedsRevision => None,
        };
        let ends = progress.status == Some(RubricStatus::Satisfied) && cx.get::<RubricUntilMet>();
        let feedback = progress.status.is_none().then(|| Message::harness(evaluation.feedback()));
        progress.last = Some(evaluation);
        let mut output = HookOutput::set::<RubricState>(progress);
        if ends {
            output.update = output.update.with::<RubricText>(None).with::<RubricUntilMet>(false);
        }
        if let Some(feedback) = feedback {
            output.update = output.update.and(Update::message(feedback));
            output = output.and_go(JumpTo::Model);
        }
        Ok(output)
    }
}
