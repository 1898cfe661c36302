use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use deepagents_core::env::{Clock, Timestamp};
use deepagents_core::state::{Channel, ChannelSpec, Schema, State, Update};
use deepagents_fs::{
    Backend, ByteRange, Content, FileData, FileMap, Files, FilesUpdate, StateBackend, VPath, WriteMode,
};
use serde_json::{Value, json};

/// A clock that advances by a second at each reading.
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.fetch_add(1, Ordering::Relaxed)).unwrap()
    }
}

fn p(text: &str) -> VPath {
    VPath::parse(text).unwrap()
}

fn map(json: Value) -> FileMap {
    serde_json::from_value(json).unwrap()
}

fn text(content: &str) -> Option<Arc<FileData>> {
    Some(Arc::new(FileData::new(Content::Text(content.to_owned()))))
}

fn with(base: &FileMap, changes: &[(&str, Option<&str>)]) -> FileMap {
    let mut out = base.clone();
    let update = changes.iter().map(|(path, content)| (p(path), content.and_then(text))).collect();
    Files::reduce(&mut out, update).unwrap();
    out
}

#[test]
fn every_stored_file_format_can_be_read() {
    let files = map(json!({
        "plain": "text",
        "/v1": {"content": ["one", "two"], "created_at": "2024-01-01T00:00:00", "modified_at": "2024-01-02T00:00:00"},
        "/v2": {"content": "x", "encoding": "utf-8", "created_at": "2026-11-21T04:09:09.559434+00:00"},
        "/bytes": {"content": "/wA=", "encoding": "base64"},
    }));
    let content = |path: &str| files.get(&p(path)).unwrap().content().bytes().to_vec();
    assert_eq!(content("/plain"), b"text");
    assert_eq!(content("/v1"), b"one\ntwo");
    assert_eq!(content("/v2"), b"x");
    assert_eq!(content("/bytes"), b"\xff\0");
    assert_eq!(
        serde_json::to_value(&files).unwrap(),
        json!({
            "/bytes": {"content": "/wA=", "encoding": "base64"},
            "/plain": {"content": "text", "encoding": "utf-8"},
            "/v1": {"content": "one\ntwo", "encoding": "utf-8",
                    "created_at": "2024-01-01T00:00:00", "modified_at": "2024-01-02T00:00:00"},
            "/v2": {"content": "x", "encoding": "utf-8", "created_at": "2026-11-21T04:09:09.559434+00:00"},
        })
    );
}

#[test]
fn a_value_that_is_not_a_file_is_refused() {
    for bad in [
        json!({"/a": 1}),
        json!({"/a": {"content": 1}}),
        json!({"/a": {"content": "%", "encoding": "base64"}}),
        json!({"/a": {"content": "", "encoding": "latin-1"}}),
        json!({"/": "root"}),
        json!({"/../a": "x"}),
        json!({"/a": "file", "/a/b": "below it"}),
    ] {
        assert!(serde_json::from_value::<FileMap>(bad.clone()).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_write_updates_the_modification_time_and_keeps_the_creation_time() {
    let files = StateBackend::with_clock(Arc::new(Ticking(AtomicI64::new(1_000_000))));
    let mut state = State::new(Arc::new(Schema::new(files.channels()).unwrap()));
    for content in ["1", "2"] {
        let written = files.write(&state, &p("/f"), content.into(), WriteMode::Overwrite).await.unwrap();
        state.apply(&written.update).unwrap();
    }
    let file = state.get::<Files>().unwrap().get(&p("/f")).unwrap();
    assert_eq!(file.created_at(), Some("1970-01-12T13:46:40.000000Z"));
    assert_eq!(file.modified_at(), Some("1970-01-12T13:46:41.000000Z"));
    let stat = files.stat(&state, &p("/f")).await.unwrap();
    assert_eq!(stat.modified.unwrap().as_second(), 1_000_001);
}

#[test]
fn null_deletes_a_file_and_unknown_paths_may_be_deleted() {
    let schema = Arc::new(Schema::new([ChannelSpec::new::<Files>()]).unwrap());
    let mut state = State::new(schema.clone());
    let update = |json: Value| Update::from_json(&schema, json.as_object().unwrap().clone()).unwrap();
    state.apply(&update(json!({"files": {"/a": "1", "/b": {"content": "2"}}}))).unwrap();
    state.apply(&update(json!({"files": {"/a": null, "/none": null}}))).unwrap();
    assert_eq!(state.to_json(false).unwrap()["files"], json!({"/b": {"content": "2", "encoding": "utf-8"}}));
    assert!(state.apply(&update(json!({"files": {"/b/c": "below a file"}}))).is_err());
    state.apply(&update(json!({"files": {"/b": null, "/b/c": "instead of it"}}))).unwrap();
    assert_eq!(state.get::<Files>().unwrap().len(), 1);
}

#[tokio::test]
async fn a_missing_files_channel_is_an_error_that_names_it() {
    let error = StateBackend::new().read(&State::default(), &p("/f"), ByteRange::ALL).await.unwrap_err();
    assert!(error.to_string().contains("`files` channel"), "{error}");
}

#[test]
fn a_child_receives_the_files_and_returns_its_changes() {
    let given = map(json!({"/keep": "1", "/edit": "1", "/drop": "1"}));
    assert_eq!(Files::SHARING.fork(&given), given);
    let child = with(&given, &[("/edit", Some("2")), ("/drop", None), ("/new", Some("3"))]);
    let parent = with(&given, &[("/elsewhere", Some("4")), ("/keep", Some("5"))]);
    let joined = Files::SHARING.join(Files::NAME, &parent, &given, &child);
    assert!(joined.conflicts.is_empty());
    let update = joined.update.unwrap();
    assert_eq!(update.keys().map(VPath::as_str).collect::<Vec<_>>(), ["/drop", "/edit", "/new"]);
    assert!(update[&p("/drop")].is_none());
    let mut after = parent;
    Files::reduce(&mut after, update).unwrap();
    assert_eq!(after, map(json!({"/keep": "5", "/edit": "2", "/new": "3", "/elsewhere": "4"})));
}

#[test]
fn conflicting_changes_of_two_children_keep_the_first() {
    let given = map(json!({"/shared": "0", "/both": "0", "/gone": "0"}));
    let first = with(&given, &[("/shared", Some("first")), ("/both", Some("same")), ("/gone", None)]);
    let second = with(&given, &[("/shared", Some("second")), ("/both", Some("same")), ("/gone", Some("kept"))]);
    let mut parent = given.clone();
    Files::reduce(&mut parent, Files::SHARING.join(Files::NAME, &given, &given, &first).update.unwrap()).unwrap();
    let joined = Files::SHARING.join(Files::NAME, &parent, &given, &second);
    assert_eq!(joined.update, None);
    assert_eq!(joined.conflicts.len(), 2, "{:?}", joined.conflicts);
    assert!(joined.conflicts[1].starts_with("/shared "));
}

#[test]
fn a_file_that_cannot_exist_below_the_parents_files_is_a_separate_conflict() {
    let given = FileMap::default();
    let parent = with(&given, &[("/a", Some("file"))]);
    let child = with(&given, &[("/a/b", Some("below")), ("/c", Some("fine"))]);
    let joined = Files::SHARING.join(Files::NAME, &parent, &given, &child);
    assert_eq!(joined.update, Some(FilesUpdate::from([(p("/c"), text("fine"))])));
    assert_eq!(joined.conflicts.len(), 1, "{:?}", joined.conflicts);
}

#[test]
fn the_version_of_a_content_never_changes() {
    // Versions are stored with threads, which later programs read.
    let version = deepagents_fs::Version::from_content(b"abc");
    assert_eq!(version.as_str(), "3-ba7816bf8f01cfea414140de5dae2223");
    assert_eq!(deepagents_fs::Version::from_content(b"").as_str(), "0-e3b0c44298fc1c149afbf4c8996fb924");
}
