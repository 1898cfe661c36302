//! Defaults for all subagents, and settings of one, in every form of definition.

use std::sync::{Arc, Mutex};

use deepagents::channels::Files;
use deepagents::fs::permissions::{AccessMode, Operation, Permissions, Rule};
use deepagents::fs::{StateBackend, VPath};
use deepagents::middleware::subagents::DelegationLimits;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::{AgentSubAgent, Mode, SubAgentDefaults, SubAgentSpec};
use deepagents::{
    Budget, Context, Decision, DeepAgent, DeepAgentBuilder, FinishReason, HookOutput, InterruptOn, InterruptPolicy,
    Middleware, Result, RunInput,
};
use serde_json::{Value, json};

use super::{begins, echo, journal, names, task};
use crate::memory::{files, told};
use crate::results;

/// Records the agents in which it runs.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Middleware for Seen {
    fn name(&self) -> &str {
        "Seen"
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        self.0.lock().unwrap().push(cx.agent_name().to_owned());
        Ok(HookOutput::next())
    }
}

impl Seen {
    fn names(&self) -> Vec<String> {
        let mut names = self.0.lock().unwrap().clone();
        names.sort();
        names
    }
}

const FILE: &str = "---\nname: filed\ndescription: From a file.\n---\nYou are filed.\n";

/// Delegates to one agent of every kind in parallel. The one with its own subagent delegates further.
fn everywhere() -> ScriptedModel {
    let kinds = ["general-purpose", "spec", "outer", "twin", "filed"];
    ScriptedModel::rules()
        .when(begins("Pass on."), [Turn::calls([task("inner", "Work.")]), Turn::text("Passed on.")])
        .when(
            |r: &deepagents::ModelRequest| r.messages.last().is_some_and(|m| m.text().ends_with("Work.")),
            [Turn::text("1"), Turn::text("2"), Turn::text("3"), Turn::text("4"), Turn::text("5")],
        )
        .otherwise([
            Turn::calls(kinds.map(|kind| task(kind, if kind == "outer" { "Pass on." } else { "Work." }))),
            Turn::text("Done."),
        ])
        .build()
}

fn with_all_kinds(builder: DeepAgentBuilder) -> DeepAgentBuilder {
    builder
        .name("main")
        .sub_agent(SubAgentSpec::new("spec", "Described."))
        .sub_agent(SubAgentSpec::new("outer", "Passes on.").sub_agent(SubAgentSpec::new("inner", "Below.")))
        .sub_agent(SubAgentSpec::new("twin", "Shares.").mode(Mode::Fork))
        .agents_from(["/agents"])
}

#[tokio::test]
async fn a_default_middleware_runs_in_every_child_but_not_in_the_main_agent() {
    let (seen, model) = (Seen::default(), everywhere());
    let defaults = SubAgentDefaults::default().middleware(seen.clone());
    let agent = with_all_kinds(DeepAgent::builder().model(model)).sub_agent_defaults(defaults).build().unwrap();
    let outcome = agent.invoke(RunInput::new("Main.").update(files([("/agents/filed.md", FILE)]))).await.unwrap();
    assert_eq!(results(&outcome).len(), 5);
    assert_eq!(seen.names(), ["filed", "general-purpose", "inner", "outer", "spec", "twin"]);
}

#[tokio::test]
async fn a_default_middleware_gives_way_to_a_sub_agents_own_of_the_same_name() {
    let (common, own) = (Seen::default(), Seen::default());
    let model = ScriptedModel::rules()
        .when(begins("Work."), [Turn::text("1"), Turn::text("2")])
        .otherwise([Turn::calls([task("own", "Work."), task("general-purpose", "Work.")]), Turn::text("Done.")])
        .build();
    let agent = DeepAgent::builder()
        .model(model)
        .sub_agent(SubAgentSpec::new("own", "Has its own.").middleware(own.clone()))
        .sub_agent_defaults(SubAgentDefaults::default().middleware(common.clone()))
        .build()
        .unwrap();
    agent.invoke("Main.").await.unwrap();
    assert_eq!((common.names(), own.names()), (vec!["general-purpose".to_owned()], vec!["own".to_owned()]));
}

#[tokio::test]
async fn default_tools_and_model_apply_to_children_without_their_own() {
    let own_tools = SubAgentSpec::new("own", "Has its own.").tool(echo("mine"));
    let below = ScriptedModel::rules().always(Turn::text("Below.")).build();
    let apart = ScriptedModel::rules().always(Turn::text("Apart.")).build();
    let main = ScriptedModel::new([
        Turn::calls([task("general-purpose", "One."), task("own", "Two."), task("other", "Three.")]),
        Turn::text("Done."),
    ]);
    let defaults = SubAgentDefaults::default().model(below.clone()).tool(echo("common"));
    let agent = DeepAgent::builder()
        .model(main.clone())
        .tool(echo("above"))
        .sub_agent(own_tools)
        .sub_agent(SubAgentSpec::new("other", "Has its own model.").model(apart.clone()))
        .sub_agent_defaults(defaults)
        .build()
        .unwrap();
    let outcome = agent.invoke("Main.").await.unwrap();
    let texts: Vec<String> = results(&outcome).into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["Below.", "Below.", "Apart."]);
    let has =
        |request: &deepagents::ModelRequest| ["above", "common", "mine"].map(|tool| names(request).contains(&tool));
    let of = |model: &ScriptedModel, words| has(&model.requests().into_iter().find(|r| begins(words)(r)).unwrap());
    assert_eq!(of(&main, "Main."), [true, false, false]);
    assert_eq!(of(&below, "One."), [false, true, false]);
    assert_eq!(of(&below, "Two."), [false, false, true]);
    assert_eq!(of(&apart, "Three."), [false, true, false]);
}

#[tokio::test]
async fn the_default_model_can_be_given_by_name() {
    let made = ScriptedModel::rules().always(Turn::text("Below.")).build();
    let mut registry = deepagents::models::Registry::new();
    let model = made.clone();
    registry.register("house", move |_, _| Ok(Arc::new(model.clone()) as Arc<dyn deepagents::ChatModel>));
    let main = ScriptedModel::new([Turn::calls([task("general-purpose", "One.")]), Turn::text("Done.")]);
    let builder = DeepAgent::builder().model(main).models(registry);
    let agent = builder.sub_agent_defaults(SubAgentDefaults::default().model_named("house:small")).build().unwrap();
    assert_eq!(results(&agent.invoke("Main.").await.unwrap())[0].0, "Below.");
    let unknown = SubAgentDefaults::default().model_named("nowhere:small");
    let builder = DeepAgent::builder().model(ScriptedModel::new([])).models(deepagents::models::Registry::new());
    let error = builder.sub_agent_defaults(unknown).build().unwrap_err().to_string();
    assert!(error.contains("there is no provider `nowhere`"), "{error}");
}

#[tokio::test]
async fn default_interrupt_on_applies_only_to_children_without_their_own() {
    let model = ScriptedModel::rules()
        .when(begins("Asked."), [Turn::call("send", json!({"n": 1})), Turn::text("Sent.")])
        .when(begins("Free."), [Turn::call("send", json!({"n": 2})), Turn::text("Sent.")])
        .otherwise([
            Turn::call("send", json!({"n": 0})),
            Turn::calls([task("general-purpose", "Asked."), task("free", "Free.")]),
            Turn::text("Done."),
        ])
        .build();
    let journal = journal();
    let build = || {
        let ask = InterruptPolicy::new().before("send", InterruptOn::any());
        DeepAgent::builder()
            .model(model.clone())
            .journal(journal.clone())
            .tool(echo("send"))
            .sub_agent(SubAgentSpec::new("free", "Is not asked.").interrupt_on(InterruptPolicy::new()))
            .sub_agent_defaults(SubAgentDefaults::default().interrupt_on(ask))
            .build()
            .unwrap()
    };
    let waiting = build().invoke(RunInput::new("Main.").thread("t")).await.unwrap();
    let questions = waiting.action_requests();
    assert_eq!((waiting.stop.clone(), questions.len()), (FinishReason::Interrupted, 1));
    assert!(questions[0].text.starts_with("general-purpose wants to call send"), "{}", questions[0].text);
    let done = build().invoke(RunInput::resume("t").decide(&questions[0].id, Decision::Approve)).await.unwrap();
    assert_eq!(results(&done).iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>()[1..], ["Sent.", "Sent."]);
}

#[tokio::test]
async fn the_delegation_section_is_only_in_prompts_of_agents_that_delegate() {
    let model = ScriptedModel::rules()
        .when(begins("Work."), [Turn::text("Worked.")])
        .otherwise([Turn::calls([task("general-purpose", "Work.")]), Turn::text("Done.")])
        .build();
    let builder = DeepAgent::builder().model(model.clone()).delegation_prompt("Hand out what takes long.");
    builder.build().unwrap().invoke("Main.").await.unwrap();
    let told: Vec<bool> = model.requests().iter().map(|r| r.system_text().contains("Hand out what takes")).collect();
    assert_eq!(told, [true, false, true]);
}

/// A nested definition: `1` contains `2`, and so on.
fn nested(levels: usize) -> SubAgentSpec {
    (1..=levels).rev().fold(SubAgentSpec::default(), |below, level| {
        let spec = SubAgentSpec::new(level.to_string(), "A level.");
        if below.name.is_empty() { spec } else { spec.sub_agent(below) }
    })
}

fn to_the_bottom(levels: usize) -> ScriptedModel {
    let mut rules = ScriptedModel::rules();
    for level in 1..levels {
        let words: &'static str = ["Level 1.", "Level 2.", "Level 3.", "Level 4."][level - 1];
        let next = task(&(level + 1).to_string(), &format!("Level {}.", level + 1));
        rules = rules.when(begins(words), [Turn::calls([next]), Turn::text(format!("Up {level}."))]);
    }
    let bottom: &'static str = ["", "Level 1.", "Level 2.", "Level 3.", "Level 4."][levels];
    let rules = rules.when(begins(bottom), [Turn::text("Bottom.")]);
    rules.otherwise([Turn::calls([task("1", "Level 1.")]), Turn::text("Done.")]).build()
}

#[tokio::test]
async fn described_sub_agents_nest_up_to_the_depth_limit() {
    let model = to_the_bottom(4);
    let agent = DeepAgent::builder().model(model.clone()).sub_agent(nested(4)).build().unwrap();
    let outcome = agent.invoke("Main.").await.unwrap();
    assert_eq!(results(&outcome), [("Up 1.".to_owned(), false)]);
    let bottom = model.requests().into_iter().find(|r| begins("Level 4.")(r)).expect("the bottom was reached");
    assert!(!names(&bottom).contains(&"task"), "nobody is below it");
}

#[test]
fn nesting_one_level_beyond_the_limit_is_a_clear_error() {
    let model = || ScriptedModel::new([]);
    let error = DeepAgent::builder().model(model()).sub_agent(nested(5)).build().unwrap_err().to_string();
    assert!(error.contains("its sub-agents would be at depth 5, but delegation may go no deeper than 4"), "{error}");
    let limits = |depth| DelegationLimits { depth, ..DelegationLimits::default() };
    let builder = |depth| DeepAgent::builder().model(model()).delegation_limits(limits(depth));
    assert!(builder(5).sub_agent(nested(5)).build().is_ok());
    assert!(builder(1).sub_agent(nested(2)).build().unwrap_err().to_string().contains("may go no deeper than 1"));
    // A subagent's own limits count from itself.
    let narrow = |depth| nested(3).limits(limits(depth));
    assert!(DeepAgent::builder().model(model()).sub_agent(narrow(2)).build().is_ok());
    let error = DeepAgent::builder().model(model()).sub_agent(narrow(1)).build().unwrap_err().to_string();
    assert!(error.contains("at depth 3, but delegation may go no deeper than 2"), "{error}");
}

#[tokio::test]
async fn nested_sub_agents_continue_where_they_were_after_a_resume() {
    let model = ScriptedModel::rules()
        .when(begins("Deep."), [Turn::call("send", json!({})), Turn::text("Sent.")])
        .when(begins("Below."), [Turn::calls([task("2", "Deep.")]), Turn::text("Below is done.")])
        .otherwise([Turn::calls([task("1", "Below.")]), Turn::text("Done.")])
        .build();
    let journal = journal();
    let build = || {
        let gate = InterruptPolicy::new().before("send", InterruptOn::any());
        let builder = DeepAgent::builder().model(model.clone()).journal(journal.clone()).tool(echo("send"));
        builder.interrupt_on(gate).sub_agent(nested(2)).build().unwrap()
    };
    let waiting = build().invoke(RunInput::new("Main.").thread("t")).await.unwrap();
    let id = waiting.action_requests().remove(0).id;
    assert_eq!(id, "task:0.0/task:0.0/0.0");
    let done = build().invoke(RunInput::resume("t").decide(&id, Decision::Approve)).await.unwrap();
    assert_eq!((done.text(), model.remaining()), ("Done.".to_owned(), 0));
}

/// Everything that JSON can define for a subagent.
fn everything() -> Value {
    json!({
        "name": "whole",
        "description": "Says all.",
        "system_prompt": "You are whole.",
        "tools": ["read_file", "write_file"],
        "permissions": [{"operations": ["write"], "paths": ["/sealed/**"], "mode": "deny"}],
        "response_format": {"name": "report", "schema": {"type": "object", "properties": {"ok": {"type": "boolean"}}}},
        "summarization": {"trigger": ["messages", 40]},
        "budget": {"model_calls": 2, "seconds": 60.5, "tokens": 100000},
        "limits": {"depth": 1, "at_once": 2},
        "backend": "scratch",
        "sub_agents": [{"name": "inner", "description": "Below."}],
    })
}

#[test]
fn one_type_describes_a_sub_agent_completely_in_files_code_and_json() {
    let from_json: SubAgentSpec = serde_json::from_value(everything()).unwrap();
    assert_eq!(serde_json::to_value(&from_json).unwrap(), everything());
    let rule = Rule::new(AccessMode::Deny, ["/sealed/**"]).only([Operation::Write]);
    let code = SubAgentSpec::new("whole", "Says all.")
        .permissions([rule])
        .limits(DelegationLimits { depth: 1, at_once: 2 })
        .sub_agent(SubAgentSpec::new("inner", "Below."));
    assert_eq!((&code.permissions, &code.limits), (&from_json.permissions, &from_json.limits));
    assert_eq!(code.sub_agents, from_json.sub_agents);
    let misspelt: std::result::Result<SubAgentSpec, _> =
        serde_json::from_value(json!({"name": "a", "description": "b", "budget": {"second": 1}}));
    assert!(misspelt.unwrap_err().to_string().contains("unknown field `second`"));
}

/// A subagent with these lines in its file, which plays these turns.
async fn filed(lines: &str, child: Vec<Turn>, configure: impl FnOnce(DeepAgentBuilder) -> DeepAgentBuilder) -> String {
    let model = ScriptedModel::rules()
        .when(begins("Work."), child)
        .otherwise([Turn::calls([task("filed", "Work.")]), Turn::text("Done.")])
        .build();
    let file = format!("---\nname: filed\ndescription: From a file.\n{lines}---\n");
    let agent = configure(DeepAgent::builder().model(model).agents_from(["/agents"])).build().unwrap();
    let input = RunInput::new("Main.").update(files([("/agents/filed.md", file.as_str())]));
    let outcome = agent.invoke(input).await.unwrap();
    results(&outcome)[0].0.clone()
}

#[tokio::test]
async fn a_file_can_limit_its_sub_agents_budget() {
    let busy = (0..9).map(|n| Turn::call("ls", json!({"path": format!("/{n}")}))).collect();
    let text = filed("budget:\n  model_calls: 2\n", busy, |b| b).await;
    assert!(text.contains("may not have finished"), "{text}");
}

#[tokio::test]
async fn a_budget_set_in_code_limits_one_sub_agent_and_not_its_siblings() {
    let busy = (0..9).map(|n| Turn::call("ls", json!({"path": format!("/{n}")})));
    let model = ScriptedModel::rules()
        .when(begins("Little."), busy.clone())
        .when(begins("Much."), busy.chain([Turn::text("All done.")]))
        .otherwise([Turn::calls([task("small", "Little."), task("general-purpose", "Much.")]), Turn::text("Done.")])
        .build();
    let small = SubAgentSpec::new("small", "Does little.").budget(Budget::default().model_calls(3));
    let outcome = DeepAgent::builder().model(model).sub_agent(small).build().unwrap().invoke("Main.").await.unwrap();
    let texts = results(&outcome);
    assert!(texts[0].0.contains("may not have finished"), "{texts:?}");
    assert_eq!(texts[1].0, "All done.");
}

#[tokio::test]
async fn a_sub_agent_can_have_its_own_files_which_are_not_returned() {
    let write = |path: &str| Turn::call("write_file", json!({"file_path": path, "content": "x"}));
    let model = || {
        ScriptedModel::rules()
            .when(begins("Work."), [write("/own.txt"), Turn::text("Wrote.")])
            .otherwise([write("/main.txt"), Turn::calls([task("apart", "Work.")]), Turn::text("Done.")])
            .build()
    };
    let has = |outcome: &deepagents::Outcome, path: &str| {
        outcome.state.get::<Files>().is_some_and(|files| files.get(&VPath::parse(path).unwrap()).is_some())
    };
    let directory = tempfile::tempdir().unwrap();
    let scratch = deepagents::fs::LocalBackend::open(directory.path()).unwrap();
    let by_name: SubAgentSpec =
        serde_json::from_value(json!({"name": "apart", "description": "Apart.", "backend": "scratch"})).unwrap();
    let in_code = SubAgentSpec::new("apart", "Apart.").backend(scratch.clone());
    for spec in [by_name, in_code] {
        let builder = DeepAgent::builder().model(model()).named_backend("scratch", scratch.clone());
        let outcome = builder.sub_agent(spec).build().unwrap().invoke("Main.").await.unwrap();
        assert!(has(&outcome, "/main.txt") && !has(&outcome, "/own.txt"), "{:?}", results(&outcome));
        std::fs::remove_file(directory.path().join("own.txt")).unwrap();
    }
    let spec: SubAgentSpec =
        serde_json::from_value(json!({"name": "apart", "description": "Apart.", "backend": "elsewhere"})).unwrap();
    let error =
        DeepAgent::builder().model(model()).named_backend("scratch", StateBackend::new()).sub_agent(spec).build();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("no backend `elsewhere` was given") && error.contains("there are scratch"), "{error}");
}

#[tokio::test]
async fn the_parents_rules_apply_to_the_backend_a_description_names() {
    let sealed = Rule::new(AccessMode::Deny, ["/sealed/**"]).only([Operation::Write]);
    let write = Turn::call("write_file", json!({"file_path": "/sealed/a", "content": "x"}));
    let scratch = tempfile::tempdir().unwrap();
    let files = deepagents::fs::LocalBackend::open(scratch.path()).unwrap();
    filed("backend: scratch\n", vec![write, Turn::text("Tried.")], |b| {
        b.named_backend("scratch", files).permissions(Permissions::new([sealed]).unwrap())
    })
    .await;
    assert!(!scratch.path().join("sealed").exists());
}

#[tokio::test]
async fn sub_agents_of_a_file_get_no_more_tools_than_it_has() {
    let lines = "tools: [ls]\nagents:\n  - name: inner\n    description: Below.\n    tools: [write_file]\n";
    let file = format!("---\nname: filed\ndescription: From a file.\n{lines}---\n");
    let model = ScriptedModel::new([Turn::text("Hello.")]);
    let agent = DeepAgent::builder().model(model).agents_from(["/agents"]).build().unwrap();
    let input = RunInput::new("Main.").update(files([("/agents/filed.md", file.as_str())]));
    let event = told(&agent, input, "sub_agents_loaded").await.pop().unwrap();
    let warning = event["warnings"][0].as_str().unwrap();
    assert!(warning.contains("there is no tool `write_file` for it; the parent agent has ls"), "{warning}");
}

#[test]
fn options_incompatible_with_a_built_agent_are_rejected_in_code_too() {
    let built = DeepAgent::builder().model(ScriptedModel::new([])).build().unwrap();
    let spec = SubAgentSpec::from(AgentSubAgent::new("built", "Is built.", &built)).model(ScriptedModel::new([]));
    let error = DeepAgent::builder().model(ScriptedModel::new([])).sub_agent(spec).build().unwrap_err().to_string();
    assert!(error.contains("`model` cannot be combined with `runnable`"), "{error}");
}
