//! Hooks: every event and every answer, with real processes.

use std::path::PathBuf;
use std::sync::Arc;

use deepagents::core::event::{EventKind, MiddlewareEvent};
use deepagents::core::interrupt::{ActionRequest, EditedAction};
use deepagents::core::journal::MemoryJournal;
use deepagents::core::tool::CallId;
use deepagents::fs::LocalBackend;
use deepagents::fs::permissions::{Permissions, Rule};
use deepagents::fs::shell::{Confinement, LocalShell};
use deepagents::middleware::hooks::{HookEvent, HookRequest, HookResponse, HookRunner, HookSender, Hooks, HooksError};
use deepagents::middleware::summarization::{Size, SummarizationOptions, Trigger};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{
    Decision, DecisionKind, DeepAgent, DeepAgentBuilder, Event, FinishReason, InterruptOn, InterruptPolicy, Outcome,
    RunInput,
};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

/// A directory with files for the agent, and hooks that run in it.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The inputs that a hook wrote to a file with `cat >>`, one a line.
    fn inputs(&self, name: &str) -> Vec<Value> {
        let text = self.read(name);
        serde_json::Deserializer::from_str(&text).into_iter().map(Result::unwrap).collect()
    }

    fn hooks(&self, hooks: &Value) -> Hooks {
        let shell = LocalShell::open(self.dir.path(), Confinement::Unconfined).unwrap();
        Hooks::parse(&json!({"hooks": hooks}).to_string(), "hooks.json", Arc::new(shell)).unwrap()
    }

    pub(crate) fn runner(&self, hooks: &Value) -> HookRunner {
        HookRunner::new(self.hooks(hooks)).root(self.root())
    }

    pub(crate) fn agent(&self, model: &ScriptedModel, hooks: &Value) -> DeepAgentBuilder {
        let files = LocalBackend::open(self.dir.path()).unwrap();
        DeepAgent::builder().model(model.clone()).backend(files).hooks(self.runner(hooks)).journal(MemoryJournal::new())
    }
}

/// Hooks of one event: commands for all its occasions.
pub(crate) fn at(event: &str, commands: &[&str]) -> Value {
    let hooks: Vec<Value> = commands.iter().map(|command| json!({"type": "command", "command": command})).collect();
    json!({event: [{"hooks": hooks}]})
}

/// A command that answers with JSON.
pub(crate) fn answering(answer: &Value) -> String {
    format!("printf '%s' '{answer}'")
}

pub(crate) fn specific(event: &str, fields: &Value) -> Value {
    let mut specific = json!({"hookEventName": event});
    specific.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"hookSpecificOutput": specific})
}

fn write() -> Turn {
    Turn::call("write_file", json!({"file_path": "/a.txt", "content": "new"}))
}

pub(crate) fn results(outcome: &Outcome) -> Vec<String> {
    outcome.messages().iter().filter(|message| message.as_tool().is_some()).map(|message| message.text()).collect()
}

async fn run(agent: &DeepAgent, input: RunInput) -> (Outcome, Vec<Value>) {
    let mut run = agent.run(input);
    let mut told = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::Middleware(event @ MiddlewareEvent::Hook { .. }) = event.kind {
            told.push(serde_json::to_value(event).unwrap()["data"].take());
        }
    }
    (run.outcome().await.unwrap(), told)
}

/// Runs an agent whose model writes a file once.
pub(crate) async fn writing(place: &Place, hooks: &Value) -> (Outcome, Vec<Value>) {
    let model = ScriptedModel::new([write(), Turn::text("Done.")]);
    let agent = place.agent(&model, hooks).build().unwrap();
    run(&agent, RunInput::new("Write.").thread("t")).await
}

#[test]
fn an_unusable_hooks_file_is_an_error_and_unknown_entries_are_problems() {
    let place = Place::new();
    let shell = Arc::new(LocalShell::open(place.dir.path(), Confinement::Unconfined).unwrap());
    let parse = |text: &str| Hooks::parse(text, "hooks.json", shell.clone());
    assert!(matches!(parse("[]"), Err(HooksError::Shape { .. })));
    assert!(matches!(parse(r#"{"hooks": {"Stop": [{"hooks": [{"command": "x"}]}]}}"#), Err(HooksError::Shape { .. })));
    let pattern = parse(r#"{"hooks": {"PreToolUse": [{"matcher": "(", "hooks": []}]}}"#);
    assert!(matches!(pattern, Err(HooksError::Matcher { .. })));
    let odd = json!({"hooks": {
        "PreToolUSe": [{"hooks": [{"type": "command", "command": "x"}]}],
        "Stop": [{"hooks": [{"type": "prompt", "prompt": "x"}, {"type": "command", "command": "y", "timeout": 2, "extra": 1}]}],
    }});
    let hooks = parse(&format!("\u{feff}{odd}")).unwrap();
    assert_eq!(hooks.iter().map(|hook| (hook.command(), hook.timeout().as_secs())).collect::<Vec<_>>(), [("y", 2)]);
    insta::assert_snapshot!(hooks.problems().join("\n"), @r"
    hooks.json: there is no event `PreToolUSe`, so its hooks never run
    hooks.json: a hook of Stop is left out: its type `prompt` is not known
    ");
    let other = parse(r#"{"PreToolUse": [{"hooks": []}]}"#).unwrap();
    assert_eq!(other.problems(), ["hooks.json: it has no `hooks`, so nothing in it runs"]);
    assert!(parse("{}").unwrap().problems().is_empty());
}

#[tokio::test]
async fn hooks_receive_calls_in_the_format_of_other_programs() {
    let place = Place::new();
    let hooks = json!({
        "PreToolUse": [{"matcher": "Write|Edit", "hooks": [{"type": "command", "command": "cat >> pre"}]}],
        "PostToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "cat >> never"}]},
                        {"matcher": "Wri.*", "hooks": [{"type": "command", "command": "cat >> post"}]}],
    });
    let (outcome, told) = writing(&place, &hooks).await;
    assert_eq!((outcome.text().as_str(), told.len()), ("Done.", 0));
    let pre = &place.inputs("pre")[0];
    let call = json!({"file_path": place.path("a.txt"), "content": "new"});
    assert_eq!((&pre["tool_name"], &pre["tool_input"]), (&json!("Write"), &call));
    assert_eq!((&pre["session_id"], &pre["hook_event_name"]), (&json!("t"), &json!("PreToolUse")));
    assert_eq!((&pre["cwd"], &pre["permission_mode"]), (&json!(place.root()), &json!("default")));
    assert_eq!(place.inputs("post")[0]["tool_response"]["text"], "Wrote /a.txt");
    assert!(!place.path("never").exists());
}

#[tokio::test]
async fn a_call_denied_by_a_hook_is_not_made_and_nobody_is_asked() {
    let deny = specific("PreToolUse", &json!({"permissionDecision": "deny", "permissionDecisionReason": "not today"}));
    let block = json!({"decision": "block", "reason": "not today"});
    for command in ["echo 'not today' >&2; exit 2".to_owned(), answering(&deny), answering(&block)] {
        let place = Place::new();
        let model = ScriptedModel::new([write(), Turn::text("Done.")]);
        let asks = InterruptPolicy::new().before("write_file", InterruptOn::any());
        let agent = place.agent(&model, &at("PreToolUse", &[&command])).interrupt_on(asks).build().unwrap();
        let (outcome, _) = run(&agent, RunInput::new("Write.").thread("t")).await;
        assert_eq!(outcome.stop, FinishReason::Done);
        assert_eq!(results(&outcome), ["A hook does not allow this call: not today"]);
        assert!(!place.path("a.txt").exists());
    }
}

#[tokio::test]
async fn a_call_allowed_by_a_hook_is_made_without_asking() {
    let place = Place::new();
    let allow = answering(&specific("PreToolUse", &json!({"permissionDecision": "allow"})));
    let model = ScriptedModel::new([write(), Turn::text("Done.")]);
    let asks = InterruptPolicy::new().before("write_file", InterruptOn::any());
    let agent = place.agent(&model, &at("PreToolUse", &[&allow])).interrupt_on(asks).build().unwrap();
    let (outcome, _) = run(&agent, RunInput::new("Write.").thread("t")).await;
    assert_eq!(outcome.stop, FinishReason::Done);
    assert_eq!(place.read("a.txt"), "new");
}

#[tokio::test]
async fn an_approval_required_by_a_rule_is_asked_for_even_if_a_hook_allows_the_call() {
    let place = Place::new();
    let allow = at("PreToolUse", &[&answering(&specific("PreToolUse", &json!({"permissionDecision": "allow"})))]);
    let rules = [json!({"operations": ["write"], "paths": ["/a*"], "mode": "ask"})];
    let required = InterruptPolicy::new().before("write_file", InterruptOn::any().required().rule("ours"));
    let both = InterruptPolicy::new().before("write_file", InterruptOn::any().rule("theirs")).and(required);
    let agent = |builder: DeepAgentBuilder| builder.build().unwrap();
    let model = || ScriptedModel::new([write(), Turn::text("Done.")]);
    let ruled = |model: &ScriptedModel| {
        let rules = rules.iter().map(|rule| serde_json::from_value(rule.clone()).unwrap());
        place.agent(model, &allow).permissions(Permissions::new(rules.collect::<Vec<Rule>>()).unwrap())
    };
    for (agent, rule) in
        [(agent(ruled(&model())), "write /a*"), (agent(place.agent(&model(), &allow).interrupt_on(both)), "ours")]
    {
        let (outcome, _) = run(&agent, RunInput::new("Write.").thread("t")).await;
        let asked: Vec<_> = outcome.action_requests().iter().map(|asked| asked.rule.clone()).collect();
        assert_eq!(asked, [Some(rule.to_owned())]);
        assert!(!place.path("a.txt").exists());
    }
}

#[tokio::test]
async fn restrict_only_hooks_cannot_allow_but_can_still_deny() {
    let place = Place::new();
    let runner = |fields: &Value| {
        let hooks = place.hooks(&at("PreToolUse", &[&answering(&specific("PreToolUse", fields))]));
        HookRunner::new(hooks.only_restricting()).root(place.root())
    };
    let asks = || InterruptPolicy::new().before("write_file", InterruptOn::any());
    let model = || ScriptedModel::new([write(), Turn::text("Done.")]);
    let nothing = json!({});
    let agent =
        |fields: &Value| place.agent(&model(), &nothing).hooks(runner(fields)).interrupt_on(asks()).build().unwrap();
    let (outcome, _) = run(&agent(&json!({"permissionDecision": "allow"})), RunInput::new("Write.").thread("t")).await;
    assert_eq!(outcome.action_requests().len(), 1);
    let deny = json!({"permissionDecision": "deny", "permissionDecisionReason": "no"});
    let (outcome, _) = run(&agent(&deny), RunInput::new("Write.").thread("t")).await;
    assert_eq!(results(&outcome), ["A hook does not allow this call: no"]);
}

#[tokio::test]
async fn a_person_decides_last_on_the_call_as_changed_by_a_hook() {
    let new = json!({"file_path": "/b.txt", "content": "rewritten"});
    let edit = Decision::Edit {
        edited_action: EditedAction {
            name: "write_file".into(),
            args: json!({"file_path": "/c.txt", "content": "mine"}),
        },
    };
    let changed = "A hook changed this call before it was made: file_path is \"/b.txt\"; content is \"rewritten\".";
    for (asks, decision, written, note) in [
        (true, Decision::Approve, ("b.txt", "rewritten"), Some(changed)),
        (true, edit, ("c.txt", "mine"), None),
        (false, Decision::Approve, ("b.txt", "rewritten"), Some(changed)),
    ] {
        let place = Place::new();
        let mut fields = json!({"updatedInput": {"file_path": place.path("b.txt"), "content": "rewritten"}});
        if !asks {
            fields["permissionDecision"] = json!("ask");
        }
        let model = ScriptedModel::new([write(), Turn::text("Done.")]);
        let mut builder = place.agent(&model, &at("PreToolUse", &[&answering(&specific("PreToolUse", &fields))]));
        if asks {
            builder = builder.interrupt_on(InterruptPolicy::new().before("write_file", InterruptOn::any()));
        }
        let agent = builder.build().unwrap();
        let (outcome, _) = run(&agent, RunInput::new("Write.").thread("t")).await;
        let asked = outcome.action_requests();
        assert_eq!(asked.iter().map(|asked| &asked.args).collect::<Vec<_>>(), [&new]);
        let (outcome, _) = run(&agent, RunInput::resume("t").decide(&asked[0].id, decision)).await;
        assert_eq!(outcome.stop, FinishReason::Done);
        assert!(!place.path("a.txt").exists());
        assert_eq!(place.read(written.0), written.1);
        let told = results(&outcome);
        assert_eq!(note.is_some_and(|note| told[0].contains(note)), note.is_some(), "{told:?}");
        assert!(note.is_some() || !told[0].contains("A hook changed"), "{told:?}");
    }
}

#[tokio::test]
async fn a_call_a_hook_wants_approved_waits_for_a_person() {
    for (decision, content) in [(Decision::Approve, "new"), (Decision::Reject { message: None }, "")] {
        let place = Place::new();
        let fields = json!({"permissionDecision": "ask", "permissionDecisionReason": "Sure?"});
        let ask = answering(&specific("PreToolUse", &fields));
        let model = ScriptedModel::new([write(), Turn::text("Done.")]);
        let agent = place.agent(&model, &at("PreToolUse", &[&ask])).build().unwrap();
        let (outcome, _) = run(&agent, RunInput::new("Write.").thread("t")).await;
        let questions = outcome.action_requests();
        assert_eq!(questions.iter().map(|q| q.text.as_str()).collect::<Vec<_>>(), ["Sure?"]);
        let answer = RunInput::resume("t").decide(&questions[0].id, decision);
        assert_eq!(run(&agent, answer).await.0.stop, FinishReason::Done);
        assert_eq!(place.read("a.txt"), content);
    }
}

#[tokio::test]
async fn the_strictest_hook_wins_and_the_model_gets_the_context_of_all() {
    let place = Place::new();
    let allow = answering(&specific("PreToolUse", &json!({"permissionDecision": "allow"})));
    let deny =
        answering(&specific("PreToolUse", &json!({"permissionDecision": "deny", "permissionDecisionReason": "no"})));
    let (outcome, _) = writing(&place, &at("PreToolUse", &[&allow, &deny, &allow])).await;
    assert_eq!(results(&outcome), ["A hook does not allow this call: no"]);
    let one = answering(&specific("PreToolUse", &json!({"additionalContext": "First."})));
    let two = answering(&specific("PreToolUse", &json!({"additionalContext": "Second."})));
    let (outcome, _) = writing(&place, &at("PreToolUse", &[&one, &two])).await;
    assert_eq!(results(&outcome), ["Wrote /a.txt\nFirst.\nSecond."]);
}

#[tokio::test]
async fn a_hook_can_change_the_arguments_of_a_call() {
    let place = Place::new();
    let args = json!({"updatedInput": {"file_path": place.path("b.txt"), "content": "changed"}});
    let (outcome, _) = writing(&place, &at("PreToolUse", &[&answering(&specific("PreToolUse", &args))])).await;
    let changed = "A hook changed this call before it was made: file_path is \"/b.txt\"; content is \"changed\".";
    assert_eq!(results(&outcome), [format!("{changed}\nWrote /b.txt")]);
    assert_eq!((place.read("b.txt").as_str(), place.path("a.txt").exists()), ("changed", false));
}

#[tokio::test]
async fn a_reported_call_reflects_changes_by_hooks_or_the_person() {
    let place = Place::new();
    let changed = json!({"file_path": "/b.txt", "content": "changed"});
    let on_wire = json!({"updatedInput": {"file_path": place.path("b.txt"), "content": "changed"}});
    let hooks = at("PreToolUse", &[&answering(&specific("PreToolUse", &on_wire))]);
    let started = |events: Vec<Event>| -> Vec<Value> {
        let args = events.into_iter().filter_map(|event| match event.kind {
            EventKind::ToolStarted { args, .. } => Some(args),
            _ => None,
        });
        args.collect()
    };
    let model = ScriptedModel::new([write(), Turn::text("Done.")]);
    let agent = place.agent(&model, &hooks).build().unwrap();
    let live = agent.run(RunInput::new("Write.").thread("t")).collect::<Vec<_>>().await;
    assert_eq!(started(live), [changed]);
    let logged = agent.threads().unwrap().events("t", 0).await.unwrap();
    assert_eq!(started(logged), [json!({"file_path": "/b.txt", "content": "changed"})]);

    let model = ScriptedModel::new([write(), Turn::text("Done.")]);
    let asks = InterruptPolicy::new().before("write_file", InterruptOn::any());
    let agent = place.agent(&model, &hooks).interrupt_on(asks).build().unwrap();
    let (outcome, _) = run(&agent, RunInput::new("Write.").thread("t")).await;
    let own = json!({"file_path": "/c.txt", "content": "mine"});
    let edited = EditedAction { name: "write_file".to_owned(), args: own.clone() };
    let answer = Decision::Edit { edited_action: edited };
    let answer = RunInput::resume("t").decide(&outcome.action_requests()[0].id, answer);
    assert_eq!(started(agent.run(answer).collect::<Vec<_>>().await), [own]);
}

#[tokio::test]
async fn hooks_after_a_call_can_change_what_the_model_sees() {
    let context = specific("PostToolUse", &json!({"additionalContext": "Run the tests."}));
    let output = specific("PostToolUse", &json!({"updatedToolOutput": "Written, but redacted."}));
    let block = json!({"decision": "block", "reason": "it is not formatted"});
    for (command, result) in [
        (answering(&context), "Wrote /a.txt\nRun the tests."),
        (answering(&output), "Written, but redacted."),
        (answering(&block), "Wrote /a.txt\n[a hook objects: it is not formatted]"),
        ("echo unformatted >&2; exit 2".to_owned(), "Wrote /a.txt\n[a hook objects: unformatted]"),
        ("echo just words".to_owned(), "Wrote /a.txt"),
    ] {
        let place = Place::new();
        let (outcome, _) = writing(&place, &at("PostToolUse", &[&command])).await;
        assert_eq!(results(&outcome), [result]);
        assert_eq!(place.read("a.txt"), "new");
    }
}

#[tokio::test]
async fn a_failed_call_has_its_own_event() {
    let place = Place::new();
    let context = answering(&specific("PostToolUseFailure", &json!({"additionalContext": "Try another file."})));
    let mut hooks = at("PostToolUseFailure", &["cat >> failed", &context]);
    hooks["PostToolUse"] = at("PostToolUse", &["cat >> done"])["PostToolUse"].clone();
    let model =
        ScriptedModel::new([Turn::call("read_file", json!({"file_path": "/none", "offset": 3})), Turn::text("Done.")]);
    let agent = place.agent(&model, &hooks).build().unwrap();
    let (outcome, _) = run(&agent, RunInput::new("Read.").thread("t")).await;
    assert!(results(&outcome)[0].ends_with("\nTry another file."));
    let told = &place.inputs("failed")[0];
    assert_eq!((&told["tool_name"], &told["tool_input"]["offset"]), (&json!("Read"), &json!(4)));
    assert!(told["error"].as_str().unwrap().contains("does not exist"));
    assert!(!place.path("done").exists());
}

#[tokio::test]
async fn a_hook_can_end_the_run() {
    let stop = answering(&json!({"continue": false, "stopReason": "enough"}));
    for event in ["PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart"] {
        let place = Place::new();
        let model = ScriptedModel::new([write(), Turn::text("Done.")]);
        let agent = place.agent(&model, &at(event, &[&stop])).build().unwrap();
        let (outcome, told) = run(&agent, RunInput::new("Write.").thread("t")).await;
        assert_eq!(outcome.stop, FinishReason::Ended, "{event}");
        let called = matches!(event, "PreToolUse" | "PostToolUse");
        assert_eq!(model.requests().len(), usize::from(called), "{event}");
        assert_eq!(place.path("a.txt").exists(), event == "PostToolUse");
        assert_eq!((&told[0]["message"], &told[0]["event"]), (&json!("a hook ended the run: enough"), &json!(event)));
    }
}

#[tokio::test]
async fn stop_hooks_report_why_they_end_a_run_and_start_hooks_can_end_a_sub_agent() {
    let stop = answering(&json!({"continue": false, "stopReason": "enough", "decision": "block", "reason": "go on"}));
    let place = Place::new();
    let (outcome, told) = writing(&place, &at("Stop", &[&stop])).await;
    assert_eq!(outcome.text(), "Done.");
    assert_eq!(told[0]["message"], "a hook ended the run: enough");

    let place = Place::new();
    let task = Turn::call("task", json!({"description": "Look.", "subagent_type": "general-purpose"}));
    let model = ScriptedModel::new([task, Turn::text("Main.")]);
    let stop = answering(&json!({"continue": false, "stopReason": "no helpers"}));
    let agent = place.agent(&model, &at("SubagentStart", &[&stop])).build().unwrap();
    let (outcome, told) = run(&agent, RunInput::new("Main.").thread("t")).await;
    assert_eq!((outcome.text(), model.requests().len()), ("Main.".to_owned(), 2));
    assert_eq!(told[0]["message"], "a hook ended the run: no helpers");
}

#[tokio::test]
async fn a_prompt_blocked_by_a_hook_never_reaches_the_model_but_what_the_start_of_the_thread_said_does() {
    let place = Place::new();
    let model = ScriptedModel::new([Turn::text("Hello.")]);
    let guard = "grep -q secret && { echo 'no secrets' >&2; exit 2; }; true";
    let mut hooks = at("UserPromptSubmit", &[guard]);
    hooks["SessionStart"] = at("SessionStart", &["echo 'The branch is main.'"])["SessionStart"].clone();
    let agent = place.agent(&model, &hooks).build().unwrap();
    let (outcome, told) = run(&agent, RunInput::new("The secret is 42.").thread("t")).await;
    assert_eq!(outcome.stop, FinishReason::Ended);
    assert!(told[0]["message"].as_str().unwrap().contains("no secrets") && told[0]["ended"] == true);
    let (outcome, _) = run(&agent, RunInput::new("Hello?").thread("t")).await;
    assert_eq!(outcome.text(), "Hello.");
    let seen: Vec<String> = model.requests()[0].messages.iter().map(|message| message.text()).collect();
    assert_eq!(seen, ["The branch is main.", "Hello?"]);
}

#[tokio::test]
async fn session_start_hooks_run_once_and_their_output_reaches_the_model() {
    let place = Place::new();
    let mut hooks = at("SessionStart", &["cat >> started; echo 'The branch is main.'"]);
    let context = specific("UserPromptSubmit", &json!({"additionalContext": "It is Monday."}));
    hooks["UserPromptSubmit"] = at("", &["cat >> prompts", &answering(&context)])[""].clone();
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let build = || place.agent(&model, &hooks).journal(journal.clone()).build().unwrap();
    let agent = build();
    run(&agent, RunInput::new("One").thread("t")).await;
    run(&agent, RunInput::new("Two").thread("t")).await;
    run(&build(), RunInput::new("Three").thread("t")).await;
    let sources: Vec<Value> = place.inputs("started").iter().map(|input| input["source"].clone()).collect();
    assert_eq!(sources, ["startup", "resume"]);
    let prompts: Vec<Value> = place.inputs("prompts").iter().map(|input| input["prompt"].clone()).collect();
    assert_eq!(prompts, ["One", "Two", "Three"]);
    let seen: Vec<String> = model.requests()[0].messages.iter().map(|message| message.text()).collect();
    assert_eq!(seen, ["One", "The branch is main.", "It is Monday."]);
}

#[tokio::test]
async fn runs_without_a_thread_are_sessions_of_their_own_of_which_the_latest_are_remembered() {
    let place = Place::new();
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let runner = place.runner(&at("Notification", &["true"]));
    let agent = DeepAgent::builder().model(model).hooks(runner.clone()).build().unwrap();
    let mut runs = Vec::new();
    for _ in 0..300 {
        runs.push(agent.invoke("Hello?").await.unwrap().run);
    }
    let sessions = runner.sessions();
    assert!(sessions.len() <= 200, "{}", sessions.len());
    assert!(sessions.contains(&runs[299]));
    runner.session_end(&runs[299], "exit").await;
    assert!(!runner.sessions().contains(&runs[299]));
}

#[tokio::test]
async fn a_thread_after_a_cleared_one_starts_with_clear_even_with_a_rebuilt_agent() {
    let place = Place::new();
    let hooks = at("SessionStart", &["cat >> started"]);
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let build = |runner: &HookRunner| {
        let files = LocalBackend::open(place.root()).unwrap();
        let builder = DeepAgent::builder().model(model.clone()).backend(files).hooks(runner.clone());
        builder.journal(journal.clone()).build().unwrap()
    };
    let runner = place.runner(&hooks);
    run(&build(&runner), RunInput::new("One").thread("a")).await;
    runner.session_end("a", "clear").await;
    run(&build(&runner), RunInput::new("Two").thread("b")).await;
    let again = place.runner(&hooks).succeeding(&runner);
    run(&build(&again), RunInput::new("Three").thread("b")).await;
    run(&build(&again), RunInput::new("Four").thread("c")).await;
    let sources: Vec<Value> = place.inputs("started").iter().map(|input| input["source"].clone()).collect();
    assert_eq!(sources, ["startup", "clear", "startup"]);
}

#[tokio::test]
async fn an_agent_continues_until_its_stop_hook_allows_the_end() {
    let place = Place::new();
    let model = ScriptedModel::new([Turn::text("Done."), Turn::text("Now it is.")]);
    let hook = "cat >> ends; test -e allowed || { touch allowed; echo 'run the tests first' >&2; exit 2; }";
    let agent = place.agent(&model, &at("Stop", &[hook])).build().unwrap();
    let (outcome, _) = run(&agent, RunInput::new("Go.").thread("t")).await;
    assert_eq!((outcome.text().as_str(), outcome.stop), ("Now it is.", FinishReason::Done));
    assert_eq!(model.requests()[1].messages.last().unwrap().text(), "run the tests first");
    let active: Vec<Value> = place.inputs("ends").iter().map(|input| input["stop_hook_active"].clone()).collect();
    assert_eq!(active, [false, true]);
}

#[tokio::test]
async fn a_stop_hook_that_never_allows_the_end_is_overruled_eventually() {
    let place = Place::new();
    let model = ScriptedModel::rules().always(Turn::text("Done.")).build();
    let agent = place.agent(&model, &at("Stop", &["exit 2"])).build().unwrap();
    let (outcome, told) = run(&agent, RunInput::new("Go.").thread("t")).await;
    assert_eq!((outcome.stop, model.requests().len()), (FinishReason::Done, 21));
    assert!(told[0]["message"].as_str().unwrap().contains("too often"));
}

#[tokio::test]
async fn sub_agents_trigger_their_own_hooks_and_those_of_calls() {
    let place = Place::new();
    let below = |request: &deepagents::ModelRequest| {
        request.messages.get(0).is_some_and(|message| message.text().contains("Sub."))
    };
    let task = Turn::call("task", json!({"description": "Sub.", "subagent_type": "general-purpose"}));
    let model = ScriptedModel::rules()
        .when(below, [write(), Turn::text("Written."), Turn::text("Checked.")])
        .otherwise([task, Turn::text("Main.")])
        .build();
    let context = answering(&specific("SubagentStart", &json!({"additionalContext": "Be brief."})));
    let stop = "cat >> stopped; test -e once || { touch once; echo 'check it' >&2; exit 2; }";
    let hooks = json!({
        "SubagentStart": [{"matcher": "general-purpose", "hooks": [{"type": "command", "command": context}]},
                          {"matcher": "other", "hooks": [{"type": "command", "command": "touch never"}]}],
        "SubagentStop": at("", &[stop])[""],
        "Stop": at("", &["cat >> main"])[""],
        "PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": "cat >> calls"}]}],
    });
    let agent = place.agent(&model, &hooks).build().unwrap();
    let (outcome, _) = run(&agent, RunInput::new("Main.").thread("t")).await;
    assert_eq!(outcome.text(), "Main.");
    assert_eq!(results(&outcome), ["Checked."]);
    assert!(model.requests()[1].messages.iter().any(|message| message.text() == "Be brief."));
    assert_eq!(place.inputs("calls")[0]["agent_type"], "general-purpose");
    assert_eq!((place.inputs("stopped").len(), place.inputs("main").len()), (2, 1));
    assert!(!place.path("never").exists());
}

#[tokio::test]
async fn a_hook_can_prevent_compaction() {
    for (command, compacted) in [("exit 2", false), ("cat >> compacting", true)] {
        let place = Place::new();
        let mut hooks = at("PreCompact", &[command]);
        hooks["SessionStart"] =
            json!([{"matcher": "compact", "hooks": [{"type": "command", "command": "echo 'Read the notes again.'"}]}]);
        let summary = |request: &deepagents::ModelRequest| request.tools.is_empty();
        let model = ScriptedModel::rules()
            .when(summary, [Turn::text("A summary.")])
            .always(Turn::text("An answer of some length, so that there is something to compact."))
            .build();
        let options = SummarizationOptions::default().trigger(Trigger::messages(6)).keep(Size::Messages(2));
        let agent = place.agent(&model, &hooks).summarization(options).build().unwrap();
        for at in 0..5 {
            run(&agent, RunInput::new(format!("Question {at}")).thread("t")).await;
        }
        let was = model.requests().iter().any(|request| request.tools.is_empty());
        assert_eq!(was, compacted, "{command}");
        let state = agent.state("t").await.unwrap();
        assert_eq!(state.messages().iter().any(|message| message.text() == "Read the notes again."), compacted);
        if compacted {
            assert_eq!(place.inputs("compacting")[0]["trigger"], "auto");
        }
    }
}

#[tokio::test]
async fn a_hook_is_told_that_a_person_requested_the_compaction() {
    let place = Place::new();
    let model = ScriptedModel::rules().always(Turn::text("An answer of some length.")).build();
    let agent = place.agent(&model, &at("PreCompact", &["cat >> compacting"])).build().unwrap();
    for question in ["One.", "Two."] {
        run(&agent, RunInput::new(question).thread("t")).await;
    }
    assert_eq!(agent.compact("t").await.unwrap(), Some(2));
    assert_eq!(place.inputs("compacting")[0]["trigger"], "manual");
}

#[tokio::test]
async fn applications_can_run_permission_and_session_hooks_themselves() {
    let place = Place::new();
    let decide = |decision: Value| answering(&specific("PermissionRequest", &json!({"decision": decision})));
    let request = ActionRequest::about(&CallId::default(), "execute", json!({"command": "ls"}), "2026-01-01T00:00:00Z");
    for (command, expected) in [
        (decide(json!({"behavior": "allow"})), Some(DecisionKind::Approve)),
        (decide(json!({"behavior": "allow", "updatedInput": {"command": "ls -l"}})), Some(DecisionKind::Edit)),
        (decide(json!({"behavior": "deny", "message": "no"})), Some(DecisionKind::Reject)),
        ("echo no >&2; exit 2".to_owned(), Some(DecisionKind::Reject)),
        ("true".to_owned(), None),
        ("exit 1".to_owned(), None),
    ] {
        let runner = place.runner(&at("PermissionRequest", &[&command]));
        let decision = runner.permission_request("t", &request).await;
        assert_eq!(decision.map(|decision| decision.kind()), expected, "{command}");
    }
    let mut hooks = at("SessionEnd", &["cat >> ended"]);
    hooks["Notification"] = json!([
        {"matcher": "permission_prompt", "hooks": [{"type": "command", "command": "cat >> told"}]},
        {"matcher": "idle", "hooks": [{"type": "command", "command": "touch never"}]},
    ]);
    let runner = place.runner(&hooks);
    runner.session_end("t", "exit").await;
    runner.notification("t", "A call waits.", "permission_prompt").await;
    assert_eq!(
        (&place.inputs("ended")[0]["reason"], &place.inputs("told")[0]["message"]),
        (&json!("exit"), &json!("A call waits."))
    );
    assert!(!place.path("never").exists());
}

#[tokio::test]
async fn hook_messages_go_to_the_person_not_the_model() {
    let place = Place::new();
    let (outcome, told) =
        writing(&place, &at("PreToolUse", &[&answering(&json!({"systemMessage": "Careful."}))])).await;
    assert_eq!((&told[0]["message"], &told[0]["event"]), (&json!("Careful."), &json!("PreToolUse")));
    assert!(outcome.messages().iter().all(|message| !message.text().contains("Careful.")));
}

#[tokio::test]
async fn a_hook_that_decides_gets_the_whole_call_and_a_later_one_gets_long_texts_truncated() {
    let place = Place::new();
    let content = format!("it's \"quoted\" $(touch owned) `touch owned` é\n{}", "x".repeat(400_000));
    let model = ScriptedModel::new([
        Turn::call("write_file", json!({"file_path": "/a.txt", "content": content})),
        Turn::text("Done."),
    ]);
    let mut hooks = at("PreToolUse", &["cat >> pre"]);
    hooks["PostToolUse"] = at("PostToolUse", &["cat >> post"])["PostToolUse"].clone();
    let agent = place.agent(&model, &hooks).build().unwrap();
    run(&agent, RunInput::new("Write.").thread("t")).await;
    assert_eq!(place.inputs("pre")[0]["tool_input"]["content"], content);
    let told = place.inputs("post");
    let told = told[0]["tool_input"]["content"].as_str().unwrap();
    assert!(told.starts_with("it's \"quoted\" $(touch owned) `touch owned` é\nxxx") && told.ends_with("[cut off]"));
    assert!(!place.path("owned").exists());
    assert_eq!(place.read("a.txt"), content, "the tool has it whole");
}

#[tokio::test]
async fn a_call_too_long_for_a_guard_is_not_made_if_the_guard_fails_closed() {
    let place = Place::new();
    let (long, more) = ("x".repeat(500_000), "y".repeat(500_000));
    let model = ScriptedModel::new([
        Turn::call("edit_file", json!({"file_path": "/a.txt", "old_string": long, "new_string": more})),
        Turn::text("Done."),
    ]);
    std::fs::write(place.path("a.txt"), &long).unwrap();
    let mut hooks = at("PreToolUse", &["true"]);
    hooks["PreToolUse"][0]["hooks"][0]["failClosed"] = json!(true);
    let agent = place.agent(&model, &hooks).build().unwrap();
    let (outcome, _) = run(&agent, RunInput::new("Edit.").thread("t")).await;
    assert_eq!(place.read("a.txt"), long);
    let told = outcome.messages().iter().any(|message| message.text().contains("hooks take"));
    assert!(told, "the model learns why");
}

/// A service whose answers depend on its address, and what it was sent.
#[derive(Default)]
struct Service(std::sync::Mutex<Vec<HookRequest>>);

impl HookSender for Service {
    fn send(&self, request: HookRequest) -> BoxFuture<'_, Result<HookResponse, String>> {
        let url = request.url.clone();
        self.0.lock().unwrap().push(request);
        Box::pin(async move {
            let deny = specific("PreToolUse", &json!({"permissionDecision": "deny", "permissionDecisionReason": "no"}));
            match url.as_str() {
                "http://deny" => Ok(HookResponse { status: 200, body: deny.to_string() }),
                "http://page" => Ok(HookResponse { status: 200, body: "<html>log in</html>".to_owned() }),
                "http://broken" => Ok(HookResponse { status: 500, body: deny.to_string() }),
                "http://slow" => std::future::pending().await,
                _ => Err("nobody is there".to_owned()),
            }
        })
    }
}

#[tokio::test]
async fn http_hooks_behave_like_command_hooks() {
    for (url, result, problem) in [
        ("http://deny", "A hook does not allow this call: no", ""),
        ("http://page", "Wrote /a.txt", "cannot be read: it is not a JSON object: <html>log in</html>"),
        ("http://broken", "Wrote /a.txt", "HTTP status 500"),
        ("http://slow", "Wrote /a.txt", "timed out"),
        ("http://gone", "Wrote /a.txt", "nobody is there"),
    ] {
        let place = Place::new();
        let hook =
            json!({"type": "http", "url": url, "headers": {"X-Team": "a"}, "secretEnv": "SECRET", "timeout": 0.1});
        let file = json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}}).to_string();
        let shell = Arc::new(LocalShell::open(place.dir.path(), Confinement::Unconfined).unwrap());
        assert_eq!(Hooks::parse(&file, "hooks.json", shell.clone()).unwrap().problems().len(), 1, "nobody sends it");
        let service = Arc::new(Service::default());
        let hooks = Hooks::parse_with_services(&file, "hooks.json", shell, service.clone()).unwrap();
        let model = ScriptedModel::new([write(), Turn::text("Done.")]);
        let agent = place.agent(&model, &json!({})).hooks(HookRunner::new(hooks)).build().unwrap();
        let (outcome, told) = run(&agent, RunInput::new("Write.").thread("t")).await;
        assert_eq!(results(&outcome), [result]);
        let error = told.first().map_or("", |told| told["error"].as_str().unwrap());
        assert!(error.contains(problem) && error.is_empty() == problem.is_empty(), "{error}");
        let sent = service.0.lock().unwrap()[0].clone();
        assert_eq!(
            (sent.headers, sent.secret_env.as_deref()),
            (vec![("X-Team".to_owned(), "a".to_owned())], Some("SECRET"))
        );
        let body: Value = serde_json::from_str(&sent.body).unwrap();
        assert_eq!((&body["tool_name"], &body["session_id"]), (&json!("Write"), &json!("t")));
    }
}

#[test]
fn every_event_name_round_trips() {
    for event in HookEvent::ALL {
        assert_eq!(HookEvent::from_name(event.as_str()), Some(event));
        assert_eq!(serde_json::to_value(event).unwrap(), event.as_str());
    }
}

#[tokio::test]
async fn hooks_of_sub_agents_receive_the_main_session_id() {
    let place = Place::new();
    let task = Turn::call("task", json!({"description": "Look.", "subagent_type": "general-purpose"}));
    let model = ScriptedModel::new([task, write(), Turn::text("Below."), Turn::text("Main.")]);
    let mut hooks = at("SubagentStart", &["cat >> told"]);
    for event in ["SubagentStop", "PreToolUse", "Stop"] {
        hooks[event] = at("", &["cat >> told"])[""].clone();
    }
    let agent = place.agent(&model, &hooks).build().unwrap();
    run(&agent, RunInput::new("Main.").thread("t")).await;
    let told: Vec<(Value, Value)> = place
        .inputs("told")
        .iter()
        .map(|input| (input["hook_event_name"].clone(), input["session_id"].clone()))
        .collect();
    assert!(told.iter().all(|(_, session)| session == "t"), "{told:?}");
    for event in ["SubagentStart", "SubagentStop", "PreToolUse", "Stop"] {
        assert!(told.iter().any(|(name, _)| name == event), "{event}: {told:?}");
    }
}
