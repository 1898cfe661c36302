//! A tool called without a model, and the decision that it asks for.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::{ActionReview, Decision, DecisionKind, DeepAgent, Error, NoModel, ToolContext, tool_fn};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Bill {
    euros: u32,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pay = tool_fn("pay", "Pays a bill.", |bill: Bill, cx: ToolContext| async move {
        match cx.interrupt(format!("Pay {} euros?", bill.euros), [DecisionKind::Approve, DecisionKind::Reject])? {
            Decision::Approve => Ok("Paid."),
            _ => Ok("Not paid."),
        }
    });
    let agent = DeepAgent::builder().model(NoModel).tool(pay).build()?;
    let args = json!({"euros": 30});

    // The first call ends at the question.
    let Err(Error::Interrupted(waiting)) = agent.call_tool("pay", args.clone(), None).await else {
        return Err("it did not ask".into());
    };
    let requests = waiting.action_requests();
    println!("{}", requests.first().map(|request| request.text.as_str()).unwrap_or_default());

    // The repeated call finds the decision.
    for decision in [Decision::Approve, Decision::Reject { message: None }] {
        let decided = requests.iter().map(|request| ActionReview::new(request.clone(), decision.clone()));
        let reviews: Vec<ActionReview> = decided.collect();
        let output = agent.call_reviewed_tool("pay", args.clone(), None, &reviews).await?;
        println!("{}", output.content.iter().filter_map(|block| block.as_text()).collect::<String>());
    }
    Ok(())
}
// ANCHOR_END: example
