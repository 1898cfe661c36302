//! The last events of a run.

use std::collections::BTreeMap;

use deepagents::FinishReason;
use deepagents_core::state::State;
use serde_json::{Value, json};

use super::Projector;
use crate::runs::StoppedEarly;
use crate::stream::event::{EventId, Kind, RunEnd};
use crate::stream::log::Final;
use crate::stream::task::TaskEnd;
use crate::wire::{OpenInterrupt, open_interrupts};

impl Projector {
    /// Numbers the following events as those of the run's end.
    fn at_end(&mut self) {
        self.numbers.record = self.numbers.record.max(EventId::LAST);
    }

    /// Reports that the run finished by itself: its last state, any pending interrupts, and an error if it stopped
    /// early.
    pub(crate) fn ended(mut self, state: &State, stop: Option<&FinishReason>) {
        self.at_end();
        let open = open_interrupts(&self.run.thread, state);
        self.end_tasks(|task| {
            let asks = |open: &&OpenInterrupt| task.call.as_ref().is_some_and(|call| open.waits_in(call));
            let asked: Vec<Value> = open.iter().filter(asks).map(OpenInterrupt::to_json).collect();
            (!asked.is_empty()).then_some(TaskEnd::Interrupted(asked))
        });
        let by_agent: BTreeMap<Vec<String>, Vec<Value>> = open.iter().fold(BTreeMap::new(), |mut all, open| {
            all.entry(open.path.clone()).or_default().push(open.to_json());
            all
        });
        for (path, asked) in by_agent.into_iter().filter(|(path, _)| !path.is_empty()) {
            self.push(&path, Kind::Interrupted(asked.clone()));
            self.show_values(&path, asked);
            self.push(&path, Kind::AgentEnded(RunEnd::Interrupted));
        }
        let asked: Vec<Value> = open.iter().map(|open| open.to_json()).collect();
        let paused = !asked.is_empty() || stop == Some(&FinishReason::Suspended);
        if paused {
            self.push(&[], Kind::Interrupted(asked.clone()));
        }
        self.run.log.set_last(Final::State(state.clone()));
        if !asked.is_empty() || self.view(&[]).changed {
            self.push(&[], Kind::Values { state: state.clone(), interrupts: asked });
        }
        for open in open {
            self.push(&open.path, Kind::InputRequested { id: open.id.clone(), value: open.value.clone() });
        }
        if let Some(error) = stop.and_then(StoppedEarly::of) {
            return self.failed(error.kind, &error.message);
        }
        let end = if paused { RunEnd::Interrupted } else { RunEnd::Completed };
        self.push(&[], Kind::RunEnded(end));
    }

    /// Reports that the run was ended from outside.
    pub(crate) fn cancelled(mut self) {
        self.at_end();
        self.push(&[], Kind::RunEnded(RunEnd::Interrupted));
    }

    /// Reports that the run failed.
    pub(crate) fn failed(mut self, kind: &str, text: &str) {
        self.at_end();
        self.end_tasks(|_| Some(TaskEnd::Failed { kind: kind.to_owned(), message: text.to_owned() }));
        self.run.log.set_last(Final::Error(json!({"error": kind, "message": text})));
        self.push(&[], Kind::Failed { kind: kind.to_owned(), message: text.to_owned() });
        self.push(&[], Kind::RunEnded(RunEnd::Failed(text.to_owned())));
    }
}
