//! Assembly, and what `explain` says of it.

use deepagents::blocking::BlockingAgent;
use deepagents::core::model::ModelRequest;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, EventKind, Middleware, Preset, Result, modify_request, tool_fn};

fn model() -> ScriptedModel {
    ScriptedModel::new([Turn::text("Hello.")])
}

fn names(agent: &DeepAgent) -> Vec<String> {
    agent.explain().middlewares.into_iter().map(|part| part.name).collect()
}

struct Own(&'static str);

impl Middleware for Own {
    fn name(&self) -> &str {
        self.0
    }
}

#[test]
fn the_standard_stack_has_its_order_and_the_users_middlewares_follow() {
    let agent = DeepAgent::builder().model(model()).middleware(Own("Mine")).build().unwrap();
    assert_eq!(
        names(&agent),
        [
            "TodoList",
            "Filesystem",
            "SubAgents",
            "Summarization",
            "PromptCaching",
            "PatchToolCalls",
            "Mine",
            "UnsupportedContent"
        ]
    );
}

#[test]
fn a_middleware_with_a_standard_name_takes_its_place() {
    let agent = DeepAgent::builder().model(model()).middleware(Own("Filesystem")).build().unwrap();
    assert_eq!(
        names(&agent),
        [
            "TodoList",
            "Filesystem",
            "SubAgents",
            "Summarization",
            "PromptCaching",
            "PatchToolCalls",
            "UnsupportedContent"
        ]
    );
    assert!(agent.explain().tools.iter().all(|tool| tool.name != "ls"));
}

#[test]
fn a_standard_middleware_can_be_left_out_and_an_unknown_name_is_refused() {
    let agent = DeepAgent::builder().model(model()).without("TodoList").build().unwrap();
    assert_eq!(
        names(&agent),
        ["Filesystem", "SubAgents", "Summarization", "PromptCaching", "PatchToolCalls", "UnsupportedContent"]
    );
    let error = DeepAgent::builder().model(model()).without("Todo").build().unwrap_err();
    assert!(error.to_string().contains("they are TodoList, Filesystem, SubAgents"), "{error}");
}

#[test]
fn two_middlewares_of_one_name_are_refused() {
    let error = DeepAgent::builder().model(model()).middleware(Own("A")).middleware(Own("A")).build().unwrap_err();
    assert_eq!(error.to_string(), "two middlewares are named `A`; rename one of them");
}

#[test]
fn an_agent_without_a_model_is_refused_with_advice() {
    assert!(DeepAgent::builder().build().unwrap_err().to_string().starts_with("no model: give the builder one"));
}

#[test]
fn the_lean_preset_has_neither_todo_list_nor_prompt() {
    let agent = DeepAgent::builder().model(model()).preset(Preset::Lean).build().unwrap();
    assert_eq!(
        names(&agent),
        ["Filesystem", "SubAgents", "Summarization", "PromptCaching", "PatchToolCalls", "UnsupportedContent"]
    );
    assert_eq!(agent.explain().system, "");
}

#[test]
fn explain_counts_what_every_request_begins_with() {
    let agent = DeepAgent::builder().model(model()).system_prompt("You are careful.").build().unwrap();
    let explanation = agent.explain();
    let tools: usize = explanation.tools.iter().map(|t| t.tokens).sum();
    assert_eq!(explanation.fixed_tokens, explanation.system_tokens + tools);
    assert!(explanation.system.starts_with("You are careful."));
    assert!(explanation.fixed_tokens < 1500, "{explanation}");
    assert!(explanation.to_string().contains("write_todos"));
}

#[test]
fn what_the_prompt_must_convey_is_in_it() {
    let system = DeepAgent::builder().model(model()).build().unwrap().explain().system;
    for words in ["three or more steps", "in_progress", "once a turn", "Look before you act", "short answer"] {
        assert!(system.contains(words), "{words}");
    }
}

#[tokio::test]
async fn a_users_tool_takes_the_place_of_a_standard_one() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Args {}
    let mine = tool_fn("ls", "Lists nothing.", |_: Args, _cx| async move { Ok("mine") });
    let script = ScriptedModel::new([Turn::call("ls", serde_json::json!({})), Turn::text("Done.")]);
    let agent = DeepAgent::builder().model(script).tool(mine).build().unwrap();
    let outcome = agent.invoke("Go.").await.unwrap();
    assert_eq!(crate::results(&outcome)[0].0, "mine");
}

#[tokio::test]
async fn every_request_carries_marks_for_the_provider_to_cache() {
    let model = ScriptedModel::new([Turn::call("ls", serde_json::json!({"path": "/"})), Turn::text("Done.")]);
    let memory = modify_request(|mut request: ModelRequest, _cx| async move {
        request.system.push(deepagents::core::model::SystemBlock::new("Memory: changes."));
        Result::Ok(request)
    });
    let agent = DeepAgent::builder().model(model.clone()).middleware(memory).build().unwrap();
    agent.invoke("Go.").await.unwrap();
    let requests = model.requests();
    let marked: Vec<bool> = requests[1].system.iter().map(|block| block.cache.is_some()).collect();
    assert_eq!(marked, [false, true, false], "the last static block is marked, what changes comes after it");
    assert!(requests[1].cache.tools.is_some());
    let marks: Vec<usize> = requests[1].cache.messages.iter().map(|(at, _)| *at).collect();
    assert_eq!(marks, [0, 2], "the end as it was before the last answer, and as it is now");
}

#[test]
fn a_caller_without_a_runtime_gets_events_and_the_outcome() {
    let agent = DeepAgent::builder().model(model()).build().unwrap();
    let agent = BlockingAgent::new(agent).unwrap();
    let mut run = agent.run("Say hello.");
    let text: String = run
        .by_ref()
        .filter_map(|event| if let EventKind::TextDelta { text, .. } = event.kind { Some(text) } else { None })
        .collect();
    assert_eq!(text, "Hello.");
    assert_eq!(run.outcome().unwrap().text(), "Hello.");
}
