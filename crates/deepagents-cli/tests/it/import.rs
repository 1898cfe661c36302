//! Imports from other programs.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::program::{deepagents, finish};

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn import(root: &Path, args: &[&str]) -> String {
    let finished = finish(deepagents().env("HOME", root).arg("import").args(args));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished.out
}

fn a_project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "CLAUDE.md", "Use tabs.\n");
    write(
        root,
        ".claude/agents/critic.md",
        "---\nname: critic\ndescription: Finds faults\ntools: Read, WebFetch\n---\nBe strict.\n",
    );
    write(root, ".claude/agents/tester.md", "---\nname: tester\ndescription: Tests\ntools: Bash\n---\nRun them.\n");
    write(root, ".claude/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies\n---\nTidy up.\n");
    write(root, ".claude/skills/tidy/lib/help.sh", "echo help\n");
    write(root, ".claude/commands/git/fix.md", "Fix $1 on !`git branch`\n");
    let hook = json!({"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]});
    write(root, ".claude/settings.json", &json!({"hooks": hook, "permissions": {"allow": ["Bash"]}}).to_string());
    write(root, ".mcp.json", "{\"mcpServers\": {}}");
    dir
}

#[test]
fn a_missing_directory_is_a_usage_error() {
    let refused = finish(deepagents().args(["import", "/no/such"]));
    assert!(refused.wrong_usage().contains("`/no/such` is not a directory"), "{refused:?}");
}

#[test]
fn a_claude_code_project_is_imported_and_the_rest_is_reported() {
    let dir = a_project();
    let root = dir.path();
    let planned = import(root, &[root.to_str().unwrap(), "--dry-run"]);
    assert!(planned.contains("would be imported") && !root.join(".deepagents").exists(), "{planned}");
    let told = import(root, &[root.to_str().unwrap()]);
    let needs = "tester.md: its Bash becomes `execute`";
    for words in ["the tool WebFetch", needs, "its permissions", "are not run; the agent", ".mcp.json: is read as is"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap();
    assert_eq!(read("AGENTS.md"), "Use tabs.\n");
    assert!(read(".deepagents/agents/critic.md").contains("tools: [read_file]"));
    assert_eq!(read(".deepagents/skills/tidy/lib/help.sh"), "echo help\n");
    assert!(read(".deepagents/commands/git/fix.md").contains("Fix $1"));
    assert!(serde_json::from_str::<Value>(&read(".deepagents/hooks.json")).unwrap()["hooks"]["PreToolUse"].is_array());
    let shown = finish(deepagents().env("HOME", root).args(["trust", "show"]).arg(root));
    for words in ["sub-agent", "skill", "hook", "command", "git:fix"] {
        assert!(shown.out.contains(words), "{words}: {shown:?}");
    }
}

#[test]
fn files_in_other_places_are_found_and_unusable_ones_reported() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, ".claude/CLAUDE.md", "Use tabs.\n@docs/style.md\n");
    write(root, "CLAUDE.local.md", "Mine.\n");
    write(root, ".claude/settings.local.json", "{}");
    write(
        root,
        ".claude/agents/deep/er/critic.md",
        "---\nname: critic\ndescription: Finds\ntools: Read, Task\n---\nBe strict.\n",
    );
    write(root, ".claude/agents/bare.md", "Be strict.\n");
    write(root, ".claude/commands/a/b/c.md", "C\n");
    write(root, ".claude/commands/d.md", "---\nallowed-tools: Bash\n---\nD\n");
    write(root, ".claude/skills/s/run.sh", "true\n");
    fs::set_permissions(root.join(".claude/skills/s/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let told = import(root, &[root.to_str().unwrap()]);
    for words in [
        "@docs/style.md does not include",
        "CLAUDE.local.md: it is personal",
        "settings.local.json: it is personal",
        "without the tool Task",
        "bare.md: it does not begin with a line `---`",
        "only one directory deep",
        "without allowed-tools",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert_eq!(fs::read_to_string(root.join("AGENTS.md")).unwrap(), "Use tabs.\n@docs/style.md\n");
    assert!(root.join(".deepagents/agents/critic.md").exists() && !root.join(".deepagents/agents/bare.md").exists());
    let mode = |file: &str| fs::metadata(root.join(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(".deepagents/skills/s/run.sh") & 0o100, 0o100);
}

#[test]
fn imported_servers_with_secrets_are_readable_only_by_the_user() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let servers =
        json!({"docs": {"type": "http", "url": "https://a.example", "headers": {"Authorization": "Bearer x"}}});
    write(
        root,
        ".claude.json",
        &json!({"mcpServers": servers, "projects": {"/w": {"mcpServers": servers}}}).to_string(),
    );
    fs::set_permissions(root.join(".claude.json"), fs::Permissions::from_mode(0o600)).unwrap();
    let told = import(root, &["--user"]);
    assert!(told.contains("put them into /w/.mcp.json"), "{told}");
    let mode = |file: &str| fs::metadata(root.join(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(".deepagents"), mode(".deepagents/.mcp.json")), (0o700, 0o600));
}

#[test]
fn importing_replaces_nothing_and_is_idempotent() {
    let dir = a_project();
    let root = dir.path();
    write(root, "AGENTS.md", "Use blanks.\n");
    import(root, &[root.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(root.join("AGENTS.md")).unwrap(), "Use blanks.\n");
    let again: Value = serde_json::from_str(&import(root, &[root.to_str().unwrap(), "--json"])).unwrap();
    let became: Vec<&str> = again.as_array().unwrap().iter().map(|line| line["became"].as_str().unwrap()).collect();
    assert!(!became.contains(&"taken") && became.contains(&"unchanged") && became.contains(&"left"), "{again}");
}

#[test]
fn a_deployed_agents_layout_is_imported() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let agent =
        json!({"name": "a", "runtime": {"model": "openai:gpt-5.2", "region": "x"}, "backend": {"type": "state"}});
    write(root, "agent.json", &agent.to_string());
    write(root, "subagents/scout/AGENTS.md", "---\ndescription: Looks around\n---\nLook.\n");
    write(root, "skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies\n---\n");
    write(root, "tools.json", "{}");
    let told = import(root, &[root.to_str().unwrap()]);
    assert!(
        told.contains("its runtime.region") && told.contains("tools.json") && told.contains("its backend"),
        "{told}"
    );
    assert_eq!(fs::read_to_string(root.join(".deepagents/config.toml")).unwrap(), "model = \"openai:gpt-5.2\"\n");
    assert!(
        root.join(".deepagents/agents/scout/AGENTS.md").exists()
            && root.join(".deepagents/skills/tidy/SKILL.md").exists()
    );
    let empty = tempfile::tempdir().unwrap();
    assert!(import(root, &[empty.path().to_str().unwrap()]).contains("nothing to import"));
}

#[test]
fn reference_hooks_are_used_in_place_and_this_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let hook = json!({"PreToolUse": [{"matcher": "execute", "hooks": [{"type": "command", "command": "true"}]}]});
    write(dir.path(), ".deepagents/hooks.json", &json!({"hooks": hook}).to_string());
    let told = import(dir.path(), &[dir.path().to_str().unwrap()]);
    assert!(told.contains("hooks.json: is read as is"), "{told}");
    let root = dir.path().to_str().unwrap();
    let listed = finish(deepagents().env("HOME", dir.path()).args(["hooks", "list", "--root", root]));
    assert!(listed.out.contains("PreToolUse"), "{listed:?}");
}

/// The imported subagents, as the program reports them.
fn shown(root: &Path) -> Vec<Value> {
    let shown = finish(deepagents().env("HOME", "/none").args(["trust", "show", "--json"]).arg(root));
    let all: Vec<Value> = serde_json::from_str(&shown.out).unwrap_or_else(|_| panic!("{shown:?}"));
    all.into_iter().filter(|found| found["item"]["kind"] == "sub_agent").collect()
}

#[test]
fn importing_writes_nothing_through_a_projects_links() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("repo");
    fs::create_dir(home.path().join(".deepagents")).unwrap();
    let hook = json!({"SessionStart": [{"hooks": [{"type": "command", "command": "touch owned"}]}]});
    write(&root, ".claude/settings.json", &json!({"hooks": hook}).to_string());
    write(&root, ".claude/agents/general-purpose.md", "---\nname: general-purpose\ndescription: All\n---\nObey.\n");
    write(&root, "CLAUDE.md", "Use tabs.\n");
    symlink("../.deepagents", root.join(".deepagents")).unwrap();
    symlink("../notes", root.join("AGENTS.md")).unwrap();
    let mut command = deepagents();
    let finished = finish(command.env("HOME", home.path()).current_dir(&root).arg("import"));
    assert!(finished.code == Some(0) && !finished.out.starts_with("imported"), "{finished:?}");
    for words in [".deepagents is a link", "AGENTS.md is a link"] {
        assert!(finished.out.contains(words), "{words}: {finished:?}");
    }
    assert_eq!(fs::read_dir(home.path().join(".deepagents")).unwrap().count(), 0);
    assert!(!home.path().join("notes").exists());
    // A link deeper in the tree is just as dangerous.
    fs::remove_file(root.join(".deepagents")).unwrap();
    fs::create_dir(root.join(".deepagents")).unwrap();
    symlink(home.path().join(".deepagents"), root.join(".deepagents/agents")).unwrap();
    symlink(home.path().join(".deepagents/hooks.json"), root.join(".deepagents/hooks.json")).unwrap();
    let told = import(&root, &[root.to_str().unwrap()]);
    assert!(told.contains(".deepagents/agents is a link") && told.contains("hooks.json is a link"), "{told}");
    assert_eq!(fs::read_dir(home.path().join(".deepagents")).unwrap().count(), 0);
}

#[test]
fn links_out_of_a_project_are_not_imported_and_links_within_it_are() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("repo");
    write(home.path(), "private/key", "secret");
    write(&root, "CLAUDE.md", "Use tabs.\n");
    write(&root, "shared/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies\n---\n");
    fs::create_dir(root.join(".claude")).unwrap();
    symlink("../shared/skills", root.join(".claude/skills")).unwrap();
    symlink(home.path().join("private"), root.join(".claude/commands")).unwrap();
    symlink(home.path(), root.join(".agents")).unwrap();
    write(home.path(), "skills/mine/SKILL.md", "mine");
    symlink("CLAUDE.md", root.join("AGENTS.md")).unwrap();
    let told = import(&root, &[root.to_str().unwrap()]);
    assert!(
        told.contains(".claude/commands: it is reached by a link that leads out")
            && told.contains(".agents/skills: it is reached by a link"),
        "{told}"
    );
    assert!(told.contains("AGENTS.md is a link to it"), "{told}");
    assert!(root.join(".deepagents/skills/tidy/SKILL.md").exists());
    assert!(!root.join(".deepagents/skills/mine").exists() && !root.join(".deepagents/commands").exists());
}

#[test]
fn user_files_are_imported_through_the_users_own_links() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), ".claude/CLAUDE.md", "Use tabs.\n");
    fs::create_dir(home.path().join("dotfiles")).unwrap();
    symlink("dotfiles", home.path().join(".deepagents")).unwrap();
    import(home.path(), &["--user"]);
    assert_eq!(fs::read_to_string(home.path().join("dotfiles/AGENTS.md")).unwrap(), "Use tabs.\n");
}

#[test]
fn imported_sub_agents_are_valid_and_get_no_extra_tools() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let agents = [
        (
            "generated",
            "name: generated\ndescription: Use it so. Examples: <example>Context: User asks\\nuser: \"Go\"</example>\ntools: Read",
        ),
        ("helper", "name: Code Helper\ndescription: Reviews: code\ntools:\n  - Read\n  - Grep\nmodel: inherit"),
        ("none", "name: none\ndescription: d\ntools: []"),
        ("server", "name: server\ndescription: d\ntools: mcp__t__l"),
        ("reader", "name: reader\ndescription: d\ndisallowedTools: Write, Edit, Bash"),
        ("x/same", "name: first\ndescription: d"),
        ("y/same", "name: second\ndescription: d"),
        ("z/twice", "name: second\ndescription: other"),
        ("bare", "name: bare"),
        ("hooked", "name: hooked\ndescription: d\nhooks:\n  PreToolUse: []"),
    ];
    for (file, head) in agents {
        write(root, &format!(".claude/agents/{file}.md"), &format!("---\n{head}\n--- \nBe strict."));
    }
    write(root, ".claude/agents/short.md", "---\nname: short\ndescription: d\n---");
    let told = import(root, &[root.to_str().unwrap()]);
    for words in [
        "its name `Code Helper`, which becomes `code-helper` here",
        "bare.md: it has no `description`",
        "hooked.md: it has hooks",
        "y/same.md also defines a sub-agent `second`",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(!told.contains("by hand") && !told.contains("model"), "{told}");
    let found = shown(root);
    let asks = |name: &str| {
        let one = found.iter().find(|found| found["item"]["name"] == name);
        one.unwrap_or_else(|| panic!("{name}: {found:?}"))["asks_for"].clone()
    };
    assert_eq!(found.len(), 8, "{found:?}");
    assert_eq!(asks("generated"), json!(["the tools read_file"]));
    assert_eq!(asks("code-helper"), json!(["the tools read_file, grep"]));
    assert_eq!(asks("server"), json!(["the tools mcp__t__l"]));
    assert_eq!(asks("reader"), json!(["the tools ls, read_file, glob, grep, write_todos"]));
    for name in ["none", "first", "second", "short"] {
        assert_eq!(asks(name), json!([]), "{name}");
    }
    let none = fs::read_to_string(root.join(".deepagents/agents/none.md")).unwrap();
    assert!(none.contains("\ntools: []\n"), "{none}");
    let again = import(root, &[root.to_str().unwrap()]);
    assert!(!again.contains("imported:\n  /") || again.starts_with("nothing to do"), "{again}");
}

#[test]
fn a_dry_run_reports_exactly_what_an_import_does() {
    let dir = a_project();
    let root = dir.path().to_str().unwrap();
    // Both skills get the same name, and only one of the two models can be set.
    write(dir.path(), ".agents/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Another\n---\n");
    write(dir.path(), ".agents/skills/tidy/lib/help.sh", "echo help\n");
    write(dir.path(), "agent.json", "{\"model\": \"openai:a\", \"runtime\": {\"model\": \"openai:b\"}}");
    let planned = import(dir.path(), &[root, "--dry-run"]);
    assert_eq!(planned.replace("would be imported", "imported"), import(dir.path(), &[root]));
}

#[test]
fn one_unreadable_or_unwritable_file_does_not_stop_an_import_but_fails_it() {
    if rustix::process::geteuid().is_root() {
        return deepagents_testing::skip::skip("permissions", "root may read everything");
    }
    let dir = a_project();
    let root = dir.path();
    let locked = root.join(".claude/agents/critic.md");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    write(root, ".deepagents/skills/tidy/SKILL.md", "mine\n");
    fs::set_permissions(root.join(".deepagents/skills/tidy"), fs::Permissions::from_mode(0o555)).unwrap();
    let told = finish(deepagents().arg("import").arg(root));
    fs::set_permissions(root.join(".deepagents/skills/tidy"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(told.code == Some(1) && told.err.is_empty(), "{told:?}");
    assert!(told.out.contains("critic.md: it cannot be read: Permission denied"), "{told:?}");
    assert!(told.out.contains("skills/tidy/lib/help.sh cannot be written: Permission denied"), "{told:?}");
    assert!(root.join(".deepagents/agents/tester.md").exists() && root.join(".deepagents/hooks.json").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn an_import_that_is_killed_leaves_no_part_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let text = "x".repeat(1 << 20);
    write(dir.path(), ".claude/skills/tidy/data.txt", &text);
    let target = dir.path().join(".deepagents/skills/tidy/data.txt");
    // The signal for a file at its size limit ends the program in the middle of the file.
    let mut killed = Command::new("sh");
    killed.args(["-c", r#"ulimit -f 64; exec "$0" import "$1""#, env!("CARGO_BIN_EXE_deepagents")]).arg(dir.path());
    let killed = finish(killed.env("HOME", dir.path()).stdin(Stdio::null()));
    assert!(killed.code != Some(0), "{killed:?}");
    let left = fs::read_dir(target.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
    import(dir.path(), &[dir.path().to_str().unwrap()]);
    assert!(fs::read_to_string(target).is_ok_and(|imported| imported == text));
}

#[cfg(target_os = "linux")]
#[test]
fn files_are_imported_on_a_file_system_without_hard_links() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

    let dir = a_project();
    let root = dir.path();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Programs that this thread starts inherit the filter.
            let (links, refused) = ([(libc::SYS_linkat, Vec::new())], SeccompAction::Errno(libc::EPERM.unsigned_abs()));
            let arch = std::env::consts::ARCH.try_into().unwrap();
            let filter = SeccompFilter::new(links.into(), SeccompAction::Allow, refused, arch).unwrap();
            seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
            assert!(fs::hard_link(root.join("CLAUDE.md"), root.join("link")).is_err());
            import(root, &[root.to_str().unwrap()]);
        });
    });
    assert_eq!(fs::read_to_string(root.join(".deepagents/skills/tidy/lib/help.sh")).unwrap(), "echo help\n");
    let left = fs::read_dir(root.join(".deepagents/skills/tidy")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.as_bytes().starts_with(b".")));
}

#[test]
fn an_empty_import_is_an_empty_list_and_a_non_utf8_name_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    assert_eq!(import(dir.path(), &[root, "--json"]), "[]\n");
    write(dir.path(), ".claude/skills/a/SKILL.md", "---\nname: a\ndescription: b\n---\n");
    let odd = std::ffi::OsStr::from_bytes(b"caf\xe9.txt");
    fs::write(dir.path().join(".claude/skills/a").join(odd), "x").unwrap();
    let told = import(dir.path(), &[root]);
    assert!(told.contains(": its name is not UTF-8"), "{told}");
}

#[test]
fn files_included_by_notes_are_reported_wherever_they_are_mentioned() {
    let dir = tempfile::tempdir().unwrap();
    let notes = "See @README and @docs/git.md.\n- @~/own.md, @README\n@gone.md\nWe use @types/node and a@b.example\n";
    write(dir.path(), "CLAUDE.md", notes);
    for file in ["README", "docs/git.md", "own.md"] {
        write(dir.path(), file, "x");
    }
    let told = import(dir.path(), &[dir.path().to_str().unwrap()]);
    let brought: Vec<&str> = told
        .lines()
        .filter_map(|line| line.split_once(": @")?.1.split_once(" does not include"))
        .map(|it| it.0)
        .collect();
    assert_eq!(brought, ["README", "docs/git.md", "gone.md", "~/own.md"], "{told}");
}

#[test]
fn a_servable_deployed_agent_is_imported_with_its_model_and_sub_agents() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let agent = json!({"name": "a", "runtime": {"model": {"model_id": "anthropic:claude-sonnet-4-5"}}});
    write(root, "agent.json", &agent.to_string());
    write(root, "AGENTS.md", "Be brief.\n");
    let models = ("openai:gpt-5.2", "openai:gpt-5.1");
    let critic = json!({"description": "Finds: faults", "model_id": models.0, "model": models.1, "color": "red"});
    write(root, "subagents/critic/agent.json", &critic.to_string());
    write(root, "subagents/critic/AGENTS.md", "Be strict.\n");
    write(root, "subagents/critic/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies\n---\n");
    write(root, "subagents/mute/agent.json", "{\"description\": \"Says nothing\"}");
    write(root, "subagents/linked/agent.json", "{\"description\": \"Is elsewhere\"}");
    symlink("../../AGENTS.md", root.join("subagents/linked/AGENTS.md")).unwrap();
    let told = import(root, &[root.to_str().unwrap()]);
    let model = fs::read_to_string(root.join(".deepagents/config.toml")).unwrap();
    assert_eq!(model, "model = \"anthropic:claude-sonnet-4-5\"\n");
    let critic = fs::read_to_string(root.join(".deepagents/agents/critic/AGENTS.md")).unwrap();
    let lines = "---\nname: critic\ndescription: \"Finds: faults\"\nmodel: \"openai:gpt-5.2\"\n---\nBe strict.\n";
    assert_eq!(critic, lines);
    for left in [
        "without model openai:gpt-5.1, without color",
        "skills of a sub-agent is not supported",
        "mute/agent.json: there is no AGENTS.md",
        "linked/AGENTS.md: it is a link",
    ] {
        assert!(told.contains(left), "{left}: {told}");
    }
    assert!(!told.contains("linked/agent.json"), "{told}");
    let mut explain = deepagents();
    explain.env("HOME", root.join("subagents")).args(["explain", "--json", "--trust", "--root"]);
    let explained = finish(explain.arg(root));
    assert!(explained.code == Some(0) && explained.out.contains("critic"), "{explained:?}");
}

#[test]
fn invalid_hooks_are_not_imported() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), ".claude/settings.json", "{\"hooks\": 5}");
    let told = import(dir.path(), &[dir.path().to_str().unwrap()]);
    assert!(told.contains("its hooks, which are not an object") && !dir.path().join(".deepagents").exists(), "{told}");
}
