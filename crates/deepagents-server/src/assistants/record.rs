//! What is kept of an assistant.

use std::sync::Arc;

use deepagents_core::store::Query;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::app::{App, ServedAgent};
use crate::auth::owns;
use crate::error::{ApiError, Result};
use crate::ids;

/// An assistant as clients see it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Assistant {
    pub(crate) assistant_id: String,
    pub(crate) graph_id: String,
    pub(crate) config: Map<String, Value>,
    pub(crate) context: Map<String, Value>,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) version: u32,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    /// Whose it is, where that is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
}

fn namespace() -> [String; 2] {
    ["deepagents-server".to_owned(), "assistants".to_owned()]
}

fn versions_of(id: &str) -> [String; 3] {
    ["deepagents-server".to_owned(), "assistant-versions".to_owned(), id.to_owned()]
}

impl Assistant {
    /// Whether it stands for an agent as it is.
    pub(crate) fn is_system(&self) -> bool {
        self.assistant_id == ids::system_assistant(&self.graph_id)
    }

    /// Keeps it as the one that is used, and as a version of its own.
    pub(crate) async fn save(&self, app: &App) -> Result<()> {
        let key = format!("{:010}", self.version);
        app.store.put(&versions_of(&self.assistant_id), &key, json!(self)).await?;
        app.store.put(&namespace(), &self.assistant_id, json!(self)).await?;
        Ok(())
    }

    /// Its versions, newest first.
    pub(crate) async fn versions(&self, app: &App) -> Result<Vec<Self>> {
        if self.is_system() {
            return Ok(vec![self.clone()]);
        }
        let found = app.store.search(&versions_of(&self.assistant_id), &Query::default()).await?;
        Ok(found.into_iter().rev().filter_map(|item| serde_json::from_value(item.value).ok()).collect())
    }

    /// Makes an earlier version the one that is used.
    pub(crate) async fn set_latest(&self, app: &App) -> Result<()> {
        app.store.put(&namespace(), &self.assistant_id, json!(self)).await?;
        Ok(())
    }

    pub(crate) async fn delete(&self, app: &App) -> Result<()> {
        crate::crons::remove_where(app, |cron| cron.assistant_id == self.assistant_id).await?;
        app.store.delete(&namespace(), &self.assistant_id).await?;
        let versions = versions_of(&self.assistant_id);
        for item in app.store.search(&versions, &Query::default()).await? {
            app.store.delete(&versions, &item.key).await?;
        }
        Ok(())
    }
}

fn system(app: &App) -> Vec<Assistant> {
    let stands_for = |agent: &Arc<ServedAgent>| Assistant {
        assistant_id: ids::system_assistant(&agent.name),
        graph_id: agent.name.clone(),
        config: Map::new(),
        context: Map::new(),
        metadata: Map::from_iter([("created_by".to_owned(), json!("system"))]),
        name: agent.name.clone(),
        description: agent.description.clone(),
        version: 1,
        created_at: app.started.clone(),
        updated_at: app.started.clone(),
        owner: None,
    };
    app.agents().iter().map(stands_for).collect()
}

/// All assistants: those of the agents, then those that clients made.
pub(crate) async fn all(app: &App) -> Result<Vec<Assistant>> {
    let made = app.store.search(&namespace(), &Query::default()).await?;
    let made = made.into_iter().filter_map(|item| serde_json::from_value::<Assistant>(item.value).ok());
    let made = made.filter(|assistant| owns(assistant.owner.as_deref()));
    Ok(system(app).into_iter().chain(made).collect())
}

/// An assistant by its id, or by the name of its agent.
pub(crate) async fn find(app: &App, id: &str) -> Result<Option<Assistant>> {
    if let Some(known) = system(app).into_iter().find(|known| known.assistant_id == id || known.graph_id == id) {
        return Ok(Some(known));
    }
    let item = app.store.get(&namespace(), id).await?;
    let read = item.map(|item| serde_json::from_value::<Assistant>(item.value)).transpose();
    let read = read.map_err(|error| ApiError::bad_request(format!("assistant {id} is damaged: {error}")))?;
    Ok(read.filter(|assistant| owns(assistant.owner.as_deref())))
}

/// Whether somebody has an assistant with this id.
pub(crate) async fn is_taken(app: &App, id: &str) -> Result<bool> {
    Ok(app.store.get(&namespace(), id).await?.is_some())
}
