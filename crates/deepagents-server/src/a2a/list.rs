//! Paginated task lists.

use std::sync::Arc;

use deepagents_core::store::Query;
use serde::Deserialize;
use serde_json::{Value, json};

use super::record::{self, Named};
use super::version::{self, Version};
use super::view::TaskView;
use crate::app::App;
use crate::json::remove;
use crate::rpc::{self, RpcError};

/// Default page size, followed by the maximum.
const DEFAULT_PAGE_SIZE: usize = 50;
const MAX_PAGE_SIZE: usize = 100;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    context_id: Option<String>,
    status: Option<String>,
    page_size: Option<usize>,
    page_token: Option<String>,
    history_length: Option<usize>,
    status_timestamp_after: Option<jiff::Timestamp>,
    #[serde(default)]
    include_artifacts: bool,
}

/// Returns a page of the caller's tasks of an assistant, most recently changed first.
pub(super) async fn page(app: &Arc<App>, assistant: &Named, params: &Value) -> Result<Value, RpcError> {
    let params: Params = rpc::params(params)?;
    let size = params.page_size.unwrap_or(DEFAULT_PAGE_SIZE);
    if !(1..=MAX_PAGE_SIZE).contains(&size) {
        return Err(RpcError::invalid(format!("`pageSize` must be 1 to {MAX_PAGE_SIZE}")));
    }
    let token = params.page_token.as_deref().filter(|token| !token.is_empty());
    let from: usize = token
        .map_or(Ok(0), str::parse)
        .map_err(|_| RpcError::invalid("`pageToken` is not a token that this server issued"))?;
    let status = params.status.as_deref().map(version::state).filter(|state| state != "unspecified");
    let mut query = Query::default();
    query.fields.extend(params.context_id.as_ref().map(|thread| ("thread".to_owned(), json!(thread))));
    let (mut total, mut shown) = (0, Vec::new());
    for task in record::all(app, assistant, &query).await? {
        let needs_view = status.is_some() || params.status_timestamp_after.is_some();
        let is_of_page = (from..from.saturating_add(size)).contains(&total);
        if !needs_view && !is_of_page {
            total += 1;
            continue;
        }
        let view = TaskView::read(app, &task).await?;
        let fits = status.as_deref().is_none_or(|status| view.state() == status)
            && params.status_timestamp_after.is_none_or(|after| view.changed().is_some_and(|at| at >= after));
        if fits {
            if is_of_page {
                shown.push(described(&view, &params));
            }
            total += 1;
        }
    }
    let next = from.saturating_add(shown.len());
    let token = if next < total { next.to_string() } else { String::new() };
    Ok(json!({"tasks": shown, "nextPageToken": token, "pageSize": size, "totalSize": total}))
}

fn described(view: &TaskView, params: &Params) -> Value {
    let mut task = Version::V1_0.task(view.task(Some(params.history_length.unwrap_or(0))));
    if !params.include_artifacts {
        remove(&mut task, "artifacts");
    }
    task
}
