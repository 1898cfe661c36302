//! Settings: precedence, source, and invalid files.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use deepagents_testing::skip::skip;
use serde_json::Value;

use crate::program::{Start, deepagents, finish, finish_with, run};
use crate::server::{Reply, Server};
use crate::terminal::Terminal;

struct Place {
    home: tempfile::TempDir,
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { home: tempfile::tempdir().unwrap(), root: tempfile::tempdir().unwrap() };
        fs::create_dir(place.root.path().join(".deepagents")).unwrap();
        place
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = deepagents();
        command.env("HOME", self.home.path()).current_dir(self.root.path()).args(args);
        command
    }

    fn out(&self, args: &[&str]) -> String {
        let finished = finish(&mut self.command(args));
        assert_eq!(finished.code, Some(0), "{args:?}: {finished:?}");
        finished.out
    }

    fn file(&self) -> std::path::PathBuf {
        self.home.path().join(".deepagents/config.toml")
    }
}

#[test]
fn config_set_keeps_existing_content_and_config_get_shows_the_source() {
    let place = Place::new();
    let got = finish(&mut place.command(&["config", "get", "theme"]));
    assert_eq!((got.out.as_str(), got.err.as_str()), ("dark\n", "(default)\n"), "the value alone is on stdout");
    assert_eq!(place.out(&["config", "get"]), place.out(&["config", "list"]), "all of them without a name");
    fs::create_dir_all(place.file().parent().unwrap()).unwrap();
    fs::write(place.file(), "# mine\nvi = true # at home\n").unwrap();
    assert!(place.out(&["config", "set", "notify.bell", "off"]).contains("notify.bell = false"));
    let wrong = finish(&mut place.command(&["config", "set", "theme", "purple"]));
    assert!(wrong.wrong_usage().contains("the themes are dark, light"), "{wrong:?}");
    place.out(&["config", "set", "theme", "light"]);
    let text = fs::read_to_string(place.file()).unwrap();
    assert!(text.starts_with("# mine\nvi = true # at home\n") && text.contains("[notify]\nbell = false"), "{text}");
    let listed = place.out(&["config", "list"]);
    let line = |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("theme").contains("light") && line("theme").contains("user, "), "{listed}");
    assert!(line("vi ").contains("true") && line("title").ends_with("default"), "{listed}");
    place.out(&["config", "unset", "theme"]);
    let json: Value = serde_json::from_str(&place.out(&["config", "get", "theme", "--json"])).unwrap();
    assert_eq!(json, serde_json::json!({"name": "theme", "value": "dark", "source": "default"}));
}

#[test]
fn removing_what_is_not_there_writes_nothing_and_says_so() {
    let place = Place::new();
    for name in ["vi", "notify.bell"] {
        assert!(place.out(&["config", "unset", name]).starts_with(&format!("there is no {name} in ")));
    }
    finish(&mut place.command(&["auth", "remove", "groq"])).wrong_usage();
    assert!(!place.file().exists() && !place.file().with_file_name("auth.json").exists());
    place.out(&["config", "set", "vi", "true"]);
    place.out(&["config", "unset", "notify.bell"]);
    assert_eq!(fs::read_to_string(place.file()).unwrap(), "vi = true\n");
    assert!(place.out(&["config", "unset", "vi"]).starts_with("removed vi from "));
}

#[test]
fn keys_that_a_killed_process_was_storing_are_removed_with_the_next_change() {
    let place = Place::new();
    let set = finish_with(&mut place.command(&["auth", "set", "openai"]), "sk-one\n");
    assert_eq!(set.code, Some(0), "{set:?}");
    let left = place.file().with_file_name("auth.json.0123456789abcdef.new");
    fs::write(&left, "{\"v\":1,\"keys\":{\"OPENAI_API_KEY\":\"sk-two\"}}").unwrap();
    place.out(&["auth", "remove", "openai"]);
    assert!(!left.exists());
}

#[test]
fn a_home_directory_may_have_a_name_that_is_not_utf_8() {
    let place = Place::new();
    let home = place.home.path().join(OsStr::from_bytes(b"ada-\xff"));
    let set = finish(place.command(&["config", "set", "vi", "true"]).env("HOME", &home));
    assert_eq!(set.code, Some(0), "{set:?}");
    assert!(home.join(".deepagents/config.toml").exists());
    let shown = finish(place.command(&["config", "get", "vi"]).env("HOME", &home));
    assert_eq!(shown.out, "true\n", "{shown:?}");
}

#[test]
fn an_unknown_setting_or_an_invalid_value_is_refused_and_nothing_is_written() {
    let place = Place::new();
    let refused = |args: &[&str]| finish(&mut place.command(args)).one_message().to_owned();
    for (name, value, why) in [
        ("colour", "red", "there is no setting `colour`"),
        ("approve", "always", "one of ask, auto, plan"),
        ("vi", "maybe", "true or false"),
        ("keys.mode", "hyper-x", "is not a valid key"),
        ("model", "", "`deepagents config unset model`"),
        ("base_url", " ", "`deepagents config unset base_url`"),
        ("base_url", "not a url", "begins with http:// or https://"),
        ("base_url", "https:///v1", "begins with http:// or https://"),
    ] {
        let wrong = finish(&mut place.command(&["config", "set", name, value]));
        assert!(wrong.wrong_usage().contains(why), "{wrong:?}");
    }
    let unknown = finish(&mut place.command(&["config", "get", "colour"]));
    assert!(unknown.wrong_usage().contains("there is no setting `colour`"), "{unknown:?}");
    assert!(!place.file().exists());
    fs::create_dir_all(place.file().parent().unwrap()).unwrap();
    for (text, why) in
        [("theme = ", "is not valid TOML"), ("vi = \"yes\"", "true or false"), ("approve = \"x\"", "one of")]
    {
        fs::write(place.file(), text).unwrap();
        assert!(refused(&["config", "list"]).contains(why), "{text}");
        assert!(refused(&["run", "--model", "m", "--base-url", "http://localhost:1/v1", "x"]).contains(why), "{text}");
        assert!(refused(&["config", "set", "title", "false"]).contains("config.toml") || text != "theme = ");
    }
    // A setting of a newer version is reported and ignored.
    fs::write(place.file(), "novelty = 1\n").unwrap();
    let listed = finish(&mut place.command(&["config", "list"]));
    assert!(listed.code == Some(0) && listed.err.contains("`novelty`, which is not a setting"), "{listed:?}");
}

#[test]
fn settings_precedence_is_command_line_environment_project_user() {
    let place = Place::new();
    fs::create_dir_all(place.file().parent().unwrap()).unwrap();
    fs::write(place.file(), "theme = \"light\"\neffort = \"low\"\n").unwrap();
    let project = place.root.path().join(".deepagents/config.toml");
    fs::write(&project, "theme = \"ansi\"\n[notify]\ncommand = \"touch owned\"\n").unwrap();
    let server = Server::start([Reply::Text(vec!["Hello."]), Reply::Text(vec!["Hello."])]);
    let asked = || {
        let mut command = run(place.root.path(), &server.address);
        command.env("HOME", place.home.path());
        command
    };
    let finished = finish(asked().arg("Go"));
    assert!(finished.code == Some(0) && finished.err.contains("config.toml` is not used"), "{finished:?}");
    assert_eq!(server.requests()[0].body["reasoning_effort"], "low");
    let finished = finish(asked().env("DEEPAGENTS_EFFORT", "medium").args(["--trust", "Go"]));
    assert!(finished.err.contains("may not set notify.command"), "{finished:?}");
    assert_eq!(server.requests()[1].body["reasoning_effort"], "medium");
    let themed = finish(place.command(&["config", "get", "theme"]).env("DEEPAGENTS_THEME", "contrast"));
    assert!(themed.out == "contrast\n" && themed.err.contains("(environment, DEEPAGENTS_THEME)"), "{themed:?}");
    assert!(!place.root.path().join("owned").exists());
}

#[test]
fn an_address_from_settings_gets_no_key_of_a_model_named_elsewhere() {
    let place = Place::new();
    let server = Server::start([Reply::Text(vec!["Hello."])]);
    place.out(&["config", "set", "base_url", &server.address]);
    let root = place.root.path().to_str().unwrap();
    let mut command = place.command(&["run", "--root", root, "--model", "openai:gpt-5.2", "--timeout", "3", "Go"]);
    // An unusable proxy, so that the provider cannot be reached.
    let finished = finish(command.env("OPENAI_API_KEY", "sk-1").env("HTTPS_PROXY", "http://127.0.0.1:1"));
    assert!(finished.code != Some(0) && server.requests().is_empty(), "{finished:?}");
    place.out(&["config", "set", "model", "local-model"]);
    let finished = finish(&mut place.command(&["run", "--root", root, "Go"]));
    assert_eq!((finished.code, server.requests().len()), (Some(0), 1), "{finished:?}");
}

#[test]
fn the_published_schema_matches_the_program() {
    let place = Place::new();
    let schema: Value = serde_json::from_str(&place.out(&["config", "schema"])).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.schema.json");
    let published: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(schema, published, "write it anew: deepagents config schema > docs/config.schema.json");
}

#[test]
fn a_key_is_stored_privately_is_used_and_can_be_forgotten() {
    let place = Place::new();
    let set = finish_with(&mut place.command(&["auth", "set", "openai"]), "sk-secret-4711\n");
    assert!(set.code == Some(0) && !set.out.contains("4711"), "{set:?}");
    let file = place.home.path().join(".deepagents/auth.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = place.out(&["auth", "list"]);
    assert!(listed.contains("openai") && listed.contains("kept") && !listed.contains("4711"), "{listed}");
    assert!(place.out(&["doctor"]).contains("OPENAI_API_KEY"));
    let refused = finish_with(&mut place.command(&["auth", "set", "nobody"]), "x\n");
    assert!(refused.wrong_usage().contains("there is no provider `nobody`"));
    let none = finish(&mut place.command(&["auth", "remove", "groq"]));
    assert!(none.wrong_usage().contains("`deepagents auth list` shows the stored ones"), "{none:?}");
    let refused = finish_with(&mut place.command(&["auth", "set", "openai"]), "two words\n");
    assert!(refused.one_message().contains("that is not a key"));
    let empty = finish_with(&mut place.command(&["auth", "set", "openai"]), "\n");
    assert!(empty.wrong_usage().contains("there is no key on stdin"), "{empty:?}");
    let refused = finish_with(&mut place.command(&["auth", "set", "openai"]), "sk-one\nsk-two\n");
    assert!(refused.wrong_usage().contains("stdin has several lines"), "{refused:?}");
    // The writer may keep the pipe open.
    let mut waits = place.command(&["auth", "set", "openai"]);
    let mut waits = waits.stdin(Stdio::piped()).stdout(Stdio::null()).start();
    let mut open = waits.stdin.take().unwrap();
    open.write_all(b"sk-secret-4711\n").unwrap();
    assert!(waits.wait().unwrap().success());
    drop(open);
    let mut piped = Command::new("sh");
    piped.args(["-c", "printf 'sk-\\377' | \"$0\" auth set openai"]).arg(deepagents().get_program());
    let refused = finish(piped.env("HOME", place.home.path()).stdin(Stdio::null()));
    assert!(refused.wrong_usage().contains("not text in UTF-8"), "{refused:?}");

    // A file that others could read is fixed by the next command that reads it.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let listed = finish(&mut place.command(&["auth", "list"]));
    assert!(listed.code == Some(0) && listed.err.contains("mode 0644") && !listed.err.contains("4711"), "{listed:?}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(finish(&mut place.command(&["auth", "list"])).err, "");
    place.out(&["auth", "remove", "openai"]);
    assert!(place.out(&["auth", "list"]).contains("there are no keys"));
    fs::write(&file, "{").unwrap();
    assert!(finish(&mut place.command(&["auth", "list"])).one_message().contains("remove it and add your keys again"));
    let doctor = finish(&mut place.command(&["doctor"]));
    assert!(doctor.code == Some(1) && doctor.out.contains("none are set; stored keys: "), "{doctor:?}");
    let run = finish(&mut place.command(&["run", "--root", ".", "x"]));
    assert!(run.one_message().contains("the stored keys cannot be used: "), "{run:?}");
}

#[test]
fn concurrent_key_and_setting_writes_are_all_kept() {
    let place = Place::new();
    let providers = ["openai", "anthropic", "mistral", "groq", "deepseek"];
    let settings = ["vi", "tool_search", "progress", "screen_reader", "text_tool_calls"];
    let start = |args: &[&str]| {
        let mut command = place.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).start()
    };
    let keys = providers.map(|name| start(&["auth", "set", name]));
    let set = settings.map(|name| start(&["config", "set", name, "true"]));
    for mut one in keys {
        one.stdin.take().unwrap().write_all(b"sk-secret\n").unwrap();
        assert!(one.wait().unwrap().success());
    }
    for mut one in set {
        assert!(one.wait().unwrap().success());
    }
    let listed = place.out(&["auth", "list"]);
    assert!(providers.iter().all(|name| listed.contains(name)), "{listed}");
    let text = fs::read_to_string(place.file()).unwrap();
    assert!(settings.iter().all(|name| text.contains(&format!("{name} = true"))), "{text}");
    let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.file()), 0o600);
    fs::set_permissions(place.file(), fs::Permissions::from_mode(0o644)).unwrap();
    let keys = place.home.path().join(".deepagents/auth.json");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).unwrap();
    place.out(&["config", "set", "vi", "false"]);
    place.out(&["auth", "remove", "openai"]);
    assert_eq!((mode(&place.file()), mode(&keys)), (0o644, 0o600), "keys are the user's alone");
}

#[test]
fn abandoning_the_key_prompt_restores_the_terminal() {
    let place = Place::new();
    let mut command = Command::new("sh");
    let script = "\"$0\" auth set openai; echo code $?; stty -a";
    command.args(["-c", script]).arg(deepagents().get_program()).env("HOME", place.home.path());
    let mut terminal = Terminal::start(&mut command);
    terminal.wait_for("it is not shown");
    terminal.press_until("sk-secret\u{3}", "code 130");
    let (_, seen) = terminal.end();
    assert!(seen.contains(" echo ") && seen.contains("isig ") && !seen.contains("-isig"), "{seen:?}");
    assert!(!seen.contains("sk-secret") && !place.home.path().join(".deepagents/auth.json").exists(), "{seen:?}");
}

#[test]
fn a_changed_setting_keeps_its_comment_and_other_errors_are_reported_first() {
    let place = Place::new();
    fs::create_dir_all(place.file().parent().unwrap()).unwrap();
    fs::write(place.file(), "theme = \"light\" # mine\n").unwrap();
    place.out(&["config", "set", "theme", "dark"]);
    assert_eq!(fs::read_to_string(place.file()).unwrap(), "theme = \"dark\" # mine\n");
    let shared = finish(&mut place.command(&["config", "set", "keys.search", "ctrl-o"]));
    assert!(
        shared.code == Some(0) && shared.err.contains("ctrl-o is bound to both keys.details and keys.search"),
        "{shared:?}"
    );
    let wrong = "approve = \"yolo\"\n";
    fs::write(place.file(), wrong).unwrap();
    let refused = finish(&mut place.command(&["config", "set", "vi", "off"]));
    assert!(refused.code == Some(1) && refused.one_message().contains("yolo"), "{refused:?}");
    assert_eq!(fs::read_to_string(place.file()).unwrap(), wrong);
    place.out(&["config", "set", "approve", "ask"]);
}

#[test]
fn a_user_without_a_key_is_asked_for_one_and_can_start() {
    let place = Place::new();
    let root = place.root.path().to_str().unwrap().to_owned();
    let mut command = place.command(&["--root", &root]);
    let mut terminal = Terminal::start(command.env("TERM", "xterm-256color").env("NO_COLOR", "1"));
    terminal.wait_for("Which provider");
    // Unchanged cells are not drawn again, so the test cannot wait for text drawn over the list.
    terminal.type_in("openai\r");
    terminal.type_in("sk-typed-4711\r");
    terminal.wait_for("the key is stored");
    terminal.wait_for("model: openai:");
    terminal.type_in("/quit\r");
    let (code, seen) = terminal.end();
    assert!(code == Some(0) && !seen.contains("4711"), "{seen:?}");
    let kept = fs::read_to_string(place.home.path().join(".deepagents/auth.json")).unwrap();
    assert!(kept.contains("sk-typed-4711"));
}

#[test]
fn administrator_settings_override_everything_else() {
    if Command::new("unshare").arg("--version").output().is_err() {
        return skip("sandbox", "there is no unshare");
    }
    let place = Place::new();
    fs::create_dir_all(place.file().parent().unwrap()).unwrap();
    fs::write(place.file(), "theme = \"light\"\nvi = true\n").unwrap();
    // In a mount namespace, so that the machine is not changed.
    let script = "set -e; mount -t tmpfs none /etc; mkdir /etc/deepagents; \
                  echo 'theme = \"contrast\"' > /etc/deepagents/config.toml; exec \"$@\"";
    let managed = |args: &[&str]| {
        let program = place.command(args);
        let mut inside = Command::new("unshare");
        inside.args(["-Urm", "sh", "-c", script, "sh"]).arg(program.get_program()).args(program.get_args());
        inside.current_dir(place.root.path()).env("HOME", place.home.path()).env("DEEPAGENTS_THEME", "ansi");
        finish(inside.stdin(Stdio::null()))
    };
    let theme = managed(&["config", "get", "theme"]);
    if theme.err.contains("unshare:") || theme.err.contains("mount:") {
        return skip("sandbox", theme.err);
    }
    assert!(theme.out == "contrast\n" && theme.err.contains("(managed, /etc/deepagents/config.toml)"), "{theme:?}");
    let vi = managed(&["config", "get", "vi"]);
    assert!(vi.out == "true\n" && vi.err.contains("(user, "), "{vi:?}");
    assert!(!Path::new("/etc/deepagents/config.toml").exists());
}

#[test]
fn calls_in_text_are_made_only_when_a_flag_or_a_setting_allows_it() {
    const SAID: &str = "```json\n{\"name\": \"ls\", \"arguments\": {\"path\": \"/\"}}\n```";
    let place = Place::new();
    fs::write(place.root.path().join("hello.txt"), "x").unwrap();
    let calls = |options: &[&str]| {
        let server = Server::start([Reply::Text(vec![SAID]), Reply::Text(vec!["Done."])]);
        let mut command = run(place.root.path(), &server.address);
        let finished = finish(command.env("HOME", place.home.path()).args(options).args(["--no-save", "look"]));
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let requests = server.requests();
        let last = requests.last().unwrap().body["messages"].as_array().unwrap().last().cloned().unwrap();
        (requests.len(), last["content"].as_str().unwrap_or_default().contains("hello.txt"))
    };
    assert_eq!(calls(&[]), (1, false), "the text is the answer");
    assert_eq!(calls(&["--text-tool-calls"]), (2, true));
    place.out(&["config", "set", "text_tool_calls", "true"]);
    assert_eq!(calls(&[]), (2, true));
}

#[test]
fn key_bindings_that_would_make_the_screens_unusable_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let set = |name: &str, key: &str| finish(deepagents().env("HOME", home.path()).args(["config", "set", name, key]));
    for (name, key, why) in [
        ("keys.stop", "enter", "sends the message"),
        ("keys.details", "a", "types a character"),
        ("keys.details", "shift-a", "types a character"),
        ("keys.mode", "space", "types a character"),
        ("keys.editor", "ctrl-c", "stops what is in progress"),
        ("keys.quit", "ctrl-1", "is not sent by terminals"),
        ("keys.quit", "ctrl-i", "from Tab or Enter"),
        ("keys.quit", "ctrl-shift-a", "is not sent by terminals"),
    ] {
        let refused = set(name, key);
        assert!(refused.code != Some(0) && refused.err.contains(why), "{key}: {refused:?}");
    }
    for key in ["alt-enter", "ctrl-t", "f5", "ctrl-space", "alt-a", "shift-tab", "ctrl-7"] {
        let taken = set("keys.details", key);
        assert_eq!(taken.code, Some(0), "{key}: {taken:?}");
    }
}

#[test]
fn the_tool_that_edits_files_can_be_chosen_in_settings_and_options() {
    let place = Place::new();
    let has = |more: &[&str]| {
        let json = place.out(&[&["explain", "--json", "--root", "."], more].concat());
        let json: Value = serde_json::from_str(&json).unwrap();
        let tools = json["tools"].as_array().unwrap().clone();
        ["edit_file", "apply_patch"].map(|name| tools.iter().any(|tool| tool["name"] == name))
    };
    assert_eq!(has(&[]), [true, false]);
    place.out(&["config", "set", "edit_tool", "apply_patch"]);
    assert_eq!(has(&[]), [false, true]);
    assert_eq!(has(&["--edit-tool", "both"]), [true, true]);
    finish(&mut place.command(&["config", "set", "edit_tool", "sed"])).wrong_usage();
}

#[test]
fn settings_of_a_project_that_cannot_be_read_are_left_out_and_stop_no_run() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("config.toml"), "model = \"theirs\"\n").unwrap();
    for kind in ["pipe", "device", "directory", "link", "linked directory"] {
        let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let own = dir.path().join(".deepagents");
        if kind == "linked directory" {
            symlink(outside.path(), &own).unwrap();
        } else {
            fs::create_dir(&own).unwrap();
        }
        let file = own.join("config.toml");
        match kind {
            "pipe" => assert!(Command::new("mkfifo").arg(&file).status().unwrap().success()),
            "device" => symlink("/dev/zero", &file).unwrap(),
            "directory" => fs::create_dir(&file).unwrap(),
            "link" => symlink(outside.path().join("config.toml"), &file).unwrap(),
            _ => {}
        }
        for more in [&[][..], &["--trust"]] {
            let server = Server::start([Reply::Text(vec!["Done."])]);
            let done = finish(run(dir.path(), &server.address).env("HOME", home.path()).args(more).args(["-q", "Go"]));
            assert_eq!((done.code, done.out.as_str()), (Some(0), "Done.\n"), "{kind}: {done:?}");
            assert!(done.err.contains("config.toml` is not used"), "{kind}: {done:?}");
        }
    }
}

#[test]
fn a_directory_that_may_not_be_entered_is_named_as_what_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o000)).unwrap();
    if dir.path().join(".").metadata().is_ok() {
        return skip("permissions", "no directory is closed to root");
    }
    let refused = finish(deepagents().args(["run", "--model", "x:y", "--root"]).arg(dir.path()).arg("Go"));
    let closed = format!("the directory `{}` cannot be entered: ", dir.path().display());
    assert!(refused.err.contains(&closed) && !refused.err.contains("HOME"), "{refused:?}");
}
