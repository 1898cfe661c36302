//! Filling the todo list in code before the first model call.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example shows what it does")]

// ANCHOR: example
use deepagents::DeepAgent;
use deepagents::channels::Todos;
use deepagents::middleware::todo::{ListPlanner, ModelPlanner, SizePlanner, TodoPolicy, planner_fn};
use deepagents::models::scripted::{ScriptedModel, Turn};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let builder = || {
        let model = ScriptedModel::new([Turn::text("I will.")]);
        DeepAgent::builder().model(model).todos(TodoPolicy::off())
    };
    // From a list in the task.
    let spelled_out = builder().planner(ListPlanner).build()?;
    // From what the application knows.
    let release = builder().planner(planner_fn(|task, _cx| async move {
        let steps = ["Run the tests", "Write the changelog", "Tag the version"];
        Ok(if task.starts_with("Release") { steps.map(String::from).to_vec() } else { Vec::new() })
    }));
    let release = release.build()?;
    // From a small model, for tasks that are long enough to be worth it.
    let light = ScriptedModel::new([Turn::text(r#"["Find the pages", "Translate them", "Check the links"]"#)]);
    let asked = builder().planner(SizePlanner::new(ModelPlanner::new(light)).min_tokens(10)).build()?;
    let tasks = [
        (spelled_out, "Please:\n1. Read the log\n2. Find the error\n3. Mend it"),
        (release, "Release 1.2"),
        (asked, "Translate the manual into French and see to it that its links lead to French pages."),
    ];
    for (agent, task) in tasks {
        let outcome = agent.invoke(task).await?;
        println!("{task}");
        for todo in outcome.state.get::<Todos>().iter().flat_map(|todos| todos.iter()) {
            println!("  {} {} [{}]", todo.id, todo.content, todo.status.as_str());
        }
    }
    Ok(())
}
// ANCHOR_END: example
