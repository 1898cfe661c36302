//! Stored records of assistants.

use std::sync::Arc;

use deepagents_core::store::{Query, StoreError};
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
    /// The owner, if callers are authenticated.
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
    /// Whether it is the fixed assistant of an agent.
    pub(crate) fn is_system(&self) -> bool {
        self.assistant_id == ids::system_assistant(&self.graph_id)
    }

    fn version_key(&self) -> String {
        format!("{:010}", self.version)
    }

    /// Stores this as the current assistant if the stored item is still at the version `known`. Returns `false` on a
    /// conflict.
    async fn save_over(&self, app: &App, known: Option<u64>) -> Result<bool> {
        match app.store.put_if(&namespace(), &self.assistant_id, json!(self), known).await {
            Err(StoreError::Conflict { .. }) => Ok(false),
            kept => kept.map(|_| true).map_err(Into::into),
        }
    }

    /// Stores a new assistant. Returns `false` if the id exists.
    pub(crate) async fn save_new(&self, app: &App) -> Result<bool> {
        let is_new = self.save_over(app, None).await?;
        if is_new {
            app.store.put(&versions_of(&self.assistant_id), &self.version_key(), json!(self)).await?;
        }
        Ok(is_new)
    }

    /// Stores this both as the current assistant and as a version in its history, if the stored item is still at the
    /// version `known`. Returns `false` on a conflict, and then stores nothing.
    pub(crate) async fn save(&self, app: &App, known: Option<u64>) -> Result<bool> {
        let (versions, key) = (versions_of(&self.assistant_id), self.version_key());
        match app.store.put_if(&versions, &key, json!(self), None).await {
            Err(StoreError::Conflict { .. }) => return Ok(false),
            version => version?,
        };
        let kept = self.save_over(app, known).await;
        if !matches!(kept, Ok(true)) {
            // If the storage is unavailable, this leaves a version that was never current.
            let _ = app.store.delete(&versions, &key).await;
        }
        kept
    }

    /// Returns the versions, newest first.
    pub(crate) async fn versions(&self, app: &App) -> Result<Vec<Self>> {
        if self.is_system() {
            return Ok(vec![self.clone()]);
        }
        let found = app.store.search(&versions_of(&self.assistant_id), &Query::default()).await?;
        Ok(found.into_iter().rev().filter_map(|item| serde_json::from_value(item.value).ok()).collect())
    }

    /// Makes an earlier version the current one.
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

/// Returns all assistants: first those of the agents, then those created by clients.
pub(crate) async fn all(app: &App) -> Result<Vec<Assistant>> {
    let made = app.store.search(&namespace(), &Query::default()).await?;
    let made = made.into_iter().filter_map(|item| serde_json::from_value::<Assistant>(item.value).ok());
    let made = made.filter(|assistant| owns(assistant.owner.as_deref()));
    Ok(system(app).into_iter().chain(made).collect())
}

/// Finds an assistant by its id or by the name of its agent.
pub(crate) async fn find(app: &App, id: &str) -> Result<Option<Assistant>> {
    Ok(find_version(app, id).await?.map(|(assistant, _)| assistant))
}

/// Like [`find`], with the version of the stored item, which is `None` for the assistant of an agent.
pub(crate) async fn find_version(app: &App, id: &str) -> Result<Option<(Assistant, Option<u64>)>> {
    if let Some(known) = system(app).into_iter().find(|known| known.assistant_id == id || known.graph_id == id) {
        return Ok(Some((known, None)));
    }
    let Some(item) = app.store.get(&namespace(), id).await? else { return Ok(None) };
    let read = serde_json::from_value::<Assistant>(item.value);
    let read = read.map_err(|error| ApiError::bad_request(format!("assistant {id} is damaged: {error}")))?;
    Ok(owns(read.owner.as_deref()).then_some((read, Some(item.version))))
}
