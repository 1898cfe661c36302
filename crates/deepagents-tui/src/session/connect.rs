//! Builds the agent, waits for it, and reports it to the interface.

use super::{Result, Session, browse};
use crate::app::event::{Connected, Event};
use crate::host::Connection;

/// Why an agent is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// At the start, for another model, or because what it is made of has changed.
    Wanted,
    /// The user has changed settings or files.
    Reload,
    /// Something needs an agent before the user has chosen a model. The interface does not learn of it.
    Missing,
}

impl Session {
    /// Builds the agent, with another model if one is named. If there is no such model, the agent before it stays.
    pub(crate) fn connect(&self, model: Option<String>) {
        self.build(model, Cause::Wanted);
    }

    /// Reads the settings again and builds the agent.
    pub(super) fn reload(&self) {
        self.build(None, Cause::Reload);
    }

    fn build(&self, model: Option<String>, cause: Cause) {
        self.slot.send_replace(None);
        let this = self.clone();
        self.with(|state| {
            state.asked_for += 1;
            let (number, earlier) = (state.asked_for, state.connecting.take());
            // Agents are built one after the other, so that the model state of the host is that of the last one.
            state.connecting = Some(tokio::spawn(async move {
                if let Some(earlier) = earlier {
                    // A task that panicked has built nothing.
                    let _ = earlier.await;
                }
                this.built(number, model, cause).await;
            }));
        });
    }

    /// Builds the agent of this number.
    async fn built(&self, number: u64, model: Option<String>, cause: Cause) {
        if cause == Cause::Reload {
            match self.host.reload().await {
                Ok(problems) => problems.into_iter().for_each(|problem| self.emit(Event::problem(problem))),
                Err(problem) => {
                    self.keep_last(number);
                    return self.emit(Event::problem(format!("{problem}; the agent stays as it was")));
                }
            }
        }
        let made = self.host.connect(model.as_deref(), &self.policy).await;
        let is_wanted = self.with(|state| {
            if let Ok(connection) = &made {
                state.last = Some(connection.clone());
            }
            state.asked_for == number
        });
        if !is_wanted {
            return;
        }
        if let Err(problem) = &made {
            if let Some(name) = model {
                let kept = self.keep_last(number);
                return self.emit(Event::ModelRefused { name, problem: problem.clone(), kept });
            }
            if cause == Cause::Reload && self.with(|state| state.last.is_some()) {
                self.keep_last(number);
                return self.emit(Event::problem(format!("{problem}; the agent stays as it was")));
            }
        }
        let connected = connected(&made).await;
        self.slot.send_replace(Some(made));
        if cause != Cause::Missing {
            self.emit(Event::Connected(connected));
        }
    }

    /// Goes on with the agent that was built last. Returns its model, if it has one.
    fn keep_last(&self, number: u64) -> Option<String> {
        self.with(|state| {
            let last = state.last.clone();
            let kept = last.as_ref().filter(|last| last.missing.is_none()).map(|last| last.model.clone());
            if state.asked_for == number {
                state.connecting = None;
                self.slot.send_replace(last.map(Ok));
            }
            kept
        })
    }

    /// Waits for the agent. Without a model, nobody has built one yet: it shows threads and the like all the same.
    pub(super) async fn connection(&self) -> Result<Connection> {
        if self.slot.borrow().is_none() && self.with(|state| state.connecting.is_none()) {
            self.build(None, Cause::Missing);
        }
        let mut slot = self.slot.subscribe();
        let connected = slot.wait_for(Option::is_some).await.map_err(|_| "the program is ending")?;
        Ok(connected.clone().ok_or("the agent is not available")??)
    }

    /// Waits for the agent. Returns an error if it has no model.
    pub(super) async fn ready(&self) -> Result<Connection> {
        let connection = self.connection().await?;
        match &connection.missing {
            Some(problem) => Err(problem.as_str().into()),
            None => Ok(connection),
        }
    }
}

/// Returns what the interface needs to know about an agent.
async fn connected(made: &Result<Connection, String>) -> Result<Box<Connected>, String> {
    match made {
        Ok(Connection { missing: Some(problem), .. }) | Err(problem) => Err(problem.clone()),
        Ok(connection) => Ok(Box::new(Connected {
            model: connection.model.clone(),
            window: connection.window,
            sandbox: connection.sandbox.clone(),
            reach: connection.reach.clone(),
            shares_shell: connection.shares_shell,
            remembered: connection.remembered.clone(),
            skills: browse::skills(connection).await,
            commands: connection.commands.clone(),
            offered: connection.offered.clone(),
            notes: connection.notes.clone(),
        })),
    }
}
