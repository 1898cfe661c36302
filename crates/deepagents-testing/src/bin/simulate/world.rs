//! Everything outside the processes: randomness, the storage, external effects, and detected violations.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deepagents::DecisionKind;
use deepagents_core::journal::{LogPosition, MemoryJournal, Record};
use fastrand::Rng;

use super::branches::{Branches, Change};
use super::clock::{SharedClock, SharedIds, WorldClock};
use super::scenario::{Operation, Scenario};
use super::script::{Tag, View};

/// State shared by all processes of a seed.
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) clock: Arc<WorldClock>,
    pub(crate) ids: SharedIds,
    /// The storage without faults.
    pub(crate) journal: Arc<MemoryJournal>,
    /// Whether everything that happens is printed.
    traces: bool,
    known: Mutex<WorldState>,
}

/// What is known of a world so far.
#[derive(Debug)]
pub(crate) struct WorldState {
    pub(crate) rng: Rng,
    /// Whether faults are injected.
    pub(crate) disturbed: bool,
    pub(crate) faults: u64,
    /// Descriptions of detected violations.
    pub(crate) broken: Vec<String>,
    /// A hash of everything that happened, in order. It is the same for the same seed.
    digest: DefaultHasher,
    /// The current thread.
    pub(crate) thread: String,
    /// Number of thread names used so far.
    threads: u64,
    /// The calls in the log of the current thread.
    pub(crate) branches: Branches,
    /// The epoch of the last claim of each thread.
    pub(crate) owners: BTreeMap<String, u64>,
    /// The processes that claimed the current thread, in order.
    pub(crate) claims: Vec<u64>,
    /// How often each call started, according to the logs.
    pub(crate) started: BTreeMap<String, usize>,
    /// The results of calls, according to the logs.
    pub(crate) finished: BTreeMap<String, String>,
    /// For each call, the threads and keys under which it took effect.
    pub(crate) effects: BTreeMap<String, Vec<(String, String)>>,
    /// For each key of an effect, the thread and call that it belongs to.
    keys: BTreeMap<String, (String, String)>,
    /// The results that models were shown.
    pub(crate) shown: BTreeMap<String, String>,
    pub(crate) requests: u64,
    /// How often each call with a question of its own was made.
    pub(crate) asking: BTreeMap<String, usize>,
    /// Calls that were decided on.
    pub(crate) decided: BTreeSet<String>,
    /// The messages that runs accepted while in flight.
    pub(crate) accepted: Vec<String>,
}

impl World {
    pub(crate) fn new(seed: u64, traces: bool) -> Arc<Self> {
        let mut rng = Rng::with_seed(seed);
        let scenario = Scenario::draw(&mut rng);
        let clock = WorldClock::new();
        let journal = Arc::new(MemoryJournal::with_clock(Arc::new(SharedClock(clock.clone()))));
        let known = WorldState {
            rng,
            disturbed: true,
            faults: 0,
            broken: Vec::new(),
            digest: DefaultHasher::new(),
            thread: "t".to_owned(),
            threads: 1,
            branches: Branches::default(),
            owners: BTreeMap::new(),
            claims: Vec::new(),
            started: BTreeMap::new(),
            finished: BTreeMap::new(),
            effects: BTreeMap::new(),
            keys: BTreeMap::new(),
            shown: BTreeMap::new(),
            requests: 0,
            asking: BTreeMap::new(),
            decided: BTreeSet::new(),
            accepted: Vec::new(),
        };
        Arc::new(Self { scenario, clock, ids: SharedIds::default(), journal, traces, known: Mutex::new(known) })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, WorldState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a random number below `end`.
    pub(crate) fn below(&self, end: u64) -> u64 {
        self.lock().rng.u64(0..end.max(1))
    }

    /// Returns whether an event with this chance per thousand happens.
    pub(crate) fn happens(&self, chance: u32) -> bool {
        let mut known = self.lock();
        known.disturbed && known.rng.u32(0..1000) < chance
    }

    /// Returns a random time of up to this many milliseconds.
    pub(crate) fn random_time(&self, most_ms: u64) -> Duration {
        Duration::from_millis(self.below(most_ms + 1))
    }

    pub(crate) fn fault(&self, what: &str) {
        self.note(what);
        self.lock().faults += 1;
    }

    /// Records a violation.
    pub(crate) fn broken(&self, what: &str) {
        self.note(&format!("BROKEN: {what}"));
        let at = self.clock.ms();
        self.lock().broken.push(format!("at {at} ms: {what}"));
    }

    pub(crate) fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken(&what());
        }
    }

    pub(crate) fn note(&self, what: &str) {
        let at = self.clock.ms();
        if self.traces {
            trace(at, what);
        }
        let mut known = self.lock();
        at.hash(&mut known.digest);
        known.note(what);
    }

    /// Records that a call takes effect. This may happen in a process that has lost its thread meanwhile, because the
    /// call started before.
    pub(crate) fn effect(&self, thread: &str, tag: &str, key: &str, repeatable: bool) {
        self.note(&format!("effect {tag} {key} in {thread}"));
        let mut known = self.lock();
        let started = known.started.get(tag).copied().unwrap_or(0);
        let own = (thread.to_owned(), tag.to_owned());
        let elsewhere = *known.keys.entry(key.to_owned()).or_insert_with(|| own.clone()) != own;
        let undecided = self.gated(tag).into_iter().find(|gated| !known.decided.contains(gated));
        let keys = known.effects.entry(tag.to_owned()).or_default();
        keys.push((thread.to_owned(), key.to_owned()));
        // A copy of a thread makes calls of its own, with keys of their own.
        let same = keys.iter().all(|(of, other)| (of == thread) == (other == key));
        let times = keys.len();
        drop(known);
        self.check(undecided.is_none(), || format!("call {tag} is made, and nobody has decided about {undecided:?}"));
        self.check(times <= started, || format!("call {tag} takes effect {times} times and began {started} times"));
        self.check(times == 1 || repeatable, || format!("call {tag} may not be repeated and is"));
        self.check(same && !elsewhere, || format!("the key of call {tag} is not its own: {key}"));
    }

    /// Returns the calls in the same turn that a person must decide on before any of them is made.
    fn gated(&self, tag: &str) -> Vec<String> {
        let Some(tag) = Tag::parse(tag) else { return Vec::new() };
        let turn = self.scenario.find(&tag.agent).and_then(|agent| agent.turns.get(tag.turn));
        let gated = |(_, operation): &(usize, &Operation)| matches!(operation, Operation::Pay | Operation::Steal);
        let beside = turn.into_iter().flatten().enumerate().filter(gated);
        beside.map(|(at, _)| Tag { at, ..tag.clone() }.to_string()).collect()
    }

    /// Records that a model is called.
    pub(crate) fn asked(&self, view: &View) {
        self.note(&format!("asked {} after {:?}", view.agent, view.last));
        let mut broken = Vec::new();
        let mut known = self.lock();
        known.requests += 1;
        for (tag, text) in &view.results {
            if let Some(logged) = known.finished.get(tag).filter(|logged| *logged != text) {
                broken.push(format!("the log has {logged:?} for {tag}, and {text:?} is shown"));
            }
            let before = known.shown.entry(tag.clone()).or_insert_with(|| text.clone()).clone();
            if before != *text {
                broken.push(format!("the result of {tag} was {before:?} and is {text:?}"));
            }
        }
        drop(known);
        broken.into_iter().for_each(|what| self.broken(&what));
    }

    /// Returns the current thread.
    pub(crate) fn thread(&self) -> String {
        self.lock().thread.clone()
    }

    /// Returns a new thread name.
    pub(crate) fn next_thread(&self) -> String {
        let mut known = self.lock();
        known.threads += 1;
        format!("t{}", known.threads)
    }

    /// Continues with a copy of the whole thread or of its log up to a position.
    pub(crate) fn switch_to_copy(&self, copy: &str, until: Option<LogPosition>) {
        self.note(&format!("{copy} is worked on, a copy until {until:?}"));
        let mut known = self.lock();
        copy.clone_into(&mut known.thread);
        if let Some(end) = until {
            known.branches.cut(end);
            known.go_back(end);
        }
    }

    /// Records an append to a log.
    pub(crate) fn appended(&self, thread: &str, epoch: u64, end: u64, records: &[Record]) {
        self.note(&format!("appended to {thread} up to {end}"));
        let owner = self.lock().owners.get(thread).copied();
        self.check(owner == Some(epoch), || format!("owner {epoch} of {thread} appends, and {owner:?} has claimed it"));
        for (position, record) in (end - records.len() as LogPosition..).zip(records) {
            let mut record = record;
            while let Record::Child { entry, .. } = record {
                record = entry;
            }
            let change = match record {
                Record::ToolStarted { provider_call_id, .. } => {
                    let ended = self.lock().finished.contains_key(provider_call_id);
                    self.check(!ended, || format!("call {provider_call_id} had finished and begins again"));
                    *self.lock().started.entry(provider_call_id.clone()).or_default() += 1;
                    Change::Started(provider_call_id.clone())
                }
                Record::ToolFinished { message, .. } => {
                    let text = deepagents::Message::Tool((**message).clone()).text();
                    let before = self.lock().finished.insert(message.call_id.clone(), text.clone());
                    self.check(before.is_none(), || format!("call {} has two results", message.call_id));
                    Change::Finished(message.call_id.clone(), text)
                }
                Record::Rewind { to, .. } => {
                    let mut known = self.lock();
                    known.branches.rewound(position, *to);
                    known.go_back(*to);
                    continue;
                }
                _ => continue,
            };
            let mut known = self.lock();
            if known.thread == thread {
                known.branches.add(position, change);
            }
        }
    }

    /// Returns the decision on a call or its question. It is the same each time.
    pub(crate) fn decision(about: &str, tool: &str) -> DecisionKind {
        let mut hasher = DefaultHasher::new();
        about.hash(&mut hasher);
        match (tool, hasher.finish() % 3) {
            ("steal", _) => DecisionKind::Reject,
            (_, 0) => DecisionKind::Approve,
            ("pay", _) => DecisionKind::Edit,
            (_, 1) => DecisionKind::Reject,
            _ => DecisionKind::Respond,
        }
    }
}

impl WorldState {
    pub(crate) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// Restores what is known to a log position. Calls that had not finished there will be made again.
    fn go_back(&mut self, to: LogPosition) {
        let calls = self.branches.at(to);
        (self.started, self.finished) = (calls.started, calls.finished);
        let finished = &self.finished;
        self.effects.retain(|tag, _| finished.contains_key(tag));
        // Results shown on an abandoned branch do not matter.
        self.shown.retain(|tag, text| finished.get(tag).map(String::as_str) == Some(text.as_str()));
    }

    /// Records that a part of a log was removed.
    pub(crate) fn removed(&mut self, thread: &str, positions: Range<LogPosition>) {
        if self.thread == thread {
            self.branches.removed(positions);
        }
    }

    fn note(&mut self, what: &str) {
        what.hash(&mut self.digest);
    }
}

#[allow(clippy::print_stdout, reason = "a program's output")]
fn trace(at: i64, what: &str) {
    println!("{at:>9} {what}");
}
