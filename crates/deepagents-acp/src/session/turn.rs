//! A prompt turn, from the message to the stop reason.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use deepagents::channels::Todos;
use deepagents::core::message::{MessageId, MessageOp};
use deepagents::core::state::MessagesChannel;
use deepagents::middleware::rubric::{RubricText, RubricUntilMet};
use deepagents::{
    Event, EventStream, FinishReason, Message, Outcome, RunError, RunHandle, RunInput, State, Subscribe, Update,
};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::commands::Prompt;
use super::unreported::Unreported;
use super::{QueuedPrompt, Session};
use crate::host::{AgentHost, SessionAgent};
use crate::policy::Mode;
use crate::prompt;
use crate::queue::Turn;
use crate::show::{Presenter, replay};
use crate::wire;

/// How long to wait for a cancelled run before answering the editor. Output until then is shown; the next prompt waits
/// for the end of the run.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(50);

/// The message for the model with each prompt in plan mode.
const PLANNING: &str = "This is a message of the system, not of the user: plan mode is on. Change nothing and run \
                        nothing. Look around, and end with a plan of what is to be done.";

/// A prompt that is ready to run.
struct Accepted {
    input: RunInput,
    /// The metadata to store with the thread.
    note: Map<String, Value>,
    /// The messages of the conversation before the prompt.
    known: HashSet<MessageId>,
}

impl<H: AgentHost> Session<H> {
    /// Handles a prompt that was [registered](Self::register_prompt).
    pub(crate) async fn prompt(
        self: Arc<Self>,
        blocks: Vec<wire::ContentBlock>,
        queued: QueuedPrompt,
    ) -> Result<wire::StopReason, wire::Error> {
        let QueuedPrompt { number, cancel, place } = queued;
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(wire::StopReason::Cancelled),
            turn = place => self.work(blocks, &cancel, turn).await,
        };
        self.answered(number);
        result
    }

    async fn work(
        &self,
        blocks: Vec<wire::ContentBlock>,
        cancel: &CancellationToken,
        turn: Turn,
    ) -> Result<wire::StopReason, wire::Error> {
        let title = blocks.iter().find_map(|block| match block {
            wire::ContentBlock::Text(text) => Some(text.text.clone()),
            _ => None,
        });
        let (blocks, goal) = match self.command(blocks) {
            Prompt::Work { blocks, goal } => (blocks, goal),
            Prompt::Done(text) => {
                self.editor.say(text);
                return Ok(wire::StopReason::EndTurn);
            }
        };
        let message = prompt::message(blocks, &self.cwd)?;
        let note = self.note(&title.unwrap_or_default()).await?;
        let agent = self.agent();
        let state = agent.agent.state(self.thread()).await.map_err(|error| wire::failed(&error))?;
        let todos = state.get::<Todos>().cloned().unwrap_or_default();
        let spending = self.spending(&agent).await;
        let mut presenter = Presenter::new(&self.editor, &self.cwd, agent.context_window, spending, todos);
        let known = state.messages().iter().map(|message| message.id().to_owned()).collect();
        let mut input = self.input(message);
        if let Some(goal) = goal {
            let goal = agent.agent.receive_text(goal).map_err(|error| wire::failed(&error))?;
            input = input.update(Update::new::<RubricText>(Some(goal)).with::<RubricUntilMet>(true));
        }
        let accepted = Accepted { input, note, known };
        self.follow(&agent, accepted, cancel, turn, &mut presenter).await
    }

    /// Builds the run input for a message.
    fn input(&self, message: Message) -> RunInput {
        let mut input = RunInput::messages([message]);
        if self.policy.mode() == Mode::Plan {
            input = input.message(Message::harness(PLANNING));
        }
        input.thread(self.thread())
    }

    /// Follows the run, and the runs that resume it after interrupts, to the end.
    async fn follow(
        &self,
        agent: &SessionAgent,
        accepted: Accepted,
        cancel: &CancellationToken,
        turn: Turn,
        presenter: &mut Presenter<'_>,
    ) -> Result<wire::StopReason, wire::Error> {
        let Accepted { mut input, note, known } = accepted;
        let mut unreported = Unreported::default();
        loop {
            let run = agent.agent.run(input.note(note.clone())).detach();
            let Some(ended) = self.show(&run, cancel, presenter, &mut unreported).await else {
                presenter.close("Cancelled");
                // The next prompt waits for the end of the run.
                tokio::spawn(async move {
                    let _ = run.outcome().await;
                    drop(turn);
                });
                return Ok(wire::StopReason::Cancelled);
            };
            let outcome = ended.map_err(|failed| {
                presenter.close("The run failed");
                wire::failed(&failed)
            })?;
            if outcome.stop != FinishReason::Interrupted {
                presenter.close(outcome.stop.reason());
                if outcome.stop == FinishReason::Refused {
                    self.take_back(agent, &known, &outcome.state).await?;
                }
                return Ok(stop_reason(&outcome.stop));
            }
            let questions = outcome.action_requests();
            let decisions = tokio::select! {
                biased;
                () = cancel.cancelled() => Ok(None),
                decided = self.decide(run.id(), &questions, &outcome.state, presenter) => decided,
            };
            let decisions = decisions.map_err(|error| {
                presenter.close("Nobody was asked");
                wire::failed(&error)
            })?;
            let Some(decisions) = decisions else {
                presenter.close("Cancelled");
                return Ok(wire::StopReason::Cancelled);
            };
            let resume = RunInput::resume(self.thread());
            input = decisions.into_iter().fold(resume, |input, (id, decision)| input.decide(id, decision));
        }
    }

    /// Removes a refused prompt and everything after it from the conversation. ACP promises that neither is part of the
    /// next prompt.
    async fn take_back(
        &self,
        agent: &SessionAgent,
        known: &HashSet<MessageId>,
        state: &State,
    ) -> Result<(), wire::Error> {
        let messages = state.messages().iter().map(|message| message.id().to_owned());
        let gone: Vec<MessageOp> = messages.filter(|id| !known.contains(id)).map(MessageOp::Remove).collect();
        let update = Update::new::<MessagesChannel>(gone);
        agent.agent.update_state(self.thread(), update).await.map(drop).map_err(|error| wire::failed(&error))
    }

    /// Shows a run until it ends. Returns `None` if it is cancelled before.
    async fn show(
        &self,
        run: &RunHandle,
        cancel: &CancellationToken,
        presenter: &mut Presenter<'_>,
        unreported: &mut Unreported,
    ) -> Option<Result<Outcome, Box<RunError>>> {
        let mut events = run.subscribe(Subscribe::Start);
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                event = self.next_event(&mut events) => match event {
                    Some(event) => {
                        presenter.event(&event);
                        unreported.event(&event, run, presenter).await;
                    }
                    None => {
                        let ended = run.outcome().await;
                        if let Ok(outcome) = &ended {
                            unreported.ended(run.id(), &outcome.state, presenter);
                        }
                        return Some(ended);
                    }
                },
            }
        }
        let snapshot = tokio::task::unconstrained(run.snapshot()).now_or_never();
        let partial = snapshot.and_then(|snapshot| snapshot.answer().cloned());
        // The person who cancels has read the output so far.
        run.interrupt();
        // Does not wait for a slow editor: the run keeps what is left in any case.
        let rest = async {
            while let Some(event) = events.next().await {
                presenter.event(&event);
                unreported.event(&event, run, presenter).await;
            }
        };
        // If it takes longer, the run ends in the background.
        let _ = tokio::time::timeout(CANCEL_TIMEOUT, rest).await;
        // No event reports the end of an interrupted answer.
        if let Some(partial) = partial.filter(|_| presenter.is_behind()) {
            presenter.catch_up(run.id(), (partial.turn, partial.attempt), &partial.text);
        }
        None
    }

    /// Returns the next event once the editor has read enough of the earlier ones. The run goes on meanwhile; what the
    /// stream then drops is [caught up with](Presenter::catch_up).
    async fn next_event(&self, events: &mut EventStream) -> Option<Event> {
        self.editor.has_room().await;
        events.next().await
    }

    /// Sends the conversation so far to the editor.
    pub(crate) async fn replay_conversation(&self) -> Result<(), wire::Error> {
        let agent = self.agent();
        let state = agent.agent.state(self.thread()).await.map_err(|error| wire::failed(&error))?;
        let spending = self.spending(&agent).await;
        replay(&self.editor, &self.cwd, &state, agent.context_window, &spending);
        Ok(())
    }
}

/// Converts the finish reason to that of the protocol.
fn stop_reason(stop: &FinishReason) -> wire::StopReason {
    match stop {
        FinishReason::TokenLimit => wire::StopReason::MaxTokens,
        FinishReason::StepLimit | FinishReason::NoProgress | FinishReason::Budget(_) | FinishReason::Deadline => {
            wire::StopReason::MaxTurnRequests
        }
        FinishReason::Refused => wire::StopReason::Refusal,
        FinishReason::Cancelled | FinishReason::Suspended => wire::StopReason::Cancelled,
        _ => wire::StopReason::EndTurn,
    }
}
