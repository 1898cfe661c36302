//! Stored records of crons.

use deepagents_core::store::{Comparison, Filter, Item, Query, StoreError};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::schedule::{Schedule, ScheduleError, zone};
use crate::app::App;
use crate::auth::{caller, owns};
use crate::deserialize::from_value;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::records::{Records, read};
use crate::runs::RunCreate;

/// Maximum size of a payload.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;

/// Maximum size of a stored cron without its payload.
const MAX_RECORD_BYTES: usize = 16 << 10;

/// Maximum number of crons of a caller.
pub(super) const MAX_CRONS: usize = 100;

/// A cron as clients see it: a run that is repeated on a schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cron {
    pub(crate) cron_id: String,
    pub(crate) assistant_id: String,
    /// `None` if each run gets its own thread.
    pub(crate) thread_id: Option<String>,
    pub(crate) schedule: String,
    pub(crate) timezone: Option<String>,
    pub(crate) end_time: Option<Timestamp>,
    pub(crate) enabled: bool,
    pub(crate) metadata: Map<String, Value>,
    /// The body of each run's request. It is stored apart, and only read by those who need it.
    #[serde(default)]
    pub(crate) payload: Map<String, Value>,
    /// What happens to a run's own thread when the run completes.
    pub(crate) on_run_completed: Option<String>,
    pub(crate) next_run_date: Option<Timestamp>,
    pub(crate) user_id: Option<String>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    /// Why the last run was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
}

impl From<ScheduleError> for ApiError {
    fn from(error: ScheduleError) -> Self {
        match &error {
            ScheduleError::Never(_) => Self::bad_request(error.to_string()),
            ScheduleError::Zone(name) if name.is_empty() => Self::bad_request(error.to_string()),
            _ => Self::invalid(error.to_string()),
        }
    }
}

fn records(app: &App) -> Records<'_> {
    app.records(&["crons"])
}

fn payloads(app: &App) -> Records<'_> {
    app.records(&["cron-payloads"])
}

impl Cron {
    /// Computes the next due time after `after`.
    pub(crate) fn plan(&mut self, after: Timestamp) -> Result<()> {
        let schedule = Schedule::read(&self.schedule)?;
        let zone = zone(self.timezone.as_deref())?;
        let next = schedule.after(after, &zone).filter(|next| self.end_time.is_none_or(|end| *next <= end));
        self.next_run_date = next.filter(|_| self.enabled);
        Ok(())
    }

    /// Builds the request for a run from the payload.
    pub(crate) fn run(&self) -> Result<RunCreate> {
        let mut body = self.payload.clone();
        body.insert("assistant_id".to_owned(), json!(self.assistant_id));
        let mut metadata = body.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        metadata.insert("cron_id".to_owned(), json!(self.cron_id));
        body.insert("metadata".to_owned(), Value::Object(metadata));
        if let Some(after) = &self.on_run_completed {
            body.insert("on_completion".to_owned(), json!(after));
        }
        read_body(&body)
    }

    /// Stores the cron, without its payload, if the stored item is still at the version `known`, which is `None` for a
    /// new one. Returns `false` if it was changed or removed meanwhile, and then stores nothing.
    pub(crate) async fn save(&self, app: &App, known: Option<u64>) -> Result<bool, StoreError> {
        let light = Self { payload: Map::new(), ..self.clone() };
        let saved = records(app).replace(&self.cron_id, &light, known).await?.is_some();
        if saved {
            app.crons_changed.notify_one();
        }
        Ok(saved)
    }

    /// Like [`save`](Self::save), for the payload.
    pub(crate) async fn save_payload(&self, app: &App, known: Option<u64>) -> Result<bool, StoreError> {
        Ok(payloads(app).replace(&self.cron_id, &self.payload, known).await?.is_some())
    }

    /// Reads the payload, and returns its version. `None` if the cron was removed meanwhile, or if it was stored by an
    /// earlier version, together with its payload.
    pub(super) async fn read_payload(&mut self, app: &App) -> Result<Option<u64>> {
        let Some((payload, version)) = payloads(app).get("payload of the cron", &self.cron_id).await? else {
            return Ok(None);
        };
        self.payload = payload;
        Ok(Some(version))
    }

    pub(crate) async fn delete(&self, app: &App) -> Result<()> {
        records(app).delete(&self.cron_id).await?;
        Ok(payloads(app).delete(&self.cron_id).await?)
    }

    /// Rejects a cron that is too large. The part that is read with every list of crons must be small.
    pub(super) fn check_size(&self) -> Result<()> {
        let size = |value: &Value| value.to_string().len();
        let light = Self { payload: Map::new(), ..self.clone() };
        if size(&json!(light)) > MAX_RECORD_BYTES {
            return Err(ApiError::invalid(format!(
                "a cron may have {} kB, apart from the input and the configuration of its runs",
                MAX_RECORD_BYTES >> 10
            )));
        }
        if size(&json!(self.payload)) > MAX_PAYLOAD_BYTES {
            return Err(ApiError::invalid(format!(
                "the requests of a cron's runs may have {} MB",
                MAX_PAYLOAD_BYTES >> 20
            )));
        }
        Ok(())
    }

    /// Derives the id of the run for a due time. It is the same whoever creates the run.
    pub(crate) fn run_id(&self, time: Timestamp) -> String {
        let millis = u64::try_from(time.as_millisecond()).unwrap_or_default();
        let own = ids::derived(&[&self.cron_id, &time.to_string()]);
        let mut random = [0; 10];
        random.iter_mut().zip(own.as_bytes()).for_each(|(to, from)| *to = *from);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string()
    }
}

/// Parses a body that belongs in part to a cron and in part to its runs.
pub(super) fn read_body<T: DeserializeOwned>(body: &Map<String, Value>) -> Result<T> {
    from_value(Value::Object(body.clone()))
        .map_err(|error| ApiError::invalid(format!("The body cannot be read: {error}")))
}

/// Returns the crons that the caller may see, newest first, without their payloads.
pub(super) async fn visible(app: &App) -> Result<Vec<Cron>> {
    let mut query = Query::default();
    if let Some(caller) = caller().filter(|caller| !caller.is_admin()) {
        query.fields.insert("user_id".to_owned(), json!(caller.id()));
    }
    let mut found: Vec<Cron> = records(app).search(&query).await?.into_iter().filter_map(read).collect();
    found.sort_by(|a, b| b.created_at.cmp(&a.created_at));
    Ok(found)
}

/// Returns the crons that are due at a time, without their payloads, each with the version of the stored item.
pub(super) async fn due_at(app: &App, time: Timestamp) -> Result<Vec<(Cron, u64)>> {
    let versioned = |item: Item| {
        let version = item.version;
        Some((read(item)?, version))
    };
    let due = Filter::new("next_run_date", Comparison::AtMost(json!(time)));
    let query = Query { filters: vec![due], ..Query::default() };
    Ok(records(app).search(&query).await?.into_iter().filter_map(versioned).collect())
}

/// Removes the crons that match, regardless of their owner.
pub(crate) async fn remove_where(app: &App, these: impl Fn(&Cron) -> bool) -> Result<()> {
    let all: Vec<Cron> = records(app).all().await?;
    for cron in all.iter().filter(|cron| these(cron)) {
        cron.delete(app).await?;
    }
    Ok(())
}

/// Returns an existing cron.
pub(crate) async fn find(app: &App, id: &str) -> Result<Cron> {
    Ok(find_versions(app, id).await?.0)
}

/// The versions of the two items of a cron. An earlier version stored no payload apart.
pub(super) struct Versions {
    pub(super) cron: u64,
    pub(super) payload: Option<u64>,
}

/// Like [`find`], with the versions of the stored items.
pub(super) async fn find_versions(app: &App, id: &str) -> Result<(Cron, Versions)> {
    ids::check("cron ID", id)?;
    let found: Option<(Cron, u64)> = records(app).get("cron", id).await?;
    let (mut cron, version) =
        found.filter(|(cron, _)| owns(cron.user_id.as_deref())).ok_or_else(|| ApiError::not_found("Cron", id))?;
    let payload = cron.read_payload(app).await?;
    Ok((cron, Versions { cron: version, payload }))
}
