//! Planners that decide by the size of a task or ask a light model, and searches that respect `.gitignore`.

use deepagents::channels::Todos;
use deepagents::middleware::filesystem::FilesystemOptions;
use deepagents::middleware::todo::{ListPlanner, ModelPlanner, SizePlanner, TaskSize, TodoPolicy};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, EventKind, MiddlewareEvent, Outcome, RunInput, Usage};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{begins, task};
use crate::results;

fn todos(outcome: &Outcome) -> Vec<String> {
    outcome.state.get::<Todos>().into_iter().flatten().map(|todo| todo.content.clone()).collect()
}

async fn planned(planner: impl deepagents::middleware::todo::Planner, task: &str) -> Outcome {
    let model = ScriptedModel::new([Turn::text("Done.")]);
    let builder = DeepAgent::builder().model(model).todos(TodoPolicy::off()).planner(planner);
    builder.build().unwrap().invoke(task).await.unwrap()
}

const LIST: &str = "Please:\n1. Read it\n2. Mend it\n3. Send it";

#[test]
fn task_size_is_measured_by_steps_and_tokens_in_any_language() {
    let size = |task: &str| (TaskSize::measure(task).steps, TaskSize::measure(task).tokens);
    assert_eq!(size("Read it."), (0, 2));
    assert_eq!(size(LIST).0, 3);
    assert_eq!(size("请完成：\n- 读\n- 写").0, 2);
    assert_eq!(size(&"你".repeat(300)), (0, 300));
}

#[tokio::test]
async fn a_planner_decides_by_task_size() {
    let planner = || SizePlanner::new(ListPlanner);
    assert_eq!(todos(&planned(planner(), LIST).await), ["Read it", "Mend it", "Send it"]);
    let short = "Please:\n1. Read it\n2. Mend it";
    assert!(todos(&planned(planner(), short).await).is_empty(), "two steps are no plan");
    assert_eq!(todos(&planned(planner().min_steps(2), short).await).len(), 2);
    let long = format!("{short}\n\nBackground. {}", "It is an old story. ".repeat(80));
    assert_eq!(todos(&planned(planner(), &long).await).len(), 2, "a long task is worth a list");
}

#[tokio::test]
async fn a_model_planner_asks_its_model_once_and_the_usage_counts() {
    let usage = Usage { input: 70, output: 7, ..Usage::default() };
    let light = ScriptedModel::new([Turn::text("[\"Read it\", \"Mend it\"]").usage(usage)]);
    let outcome = planned(ModelPlanner::new(light.clone()), "Mend the report.").await;
    assert_eq!(todos(&outcome), ["Read it", "Mend it"]);
    let asked = &light.requests()[0];
    assert!(asked.tools.is_empty() && asked.system_text().contains("JSON array"), "{}", asked.system_text());
    assert_eq!(asked.messages.last().unwrap().text(), "Mend the report.");
    assert!(outcome.usage.input >= 70, "{:?}", outcome.usage);
}

#[tokio::test]
async fn a_light_model_is_not_asked_for_a_small_task_or_on_resume() {
    let light = ScriptedModel::new([]);
    let planner = SizePlanner::new(ModelPlanner::new(light.clone()));
    assert!(todos(&planned(planner, "What is the time?").await).is_empty());
    assert!(light.requests().is_empty());
}

#[tokio::test]
async fn an_invalid_plan_is_reported_and_the_run_continues_without_one() {
    let light = ScriptedModel::new([Turn::text("I would read it first.")]);
    let model = ScriptedModel::new([Turn::text("Done.")]);
    let agent = DeepAgent::builder().model(model).planner(ModelPlanner::new(light)).build().unwrap();
    let mut run = agent.run("Mend the report.");
    let mut failures = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::Middleware(MiddlewareEvent::PlanningFailed { error }) = event.kind {
            failures.push(error);
        }
    }
    assert_eq!(
        (failures, run.outcome().await.unwrap().text()),
        (vec!["the model did not answer with a list of steps".to_owned()], "Done.".to_owned())
    );
}

#[tokio::test]
async fn sub_agent_tasks_are_planned_by_size_too() {
    let model = ScriptedModel::rules()
        .when(begins("Please:"), [Turn::text("Done below.")])
        .when(begins("Small."), [Turn::text("Small one done.")])
        .otherwise([
            Turn::calls([task("general-purpose", LIST), task("general-purpose", "Small.")]),
            Turn::text("Done."),
        ])
        .build();
    let builder = DeepAgent::builder().model(model.clone()).todos(TodoPolicy::off());
    builder.planner(SizePlanner::new(ListPlanner)).build().unwrap().invoke("Main.").await.unwrap();
    let told = |words| {
        let request = model.requests().into_iter().find(|r| begins(words)(r)).unwrap();
        request.messages.iter().any(|message| message.text().contains("todo list has been laid out"))
    };
    assert!(told("Please:") && !told("Small."));
}

fn search(tool: &'static str, respect: Option<bool>) -> (&'static str, Value) {
    let mut args = json!({"pattern": if tool == "glob" { "*" } else { "hit" }});
    if let Some(respect) = respect {
        args["respect_gitignore"] = respect.into();
    }
    (tool, args)
}

#[tokio::test]
async fn searches_respect_gitignore_if_the_application_or_the_model_asks() {
    let files = [("/.gitignore", "*.log\n"), ("/a.log", "hit"), ("/a.txt", "hit")];
    for (option, said, respected) in
        [(false, None, false), (true, None, true), (false, Some(true), true), (true, Some(false), false)]
    {
        for below in [false, true] {
            let calls = Turn::calls([search("glob", said), search("grep", said)]);
            let model = match below {
                false => ScriptedModel::new([calls, Turn::text("Done.")]),
                true => ScriptedModel::rules()
                    .when(begins("Work."), [calls, Turn::text("Done below.")])
                    .otherwise([Turn::calls([task("general-purpose", "Work.")]), Turn::text("Done.")])
                    .build(),
            };
            let options = FilesystemOptions { respect_gitignore: option, ..FilesystemOptions::default() };
            let agent = DeepAgent::builder().model(model.clone()).files(options).build().unwrap();
            let input = RunInput::new("Main.").update(crate::memory::files(files));
            let outcome = agent.invoke(input).await.unwrap();
            let found: Vec<String> = match below {
                false => results(&outcome).into_iter().map(|(text, _)| text).collect(),
                true => {
                    let request = model.requests().into_iter().rfind(|r| begins("Work.")(r)).unwrap();
                    request.messages.iter().filter(|m| m.as_tool().is_some()).map(|m| m.text()).collect()
                }
            };
            for text in &found {
                assert!(text.contains("/a.txt"), "{text}");
                assert_eq!(text.contains("/a.log"), !respected, "{option} {said:?} {below}: {text}");
            }
        }
    }
}
