//! Subagents defined by files, skills and data.

use deepagents::channels::AgentsMetadata;
use deepagents::core::model::ChatModel;
use deepagents::fs::permissions::{AccessMode as RuleMode, Operation, Permissions, Rule};
use deepagents::fs::{LocalBackend, StateBackend};
use deepagents::middleware::filesystem::{EditTool, Filesystem, FilesystemOptions};
use deepagents::middleware::subagents::AgentSource;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::models::{ModelConfig, Registry};
use deepagents::profile::{ProfileConfig, Profiles};
use deepagents::subagents::{RemoteAccess, SubAgentSpec};
use deepagents::{
    Decision, DeepAgent, DeepAgentBuilder, FinishReason, InterruptOn, InterruptPolicy, MemoryJournal, ModelRequest,
    Outcome, RunInput, tool_fn,
};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::memory::{files, put, told};
use crate::results;

const REVIEWER: &str =
    "---\nname: reviewer\ndescription: Reads a change.\ntools: [read_file, grep]\n---\nYou review.\n";

fn task(agent: &str, description: &str) -> Turn {
    Turn::call("task", json!({"description": description, "subagent_type": agent}))
}

fn first_asked(words: &'static str) -> impl Fn(&ModelRequest) -> bool + Send + Sync + 'static {
    move |request| request.messages.get(0).is_some_and(|m| m.text().contains(words))
}

/// A model that delegates `Sub.` once to an agent, which then plays these turns.
fn delegating(agent: &'static str, child: impl IntoIterator<Item = Turn>) -> ScriptedModel {
    ScriptedModel::rules()
        .when(first_asked("Sub."), child)
        .otherwise([task(agent, "Sub."), Turn::text("Done.")])
        .build()
}

fn below(model: &ScriptedModel) -> ModelRequest {
    model.requests().into_iter().find(|r| first_asked("Sub.")(r)).expect("the sub-agent was asked")
}

fn names(request: &ModelRequest) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn listed(request: &ModelRequest) -> Vec<String> {
    let task = request.tools.iter().find(|tool| tool.name == "task");
    let lines = task.into_iter().flat_map(|tool| tool.description.lines().filter_map(|line| line.strip_prefix("- ")));
    lines.map(|line| line.split(':').next().unwrap().to_owned()).collect()
}

async fn run(
    model: &ScriptedModel,
    given: &[(&str, &str)],
    configure: impl FnOnce(DeepAgentBuilder) -> DeepAgentBuilder,
) -> Outcome {
    let agent = configure(DeepAgent::builder().model(model.clone()).agents_from(["/agents"])).build().unwrap();
    agent.invoke(RunInput::new("Main.").update(files(given.iter().copied()))).await.unwrap()
}

/// The problems reported about these files, and the names of the agents listed.
async fn load(
    given: &[(&str, &str)],
    configure: impl FnOnce(DeepAgentBuilder) -> DeepAgentBuilder,
) -> (Vec<String>, Vec<String>) {
    let model = ScriptedModel::new([Turn::text("Hello.")]);
    let agent = configure(DeepAgent::builder().model(model.clone()).agents_from(["/agents"])).build().unwrap();
    let input = RunInput::new("Main.").update(files(given.iter().copied()));
    let event = told(&agent, input, "sub_agents_loaded").await.pop().unwrap_or_default();
    let warnings: Vec<String> = serde_json::from_value(event["warnings"].clone()).unwrap_or_default();
    (listed(&model.requests()[0]), warnings)
}

#[tokio::test]
async fn a_file_with_front_matter_defines_a_sub_agents_prompt_and_exact_tools() {
    let child = [Turn::call("write_file", json!({"file_path": "/x", "content": "x"})), Turn::text("Looks good.")];
    let model = delegating("reviewer", child);
    let outcome = run(&model, &[("/agents/reviewer.md", REVIEWER)], |b| b).await;
    assert_eq!(results(&outcome), [("Looks good.".to_owned(), false)]);
    let request = below(&model);
    assert!(request.system_text().starts_with("You review."), "{}", request.system_text());
    assert_eq!(names(&request), ["grep", "read_file"]);
    let refused = model.requests().into_iter().rfind(first_asked("Sub.")).unwrap();
    assert_eq!(refused.messages.last().unwrap().text(), "Error: write_file is not a tool you have.");
    assert_eq!(listed(&model.requests()[0]), ["general-purpose", "reviewer"]);
    assert_eq!(outcome.state.get::<AgentsMetadata>().unwrap().as_ref().unwrap().agents.len(), 1);
}

#[tokio::test]
async fn an_unnamed_agent_is_named_after_its_file_or_directory() {
    let plain = "---\ndescription: Plain.\n---\n";
    let given = [("/agents/plain.md", plain), ("/agents/folder/AGENTS.md", plain), ("/agents/.hidden.md", plain)];
    let (listed, warnings) = load(&given, |b| b.general_purpose(false)).await;
    assert_eq!((listed, warnings), (vec!["folder".to_owned(), "plain".to_owned()], vec![]));
}

#[tokio::test]
async fn later_sources_win_and_code_overrides_files() {
    let of = |text: &str| format!("---\ndescription: {text}\n---\n");
    let (user, project, mine) = (of("user"), of("project"), of("file"));
    let given = [
        ("/user/a.md", user.as_str()),
        ("/user/b.md", user.as_str()),
        ("/project/a.md", project.as_str()),
        ("/project/mine.md", mine.as_str()),
        ("/project/general-purpose.md", mine.as_str()),
    ];
    let model = ScriptedModel::new([Turn::text("Hello.")]);
    let agent = DeepAgent::builder()
        .model(model.clone())
        .agents_from(["/user", "/project"])
        .sub_agent(SubAgentSpec::new("mine", "code"))
        .build()
        .unwrap();
    let input = RunInput::new("Main.").update(files(given));
    let told = told(&agent, input, "sub_agents_loaded").await;
    let request = &model.requests()[0];
    let description = &request.tools.iter().find(|t| t.name == "task").unwrap().description;
    for line in ["- a: project", "- b: user", "- mine: code", "- general-purpose: file"] {
        assert!(description.contains(line), "{description}");
    }
    assert_eq!(description.matches("\n- ").count(), 4, "{description}");
    let warning = "/project/mine.md: the sub-agent `mine` was left out: the agent was given another of that name";
    assert_eq!(told[0]["warnings"], json!([warning]));
}

#[tokio::test]
async fn an_unquoted_prose_description_is_still_accepted() {
    let critic = "---\ndescription: Use it so: for \"a: b\"\ntools: [ls]\n---\nBe strict.";
    let (listed, warnings) = load(&[("/agents/critic.md", critic)], |b| b).await;
    assert_eq!((listed, warnings), (vec!["general-purpose".to_owned(), "critic".to_owned()], Vec::<String>::new()));
}

#[tokio::test]
async fn unusable_files_are_skipped_with_a_reason() {
    let long = format!("---\ndescription: d\n---\n{}", "x".repeat(300 * 1024));
    let given = [
        ("/agents/a.md", "no front matter"),
        ("/agents/b.md", "---\nname: b\n---\n"),
        ("/agents/c.md", "---\ndescription: d\ncolour: red\n---\n"),
        ("/agents/d.md", "---\ndescription: d\ntools: [fly]\n---\n"),
        ("/agents/e.md", "---\ndescription: d\nmodel: house:small\n---\n"),
        ("/agents/f.md", "---\nname: two words\ndescription: d\n---\n"),
        ("/agents/g.md", "---\ndescription: d\nprompt: a\n---\nb\n"),
        ("/agents/h.md", "---\ndescription: d\ninterrupt_on: {ls: true}\n---\n"),
        ("/agents/i.md", &long),
        ("/agents/j.md", "---\ndescription: d\nmode: fork\nskills: [/s]\n---\n"),
        ("/agents/k.md", "---\ndescription: d\npermissions: [{operations: [read], paths: [x]}]\n---\n"),
        ("/agents/l.md", "---\ndescription: d\nrunnable: nobody\n---\n"),
        ("/agents/m.md", "---\ndescription: d\nresponse_format: {type: string}\n---\n"),
        ("/agents/n.md", "---\ndescription: d\nmodel: {extra: {tools: [{type: web_search}]}}\n---\n"),
        ("/agents/o.txt", "not looked at"),
    ];
    let (listed, warnings) = load(&given, |b| b).await;
    assert_eq!(listed, ["general-purpose"]);
    let reasons = [
        ("a.md", "does not begin with a line `---`"),
        ("b.md", "it has no `description`"),
        ("c.md", "unknown field `colour`"),
        ("d.md", "there is no tool `fly` for it; there are"),
        ("e.md", "say with `.models(...)` where it comes from"),
        ("f.md", "other characters"),
        ("g.md", "put it in one place"),
        ("h.md", "no journal to keep questions in"),
        ("i.md", "more than 262144 bytes"),
        ("j.md", "it cannot have its own"),
        ("k.md", "`x`"),
        ("l.md", "no agent `nobody`"),
        ("m.md", "not a JSON schema of type object"),
        ("n.md", "`extra` of a model can only be set in code"),
    ];
    assert_eq!(warnings.len(), reasons.len(), "{warnings:#?}");
    for (file, why) in reasons {
        assert!(warnings.iter().any(|w| w.contains(file) && w.contains(why)), "{file}: {why}: {warnings:#?}");
    }
}

#[tokio::test]
async fn files_are_reread_only_after_changes_and_the_same_list_is_shared() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "agents/a.md", "---\ndescription: One.\n---\n");
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let agent = DeepAgent::builder()
        .model(model.clone())
        .backend(LocalBackend::open(folder.path()).unwrap())
        .agents_from(["/agents", "/nowhere"])
        .journal(MemoryJournal::new())
        .build()
        .unwrap();
    let turn = || told(&agent, RunInput::new("Hi.").thread("t"), "sub_agents_loaded");
    assert_eq!(turn().await, [json!({"agents": ["a"], "warnings": []})]);
    assert!(turn().await.is_empty());
    put(folder.path(), "agents/b.md", "---\ndescription: Two.\n---\n");
    assert_eq!(turn().await, [json!({"agents": ["a", "b"], "warnings": []})]);
    let requests = model.requests();
    let spec = |at: usize| requests[at].tools.iter().find(|tool| tool.name == "task").unwrap().clone();
    assert!(Arc::ptr_eq(&spec(0), &spec(1)));
    assert_eq!(listed(&requests[2]), ["general-purpose", "a", "b"]);
}

#[tokio::test]
async fn a_source_can_use_its_own_backend() {
    let home = tempfile::tempdir().unwrap();
    put(home.path(), "agents/mine.md", "---\ndescription: At home.\n---\n");
    let model = delegating("mine", [Turn::call("ls", json!({"path": "/"})), Turn::text("Seen.")]);
    let source = AgentSource::on("/agents", LocalBackend::open(home.path()).unwrap());
    let agent = DeepAgent::builder().model(model.clone()).agents_from([source]).build().unwrap();
    let outcome = agent.invoke("Main.").await.unwrap();
    assert_eq!(results(&outcome)[0].0, "Seen.");
    let seen = model.requests().into_iter().rfind(first_asked("Sub.")).unwrap();
    assert!(!seen.messages.last().unwrap().text().contains("agents"), "its files are those of the agent");
}

#[tokio::test]
async fn the_number_and_size_of_agent_files_read_is_limited() {
    let file = "---\ndescription:\n---\n";
    let many: Vec<String> = (0..510).map(|n| format!("/agents/{n:03}.md")).collect();
    let long = format!("- name: x\n  description: d\n  prompt: {}\n", "p".repeat(300 * 1024));
    let skill =
        [("/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: d\n---\n"), ("/skills/pdf/agents.yaml", long.as_str())];
    let given: Vec<(&str, &str)> = many.iter().map(|path| (path.as_str(), file)).chain(skill).collect();
    let (listed, warnings) = load(&given, |b| b.skills(["/skills"])).await;
    assert_eq!(listed, ["general-purpose"]);
    assert_eq!(warnings.len(), 501);
    assert!(warnings[0].contains("/agents holds more than 500 files"), "{}", warnings[0]);
}

#[tokio::test]
async fn a_file_cannot_weaken_its_parents_rules_and_approvals() {
    let wide = "---\ndescription: d\npermissions: []\ninterrupt_on: {send: false}\n---\n";
    let strict = "---\ndescription: d\npermissions: [{operations: [write], paths: [/notes/**], mode: deny}]\n---\n";
    let rules = || Permissions::new([Rule::new(RuleMode::Deny, ["/secret/**"]).only([Operation::Write])]).unwrap();
    let write = |path: &str| ("write_file", json!({"file_path": path, "content": "x"}));
    for (file, denied) in [(wide, vec![true, false]), (strict, vec![true, true])] {
        let child = [Turn::calls([write("/secret/a"), write("/notes/a")]), Turn::text("Tried.")];
        let model = delegating("x", child);
        run(&model, &[("/agents/x.md", file)], |b| b.permissions(rules())).await;
        let last = model.requests().into_iter().rfind(first_asked("Sub.")).unwrap();
        let errors: Vec<bool> = last.messages.iter().filter_map(|m| m.as_tool().map(|t| t.is_error)).collect();
        assert_eq!(errors, denied);
    }
    let send = tool_fn("send", "Sends.", |_: Empty, _| async { Ok("sent") });
    let model = delegating("x", [Turn::call("send", json!({})), Turn::text("Sent.")]);
    let agent = DeepAgent::builder()
        .model(model)
        .tool(send)
        .agents_from(["/agents"])
        .interrupt_on(InterruptPolicy::new().before("send", InterruptOn::any()))
        .journal(MemoryJournal::new())
        .build()
        .unwrap();
    let input = RunInput::new("Main.").thread("t").update(files([("/agents/x.md", wide)]));
    assert_eq!(agent.invoke(input).await.unwrap().stop, FinishReason::Interrupted);
    let unasked = "---\ndescription: d\ninterrupt_on: {write_file: false}\n---\n";
    let asks = Permissions::new([Rule::new(RuleMode::Ask, ["/secret/**"])]).unwrap();
    let model = delegating("x", [Turn::calls([write("/secret/a")]), Turn::text("Tried.")]);
    let agent = DeepAgent::builder().model(model).agents_from(["/agents"]).permissions(asks);
    let agent = agent.journal(MemoryJournal::new()).build().unwrap();
    let input = RunInput::new("Main.").thread("t").update(files([("/agents/x.md", unasked)]));
    assert_eq!(agent.invoke(input).await.unwrap().stop, FinishReason::Interrupted);
}

#[tokio::test]
async fn rules_that_would_not_bind_the_file_tools_are_rejected() {
    let own = || Filesystem::new(StateBackend::new());
    let rules = Permissions::new([Rule::new(RuleMode::Deny, ["/secret/**"])]).unwrap();
    let model = ScriptedModel::new([]);
    let refused = DeepAgent::builder().model(model).middleware(own()).permissions(rules).build().unwrap_err();
    assert!(refused.to_string().contains("wrap its backend in `PermissionedBackend`"), "{refused}");
    let file = "---\ndescription: d\npermissions: [{operations: [write], paths: [/notes/**], mode: deny}]\n---\n";
    let (listed, warnings) = load(&[("/agents/x.md", file)], |b| b.middleware(own())).await;
    assert_eq!(listed, ["general-purpose"]);
    assert!(warnings[0].contains("do not apply to a `Filesystem` of your own"), "{warnings:?}");
}

#[tokio::test]
async fn a_file_can_choose_the_tool_that_edits_files() {
    let model = delegating("x", [Turn::text("Looked.")]);
    let both = FilesystemOptions { edit_tool: Some(EditTool::Both), ..FilesystemOptions::default() };
    let file = "---\ndescription: d\nedit_tool: apply_patch\n---\n";
    run(&model, &[("/agents/x.md", file)], |b| b.files(both)).await;
    let has = |at: usize, name: &str| model.requests()[at].tools.iter().any(|tool| tool.name == name);
    assert_eq!((has(0, "edit_file"), has(0, "apply_patch")), (true, true));
    assert_eq!((has(1, "edit_file"), has(1, "apply_patch")), (false, true));
}

#[tokio::test]
async fn a_file_cannot_choose_an_edit_tool_about_which_its_agents_approvals_say_nothing() {
    let asked = ["edit_file", "write_file", "delete"];
    let ask = asked.iter().fold(InterruptPolicy::new(), |asked, tool| asked.before(*tool, InterruptOn::any()));
    for tool in ["apply_patch", "both"] {
        let file = format!("---\ndescription: d\nedit_tool: {tool}\n---\n");
        let given = [("/agents/x.md", file.as_str())];
        let (listed, warnings) = load(&given, |b| b.interrupt_on(ask.clone()).journal(MemoryJournal::new())).await;
        assert_eq!(listed, ["general-purpose"], "{tool}");
        assert!(warnings[0].contains("a tool that this agent does not have"), "{warnings:?}");
    }
    let same = [("/agents/x.md", "---\ndescription: d\nedit_tool: edit_file\n---\n")];
    let (listed, warnings) = load(&same, |b| b.interrupt_on(ask.clone()).journal(MemoryJournal::new())).await;
    assert_eq!((listed, warnings), (vec!["general-purpose".to_owned(), "x".to_owned()], vec![]));
}

#[tokio::test]
async fn the_profile_of_a_model_that_a_file_names_does_not_change_its_edit_tool() {
    let small = ScriptedModel::rules().always(Turn::text("Small.")).build().with_name("house:small");
    let (shared, mut registry, mut profiles) = (small.clone(), Registry::new(), Profiles::builtin());
    registry.register("house", move |_: &str, _: ModelConfig| Ok(Arc::new(shared.clone()) as Arc<dyn ChatModel>));
    let patches = ProfileConfig { edit_tool: Some(EditTool::ApplyPatch), ..ProfileConfig::default() };
    profiles.register(small.name(), patches).unwrap();
    let model = delegating("x", []);
    let file = "---\ndescription: d\nmodel: house:small\n---\n";
    let builder = DeepAgent::builder().model(model).models(registry).profiles(profiles).agents_from(["/agents"]);
    let input = RunInput::new("Main.").update(files([("/agents/x.md", file)]));
    builder.build().unwrap().invoke(input).await.unwrap();
    let request = small.requests().remove(0);
    assert!(names(&request).contains(&"edit_file") && !names(&request).contains(&"apply_patch"));
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Empty {}

#[tokio::test]
async fn a_file_can_require_approvals_set_a_response_format_or_fork() {
    let file = "---\ndescription: d\ninterrupt_on:\n  ls: {allowed_decisions: [accept, reject], description: Look?, args_schema: {type: object}}\n---\n";
    let model = delegating("x", [Turn::call("ls", json!({"path": "/"})), Turn::text("Looked.")]);
    let agent =
        DeepAgent::builder().model(model).agents_from(["/agents"]).journal(MemoryJournal::new()).build().unwrap();
    let input = RunInput::new("Main.").thread("t").update(files([("/agents/x.md", file)]));
    let waiting = agent.invoke(input).await.unwrap();
    let question = waiting.action_requests().remove(0);
    assert_eq!((question.text.as_str(), question.allowed.len()), ("Look?", 2));
    let done = agent.invoke(RunInput::resume("t").decide(&question.id, Decision::Approve)).await.unwrap();
    assert_eq!(results(&done)[0].0, "Looked.");

    let file = "---\ndescription: d\nresponse_format:\n  title: Count\n  type: object\n  properties: {n: {type: integer}}\n  \
                required: [n]\n---\n";
    let model = delegating("x", [Turn::call("Count", json!({"n": 3})), Turn::text(r#"{"n":3}"#)]);
    assert_eq!(results(&run(&model, &[("/agents/x.md", file)], |b| b).await)[0].0, r#"{"n": 3}"#);

    let fork = "---\ndescription: d\nmode: fork\n---\nYou are brief.\n";
    let model = ScriptedModel::rules()
        .when(|r| r.messages.last().unwrap().text().ends_with("Sub."), [Turn::text("Brief.")])
        .otherwise([task("x", "Sub."), Turn::text("Done.")])
        .build();
    run(&model, &[("/agents/x.md", fork)], |b| b.system_prompt("Above.")).await;
    let requests = model.requests();
    assert_eq!((&requests[0].system, &requests[0].tools), (&requests[1].system, &requests[1].tools));
    assert!(requests[1].messages.last().unwrap().text().starts_with("You are brief.\n"));
}

#[tokio::test]
async fn a_skills_agents_are_listed_with_their_skill_and_run_when_called() {
    let skill = "---\nname: pdf\ndescription: Reads PDF files.\n---\n";
    let agents = "- name: extractor\n  description: Extracts text.\n  prompt: You extract.\n  tools: ls, read_file\n\
                  - name: general-purpose\n  description: Taken.\n- name: reviewer\n  description: Also taken.\n\
                  - name: broken\n  description: d\n  tools: [fly]\n";
    let model = delegating("extractor", [Turn::text("Extracted.")]);
    let given =
        [("/skills/pdf/SKILL.md", skill), ("/skills/pdf/agents.yaml", agents), ("/agents/reviewer.md", REVIEWER)];
    let agent = DeepAgent::builder().model(model.clone()).skills(["/skills"]).agents_from(["/agents"]).build().unwrap();
    let input = RunInput::new("Main.").update(files(given));
    let outcome = agent.invoke(input).await.unwrap();
    assert_eq!(results(&outcome), [("Extracted.".to_owned(), false)]);
    assert!(below(&model).system_text().starts_with("You extract."));
    assert_eq!(names(&below(&model)), ["ls", "read_file"]);
    assert_eq!(listed(&model.requests()[0]), ["general-purpose", "reviewer", "extractor"]);
    let warnings = &outcome.state.get::<AgentsMetadata>().unwrap().as_ref().unwrap().warnings;
    assert_eq!(warnings.len(), 3, "{warnings:#?}");
    assert!(warnings[0].contains("`general-purpose` was left out: the agent was given another"), "{warnings:#?}");
    assert!(warnings[1].contains("`reviewer` was left out: /agents/reviewer.md defines one"), "{warnings:#?}");
    assert!(warnings[2].contains("there is no tool `fly`"), "{warnings:#?}");
}

#[tokio::test]
async fn a_skills_agents_come_and_go_with_its_files_and_sub_agents_have_none() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "skills/pdf/SKILL.md", "---\nname: pdf\ndescription: d\n---\n");
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let agent = DeepAgent::builder()
        .model(model.clone())
        .backend(LocalBackend::open(folder.path()).unwrap())
        .skills(["/skills"])
        .general_purpose(false)
        .journal(MemoryJournal::new())
        .build()
        .unwrap();
    let turn = || agent.invoke(RunInput::new("Hi.").thread("t"));
    turn().await.unwrap();
    assert!(!names(&model.requests()[0]).contains(&"task"), "there is nobody to delegate to");
    put(folder.path(), "skills/pdf/agents.yaml", "x: {description: d}\n");
    turn().await.unwrap();
    assert_eq!(listed(&model.requests()[1]), ["x"]);
    std::fs::remove_file(folder.path().join("skills/pdf/agents.yaml")).unwrap();
    turn().await.unwrap();
    assert!(listed(&model.requests()[2]).is_empty());
}

#[tokio::test]
async fn file_defined_agents_can_be_started_in_the_background() {
    let model = ScriptedModel::rules()
        .when(first_asked("Sub."), [Turn::text("Reviewed.")])
        .otherwise([
            Turn::call("start_async_task", json!({"description": "Sub.", "subagent_type": "reviewer"})),
            Turn::text("Started."),
        ])
        .build();
    let outcome = run(&model, &[("/agents/reviewer.md", REVIEWER)], |b| b.background_agents(true)).await;
    assert!(results(&outcome)[0].0.starts_with("Started. task_id: "), "{:?}", results(&outcome));
    let start = model.requests()[0].tools.iter().find(|tool| tool.name == "start_async_task").unwrap().clone();
    assert!(start.description.contains("- reviewer: Reads a change."), "{}", start.description);
}

fn defined(json: Value) -> SubAgentSpec {
    serde_json::from_value(json).unwrap()
}

fn on_a_server(more: &str) -> String {
    format!("---\nname: far\ndescription: Works elsewhere.\nurl: http://127.0.0.1:9\ngraph_id: g\n{more}---\n")
}

#[tokio::test]
async fn a_file_may_name_a_server_only_when_allowed_and_hold_no_secret() {
    let listed = async |file: String, access: RemoteAccess| {
        let model = ScriptedModel::new([Turn::text("Hi.")]);
        run(&model, &[("/agents/far.md", file.as_str())], |builder| builder.remote(access)).await;
        model.requests()[0].tools.iter().any(|tool| tool.name == "task" && tool.description.contains("- far: "))
    };
    let open = || RemoteAccess::new().from_files().variables(|name| (name == "KEY").then(|| "k".to_owned()));
    assert!(!listed(on_a_server(""), RemoteAccess::new()).await, "it was not allowed");
    assert!(listed(on_a_server(""), open()).await);
    assert!(listed(on_a_server("headers: {x-api-key: \"${KEY}\"}\n"), open()).await);
    assert!(!listed(on_a_server("headers: {x-api-key: abc}\n"), open()).await, "a secret would be in the log");
    assert!(!listed(on_a_server("headers: {x-api-key: \"${OTHER}\"}\n"), open()).await, "it is not set");
    assert!(!listed(on_a_server("tools: [ls]\n"), open()).await, "the agent there has its own tools");
}

#[tokio::test]
async fn options_incompatible_with_a_server_are_rejected_in_code_too() {
    let refused = |json: Value| {
        let builder = DeepAgent::builder().model(ScriptedModel::new([])).sub_agent(defined(json));
        builder.build().unwrap_err().to_string()
    };
    let with = |key: &str, value: Value| {
        let mut json = json!({"name": "x", "description": "d", "url": "http://127.0.0.1:9", "graph_id": "g"});
        json[key] = value;
        refused(json)
    };
    assert!(with("model", json!("openai:gpt-4.1")).contains("`model` cannot be combined with `url`"));
    assert!(with("mode", json!("fork")).contains("does not see the conversation"));
    assert!(with("url", json!("ftp://x")).contains("http://"));
    assert!(with("url", json!("http://me:secret@x")).contains("give them as a header"));
    assert!(with("graph_id", json!("")).contains("`graph_id` is missing"));
    assert!(with("budget", json!({"tokens": 5})).contains("but for its seconds"));
    assert!(refused(json!({"name": "x", "description": "d", "graph_id": "g"})).contains("give its address as `url`"));
    let shown = format!(
        "{:?}",
        defined(json!({"name": "x", "description": "d", "url": "http://h", "headers": {"k": "very-secret"}}))
    );
    assert!(!shown.contains("very-secret"), "{shown}");
}

#[tokio::test]
async fn prompt_is_an_alias_of_system_prompt_and_both_together_are_rejected() {
    let model = delegating("x", [Turn::text("Hi.")]);
    let definition = defined(json!({"name": "x", "description": "d", "prompt": "You are x."}));
    let agent = DeepAgent::builder().model(model.clone()).sub_agent(definition).build().unwrap();
    agent.invoke("Main.").await.unwrap();
    assert!(below(&model).system_text().starts_with("You are x."));
    let both = json!({"name": "x", "description": "d", "prompt": "a", "system_prompt": "b"});
    assert!(serde_json::from_value::<SubAgentSpec>(both).unwrap_err().to_string().contains("duplicate field"));
}

#[tokio::test]
async fn a_built_agent_can_be_referenced_by_name_as_graph_or_runnable() {
    let inner = ScriptedModel::rules().always(Turn::text("Built.")).build();
    let built = DeepAgent::builder().model(inner).build().unwrap();
    for key in ["graph", "runnable"] {
        let model = delegating("x", []);
        let definition = defined(json!({"name": "x", "description": "d", key: "house"}));
        let builder = DeepAgent::builder().model(model).runnable("house", &built);
        let outcome = builder.sub_agent(definition).build().unwrap().invoke("Main.").await.unwrap();
        assert_eq!(results(&outcome), [("Built.".to_owned(), false)]);
    }
    let wrong = |json: Value| {
        let builder = DeepAgent::builder().model(ScriptedModel::new([])).runnable("house", &built);
        builder.sub_agent(defined(json)).build().unwrap_err().to_string()
    };
    let beside = wrong(json!({"name": "x", "description": "d", "graph": "house", "tools": []}));
    assert!(beside.contains("`tools` cannot be combined with `runnable`"), "{beside}");
    let unknown = wrong(json!({"name": "x", "description": "d", "graph": "nobody"}));
    assert!(unknown.contains("no agent `nobody` was given"), "{unknown}");
}

#[tokio::test]
async fn a_model_is_given_by_name_or_as_a_map_of_settings() {
    let small = ScriptedModel::rules().always(Turn::text("Small.")).build();
    let shared = small.clone();
    let mut registry = Registry::new();
    registry.register("house", move |_: &str, _: ModelConfig| Ok(Arc::new(shared.clone()) as Arc<dyn ChatModel>));
    let given = [
        (json!("house:small"), None),
        (json!({"model": "house:small", "temperature": 0.5, "max_tokens": 100}), Some(0.5)),
        (json!({"model_provider": "house", "model_name": "small", "temperature": 0.25}), Some(0.25)),
    ];
    for (model, temperature) in given {
        let definition = defined(json!({"name": "x", "description": "d", "model": model}));
        let builder = DeepAgent::builder().model(delegating("x", [])).models(registry.clone());
        let outcome = builder.sub_agent(definition).build().unwrap().invoke("Main.").await.unwrap();
        assert_eq!(results(&outcome)[0].0, "Small.");
        assert_eq!(small.requests().last().unwrap().settings.temperature, temperature);
    }
    let inherited = delegating("x", [Turn::text("Same.")]);
    let definition = defined(json!({"name": "x", "description": "d", "model": {"temperature": 1.0}}));
    let agent = DeepAgent::builder().model(inherited.clone()).sub_agent(definition).build().unwrap();
    agent.invoke("Main.").await.unwrap();
    assert_eq!(below(&inherited).settings.temperature, Some(1.0));
    let keyless = defined(json!({"name": "x", "description": "d", "model": "anthropic:claude-haiku-4-5"}));
    let builder = DeepAgent::builder().model(ScriptedModel::new([])).models(Registry::new());
    let error = builder.sub_agent(keyless).build().unwrap_err().to_string();
    assert!(error.contains("sub-agent `x`") && error.contains("needs a key"), "{error}");
}

#[tokio::test]
async fn the_reference_names_for_summarization_work_in_a_definition() {
    let long = "word ".repeat(2_000);
    let child = [
        Turn::call("ls", json!({"path": "/"})).and_text(&long),
        Turn::call("ls", json!({"path": "/"})).and_text(&long),
        Turn::text("SUMMARY"),
        Turn::text("Done below."),
    ];
    let model = ScriptedModel::rules()
        .when(
            |r: &ModelRequest| r.messages.iter().any(|m| m.text().contains("Sub.") || m.text().contains("SUMMARY")),
            child,
        )
        .otherwise([task("x", "Sub."), Turn::text("Done.")])
        .build();
    let definition = defined(json!({
        "name": "x", "description": "d",
        "summarization": {"max_tokens_before_summary": 6_000, "messages_to_keep": 2},
    }));
    let agent = DeepAgent::builder().model(model.clone()).sub_agent(definition).build().unwrap();
    let outcome = agent.invoke("Main.").await.unwrap();
    assert_eq!(results(&outcome).last().unwrap().0, "Done below.", "{:?}", results(&outcome));
    let last = model.requests().into_iter().rfind(|r| r.messages.iter().any(|m| m.text().contains("SUMMARY"))).unwrap();
    assert_eq!(last.messages.len(), 4, "the summary, the task, and the two messages that stay");

    let with = |summarization: Value| {
        let definition = defined(json!({"name": "x", "description": "d", "summarization": summarization}));
        let builder = DeepAgent::builder().model(ScriptedModel::new([]));
        builder.sub_agent(definition).build().map(drop).map_err(|error| error.to_string())
    };
    assert!(
        with(json!({"trigger": [["tokens", 60000], {"messages": 40, "tokens": 9}], "keep": ["messages", 6]})).is_ok()
    );
    let twice = with(json!({"trigger": ["tokens", 1], "max_tokens_before_summary": 1})).unwrap_err();
    assert!(twice.contains("two spellings of the same key"), "{twice}");
    assert!(with(json!({"keep": ["days", 1]})).unwrap_err().contains("unknown size `days`"));
    assert!(with(json!({"keep": 5})).unwrap_err().contains("is not a valid size"));
}

#[test]
fn unknown_keys_in_a_definition_are_reported_with_the_known_ones() {
    let error = |json: Value| serde_json::from_value::<SubAgentSpec>(json).unwrap_err().to_string();
    let unknown = error(json!({"name": "x", "description": "d", "sytem_prompt": "typo"}));
    assert!(unknown.contains("unknown field `sytem_prompt`, expected one of `name`, `description`"), "{unknown}");
    let model = error(json!({"name": "x", "description": "d", "model": {"modl": "typo"}}));
    assert!(model.contains("unknown field `modl`"), "{model}");
    let keep = error(json!({"name": "x", "description": "d", "summarization": {"keeps": 1}}));
    assert!(keep.contains("unknown field `keeps`"), "{keep}");
}

#[test]
fn invalid_definitions_in_code_are_rejected_at_build_time() {
    let wrong = |json: Value| {
        let builder = DeepAgent::builder().model(ScriptedModel::new([])).backend(StateBackend::new());
        builder.sub_agent(defined(json)).build().unwrap_err().to_string()
    };
    let tools = wrong(json!({"name": "x", "description": "d", "tools": ["fly"]}));
    assert!(tools.contains("sub-agent `x`: there is no tool `fly` for it; there are"), "{tools}");
    let empty = wrong(json!({"name": "x", "description": "d", "interrupt_on": {"ls": {"allowed_decisions": []}}}));
    assert!(empty.contains("no decision is allowed about calls of `ls`"), "{empty}");
    let source = DeepAgent::builder().model(ScriptedModel::new([])).agents_from(["../out"]).build().unwrap_err();
    assert!(source.to_string().contains("sub-agents cannot have this path"), "{source}");
}

#[tokio::test]
async fn a_skills_agents_are_found_when_skills_is_the_users_own_middleware() {
    let given = [
        ("/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: d\nagents: {x: {description: In front.}}\n---\n"),
        ("/skills/pdf/agents.yaml", "x: {description: Beside.}\ny: {description: Beside.}\n"),
    ];
    let skills = deepagents::middleware::Skills::new(StateBackend::new(), ["/skills"]).unwrap();
    let model = ScriptedModel::new([Turn::text("Hello.")]);
    let agent = DeepAgent::builder().model(model.clone()).middleware(skills).build().unwrap();
    agent.invoke(RunInput::new("Main.").update(files(given))).await.unwrap();
    assert_eq!(listed(&model.requests()[0]), ["general-purpose", "x", "y"]);
}

#[tokio::test]
async fn discovered_agents_persist_in_the_journal_and_are_not_reread() {
    let folder = tempfile::tempdir().unwrap();
    let file = "---\ndescription: d\nmodel: {temperature: 0.5}\npermissions: [{operations: [write], paths: [/x], mode: ask}]\n\
                interrupt_on: {ls: {allowed_decisions: [approve], description: Look?, expires_after: 60}, grep: true}\n\
                response_format: {name: Count, schema: {type: object}}\nmode: fork\n\
                summarization: {max_tokens_before_summary: 9, messages_to_keep: 2}\n---\nYou are full.\n";
    put(folder.path(), "agents/full.md", file);
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let build = || {
        let files = LocalBackend::open(folder.path()).unwrap();
        let builder = DeepAgent::builder().model(model.clone()).backend(files).agents_from(["/agents"]);
        builder.journal(journal.clone()).build().unwrap()
    };
    let turn = async || told(&build(), RunInput::new("Hi.").thread("t"), "sub_agents_loaded").await;
    assert_eq!(turn().await, [json!({"agents": ["full"], "warnings": []})]);
    assert!(turn().await.is_empty());
    assert_eq!(model.requests()[0].tools, model.requests()[1].tools);
    let state = build().state("t").await.unwrap();
    let json = state.to_json(true).unwrap();
    let back = deepagents::State::from_json(state.schema().clone(), json.clone()).unwrap();
    assert_eq!(back.to_json(true).unwrap(), json);
}

#[tokio::test]
async fn an_agent_file_with_rules_gets_no_commands_and_one_without_does() {
    use deepagents::fs::shell::{Confinement, LocalShell, WithShell};
    let folder = tempfile::tempdir().unwrap();
    put(
        folder.path(),
        "agents/ruled.md",
        "---\ndescription: d\npermissions: [{operations: [write], paths: [/x], mode: deny}]\n---\n",
    );
    put(folder.path(), "agents/free.md", "---\ndescription: d\n---\n");
    for (agent, runs) in [("ruled", false), ("free", true)] {
        let model = delegating(agent, [Turn::text("Hi.")]);
        let shell = LocalShell::open(folder.path(), Confinement::Unconfined).unwrap();
        let files = WithShell::new(LocalBackend::open(folder.path()).unwrap(), shell);
        let agent = DeepAgent::builder().model(model.clone()).backend(files).agents_from(["/agents"]).build().unwrap();
        agent.invoke("Main.").await.unwrap();
        assert!(names(&model.requests()[0]).contains(&"execute"));
        assert_eq!(names(&below(&model)).contains(&"execute"), runs);
    }
}
