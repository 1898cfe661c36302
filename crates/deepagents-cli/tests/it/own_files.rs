//! The agent cannot reach the program's own files, and a home directory is never its root by accident.

use std::fs;
use std::path::Path;
use std::process::Command;

use deepagents_testing::skip::skip;
use serde_json::{Value, json};

use crate::program::{finish, finish_with, run};
use crate::server::{Reply, Server};

fn done() -> Reply {
    Reply::Text(vec!["Done."])
}

/// `deepagents run` without `--root`, in a working directory.
fn run_in(here: &Path, home: &Path, server: &Server) -> Command {
    let mut command = crate::program::deepagents();
    command.current_dir(here).env("HOME", home);
    command.args(["run", "--no-save", "--base-url", &server.address, "--model", "test-model"]);
    command
}

/// The last tool result in each request but the first.
fn results(server: &Server) -> Vec<String> {
    let last = |body: &Value| {
        let messages = body["messages"].as_array().unwrap().clone();
        messages.into_iter().rfind(|message| message["role"] == "tool").unwrap()["content"].to_string()
    };
    server.requests()[1..].iter().map(|request| last(&request.body)).collect()
}

#[test]
fn a_home_its_parents_and_tmp_are_used_only_when_named_explicitly() {
    let server = Server::start([done(), done(), done()]);
    let dir = tempfile::tempdir().unwrap();
    let (home, project) = (dir.path().join("home"), dir.path().join("home/project"));
    fs::create_dir_all(&project).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&home, &link).unwrap();
    for (here, what) in [
        (home.as_path(), "is your home directory"),
        (link.as_path(), "is your home directory"),
        (Path::new("/"), "is a directory above your home directory"),
        (Path::new("/tmp"), "for temporary files"),
        (Path::new("/var/tmp"), "for temporary files"),
    ] {
        // A directory above the home may itself count as temporary.
        let home = if what.contains("temporary") { Path::new("/nowhere") } else { home.as_path() };
        let refused = finish(run_in(here, home, &server).arg("Go"));
        let message = refused.wrong_usage();
        assert!(message.contains(what) && message.contains("--root"), "{message}");
    }
    assert!(server.requests().is_empty());
    assert_eq!(finish(run_in(&project, &home, &server).arg("Go")).code, Some(0));
    // A home in a temporary directory is accepted: it is a scratch home.
    assert_eq!(finish(run_in(dir.path(), &home, &server).arg("Go")).code, Some(0));
    assert_eq!(finish(run_in(&home, &home, &server).args(["--root", ".", "Go"])).code, Some(0));
}

#[test]
fn a_home_missing_from_the_environment_is_still_recognised() {
    // The home of the user who runs the tests, according to the system.
    let ids = Command::new("id").arg("-un").output().unwrap();
    let name = String::from_utf8_lossy(&ids.stdout).trim().to_owned();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let home = users.lines().find(|line| line.split(':').next() == Some(&name)).and_then(|line| line.split(':').nth(5));
    let Some(home) = home.map(Path::new).filter(|home| fs::read_dir(home).is_ok()) else {
        return skip("home directory", format_args!("{name} has none that can be read"));
    };
    let server = Server::start([]);
    let refused = finish(run_in(home, home, &server).env_remove("HOME").arg("Go"));
    assert!(refused.wrong_usage().contains("--root"), "{refused:?}");
}

#[test]
fn the_tools_command_does_not_use_a_home_either() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes"), "mine").unwrap();
    let tools = |args: &[&str]| {
        let mut command = crate::program::deepagents();
        let input = crate::tools::call("ls", &json!({"path": "/"}));
        finish_with(command.current_dir(dir.path()).env("HOME", dir.path()).arg("tools").args(args), &input)
    };
    let refused = tools(&[]);
    assert!(refused.code == Some(2) && refused.out.is_empty(), "{refused:?}");
    assert!(refused.err.contains("is your home directory") && refused.err.contains("--root"), "{refused:?}");
    assert!(tools(&["--root", "."]).out.contains("/notes"));
}

#[test]
fn the_programs_own_files_are_out_of_reach_of_tools_and_commands() {
    let dir = tempfile::tempdir().unwrap();
    let (home, own) = (dir.path(), dir.path().join(".deepagents"));
    fs::create_dir_all(own.join("agents")).unwrap();
    fs::write(own.join("trust.json"), "{\"v\":1,\"records\":[]}").unwrap();
    fs::write(own.join("secret.txt"), "SECRET").unwrap();
    std::os::unix::fs::symlink(".deepagents", home.join("link")).unwrap();
    let read = |path: &str| Reply::Call("read_file", json!({"file_path": path}));
    let execute = |command: &str| Reply::Call("execute", json!({"command": command}));
    let server = Server::start([
        read("/.deepagents/secret.txt"),
        read("/link/secret.txt"),
        Reply::Call("ls", json!({"path": "/.deepagents"})),
        Reply::Call("grep", json!({"pattern": "SECRET"})),
        Reply::Call("glob", json!({"pattern": "**/*secret*"})),
        Reply::Call("write_file", json!({"file_path": "/.deepagents/trust.json", "content": "{}"})),
        Reply::Call("delete", json!({"file_path": "/.deepagents"})),
        execute("cat .deepagents/secret.txt link/secret.txt; ls -a .deepagents; echo x > .deepagents/new"),
        execute("cat notes.db notes.db-wal | head -c 15; echo; ls"),
        read("/notes.db"),
        done(),
    ]);
    let mut command = run(home, &server.address);
    command.env("HOME", home).args(["--execute", "--approve", "auto", "--db"]).arg(home.join("notes.db")).arg("Go");
    let finished = finish(&mut command);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let results = results(&server);
    assert_eq!(results.len(), 10);
    for (at, result) in results.iter().enumerate() {
        assert!(!result.contains("SECRET\\n") && !result.contains("1\\tSECRET"), "{at}: {result}");
        assert!(!result.contains("SQLite"), "{at}: {result}");
    }
    assert!(!results[3].contains("secret.txt") && !results[4].contains("/secret.txt"), "{results:?}");
    assert!(!results[7].contains("trust.json") && !results[7].contains("SECRET"), "{results:?}");
    assert_eq!(fs::read_to_string(own.join("trust.json")).unwrap(), "{\"v\":1,\"records\":[]}");
    assert!(own.join("secret.txt").exists() && !own.join("new").exists());
}

#[test]
fn no_agent_works_in_the_programs_own_directory() {
    let server = Server::start([]);
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join(".deepagents/skills");
    fs::create_dir_all(&own).unwrap();
    let refused = finish(run(&own, &server.address).env("HOME", dir.path()).args(["--no-save", "Go"]));
    assert!(refused.one_message().contains("belongs to this program"), "{refused:?}");
}

#[test]
fn files_on_the_command_line_that_steer_a_run_are_not_changed_in_passing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("project");
    fs::create_dir(&root).unwrap();
    let files = [("mcp.json", "{\"mcpServers\": {}}"), ("rules.json", "[]"), ("prompt.md", "You work.")];
    let write = |file: &str| Reply::Call("write_file", json!({"file_path": format!("/{file}"), "content": "mine"}));
    let edit = Reply::Call("edit_file", json!({"file_path": "/prompt.md", "old_string": "You", "new_string": "We"}));
    let remove = Reply::Call("delete", json!({"file_path": "/rules.json"}));
    let shell = "for f in mcp.json rules.json prompt.md; do echo x > $f; rm $f; done; echo tried";
    let server = Server::start([
        write("mcp.json"),
        write("rules.json"),
        edit,
        remove,
        Reply::Call("execute", json!({"command": shell})),
        write("other.json"),
        done(),
    ]);
    for (file, text) in files {
        fs::write(root.join(file), text).unwrap();
    }
    let mut command = run(&root, &server.address);
    command.current_dir(&root).env("HOME", dir.path()).args(["--no-save", "--execute", "--approve", "auto"]);
    command.args(["--mcp-config", "mcp.json", "--rules", "rules.json", "--system", "@prompt.md", "Go"]);
    let finished = finish(&mut command);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for (file, text) in files {
        assert_eq!(fs::read_to_string(root.join(file)).ok().as_deref(), Some(text), "{file}: {:?}", results(&server));
    }
    assert_eq!(fs::read_to_string(root.join("other.json")).unwrap(), "mine");
    assert!(results(&server)[4].contains("tried"), "{:?}", results(&server));
}

#[test]
fn what_decides_what_a_hooks_tools_run_is_not_changed_in_passing() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("project");
    fs::create_dir_all(dir.path().join(".deepagents")).unwrap();
    fs::create_dir_all(root.join("scripts")).unwrap();
    let commands = ["make lint", "npm run lint", "cargo fmt", "sh < scripts/check.sh", "python3 scripts/main.py"];
    let hooks: Vec<Value> = commands.iter().map(|command| json!({"type": "command", "command": command})).collect();
    let hooks = json!({"hooks": {"SessionEnd": [{"matcher": "never", "hooks": hooks}]}});
    fs::write(dir.path().join(".deepagents/hooks.json"), hooks.to_string()).unwrap();
    fs::write(root.join("package.json"), "{\"scripts\": {\"lint\": \"node scripts/lint.js\"}}").unwrap();
    fs::write(root.join("scripts/main.py"), "import helper").unwrap();
    let protected = [
        "Makefile",
        "package.json",
        ".cargo/config.toml",
        "rust-toolchain.toml",
        "scripts/check.sh",
        "scripts/lint.js",
        "scripts/main.py",
        "scripts/helper.py",
    ];
    let write = |file: &str| Reply::Call("write_file", json!({"file_path": format!("/{file}"), "content": "mine"}));
    let calls = protected.iter().copied().chain(["src/main.rs", "Cargo.toml", "scripts/other.sh"]);
    let server = Server::start(calls.map(write).chain([done()]));
    let mut command = run(&root, &server.address);
    command.env("HOME", dir.path()).args(["--no-save", "--approve", "auto", "Go"]);
    let finished = finish(&mut command);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let is_written = |file: &str| fs::read_to_string(root.join(file)).is_ok_and(|text| text == "mine");
    let written: Vec<&str> = protected.into_iter().filter(|file| is_written(file)).collect();
    assert_eq!(written, Vec::<&str>::new());
    assert!(["src/main.rs", "Cargo.toml", "scripts/other.sh"].iter().all(|file| is_written(file)));
}
