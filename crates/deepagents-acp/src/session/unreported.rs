//! What the events of a prompt's runs do not report: images in results, and text that a slow editor has missed.

use std::collections::HashMap;

use deepagents::core::message::MessageId;
use deepagents::core::tool::CallId;
use deepagents::{Block, Event, EventKind, Message, RunHandle, State};

use crate::show::Presenter;

/// What is still to be shown from the state, because the events do not hold it.
#[derive(Default)]
pub(super) struct Unreported {
    /// The last complete answer.
    answer: Option<MessageId>,
    /// Its finished calls, by provider call ID. Their results may contain images.
    finished: HashMap<String, CallId>,
}

impl Unreported {
    /// Shows what an event, which was shown before, makes available.
    pub(super) async fn event(&mut self, event: &Event, run: &RunHandle, presenter: &mut Presenter<'_>) {
        if !event.path.is_empty() {
            return;
        }
        match &event.kind {
            EventKind::ToolFinished { call, id, .. } => {
                self.finished.insert(id.clone(), call.clone());
            }
            // By the next model call, the results are part of the conversation. A slow editor may miss its start.
            EventKind::ModelStarted { .. } if !self.finished.is_empty() => {
                self.images(&event.run, &run.snapshot().await.state, presenter);
            }
            EventKind::ModelFinished { turn, attempt, message, .. } => {
                if !self.finished.is_empty() || presenter.is_behind() {
                    let state = run.snapshot().await.state;
                    self.images(&event.run, &state, presenter);
                    if presenter.is_behind() {
                        let answer = state.messages().iter().rev().find(|answer| answer.id() == message);
                        let text = answer.map(|answer| joined(answer)).unwrap_or_default();
                        presenter.catch_up(&event.run, (*turn, *attempt), &text);
                    }
                }
                self.finished.clear();
                self.answer = Some(message.clone());
            }
            _ => {}
        }
    }

    /// Shows what is left at the end of a run: the images of its last calls, and the answer of a hook, of which no
    /// event reports that it is complete.
    pub(super) fn ended(&mut self, run: &str, state: &State, presenter: &mut Presenter<'_>) {
        self.images(run, state, presenter);
        let last = state.messages().last().filter(|last| last.as_assistant().is_some());
        if let Some(last) = last.filter(|last| self.answer.as_deref() != Some(last.id())) {
            presenter.catch_up_at_end(run, &joined(last));
        }
    }

    /// Shows the images in the results of the last answer. While one of its calls waits for a decision, there are none.
    fn images(&mut self, run: &str, state: &State, presenter: &Presenter<'_>) {
        let answer = state.messages().iter().rposition(|message| Some(message.id()) == self.answer.as_deref());
        for result in answer.into_iter().flat_map(|answer| state.messages().results_of(answer)) {
            if let Some(call) = self.finished.remove(&result.call_id) {
                presenter.images(run, &call, &result.content);
            }
        }
    }
}

/// Returns the text of a message joined like its pieces, with nothing between two blocks.
fn joined(message: &Message) -> String {
    message.content().iter().filter_map(Block::as_text).collect()
}
