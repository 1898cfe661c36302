//! What a judge says of the work, and how far it has come.

use deepagents_core::event::MiddlewareEvent;
use serde::{Deserialize, Serialize};

/// How far the work of a thread has come by its rubric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RubricProgress {
    /// The rubric that was judged by.
    pub rubric: String,
    /// How often the work was judged.
    pub iterations: u32,
    /// How it ended; nothing as long as it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RubricStatus>,
    /// The criteria, as the first judgement named them.
    #[serde(default)]
    pub criteria: Vec<String>,
    /// The last judgement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Evaluation>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// How judging ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RubricStatus {
    /// Every criterion is met.
    Satisfied,
    /// The work was judged as often as it may be, and something is missing.
    MaxIterationsReached,
    /// The rubric cannot be judged, or never be met.
    Failed,
    /// The judge could not be asked, or gave no judgement.
    GraderError,
}

/// What a judge says of the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evaluation {
    /// The judgement.
    pub result: RubricResult,
    /// Why.
    pub explanation: String,
    /// Each criterion.
    #[serde(default)]
    pub criteria: Vec<Criterion>,
    /// Whether the judge left criteria out.
    #[serde(default)]
    pub unverified: bool,
}

/// A judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RubricResult {
    /// Every criterion is met.
    Satisfied,
    /// Something is missing that more work could bring.
    NeedsRevision,
    /// The rubric cannot be judged, or never be met.
    Failed,
}

/// A criterion of a rubric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Criterion {
    /// What it is called.
    pub name: String,
    /// Whether it is met.
    pub passed: bool,
    /// What is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<String>,
}

impl Evaluation {
    /// Reads what a judge says.
    ///
    /// # Errors
    /// What is wrong with it, in words for the judge.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let json = text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to));
        let json = json.ok_or("there is no JSON object in the answer")?;
        let evaluation: Self = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let failing = evaluation.criteria.iter().any(|criterion| !criterion.passed);
        match evaluation.result {
            RubricResult::Satisfied if failing => Err("it is `satisfied`, but a criterion has not passed".to_owned()),
            RubricResult::NeedsRevision if !failing && !evaluation.criteria.is_empty() => {
                Err("it is `needs_revision`, but every criterion has passed".to_owned())
            }
            _ => Ok(evaluation),
        }
    }

    /// Whether every criterion was judged: so many as are expected, and at least one.
    pub(super) fn covers(&self, expected: usize) -> bool {
        self.result == RubricResult::Failed || self.criteria.len() >= expected.max(1)
    }

    /// The same where criteria were left out: what is not judged is not met.
    pub(super) fn marked_unverified(mut self) -> Self {
        self.unverified = true;
        if self.result == RubricResult::Satisfied {
            self.result = RubricResult::NeedsRevision;
        }
        self
    }

    pub(super) fn event(&self, iteration: u32) -> MiddlewareEvent {
        let named = |passed: bool| {
            let those = self.criteria.iter().filter(move |criterion| criterion.passed == passed);
            those.map(|criterion| criterion.name.clone()).collect::<Vec<_>>()
        };
        let result = match self.result {
            RubricResult::Satisfied => "satisfied",
            RubricResult::NeedsRevision => "needs_revision",
            RubricResult::Failed => "failed",
        };
        MiddlewareEvent::RubricEvaluated {
            iteration,
            result: result.to_owned(),
            explanation: self.explanation.clone(),
            passed: named(true),
            missing: named(false),
            unverified: self.unverified,
        }
    }

    /// What the agent is told.
    pub(super) fn feedback(&self) -> String {
        let mut lines = vec![format!("The work was judged and is not done yet: {}", self.explanation)];
        let failing: Vec<&Criterion> = self.criteria.iter().filter(|criterion| !criterion.passed).collect();
        if !failing.is_empty() {
            lines.push("Not met:".to_owned());
        }
        lines.extend(failing.iter().map(|criterion| {
            let gap = criterion.gap.as_ref().map(|gap| format!(": {gap}")).unwrap_or_default();
            format!("- {}{gap}", criterion.name)
        }));
        let passing: Vec<&str> = self
            .criteria
            .iter()
            .filter(|criterion| criterion.passed)
            .map(|criterion| criterion.name.as_str())
            .collect();
        if !passing.is_empty() && !self.unverified {
            lines.push(format!("Met, and to stay so: {}.", passing.join(", ")));
        }
        lines.push("Mend what is missing, then give your answer again.".to_owned());
        lines.join("\n")
    }
}
