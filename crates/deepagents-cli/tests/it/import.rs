//! Taking over what was made for other programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
    write(root, ".claude/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies\n---\nTidy up.\n");
    write(root, ".claude/skills/tidy/lib/help.sh", "echo help\n");
    write(root, ".claude/commands/git/fix.md", "Fix $1 on !`git branch`\n");
    let hook = json!({"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]});
    write(root, ".claude/settings.json", &json!({"hooks": hook, "permissions": {"allow": ["Bash"]}}).to_string());
    write(root, ".mcp.json", "{\"mcpServers\": {}}");
    dir
}

#[test]
fn a_project_of_claude_code_is_taken_over_and_what_is_not_is_told() {
    let dir = a_project();
    let root = dir.path();
    let planned = import(root, &[root.to_str().unwrap(), "--dry-run"]);
    assert!(planned.contains("would be taken over") && !root.join(".deepagents").exists(), "{planned}");
    let told = import(root, &[root.to_str().unwrap()]);
    for words in ["the tool WebFetch", "its permissions", "are not run; the agent", ".mcp.json: is read as it is"] {
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
fn what_lies_elsewhere_is_found_and_what_cannot_be_used_is_told() {
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
        "@docs/style.md brings nothing",
        "CLAUDE.local.md: it is yours",
        "settings.local.json: it is yours",
        "without the tool Task",
        "bare.md: it has no front matter",
        "no deeper",
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
fn servers_with_their_secrets_stay_the_users_alone() {
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
fn nothing_that_is_there_is_replaced_and_doing_it_again_does_nothing() {
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
fn the_layout_of_a_deployed_agent_is_taken_over() {
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
    assert!(import(root, &[empty.path().to_str().unwrap()]).contains("nothing to take over"));
}

#[test]
fn hooks_of_the_reference_are_read_where_they_are_and_that_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let hook = json!({"PreToolUse": [{"matcher": "execute", "hooks": [{"type": "command", "command": "true"}]}]});
    write(dir.path(), ".deepagents/hooks.json", &json!({"hooks": hook}).to_string());
    let told = import(dir.path(), &[dir.path().to_str().unwrap()]);
    assert!(told.contains("hooks.json: is read as it is"), "{told}");
    let root = dir.path().to_str().unwrap();
    let listed = finish(deepagents().env("HOME", dir.path()).args(["hooks", "list", "--root", root]));
    assert!(listed.out.contains("PreToolUse"), "{listed:?}");
}
