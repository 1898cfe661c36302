//! Hooks of the user and of a directory, in the program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use deepagents_testing::skip::skip;
use serde_json::{Value, json};

use crate::program::{Finished, Start, deepagents, finish, finish_with, run, until};
use crate::server::{Reply, Server};

struct Place {
    dir: tempfile::TempDir,
}

fn hook(event: &str, command: &str) -> Value {
    json!({"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}})
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.root()).unwrap();
        fs::create_dir_all(place.home()).unwrap();
        place
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// Writes the hooks file of a directory.
    fn hooks(&self, of: &Path, hooks: &Value) {
        fs::create_dir_all(of.join(".deepagents")).unwrap();
        fs::write(of.join(".deepagents/hooks.json"), hooks.to_string()).unwrap();
    }

    fn run(&self, server: &Server) -> Command {
        let mut command = run(&self.root(), &server.address);
        command.env("HOME", self.home());
        command
    }

    fn command(&self, args: &[&str]) -> Finished {
        finish(deepagents().env("HOME", self.home()).current_dir(self.root()).arg("hooks").args(args))
    }
}

fn writing() -> Server {
    Server::start([
        Reply::Call("write_file", json!({"file_path": "/a.txt", "content": "x"})),
        Reply::Text(vec!["Done."]),
    ])
}

/// Whether this machine supports the sandbox.
fn has_sandbox() -> bool {
    let report = finish(deepagents().args(["doctor", "--json"])).out;
    let report: Value = serde_json::from_str(&report).unwrap();
    report["sandbox"]["level"] != "none"
}

#[test]
fn user_hooks_need_no_consent_and_do_not_see_api_keys() {
    let place = Place::new();
    place.hooks(&place.home(), &hook("PreToolUse", "echo \"$COLOUR,$ANTHROPIC_API_KEY,$PWD\" >&2; exit 2"));
    let server = writing();
    let done = finish(place.run(&server).env("COLOUR", "green").env("ANTHROPIC_API_KEY", "secret").arg("Write."));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!place.root().join("a.txt").exists());
    let told = server.requests()[1].body["messages"].to_string();
    let root = place.root().canonicalize().unwrap();
    assert!(told.contains(&format!("A hook does not allow this call: green,,{}", root.display())), "{told}");
    let without = finish(place.run(&writing()).args(["--no-hooks", "Write."]));
    assert_eq!(without.code, Some(0), "{without:?}");
    assert!(place.root().join("a.txt").exists());
}

#[test]
fn project_hooks_need_consent_and_run_in_the_sandbox() {
    let place = Place::new();
    let secret = place.home().join("secret");
    fs::write(&secret, "the secret").unwrap();
    place.hooks(&place.root(), &hook("PreToolUse", &format!("cat {} >&2; exit 2", secret.display())));
    let left_out = finish(place.run(&writing()).arg("Write."));
    assert!(left_out.err.contains("hook hooks.json (/.deepagents/hooks.json)"), "{left_out:?}");
    assert!(place.root().join("a.txt").exists(), "nobody has agreed to it");
    if !has_sandbox() {
        return skip("sandbox", "hooks of a directory run in it");
    }
    let server = writing();
    let trusted = finish(place.run(&server).args(["--trust", "Write."]));
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    let told = server.requests()[1].body["messages"].to_string();
    assert!(told.contains("A hook does not allow this call") && !told.contains("the secret"), "{told}");
}

#[test]
fn hooks_cannot_override_a_refusing_mode_and_project_hooks_cannot_allow_calls() {
    let place = Place::new();
    let says = |event: &str, fields: Value| {
        let mut specific = json!({"hookEventName": event});
        specific.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        hook(event, &format!("printf '%s' '{}'", json!({"hookSpecificOutput": specific})))
    };
    let allow = || says("PreToolUse", json!({"permissionDecision": "allow"}));
    place.hooks(&place.home(), &allow());
    for mode in ["deny", "allow-list"] {
        let done = finish(place.run(&writing()).args(["--approve", mode, "Write."]));
        assert!(done.err.contains("not made") || done.code == Some(0), "{done:?}");
        assert!(!place.root().join("a.txt").exists(), "{mode}: {done:?}");
    }
    let asked = finish(place.run(&writing()).args(["--approve", "ask", "Write."]));
    assert!(place.root().join("a.txt").exists(), "{asked:?}");
    fs::remove_file(place.root().join("a.txt")).unwrap();
    fs::remove_file(place.home().join(".deepagents/hooks.json")).unwrap();
    if !has_sandbox() {
        return skip("sandbox", "hooks of a directory run in it");
    }
    for hooks in [allow(), says("PermissionRequest", json!({"decision": {"behavior": "allow"}}))] {
        place.hooks(&place.root(), &hooks);
        let asked = finish_with(place.run(&writing()).args(["--trust", "--approve", "ask", "Write."]), "n\n");
        assert!(asked.err.contains("? write_file /a.txt"), "{asked:?}");
        assert!(!place.root().join("a.txt").exists(), "{asked:?}");
    }
}

#[test]
fn the_approver_sees_the_hooks_changed_call_and_an_edit_has_the_last_word() {
    let place = Place::new();
    let changed = json!({"file_path": place.root().canonicalize().unwrap().join("b.txt"), "content": "y"});
    let specific = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": changed}});
    place.hooks(&place.home(), &hook("PreToolUse", &format!("printf '%s' '{specific}'")));
    let shown = finish(place.run(&writing()).arg("Write."));
    assert!(shown.out.contains("✓ write_file /b.txt") && !shown.out.contains("/a.txt"), "{shown:?}");
    let asked = finish_with(place.run(&writing()).args(["--approve", "ask", "Write."]), "y\n");
    assert!(asked.err.contains("? write_file /b.txt") && !asked.err.contains("? write_file /a.txt"), "{asked:?}");
    assert_eq!(fs::read_to_string(place.root().join("b.txt")).unwrap(), "y");
    let edit = r#"e {"file_path": "/c.txt", "content": "z"}"#;
    let asked = finish_with(place.run(&writing()).args(["--approve", "ask", "Write."]), &format!("{edit}\n"));
    assert_eq!(fs::read_to_string(place.root().join("c.txt")).unwrap_or_default(), "z", "{asked:?}");
    let threads = finish(deepagents().env("HOME", place.home()).args(["threads", "list", "--json"])).out;
    let threads: Value = serde_json::from_str(&threads).unwrap();
    let id = threads[0]["id"].as_str().unwrap();
    let shown = finish(deepagents().env("HOME", place.home()).args(["threads", "show", id])).out;
    assert!(shown.contains("edit     write_file /b.txt  to  write_file /c.txt"), "{shown}");
}

#[test]
fn a_blocked_prompt_is_not_sent_and_the_reason_is_shown() {
    let place = Place::new();
    place.hooks(&place.home(), &hook("UserPromptSubmit", "echo 'not on a Friday' >&2; exit 2"));
    let server = Server::start([]);
    let done = finish(place.run(&server).arg("Deploy."));
    assert_eq!((done.code, done.err.matches("not on a Friday").count()), (Some(1), 1), "{done:?}");
    let quiet = finish(place.run(&server).args(["-q", "Deploy."]));
    assert_eq!(quiet.one_message(), "a hook ended the run: not on a Friday");
    assert!(server.requests().is_empty());
}

#[test]
fn a_run_ended_by_a_hook_has_no_answer_and_fails() {
    let place = Place::new();
    place.hooks(&place.home(), &hook("PostToolUse", r#"echo '{"continue":false,"stopReason":"enough"}'"#));
    let schema = place.dir.path().join("schema.json");
    fs::write(&schema, r#"{"type": "object"}"#).unwrap();
    let shaped = ["-q", "--json-schema", schema.to_str().unwrap()];
    let ways: [&[&str]; 3] = [&["-q"], &shaped, &["-q", "--goal", "It is good."]];
    for way in ways {
        let ended = finish(place.run(&writing()).args(way).arg("Write."));
        assert_eq!(ended.one_message(), "a hook ended the run: enough", "{way:?}");
        fs::remove_file(place.root().join("a.txt")).unwrap();
    }
    let shown = finish(place.run(&writing()).arg("Write."));
    assert_eq!((shown.code, shown.err.matches("enough").count()), (Some(1), 1), "{shown:?}");
    // The later run has no answer either.
    let again = finish(place.run(&writing()).args(["-q", "--continue"]));
    assert!(again.one_message().contains("before it gave an answer"), "{again:?}");
}

#[test]
fn decisions_made_by_nobody_are_not_attributed_to_a_person() {
    let place = Place::new();
    let specific = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}});
    place.hooks(&place.home(), &hook("PreToolUse", &format!("printf '%s' '{specific}'")));
    let server = writing();
    assert_eq!(finish(place.run(&server).arg("Write.")).code, Some(0));
    let told = server.requests()[1].body["messages"].to_string();
    assert!(told.contains("nobody can be asked in this run") && !told.contains("person rejected"), "{told}");
    let decision = json!({"behavior": "allow", "updatedInput": {"file_path": "/b.txt", "content": "y"}});
    let specific = json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}});
    place.hooks(&place.home(), &hook("PermissionRequest", &format!("printf '%s' '{specific}'")));
    let server = writing();
    assert_eq!(finish_with(place.run(&server).args(["--approve", "ask", "Write."]), "").code, Some(0));
    let told = server.requests()[1].body["messages"].to_string();
    assert!(told.contains("A rule (a hook) changed this call"), "{told}");
}

#[test]
fn a_signal_ends_session_end_hooks() {
    let place = Place::new();
    let began = place.dir.path().join("began");
    let mut hooks = hook("SessionEnd", &format!("echo began > '{}'; exec sleep 600", began.display()));
    hooks["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"] = json!(600);
    place.hooks(&place.home(), &hooks);
    let server = Server::start([Reply::Text(vec!["Hello."])]);
    let mut command = place.run(&server);
    let child = command.arg("Hi.").stdout(Stdio::piped()).stderr(Stdio::piped()).start();
    until("the hook", || fs::read_to_string(&began).is_ok_and(|text| text == "began\n").then_some(()));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let done: Finished = child.wait_with_output().unwrap().into();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("Hello.") && done.err.contains("the hooks for the end"), "{done:?}");
}

#[test]
fn the_session_end_hook_runs_when_a_session_ends() {
    let place = Place::new();
    place.hooks(&place.home(), &hook("SessionEnd", "cat > ended"));
    let done = finish(place.run(&Server::start([Reply::Text(vec!["Hello."])])).arg("Hi."));
    assert_eq!(done.code, Some(0), "{done:?}");
    let told: Value = serde_json::from_str(&fs::read_to_string(place.root().join("ended")).unwrap()).unwrap();
    assert_eq!((&told["reason"], &told["permission_mode"]), (&json!("exit"), &json!("bypassPermissions")));
}

#[test]
fn an_unsaved_session_keeps_one_id_from_start_to_end() {
    let place = Place::new();
    let mut hooks = hook("SessionStart", "cat > begun");
    hooks["hooks"]["SessionEnd"] = hook("SessionEnd", "cat > ended")["hooks"]["SessionEnd"].clone();
    place.hooks(&place.home(), &hooks);
    let server = Server::start([Reply::Text(vec!["Hello."])]);
    let done = finish(place.run(&server).args(["--no-save", "Hi."]));
    assert_eq!(done.code, Some(0), "{done:?}");
    let told = |name| -> Value { serde_json::from_slice(&fs::read(place.root().join(name)).unwrap()).unwrap() };
    assert_eq!(told("begun")["session_id"], told("ended")["session_id"]);
}

#[test]
fn an_unusable_hooks_file_stops_the_run() {
    let place = Place::new();
    place.hooks(&place.home(), &json!({"hooks": {"PreToolUse": [{"matcher": "(", "hooks": []}]}}));
    let server = Server::start([]);
    let refused = finish(place.run(&server).arg("Write."));
    assert!(refused.one_message().contains("--no-hooks"));
    assert!(server.requests().is_empty());
    place.hooks(&place.home(), &hook("Stop", "true"));
    let record = place.dir.path().join("run.jsonl");
    let recorded = finish(place.run(&server).arg("--record").arg(&record).arg("Write."));
    assert!(recorded.wrong_usage().contains("recording") && !record.exists());
}

#[test]
fn a_hook_may_be_a_service_that_receives_signed_requests() {
    let place = Place::new();
    let deny = json!({"decision": "block", "reason": "the service says no"});
    let service = Server::start([Reply::Status(200, deny)]);
    let hook = json!({"type": "http", "url": service.address, "secretEnv": "HOOK_SECRET"});
    place.hooks(&place.home(), &json!({"hooks": {"PreToolUse": [{"hooks": [hook]}]}}));
    let server = writing();
    let done = finish(place.run(&server).env("HOOK_SECRET", "s3cret").arg("Write."));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(server.requests()[1].body["messages"].to_string().contains("the service says no"), "{done:?}");
    let asked = &service.requests()[0];
    assert_eq!(asked.body["tool_name"], "Write");
    let signed = asked.head.iter().find_map(|line| line.strip_prefix("x-deepagents-signature: t=")).unwrap();
    assert!(signed.contains(",v1=") && !asked.head.iter().any(|line| line.contains("s3cret")));
}

#[test]
fn hooks_can_be_listed_and_tested() {
    let place = Place::new();
    assert_eq!(place.command(&["list"]).out, "there are no hooks here\n");
    let guard = "grep -q 'rm x' && { echo 'no deleting' >&2; exit 2; }; true";
    let groups = json!([{"matcher": "Bash", "hooks": [{"type": "command", "command": guard, "failClosed": true}]}]);
    place.hooks(&place.home(), &json!({"hooks": {"PreToolUse": groups}}));
    let listed: Value = serde_json::from_str(&place.command(&["list", "--json"]).out).unwrap();
    assert_eq!(
        (&listed[0]["event"], &listed[0]["matcher"], &listed[0]["fail_closed"]),
        (&json!("PreToolUse"), &json!("Bash"), &json!(true))
    );
    let input = |command: &str| json!({"tool_name": "Bash", "tool_input": {"command": command}}).to_string();
    let tried = place.command(&["test", "PreToolUse", "--input", &input("rm x")]);
    assert!(tried.out.contains("blocks: no deleting") && tried.code == Some(0), "{tried:?}");
    assert!(place.command(&["test", "PreToolUse", "--input", &input("ls")]).out.contains("has nothing to say"));
    let other = json!({"tool_name": "Write"}).to_string();
    assert!(place.command(&["test", "PreToolUse", "--input", &other]).out.contains("no PreToolUse hook"));
    assert!(place.command(&["test", "PreTool"]).wrong_usage().contains("the events are SessionStart"));
    place.hooks(&place.home(), &hook("Stop", "exit 7"));
    let broken = place.command(&["test", "Stop"]);
    assert!(broken.out.contains("broken: it ended with exit code 7") && broken.code == Some(1), "{broken:?}");
}

/// A model that writes a file, with nobody to ask.
fn write(path: &str, text: &str) -> Server {
    Server::start([
        // An existing file must be read before it is overwritten.
        Reply::Call("read_file", json!({"file_path": path})),
        Reply::Call("write_file", json!({"file_path": path, "content": text})),
        Reply::Text(vec!["Done."]),
    ])
}

fn put(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn hook_programs_are_part_of_the_consent_and_protected_from_changes() {
    let place = Place::new();
    let guard = place.root().join("scripts/guard.sh");
    put(&guard, "#!/bin/sh\necho 'no writing here' >&2; exit 2\n");
    place.hooks(&place.root(), &hook("PreToolUse", "\"$CLAUDE_PROJECT_DIR\"/scripts/guard.sh"));
    let shown = finish(deepagents().env("HOME", place.home()).args(["trust", "show"]).arg(place.root()));
    assert!(shown.out.contains("/scripts/guard.sh") && shown.out.contains("no writing here"), "{shown:?}");
    let list = place.command(&["list"]);
    assert!(list.out.contains("nobody has agreed to them"), "{list:?}");
    let listed = finish(place.run(&write("/scripts/guard.sh", "#!/bin/sh\n")).args(["--trust", "Write."]));
    assert!(fs::read_to_string(&guard).unwrap().contains("no writing"), "{listed:?}");
    assert!(!place.command(&["list"]).out.contains("nobody has agreed"));
    // A run without hooks cannot write it either. A changed program needs new consent.
    finish(place.run(&write("/scripts/guard.sh", "#!/bin/sh\n")).args(["--no-hooks", "Write."]));
    assert!(fs::read_to_string(&guard).unwrap().contains("no writing"));
    put(&guard, "#!/bin/sh\nexit 0\n");
    let changed = finish(place.run(&writing()).arg("Write."));
    assert!(changed.err.contains("hook hooks.json (/.deepagents/hooks.json)"), "{changed:?}");
    // Other files in the directory can be written.
    finish(place.run(&write("/scripts/other.sh", "x")).arg("Write."));
    assert!(place.root().join("scripts/other.sh").exists());
}

#[test]
fn project_hooks_obey_the_rules_and_cannot_see_the_programs_own_files() {
    if !has_sandbox() {
        return skip("sandbox", "hooks of a directory run in it");
    }
    let place = Place::new();
    // The root contains the home.
    let root = place.dir.path().to_owned();
    put(&root.join("secret/k"), "the secret");
    put(&place.home().join(".deepagents/auth-x.json"), "the key");
    let text = "cat secret/k home/.deepagents/auth-x.json > leak.txt; echo x > docs.txt; true";
    place.hooks(&root, &hook("PreToolUse", text));
    fs::write(root.join("docs.txt"), "mine").unwrap();
    let rules = place.home().join("rules.json");
    let deny = json!([
        {"operations": ["read", "write"], "paths": ["/secret/**"], "mode": "deny"},
        {"operations": ["write"], "paths": ["/docs.txt"], "mode": "ask"},
    ]);
    fs::write(&rules, deny.to_string()).unwrap();
    let server = writing();
    let mut command = run(&root, &server.address);
    let done = finish(command.env("HOME", place.home()).args(["--trust", "Write.", "--rules"]).arg(&rules));
    assert_eq!(fs::read_to_string(root.join("leak.txt")).unwrap(), "", "{done:?}");
    assert_eq!(fs::read_to_string(root.join("docs.txt")).unwrap(), "mine");
}

#[test]
fn project_files_run_by_the_users_hooks_and_settings_are_protected() {
    let place = Place::new();
    for name in ["lint.sh", "check.py", "line", "tell.sh", "edit.sh"] {
        put(&place.root().join("scripts").join(name), "#!/bin/sh\ntrue\n");
    }
    put(&place.root().join("src/main.py"), "");
    put(&place.root().join("scripts/lint.sh"), "#!/bin/sh\npython3 scripts/check.py src/main.py\n");
    put(&place.root().join(".venv/bin/git"), "#!/bin/sh\n");
    place.hooks(&place.home(), &hook("PostToolUse", "cd scripts && ./lint.sh Cargo.toml"));
    let config = "status_line = \"scripts/line --short\"\neditor = \"./scripts/edit.sh\"\n[notify]\ncommand = \"sh ./scripts/tell.sh\"\n";
    fs::write(place.home().join(".deepagents/config.toml"), config).unwrap();
    let path = format!("{}:{}", place.root().join(".venv/bin").display(), std::env::var("PATH").unwrap());
    let written = |path_of: &str| {
        let done = finish(place.run(&write(path_of, "evil")).env("PATH", &path).arg("Write."));
        let text = fs::read_to_string(place.root().join(path_of.trim_start_matches('/'))).unwrap_or_default();
        (text == "evil", done)
    };
    for name in ["lint.sh", "check.py", "line", "tell.sh", "edit.sh"] {
        let (changed, done) = written(&format!("/scripts/{name}"));
        assert!(!changed, "{name}: {done:?}");
    }
    assert!(!written("/.venv/bin/git").0 && !written("/.venv/bin/python3").0);
    // Files of installed packages can be written.
    for name in
        ["/scripts/new.sh", "/Cargo.toml", "/src/main.rs", "/src/main.py", "/.venv/lib/x.py", "/.venv/bin/black"]
    {
        let (changed, done) = written(name);
        assert!(changed, "{name}: {done:?}");
    }
}

#[test]
fn files_that_the_users_git_configuration_runs_are_protected() {
    let place = Place::new();
    fs::create_dir_all(place.root().join(".git")).unwrap();
    put(&place.root().join("tools/fsm"), "#!/bin/sh\n");
    put(&place.root().join("main"), "a build");
    fs::write(
        place.home().join(".gitconfig"),
        "[init]\n\tdefaultBranch = main\n[core]\n\thooksPath = .githooks\n\tfsmonitor = tools/fsm\n",
    )
    .unwrap();
    let root = place.root();
    let name = root.file_name().unwrap().to_str().unwrap();
    fs::write(root.join(".git/config"), format!("[include]\n\tpath = ~/../{name}/inc\n")).unwrap();
    for path in ["/.githooks/pre-commit", "/tools/fsm", "/inc"] {
        let done = finish(place.run(&write(path, "evil")).arg("Write."));
        let text = fs::read_to_string(place.root().join(path.trim_start_matches('/'))).unwrap_or_default();
        assert_ne!(text, "evil", "{path}: {done:?}");
    }
    finish(place.run(&writing()).arg("Write."));
    assert!(place.root().join("a.txt").exists());
    let done = finish(place.run(&write("/main", "built again")).arg("Write."));
    assert_eq!(fs::read_to_string(place.root().join("main")).unwrap(), "built again", "{done:?}");
    // The same for settings in other places.
    fs::remove_file(place.home().join(".gitconfig")).unwrap();
    put(&place.root().join("tools/pager"), "#!/bin/sh\n");
    put(&place.home().join("xdg/git/config"), "[core]\n\tpager = tools/pager\n");
    put(&place.home().join("named"), "[core]\n\tfsmonitor = tools/fsm\n");
    for path in ["/tools/pager", "/tools/fsm"] {
        let mut command = place.run(&write(path, "evil"));
        command.env("XDG_CONFIG_HOME", place.home().join("xdg")).env("GIT_CONFIG_GLOBAL", place.home().join("named"));
        let done = finish(command.arg("Write."));
        let text = fs::read_to_string(place.root().join(path.trim_start_matches('/'))).unwrap();
        assert_ne!(text, "evil", "{path}: {done:?}");
    }
}
