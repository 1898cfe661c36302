//! Building agents, and the output of `explain`.

use std::sync::Arc;

use deepagents::blocking::BlockingAgent;
use deepagents::core::model::{CacheTtl, ModelRequest};
use deepagents::fs::permissions::{AccessMode, Permissions, Rule};
use deepagents::fs::shell::{Confinement, LocalShell, WithShell};
use deepagents::fs::{CompositeBackend, LocalBackend, StateBackend};
use deepagents::middleware::filesystem::{BackgroundCommands, FilesystemOptions};
use deepagents::middleware::summarization::SummarizationOptions;
use deepagents::middleware::web::Web;
use deepagents::middleware::{AskUser, Filesystem, HumanInTheLoop, PromptCaching, ToolSearch};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::profile::ProfileConfig;
use deepagents::subagents::{SubAgentDefaults, SubAgentSpec};
use deepagents::{
    DeepAgent, DynTool, EventKind, FinishReason, InterruptOn, InterruptPolicy, MemoryJournal, Message, Middleware,
    Outcome, Preset, Result, RunInput, ToolSet, modify_request, offered_tools, tool_fn,
};

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
fn the_standard_stack_is_ordered_and_user_middlewares_follow() {
    let agent = DeepAgent::builder().model(model()).middleware(Own("Mine")).build().unwrap();
    assert_eq!(
        names(&agent),
        [
            "LoopDetection",
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
fn a_middleware_with_a_standard_name_replaces_the_standard_one() {
    let agent = DeepAgent::builder().model(model()).middleware(Own("Filesystem")).build().unwrap();
    assert_eq!(
        names(&agent),
        [
            "LoopDetection",
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
fn a_shared_middleware_cannot_replace_what_enforces_rules_asks_or_needs_a_journal() {
    let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/secret/**"])]).unwrap();
    let files = Filesystem::new(StateBackend::new());
    let built = DeepAgent::builder().model(model()).permissions(rules).shared_middleware(files).build();
    let refused = built.unwrap_err().to_string();
    assert!(refused.contains("wrap its backend in `PermissionedBackend`"), "{refused}");
    let policy = |tool: &str| InterruptPolicy::new().before(tool, InterruptOn::any());
    let asking = DeepAgent::builder().model(model()).journal(MemoryJournal::new()).interrupt_on(policy("delete"));
    let built = asking.shared_middleware(HumanInTheLoop::new(policy("write_file"))).build();
    let refused = built.unwrap_err().to_string();
    assert!(refused.contains("would replace the one that asks"), "{refused}");
    let refused = DeepAgent::builder().model(model()).shared_middleware(AskUser).build().unwrap_err().to_string();
    assert!(refused.contains("kept in a journal until they are answered"), "{refused}");
}

#[test]
fn a_standard_middleware_can_be_removed_and_an_unknown_name_is_rejected() {
    let agent = DeepAgent::builder().model(model()).without("TodoList").build().unwrap();
    assert_eq!(
        names(&agent),
        [
            "LoopDetection",
            "Filesystem",
            "SubAgents",
            "Summarization",
            "PromptCaching",
            "PatchToolCalls",
            "UnsupportedContent"
        ]
    );
    let error = DeepAgent::builder().model(model()).without("Todo").build().unwrap_err();
    assert!(error.to_string().contains("they are LoopDetection, TodoList, Filesystem, SubAgents"), "{error}");
}

#[test]
fn two_middlewares_with_one_name_are_rejected() {
    let error = DeepAgent::builder().model(model()).middleware(Own("A")).middleware(Own("A")).build().unwrap_err();
    assert_eq!(error.to_string(), "two middlewares are named `A`; rename one of them");
}

#[test]
fn an_agent_without_a_model_is_rejected_with_advice() {
    assert!(DeepAgent::builder().build().unwrap_err().to_string().starts_with("no model: give the builder one"));
}

#[test]
fn the_lean_preset_has_neither_todo_list_nor_prompt() {
    let agent = DeepAgent::builder().model(model()).preset(Preset::Lean).build().unwrap();
    assert_eq!(
        names(&agent),
        [
            "LoopDetection",
            "Filesystem",
            "SubAgents",
            "Summarization",
            "PromptCaching",
            "PatchToolCalls",
            "UnsupportedContent"
        ]
    );
    assert_eq!(agent.explain().system, "");
}

#[tokio::test]
async fn explain_counts_the_fixed_start_of_every_request() {
    let model = model();
    let agent = DeepAgent::builder().model(model.clone()).system_prompt("You are careful.").build().unwrap();
    let explanation = agent.explain();
    let text = explanation.to_string();
    assert!(text.contains("write_todos") && text.contains("begins with about"), "{text}");
    let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).count();
    let exact = explanation.counted("letters", letters);
    // The real request, counted independently: system prompt, and each tool with the names of its three fields.
    agent.invoke("Go.").await.unwrap();
    let request = model.requests().remove(0);
    let frame = letters("name description input_schema");
    let tools = request.tools.iter().map(|tool| {
        // As JSON, where a newline is written with a letter.
        let description = serde_json::to_string(&tool.description).unwrap();
        frame + letters(&tool.name) + letters(&description) + letters(&tool.schema.to_string())
    });
    let sent = letters(&request.system_text()) + tools.sum::<usize>();
    assert_eq!(exact.fixed_tokens, sent);
    assert!(exact.system_tokens > letters("You are careful.") && exact.system_tokens < sent);
    let text = exact.to_string();
    assert!(text.ends_with(&format!("begins with {sent} tokens (letters)")), "{text}");
}

#[tokio::test]
async fn explain_counts_exactly_the_tools_of_the_first_request() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Args {}
    let secret = || tool_fn("secret", "Comes with a skill.", |_: Args, _cx| async move { Ok("3") });
    let without = ProfileConfig { excluded_tools: ["grep".to_owned()].into(), ..ProfileConfig::default() };
    let builders = [
        DeepAgent::builder(),
        DeepAgent::builder().preset(Preset::Lean),
        DeepAgent::builder().profile(without),
        DeepAgent::builder().skills(["/skills"]).skill_tool(secret()),
        DeepAgent::builder().background_agents(true).tool(secret()),
    ];
    for (at, builder) in builders.into_iter().enumerate() {
        let model = model();
        let agent = builder.model(model.clone()).build().unwrap();
        agent.invoke("Go.").await.unwrap();
        let explanation = agent.explain();
        let request = model.requests().remove(0);
        let offered: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        let counted: Vec<&str> = explanation.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(counted, offered, "{at}");
        for (part, tool) in explanation.tools.iter().zip(&request.tools) {
            for counted in [&tool.name, &tool.schema.to_string()] {
                assert!(part.text.contains(counted), "{}", part.text);
            }
        }
        assert!(request.system_text().starts_with(&explanation.system), "{at}");
    }
}

/// The tokens of the constant part of every request, with commands enabled.
fn fixed_cost(preset: Preset) -> (usize, String) {
    let dir = tempfile::tempdir().unwrap();
    let shell = LocalShell::open(dir.path(), Confinement::Unconfined).unwrap();
    let agent = DeepAgent::builder()
        .model(model())
        .preset(preset)
        .backend(WithShell::new(LocalBackend::open(dir.path()).unwrap(), shell))
        .build()
        .unwrap();
    let vocabulary = tiktoken_rs::o200k_base_singleton();
    let explanation = agent.explain().counted("o200k", |text| vocabulary.encode_ordinary(text).len());
    for tool in ["execute", "read_file", "task"] {
        assert!(explanation.tools.iter().any(|part| part.name == tool), "{tool}");
    }
    assert_eq!(explanation.tools.iter().any(|part| part.name == "write_todos"), preset == Preset::Standard);
    (explanation.fixed_tokens, explanation.to_string())
}

#[test]
fn rules_and_commands_combine_only_if_commands_cannot_reach_the_ruled_files() {
    let dir = tempfile::tempdir().unwrap();
    let build = |pattern: &str| {
        let shell = LocalShell::open(dir.path(), Confinement::Unconfined).unwrap();
        let disk = Arc::new(WithShell::new(LocalBackend::open(dir.path()).unwrap(), shell));
        let memories = Arc::new(StateBackend::new());
        let files = CompositeBackend::new(disk).route("/memories".parse().unwrap(), memories);
        let rules = Permissions::new([Rule::new(AccessMode::Deny, [pattern])]).unwrap();
        DeepAgent::builder().model(model()).backend(files).permissions(rules).build()
    };
    let agent = build("/memories/**").unwrap();
    assert!(agent.explain().tools.iter().any(|part| part.name == "execute"));
    let refused = build("/src/**").unwrap_err().to_string();
    assert!(refused.contains("cannot be enforced on the commands"), "{refused}");
}

#[test]
fn the_standard_stack_costs_at_most_2500_tokens() {
    let (tokens, explanation) = fixed_cost(Preset::Standard);
    assert!(tokens <= 2_500, "{explanation}");
}

#[test]
fn the_lean_preset_costs_at_most_1800_tokens() {
    let (tokens, explanation) = fixed_cost(Preset::Lean);
    assert!(tokens <= 1_800, "{explanation}");
}

#[test]
fn the_prompt_contains_its_essential_instructions() {
    let system = DeepAgent::builder().model(model()).build().unwrap().explain().system;
    for words in ["three or more steps", "in_progress", "once a turn", "Look before you act", "short answer"] {
        assert!(system.contains(words), "{words}");
    }
}

#[tokio::test]
async fn a_users_tool_replaces_a_standard_one() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Args {}
    let mine = tool_fn("ls", "Lists nothing.", |_: Args, _cx| async move { Ok("mine") });
    let script = ScriptedModel::new([Turn::call("ls", serde_json::json!({})), Turn::text("Done.")]);
    let agent = DeepAgent::builder().model(script).tool(mine).build().unwrap();
    let outcome = agent.invoke("Go.").await.unwrap();
    assert_eq!(crate::results(&outcome)[0].0, "mine");
}

#[tokio::test]
async fn every_request_has_cache_marks_for_the_provider() {
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

#[tokio::test]
async fn an_agent_without_a_prompt_marks_only_tools_and_messages() {
    let model = model();
    let agent = DeepAgent::builder().model(model.clone()).preset(Preset::Lean).build().unwrap();
    agent.invoke("Go.").await.unwrap();
    let requests = model.requests();
    assert!(requests[0].system.iter().all(|block| block.cache.is_none()));
    assert!(requests[0].cache.tools.is_some());
    assert_eq!(requests[0].cache.messages.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0]);
}

#[tokio::test]
async fn cache_marks_have_the_configured_ttl_and_short_requests_can_go_without() {
    let model = ScriptedModel::new([Turn::call("ls", serde_json::json!({"path": "/"})), Turn::text("Done.")]);
    let caching = PromptCaching::new(CacheTtl::OneHour).min_messages(3);
    let agent = DeepAgent::builder().model(model.clone()).caching(caching).build().unwrap();
    agent.invoke("Go.").await.unwrap();
    let requests = model.requests();
    assert!(requests[0].cache.tools.is_none() && requests[0].cache.messages.is_empty());
    assert!(requests[0].system.iter().all(|block| block.cache.is_none()), "two with the prompt are too few");
    assert_eq!(requests[1].cache.tools, Some(CacheTtl::OneHour));
    assert!(requests[1].cache.messages.iter().all(|(_, ttl)| *ttl == CacheTtl::OneHour));
    let marked: Vec<CacheTtl> = requests[1].system.iter().filter_map(|block| block.cache).collect();
    assert_eq!(marked, [CacheTtl::OneHour]);
}

#[tokio::test]
async fn cache_marks_of_messages_that_a_middleware_removes_move_to_the_end() {
    let model = model();
    let shortened = modify_request(|mut request: ModelRequest, _cx| async move {
        request.messages = request.messages.tail(1).cloned().collect();
        Result::Ok(request)
    });
    let agent = DeepAgent::builder().model(model.clone()).middleware(shortened).build().unwrap();
    let said = ["One?", "Two?", "Three?"].map(Message::user);
    agent.invoke(RunInput::messages(said)).await.unwrap();
    let request = &model.requests()[0];
    assert_eq!(request.messages.len(), 2);
    assert_eq!(request.cache.messages.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn answers_have_the_name_that_an_agent_was_given() {
    let name_of = |outcome: &Outcome| outcome.messages().last().unwrap().as_assistant().unwrap().name.clone();
    let named = DeepAgent::builder().model(model()).name("scout").build().unwrap();
    assert_eq!(name_of(&named.invoke("Go.").await.unwrap()).as_deref(), Some("scout"));
    let unnamed = DeepAgent::builder().model(model()).build().unwrap();
    assert_eq!(name_of(&unnamed.invoke("Go.").await.unwrap()), None);
}

#[tokio::test]
async fn a_run_that_a_limit_ends_after_a_tool_result_has_no_answer() {
    let model = ScriptedModel::rules().always(Turn::call("ls", serde_json::json!({"path": "/"}))).build();
    let agent = DeepAgent::builder().model(model).build().unwrap();
    let outcome = agent.invoke(RunInput::new("Go.").max_model_calls(1)).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::StepLimit, String::new()));
    assert!(outcome.messages().last().unwrap().as_tool().is_some());
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

#[tokio::test]
async fn the_blocking_agent_may_be_used_and_dropped_inside_a_runtime() {
    let agent = DeepAgent::builder().model(model()).build().unwrap();
    let agent = BlockingAgent::new(agent).unwrap();
    assert_eq!(agent.invoke("Say hello.").unwrap().text(), "Hello.");
}

#[tokio::test]
async fn an_agent_with_only_a_model_has_the_standard_tools_and_no_empty_prompt() {
    let files = ["delete", "edit_file", "glob", "grep", "ls", "read_file", "write_file"];
    for (preset, more) in
        [(Preset::Standard, &["read_todos", "task", "write_todos"][..]), (Preset::Lean, &["task"][..])]
    {
        let model = model();
        DeepAgent::builder().model(model.clone()).preset(preset).build().unwrap().invoke("Hi.").await.unwrap();
        let request = model.requests().remove(0);
        let offered: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        let mut expected = [&files, more].concat();
        expected.sort_unstable();
        assert_eq!(offered, expected);
        assert!(request.system.iter().all(|block| !block.text.trim().is_empty()));
        assert_eq!(request.system.is_empty(), preset == Preset::Lean);
    }
}

#[test]
fn an_unknown_file_tool_name_is_an_error_that_lists_the_known_ones() {
    let listed = FilesystemOptions { tools: Some(vec!["read".into()]), ..FilesystemOptions::default() };
    let descriptions = [("cat".to_owned(), "Reads.".to_owned())].into();
    let described = FilesystemOptions { descriptions, ..FilesystemOptions::default() };
    for (options, name) in [(listed, "read"), (described, "cat")] {
        let built = DeepAgent::builder().model(model()).files(options).build();
        let error = built.unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}`")) && error.contains("read_file, write_file"), "{error}");
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoArgs {}

fn ping() -> impl DynTool {
    tool_fn("ping", "Answers.", |_: NoArgs, _cx| async move { Ok("pong") })
}

/// Provides a tool.
struct Pings(&'static str);

impl Middleware for Pings {
    fn name(&self) -> &str {
        self.0
    }
    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        vec![Arc::new(ping())]
    }
}

#[test]
fn an_agents_error_is_not_blamed_on_a_sub_agent_that_inherits_it() {
    let error = DeepAgent::builder().model(model()).tool(ping()).tool(ping()).build().unwrap_err();
    assert_eq!(error.to_string(), "two tools are named `ping`, both from the caller; rename one or leave it out");
    let error = DeepAgent::builder().model(model()).max_model_calls(0).without("SubAgents").build().unwrap_err();
    assert_eq!(error.to_string(), "max_model_calls must be at least 1");
    let asked = InterruptPolicy::new().before("pong", InterruptOn::any());
    let pong: Arc<dyn DynTool> = Arc::new(tool_fn("pong", "Answers.", |_: NoArgs, _cx| async { Ok("ping") }));
    let wrong = SubAgentSpec::new("worker", "Works.").tool(pong.clone()).tool(pong);
    let built =
        DeepAgent::builder().model(model()).journal(MemoryJournal::new()).interrupt_on(asked).sub_agent(wrong).build();
    let error = built.unwrap_err();
    assert!(error.to_string().starts_with("sub-agent `worker`: two tools are named `pong`"), "{error}");
    let worker = SubAgentSpec::new("worker", "Works.").tool(ping()).tool(ping());
    let error = DeepAgent::builder().model(model()).sub_agent(worker).build().unwrap_err();
    assert!(error.to_string().starts_with("sub-agent `worker`: two tools are named `ping`"), "{error}");
}

#[test]
fn a_tool_may_share_a_name_only_with_a_standard_middlewares_tool() {
    let built = DeepAgent::builder().model(model()).tool(ping()).middleware(Pings("Pings")).build();
    let error = built.unwrap_err().to_string();
    assert!(error.contains("from middleware `Pings` and the caller"), "{error}");
    let built = DeepAgent::builder().model(model()).tool(ping()).shared_middleware(Pings("Pings")).build();
    assert!(built.unwrap_err().to_string().contains("from middleware `Pings` and the caller"));
    DeepAgent::builder().model(model()).tool(ping()).middleware(Pings("Filesystem")).build().unwrap();
}

#[test]
fn a_middleware_without_a_name_is_rejected() {
    let error = DeepAgent::builder().model(model()).middleware(Own(" ")).build().unwrap_err().to_string();
    assert!(error.contains("a middleware has an empty name"), "{error}");
}

#[test]
fn an_approval_for_an_unknown_tool_is_rejected() {
    let asked = |name: &str| InterruptPolicy::new().before(name, InterruptOn::any());
    let kept = || DeepAgent::builder().model(model()).journal(MemoryJournal::new()).tool(ping());
    let error = kept().interrupt_on(asked("pign")).build().unwrap_err().to_string();
    assert!(
        error.contains("calls of `pign` are to be approved by a person, but no tool has that name; there are ")
            && error.contains("ping"),
        "{error}"
    );
    // A policy may name tools of the library that an agent lacks, and a trailing star may match nothing.
    let everything = kept()
        .background_agents(true)
        .files(FilesystemOptions {
            background_commands: BackgroundCommands::EndWithRun,
            ..FilesystemOptions::default()
        })
        .summarization(SummarizationOptions::default().compact_tool(true))
        .middleware(AskUser)
        .middleware(Web::default())
        .middleware(ToolSearch::default().above_tokens(0));
    let own = everything.explain().unwrap().tools.into_iter().map(|tool| tool.name);
    let own: Vec<String> = own.chain(["execute", "web_search", "pign*"].map(str::to_owned)).collect();
    assert!(own.len() > 15, "{own:?}");
    for name in &own {
        let explanation = kept().interrupt_on(asked(name)).explain().unwrap();
        assert!(explanation.asked_later.is_empty(), "{name}");
    }
    let never = InterruptPolicy::new().never("pign");
    kept().interrupt_on(never).build().unwrap();

    // The main agent's policy may name tools of a subagent, and the other way round.
    let pong = || tool_fn("pong", "Answers.", |_: NoArgs, _cx| async { Ok("ping") });
    let worker = || SubAgentSpec::new("worker", "Works.");
    kept().interrupt_on(asked("pong")).sub_agent(worker().tool(pong())).build().unwrap();
    kept().interrupt_on(asked("pong")).sub_agent_defaults(SubAgentDefaults::default().tool(pong())).build().unwrap();
    kept().sub_agent(worker().interrupt_on(asked("ping"))).build().unwrap();
    let error = kept().sub_agent(worker().interrupt_on(asked("pogn"))).build().unwrap_err().to_string();
    assert!(error.contains("calls of `pogn`"), "{error}");
}

#[test]
fn an_approval_may_name_a_tool_offered_later() {
    let asked = || InterruptPolicy::new().before("pign", InterruptOn::any()).before("ping", InterruptOn::any());
    let kept = || DeepAgent::builder().model(model()).journal(MemoryJournal::new()).interrupt_on(asked());
    let offered =
        || offered_tools(|_cx| async { Ok(Some(ToolSet::new([Arc::new(ping()) as Arc<dyn DynTool>]).unwrap())) });
    assert!(kept().middleware(Pings("Pings")).build().is_err(), "its tools are always the same");
    let explanation = kept().middleware(Pings("Pings")).shared_middleware(offered().named("Later")).explain().unwrap();
    assert_eq!(explanation.asked_later, ["pign"]);
    assert!(
        explanation.to_string().contains("asked about once there are tools with these names: pign"),
        "{explanation}"
    );
}
