//! Every decision names its author: in interrupts, events and the log.

use std::path::Path;
use std::sync::Arc;

use deepagents::core::agent::ThreadAccess;
use deepagents::fs::permissions::{AccessMode, CommandRule, Operation, Permissions, Rule};
use deepagents::fs::shell::{Confinement, LocalShell, WithShell};
use deepagents::fs::{Backend, CompositeBackend, LocalBackend, ReadOnly, StateBackend};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::remembered::{CommandReach, RememberedRule};
use deepagents::subagents::SubAgentSpec;
use deepagents::{
    ActionRequest, Decision, DecisionAuthor, DecisionRecord, DeepAgent, DeepAgentBuilder, EventKind, InterruptOn,
    InterruptPolicy, MemoryJournal, RunInput,
};
use futures_util::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

/// The decisions: call ID, `approve` or `reject`, and the author.
type Decided = Vec<(String, String, DecisionAuthor)>;

fn decided(kinds: impl IntoIterator<Item = EventKind>) -> Decided {
    let decided = |kind| match kind {
        EventKind::ActionDecided { id, decision, author } => {
            Some((id, decision.kind().as_str().to_owned(), author.expect("somebody decided")))
        }
        _ => None,
    };
    kinds.into_iter().filter_map(decided).collect()
}

fn rule(text: &str) -> DecisionAuthor {
    DecisionAuthor::Rule { text: text.to_owned() }
}

/// Runs calls, one per turn. Returns the decisions, which are the same in the log and the events.
async fn play(calls: &[(&str, Value)], configure: impl FnOnce(DeepAgentBuilder) -> DeepAgentBuilder) -> Decided {
    let turns = calls.iter().map(|(tool, args)| Turn::call(*tool, args.clone()));
    let model = ScriptedModel::new(turns.chain([Turn::text("Done.")]));
    let journal = Arc::new(MemoryJournal::new());
    let agent = configure(DeepAgent::builder().model(model).journal(journal.clone())).build().unwrap();
    let run = agent.run(RunInput::new("Go.").thread("t"));
    let told = decided(run.map(|event| event.kind).collect::<Vec<_>>().await);
    let threads = ThreadAccess::new(journal, agent.schema().clone());
    let mut watched = std::pin::pin!(threads.watch("t", 0));
    let mut logged = Vec::new();
    while let Some(event) = watched.try_next().await.unwrap() {
        let ended = matches!(event.kind, EventKind::RunFinished { .. }) && event.path.is_empty();
        logged.push(event.kind);
        if ended {
            break;
        }
    }
    assert_eq!(decided(logged), told);
    told
}

fn workspace(folder: &Path) -> Arc<dyn Backend> {
    let shell = LocalShell::open(folder, Confinement::Unconfined).unwrap();
    Arc::new(WithShell::new(LocalBackend::open(folder).unwrap(), shell))
}

fn write(path: &str) -> (&'static str, Value) {
    ("write_file", json!({"file_path": path, "content": "x"}))
}

fn run(command: &str) -> (&'static str, Value) {
    ("execute", json!({"command": command}))
}

#[tokio::test]
async fn decisions_name_the_file_rules_that_allow_or_deny() {
    let rules = Permissions::new([
        Rule::new(AccessMode::Allow, ["/free/**"]),
        Rule::new(AccessMode::Deny, ["/closed/**"]).only([Operation::Write]),
    ]);
    let rules = rules.unwrap();
    let told = play(&[write("/free/a"), write("/closed/a"), write("/other")], |b| b.permissions(rules)).await;
    let of = |index: &str, kind: &str, text| (index.to_owned(), kind.to_owned(), rule(text));
    assert_eq!(told, [of("0.0", "approve", "write /free/**"), of("1.0", "reject", "write /closed/**")]);
}

#[tokio::test]
async fn protected_places_and_read_only_files_are_named_as_rules() {
    let folder = tempfile::tempdir().unwrap();
    let files = LocalBackend::open(folder.path()).unwrap();
    let told = play(&[write("/.git/config")], |b| b.backend(files.clone())).await;
    assert_eq!(told, [("0.0".to_owned(), "reject".to_owned(), rule("protected place: /.git/config"))]);
    // A file that cannot change, among others that can.
    let fixed = ReadOnly::new(Arc::new(files));
    let files = CompositeBackend::new(StateBackend::new()).route("/fixed".parse().unwrap(), fixed);
    let told = play(&[write("/fixed/a")], |b| b.backend(files)).await;
    assert_eq!(told, [("0.0".to_owned(), "reject".to_owned(), rule("read-only: /fixed/a"))]);
}

#[tokio::test]
async fn decisions_name_the_command_rules_that_allow_or_deny() {
    let folder = tempfile::tempdir().unwrap();
    let rules = [CommandRule::new(AccessMode::Deny, ["touch b"]), CommandRule::new(AccessMode::Allow, ["touch *"])];
    let rules = Permissions::default().with_commands(rules, AccessMode::Deny).unwrap();
    let calls = [run("touch a"), run("touch 'b'"), run("ls")];
    let told = play(&calls, |b| b.backend(workspace(folder.path())).permissions(rules)).await;
    let words: Vec<(&str, String)> = told.iter().map(|(_, kind, author)| (&**kind, author.to_string())).collect();
    assert_eq!(words[0], ("approve", "the rule: commands: touch *".to_owned()));
    assert!(words[1].0 == "reject" && words[1].1.contains("the rule `touch b` is about"), "{words:?}");
    assert!(words[2].0 == "reject" && words[2].1.contains("no rule is about `ls`"), "{words:?}");
    assert!(folder.path().join("a").exists() && !folder.path().join("b").exists());
}

#[tokio::test]
async fn a_persons_decision_stays_attributed_to_them_despite_a_later_rule() {
    let rules = Permissions::new([Rule::new(AccessMode::Deny, ["/closed/**"]).only([Operation::Write])]).unwrap();
    let model = ScriptedModel::new([Turn::calls([write("/closed/a")]), Turn::text("Done.")]);
    let asks = InterruptPolicy::new().before("write_file", InterruptOn::any());
    let agent = DeepAgent::builder().model(model).journal(MemoryJournal::new()).permissions(rules).interrupt_on(asks);
    let agent = agent.build().unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let id = waiting.action_requests()[0].id.clone();
    let run = agent.run(RunInput::resume("t").decide(id, Decision::Approve));
    let told = decided(run.map(|event| event.kind).collect::<Vec<_>>().await);
    let authors: Vec<&DecisionAuthor> = told.iter().map(|(_, _, author)| author).collect();
    assert_eq!(authors, [&DecisionAuthor::Person, &rule("write /closed/**")]);
}

#[tokio::test]
async fn a_question_names_the_rules_that_ask_and_the_calling_sub_agent() {
    let rules = Permissions::new([Rule::new(AccessMode::Ask, ["/secret/**"]).only([Operation::Write])]).unwrap();
    let delegate = Turn::call("task", json!({"description": "Write.", "subagent_type": "writer"}));
    let script = [Turn::calls([write("/secret/a")]), delegate, Turn::calls([write("/secret/b")]), Turn::text("End.")];
    let asks = InterruptPolicy::new().before("write_file", InterruptOn::any().rule("everything is asked about"));
    let agent = DeepAgent::builder()
        .model(ScriptedModel::new(script.into_iter().chain([Turn::text("End.")])))
        .journal(MemoryJournal::new())
        .permissions(rules)
        .interrupt_on(asks)
        .sub_agent(SubAgentSpec::new("writer", "Writes."))
        .build()
        .unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let question = waiting.action_requests().remove(0);
    assert_eq!(question.rule.as_deref(), Some("everything is asked about; write /secret/**"));
    assert_eq!(question.agent, None);
    let waiting = agent.invoke(RunInput::resume("t").decide(question.id, Decision::Approve)).await.unwrap();
    let question = waiting.action_requests().remove(0);
    assert_eq!(question.agent.as_deref(), Some("writer"));
    assert!(question.rule.unwrap().contains("write /secret/**"));
}

#[tokio::test]
async fn a_question_about_an_agent_instruction_file_names_the_protected_place() {
    let folder = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([Turn::calls([write("/AGENTS.md")]), Turn::text("End.")]);
    let files = LocalBackend::open(folder.path()).unwrap();
    let agent = DeepAgent::builder().model(model).journal(MemoryJournal::new()).backend(files).build().unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(waiting.action_requests()[0].rule.as_deref(), Some("protected place: /AGENTS.md"));
}

#[tokio::test]
async fn what_a_rule_decided_about_a_call_does_not_open_a_protected_place() {
    let remembered = DecisionAuthor::RememberedRule { text: "every write_file".to_owned() };
    for (author, is_enough) in [(None, true), (Some(DecisionAuthor::Person), true), (Some(remembered), false)] {
        let folder = tempfile::tempdir().unwrap();
        let agents = folder.path().join("AGENTS.md");
        let model = ScriptedModel::new([Turn::calls([write("/AGENTS.md")]), Turn::text("End.")]);
        let agent = DeepAgent::builder()
            .model(model)
            .journal(MemoryJournal::new())
            .backend(LocalBackend::open(folder.path()).unwrap())
            .interrupt_on(InterruptPolicy::new().before("write_file", InterruptOn::any()))
            .build()
            .unwrap();
        let question = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap().action_requests().remove(0);
        let decided = match author {
            Some(author) => DecisionRecord::new(Decision::Approve, author),
            None => Decision::Approve.into(),
        };
        let outcome = agent.invoke(RunInput::resume("t").decide(question.id, decided)).await.unwrap();
        assert_eq!(agents.exists(), is_enough);
        if is_enough {
            continue;
        }
        let question = outcome.action_requests().remove(0);
        assert_eq!(question.rule.as_deref(), Some("protected place: /AGENTS.md"));
        agent.invoke(RunInput::resume("t").decide(question.id, Decision::Approve)).await.unwrap();
        assert!(agents.exists(), "a person agreed");
    }
}

fn about(tool: &str, args: Value) -> ActionRequest {
    ActionRequest::about(&deepagents::core::tool::CallId::default(), tool, args, "")
}

#[test]
fn a_remembered_command_rule_ignores_spelling_but_covers_nothing_else() {
    let command = |text: &str| about("execute", json!({"command": text}));
    let rule = RememberedRule::covering(&about("execute", json!({"command": "cargo test  -p 'a b'", "timeout": 60})));
    assert_eq!(rule.to_string(), "execute `cargo test -p 'a b'` and no other command, with any timeout");
    for covered in ["cargo test -p 'a b'", "  cargo  \"test\" -p a\\ b", "cargo test -p 'a b' 2>&1"] {
        assert!(rule.covers(&command(covered)), "{covered}");
    }
    for other in [
        "cargo test",
        "cargo test -p 'a b' -- --ignored",
        "cargo test -p 'a b' > out.txt",
        "cargo test -p 'a b' < in.txt",
        "cargo test -p 'a b' <<< x",
        "cargo test -p 'a b' <<E\nx\nE",
        "cargo test -p 'a b' | sh",
        "cargo test -p 'a b' &",
        "cargo test -p 'a b'; id",
        "cd .. && cargo test -p 'a b'",
        "RUSTC=./x cargo test -p 'a b'",
        "x=1 cargo test -p 'a b'",
        "./cargo test -p 'a b'",
        "cargo test -p 'a b'\nid",
        "cargo test -p $(id)",
        "(cargo test -p 'a b')",
        "! cargo test -p 'a b'",
        "time cargo test -p 'a b'",
        "cargo test -p 'a  b'",
    ] {
        assert!(!rule.covers(&command(other)), "{other}");
    }
    assert!(!rule.covers(&about("execute", json!({"command": "cargo test -p 'a b'", "background": true}))));
    assert!(!rule.covers(&about("mcp__x__execute", json!({"command": "cargo test -p 'a b'"}))));
}

#[test]
fn a_remembered_rule_for_a_complex_command_covers_only_its_exact_text() {
    for text in ["make && make install", "ls *.rs", "echo $HOME", "sort < a", "sh -c 'id'", "X=1 make", "a | b"] {
        let rule = RememberedRule::covering(&about("execute", json!({"command": text})));
        assert!(rule.covers(&about("execute", json!({"command": text}))), "{text}");
        let other = format!("{text} ");
        assert!(!rule.covers(&about("execute", json!({"command": other}))), "{text}");
    }
}

#[test]
fn rules_of_earlier_versions_keep_their_meaning() {
    let old = json!({"tool": "execute", "args": {"command": "ls"}});
    let rule: RememberedRule = serde_json::from_value(old).unwrap();
    assert!(rule.covers(&about("execute", json!({"command": "ls"}))));
    assert!(!rule.covers(&about("execute", json!({"command": "ls "}))));
    assert!(rule.holds_within(&CommandReach::default()));
    assert!(!rule.holds_within(&CommandReach { unconfined: true, ..CommandReach::default() }));
}

#[test]
fn a_remembered_command_rule_holds_only_where_commands_reach_no_further() {
    let hosts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let reaches = [
        CommandReach { read_only: true, ..CommandReach::default() },
        CommandReach::default(),
        CommandReach { hosts: hosts(&["a.example"]), ..CommandReach::default() },
        CommandReach { hosts: hosts(&["a.example", "b.example"]), shared_caches: true, ..CommandReach::default() },
        CommandReach { unconfined: true, ..CommandReach::default() },
    ];
    for (agreed, at) in reaches.iter().enumerate() {
        let rule = RememberedRule::covering(&about("execute", json!({"command": "make"}))).within(at);
        let rule: RememberedRule = serde_json::from_value(serde_json::to_value(rule).unwrap()).unwrap();
        for (later, reach) in reaches.iter().enumerate() {
            assert_eq!(rule.holds_within(reach), later <= agreed, "{rule}: {reach:?}");
        }
    }
    let shared = CommandReach { shared_caches: true, ..CommandReach::default() };
    let rule = RememberedRule::covering(&about("execute", json!({"command": "make"}))).within(&reaches[2]);
    assert!(!rule.holds_within(&shared));
    assert_eq!(
        rule.to_string(),
        "execute `make` and no other command, with any timeout, with the network of a.example"
    );
    let written = RememberedRule::covering(&about("write_file", json!({"file_path": "/x"}))).within(&reaches[0]);
    assert!(reaches.iter().all(|reach| written.holds_within(reach)));
}
