//! The progress of a replay through its recording.

use std::collections::{HashMap, HashSet, VecDeque};

use deepagents_core::interrupt::ActionRequest;
use deepagents_core::tool::CallId;
use deepagents_models::recording::{Exchange, first_difference};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::events::{Compared, Lane, Scrub, kind};
use super::line::ToolLine;
use super::{Divergence, RunRecording};

#[derive(Default)]
pub(super) struct State {
    pub(super) lanes: HashMap<Lane, Expected>,
    /// Number of recorded events that have not occurred yet.
    pub(super) left: usize,
    /// Recorded exchanges that have not been used yet.
    pub(super) exchanges: HashMap<Vec<String>, Vec<Exchange>>,
    pub(super) calls: HashMap<CallId, VecDeque<ToolLine>>,
    /// The questions of each call so far, asked again every time the call is made again.
    pub(super) asked: HashMap<CallId, Vec<ActionRequest>>,
    /// The turns, by the path of their agent, with calls answered from the recording.
    pub(super) answered: HashSet<(Vec<String>, u32)>,
    pub(super) divergence: Option<Divergence>,
    pub(super) cancel: Option<CancellationToken>,
    /// Whether an incomplete recording was played to its end.
    pub(super) is_over: bool,
    /// Events of the current run beyond the end of an incomplete recording.
    pub(super) beyond: HashSet<u64>,
}

/// The recorded events of a lane.
#[derive(Default)]
pub(super) struct Expected {
    pub(super) events: Vec<Value>,
    pub(super) at: usize,
    pub(super) scrub: Scrub,
}

impl Expected {
    pub(super) fn rest(&self) -> impl Iterator<Item = &Value> {
        self.events.iter().skip(self.at)
    }
}

impl State {
    /// Creates the state at the start of a recording.
    pub(super) fn new(recording: &RunRecording) -> Self {
        let mut lanes: HashMap<Lane, Expected> = HashMap::new();
        let mut left = 0;
        for event in recording.split_events().0 {
            let Some(Compared { lane, mut value }) = Compared::from_event(event) else { continue };
            let lane = lanes.entry(lane).or_default();
            lane.scrub.scrub(&mut value);
            lane.events.push(value);
            left += 1;
        }
        // The replayed events are numbered from the start.
        lanes.values_mut().for_each(|lane| lane.scrub = Scrub::default());
        let (exchanges, calls) = (recording.models.exchanges.clone(), recording.calls.clone());
        Self { lanes, left, exchanges, calls, ..Self::default() }
    }

    /// Returns the first event that has not occurred, preferring the agent closest to the main one.
    pub(super) fn missing(&self) -> Option<Divergence> {
        let open = self.lanes.iter().filter_map(|(lane, expected)| Some((lane, expected, expected.rest().next()?)));
        let (lane, expected, event) = open.min_by_key(|(lane, ..)| *lane)?;
        Some(Divergence::MissingEvent { path: lane.path.clone(), at: expected.at, kind: kind(event).to_owned() })
    }

    /// Returns a request that was not made. Skips requests outside the conversation in turns whose calls were answered
    /// from the recording: a call that was not executed may have made them.
    pub(super) fn unasked(&self) -> Option<Divergence> {
        let all = self.exchanges.iter().flat_map(|(path, all)| all.iter().map(move |exchange| (path, exchange)));
        let unplayed = all
            .filter(|(path, exchange)| !exchange.aside || !self.answered.contains(&((*path).clone(), exchange.turn)));
        let (path, exchange) = unplayed.min_by_key(|(path, exchange)| (path.len(), exchange.turn))?;
        Some(Divergence::NoLongerAsked { path: path.clone(), turn: exchange.turn })
    }

    /// Compares an event with the recorded one. Returns `false` if the recording has no more events in the lane.
    pub(super) fn compare(&mut self, compared: Compared) -> Result<bool, Divergence> {
        let Compared { lane, mut value } = compared;
        let path = lane.path.clone();
        let expected = self.lanes.entry(lane).or_default();
        expected.scrub.scrub(&mut value);
        let Some(event) = expected.events.get(expected.at) else { return Ok(false) };
        // Ignores fields that are newer than the recording.
        if let (Some(fields), Some(known)) = (value.as_object_mut(), event.as_object()) {
            fields.retain(|name, _| known.contains_key(name));
        }
        if let Some(difference) = first_difference(event, &value) {
            return Err(Divergence::Event {
                path,
                at: expected.at,
                kind: kind(event).to_owned(),
                difference: Box::new(difference),
            });
        }
        expected.at += 1;
        self.left -= 1;
        Ok(true)
    }
}
