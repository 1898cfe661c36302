//! Memory and skills that the program finds in files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::program::{Finished, deepagents, finish, run};
use crate::server::{Reply, Request, Server};

/// The agent's root and a user's home.
struct Place {
    dir: tempfile::TempDir,
}

fn put(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn skill(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\nSteps of {name}.\n")
}

fn text(words: &'static str) -> Reply {
    Reply::Text(vec![words])
}

fn read(path: &str) -> Reply {
    Reply::Call("read_file", json!({"file_path": path}))
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        Self { dir }
    }

    /// Memory and skills of the project and the user, two skills of the same name, and an invalid one.
    fn full() -> Self {
        let place = Self::new();
        let (root, home) = (place.root(), place.home());
        put(&root.join("AGENTS.md"), "We indent with tabs.\n");
        put(&root.join(".deepagents/AGENTS.md"), "Releases are on Mondays.\n");
        put(&home.join(".deepagents/AGENTS.md"), "Call me Ada.\n");
        put(&root.join(".deepagents/skills/review/SKILL.md"), &skill("review", "Reviews as we do here."));
        put(&root.join(".deepagents/skills/odd/SKILL.md"), "---\nname: odd\n---\n");
        put(&home.join(".deepagents/skills/review/SKILL.md"), &skill("review", "Reviews anywhere."));
        put(&home.join(".deepagents/skills/forms/SKILL.md"), &skill("forms", "Fills in forms."));
        put(&home.join(".deepagents/skills/forms/fields.md"), "The fields of forms.\n");
        place
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn run(&self, server: &Server) -> Command {
        let mut command = run(&self.root(), &server.address);
        command.env("HOME", self.home()).arg("--trust");
        command
    }

    fn explain(&self, more: &[&str]) -> Finished {
        let mut command = deepagents();
        finish(command.args(["explain", "--trust", "--root"]).arg(self.root()).args(more).env("HOME", self.home()))
    }
}

fn system(request: &Request) -> String {
    let messages = request.body["messages"].as_array().unwrap();
    let system = messages.iter().filter(|message| message["role"] == "system");
    system.map(|message| message["content"].as_str().unwrap_or_default()).collect()
}

/// The last tool result.
fn result(request: &Request) -> String {
    let messages = request.body["messages"].as_array().unwrap();
    messages.iter().rfind(|message| message["role"] == "tool").unwrap()["content"].to_string()
}

#[test]
fn project_and_user_memory_and_skills_are_loaded_and_announced_in_one_line() {
    let place = Place::full();
    let server = Server::start([text("Hello.")]);
    let finished = finish(place.run(&server).arg("Go"));
    assert_eq!((finished.code, finished.out.starts_with("Hello.\n")), (Some(0), true), "{finished:?}");
    let lines: Vec<&str> = finished.err.lines().collect();
    let warning = "Skipped /.deepagents/skills/odd/SKILL.md: it has no `description`";
    let loaded = "memory: /.deepagents/AGENTS.md, /.deepagents/user/AGENTS.md, /AGENTS.md · skills: forms, review";
    assert_eq!(lines, [warning, loaded]);
    let system = system(&server.requests()[0]);
    let at = |words: &str| system.find(words).unwrap_or_else(|| panic!("{words}: {system}"));
    assert!(
        at("Call me Ada.") < at("We indent with tabs.") && at("We indent with tabs.") < at("Releases are on Mondays.")
    );
    at("- **forms**: Fills in forms. -> `/.deepagents/user/skills/forms/SKILL.md`");
    at("- **review**: Reviews as we do here. -> `/.deepagents/skills/review/SKILL.md`");
    at("**Project Skills**: `/.deepagents/skills` (higher priority)");
    assert!(!system.contains("Reviews anywhere."));
}

#[test]
fn memory_and_skills_can_be_disabled_and_absent_ones_add_nothing() {
    let place = Place::full();
    let server = Server::start([text("One."), text("Two."), text("Three."), text("Four.")]);
    let no_memory = finish(place.run(&server).args(["--no-memory", "Go"]));
    assert!(no_memory.err.ends_with("\nskills: forms, review\n"), "{no_memory:?}");
    let no_skills = finish(place.run(&server).args(["--no-skills", "Go"]));
    assert!(no_skills.err.starts_with("memory: ") && !no_skills.err.contains("skills"), "{no_skills:?}");
    let neither = finish(place.run(&server).args(["--no-memory", "--no-skills", "Go"]));
    let nothing = finish(Place::new().run(&server).arg("Go"));
    assert_eq!((neither.err.as_str(), nothing.err.as_str()), ("", ""));
    let requests = server.requests();
    let (without_memory, without_skills) = (system(&requests[0]), system(&requests[1]));
    assert!(!without_memory.contains("Ada") && without_memory.contains("Fills in forms."));
    assert!(without_skills.contains("Ada") && !without_skills.contains("Fills in forms."));
    assert_eq!(system(&requests[2]), system(&requests[3]));
    assert!(!system(&requests[3]).contains("## Memory") && !system(&requests[3]).contains("## Skills"));
    assert_eq!(requests[2].body["tools"], requests[3].body["tools"]);
}

#[test]
fn quiet_and_json_print_no_announcement_on_stderr() {
    let place = Place::full();
    let server = Server::start([text("One."), text("Two.")]);
    let quiet = finish(place.run(&server).args(["-q", "Go"]));
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("One.\n", ""));
    let json = finish(place.run(&server).args(["--json", "Go"]));
    assert_eq!(json.err, "");
    let loaded = json.lines().into_iter().find(|event| event["name"] == "skills_loaded").unwrap();
    assert_eq!(loaded["data"]["skills"], json!(["forms", "review"]));
}

#[test]
fn user_files_are_read_only_and_expose_nothing_else_of_the_home() {
    let place = Place::full();
    let change = |path: &str| Reply::Call("write_file", json!({"file_path": path, "content": "mine"}));
    let server = Server::start([
        read("/.deepagents/user/skills/forms/fields.md"),
        change("/.deepagents/user/skills/forms/new.md"),
        Reply::Call("delete", json!({"file_path": "/.deepagents/user/skills/forms"})),
        read("/.deepagents/user/AGENTS.md"),
        change("/.deepagents/user/AGENTS.md"),
        read("/.deepagents/user/threads.db"),
        Reply::Call("ls", json!({"path": "/.deepagents/user"})),
        Reply::Call("grep", json!({"pattern": "e", "path": "/.deepagents/user"})),
        Reply::Call("glob", json!({"pattern": "**/*.md"})),
        Reply::Call("grep", json!({"pattern": "e", "glob": "*.md"})),
        change("/.deepagents/notes.md"),
        text("Done."),
    ]);
    let finished = finish(place.run(&server).arg("Go"));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let results: Vec<String> = server.requests()[1..].iter().map(result).collect();
    assert!(results[0].contains("The fields of forms."), "{}", results[0]);
    for refused in [1, 2, 4] {
        assert!(results[refused].contains("read-only"), "{}", results[refused]);
    }
    assert!(results[3].contains("Call me Ada."), "{}", results[3]);
    assert!(!results[5].contains("SQLite"), "{}", results[5]);
    assert!(results[6].contains("AGENTS.md") && results[6].contains("skills"), "{}", results[6]);
    assert!(results[6..9].iter().all(|result| !result.contains("threads.db")), "{results:?}");
    assert!(results[7].contains("fields.md"), "{}", results[7]);
    for found in &results[8..10] {
        assert!(
            found.contains("/AGENTS.md") && !found.contains("user"),
            "a search of the root leaves them alone: {found}"
        );
    }
    let of_user = place.home().join(".deepagents");
    assert_eq!(fs::read_to_string(of_user.join("AGENTS.md")).unwrap(), "Call me Ada.\n");
    assert!(of_user.join("skills/forms/fields.md").exists() && !of_user.join("skills/forms/new.md").exists());
    assert!(!place.root().join(".deepagents/notes.md").exists() && results[10].contains("a person has to agree"));
    assert!(!place.root().join(".deepagents/user").exists());
}

#[test]
fn a_home_used_as_the_root_loads_its_files_once() {
    let place = Place::full();
    let server = Server::start([text("Hello.")]);
    let mut command = run(&place.home(), &server.address);
    let finished = finish(command.env("HOME", place.home()).args(["--no-save", "Go"]));
    assert_eq!(finished.err, "memory: /.deepagents/user/AGENTS.md · skills: forms, review\n", "{finished:?}");
    assert_eq!(system(&server.requests()[0]).matches("Call me Ada.").count(), 1);
}

#[test]
fn a_project_link_to_the_users_notes_does_not_hide_them() {
    let place = Place::full();
    let notes = place.root().join("AGENTS.md");
    fs::remove_file(&notes).unwrap();
    std::os::unix::fs::symlink(place.home().join(".deepagents/AGENTS.md"), &notes).unwrap();
    let server = Server::start([text("Hello.")]);
    let finished = finish(place.run(&server).arg("Go"));
    assert!(finished.err.contains("/AGENTS.md leads outside the workspace\n"), "{finished:?}");
    assert!(system(&server.requests()[0]).contains("Call me Ada."));
}

#[test]
fn user_settings_are_found_through_links() {
    let place = Place::full();
    let (elsewhere, of_user) = (place.dir.path().join("settings"), place.home().join(".deepagents"));
    fs::rename(&of_user, &elsewhere).unwrap();
    fs::create_dir(&of_user).unwrap();
    for name in ["AGENTS.md", "skills"] {
        std::os::unix::fs::symlink(elsewhere.join(name), of_user.join(name)).unwrap();
    }
    let server = Server::start([text("Hello.")]);
    let finished = finish(place.run(&server).arg("Go"));
    assert!(finished.err.contains("/.deepagents/user/AGENTS.md"), "{finished:?}");
    let system = system(&server.requests()[0]);
    assert!(system.contains("Call me Ada.") && system.contains("Fills in forms."));
}

#[test]
fn a_user_skill_may_be_a_link_and_a_project_skill_may_not_leave_the_project() {
    let place = Place::full();
    let elsewhere = place.dir.path().join("elsewhere");
    for (name, into) in [("mine", place.home()), ("theirs", place.root())] {
        put(&elsewhere.join(name).join("SKILL.md"), &skill(name, "Lies elsewhere."));
        std::os::unix::fs::symlink(elsewhere.join(name), into.join(".deepagents/skills").join(name)).unwrap();
    }
    let (mine, file) = ("/.deepagents/user/skills/mine/SKILL.md", place.dir.path().join("run.jsonl"));
    let server = Server::start([
        read(mine),
        Reply::Call("write_file", json!({"file_path": mine, "content": "changed"})),
        Reply::Call("ls", json!({"path": "/.deepagents/user/skills"})),
        text("Done."),
    ]);
    let finished = finish(place.run(&server).arg("--record").arg(&file).arg("Go"));
    assert!(finished.err.contains("skills: forms, mine, review\n"), "{finished:?}");
    let results: Vec<String> = server.requests()[1..].iter().map(result).collect();
    assert!(results[0].contains("Lies elsewhere.") && results[1].contains("read-only"), "{results:?}");
    assert!(results[2].contains("/.deepagents/user/skills/mine/"), "{results:?}");
    assert!(fs::read_to_string(elsewhere.join("mine/SKILL.md")).unwrap().contains("Lies elsewhere."));
    assert_eq!(finish(deepagents().arg("replay").arg(&file)).code, Some(0));
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "what a recording holds is its owner's");
}

#[test]
fn names_from_files_cannot_inject_terminal_sequences() {
    let place = Place::new();
    put(&place.root().join(".deepagents/skills/odd/SKILL.md"), &skill("\"o\\e[31mdd\"", "Is odd."));
    let server = Server::start([text("Hello.")]);
    for finished in [finish(place.run(&server).arg("Go")), place.explain(&[])] {
        let said = format!("{}{}", finished.out, finished.err);
        assert!(said.contains("skills: o[31mdd") && !said.contains('\u{1b}'), "{finished:?}");
    }
}

#[test]
fn a_resumed_thread_sees_memory_and_skill_changes() {
    let place = Place::full();
    let server = Server::start([text("One."), text("Two."), text("Three."), text("Four.")]);
    finish(place.run(&server).arg("Go"));
    put(&place.root().join("AGENTS.md"), "We indent with blanks.\n");
    fs::remove_dir_all(place.root().join(".deepagents/skills")).unwrap();
    let again = finish(place.run(&server).args(["--continue", "And now?"]));
    let loaded = "memory: /.deepagents/AGENTS.md, /.deepagents/user/AGENTS.md, /AGENTS.md · skills: forms, review\n";
    assert_eq!(again.err, loaded, "{again:?}");
    let without = finish(place.run(&server).args(["--no-memory", "--no-skills", "--continue", "And now?"]));
    let with = finish(place.run(&server).args(["--continue", "And now?"]));
    assert_eq!((without.code, without.err.as_str(), with.err.as_str()), (Some(0), "", loaded), "{without:?} {with:?}");
    let requests = server.requests();
    for at in [1, 3] {
        let system = system(&requests[at]);
        assert!(system.contains("with blanks.") && !system.contains("with tabs."), "{system}");
        assert!(system.contains("Reviews anywhere."), "{system}");
    }
    assert!(!system(&requests[2]).contains("with blanks."));
}

#[test]
fn an_unreadable_file_is_reported_and_the_run_continues() {
    let place = Place::new();
    fs::write(place.root().join("AGENTS.md"), [0xff, 0xfe, 0x00]).unwrap();
    let server = Server::start([text("Hello.")]);
    let finished = finish(place.run(&server).arg("Go"));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.err, "/AGENTS.md could not be read: /AGENTS.md is not UTF-8 text\n");
}

#[test]
fn files_rewind_with_a_thread_although_user_files_are_mounted_beside_them() {
    let place = Place::full();
    let notes = "We indent with blanks.\n";
    let server = Server::start([
        read("/AGENTS.md"),
        Reply::Call("write_file", json!({"file_path": "/AGENTS.md", "content": notes})),
        text("Noted."),
    ]);
    let finished = crate::program::finish_with(place.run(&server).args(["--approve", "ask", "Remember"]), "y\n");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(fs::read_to_string(place.root().join("AGENTS.md")).unwrap(), notes);
    let threads = |args: &[&str]| finish(deepagents().env("HOME", place.home()).arg("threads").args(args));
    let list: Value = serde_json::from_str(&threads(&["list", "--json"]).out).unwrap();
    let back = threads(&["rewind", list[0]["id"].as_str().unwrap(), "1", "--files", "yes"]);
    assert!(back.out.contains("\nput back: /AGENTS.md\n"), "{back:?}");
    assert_eq!(fs::read_to_string(place.root().join("AGENTS.md")).unwrap(), "We indent with tabs.\n");
}

#[cfg(target_os = "linux")]
#[test]
fn commands_still_run_in_the_project_directory() {
    let place = Place::full();
    let server = Server::start([
        Reply::Call("execute", json!({"command": "ls -a /workspace . 2>/dev/null; cat AGENTS.md"})),
        text("Done."),
    ]);
    let finished = finish(place.run(&server).args(["--execute", "Go"]));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let result = result(&server.requests()[1]);
    // Without a sandbox, commands are refused.
    assert!(result.contains("We indent with tabs.") || finished.out.contains("✗ execute"), "{result}");
    assert!(!result.contains("threads.db"), "{result}");
}

#[test]
fn explain_shows_what_would_be_loaded_and_its_cost() {
    let place = Place::full();
    put(&place.root().join(".deepagents/agents/tester.md"), "---\ndescription: Tests.\n---\nYou test.\n");
    let shown = place.explain(&[]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let line = |kind: &str| shown.out.lines().find(|line| line.trim().starts_with(kind)).unwrap_or_default();
    assert!(line("skills: forms, review").ends_with(char::is_numeric), "{shown:?}");
    assert!(line("sub-agents: tester").ends_with(char::is_numeric), "{shown:?}");
    assert!(shown.err.contains("Skipped /.deepagents/skills/odd/SKILL.md: it has no `description`"), "{shown:?}");
    let json: Value = serde_json::from_str(&place.explain(&["--json"]).out).unwrap();
    let parts = json["loaded"]["parts"].as_array().unwrap();
    assert_eq!(parts[0]["names"], json!(["/.deepagents/AGENTS.md", "/.deepagents/user/AGENTS.md", "/AGENTS.md"]));
    let tokens: u64 = parts.iter().map(|part| part["tokens"].as_u64().unwrap()).sum();
    let all = json["fixed_tokens"].as_u64().unwrap() + tokens;
    let about = if cfg!(feature = "tokens") { "" } else { "about " };
    assert_eq!(shown.out.lines().last(), Some(&*format!("in total, with loaded files: {about}{all} tokens")));
    let bare = place.explain(&["--no-memory", "--no-skills", "--no-agents"]);
    assert!(bare.out.lines().last().unwrap().starts_with("every request begins with"), "{bare:?}");
    assert!(!place.root().join(".deepagents/user").exists() && !place.home().join(".deepagents/threads.db").exists());
}

#[test]
fn a_recording_includes_the_memory_and_skills_it_was_made_with() {
    let place = Place::full();
    let file = place.dir.path().join("run.jsonl");
    let agents = "- name: filler\n  description: Fills in one form.\n  system_prompt: You fill in forms.\n";
    put(&place.home().join(".deepagents/skills/forms/agents.yaml"), agents);
    let server = Server::start([
        Reply::Call("task", json!({"description": "Fill it in", "subagent_type": "filler"})),
        text("It is filled in."),
        read("/.deepagents/user/skills/forms/SKILL.md"),
        Reply::Call("write_file", json!({"file_path": "/.deepagents/AGENTS.md", "content": "changed"})),
        Reply::Call("edit_file", json!({"file_path": "/AGENTS.md", "old_string": "tabs", "new_string": "blanks"})),
        text("Done."),
    ]);
    let mut command = place.run(&server);
    command.arg("--record").arg(&file).args(["--approve", "ask", "--json", "--no-save", "Go"]);
    let answers: String = (0..2)
        .map(|turn| format!("{}\n", json!({"answer": format!("{}.0", turn + 2), "decision": {"type": "approve"}})))
        .collect();
    let recorded = crate::program::finish_with(&mut command, &answers);
    assert_eq!(recorded.code, Some(0), "{recorded:?}");
    fs::remove_dir_all(place.root()).unwrap();
    fs::remove_dir_all(place.home()).unwrap();
    let again = finish(deepagents().arg("replay").arg(&file).env("HOME", place.home()));
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(
        again.err.contains("· skills: forms, review · sub-agents: filler\n") && again.out.contains("Done.\n"),
        "{again:?}"
    );
    assert!(!place.root().exists() && !place.home().exists());
    assert_eq!(server.requests().len(), 6);
    assert!(system(&server.requests()[1]).contains("You fill in forms."));
}

#[test]
fn unrecordable_files_are_refused_before_the_run_starts() {
    let place = Place::new();
    let file = place.dir.path().join("run.jsonl");
    fs::write(place.root().join("AGENTS.md"), [0xff, 0xfe, 0x00]).unwrap();
    let server = Server::start([text("Hello.")]);
    let record = |more: &[&str]| finish(place.run(&server).arg("--record").arg(&file).args(more).arg("Go"));
    let refused = record(&[]);
    let words = "/AGENTS.md cannot be part of a recording: it is not UTF-8 text; give --no-memory to record without it";
    assert_eq!(refused.one_message(), words);
    assert!(!file.exists() && server.requests().is_empty());
    let listed = finish(deepagents().env("HOME", place.home()).args(["threads", "list"]));
    assert_eq!(listed.out, "there are no threads yet\n");
    assert_eq!(record(&["--no-memory"]).code, Some(0));
}

#[test]
fn a_pipe_or_device_in_place_of_a_project_file_blocks_nothing() {
    let (place, server) = (Place::new(), Server::start([text("Done."), text("Done.")]));
    let (root, own) = (place.root(), place.root().join(".deepagents"));
    for folder in ["agents", "commands", "skills/s"] {
        fs::create_dir_all(own.join(folder)).unwrap();
    }
    let files = ["AGENTS.md", "hooks.json", "agents/a.md", "commands/c.md", "skills/s/SKILL.md"];
    let pipes = files.map(|file| own.join(file)).into_iter().chain([root.join("AGENTS.md"), root.join(".mcp.json")]);
    for pipe in pipes {
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    }
    let show = |args: &[&str]| {
        finish(deepagents().args(args).env("HOME", place.home()).current_dir(&root).stdin(std::process::Stdio::null()))
    };
    let finished = finish(run(&root, &server.address).env("HOME", place.home()).args(["--trust", "Go"]));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(show(&["trust", "show"]).code, Some(0));
    // An unreadable settings file ends the run.
    std::os::unix::fs::symlink("/dev/zero", own.join("config.toml")).unwrap();
    let refused = finish(run(&root, &server.address).env("HOME", place.home()).args(["--trust", "Go"]));
    assert!(refused.err.contains("config.toml") && refused.err.contains("not a regular file"), "{refused:?}");
}

#[test]
fn overlong_notes_are_reported_with_the_amount_the_agent_is_given() {
    let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(home.path().join(".deepagents")).unwrap();
    fs::write(home.path().join(".deepagents/AGENTS.md"), "We indent with tabs.\n".repeat(3_000)).unwrap();
    let server = Server::start([Reply::Text(vec!["Hello."])]);
    let finished = finish(run(dir.path(), &server.address).env("HOME", home.path()).arg("Hi"));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(
        finished.err.contains("/.deepagents/user/AGENTS.md is too long: the agent sees only its first 31,9"),
        "{finished:?}"
    );
}
