//! Settings by provider or model.

use std::sync::{Arc, Mutex};

use deepagents::middleware::TodoList;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::models::{ModelConfig, Registry};
use deepagents::profile::{
    GeneralPurpose, HarnessProfile, OpenRouter, ProfileConfig, ProfileError, Profiles, ProviderProfile,
    ProviderProfiles,
};
use deepagents::subagents::SubAgentSpec;
use deepagents::{ChatModel, DeepAgent, DeepAgentBuilder, Middleware, Preset, tool_fn};
use serde_json::json;

fn suffix(text: &str) -> ProfileConfig {
    ProfileConfig { system_prompt_suffix: Some(text.to_owned()), ..ProfileConfig::default() }
}

fn config(json: serde_json::Value) -> ProfileConfig {
    serde_json::from_value(json).unwrap()
}

fn registry(entries: &[(&str, &str)]) -> Profiles {
    let mut profiles = Profiles::empty();
    for (key, text) in entries {
        profiles.register(key, suffix(text)).unwrap();
    }
    profiles
}

fn found(profiles: &Profiles, model: &str) -> Option<String> {
    profiles.lookup(model).config.system_prompt_suffix
}

fn model(name: &str) -> ScriptedModel {
    ScriptedModel::new([Turn::text("Hello.")]).with_name(name)
}

fn builder() -> DeepAgentBuilder {
    DeepAgent::builder().model(model("house:small")).profiles(Profiles::empty())
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
fn a_models_own_profile_takes_precedence_over_its_providers() {
    let profiles = registry(&[("house", "provider"), ("house:small", "model"), ("only:this", "exact")]);
    assert_eq!(found(&profiles, "house:small").as_deref(), Some("model"));
    assert_eq!(found(&profiles, "house:large").as_deref(), Some("provider"));
    assert_eq!(found(&profiles, "only:this").as_deref(), Some("exact"));
    assert_eq!(found(&profiles, "only:that"), None);
    assert_eq!(found(&profiles, "elsewhere:small"), None);
}

#[test]
fn profiles_match_name_patterns_and_the_most_specific_wins() {
    let profiles = registry(&[
        ("house", "provider"),
        ("house:small-*", "small"),
        ("house:small-code*", "code"),
        ("house:*-code-*-turbo", "turbo"),
        ("house:small-code-2", "exact"),
    ]);
    for (model, expected) in [
        ("house:large", "provider"),
        ("house:small", "provider"),
        ("house:small-1", "small"),
        ("house:small-code", "code"),
        ("house:small-code-1-turbo", "turbo"),
        ("house:large-code-1-turbo", "turbo"),
        ("house:small-code-2", "exact"),
        ("gate:house:small-1", "small"),
        ("gate:house/small-1", "small"),
    ] {
        assert_eq!(found(&profiles, model).as_deref(), Some(expected), "{model}");
    }
    assert_eq!(found(&profiles, "garage:small-1"), None);
}

#[test]
fn a_key_is_split_only_at_its_first_colon() {
    let profiles = registry(&[("ollama:llama3:8b", "eight")]);
    assert_eq!(found(&profiles, "ollama:llama3:8b").as_deref(), Some("eight"));
    assert_eq!(found(&profiles, "ollama:llama3"), None);
}

#[test]
fn a_gateway_model_uses_the_underlying_models_profile_but_not_its_providers() {
    let profiles = registry(&[("house", "provider"), ("house:small", "model"), ("gate", "gateway")]);
    assert_eq!(found(&profiles, "gate:house:small").as_deref(), Some("model"));
    assert_eq!(found(&profiles, "gate:house:other").as_deref(), Some("gateway"));
    let own = registry(&[("house:small", "model"), ("gate:house:small", "of the gateway")]);
    assert_eq!(found(&own, "gate:house:small").as_deref(), Some("of the gateway"));
}

#[test]
fn a_release_date_suffix_does_not_hide_the_profile() {
    let profiles = registry(&[("house:small", "any"), ("house:small-20250101", "dated")]);
    assert_eq!(found(&profiles, "house:small-20251231").as_deref(), Some("any"));
    assert_eq!(found(&profiles, "house:small-20250101").as_deref(), Some("dated"));
    assert_eq!(found(&profiles, "house:small-8b"), None);
}

#[test]
fn malformed_profile_keys_are_rejected() {
    for key in ["", " house", "house ", "house: small", "house :small", ":small", "house:", " : "] {
        let error = Profiles::empty().register(key, suffix("x")).unwrap_err();
        assert!(matches!(error, ProfileError::Key { .. }), "{key:?}");
    }
    for key in ["house", "house:small", "a:b:c"] {
        assert!(Profiles::empty().register(key, suffix("x")).is_ok(), "{key:?}");
    }
}

#[test]
fn profiles_merge_field_by_field() {
    let mut profiles = Profiles::empty();
    let base = config(json!({
        "base_system_prompt": "base", "system_prompt_suffix": "suffix",
        "tool_description_overrides": {"ls": "base ls", "grep": "base grep"},
        "excluded_tools": ["execute"], "excluded_middleware": ["Memory"],
        "general_purpose_subagent": {"enabled": false, "description": "helper"},
    }));
    let over = config(json!({
        "system_prompt_suffix": "other", "tool_description_overrides": {"ls": "other ls"},
        "excluded_tools": ["delete"], "general_purpose_subagent": {"enabled": true},
    }));
    profiles.register("house", HarnessProfile::from(base).extra(Own("A")).extra(Own("B"))).unwrap();
    profiles.register("house:small", HarnessProfile::from(over).extra(Own("B")).extra(Own("C"))).unwrap();
    let merged = profiles.lookup("house:small");
    let expected = config(json!({
        "base_system_prompt": "base", "system_prompt_suffix": "other",
        "tool_description_overrides": {"ls": "other ls", "grep": "base grep"},
        "excluded_tools": ["delete", "execute"], "excluded_middleware": ["Memory"],
        "general_purpose_subagent": {"enabled": true, "description": "helper"},
    }));
    assert_eq!(merged.config, expected);
    let extras: Vec<&str> = merged.extra_middleware.iter().map(|m| m.name()).collect();
    assert_eq!(extras, ["A", "B", "C"]);
}

#[test]
fn registering_again_merges_over_the_existing_profile() {
    let mut profiles = registry(&[("house", "first")]);
    profiles.register("house", config(json!({"excluded_tools": ["ls"]}))).unwrap();
    let found = profiles.lookup("house:any").config;
    assert_eq!(found.system_prompt_suffix.as_deref(), Some("first"));
    assert!(found.excluded_tools.contains("ls"));
}

#[test]
fn a_profile_can_be_serialized_unless_it_contains_code() {
    let config = ProfileConfig {
        excluded_tools: ["b".to_owned(), "a".to_owned()].into(),
        general_purpose_subagent: Some(GeneralPurpose { enabled: Some(false), ..GeneralPurpose::default() }),
        ..ProfileConfig::default()
    };
    let profile = HarnessProfile::from(config.clone());
    let json = serde_json::to_string(&profile.to_config().unwrap()).unwrap();
    assert_eq!(json, r#"{"excluded_tools":["a","b"],"general_purpose_subagent":{"enabled":false}}"#);
    assert_eq!(serde_json::from_str::<ProfileConfig>(&json).unwrap(), config);
    let error = profile.extra(Own("Mine")).to_config().unwrap_err();
    assert!(error.to_string().contains("Mine"), "{error}");
}

#[test]
fn an_unknown_profile_field_is_rejected() {
    let error = serde_json::from_str::<ProfileConfig>(r#"{"extra_middleware": []}"#).unwrap_err();
    assert!(error.to_string().contains("unknown field `extra_middleware`"), "{error}");
}

#[test]
fn the_prompt_is_the_callers_then_the_base_then_the_suffix() {
    let config = json!({"base_system_prompt": "BASE", "system_prompt_suffix": "SUFFIX"});
    let agent = builder().system_prompt("USER").profile(self::config(config.clone())).build().unwrap();
    assert!(agent.explain().system.starts_with("USER\n\nBASE\n\nSUFFIX\n\n"), "{}", agent.explain().system);
    let lean = builder().preset(Preset::Lean).system_prompt("USER").profile(self::config(config)).build().unwrap();
    assert_eq!(lean.explain().system, "USER\n\nBASE\n\nSUFFIX");
    let suffix = builder().profile(suffix("SUFFIX")).build().unwrap().explain().system;
    let (base, after) = suffix.split_once("SUFFIX").unwrap();
    assert!(base.contains("Look before you act") && after.contains("write_todos"), "{suffix}");
}

#[test]
fn the_callers_profile_overrides_the_models() {
    let mut profiles = Profiles::empty();
    let of_house = json!({"base_system_prompt": "HOUSE", "system_prompt_suffix": "HOUSE SUFFIX"});
    profiles.register("house", config(of_house)).unwrap();
    let agent = builder().preset(Preset::Lean).profiles(profiles).profile(suffix("MINE")).build().unwrap();
    assert_eq!(agent.explain().system, "HOUSE\n\nMINE");
}

#[test]
fn profiles_override_tool_descriptions_and_ignore_unknown_tool_names() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Args {}
    let add = tool_fn("add", "Adds.", |_: Args, _cx| async move { Ok("3") });
    let overrides = json!({"tool_description_overrides": {"ls": "Lists things.", "add": "Sums.", "gone": "?"}});
    let agent = builder().tool(add).profile(config(overrides)).build().unwrap();
    let description = |name: &str| {
        let tools = agent.tools();
        tools.iter().find(|tool| tool.name == name).unwrap().description.clone()
    };
    assert_eq!(description("ls"), "Lists things.");
    assert_eq!(description("add"), "Sums.");
    assert!(description("read_file").starts_with("Reads a file."));
    let names: Vec<&str> = agent.tools().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "ls").count(), 1);
}

#[tokio::test]
async fn a_tool_with_an_overridden_description_still_works() {
    let script = [Turn::call("ls", json!({"path": "/"})), Turn::text("Done.")];
    let overrides = config(json!({"tool_description_overrides": {"ls": "Lists things."}}));
    let (outcome, _) = crate::play(script, |b| b.profile(overrides)).await;
    assert_eq!(crate::results(&outcome), [("No files found".to_owned(), false)]);
}

#[tokio::test]
async fn an_excluded_tool_is_not_offered_and_calling_it_is_an_error_for_the_model() {
    let script = [Turn::call("ls", json!({"path": "/"})), Turn::text("Done.")];
    let (outcome, model) = crate::play(script, |b| b.profile(config(json!({"excluded_tools": ["ls"]})))).await;
    assert_eq!(crate::results(&outcome), [("Error: ls is not available.".to_owned(), true)]);
    let offered: Vec<String> = model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert!(!offered.contains(&"ls".to_owned()) && offered.contains(&"read_file".to_owned()), "{offered:?}");
}

#[test]
fn an_excluded_middleware_is_removed_even_if_the_caller_added_it() {
    let excluded = config(json!({"excluded_middleware": ["TodoList", "Mine"]}));
    let agent = builder().middleware(Own("Mine")).middleware(Own("TodoList")).profile(excluded).build().unwrap();
    let names = names(&agent);
    assert!(!names.contains(&"TodoList".to_owned()) && !names.contains(&"Mine".to_owned()), "{names:?}");
}

#[test]
fn essential_middlewares_cannot_be_excluded() {
    for name in ["Filesystem", "SubAgents"] {
        let profile = config(json!({"excluded_middleware": [name]}));
        let error = Profiles::empty().register("house", profile.clone()).unwrap_err();
        assert_eq!(error, ProfileError::Required { name: name.to_owned() });
        assert!(builder().profile(profile).build().is_err());
    }
}

#[test]
fn impossible_middleware_names_are_rejected() {
    for name in ["", "  ", "a:b", "_Private"] {
        let error = Profiles::empty().register("house", config(json!({"excluded_middleware": [name]}))).unwrap_err();
        assert!(matches!(error, ProfileError::MiddlewareName { .. }), "{name:?}");
    }
}

#[test]
fn excluding_an_unknown_middleware_is_rejected_but_an_absent_standard_one_not() {
    let error = builder().profile(config(json!({"excluded_middleware": ["Nope"]}))).build().unwrap_err();
    assert!(error.to_string().contains("`Nope`") && error.to_string().contains("Filesystem"), "{error}");
    assert!(builder().profile(config(json!({"excluded_middleware": ["Memory"]}))).build().is_ok());
}

#[test]
fn extra_middlewares_follow_the_callers_and_are_never_added_twice() {
    let profile = HarnessProfile::default().extra(Own("Extra")).extra(Own("Mine")).extra(TodoList::default());
    let agent = builder().middleware(Own("Mine")).profile(profile.clone()).build().unwrap();
    let names = names(&agent);
    let at = |name: &str| names.iter().position(|n| n == name).unwrap();
    assert!(at("Mine") < at("Extra") && at("Extra") < at("UnsupportedContent"), "{names:?}");
    assert_eq!(names.iter().filter(|n| *n == "Mine" || *n == "TodoList").count(), 2);
    assert_eq!(names[1], "TodoList", "the standard one stays in its place");
    let without = builder().without("TodoList").profile(profile).build().unwrap();
    assert!(!self::names(&without).contains(&"TodoList".to_owned()));
}

#[test]
fn claude_and_codex_have_profiles_with_instructions_for_these_models() {
    let profiles = Profiles::builtin();
    let text = |model: &str| found(&profiles, model).unwrap_or_default();
    for model in
        ["claude-opus-4-7", "claude-sonnet-4-6", "claude-haiku-4-5", "claude-haiku-4-5-20251001", "claude-opus-9"]
    {
        let text = text(&format!("anthropic:{model}"));
        for words in ["do not depend on each other in one turn", "Never guess a parameter", "have not opened"] {
            assert!(text.contains(words), "{model}: {words}");
        }
        assert_eq!(text.contains("delegate"), model.contains("opus"), "{model}");
    }
    for model in ["gpt-5.1-codex", "gpt-5.2-codex", "gpt-5.3-codex", "gpt-9-codex-max"] {
        let text = text(&format!("openai:{model}"));
        for words in ["until the task is finished", "no preamble", "together in one turn", "no todo open"] {
            assert!(text.contains(words), "{model}: {words}");
        }
    }
    for model in ["anthropic:claudette-1", "anthropic:other", "openai:gpt-5.2", "elsewhere:claude-opus-4-7"] {
        assert_eq!(found(&profiles, model), None, "{model}");
    }
    for model in ["gate:anthropic:claude-sonnet-4-6", "openrouter:anthropic/claude-sonnet-4.6"] {
        assert!(text(model).contains("Never guess a parameter"), "{model}");
    }
}

#[test]
fn codex_keeps_a_todo_list_even_in_the_lean_preset() {
    let build = |name: &str| DeepAgent::builder().model(model(name)).preset(Preset::Lean).build().unwrap();
    assert!(names(&build("openai:gpt-5.2-codex")).contains(&"TodoList".to_owned()));
    assert!(!names(&build("openai:gpt-5.2")).contains(&"TodoList".to_owned()));
}

fn tool(agent: &DeepAgent, name: &str) -> Option<String> {
    agent.tools().iter().find(|tool| tool.name == name).map(|tool| tool.description.clone())
}

#[tokio::test]
async fn the_general_purpose_sub_agent_can_be_disabled_and_redescribed() {
    let off = config(json!({"general_purpose_subagent": {"enabled": false}}));
    assert_eq!(tool(&builder().profile(off).build().unwrap(), "task"), None, "nobody is left to delegate to");
    let script = [
        Turn::call("task", json!({"description": "Help.", "subagent_type": "general-purpose"})),
        Turn::text("Helped."),
        Turn::text("Done."),
    ];
    let words = json!({"general_purpose_subagent": {"description": "DESCRIBED", "system_prompt": "TOLD"}});
    let (_, model) = crate::play(script, |b| b.profile(config(words))).await;
    let requests = model.requests();
    let offered = requests[0].tools.iter().find(|tool| tool.name == "task").unwrap();
    assert!(offered.description.contains("- general-purpose: DESCRIBED"), "{}", offered.description);
    assert!(requests[1].system_text().starts_with("TOLD"), "{}", requests[1].system_text());
}

#[tokio::test]
async fn a_profiles_general_purpose_prompt_replaces_its_base_prompt() {
    let script = || {
        [
            Turn::call("task", json!({"description": "Help.", "subagent_type": "general-purpose"})),
            Turn::text("Helped."),
            Turn::text("Done."),
        ]
    };
    let all = json!({
        "base_system_prompt": "BASE", "system_prompt_suffix": "SUFFIX",
        "general_purpose_subagent": {"system_prompt": "TOLD"},
    });
    let told_without_more = json!({"general_purpose_subagent": {"system_prompt": "TOLD"}});
    for (profile, beginning) in [(all, "TOLD\n\nSUFFIX\n\n"), (told_without_more, "TOLD\n\nUse `write_todos`")] {
        let mut profiles = Profiles::empty();
        profiles.register("scripted", config(profile)).unwrap();
        let (_, model) = crate::play(script(), |b| b.profiles(profiles)).await;
        let told = model.requests()[1].system_text();
        assert!(told.starts_with(beginning) && !told.contains("BASE"), "{told}");
    }
}

#[tokio::test]
async fn a_sub_agent_uses_the_profile_of_its_own_model() {
    let mut profiles = Profiles::empty();
    profiles
        .register("house:small", config(json!({"system_prompt_suffix": "SMALL", "excluded_tools": ["ls"]})))
        .unwrap();
    profiles
        .register(
            "house:large",
            config(json!({"system_prompt_suffix": "LARGE", "excluded_tools": ["grep"], "excluded_middleware": ["TodoList"]})),
        )
        .unwrap();
    let small = ScriptedModel::new([
        Turn::call("task", json!({"description": "Help.", "subagent_type": "helper"})),
        Turn::text("Done."),
    ])
    .with_name("house:small");
    let large = model("house:large");
    let helper = SubAgentSpec::new("helper", "Helps.").model(large.clone());
    let agent = DeepAgent::builder().model(small.clone()).profiles(profiles).sub_agent(helper).build().unwrap();
    agent.invoke("Go.").await.unwrap();
    let seen = |model: &ScriptedModel, words: &str| model.requests()[0].system_text().contains(words);
    let offered = |model: &ScriptedModel, name: &str| model.requests()[0].tools.iter().any(|tool| tool.name == name);
    for (model, own, other, gone, there) in
        [(&small, "SMALL", "LARGE", "ls", "grep"), (&large, "LARGE", "SMALL", "grep", "ls")]
    {
        assert!(seen(model, own) && !seen(model, other), "{own}");
        assert!(!offered(model, gone) && offered(model, there), "{own}");
    }
    assert!(offered(&small, "write_todos") && !offered(&large, "write_todos"));
}

#[tokio::test]
async fn a_task_description_override_can_list_the_sub_agents() {
    let overrides = json!({"tool_description_overrides": {"task": "Delegate to:\n{available_agents}"}});
    let (_, model) = crate::play([Turn::text("Done.")], |b| b.profile(config(overrides))).await;
    let requests = model.requests();
    let offered = requests[0].tools.iter().find(|tool| tool.name == "task").unwrap();
    assert!(offered.description.starts_with("Delegate to:\n- general-purpose: "), "{}", offered.description);
}

#[test]
fn a_profile_may_exclude_a_middleware_only_the_main_agent_has() {
    let mut profiles = Profiles::empty();
    profiles.register("house", config(json!({"excluded_middleware": ["Mine"]}))).unwrap();
    assert!(builder().profiles(profiles).middleware(Own("Mine")).build().is_ok());
}

/// A registry that records the configuration of each model.
fn noting() -> (Registry, Arc<Mutex<Vec<ModelConfig>>>) {
    let made = Arc::new(Mutex::new(Vec::new()));
    let mut registry = Registry::new();
    let notes = made.clone();
    registry.register("house", move |name, config| {
        notes.lock().unwrap().push(config);
        Ok(Arc::new(ScriptedModel::new([]).with_name(format!("house:{name}"))) as Arc<dyn ChatModel>)
    });
    (registry, made)
}

fn with(key: &str, value: i64) -> ModelConfig {
    ModelConfig { extra: [(key.to_owned(), json!(value))].into_iter().collect(), ..ModelConfig::default() }
}

#[test]
fn the_callers_settings_override_computed_ones_and_those_override_fixed_ones() {
    let (registry, made) = noting();
    let mut profiles = ProviderProfiles::new();
    let both = |a: i64, key: &str, b: i64| {
        let mut config = with("fixed", a);
        config.extra.extend(with(key, b).extra);
        config
    };
    profiles
        .register("house", ProviderProfile::new(both(1, "computed", 1)).make(move || both(2, "computed", 2)))
        .unwrap();
    profiles.register("house:small", ProviderProfile::new(with("exact", 3))).unwrap();
    let mut caller = with("fixed", 9);
    caller.streaming = Some(false);
    profiles.model(&registry, "house:small", caller).unwrap();
    let made = made.lock().unwrap();
    assert_eq!(made[0].streaming, Some(false));
    assert_eq!(json!(made[0].extra), json!({"fixed": 9, "computed": 2, "exact": 3}));
}

#[test]
fn a_check_can_reject_a_model_before_it_is_created_and_all_checks_run() {
    let (registry, made) = noting();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| {
        let seen = seen.clone();
        move |name: &str| {
            seen.lock().unwrap().push(format!("{what} {name}"));
            if name.ends_with("small") { Ok(()) } else { Err("too large".into()) }
        }
    };
    let mut profiles = ProviderProfiles::new();
    profiles.register("house", ProviderProfile::default().check(note("provider"))).unwrap();
    profiles.register("house:small", ProviderProfile::default().check(note("model"))).unwrap();
    profiles.model(&registry, "house:small", ModelConfig::default()).unwrap();
    let error = profiles.model(&registry, "house:large", ModelConfig::default()).err().unwrap();
    assert_eq!(error.to_string(), "`house:large` was refused: too large");
    assert_eq!(*seen.lock().unwrap(), ["provider house:small", "model house:small", "provider house:large"]);
    assert_eq!(made.lock().unwrap().len(), 1);
}

#[test]
fn built_in_provider_profiles_identify_the_client_and_the_caller_overrides() {
    let made = Arc::new(Mutex::new(Vec::new()));
    let mut registry = Registry::new();
    for provider in ["openrouter", "nvidia", "openai"] {
        let notes = made.clone();
        registry.register(provider, move |name, config| {
            notes.lock().unwrap().push(config);
            Ok(Arc::new(ScriptedModel::new([]).with_name(name)) as Arc<dyn ChatModel>)
        });
    }
    let profiles = ProviderProfiles::builtin();
    let last = |config| {
        profiles.model(&registry, "openrouter:a/b", config).unwrap();
        made.lock().unwrap().pop().unwrap()
    };
    let usual: ModelConfig = last(ModelConfig::default());
    let names: Vec<&str> = usual.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names, &usual.extra["provider"]), (vec!["HTTP-Referer", "X-Title"], &json!({"ignore": ["azure"]})));
    let headers = vec![("x-title".to_owned(), "Mine".to_owned())];
    let extra = json!({"provider": {"only": ["azure"]}}).as_object().unwrap().clone();
    let own = last(ModelConfig { headers, extra, ..ModelConfig::default() });
    assert_eq!(own.extra["provider"], json!({"only": ["azure"]}));
    assert!(own.headers.contains(&("x-title".to_owned(), "Mine".to_owned())) && own.headers.len() == 2);

    profiles.model(&registry, "nvidia:x", ModelConfig::default()).unwrap();
    let nvidia = made.lock().unwrap().pop().unwrap();
    assert_eq!(nvidia.headers, [("X-BILLING-INVOKE-ORIGIN".to_owned(), "DeepAgents".to_owned())]);

    let silent = OpenRouter { app_url: String::new(), app_title: String::new(), allow_azure: true };
    let mut profiles = ProviderProfiles::new();
    profiles.register("openrouter", silent.profile()).unwrap();
    profiles.model(&registry, "openrouter:a/b", ModelConfig::default()).unwrap();
    let config = made.lock().unwrap().pop().unwrap();
    assert!(config.headers.is_empty() && config.extra.is_empty());
}
