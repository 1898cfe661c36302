//! Tools offered after a search.

use std::sync::Arc;

use deepagents::core::middleware::offered_tools;
use deepagents::core::tool::{DynTool, ToolSet};
use deepagents::middleware::ToolFilter;
use deepagents::middleware::tool_search::ToolSearch;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{
    Budget, DeepAgent, DeepAgentBuilder, EventKind, MemoryJournal, MiddlewareEvent, ModelRequest, RunInput, json_tool,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::results;

/// Verbs and nouns for the names of tools.
const VERBS: [&str; 20] = [
    "create", "delete", "list", "update", "search", "archive", "assign", "close", "comment", "export", "import",
    "merge", "move", "open", "pin", "read", "rename", "share", "sync", "watch",
];
const NOUNS: [&str; 25] = [
    "account",
    "article",
    "board",
    "branch",
    "budget",
    "calendar",
    "channel",
    "contact",
    "contract",
    "course",
    "customer",
    "dashboard",
    "deployment",
    "device",
    "document",
    "event",
    "folder",
    "invoice",
    "issue",
    "order",
    "page",
    "payment",
    "pipeline",
    "release",
    "ticket",
];

fn tool(name: String, description: String, argument: &str) -> Arc<dyn DynTool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": format!("Identifies the {argument}.")},
            "fields": {"type": "object", "description": "What to set, by name."},
        },
        "required": ["id"],
    });
    let said = name.clone();
    Arc::new(json_tool(name, description, schema, move |_: Value, _cx| {
        let said = said.clone();
        async move { Ok(format!("{said} was called")) }
    }))
}

/// Five hundred tools of five servers.
fn five_hundred() -> Vec<Arc<dyn DynTool>> {
    let all = VERBS.iter().enumerate().flat_map(|(at, verb)| NOUNS.iter().map(move |noun| (at, verb, noun)));
    all.map(|(at, verb, noun)| {
        let description =
            format!("Does `{verb}` with a {noun} of the organisation and answers with what became of it.");
        tool(format!("mcp__server{}__{verb}_{noun}", at % 5), description, noun)
    })
    .collect()
}

fn offering(tools: Vec<Arc<dyn DynTool>>) -> impl Fn(DeepAgentBuilder) -> DeepAgentBuilder {
    let set = ToolSet::new(tools).unwrap();
    move |builder| {
        let set = set.clone();
        let server = offered_tools(move |_cx| {
            let set = set.clone();
            async move { Ok(Some(set)) }
        });
        builder.middleware(server.named("Server"))
    }
}

fn names(request: &ModelRequest) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// The tokens of a request's tools, by a provider's vocabulary.
fn tokens(request: &ModelRequest) -> usize {
    let written: String = request
        .tools
        .iter()
        .map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema}).to_string()
        })
        .collect();
    tiktoken_rs::o200k_base_singleton().encode_ordinary(&written).len()
}

fn search(query: &str) -> Turn {
    Turn::call("tool_search", json!({ "query": query }))
}

#[tokio::test]
async fn with_five_hundred_tools_the_first_request_is_small_and_search_works() {
    let right = five_hundred().iter().map(|t| t.spec().name).find(|name| name.ends_with("archive_invoice")).unwrap();
    let script = [search("archive an old invoice"), Turn::call(right.clone(), json!({"id": "7"})), Turn::text("Done.")];
    let model = ScriptedModel::new(script);
    let agent = offering(five_hundred())(DeepAgent::builder().model(model.clone()).middleware(ToolSearch::default()))
        .build()
        .unwrap();
    let mut run = agent.run("Archive invoice 7.");
    let mut told = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::Middleware(MiddlewareEvent::ToolsFound { tools, .. }) = event.kind {
            told.push(tools);
        }
    }
    let outcome = run.outcome().await.unwrap();
    let requests = model.requests();
    let first = tokens(&requests[0]);
    assert!(first <= 3_000, "{first} tokens");
    assert!(!names(&requests[0]).contains(&right.as_str()));
    assert!(names(&requests[1]).contains(&right.as_str()));
    assert_eq!(told[0][0], right);
    assert_eq!(results(&outcome)[1], (format!("{right} was called"), false));
    assert_eq!(outcome.text(), "Done.");
    let system = requests[0].system_text();
    assert!(
        system.contains("500 further tools can be found with tool_search") && system.contains("server0 (100)"),
        "{system}"
    );
}

#[tokio::test]
async fn each_of_five_hundred_tools_is_found_by_what_it_does() {
    let queries: Vec<(String, String)> = VERBS
        .iter()
        .flat_map(|verb| NOUNS.iter().map(move |noun| (format!("{verb} the {noun}"), format!("{verb}_{noun}"))))
        .collect();
    let turns: Vec<Turn> = queries.iter().map(|(query, _)| search(query)).chain([Turn::text("Done.")]).collect();
    let model = ScriptedModel::new(turns);
    let agent =
        offering(five_hundred())(DeepAgent::builder().model(model).middleware(ToolSearch::default())).build().unwrap();
    let outcome = agent.invoke(RunInput::new("Go.").budget(Budget::default().model_calls(600))).await.unwrap();
    let found = results(&outcome);
    assert_eq!(found.len(), queries.len());
    for ((query, wanted), (text, _)) in queries.iter().zip(&found) {
        let first = text.lines().nth(1).unwrap_or_default();
        assert!(first.contains(wanted.as_str()), "{query}: {text}");
    }
}

#[tokio::test]
async fn found_tools_are_appended_after_the_others_and_stay() {
    let model = ScriptedModel::new([
        search("archive invoice"),
        search("merge branch"),
        Turn::text("Done."),
        Turn::text("Again."),
    ]);
    let journal = Arc::new(MemoryJournal::new());
    let built = || {
        let builder = DeepAgent::builder().model(model.clone()).middleware(ToolSearch::default().most_results(2));
        offering(five_hundred())(builder.journal(journal.clone())).build().unwrap()
    };
    built().invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    built().invoke(RunInput::new("Once more.").thread("t")).await.unwrap();
    let requests = model.requests();
    let offered: Vec<Vec<&str>> = requests.iter().map(names).collect();
    for pair in offered.windows(2) {
        assert_eq!(pair[1][..pair[0].len()], pair[0][..]);
    }
    assert_eq!((offered[1].len(), offered[2].len()), (offered[0].len() + 2, offered[0].len() + 4));
    assert_eq!(offered[2], offered[3]);
    assert_eq!(requests[0].system_text(), requests[3].system_text());
}

#[tokio::test]
async fn a_deferred_tool_can_be_called_without_a_search() {
    let script = [Turn::call("mcp__server0__create_account", json!({"id": "1"})), Turn::text("Done.")];
    let builder = DeepAgent::builder().model(ScriptedModel::new(script)).middleware(ToolSearch::default());
    let outcome = offering(five_hundred())(builder).build().unwrap().invoke("Go.").await.unwrap();
    assert_eq!(results(&outcome), [("mcp__server0__create_account was called".to_owned(), false)]);
}

#[tokio::test]
async fn a_few_tools_are_all_offered_in_order_without_a_search_tool() {
    let few = || five_hundred().into_iter().take(5).collect::<Vec<_>>();
    let model = ScriptedModel::new([Turn::text("Done.")]);
    let agent =
        offering(few())(DeepAgent::builder().model(model.clone()).middleware(ToolSearch::default())).build().unwrap();
    agent.invoke("Go.").await.unwrap();
    let request = &model.requests()[0];
    let offered = names(request);
    assert!(offered.is_sorted() && !offered.contains(&"tool_search"), "{offered:?}");
    assert_eq!(offered.iter().filter(|name| name.starts_with("mcp__")).count(), 5);
    assert!(!request.system_text().contains("further tools"));

    let model = ScriptedModel::new([Turn::text("Done.")]);
    let always = ToolSearch::default().above_tokens(0);
    offering(few())(DeepAgent::builder().model(model.clone()).middleware(always))
        .build()
        .unwrap()
        .invoke("Go.")
        .await
        .unwrap();
    assert!(names(&model.requests()[0]).iter().all(|name| !name.starts_with("mcp__")));
}

#[tokio::test]
async fn deferred_tools_are_configurable_and_an_unsuccessful_search_says_so() {
    let model =
        ScriptedModel::new([search("weather"), search("what is the sky like"), search("xyzzy"), Turn::text("Done.")]);
    let weather =
        json_tool("get_weather", "Tells what the sky is like.", json!({"type": "object"}), |_: Value, _cx| async {
            Ok("Fine.")
        });
    let deferring = ToolSearch::default().deferring_named(["get_weather"]).above_tokens(0);
    let agent = DeepAgent::builder().model(model.clone()).tool(weather).middleware(deferring).build().unwrap();
    let outcome = agent.invoke("Go.").await.unwrap();
    insta::assert_snapshot!(results(&outcome).into_iter().map(|(text, _)| text).collect::<Vec<_>>().join("\n"), @r"
    These tools can be called now:
    - get_weather: Tells what the sky is like.
    These tools can be called now:
    - get_weather: Tells what the sky is like.
    No tool fits `xyzzy`. Say in other words what it should do.
    ");
    assert!(
        !names(&model.requests()[0]).contains(&"get_weather") && names(&model.requests()[1]).contains(&"get_weather")
    );
}

#[tokio::test]
async fn a_filtered_tool_is_neither_found_nor_named_wherever_the_filter_is() {
    let hidden = "mcp__server0__create_account";
    for search_first in [true, false] {
        let script = [search(hidden), search("create account"), Turn::call("no_such", json!({})), Turn::text("Done.")];
        let model = ScriptedModel::new(script);
        let builder = offering(five_hundred())(DeepAgent::builder().model(model.clone()));
        let (finds, filter) = (ToolSearch::default(), ToolFilter::exclude([hidden, "ls"]));
        let builder = match search_first {
            true => builder.middleware(finds).middleware(filter),
            false => builder.middleware(filter).middleware(finds),
        };
        let outcome = builder.build().unwrap().invoke("Go.").await.unwrap();
        let told = results(&outcome);
        assert!(told.iter().all(|(text, _)| !text.contains(hidden)), "{told:?}");
        assert!(told[1].0.contains("_account: "), "{told:?}");
        assert!(told[2].1 && told[2].0.contains("glob") && !told[2].0.contains(" ls,"), "{told:?}");
        assert!(model.requests()[0].system_text().contains("499 further tools"));
    }
}

#[tokio::test]
async fn an_agent_whose_filter_excludes_the_search_tool_is_offered_all_its_tools() {
    let wanted: Vec<String> = five_hundred().iter().map(|tool| tool.spec().name).step_by(10).collect();
    let model = ScriptedModel::new([Turn::text("Done.")]);
    let builder = DeepAgent::builder()
        .model(model.clone())
        .middleware(ToolSearch::default())
        .middleware(ToolFilter::only(wanted.clone()));
    offering(five_hundred())(builder).build().unwrap().invoke("Go.").await.unwrap();
    let mut wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    wanted.sort_unstable();
    assert_eq!(names(&model.requests()[0]), wanted);
    assert!(!model.requests()[0].system_text().contains("further tools"));
}
