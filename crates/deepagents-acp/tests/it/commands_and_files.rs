//! Commands that run while files are read and written through the editor.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};

use deepagents::middleware::filesystem::BackgroundCommands;
use deepagents::models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::editor::{Editor, Host, TIMEOUT, chooses};

type Reply = Option<Result<Value, Value>>;

fn both() -> Value {
    json!({"fs": {"readTextFile": true, "writeTextFile": true}})
}

/// An editor that opens the paths that it is given, whatever is there.
fn opens(method: &str, params: &Value) -> Reply {
    let path = || Path::new(params["path"].as_str().unwrap());
    match method {
        "fs/read_text_file" => {
            let text = std::fs::read_to_string(path());
            let missing = |_| json!({"code": -32002, "message": "Resource not found"});
            Some(text.map(|text| json!({"content": text})).map_err(missing))
        }
        "fs/write_text_file" => {
            let written = std::fs::write(path(), params["content"].as_str().unwrap());
            let failed = |error: std::io::Error| json!({"code": -32603, "message": error.to_string()});
            Some(written.map(|()| json!({})).map_err(failed))
        }
        _ => chooses("allow_once")(method, params),
    }
}

/// A workspace with the directory `real`, beside a directory with a secret.
struct Setup {
    dir: TempDir,
}

impl Setup {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("work/real")).unwrap();
        std::fs::create_dir(dir.path().join("outside")).unwrap();
        std::fs::write(dir.path().join("work/real/secret"), "inside").unwrap();
        std::fs::write(dir.path().join("outside/secret"), "OUTSIDE-SECRET").unwrap();
        symlink("real", dir.path().join("work/d")).unwrap();
        Self { dir }
    }

    fn work(&self) -> std::path::PathBuf {
        self.dir.path().join("work")
    }

    /// A command that makes `d` lead inside and outside in turn.
    fn swap(&self, rounds: &str) -> String {
        let outside = self.dir.path().join("outside");
        format!("{rounds}; do ln -sfn real d; ln -sfn {} d; done", outside.display())
    }

    /// Asserts that nothing outside was read or written.
    fn check(&self, model: &ScriptedModel) {
        let requests = model.requests();
        let mut read =
            requests.iter().flat_map(|request| request.messages.iter()).filter(|message| message.as_tool().is_some());
        assert!(!read.any(|message| message.text().contains("OUTSIDE-SECRET")), "it was read");
        let outside: Vec<_> = std::fs::read_dir(self.dir.path().join("outside")).unwrap().collect();
        assert_eq!(outside.len(), 1, "{outside:?}");
    }

    /// Asserts that the link was swapped, and that files were accessed meanwhile.
    fn check_attack(&self) {
        assert!(self.is_swapped() || std::fs::read_link(self.work().join("d")).unwrap() == Path::new("real"));
        let inside = std::fs::read_dir(self.work().join("real")).unwrap().count();
        assert!(inside > 1, "nothing was written");
    }

    /// Whether `d` leads outside.
    fn is_swapped(&self) -> bool {
        std::fs::read_link(self.work().join("d")).is_ok_and(|to| to == self.dir.path().join("outside"))
    }
}

fn execute(command: &str) -> (&'static str, Value) {
    ("execute", json!({"command": command}))
}

fn in_background(command: &str) -> (&'static str, Value) {
    ("execute", json!({"command": command, "background": true}))
}

/// Forty calls that read below the directory that is swapped, and forty that write there.
fn accesses(turn: usize) -> Vec<(&'static str, Value)> {
    let read = |_| ("read_file", json!({"file_path": "/d/secret"}));
    let write = |number| {
        ("write_file", json!({"file_path": format!("/d/new-{turn}-{number}"), "content": "written by the model"}))
    };
    (0..40).map(read).chain((0..40).map(write)).collect()
}

async fn session_in_auto_mode(
    host: Host,
    answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static,
    cwd: &Path,
) -> (Editor, String) {
    let mut editor = Editor::connect(host, both(), answer).await;
    let session = editor.session(cwd).await;
    editor.call("session/set_mode", json!({"sessionId": session, "modeId": "auto"})).await.unwrap();
    (editor, session)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_swaps_a_directory_for_a_link_leads_no_access_of_the_editor_outside() {
    let setup = Setup::new();
    let swap = setup.swap("for i in $(seq 300)");
    let turn = |number| Turn::calls(std::iter::once(execute(&swap)).chain(accesses(number)));
    let model = ScriptedModel::new([turn(0), turn(1), turn(2), Turn::text("Done.")]);
    let host = Host { shell: Some(true), ..Host::new(model.clone()) };
    let (mut editor, session) = session_in_auto_mode(host, opens, &setup.work()).await;
    assert_eq!(editor.say(&session, "Attack.").await, "end_turn");
    setup.check(&model);
    setup.check_attack();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_in_the_background_leads_no_access_of_the_editor_outside() {
    let setup = Setup::new();
    let background = [in_background(&setup.swap("while :"))];
    let model = ScriptedModel::new([
        Turn::calls(background),
        Turn::calls(accesses(0)),
        Turn::calls(accesses(1)),
        Turn::calls(accesses(2)),
        Turn::text("Done."),
    ]);
    let background = BackgroundCommands::EndWithRun;
    let host = Host { shell: Some(true), background, ..Host::new(model.clone()) };
    let (mut editor, session) = session_in_auto_mode(host, opens, &setup.work()).await;
    assert_eq!(editor.say(&session, "Attack.").await, "end_turn");
    setup.check(&model);
    setup.check_attack();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_another_session_leads_no_access_of_the_editor_outside() {
    let setup = Setup::new();
    let commands =
        ScriptedModel::new([Turn::calls([execute(&setup.swap("cd work; while [ ! -e stop ]"))]), Turn::text("Done.")]);
    let host = Host { shell: Some(true), ..Host::new(commands) };
    // Its root is above that of the other session.
    let (mut attacker, attack) = session_in_auto_mode(host, opens, setup.dir.path()).await;
    let model = ScriptedModel::new([Turn::calls(accesses(0)), Turn::calls(accesses(1)), Turn::text("Done.")]);
    let (mut editor, session) = session_in_auto_mode(Host::new(model.clone()), opens, &setup.work()).await;
    let attacked = attacker.prompt(&attack, "Attack.");
    attacker.until(|editor| !editor.calls().is_empty()).await;
    let swapped = async {
        while !setup.is_swapped() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), swapped).await.expect("the attack runs");
    assert_eq!(editor.say(&session, "Work.").await, "end_turn");
    std::fs::write(setup.work().join("stop"), "").unwrap();
    assert_eq!(attacked.await.unwrap().unwrap()["stopReason"], "end_turn");
    setup.check(&model);
    setup.check_attack();
}

#[tokio::test]
async fn a_link_is_resolved_before_the_editor_is_asked() {
    let setup = Setup::new();
    let read = Turn::call("read_file", json!({"file_path": "/d/secret"}));
    let write = Turn::call("write_file", json!({"file_path": "/d/new", "content": "x"}));
    let model = ScriptedModel::new([read, write, Turn::text("Done.")]);
    let (mut editor, session) = session_in_auto_mode(Host::new(model), opens, &setup.work()).await;
    assert_eq!(editor.say(&session, "Work.").await, "end_turn");
    let asked = ["fs/read_text_file", "fs/write_text_file"].map(|method| editor.asked(method));
    assert!(asked.iter().all(|asked| !asked.is_empty()));
    for request in asked.iter().flatten() {
        assert!(Path::new(request["path"].as_str().unwrap()).starts_with(setup.work().join("real")), "{request}");
    }
}

#[tokio::test]
async fn a_workspace_that_was_replaced_is_not_opened_by_the_editor() {
    let setup = Setup::new();
    let (work, moved, outside) = (setup.work(), setup.dir.path().join("moved"), setup.dir.path().join("outside"));
    let replace = move |_: &_| {
        std::fs::rename(&work, &moved).unwrap();
        symlink(&outside, &work).unwrap();
        Turn::calls([
            ("read_file", json!({"file_path": "/secret"})),
            ("write_file", json!({"file_path": "/new", "content": "x"})),
        ])
    };
    let model = ScriptedModel::new([Turn::with(replace), Turn::text("Done.")]);
    let (mut editor, session) = session_in_auto_mode(Host::new(model.clone()), opens, &setup.work()).await;
    assert_eq!(editor.say(&session, "Work.").await, "end_turn");
    setup.check(&model);
    assert!(setup.dir.path().join("moved/new").exists(), "the directory that was opened is used");
}

/// An editor with a text for each file, which it does not save.
fn buffers(texts: [(&Path, &str); 2]) -> impl Fn(&str, &Value) -> Reply + 'static {
    let texts = texts.map(|(path, text)| (json!(path), text.to_owned()));
    let texts = Arc::new(Mutex::new(texts));
    move |method, params| {
        let mut texts = texts.lock().unwrap();
        let buffer = texts.iter_mut().find(|(path, _)| params["path"] == *path);
        match (method, buffer) {
            ("fs/read_text_file", Some((_, text))) => Some(Ok(json!({"content": text}))),
            ("fs/write_text_file", Some((_, text))) => {
                *text = params["content"].as_str().unwrap().to_owned();
                Some(Ok(json!({})))
            }
            _ => opens(method, params),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_on_disk_are_used_while_a_command_runs_and_the_editors_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let (same, unsaved) = (dir.path().join("same.txt"), dir.path().join("unsaved.txt"));
    std::fs::write(same.as_path(), "the same\n").unwrap();
    std::fs::write(unsaved.as_path(), "on disk\n").unwrap();
    let read = |path: &str| ("read_file", json!({"file_path": path}));
    let edit =
        |path: &str, old: &str| ("edit_file", json!({"file_path": path, "old_string": old, "new_string": "edited"}));
    let start = in_background("touch started; while [ ! -e go ]; do sleep 0.01; done");
    let model = ScriptedModel::new([
        Turn::calls([read("/same.txt"), read("/unsaved.txt")]),
        Turn::calls([start]),
        Turn::calls([execute("while [ ! -e started ]; do sleep 0.01; done")]),
        Turn::calls([edit("/same.txt", "the same"), edit("/unsaved.txt", "not saved")]),
        Turn::calls([read("/unsaved.txt")]),
        Turn::calls([("write_file", json!({"file_path": "/go", "content": ""}))]),
        Turn::call("command_output", json!({"id": "command-1", "wait": 60})),
        Turn::calls([read("/unsaved.txt")]),
        Turn::text("Done."),
    ]);
    let background = BackgroundCommands::EndWithRun;
    let host = Host { shell: Some(true), background, ..Host::new(model.clone()) };
    let editor = buffers([(same.as_path(), "the same\n"), (unsaved.as_path(), "not saved\n")]);
    let (mut editor, session) = session_in_auto_mode(host, editor, dir.path()).await;
    assert_eq!(editor.say(&session, "Edit.").await, "end_turn");
    let result = |turn: usize, back: usize| model.requests()[turn].messages.iter().rev().nth(back).unwrap().text();
    assert!(result(1, 0).contains("not saved"), "{}", result(1, 0));
    assert_eq!(std::fs::read_to_string(&same).unwrap(), "edited\n", "the version is that of the text");
    assert!(result(4, 0).contains("changed"), "{}", result(4, 0));
    assert_eq!(std::fs::read_to_string(&unsaved).unwrap(), "on disk\n");
    assert!(result(5, 0).contains("on disk"), "{}", result(5, 0));
    assert!(result(8, 0).contains("not saved"), "{}", result(8, 0));
    let writes = editor.asked("fs/write_text_file");
    assert!(writes.is_empty(), "{writes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_waits_for_a_write_that_the_editor_has_not_answered_even_if_it_was_cancelled() {
    let setup = Setup::new();
    let outside = setup.dir.path().join("outside");
    let swap = format!("ln -sfn {} real2; mv real real3; mv real2 real; touch swapped", outside.display());
    let write = Turn::call("write_file", json!({"file_path": "/d/new", "content": "written by the model"}));
    let model = ScriptedModel::new([write, Turn::calls([execute(&swap)]), Turn::text("Done.")]);
    let host = Host { shell: Some(true), ..Host::new(model.clone()) };
    let silent =
        |method: &str, params: &Value| if method == "fs/write_text_file" { None } else { opens(method, params) };
    let (mut editor, session) = session_in_auto_mode(host, silent, &setup.work()).await;
    let prompt = editor.prompt(&session, "Write.");
    editor.until(|editor| !editor.asked("fs/write_text_file").is_empty()).await;
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "cancelled");
    let prompt = editor.prompt(&session, "Swap.");
    let runs = |editor: &Editor| editor.calls().iter().any(|call| call["kind"] == "execute");
    editor.until(runs).await;
    // The editor gets to the write only now.
    let request = editor.asked("fs/write_text_file").remove(0);
    std::fs::write(request["path"].as_str().unwrap(), request["content"].as_str().unwrap()).unwrap();
    assert!(!setup.work().join("swapped").exists());
    editor.answer_late("fs/write_text_file", json!({}));
    assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "end_turn");
    assert!(setup.work().join("swapped").exists());
    setup.check(&model);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_was_cancelled_holds_up_no_command() {
    let setup = Setup::new();
    let read = Turn::call("read_file", json!({"file_path": "/real/secret"}));
    let model = ScriptedModel::new([read, Turn::calls([execute("touch ran")]), Turn::text("Done.")]);
    let host = Host { shell: Some(true), ..Host::new(model) };
    let silent =
        |method: &str, params: &Value| if method == "fs/read_text_file" { None } else { opens(method, params) };
    let (mut editor, session) = session_in_auto_mode(host, silent, &setup.work()).await;
    let prompt = editor.prompt(&session, "Read.");
    editor.until(|editor| !editor.asked("fs/read_text_file").is_empty()).await;
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "cancelled");
    assert_eq!(editor.say(&session, "Run.").await, "end_turn");
    assert!(setup.work().join("ran").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_editor_is_asked_for_no_file_while_a_hook_runs() {
    let dir = tempfile::tempdir().unwrap();
    let hook = json!({"type": "command", "command": "touch started; while [ ! -e go ]; do sleep 0.01; done"});
    let hooks = json!({"hooks": {"Notification": [{"hooks": [hook]}]}});
    let model = ScriptedModel::new([
        Turn::call("write_file", json!({"file_path": "/new.txt", "content": "written"})),
        Turn::text("Done."),
    ]);
    let host = Host { hooks: Some(hooks.to_string()), ..Host::new(model) };
    let waits = |method: &str, params: &Value| match method {
        "session/request_permission" => None,
        _ => opens(method, params),
    };
    let mut editor = Editor::connect(host, both(), waits).await;
    let session = editor.session(dir.path()).await;
    let prompt = editor.prompt(&session, "Write.");
    editor.until(|editor| !editor.asked("session/request_permission").is_empty()).await;
    let started = async {
        while !dir.path().join("started").exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, started).await.expect("the hook starts");
    let chosen = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    editor.answer_late("session/request_permission", chosen);
    assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "end_turn");
    assert_eq!(std::fs::read_to_string(dir.path().join("new.txt")).unwrap(), "written");
    assert!(editor.asked("fs/write_text_file").is_empty());
    std::fs::write(dir.path().join("go"), "").unwrap();
}
