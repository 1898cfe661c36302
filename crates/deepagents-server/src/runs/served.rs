//! What the tools and hooks of a served agent know of who asks for a run, and with what.

use serde_json::{Map, Value};

use super::record::RunRecord;

/// What a client asked for a run with, for the agent's own tools and hooks, which find it with
/// [`Context::extension`](deepagents::Context::extension). Sub-agents are given it too, and it is the same when another
/// server goes on with the run.
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
    /// The `context` of the run, or what is `configurable` in its configuration, over what its assistant has of it.
    pub context: Map<String, Value>,
    /// Who asked for it, by the name that [authentication](crate::Authenticate) gave; none where nobody is asked who they
    /// are.
    pub caller: Option<String>,
    /// The assistant that was asked.
    pub assistant: String,
    /// What was noted with the run, over what its assistant has noted.
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
