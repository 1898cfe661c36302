//! Builds the agent, waits for it, and reports it to the interface.

use super::{Result, Session, browse};
use crate::app::event::{Connected, Event};
use crate::host::Connection;

impl Session {
    /// Builds the agent, with another model if one is named.
    pub(crate) fn connect(&self, model: Option<String>) {
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
                let made = this.host.connect(model.as_deref(), &this.policy).await;
                let connected = connected(&made).await;
                if this.with(|state| state.asked_for == number) {
                    this.slot.send_replace(Some(made));
                    this.emit(Event::Connected(connected));
                }
            }));
        });
    }

    /// Waits for the agent.
    pub(super) async fn connection(&self) -> Result<Connection> {
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
