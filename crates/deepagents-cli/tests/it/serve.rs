//! `deepagents serve` and its project files.

use std::fs;
use std::path::Path;
use std::process::Command;

use deepagents_testing::skip::skip;
use serde_json::{Value, json};

use crate::mcp::SERVER;
use crate::program::{deepagents, finish, hangup_is_ignored};
use crate::server::{Reply, Server};
use crate::serving::Place;

#[test]
fn project_agents_have_their_own_prompts_and_paths_relative_to_the_file() {
    let place = Place::new();
    place.write("prompts/two.md", "You are the second one.");
    let model = format!("model = \"test-model\"\nbase_url = {:?}\n", place.model.address);
    let two = format!("[agents.two]\ndescription = \"Says more.\"\nsystem_prompt_file = \"prompts/two.md\"\n{model}");
    place.describe(&format!("system_prompt = \"You are the first one.\"\n{two}[store]\nsqlite = \"kept.db\"\n"));
    let serving = place.serve_project();
    let (_, found) = serving.ask("POST", "/assistants/search", "", &json!({}));
    let mut found: Vec<(&str, &Value)> =
        found.as_array().unwrap().iter().map(|one| (one["name"].as_str().unwrap(), &one["description"])).collect();
    found.sort_by_key(|(name, _)| *name);
    assert_eq!(found, [("one", &Value::Null), ("two", &json!("Says more."))]);
    let values = serving.say("one");
    assert_eq!(values["messages"][1]["content"], "Hello.");
    assert!(place.system().contains("You are the first one."), "{}", place.system());
    serving.say("two");
    assert!(place.system().contains("You are the second one."), "{}", place.system());
    assert!(place.path().join("kept.db").is_file());
}

#[test]
fn project_file_errors_show_the_line_and_what_to_do() {
    let place = Place::new();
    for (rest, line, why) in [
        ("modle = \"x\"\n", 4, "unknown field `modle`"),
        ("effort = \"huge\"\n", 4, "unknown variant `huge`"),
        ("system_prompt = [\n", 4, "unclosed array"),
        ("approve = \"allow-list\"\n", 4, "ask, auto or deny"),
        ("system_prompt = \"a\"\nsystem_prompt_file = \"b\"\n", 5, "remove one"),
        ("permissions = [{ paths = [\"docs\"], operations = [\"read\"], mode = \"deny\" }]\n", 4, "begin with a slash"),
        ("[agents.one.commands]\nsandbox = \"unconfined\"\nallow_hosts = [\"a.example\"]\n", 6, "whole network"),
        ("[agents.one.mcp_servers.docs]\ncommand = \"a\"\nurl = \"https://b.example\"\n", 4, "both"),
        ("[store]\nsqlite = \"a\"\npostgres_env = \"B\"\n", 6, "remove one"),
        ("[auth.jwt]\nissuer = \"https://a.example\"\naudience = []\n", 6, "name an audience"),
        ("[limits.users.ada]\nusd_per_week = 1\n", 5, "unknown field `usd_per_week`"),
        ("[server]\ntls_cert = \"a\"\n", 4, "must be given together"),
        ("[agents.\"sup port\"]\n", 4, "letters, digits"),
    ] {
        place.describe(rest);
        let message = place.refused();
        assert!(message.contains(&format!("deepagents.toml:{line}: ")) && message.contains(why), "{rest}: {message}");
    }
    place.write("deepagents.toml", "[server]\n");
    assert!(place.refused().contains("[agents.NAME]"));
    place.describe("[store]\npostgres_env = \"NO_SUCH_VARIABLE\"\n");
    assert!(place.refused().contains("NO_SUCH_VARIABLE"));
    place.describe("[server]\norigins = [\"*\"]\n");
    assert!(place.refused().contains("[auth]"));
    place.describe("[auth.jwt]\nissuer = \"http://a.example\"\naudience = [\"b\"]\n");
    assert!(place.refused().contains("not an https:// address"));
    place.describe("");
    place.write("some.pem", "nothing of that kind");
    let at = |name: &str| place.path().join(name).display().to_string();
    for (file, why) in [("none.pem", "No such file"), ("some.pem", "contains no TLS certificates")] {
        let mut command = place.command();
        let refused = finish(command.args(["--tls-cert", &at(file), "--tls-key", &at("other.pem")]));
        let message = refused.wrong_usage();
        assert!(message.contains(&at(file)) && message.contains(why) && !message.contains("other.pem"), "{message}");
    }
    let mut command = place.command();
    let keyless = finish(command.args(["--model", "anthropic:claude-sonnet-4-5", "--root"]).arg(place.path()));
    assert!(keyless.one_message().contains("ANTHROPIC_API_KEY"), "{keyless:?}");
    let unread = finish(place.command().args(["--tokens", "/no/such"]));
    assert!(unread.wrong_usage().contains("the token file `/no/such` cannot be read"), "{unread:?}");
    for name in ["a b", "", ".."] {
        let unnamed = finish(place.command().args(["--name", name]));
        let refused = format!("--name cannot be `{name}`: a name may only have letters");
        assert!(unnamed.wrong_usage().contains(&refused), "{unnamed:?}");
    }
    let missing = finish(place.command().arg(place.path().join("other")));
    assert!(missing.wrong_usage().contains("name a directory"), "{missing:?}");
}

#[test]
fn a_directory_with_an_agent_json_is_served_as_described() {
    let place = Place::new();
    place.write(
        "agent.json",
        &json!({
            "name": "researcher", "description": "Finds things out.", "backend": {"type": "default"},
            "runtime": {"model": {"model_id": "test-model"}}, "permissions": {"identity": "shared"},
        })
        .to_string(),
    );
    place.write("AGENTS.md", "You find things out.");
    place.write("skills/cite/SKILL.md", "---\nname: cite\ndescription: Cites sources well.\n---\nCite.\n");
    place.write("subagents/critic/agent.json", "{\"description\": \"Criticises drafts.\"}");
    place.write("subagents/critic/AGENTS.md", "You criticise.");
    let serving = place.serve(|command| command.arg(place.path()).args(["--base-url", &place.model.address]));
    serving.say("researcher");
    let request = place.model.requests().pop().unwrap().body;
    let (system, tools) = (request["messages"][0].to_string(), request["tools"].to_string());
    assert!(system.contains("You find things out.") && system.contains("Cites sources well."), "{system}");
    assert!(tools.contains("Criticises drafts.") || system.contains("Criticises drafts."), "{tools}");
    drop(serving);
    for (file, text, why) in [
        ("agent.json", "{\"name\": \"a\", \"modle\": 1}", "unknown field `modle`"),
        ("agent.json", "{\"name\": \" \"}", "`name` is empty"),
        ("agent.json", "{\"name\": \"a\", \"backend\": {\"type\": \"sandbox\"}}", "--root"),
        ("tools.json", "{\"tools\": [{\"name\": \"a\", \"mcp_server_url\": \"ftp://b\"}]}", "is not the address"),
        ("subagents/critic/tools.json", "{\"tools\": [{\"name\": \"a\", \"mcp_server_url\": \"https://b\"}]}", "too"),
        ("subagents/critic/AGENTS.md", " ", "it is empty"),
    ] {
        let before = fs::read_to_string(place.path().join(file)).ok();
        place.write(file, text);
        let message = place.refused();
        assert!(message.contains(why) && message.contains(Path::new(file).to_str().unwrap()), "{file}: {message}");
        match before {
            Some(before) => place.write(file, &before),
            None => fs::remove_file(place.path().join(file)).unwrap(),
        }
    }
}

#[test]
fn changed_agents_are_reloaded_and_kept_while_the_new_description_is_unusable() {
    let place = Place::new();
    place.describe("system_prompt = \"You are the first one.\"\n");
    let serving = place.serve(|command| command.arg(place.path()).arg("--watch"));
    serving.say("one");
    assert!(place.system().contains("You are the first one."));
    place.describe("system_prompt = \"You are the next one.\"\n");
    serving.wait_for("reloaded: one");
    serving.say("one");
    assert!(place.system().contains("You are the next one."));
    place.describe("system_prompt = 7\n");
    serving.wait_for("the agents were not reloaded");
    serving.say("one");
    assert!(place.system().contains("You are the next one."));
}

#[test]
fn consent_to_the_tools_of_a_server_is_kept_when_the_agents_are_reloaded() {
    let place = Place::new();
    for (name, text) in [("server.sh", SERVER), ("says", "Says it again.")] {
        fs::write(place.dir.path().join(name), text).unwrap();
    }
    let script = place.dir.path().join("server.sh");
    place.write(".mcp.json", &json!({"mcpServers": {"alpha": {"command": "/bin/sh", "args": [script]}}}).to_string());
    place.describe("trust = true\n");
    let serving = place.serve(|command| command.arg(place.path()).arg("--watch"));
    serving.say("one");
    place.describe("trust = true\nsystem_prompt = \"You are the next one.\"\n");
    serving.wait_for("reloaded: one");
    let home = place.dir.path().join("home");
    let known = finish(deepagents().env("HOME", home).args(["trust", "list"]));
    assert!(known.out.contains("mcp__alpha__echo"), "{known:?}");
}

#[test]
fn tokens_and_limits_from_the_project_file_apply() {
    let place = Place::new();
    place.write("tokens", "ada the-token-of-ada-is-long\nbob the-token-of-bob-is-long\n");
    place.describe("[auth]\ntokens = \"tokens\"\n[limits.users.ada]\nrequests_per_minute = 1\n");
    let serving = place.serve_project();
    let status = |token| serving.ask("GET", "/info", token, &json!({})).0;
    assert_eq!(status(""), 401);
    assert_eq!((status("the-token-of-ada-is-long"), status("the-token-of-ada-is-long")), (200, 429));
    assert_eq!((status("the-token-of-bob-is-long"), status("the-token-of-bob-is-long")), (200, 200));
}

#[test]
fn without_a_project_user_settings_apply_as_in_run() {
    let place = Place::new();
    fs::create_dir_all(place.path()).unwrap();
    let own = place.dir.path().join("home/.deepagents");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("config.toml"), format!("model = \"test-model\"\nbase_url = {:?}\n", place.model.address))
        .unwrap();
    let serving = place.serve(|command| command.arg("--root").arg(place.path()));
    assert_eq!(serving.say("agent")["messages"][1]["content"], "Hello.");
}

#[test]
fn the_published_project_file_schema_matches_the_program() {
    let schema = finish(deepagents().args(["serve", "--schema"]));
    let schema: Value = serde_json::from_str(&schema.out).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/deepagents.schema.json");
    let published: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(schema, published, "write it anew: deepagents serve --schema > docs/deepagents.schema.json");
}

#[test]
fn only_an_agent_whose_client_can_be_asked_may_ask_its_user() {
    let ship = json!({"question": "Which ship?", "choices": ["Fram", "Gjøa"]});
    let model = Server::by_rule(move |request| {
        let messages = request["messages"].as_array().cloned().unwrap_or_default();
        let offered = request["tools"].to_string().contains("ask_user");
        match messages.last().map(|last| last["role"].clone()) {
            Some(role) if role == "tool" => Reply::Text(vec!["Thank you."]),
            _ if offered => Reply::Call("ask_user", ship.clone()),
            _ => Reply::Text(vec!["Hello."]),
        }
    });
    let place = Place { dir: tempfile::tempdir().unwrap(), model };
    let model = format!("model = \"test-model\"\nbase_url = {:?}\n", place.model.address);
    let auto = format!("[agents.auto]\napprove = \"auto\"\n{model}");
    place.describe(&format!("{auto}[agents.both]\napprove = \"auto\"\nquestions = true\n{model}"));
    let serving = place.serve_project();
    assert_eq!(serving.say("auto")["messages"][1]["content"], "Hello.");
    assert!(serving.say("both")["__interrupt__"].is_array());
    let (_, thread) = serving.ask("POST", "/threads", "", &json!({}));
    let runs = format!("/threads/{}/runs/wait", thread["thread_id"].as_str().unwrap());
    let input = json!({"messages": [{"role": "user", "content": "Name it."}]});
    let (_, waits) = serving.ask("POST", &runs, "", &json!({"assistant_id": "one", "input": input}));
    let asked = &waits["__interrupt__"][0]["value"];
    assert_eq!(asked["action_requests"][0]["name"], "ask_user");
    assert_eq!(asked["action_requests"][0]["args"], json!({"question": "Which ship?", "choices": ["Fram", "Gjøa"]}));
    assert_eq!(asked["review_configs"][0]["allowed_decisions"], json!(["respond", "reject"]));
    let resume = json!({"resume": {"decisions": [{"type": "respond", "message": "2"}]}});
    let (status, values) = serving.ask("POST", &runs, "", &json!({"assistant_id": "one", "command": resume}));
    assert_eq!(status, 200, "{values}");
    let messages = values["messages"].as_array().unwrap();
    assert_eq!(messages[2]["content"], "The user chose: Gjøa");
    assert_eq!(messages[3]["content"], "Thank you.");
}

#[test]
fn a_public_address_is_refused_without_tokens() {
    let place = Place::new();
    place.describe("");
    let mut command = deepagents();
    command.env("HOME", place.dir.path()).args(["serve", "--listen", "0.0.0.0:0"]).arg(place.path());
    let refused = finish(&mut command);
    assert!(refused.wrong_usage().contains("--tokens"), "{refused:?}");
    place.write("deepagents.toml", "[server]\nlisten = \"0.0.0.0:0\"\n[agents.one]\nmodel = \"openai:x\"\n");
    let mut command = deepagents();
    command.env("HOME", place.dir.path()).arg("serve").arg(place.path());
    assert!(finish(&mut command).wrong_usage().contains("--tokens"));
}

#[cfg(unix)]
#[test]
fn a_signal_shuts_the_server_down_cleanly_and_the_next_one_has_the_threads() {
    ended_by("-TERM");
    if hangup_is_ignored() {
        return skip("hangup", "the tests were started with SIGHUP ignored");
    }
    ended_by("-HUP");
}

#[cfg(unix)]
fn ended_by(signal: &str) {
    let place = Place::new();
    place.describe("");
    let mut serving = place.serve_project();
    let (_, thread) = serving.ask("POST", "/threads", "", &json!({}));
    let path = format!("/threads/{}", thread["thread_id"].as_str().unwrap());
    let input = json!({"assistant_id": "one", "input": {"messages": [{"role": "user", "content": "hi"}]}});
    assert_eq!(serving.ask("POST", &format!("{path}/runs/wait"), "", &input).0, 200);
    let pid = serving.child.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
    let again = place.serve_project();
    let (_, state) = again.ask("GET", &format!("{path}/state"), "", &json!({}));
    assert_eq!(state["values"]["messages"][1]["content"], "Hello.", "{state}");
}

#[test]
fn a_browser_conversation_continues_in_the_terminal_with_its_model_and_mode() {
    let place = Place::obeying();
    fs::create_dir_all(place.path()).unwrap();
    let serving = place.serve(|command| {
        command.args(["--name", "one", "--model", "test-model", "--base-url", &place.model.address, "--root"]);
        command.arg(place.path())
    });
    let metadata = json!({"approve": "auto", "base_url": "http://evil.example", "mine": 1});
    let (_, thread) = serving.ask("POST", "/threads", "", &json!({"metadata": metadata}));
    assert_eq!(thread["metadata"], json!({"mine": 1}), "what the program notes no client sets");
    let id = thread["thread_id"].as_str().unwrap();
    let input = json!({"messages": [{"role": "user", "content": "Say hello.\nPlease."}]});
    let wait = format!("/threads/{id}/runs/wait");
    let (status, values) = serving.ask("POST", &wait, "", &json!({"assistant_id": "one", "input": input}));
    assert_eq!(status, 200, "{values}");
    let (_, patched) = serving.ask("PATCH", &format!("/threads/{id}"), "", &json!({"metadata": {"approve": "auto"}}));
    let (shown, title) = (&patched["metadata"], &patched["metadata"]["title"]);
    assert_eq!((title, &shown["mine"]), (&json!("Say hello."), &json!(1)), "{shown}");
    for own in ["root", "model", "base_url", "approve", "process", "noted_by"] {
        assert!(shown.get(own).is_none(), "{own}: {shown}");
    }
    drop(serving);
    let home = place.dir.path().join("home");
    let program = |args: &[&str]| finish(deepagents().env("HOME", &home).current_dir(place.path()).args(args));
    let listed = program(&["threads", "list"]);
    assert!(listed.out.contains("Say hello."), "{listed:?}");
    let asked = program(&["run", "--continue", "call write_file {\"file_path\": \"/a.txt\", \"content\": \"x\"}"]);
    assert!(asked.code == Some(1) && asked.err.contains("? write_file /a.txt"), "{asked:?}");
    assert!(!place.path().join("a.txt").exists());
    assert_eq!(place.model.requests().pop().unwrap().body["model"], "test-model");
}

#[test]
fn no_served_agent_sees_or_changes_what_defines_it_or_holds_the_servers_secrets() {
    let place = Place::obeying();
    let tokens = "ada aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n";
    place.write("tokens", tokens);
    place.write("mcp.json", "{\"mcpServers\": {}}");
    place.write("prompt.md", "You are the one.");
    place.write("plain.txt", "plain\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n");
    let settings = "approve = \"auto\"\nmcp_config = \"mcp.json\"\nsystem_prompt_file = \"prompt.md\"\n\
                    [auth]\ntokens = \"tokens\"\n[server]\naudit = \"audit.jsonl\"\n";
    place.describe(settings);
    let serving = place.serve_project();
    let token = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let call = |name: &str, arguments: &Value| {
        let input = json!({"messages": [{"role": "user", "content": format!("call {name} {arguments}")}]});
        let (status, values) =
            serving.ask("POST", "/runs/wait", token, &json!({"assistant_id": "one", "input": input}));
        assert_eq!(status, 200, "{values}");
        let result = values["messages"][2]["content"].as_str();
        // A person is asked before a file is changed that settings name, and nobody answers here.
        assert!(result.is_some() || values["__interrupt__"].is_array(), "{values}");
        result.unwrap_or_default().to_owned()
    };
    assert!(call("read_file", &json!({"file_path": "/plain.txt"})).contains("plain"));
    let contents = || {
        let files = ["deepagents.toml", "tokens", "mcp.json", "prompt.md"];
        files.map(|file| fs::read_to_string(place.path().join(file)).unwrap())
    };
    let before = contents();
    for file in ["deepagents.toml", "tokens", "mcp.json", "prompt.md", "audit.jsonl"] {
        let path = format!("/{file}");
        let read = call("read_file", &json!({"file_path": path}));
        assert!(read.contains("denied") || read.contains("not found"), "{file}: {read}");
        call("write_file", &json!({"file_path": path, "content": "[agents.one]"}));
        call("delete", &json!({"file_path": path}));
    }
    let found = call("grep", &json!({"pattern": token}));
    assert!(found.contains("plain.txt") && !found.contains("tokens"), "{found}");
    assert_eq!(contents(), before);
    assert!(fs::read_to_string(place.path().join("audit.jsonl")).unwrap().lines().count() > 10);
}

#[test]
fn a_project_file_in_the_home_directory_does_not_make_all_of_it_the_root() {
    let place = Place::new();
    place.describe("");
    let mut command = place.command();
    let refused: crate::program::Finished = finish(command.env("HOME", place.path()).arg(place.path()));
    let message = refused.one_message();
    assert!(message.contains("is your home directory") && message.contains("set `root`"), "{message}");
}

#[test]
fn secrets_that_other_users_can_read_are_pointed_out() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.describe("");
    place.write("tokens", "ada aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n");
    let tokens = place.path().join("tokens");
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o644)).unwrap();
    let remarks = |place: &Place| {
        let mut command = place.command();
        // A database that cannot be opened ends it after the settings were read.
        command.args(["--db", "/dev/null/threads.db", "--tokens"]).arg(&tokens).arg(place.path());
        finish(&mut command).err
    };
    assert!(remarks(&place).contains("chmod 600"));
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!remarks(&place).contains("chmod 600"));
}

#[test]
fn a_thread_that_the_terminal_continued_in_a_stricter_mode_is_not_continued_by_a_laxer_agent() {
    let place = Place::obeying();
    let home = place.dir.path().join("home");
    let call = |file: &str| format!("call write_file {{\"file_path\": \"/{file}\", \"content\": \"x\"}}");
    let input = |text: &str| json!({"assistant_id": "one", "input": {"messages": [{"role": "user", "content": text}]}});
    for (mode, wanted) in [("deny", "deny"), ("allow-list", "deny"), ("ask", "ask")] {
        place.describe("root = \".\"\napprove = \"auto\"\n");
        let serving = place.serve_project();
        let id = serving.ask("POST", "/threads", "", &json!({})).1["thread_id"].as_str().unwrap().to_owned();
        let wait = format!("/threads/{id}/runs/wait");
        assert_eq!(serving.ask("POST", &wait, "", &input("hi")).0, 200);
        let program = |args: &[&str]| finish(deepagents().env("HOME", &home).current_dir(place.path()).args(args));
        let terminal = program(&["run", "--approve", mode, "--resume", &id, &call("terminal.txt")]);
        assert!(!place.path().join("terminal.txt").exists(), "{terminal:?}");

        let (status, answer) = serving.ask("POST", &wait, "", &input(&call("served.txt")));
        let why = answer["detail"].as_str().unwrap_or_default();
        assert_eq!(status, 409, "{answer}");
        let (mode_named, serve) = (format!("`{mode}`"), format!("approve = \"{wanted}\""));
        for words in [&*mode_named, "`auto`", &format!("run --resume {id}"), &serve] {
            assert!(why.contains(words), "{why}");
        }
        // The stored mode still holds in the terminal.
        let terminal = program(&["run", "--resume", &id, &call("again.txt")]);
        drop(serving);

        // An agent in that mode continues it.
        place.describe(&format!("root = \".\"\napprove = {wanted:?}\n"));
        let serving = place.serve_project();
        assert_eq!(serving.ask("POST", &wait, "", &input(&call("served.txt"))).0, 200);
        let written = ["served.txt", "again.txt"].map(|name| place.path().join(name).exists());
        assert_eq!(written, [false, false], "{mode}: {terminal:?}");
    }
}
