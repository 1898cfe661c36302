//! What the tools and hooks of a served agent can learn about a run's request.

use serde_json::{Map, Value};

use super::record::RunRecord;

/// The request behind a run, for the agent's own tools and hooks. They get it with
/// [`Context::extension`](deepagents::Context::extension). Sub-agents receive it too, and it stays the same when
/// another server resumes the run.
///
/// ```
/// use deepagents::tool_fn;
/// use deepagents_server::ServedRun;
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Order { number: u32 }
/// let look_up = tool_fn("look_up_order", "Looks an order up.", |order: Order, cx| async move {
///     let run = cx.extension::<ServedRun>();
///     let customer = run.and_then(|run| run.context.get("customer")?.as_str());
///     let asks = run.and_then(|run| run.caller.as_deref()).unwrap_or("nobody");
///     Ok(format!("order {} of {} for {asks}", order.number, customer.unwrap_or("all")))
/// });
/// # drop(look_up);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ServedRun {
    /// The `context` of the run or the `configurable` part of its configuration, merged over that of the assistant.
    pub context: Map<String, Value>,
    /// The id of the caller, as returned by [authentication](crate::Authenticate). `None` if callers are not
    /// authenticated.
    pub caller: Option<String>,
    /// The id of the assistant.
    pub assistant: String,
    /// The metadata of the run, merged over those of the assistant.
    pub metadata: Map<String, Value>,
}

impl ServedRun {
    pub(super) fn of(record: &RunRecord) -> Self {
        Self {
            context: record.kwargs.context.clone().unwrap_or_default(),
            caller: record.owner.clone(),
            assistant: record.assistant_id.clone(),
            metadata: record.metadata.clone(),
        }
    }
}
