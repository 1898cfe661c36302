//! What the machine has.

use std::fs;

use serde_json::Value;

use crate::program::{deepagents, finish};

#[test]
fn the_doctor_tells_of_sandbox_keys_model_and_threads() {
    let home = tempfile::tempdir().unwrap();
    let finished = finish(deepagents().env("HOME", home.path()).env("OPENAI_API_KEY", "not-a-real-key").arg("doctor"));
    assert_eq!((finished.code, finished.err.as_str()), (Some(0), ""), "{finished:?}");
    for told in ["sandbox: ", "keys: OPENAI_API_KEY", "model: openai:", "threads.db, not there yet"] {
        assert!(finished.out.contains(told), "{told}: {finished:?}");
    }
    assert!(!finished.out.contains("not-a-real-key"));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "the doctor changes nothing");
}

#[test]
fn the_doctors_report_is_there_as_json() {
    let home = tempfile::tempdir().unwrap();
    let finished = finish(deepagents().env("HOME", home.path()).args(["doctor", "--json"]));
    let report: Value = serde_json::from_str(&finished.out).unwrap();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert!(report["model"].is_null() && report["keys"].as_array().unwrap().is_empty(), "{report}");
    let level = report["sandbox"]["level"].as_str().unwrap();
    assert!(["none", "namespaces", "full"].contains(&level), "{report}");
}

#[test]
fn a_file_that_is_no_database_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("notes.txt");
    fs::write(&file, "these are my notes, not a database, and they are long enough to be looked at").unwrap();
    let finished = finish(deepagents().args(["doctor", "--db"]).arg(&file));
    assert!(finished.code == Some(0) && finished.out.contains("threads: unusable: "), "{finished:?}");
}
