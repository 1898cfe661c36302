//! Tools that are offered once the model has searched for them, and clearing of old results.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::middleware::context_editing::{ContextEditing, ContextEdits};
use deepagents::middleware::tool_search::ToolSearch;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, json_tool};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new([
        Turn::call("tool_search", json!({"query": "refund an order"})),
        Turn::call("shop_refund_order", json!({"id": "17"})),
        Turn::text("Order 17 is refunded."),
    ]);
    let search = ToolSearch::default().deferring(|tool| tool.name.starts_with("shop_")).above_tokens(500);
    let edits = ContextEditing::new(ContextEdits { trigger: 50_000, target: 30_000, ..ContextEdits::default() })?;
    let mut builder = DeepAgent::builder().model(model.clone()).middleware(search).middleware(edits);
    for verb in ["create", "refund", "cancel", "list", "export", "archive"] {
        for noun in ["order", "invoice", "customer", "parcel", "voucher"] {
            let (name, about) =
                (format!("shop_{verb}_{noun}"), format!("Does `{verb}` with the {noun} of this number."));
            let schema =
                json!({"type": "object", "properties": {"id": {"type": "string", "description": "Its number."}}});
            builder = builder.tool(json_tool(name, about, schema, |_: Value, _cx| async { Ok("Done.") }));
        }
    }
    let outcome = builder.build()?.invoke("Refund order 17.").await?;
    for (at, request) in model.requests().iter().enumerate() {
        println!("request {at} offers {} tools", request.tools.len());
    }
    println!("{}", outcome.text());
    Ok(())
}
// ANCHOR_END: example
