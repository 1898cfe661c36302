//! Stored records of assistants.

use std::sync::Arc;

use deepagents_core::store::Query;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::app::{App, ServedAgent};
use crate::auth::owns;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::records::Records;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
}

fn records(app: &App) -> Records<'_> {
    app.records(&["assistants"])
}

fn versions_of<'a>(app: &'a App, id: &str) -> Records<'a> {
    app.records(&["assistant-versions", id])
}

impl Assistant {
    /// Whether it is the fixed assistant of an agent.
    pub(crate) fn is_system(&self) -> bool {
        self.assistant_id == ids::system_assistant(&self.graph_id)
    }

    fn version_key(&self) -> String {
        format!("{:010}", self.version)
    }

    /// Stores a new assistant. Returns `false` if the id exists.
    pub(crate) async fn save_new(&self, app: &App) -> Result<bool> {
        let is_new = records(app).replace(&self.assistant_id, self, None).await?.is_some();
        if is_new {
            versions_of(app, &self.assistant_id).put(&self.version_key(), self).await?;
        }
        Ok(is_new)
    }

    /// Stores this both as the current assistant and as a version in its history, if the stored item is still at the
    /// version `known`. Returns `false` on a conflict, and then stores nothing.
    pub(crate) async fn save(&self, app: &App, known: Option<u64>) -> Result<bool> {
        let (versions, key) = (versions_of(app, &self.assistant_id), self.version_key());
        if versions.replace(&key, self, None).await?.is_none() {
            return Ok(false);
        }
        let saved = records(app).replace(&self.assistant_id, self, known).await;
        if !matches!(saved, Ok(Some(_))) {
            // If the storage is unavailable, this leaves a version that was never current.
            let _ = versions.delete(&key).await;
        }
        Ok(saved?.is_some())
    }

    /// Returns the versions, newest first.
    pub(crate) async fn versions(&self, app: &App) -> Result<Vec<Self>> {
        if self.is_system() {
            return Ok(vec![self.clone()]);
        }
        let mut found = versions_of(app, &self.assistant_id).all().await?;
        found.reverse();
        Ok(found)
    }

    /// Makes an earlier version the current one.
    pub(crate) async fn set_latest(&self, app: &App) -> Result<()> {
        Ok(records(app).put(&self.assistant_id, self).await?)
    }

    pub(crate) async fn delete(&self, app: &App) -> Result<()> {
        crate::crons::remove_where(app, |cron| cron.assistant_id == self.assistant_id).await?;
        records(app).delete(&self.assistant_id).await?;
        let versions = versions_of(app, &self.assistant_id);
        for item in versions.search(&Query::default()).await? {
            versions.delete(&item.key).await?;
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
    let made: Vec<Assistant> = records(app).all().await?;
    let made = made.into_iter().filter(|assistant| owns(assistant.owner.as_deref()));
    Ok(system(app).into_iter().chain(made).collect())
}

/// Returns an existing assistant, by its id or by the name of its agent.
pub(crate) async fn known(app: &App, id: &str) -> Result<Assistant> {
    find(app, id).await?.ok_or_else(|| ApiError::not_found("Assistant", id))
}

/// Finds an assistant by its id, in any spelling, or by the name of its agent.
pub(crate) async fn find(app: &App, id: &str) -> Result<Option<Assistant>> {
    Ok(find_version(app, id).await?.map(|(assistant, _)| assistant))
}

/// Like [`find`], with the version of the stored item, which is `None` for the assistant of an agent.
pub(crate) async fn find_version(app: &App, id: &str) -> Result<Option<(Assistant, Option<u64>)>> {
    if let Some(known) = system(app).into_iter().find(|known| known.graph_id == id) {
        return Ok(Some((known, None)));
    }
    let Ok(id) = &ids::check("assistant ID", id) else { return Ok(None) };
    if let Some(known) = system(app).into_iter().find(|known| known.assistant_id == *id) {
        return Ok(Some((known, None)));
    }
    let found: Option<(Assistant, u64)> = records(app).get("assistant", id).await?;
    let found = found.filter(|(assistant, _)| owns(assistant.owner.as_deref()));
    Ok(found.map(|(assistant, version)| (assistant, Some(version))))
}
