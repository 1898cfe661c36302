//! What a judge says of the work, and how far it has come.

use deepagents_core::event::MiddlewareEvent;
use serde::{Deserialize, Serialize};

use crate::json_answer;

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

impl Criterion {
    fn is(&self, name: &str) -> bool {
        self.name.trim().to_lowercase() == name.trim().to_lowercase()
    }
}

impl Evaluation {
    /// Reads what a judge says.
    ///
    /// # Errors
    /// What is wrong with it, in words for the judge.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let evaluation: Self = json_answer::read(text)?;
        let failing = evaluation.criteria.iter().any(|criterion| !criterion.passed);
        match evaluation.result {
            RubricResult::Satisfied if failing => Err("it is `satisfied`, but a criterion has not passed".to_owned()),
            RubricResult::NeedsRevision if !failing && !evaluation.criteria.is_empty() => {
                Err("it is `needs_revision`, but every criterion has passed".to_owned())
            }
            _ => Ok(evaluation),
        }
    }

    /// Whether every criterion that is known was judged, and at least one.
    pub(super) fn covers(&self, known: &[String]) -> bool {
        let judged = |name: &String| self.criteria.iter().any(|criterion| criterion.is(name));
        self.result == RubricResult::Failed || (!self.criteria.is_empty() && known.iter().all(judged))
    }

    /// The same by the criteria that are known, or else by its own: one that was left out is not met, and no others count.
    pub(super) fn by(mut self, known: &[String]) -> Self {
        self.unverified = !self.covers(known);
        if self.result == RubricResult::Failed {
            return self;
        }
        let mut names = known.to_vec();
        if known.is_empty() {
            for criterion in &self.criteria {
                if !names.iter().any(|name| criterion.is(name)) {
                    names.push(criterion.name.clone());
                }
            }
        }
        self.criteria = names.into_iter().map(|name| self.judged(name)).collect();
        let is_met = !self.unverified && self.criteria.iter().all(|criterion| criterion.passed);
        self.result = if is_met { RubricResult::Satisfied } else { RubricResult::NeedsRevision };
        self
    }

    /// What was said of a criterion; that it is met counts where nothing else was said of it.
    fn judged(&self, name: String) -> Criterion {
        let said = || self.criteria.iter().filter(|criterion| criterion.is(&name));
        match said().find(|criterion| !criterion.passed).or_else(|| said().next()) {
            Some(criterion) => Criterion { name, ..criterion.clone() },
            None => Criterion { name, passed: false, gap: Some("it was not judged".to_owned()) },
        }
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
