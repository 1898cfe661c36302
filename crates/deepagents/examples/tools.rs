//! Three ways to define a tool: a type, a closure, a JSON schema.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Effect, RunInput, Tool, ToolContext, ToolError, ToolOutput, json_tool, tool_fn};
use serde_json::{Value, json};

/// The user, passed by the application to every run.
struct User(&'static str);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    /// The article number.
    article: u32,
    /// The quantity, 1 by default.
    #[serde(default = "one")]
    amount: u32,
}

fn one() -> u32 {
    1
}

/// Orders articles. A service that knows an order's key does not accept it twice.
struct PlaceOrder;

impl Tool for PlaceOrder {
    type Args = Order;

    fn name(&self) -> &str {
        "order"
    }

    fn description(&self) -> &str {
        "Orders an article."
    }

    fn effect(&self, _args: &Order) -> Effect {
        Effect::External
    }

    fn idempotent(&self, _args: &Self::Args) -> bool {
        true
    }

    async fn call(&self, args: Order, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let user = cx.extension::<User>().ok_or_else(|| ToolError::fatal("a run needs a `User`"))?;
        if args.article > 100 {
            return Err(ToolError::model("articles are numbered from 1 to 100"));
        }
        cx.progress("asking the warehouse");
        let receipt = json!({"key": cx.key()});
        let said = format!("{} times article {} for {}", args.amount, args.article, user.0);
        Ok(ToolOutput::text(said).with_artifact(receipt))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stock =
        tool_fn("stock", "Lists what there is.", |(): (), _cx| async { Ok("1 tea, 2 coffee") }).effect(Effect::Read);
    let schema =
        json!({"type": "object", "properties": {"cents": {"type": "integer", "minimum": 0}}, "required": ["cents"]});
    let pay = json_tool("pay", "Pays.", schema, |args: Value, _cx| async move {
        Ok(format!("Paid {}.", args.get("cents").and_then(Value::as_u64).unwrap_or_default()))
    });

    let model = ScriptedModel::new([
        Turn::calls([("stock", json!({})), ("order", json!({"article": 500}))]),
        Turn::calls([("order", json!({"article": 2})), ("pay", json!({"cents": -3}))]),
        Turn::text("Ordered, not paid."),
    ]);
    let agent = DeepAgent::builder().model(model).tool(stock).tool(PlaceOrder).tool(pay).build()?;
    let outcome = agent.invoke(RunInput::new("Order coffee.").with(User("Ada"))).await?;
    for result in outcome.messages().iter().filter(|m| m.as_tool().is_some()) {
        println!("{}", result.text());
    }
    println!("{}", outcome.text());
    Ok(())
}
// ANCHOR_END: example
