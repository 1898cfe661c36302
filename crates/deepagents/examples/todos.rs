//! The todo list, written by the model and read by the application.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::DeepAgent;
use deepagents::channels::Todos;
use deepagents::middleware::todo::TodoPolicy;
use deepagents::models::scripted::{ScriptedModel, Turn};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = ScriptedModel::new([
        Turn::call(
            "write_todos",
            json!({"todos": [
                {"content": "Look", "status": "in_progress"},
                {"content": "Report", "status": "pending"},
            ]}),
        ),
        Turn::text("Done."),
        // The agent was asked about the open items.
        Turn::call(
            "write_todos",
            json!({"todos": [
                {"content": "Look", "status": "completed"},
                {"content": "Report", "status": "completed"},
            ]}),
        ),
        Turn::text("Now it is done."),
    ]);
    let agent = DeepAgent::builder()
        .model(model)
        .todos(TodoPolicy { remind_after: Some(5), ..TodoPolicy::default() })
        .build()?;
    let outcome = agent.invoke("Look and report.").await?;
    for todo in outcome.state.get::<Todos>().iter().flat_map(|todos| todos.iter()) {
        println!("{} {} [{}]", todo.id, todo.content, todo.status.as_str());
    }
    println!("{} ({} model calls)", outcome.text(), outcome.model_calls);
    Ok(())
}
// ANCHOR_END: example
