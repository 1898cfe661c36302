//! The process that is killed. It works on a thread until it ends or is killed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use deepagents::{Budget, Decision, FinishReason, Outcome, RunInput};
use deepagents_core::journal::{Claim, Lease, RunStatus, ThreadQuery};
use deepagents_testing::watched::Watched;
use serde::{Deserialize, Serialize};

use super::cast::{Parts, backend};
use super::moments::{Appends, Moments};
use super::notes::{Note, Notes};
use super::plan::MAIN;
use super::scenario::Scenario;
use super::script::task;
use crate::database::Place;

/// More than any scenario needs. With a budget, the log records what was spent.
const MODEL_CALLS: u64 = 10_000;
const LEASE: Duration = Duration::from_secs(30);

/// The task of a process, passed as its argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// See [`Place::argument`].
    pub(crate) place: String,
    pub(crate) folder: PathBuf,
    pub(crate) thread: String,
    pub(crate) scenario: String,
    pub(crate) size: usize,
    /// The point at which it kills itself, if any.
    pub(crate) last: Option<u64>,
    /// Whether it decides pending interrupts.
    pub(crate) decides: bool,
}

/// How a process ended that was not killed. Printed as its output.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    /// Whether the run waits for decisions.
    pub(crate) waits: bool,
    pub(crate) moments: u64,
    /// Duration of the work itself in seconds.
    pub(crate) work: f64,
}

impl Order {
    pub(crate) fn notes(&self) -> PathBuf {
        self.folder.join(format!("{}.notes", self.thread))
    }

    /// Opens the parts of its agents.
    pub(crate) async fn parts(&self) -> Result<Parts> {
        let scenario = Scenario::parse(&self.scenario).with_context(|| format!("no scenario `{}`", self.scenario))?;
        let (plan, moments) = (Arc::new(scenario.plan(self.size)), Moments::until(self.last));
        let (journal, store) = Place::parse(&self.place).open_with_store().await?;
        Ok(Parts {
            backend: backend(plan.files, &self.folder, &self.thread, store)?,
            plan,
            journal: Arc::new(Watched::new(journal, Appends(moments.clone()))),
            notes: Arc::new(Notes::open(&self.notes())?),
            moments,
        })
    }

    /// Takes over the background tasks. The process that owned them is dead, so there is no need to wait for its leases
    /// to expire.
    async fn take_tasks_over(&self, parts: &Parts) -> Result<()> {
        for task in parts.journal.threads().list(&ThreadQuery::default().parent(self.thread.as_str())).await? {
            if task.owner.is_some() {
                let claim = Claim::new("crash", LEASE);
                Lease::claim(parts.journal.clone(), task.id, claim.take_over()).await?.release().await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn execute(&self) -> Result<Ended> {
        let parts = self.parts().await?;
        let agent = parts.main()?;
        let info = parts.journal.threads().get(&self.thread).await?;
        self.take_tasks_over(&parts).await?;
        let started = std::time::Instant::now();
        let mut input = if info.is_some_and(|info| info.status != RunStatus::Empty) {
            RunInput::resume(&self.thread)
        } else {
            RunInput::new(task(MAIN)).thread(&self.thread).budget(Budget::default().model_calls(MODEL_CALLS))
        };
        let waits = loop {
            let outcome = agent.invoke(input.take_over().lease(LEASE)).await?;
            match outcome.stop {
                FinishReason::Done => break false,
                FinishReason::Interrupted => {
                    let tools = outcome.action_requests().into_iter().map(|question| question.tool).collect();
                    parts.notes.add(&Note::Interrupted { tools })?;
                    if !self.decides {
                        break true;
                    }
                    parts.notes.add(&Note::Decided)?;
                    parts.moments.pass();
                    input = decide(&self.thread, &outcome);
                }
                other => bail!("the run ended with {other:?}: {}", outcome.state.messages().len()),
            }
        };
        Ok(Ended { waits, moments: parts.moments.passed(), work: started.elapsed().as_secs_f64() })
    }
}

fn decide(thread: &str, outcome: &Outcome) -> RunInput {
    outcome.action_requests().into_iter().fold(RunInput::resume(thread), |input, question| {
        let reject = || Decision::Reject { message: Some("Do not.".to_owned()) };
        let decision = if question.tool == "steal" { reject() } else { Decision::Approve };
        input.decide(question.id, decision)
    })
}
