//! One seed: processes work on a thread while they are disturbed, and a last one finishes it in peace.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use deepagents::{Budget, Decision, DeepAgent, FinishReason, Outcome, RunInput};
use deepagents_core::interrupt::{ActionRequest, EditedAction};
use deepagents_core::journal::{Journal, JournalError, RunStatus};
use deepagents_core::run::RunHandle;
use serde_json::json;

use super::attempt::{Ended, attempt};
use super::cast::{Cast, LEASE};
use super::changes::Whole;
use super::invariants;
use super::process::Process;
use super::scenario::{MAIN, Operation};
use super::script::task;
use super::world::World;

/// With a budget, the log records what was spent. Nothing reaches this one.
const MODEL_CALLS: u64 = 100_000;
/// More undisturbed runs than any scenario needs.
const MAX_RUNS: usize = 150;

/// A process with its agents.
pub(crate) struct ProcessAgent {
    pub(crate) process: Arc<Process>,
    pub(crate) agent: DeepAgent,
}

/// A seed being simulated.
pub(crate) struct Trial {
    pub(crate) world: Arc<World>,
    /// Threads that were copied, with their states.
    pub(crate) sources: RefCell<Vec<(String, Whole)>>,
}

impl Trial {
    pub(crate) fn new(world: Arc<World>) -> Self {
        Self { world, sources: RefCell::default() }
    }

    pub(crate) fn begin_process(&self, faults: u64) -> Result<ProcessAgent> {
        let process = Process::new(self.world.below(1_000_000), faults);
        let cast = Cast { world: self.world.clone(), process: process.clone(), thread: self.world.thread() };
        Ok(ProcessAgent { agent: cast.main()?, process })
    }

    /// Runs the simulation. Violations are recorded in the world.
    ///
    /// # Errors
    /// Returns an error if the simulation itself cannot continue.
    pub(crate) async fn run(&self) -> Result<()> {
        let mut works = self.begin_process(4)?;
        for _ in 0..self.world.scenario.rounds {
            if works.process.has_ended() || self.world.below(3) == 0 {
                // It may have left work that others wait for, so end it explicitly.
                works.process.end();
                works = self.begin_process(4)?;
            }
            self.round(&works).await?;
            invariants::check(&self.world, &works.agent).await?;
            if self.world.below(3) == 0 {
                works.process.end();
                self.change().await?;
                works = self.begin_process(4)?;
                invariants::check(&self.world, &works.agent).await?;
            }
            if !self.world.lock().broken.is_empty() {
                return Ok(());
            }
        }
        works.process.end();
        self.world.lock().disturbed = false;
        let works = self.begin_process(0)?;
        let outcome = self.finish_without_faults(&works).await?;
        invariants::check(&self.world, &works.agent).await?;
        if let Some(outcome) = outcome {
            invariants::check_end(&self.world, &works.agent, &outcome).await?;
            self.check_sources(&works).await?;
        }
        Ok(())
    }

    /// Chooses an input for the thread's current state. Also returns the number of claims at that time.
    async fn input(&self, works: &ProcessAgent) -> Result<(RunInput, usize)> {
        let world = &self.world;
        let seen = world.lock().claims.len();
        let thread = world.thread();
        let info = world.journal.threads().get(&thread).await?;
        let status = info.map_or(RunStatus::Empty, |info| info.status);
        let input = match status {
            RunStatus::Empty => RunInput::new(task(MAIN)).thread(thread),
            RunStatus::Interrupted => {
                let state = works.agent.state(&thread).await;
                match state {
                    Ok(state) => self.answers(thread, &state),
                    // The storage fails at the moment.
                    Err(_) => RunInput::resume(thread),
                }
            }
            // A cancelled or limited run continues; a finished one stays finished.
            RunStatus::Ended if world.happens(500) => RunInput::resume(thread),
            RunStatus::Ended => RunInput::new("Anything else?").thread(thread),
            _ => RunInput::resume(thread),
        };
        Ok((input.lease(LEASE).budget(Budget::default().model_calls(MODEL_CALLS)), seen))
    }

    /// Answers most of the pending interrupts.
    fn answers(&self, thread: String, state: &deepagents::State) -> RunInput {
        let asked = state.get::<deepagents_core::interrupt::ActionRequests>().cloned().unwrap_or_default();
        let open: Vec<_> =
            asked.into_values().filter(|asked| asked.decision.is_none()).map(|asked| asked.request).collect();
        let mut input = RunInput::resume(thread);
        for question in open {
            if self.world.happens(200) {
                continue;
            }
            input = self.answer(input, &question);
        }
        input
    }

    fn answer(&self, input: RunInput, question: &ActionRequest) -> RunInput {
        let tag = question.args.get("tag").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let asks = question.tool == Operation::Ask.tool();
        let subject = if asks { question.text.clone() } else { tag.clone() };
        let about = || format!("About {subject}");
        let decision = match World::decision(&subject, &question.tool) {
            deepagents::DecisionKind::Approve => Decision::Approve,
            deepagents::DecisionKind::Edit => {
                let args = json!({"tag": tag, "edited": true});
                Decision::Edit { edited_action: EditedAction { name: question.tool.clone(), args } }
            }
            deepagents::DecisionKind::Respond => Decision::Respond { message: about() },
            _ => Decision::Reject { message: Some(about()) },
        };
        self.world.note(&format!("{} is decided: {}", question.id, decision.kind()));
        self.world.lock().decided.insert(tag);
        input.decide(question.id.as_str(), decision)
    }

    /// Executes a run, with disturbances.
    async fn round(&self, works: &ProcessAgent) -> Result<()> {
        let world = &self.world;
        let (mut input, seen) = self.input(works).await?;
        if world.below(2) == 0 {
            input = input.take_over();
        }
        match world.below(12) {
            // Some deadlines expire before the run has resumed anything.
            0 if world.below(2) == 0 => input = input.timeout(Duration::from_nanos(1)),
            0 => input = input.timeout(world.random_time(8_000) + Duration::from_millis(1)),
            1 => input = input.budget(Budget::default().tool_calls(world.below(6))),
            2 => input = input.budget(Budget::default().tokens(world.below(2_000))),
            3 => input = input.max_model_calls(1 + u32::try_from(world.below(8))?),
            _ => {}
        }
        let claims = || self.world.lock().claims.len();
        let before = claims();
        let ended = attempt(world, &works.process, &works.agent, (&world.thread(), input, seen), |run| {
            self.disturb(works, run)
        })
        .await;
        match ended {
            Ended::Outcome(outcome) => {
                let questions = outcome.action_requests().len();
                // A suspended run leaves pending interrupts to the run that resumes.
                let may_wait = matches!(outcome.stop, FinishReason::Interrupted | FinishReason::Suspended);
                let fits = if questions > 0 { may_wait } else { outcome.stop != FinishReason::Interrupted };
                world.note(&format!("ended with {:?}, {questions} questions", outcome.stop));
                world.check(fits, || format!("ended with {:?} and {questions} questions", outcome.stop));
                // Otherwise another process may have continued meanwhile.
                if claims() <= before + 1 {
                    invariants::check_outcome(world, &works.agent, &outcome).await?;
                }
            }
            Ended::Failed(error) => {
                if let deepagents::Error::Journal(JournalError::Busy { .. }) = &*error.error {
                    tokio::time::sleep(LEASE).await;
                }
            }
            Ended::Crashed => world.note("crashed"),
        }
        Ok(())
    }

    /// Disturbs a run in flight.
    async fn disturb(&self, works: &ProcessAgent, run: RunHandle) {
        let world = &self.world;
        tokio::time::sleep(world.random_time(6_000)).await;
        if run.is_finished() || works.process.has_ended() {
            return;
        }
        let deed = world.below(14);
        if deed < 10 {
            world.fault(DEEDS.get(usize::try_from(deed).unwrap_or(0)).copied().unwrap_or_default());
        }
        match deed {
            0 => run.cancel(),
            1 => run.suspend(),
            2 => works.process.end(),
            3 => {
                let jump = i64::try_from(world.below(240_000)).unwrap_or(0) - 120_000;
                world.clock.jump(jump);
            }
            4 => self.say(|text| run.steer(text)),
            5 => self.say(|text| run.enqueue(text)),
            6 => self.cancel_some_agent(&run).await,
            7..10 => self.take_over_by_rival(works, deed).await,
            _ => {}
        }
    }

    fn say(&self, say: impl FnOnce(String) -> bool) {
        let text = format!("said:{};", self.world.lock().accepted.len());
        if say(text.clone()) {
            self.world.lock().accepted.push(text);
        }
    }

    /// Cancels a sub-agent, if there is one.
    async fn cancel_some_agent(&self, run: &RunHandle) {
        let Ok(agents) = deepagents_core::journal::sub_agents(&*self.world.journal, &self.world.thread()).await else {
            return;
        };
        let at = usize::try_from(self.world.below(agents.len() as u64)).unwrap_or(0);
        if let Some(agent) = agents.get(at) {
            run.cancel_agent(&agent.path);
        }
    }

    /// Another process takes over the thread while the first one is frozen or working.
    async fn take_over_by_rival(&self, works: &ProcessAgent, deed: u64) {
        let world = &self.world;
        if deed > 7 {
            works.process.freeze();
            tokio::time::sleep(world.random_time(90_000)).await;
        }
        if let Ok(rival) = self.begin_process(2)
            && let Ok((mut input, seen)) = self.input(&rival).await
        {
            if deed != 8 {
                input = input.take_over();
            }
            let thread = world.thread();
            let ended = Box::pin(attempt(world, &rival.process, &rival.agent, (&thread, input, seen), |_| async {
                tokio::time::sleep(world.random_time(4_000)).await;
                works.process.thaw();
            }));
            if let Ended::Outcome(outcome) = ended.await {
                world.note(&format!("a rival ended with {:?}", outcome.stop));
            }
            rival.process.end();
        }
        works.process.thaw();
    }

    /// Finishes the thread without further faults.
    async fn finish_without_faults(&self, works: &ProcessAgent) -> Result<Option<Outcome>> {
        let world = &self.world;
        let mut told = 0;
        let thread = world.thread();
        for _ in 0..MAX_RUNS {
            let tasks = works.agent.background(&thread).await?;
            let at_work = tasks
                .iter()
                .any(|task| !matches!(task.status, RunStatus::Ended | RunStatus::Failed | RunStatus::Empty));
            for task in tasks.iter().filter(|task| task.status == RunStatus::Interrupted) {
                let open = task.report(works.agent.schema().clone(), None).await?.action_requests;
                let resume = RunInput::resume(task.thread.as_str()).take_over();
                let input = open.iter().fold(resume, |input, question| self.answer(input, question));
                let input = (task.thread.as_str(), input, world.lock().claims.len());
                if let Ended::Failed(error) = attempt(world, &works.process, &works.agent, input, |_| async {}).await {
                    world.broken(&format!("a task in the background cannot be answered: {error}"));
                    return Ok(None);
                }
            }
            let (input, seen) = self.input(works).await?;
            let input = (&*thread, input.take_over(), seen);
            let outcome = match attempt(world, &works.process, &works.agent, input, |_| async {}).await {
                Ended::Outcome(outcome) => outcome,
                Ended::Failed(error) => {
                    world.broken(&format!("a run in peace failed: {error}"));
                    return Ok(None);
                }
                Ended::Crashed => return Ok(None),
            };
            invariants::check_outcome(world, &works.agent, &outcome).await?;
            world.note(&format!("in peace: {:?}", outcome.stop));
            if outcome.stop == FinishReason::Done && !at_work {
                // Results that arrived meanwhile are reported by the next run at the latest.
                told += 1;
                if told == 2 || tasks.is_empty() {
                    return Ok(Some(*outcome));
                }
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        world.broken(&format!("the thread comes to no end in {MAX_RUNS} runs"));
        ensure!(!world.lock().broken.is_empty(), "it is noted");
        Ok(None)
    }
}

/// The disturbances of a run, for the trace.
const DEEDS: [&str; 10] = [
    "a cancel",
    "a suspend",
    "the end of the process",
    "a jump of the clock",
    "a word",
    "a follow-up",
    "a cancelled sub-agent",
    "a rival takes over",
    "a frozen process, and a rival that waits",
    "a frozen process, and a rival that takes over",
];
