//! The check of the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use deepagents_testing::skip::skip;
use serde_json::Value;

use crate::program::{deepagents, finish, run};
use crate::server::{Reply, Server};

#[test]
fn the_doctor_reports_sandbox_keys_model_and_threads() {
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
fn the_doctors_report_is_available_as_json() {
    let home = tempfile::tempdir().unwrap();
    let finished = finish(deepagents().env("HOME", home.path()).args(["doctor", "--json"]));
    let report: Value = serde_json::from_str(&finished.out).unwrap();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert!(report["model"].is_null() && report["keys"].as_array().unwrap().is_empty(), "{report}");
    let level = report["sandbox"]["level"].as_str().unwrap();
    assert!(["none", "namespaces", "full"].contains(&level), "{report}");
}

#[test]
fn a_file_that_is_not_a_database_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("notes.txt");
    fs::write(&file, "these are my notes, not a database, and they are long enough to be looked at").unwrap();
    let finished = finish(deepagents().args(["doctor", "--db"]).arg(&file));
    assert!(finished.code == Some(1) && finished.out.contains("threads: unusable: "), "{finished:?}");
}

/// Returns a directory in which nothing can be created: one without write permission, or for root a read-only file
/// system.
fn read_only() -> Option<(std::path::PathBuf, Option<tempfile::TempDir>)> {
    let closed = tempfile::tempdir().unwrap();
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(closed.path().join("made"), "").is_err() {
        return Some((closed.path().to_owned(), Some(closed)));
    }
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut read_only = fields.filter(|fields| fields[3].split(',').any(|option| option == "ro"));
    let found = read_only.find(|fields| std::path::Path::new(fields[1]).is_dir())?;
    Some((found[1].into(), None))
}

#[test]
fn a_database_that_cannot_be_made_is_not_one_that_is_to_come() {
    let Some((home, _closed)) = read_only() else { return skip("read-only", "everything can be written here") };
    let nowhere = home.join("none/threads.db");
    for (args, words) in [
        (vec!["doctor"], "cannot be made: nothing can be made in `"),
        (vec!["doctor", "--db", nowhere.to_str().unwrap()], "does not exist; create it or name another file"),
    ] {
        let text = finish(deepagents().env("HOME", &home).args(&args));
        assert!(text.code == Some(1) && text.out.contains(words) && !text.out.contains("not there yet"), "{text:?}");
        let json = finish(deepagents().env("HOME", &home).args(&args).arg("--json"));
        let report: Value = serde_json::from_str(&json.out).unwrap();
        assert!(report["threads"]["error"].as_str().unwrap().contains(words), "{report}");
    }
}

/// A home with an unusable database. Permissions do not stop root, so a link that points to itself does.
fn closed_home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let own = home.path().join(".deepagents");
    fs::create_dir(&own).unwrap();
    std::os::unix::fs::symlink(own.join("threads.db"), own.join("threads.db")).unwrap();
    home
}

#[test]
fn an_inaccessible_database_is_not_treated_as_missing() {
    let home = closed_home();
    for args in [&["threads", "list"][..], &["run", "--continue", "hello"]] {
        let finished = finish(deepagents().env("HOME", home.path()).env("OPENAI_API_KEY", "none").args(args));
        assert_eq!(finished.code, Some(1), "{args:?}: {finished:?}");
        for told in ["threads.db` cannot be accessed", "give --db a file"] {
            assert!(finished.err.contains(told), "{args:?}: {finished:?}");
        }
    }
    let finished = finish(deepagents().env("HOME", home.path()).arg("doctor"));
    assert!(finished.code == Some(1) && finished.out.contains("cannot be accessed"), "{finished:?}");
}

#[test]
fn file_errors_name_the_file_and_the_cause() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".deepagents/auth.json")).unwrap();
    let finished = finish(deepagents().env("HOME", home.path()).args(["auth", "list"]));
    assert!(finished.err.contains("auth.json` cannot be read: it is not a regular file"), "{finished:?}");
    fs::write(home.path().join(".deepagents/prices.json"), "{").unwrap();
    let finished = finish(deepagents().env("HOME", home.path()).arg("models"));
    assert!(finished.err.contains("prices.json` cannot be used: "), "{finished:?}");
}

#[test]
fn missing_values_and_invalid_numbers_get_the_programs_own_messages() {
    let err = |args: &[&str]| finish(deepagents().args(args)).err;
    assert!(
        err(&["permissions", "remove", "x"]).contains("`x` is not a number; `deepagents permissions list` numbers")
    );
    let models = finish(deepagents().args(["models", "nope"]));
    assert!(models.out.starts_with("no model is known whose name begins with `nope`"), "{models:?}");
    let dir = tempfile::tempdir().unwrap();
    let answer = crate::program::finish_with(deepagents().args(["tools", "--root"]).arg(dir.path()), "garbage\n");
    assert!(answer.out.contains("it is not valid JSON\""), "{answer:?}");
}

#[test]
fn the_doctor_names_settings_that_stop_every_run_and_their_model() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".deepagents")).unwrap();
    let doctor = |settings: &str, more: &[&str]| {
        fs::write(home.path().join(".deepagents/config.toml"), settings).unwrap();
        finish(deepagents().env("HOME", home.path()).current_dir(home.path()).arg("doctor").args(more))
    };
    let broken = doctor("model = 3\n", &[]);
    assert!(
        broken.out.contains("settings: runs cannot start with them: ") && broken.out.contains("model = 3"),
        "{broken:?}"
    );
    let json = doctor("model = 3\n", &["--json"]);
    let report: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert!(report["settings"]["error"].as_str().unwrap().contains("config.toml"), "{report}");
    assert_eq!((broken.code, json.code), (Some(1), Some(1)), "scripts can tell");
    let fine = doctor("model = \"openai:gpt-5.2\"\n", &[]);
    assert_eq!(fine.code, Some(1), "its key is missing: {fine:?}");
    let with_key = finish(deepagents().env("HOME", home.path()).env("OPENAI_API_KEY", "x").arg("doctor"));
    assert_eq!(with_key.code, Some(0), "{with_key:?}");
    doctor("", &[]);
    let unknown =
        finish(deepagents().env("HOME", home.path()).env("DEEPAGENTS_MODEL", "gpt-5.2").args(["doctor", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&unknown.out).unwrap();
    assert!(unknown.code == Some(1) && report["model_error"].as_str().unwrap().contains("does not name"), "{report}");
    assert!(fine.out.contains("model: openai:gpt-5.2") && !fine.out.contains("settings:"), "{fine:?}");
    let bare = doctor("model = \"gpt-5.2\"\n", &[]);
    assert_eq!(bare.code, Some(1), "{bare:?}");
    assert!(bare.out.contains("model: gpt-5.2; runs cannot start with it: `gpt-5.2` does not name"), "{bare:?}");
    let open = doctor("theme = \"dark\n", &[]);
    assert!(open.out.contains("at line 1, column 14: ") && !open.out.contains('|'), "{open:?}");
}

#[test]
fn the_doctor_names_hooks_and_servers_that_cannot_be_used() {
    let home = tempfile::tempdir().unwrap();
    let project = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".deepagents")).unwrap();
    fs::write(home.path().join(".deepagents/hooks.json"), "{").unwrap();
    fs::write(project.path().join(".mcp.json"), r#"{"mcpServers": {"docs": {"url": "${NOWHERE_AT_ALL}"}}}"#).unwrap();
    let doctor = || {
        let mut doctor = deepagents();
        doctor.env("HOME", home.path()).current_dir(project.path()).arg("doctor");
        doctor
    };
    // Nobody has agreed to these.
    fs::create_dir(project.path().join(".deepagents")).unwrap();
    fs::write(project.path().join(".deepagents/hooks.json"), r#"{"hooks": {}}"#).unwrap();
    let told = finish(&mut doctor());
    assert_eq!(told.err, "");
    assert!(told.out.contains("hooks: runs cannot start with them: ") && told.out.contains("hooks.json"), "{told:?}");
    assert!(told.out.contains("mcp: MCP server docs of ") && told.out.contains("NOWHERE_AT_ALL"), "{told:?}");
    fs::write(home.path().join(".deepagents/hooks.json"), r#"{"hooks": {"NoSuchEvent": []}}"#).unwrap();
    fs::write(project.path().join(".mcp.json"), "[").unwrap();
    let report: serde_json::Value = serde_json::from_str(&finish(doctor().arg("--json")).out).unwrap();
    assert!(report["hooks"]["problems"][0].as_str().unwrap().contains("NoSuchEvent"), "{report}");
    assert!(report["mcp"]["problems"][0].as_str().unwrap().contains(".mcp.json"), "{report}");
    assert_eq!(finish(&mut doctor()).code, Some(0), "runs start without what cannot be used");
}

#[test]
fn remembered_rules_that_cannot_be_read_are_found_by_the_doctor_and_before_a_run_is_paid_for() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".deepagents")).unwrap();
    fs::write(home.path().join(".deepagents/permissions.json"), "{bad").unwrap();
    let told = finish(deepagents().env("HOME", home.path()).current_dir(home.path()).arg("doctor"));
    assert!(told.code == Some(1) && told.out.contains("permissions: runs cannot start with them: "), "{told:?}");
    assert!(told.out.contains("permissions.json"), "{told:?}");
    let server = Server::start([Reply::Text(vec!["Paid for."])]);
    let dir = tempfile::tempdir().unwrap();
    for mode in ["allow-list", "ask"] {
        let refused = finish(run(dir.path(), &server.address).env("HOME", home.path()).args(["--approve", mode, "Go"]));
        assert!(refused.one_message().contains("permissions.json"), "{refused:?}");
    }
    assert!(server.requests().is_empty());
    let done = finish(run(dir.path(), &server.address).env("HOME", home.path()).args(["-q", "Go"]));
    assert_eq!((done.code, done.out.as_str()), (Some(0), "Paid for.\n"), "a run that asks nothing needs no rules");
}
