//! Servers that fail to start.

use std::time::Duration;

use deepagents_core::event::MiddlewareEvent;
use deepagents_mcp::{McpServers, ServerConfig, ServerState, TransportConfig};
use deepagents_models::scripted::Turn;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::odd_http::{Address, Reply};
use crate::script::{Script, agent, alone, echo, offered, one_call, options, results, run, text};

#[tokio::test]
async fn a_server_that_cannot_start_does_not_affect_the_others() {
    let script = Script::new(&[echo()], text("echoed"));
    let broken = Script::new(&[echo()], "").at_start("echo 'no token' >&2; exit 4");
    let servers = McpServers::new(
        [
            ("alpha", script.config()),
            ("broken", broken.config()),
            ("missing", ServerConfig::stdio("/no/such/program", ["x"])),
        ],
        options(),
    );
    let (agent, model) = agent(&servers, one_call("echo", json!({})));
    let (outcome, told) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(results(&outcome), [("echoed".to_owned(), false)]);
    assert_eq!(offered(&model, 0), ["mcp__alpha__echo"]);
    let problems: Vec<&String> = told
        .iter()
        .filter_map(|event| match event {
            MiddlewareEvent::McpServer { problem, .. } => problem.as_ref(),
            _ => None,
        })
        .collect();
    let says = |words: [&str; 2]| problems.iter().any(|problem| words.iter().all(|word| problem.contains(word)));
    assert!(says(["broken", "no token"]) && says(["missing", "/no/such/program"]), "{problems:?}");
    assert_eq!((broken.pids().len(), problems.len()), (1, 2));
}

#[tokio::test]
async fn a_program_that_exits_at_once_is_said_to_have_ended() {
    // Some of them end before the first message is written, and some after that.
    let names: Vec<String> = (0..8).map(|n| format!("s{n}")).collect();
    let exits = |name| (name, ServerConfig::stdio("/bin/sh", ["-c", "exec <&-; exit 0"]));
    let servers = McpServers::new(names.iter().map(exits), options());
    servers.ready().await;
    for status in servers.status() {
        let problem = status.problem().unwrap();
        assert!(problem.contains("it ended before it answered"), "{problem}");
    }
    servers.close().await;
}

#[tokio::test]
async fn a_server_that_never_answers_is_abandoned_at_its_timeout() {
    let script = Script::new(&[echo()], "").at_start("sleep 600");
    let servers = alone(script.config().start_timeout(Duration::from_millis(200)));
    let (agent, model) = agent(&servers, [Turn::text("Done.")]);
    let (outcome, _) = run(&agent, "Go.").await;
    assert_eq!(outcome.text(), "Done.");
    assert_eq!(offered(&model, 0), [""; 0]);
    let status = servers.status();
    assert!(status[0].problem().unwrap().contains("did not answer"), "{status:?}");
    servers.close().await;
}

#[tokio::test]
async fn a_slow_server_does_not_delay_the_run_and_is_offered_once_it_answers() {
    let script = Script::new(&[echo()], text("echoed")).at_start("until [ -e go ]; do sleep 0.02; done");
    let ready_timeout = Some(Duration::from_millis(50));
    let servers =
        McpServers::new([("slow", script.config())], deepagents_mcp::McpOptions { ready_timeout, ..options() });
    let (agent, model) = agent(&servers, [Turn::text("Without."), Turn::text("With.")]);
    let (_, told) = run(&agent, "Go.").await;
    assert_eq!(offered(&model, 0), [""; 0]);
    let told = format!("{told:?}");
    assert!(
        told.contains("slow is still starting; waiting for it") && told.contains("going on without its tools"),
        "{told}"
    );
    std::fs::write(script.file("go"), "").unwrap();
    crate::script::eventually("an answer", || servers.status()[0].state == ServerState::Connected).await;
    run(&agent, "And now?").await;
    servers.close().await;
    assert_eq!(offered(&model, 1), ["mcp__slow__echo"]);
}

#[tokio::test]
async fn of_very_many_tools_the_first_are_offered_without_delay() {
    let tool = |number: u32| json!({"name": format!("t{number:06}"), "inputSchema": {"type": "object"}});
    let tools: Vec<serde_json::Value> = (0..100_000).map(tool).collect();
    let script = Script::new(&tools, text("echoed"));
    let servers = alone(script.config());
    servers.ready().await;
    let status = servers.status();
    servers.close().await;
    assert_eq!((status[0].problem(), status[0].tools.len()), (None, 5_000));
}

#[tokio::test]
async fn noise_on_stdout_and_stderr_is_ignored() {
    let noise = "echo 'Welcome!'; echo '{not json'; i=0; while [ $i -lt 3000 ]; do echo noise noise noise noise noise >&2; i=$((i+1)); done";
    let script = Script::new(&[echo()], format!("echo DEBUG\n{}", text("echoed"))).at_start(noise);
    let servers = alone(script.config());
    let (agent, _) = agent(&servers, one_call("echo", json!({})));
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(results(&outcome), [("echoed".to_owned(), false)]);
}

#[tokio::test]
async fn a_servers_stderr_goes_to_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new(&[echo()], text("echoed")).at_start("echo 'starting up' >&2");
    let options = deepagents_mcp::McpOptions { log_dir: Some(folder.path().join("logs")), ..options() };
    let servers = McpServers::new([("my-server", script.config())], options);
    servers.ready().await;
    servers.close().await;
    let log = folder.path().join("logs/my-server.log");
    crate::script::eventually("the log", || std::fs::read_to_string(&log).is_ok_and(|log| log == "starting up\n"))
        .await;
    let mode = std::os::unix::fs::PermissionsExt::mode(&log.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn servers_whose_names_differ_only_in_what_no_file_name_has_do_not_share_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let options = deepagents_mcp::McpOptions { log_dir: Some(folder.path().to_owned()), ..options() };
    let printing = |words: &str| Script::new(&[echo()], "").at_start(&format!("echo 'I am {words}' >&2"));
    let scripts = [("a b", printing("one")), ("a_b", printing("two")), ("a/b", printing("three"))];
    let servers = McpServers::new(scripts.iter().map(|(name, script)| (*name, script.config())), options);
    servers.ready().await;
    servers.close().await;
    let logs = || {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
        let mut logs: Vec<_> = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        logs.sort_unstable();
        logs
    };
    crate::script::eventually("the logs", || logs() == ["I am one\n", "I am three\n", "I am two\n"]).await;
    assert_eq!(std::fs::read_to_string(folder.path().join("a_b.log")).unwrap(), "I am two\n");
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_can_read_the_log_of_a_server_not_even_one_of_an_earlier_version() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.log");
    std::fs::write(&old, "").unwrap();
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o644)).unwrap();
    for name in ["new", "old"] {
        let script = Script::new(&[echo()], text("echoed")).at_start("echo 'token 123' >&2");
        let options = deepagents_mcp::McpOptions { log_dir: Some(folder.path().to_owned()), ..options() };
        let servers = McpServers::new([(name, script.config())], options);
        servers.ready().await;
        servers.close().await;
        let log = folder.path().join(format!("{name}.log"));
        let has_log = || std::fs::read_to_string(&log).is_ok_and(|log| log == "token 123\n");
        crate::script::eventually("the log", has_log).await;
        assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn an_unknown_protocol_version_is_refused_by_name() {
    let odd = r#"read -r line; say "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32601,\"message\":\"unknown\"}}"
read -r line; say "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"1999-01-01\",\"capabilities\":{},\"serverInfo\":{\"name\":\"old\",\"version\":\"1\"}}}""#;
    let script = Script::new(&[], "").at_start(odd);
    let servers = alone(script.config());
    servers.ready().await;
    let status = servers.status();
    assert!(status[0].problem().unwrap().contains("1999-01-01"), "{status:?}");
    servers.close().await;
}

#[tokio::test]
async fn an_address_that_needs_authorisation_is_reported_once_without_secrets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let mut requests = 0;
        while let Ok((mut stream, _)) = listener.accept().await {
            requests += 1;
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let answer = "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer realm=\"x\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
            assert!(requests <= 3, "it is asked again and again");
        }
    });
    let servers = alone(ServerConfig::http(address).header("Authorization", "Bearer secret-token-99"));
    servers.ready().await;
    let status = servers.status();
    let problem = status[0].problem().unwrap();
    assert!(problem.contains("alpha") && problem.contains("401") && problem.contains("login alpha"), "{problem}");
    assert!(!format!("{servers:?}{problem}").contains("secret-token-99"));
    servers.close().await;
    assert!(!serving.is_finished());
    serving.abort();
}

#[tokio::test]
async fn a_server_that_ends_after_listing_its_tools_is_restarted_at_most_once_per_call() {
    // Storing so many tools takes longer than noticing that the server has ended.
    let many: Vec<_> = (0..2_000)
        .map(|number| json!({"name": format!("t{number}"), "description": "x".repeat(1_000), "inputSchema": {"type": "object"}}))
        .chain([echo()])
        .collect();
    let ends = r#"say() { printf '%s\n' "$1"; case "$1" in *'"tools":['*) exit 3 ;; esac; }"#;
    let script = Script::new(&many, text("echoed")).at_start(ends);
    let cache = tempfile::tempdir().unwrap();
    let cache_dir = Some(cache.path().to_owned());
    let servers = McpServers::new([("alpha", script.config())], deepagents_mcp::McpOptions { cache_dir, ..options() });
    let (agent, _) = agent(&servers, one_call("echo", json!({})));
    let running = tokio::time::timeout(Duration::from_secs(60), run(&agent, "Go."));
    let (outcome, _) = running.await.expect("the call ends");
    servers.close().await;
    let (told, is_error) = results(&outcome).remove(0);
    assert!(is_error && told.contains("ended"), "{told}");
    assert!((1..=2).contains(&script.pids().len()), "{:?}", script.pids());
}

#[tokio::test]
async fn a_closed_server_is_not_restarted() {
    let script = Script::new(&[echo()], text("echoed"));
    let servers = alone(script.config());
    servers.ready().await;
    servers.close().await;
    servers.connect().await;
    assert_eq!(script.pids().len(), 1);
    assert_ne!(servers.status()[0].state, ServerState::Connected);
}

#[tokio::test]
async fn an_address_that_is_not_a_server_is_described_in_plain_words() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let page = "<html>log in</html>";
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length:";
            let _ = stream.write_all(format!("{head} {}\r\n\r\n{page}", page.len()).as_bytes()).await;
        }
    });
    let servers = alone(ServerConfig::http(address));
    servers.ready().await;
    let status = servers.status();
    let problem = status[0].problem().unwrap();
    assert!(problem.contains("it answered with text/html") && !problem.contains("Some("), "{problem}");
    servers.close().await;
    serving.abort();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_has_no_terminal() {
    // The sixth field of `/proc/PID/stat` is the session ID.
    let script = Script::new(&[echo()], text("echoed")).at_start("cut -d' ' -f6 /proc/$$/stat > session");
    let servers = alone(script.config());
    let (agent, _) = agent(&servers, one_call("echo", json!({})));
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(results(&outcome), [("echoed".to_owned(), false)]);
    let session: i32 = std::fs::read_to_string(script.file("session")).unwrap().trim().parse().unwrap();
    assert_eq!(script.pids(), [session]);
}

#[tokio::test]
async fn unreachable_addresses_and_missing_directories_are_reported_with_the_reason() {
    // No server listens on this port.
    let address = ServerConfig::http("http://127.0.0.1:1/mcp");
    let mut elsewhere = ServerConfig::stdio("/bin/sh", ["-c", "true"]);
    if let TransportConfig::Stdio(program) = &mut elsewhere.transport {
        program.cwd = Some("/no/such/place".into());
    }
    let servers = McpServers::new([("alpha", address), ("beta", elsewhere)], options());
    servers.ready().await;
    let status = servers.status();
    servers.close().await;
    assert!(status[0].problem().unwrap().contains("Connection refused"), "{status:?}");
    assert!(
        status[1]
            .problem()
            .unwrap()
            .contains("the directory `/no/such/place`, in which it would start, does not exist"),
        "{status:?}"
    );
}

#[test]
fn a_server_on_this_machine_is_reached_directly_whatever_the_systems_proxy() {
    const ROLE: &str = "A_PROCESS_WITH_A_PROXY";
    if std::env::var_os(ROLE).is_none() {
        let name = "starts::a_server_on_this_machine_is_reached_directly_whatever_the_systems_proxy";
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        program.args([name, "--exact"]).env(ROLE, "1").env_remove("NO_PROXY").env_remove("no_proxy");
        // No proxy listens on this port.
        let told = program.env("HTTP_PROXY", "http://127.0.0.1:1").env("http_proxy", "http://127.0.0.1:1").output();
        let told = told.unwrap();
        let said = String::from_utf8_lossy(&told.stdout);
        assert!(told.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let servers = alone(ServerConfig::http(Address::serve(|_, _| Reply::Usual).await.url));
        servers.ready().await;
        let status = servers.status();
        servers.close().await;
        assert_eq!(status[0].problem(), None);
    });
}
