//! Files as the person sees them.

use std::path::Path;
use std::sync::{Arc, Mutex};

use deepagents::models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::editor::{Editor, Host, chooses};

const BOTH: &str = r#"{"fs": {"readTextFile": true, "writeTextFile": true}}"#;

fn read() -> Turn {
    Turn::call("read_file", json!({"file_path": "/notes.txt"}))
}

fn edit(old: &str, new: &str) -> Turn {
    Turn::call("edit_file", json!({"file_path": "/notes.txt", "old_string": old, "new_string": new}))
}

/// An editor with one buffer that it never saves.
fn buffer(text: &Arc<Mutex<String>>, path: &Path) -> impl Fn(&str, &Value) -> Option<Result<Value, Value>> + 'static {
    let (text, path) = (text.clone(), json!(path));
    move |method, params| match method {
        "fs/read_text_file" if params["path"] == path => Some(Ok(json!({"content": *text.lock().unwrap()}))),
        "fs/read_text_file" => Some(Err(json!({"code": -32002, "message": "Resource not found"}))),
        "fs/write_text_file" => {
            assert_eq!(params["path"], path);
            *text.lock().unwrap() = params["content"].as_str().unwrap().to_owned();
            Some(Ok(json!({})))
        }
        _ => chooses("allow_once")(method, params),
    }
}

#[tokio::test]
async fn the_model_reads_and_edits_unsaved_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    std::fs::write(&path, "on disk\n").unwrap();
    let text = Arc::new(Mutex::new("not saved\n".to_owned()));
    let model = ScriptedModel::new([read(), edit("not saved", "edited"), edit("edited", "twice"), Turn::text("Done.")]);
    let both = serde_json::from_str(BOTH).unwrap();
    let mut editor = Editor::connect(Host::new(model.clone()), both, buffer(&text, &path)).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Edit.").await, "end_turn");
    assert!(model.requests()[1].messages.last().unwrap().text().contains("not saved"));
    assert_eq!(*text.lock().unwrap(), "twice\n");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "on disk\n", "saving is the editor's business");
}

#[tokio::test]
async fn concurrent_typing_in_the_editor_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    std::fs::write(&path, "on disk\n").unwrap();
    let text = Arc::new(Mutex::new("first\n".to_owned()));
    let typed = text.clone();
    let later = Turn::with(move |_| {
        *typed.lock().unwrap() = "first, and typed\n".to_owned();
        edit("first", "overwritten")
    });
    let model = ScriptedModel::new([read(), later, Turn::text("Done.")]);
    let both = serde_json::from_str(BOTH).unwrap();
    let mut editor = Editor::connect(Host::new(model.clone()), both, buffer(&text, &path)).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Edit.").await;
    assert_eq!(*text.lock().unwrap(), "first, and typed\n");
    assert!(model.requests()[2].messages.last().unwrap().text().contains("changed"));
}

#[tokio::test]
async fn an_unsaved_file_can_be_read_and_protected_files_stay_protected() {
    let dir = tempfile::tempdir().unwrap();
    for name in [".git", "bare/objects", "bare/refs"] {
        std::fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    std::fs::write(dir.path().join("bare/HEAD"), "ref: refs/heads/main\n").unwrap();
    let path = dir.path().join("notes.txt");
    let text = Arc::new(Mutex::new("only in the editor\n".to_owned()));
    let write = |path: &str| Turn::call("write_file", json!({"file_path": path, "content": "x"}));
    let model =
        ScriptedModel::new([read(), write("/.git/config"), write("/bare/hooks/post-receive"), Turn::text("Done.")]);
    let both = serde_json::from_str(BOTH).unwrap();
    let mut editor = Editor::connect(Host::new(model.clone()), both, buffer(&text, &path)).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Read.").await;
    assert!(model.requests()[1].messages.last().unwrap().text().contains("only in the editor"));
    for turn in [2, 3] {
        assert!(model.requests()[turn].messages.last().unwrap().text().contains("protected"));
    }
    assert!(editor.asked("fs/write_text_file").is_empty());
}

#[tokio::test]
async fn a_read_only_editor_is_never_asked_to_write() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    std::fs::write(&path, "shared line\non disk\n").unwrap();
    let text = Arc::new(Mutex::new("shared line\nnot saved\n".to_owned()));
    let model = ScriptedModel::new([read(), edit("shared line", "edited line"), Turn::text("Done.")]);
    let reads = json!({"fs": {"readTextFile": true}});
    let mut editor = Editor::connect(Host::new(model.clone()), reads, buffer(&text, &path)).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Edit.").await;
    assert!(model.requests()[1].messages.last().unwrap().text().contains("not saved"));
    assert!(editor.asked("fs/write_text_file").is_empty());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "edited line\non disk\n");
}
