//! The thread of a run: claiming, loading and releasing it, or creating it for a background agent.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::AGENT;
use crate::context::AgentDefinition;
use crate::error::{Error, Result};
use crate::interrupt::answers_to;
use crate::journal::{Claim, Journal, JournalError, NOTED_BY, Record, Replay, load_intact, load_replay};
use crate::panics::lock;
use crate::run::RunInput;
use crate::run::driver::{Driver, NewThread};
use crate::run::log::Log;

/// Default lease on the thread: how long it stays locked after the run's process dies.
const DEFAULT_LEASE: Duration = Duration::from_secs(60);

/// Returns the metadata to set on a run's thread, with the owner that sets it.
fn metadata_of(agent: &AgentDefinition, input: &RunInput, owner: &str) -> Option<Map<String, Value>> {
    let mut note = agent.process.as_ref().map(|process| process.metadata()).unwrap_or_default();
    note.extend(input.note.clone());
    if note.is_empty() {
        return None;
    }
    note.insert(NOTED_BY.to_owned(), owner.into());
    Some(note)
}

impl Driver {
    /// Claims a thread and loads it.
    pub(super) async fn open_thread(
        &mut self,
        journal: Arc<dyn Journal>,
        thread: String,
        input: &RunInput,
    ) -> Result<Replay> {
        let parts = self.shared.agent.clone();
        if input.resume && input.take_over && !input.answers.is_empty() {
            // Checked before the takeover: an invalid answer must not end the run that works on the thread.
            let loaded = load_replay(&*journal, &thread, parts.schema.clone(), None).await?;
            let answers = answers_to(&loaded.replay.state, input.answers.clone(), parts.clock.now())?;
            self.check_edits(&loaded.replay.state, &answers)?;
        }
        let lease = match input.owned.as_ref().and_then(|lease| lock(lease).take()) {
            Some(lease) if lease.thread() != thread => {
                let what = format!("the lease is for thread `{}`, but the run continues `{thread}`", lease.thread());
                return Err(Error::Input(what));
            }
            Some(lease) => {
                if let Some(note) = metadata_of(&parts, input, lease.owner()) {
                    journal.threads().set_metadata(&thread, note).await?;
                }
                lease
            }
            None => {
                let owner = self.shared.run.own();
                // Set together with the claim: a killed process must not leave an owner whose death nobody can detect.
                let note = metadata_of(&parts, input, owner).unwrap_or_default();
                let claim = Claim::new(owner, input.lease.unwrap_or(DEFAULT_LEASE)).metadata(note);
                parts.claim(journal, &thread, if input.take_over { claim.take_over() } else { claim }).await?
            }
        };
        let lease = lease.of_run(self.shared.cancel.clone());
        let journal = lease.journal().clone();
        let load = async {
            let replay = |to| load_replay(&*journal, &thread, parts.schema.clone(), to);
            let Some(to) = input.at else { return Ok((replay(None).await?, None)) };
            // A run that rewinds may abandon records that cannot be read.
            let loaded = load_intact(&*journal, &thread, parts.schema.clone()).await?;
            let earlier = if to == loaded.head { None } else { Some((to, replay(Some(to)).await?.replay)) };
            Ok::<_, Error>((loaded, earlier))
        };
        let (loaded, earlier) = tokio::select! {
            biased;
            loaded = load => loaded?,
            () = lease.lost().cancelled() => {
                return Err(lease.why_lost().unwrap_or_else(|| JournalError::fenced(&thread)).into());
            }
        };
        let (head, turns) = (loaded.head, loaded.replay.turns);
        let (back, mut fold) = earlier.map_or((None, loaded.replay), |(to, fold)| (Some(to), fold));
        self.keep_log(Log::own(lease, loaded.thread, head, loaded.rule, &fold));
        if let Some(to) = back {
            let turn = turns.saturating_add(1);
            self.log.push(|| Record::Rewind { to, turn });
            fold.rewound(turn, head);
        }
        Ok(fold)
    }

    /// Creates the thread of a background agent.
    pub(super) async fn open_child(
        &mut self,
        new: NewThread,
        journal: Arc<dyn Journal>,
        thread: String,
        input: &RunInput,
    ) -> Result<Replay> {
        let NewThread { parent, agent: name, label, path, state } = new;
        journal.threads().set_parent(&thread, Some(&parent)).await?;
        let metadata = [(AGENT.to_owned(), name.into())].into_iter().collect();
        journal.threads().set_metadata(&thread, metadata).await?;
        let mut left = self.open_thread(journal, thread, input).await?;
        if left.end == 0 {
            let (inheritance, values) = state.inherited_from(&state)?;
            left.path.clone_from(&path);
            let agent = self.shared.agent.name.clone();
            self.log.push(|| Record::AgentStarted { path, call: None, label, agent, inheritance, values });
            left.state = state;
        }
        Ok(left)
    }

    /// Continues as a background agent at the path recorded in its thread.
    pub(super) fn become_background(&mut self, path: Vec<String>) {
        self.shared.budget.record();
        self.log.root.clone_from(&path);
        let path: Arc<[String]> = path.into();
        if let Some(registered) = &self.registered {
            registered.set_path(path.clone());
        }
        // No context has been handed out yet.
        let shared = Arc::get_mut(&mut self.shared);
        debug_assert!(shared.is_some(), "the run begins");
        if let Some(shared) = shared {
            shared.path = path;
        }
    }
}
