//! The accesses and commands of this process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::place::Place;

/// What is going on. Few entries at a time, so they are searched one by one.
static ACTIVE: Mutex<Active> = Mutex::new(Active { accesses: Vec::new(), commands: Vec::new() });
/// Wakes the commands that wait, when an access has ended.
static ACCESS_ENDED: Notify = Notify::const_new();

#[derive(Debug)]
struct Active {
    accesses: Vec<Arc<Begun>>,
    /// Commands that run or wait.
    commands: Vec<Arc<Begun>>,
}

#[derive(Debug)]
struct Begun {
    place: Arc<Place>,
    at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Access,
    Command,
}

/// An access or a command that goes on until this is dropped.
#[derive(Debug)]
pub(super) struct Registration {
    begun: Arc<Begun>,
    group: Group,
}

fn active() -> MutexGuard<'static, Active> {
    ACTIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Active {
    fn group(&mut self, group: Group) -> &mut Vec<Arc<Begun>> {
        match group {
            Group::Access => &mut self.accesses,
            Group::Command => &mut self.commands,
        }
    }

    fn register(&mut self, place: &Arc<Place>, group: Group) -> Registration {
        let begun = Arc::new(Begun { place: place.clone(), at: Instant::now() });
        self.group(group).push(begun.clone());
        Registration { begun, group }
    }
}

impl Registration {
    /// Registers an access, unless a command runs or waits that may change where it leads.
    pub(super) fn access(place: &Arc<Place>) -> Option<Self> {
        let mut active = active();
        let is_excluded = active.commands.iter().any(|command| place.is_in_reach_of(&command.place));
        if is_excluded { None } else { Some(active.register(place, Group::Access)) }
    }

    /// Registers a command, which may run once it is [alone](Self::alone).
    pub(super) fn command(place: &Arc<Place>) -> Self {
        active().register(place, Group::Command)
    }

    /// Waits until no access goes on whose path this command could change. None begins meanwhile. Returns `false` if one
    /// of them goes on for longer than the limit.
    pub(super) async fn alone(&self, limit: Option<Duration>) -> bool {
        loop {
            let ended = ACCESS_ENDED.notified();
            tokio::pin!(ended);
            // Before looking, so that an access that ends right after that is not missed.
            ended.as_mut().enable();
            let Some(oldest) = self.oldest_access() else { return true };
            let Some(limit) = limit else {
                ended.await;
                continue;
            };
            let deadline = oldest + limit;
            if deadline <= Instant::now() || timeout_at(deadline, ended).await.is_err() {
                return false;
            }
        }
    }

    /// Returns when the first access began whose path this command could change.
    fn oldest_access(&self) -> Option<Instant> {
        let active = active();
        let reached = active.accesses.iter().filter(|access| access.place.is_in_reach_of(&self.begun.place));
        reached.map(|access| access.at).min()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut active = active();
        let going_on = active.group(self.group);
        if let Some(at) = going_on.iter().position(|begun| Arc::ptr_eq(begun, &self.begun)) {
            going_on.swap_remove(at);
        }
        drop(active);
        if self.group == Group::Access {
            ACCESS_ENDED.notify_waiters();
        }
    }
}
