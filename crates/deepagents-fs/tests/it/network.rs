//! The host allow-list: commands reach the listed hosts through the proxy, and nothing else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use deepagents_fs::sandbox::{HostPattern, Level, Network, Sandbox, SandboxPolicy};
use deepagents_fs::shell::{Command, CommandOutput, Exit, Shell, ShellError};
use deepagents_testing::skip::{self, skip};
use proptest::prelude::*;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use crate::executables;
use crate::sandbox::{Jail, has, helper, marker, running_with, sandbox};
use crate::shell::{LIMIT, dies, ends};

fn jail(hosts: &[&str]) -> Option<Jail> {
    let network = Network::allow(hosts.iter().copied()).unwrap();
    has("curl").then(|| Jail::new(SandboxPolicy { network, ..Default::default() })).flatten()
}

/// A request as the server received it: the lines of its head, and its body.
type Seen = (Vec<String>, Vec<u8>);

/// An HTTP server on the host's loopback interface that answers `hello` and records requests.
struct Server {
    port: u16,
    seen: mpsc::Receiver<Seen>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, seen) = mpsc::channel();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if let Some(asked) = answer(stream)
                    && tell.send(asked).is_err()
                {
                    return;
                }
            }
        });
        Self { port, seen }
    }

    fn seen(&self) -> Seen {
        self.seen.recv_timeout(LIMIT).unwrap()
    }

    fn is_untouched(&self) -> bool {
        self.seen.try_recv().is_err()
    }
}

fn answer(mut stream: TcpStream) -> Option<Seen> {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let line = |reader: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        Some(line.trim_end().to_owned())
    };
    let mut head = Vec::new();
    loop {
        match line(&mut reader)? {
            end if end.is_empty() => break,
            text => head.push(text),
        }
    }
    let mut body = Vec::new();
    if let Some(length) = head.iter().find_map(|line| line.strip_prefix("Content-Length: ")) {
        body.resize(length.parse().unwrap(), 0);
        reader.read_exact(&mut body).ok()?;
    }
    if head.contains(&"Transfer-Encoding: chunked".to_owned()) {
        loop {
            let size = usize::from_str_radix(&line(&mut reader)?, 16).unwrap();
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk).ok()?;
            body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                break;
            }
        }
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n").unwrap();
    Some((head, body))
}

fn printed(done: &CommandOutput) -> (Exit, &str) {
    (done.exit, done.output.as_str())
}

#[tokio::test]
async fn only_listed_hosts_are_reachable_through_the_proxy() {
    let (server, other) = (Server::start(), Server::start());
    let Some(jail) = jail(&[&format!("127.0.0.1:{}", server.port)]) else { return };
    let done = jail.run(&format!("curl -sS http://127.0.0.1:{}/path?q", server.port)).await;
    assert_eq!(printed(&done), (Exit::Code(0), "hello\n"));
    assert_eq!(done.refused, Vec::<String>::new());
    let (head, _) = server.seen();
    assert_eq!(head[0], "GET /path?q HTTP/1.1");
    assert!(head.contains(&format!("Host: 127.0.0.1:{}", server.port)), "{head:?}");

    let done = jail.run(&format!("curl -sS -w '%{{http_code}}\n' --noproxy '' http://127.0.0.1:{}/", other.port)).await;
    let refusal = format!("127.0.0.1:{} is not on the list of hosts that commands may reach\n403\n", other.port);
    assert_eq!(printed(&done), (Exit::Code(0), refusal.as_str()));
    assert_eq!(done.refused, [format!("127.0.0.1:{}", other.port)]);
    assert!(other.is_untouched());
}

#[tokio::test]
async fn a_listed_host_is_unreachable_without_the_proxy() {
    let server = Server::start();
    let Some(jail) = jail(&[&format!("127.0.0.1:{}", server.port)]) else { return };
    let done = jail.run(&format!("curl -sS --noproxy '*' http://127.0.0.1:{}/", server.port)).await;
    assert_eq!(done.exit, Exit::Code(7), "{}", done.output);
    let done = jail.run("curl -sS --noproxy '*' --connect-timeout 2 http://192.0.2.1/").await;
    assert_eq!(done.exit, Exit::Code(7), "{}", done.output);
    assert!(server.is_untouched());
}

#[tokio::test]
async fn a_tunnel_carries_bytes_in_both_directions() {
    let server = Server::start();
    let Some(jail) = jail(&[&format!("localhost:{}", server.port)]) else { return };
    let body = "x".repeat(100_000);
    std::fs::write(jail.path("body"), &body).unwrap();
    let done =
        jail.run(&format!("curl -sS --proxytunnel --data-binary @body http://localhost:{}/up", server.port)).await;
    assert_eq!(printed(&done), (Exit::Code(0), "hello\n"));
    let (head, seen) = server.seen();
    assert_eq!((head[0].as_str(), seen.len()), ("POST /up HTTP/1.1", body.len()));

    let done = jail.run("curl -sS https://example.org/").await;
    assert_eq!(done.exit, Exit::Code(56), "{}", done.output);
    assert!(done.output.contains("403"), "{}", done.output);
    assert_eq!(done.refused, ["example.org:443"]);
}

#[tokio::test]
async fn bodies_arrive_complete_with_a_length_or_in_chunks() {
    let server = Server::start();
    let Some(jail) = jail(&[&format!("localhost:{}", server.port)]) else { return };
    let body = "0123456789".repeat(20_000);
    std::fs::write(jail.path("body"), &body).unwrap();
    for how in ["", "-H 'Transfer-Encoding: chunked'", "-H 'Expect: 100-continue' --expect100-timeout 0.1"] {
        let text = format!("curl -sS {how} --data-binary @body http://localhost:{}/up", server.port);
        let done = jail.run(&text).await;
        assert_eq!(printed(&done), (Exit::Code(0), "hello\n"), "{how}");
        assert!(server.seen().1 == body.as_bytes(), "{how}");
    }
}

#[tokio::test]
async fn host_names_ignore_case_and_a_trailing_dot() {
    let server = Server::start();
    let Some(jail) = jail(&[&format!("LocalHost.:{}", server.port)]) else { return };
    for name in ["localhost", "LOCALHOST", "localhost.", "LocalHost."] {
        let done = jail.run(&format!("curl -sS --noproxy '' http://{name}:{}/", server.port)).await;
        assert_eq!(printed(&done), (Exit::Code(0), "hello\n"), "{name}");
        assert!(server.seen().0.contains(&format!("Host: localhost:{}", server.port)));
    }
}

/// A loopback name of this machine other than `localhost`, with its address.
fn other_name() -> Option<(String, std::net::IpAddr)> {
    use std::net::ToSocketAddrs;
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let names = [own, "ip6-localhost".to_owned(), "localhost.localdomain".to_owned()];
    let found = names.into_iter().find_map(|name| {
        let address = (name.as_str(), 80).to_socket_addrs().ok()?.next()?.ip();
        format!("{name}:80").parse::<HostPattern>().ok()?;
        Some((name, address))
    });
    if found.is_none() {
        skip("other names", "this machine has no other name for itself");
    }
    found
}

#[tokio::test]
async fn a_listed_name_gives_no_access_to_an_address_of_this_machine() {
    let Some((name, address)) = other_name() else { return };
    let Ok(listener) = TcpListener::bind((address, 0)) else { return skip("other names", "none may be listened at") };
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let Some(jail) = jail(&[&format!("{name}:{port}")]) else { return };
    let done = jail.run(&format!("curl -sS -w '%{{http_code}}\n' http://{name}:{port}/")).await;
    assert!(done.output.contains("private network") && done.output.ends_with("403\n"), "{}", done.output);
    assert_eq!(done.refused, [format!("{}:{port}", name.to_lowercase())]);
    let done = jail.run(&format!("curl -sS --proxytunnel http://{name}:{port}/")).await;
    assert!(done.output.contains("403"), "{}", done.output);
    assert_eq!(done.refused, [format!("{}:{port}", name.to_lowercase())]);
    assert!(listener.accept().is_err());
}

#[tokio::test]
async fn an_address_of_this_machine_is_reachable_by_name_if_both_are_listed() {
    let Some((name, address)) = other_name() else { return };
    let Ok(listener) = TcpListener::bind((address, 0)) else { return skip("other names", "none may be listened at") };
    let port = listener.local_addr().unwrap().port();
    let address = if address.is_ipv6() { format!("[{address}]:{port}") } else { format!("{address}:{port}") };
    let Some(jail) = jail(&[&format!("{name}:{port}"), &address]) else { return };
    let serve = std::thread::spawn(move || answer(listener.accept().unwrap().0));
    let done = jail.run(&format!("curl -sS http://{name}:{port}/")).await;
    assert_eq!(printed(&done), (Exit::Code(0), "hello\n"));
    assert!(serve.join().unwrap().is_some());
}

#[tokio::test]
async fn alternative_spellings_of_an_address_are_not_resolved() {
    let server = Server::start();
    let port = server.port;
    let Some(jail) = jail(&[&format!("localhost:{port}")]) else { return };
    for host in
        ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "127.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0"]
    {
        // Written by hand, since programs normalise URLs.
        let text = format!(
            "printf 'CONNECT {host}:{port} HTTP/1.1\\r\\n\\r\\n' | curl -sS --max-time 10 \
             \"telnet://${{http_proxy#http://}}\" --noproxy '*' 2>&1 | head -1"
        );
        let done = jail.run(&text).await;
        assert!(done.output.starts_with("HTTP/1.1 40"), "{host}: {}", done.output);
    }
    assert!(server.is_untouched());
}

#[tokio::test]
async fn a_pipelined_second_request_is_not_forwarded() {
    let server = Server::start();
    let port = server.port;
    let Some(jail) = jail(&[&format!("localhost:{port}")]) else { return };
    let text = format!(
        "printf 'GET http://localhost:{port}/first HTTP/1.1\\r\\n\\r\\nGET /second HTTP/1.1\\r\\nHost: other\\r\\n\\r\\n' \
         | curl -sS --max-time 20 \"telnet://${{http_proxy#http://}}\" --noproxy '*'"
    );
    let done = jail.run(&text).await;
    assert_eq!(done.output.matches("hello").count(), 1, "{}", done.output);
    assert_eq!(server.seen().0[0], "GET /first HTTP/1.1");
    assert!(server.is_untouched());
}

#[tokio::test]
async fn invalid_requests_to_the_proxy_get_an_error_and_do_no_harm() {
    let Some(jail) = jail(&["example.org"]) else { return };
    let proxy = "curl -sS --max-time 20 --noproxy '*' -w '%{http_code}\n'";
    let done = jail.run(&format!("{proxy} $http_proxy/")).await;
    assert!(done.output.contains("this is a proxy") && done.output.ends_with("400\n"), "{}", done.output);
    std::fs::write(jail.path("long"), format!("A: {}", "x".repeat(70_000))).unwrap();
    let done = jail.run(&format!("{proxy} -H @long $http_proxy/")).await;
    assert!(done.output.ends_with("431\n"), "{}", done.output);
    // Many idle connections do not delay the end of the command.
    let text = "for i in $(seq 100); do (sleep 1000 | curl -sS --noproxy '*' \"telnet://${http_proxy#http://}\" &) ; done; echo done";
    assert_eq!(printed(&jail.run(text).await), (Exit::Code(0), "done\n"));
}

#[tokio::test]
async fn commands_find_the_proxy_through_environment_variables() {
    let Some(jail) = jail(&["example.org"]) else { return };
    let command = Command::new("env").env("https_proxy", "http://198.51.100.1:8080");
    let done = jail.shell.run(command, CancellationToken::new(), None).await.unwrap();
    let value = |name: &str| done.output.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).unwrap();
    for name in ["http_proxy", "https_proxy", "all_proxy"] {
        assert!(value(name).starts_with("http://127.0.0.1:"), "{}", done.output);
        assert_eq!(value(name), value(&name.to_uppercase()));
    }
    assert_eq!((value("no_proxy"), value("NO_PROXY")), ("localhost,127.0.0.1,::1", "localhost,127.0.0.1,::1"));
    let done = Jail::new(SandboxPolicy::default()).unwrap().run("env").await;
    assert!(!done.output.to_lowercase().contains("_proxy"), "{}", done.output);
}

/// Proxy threads of this process.
fn proxies() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks
        .filter(|task| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.contains("deepagents-prox"))
        })
        .count()
}

#[tokio::test]
async fn nothing_remains_of_a_timed_out_command_with_open_connections() {
    // In a child process, where no other test has a proxy.
    const ROLE: &str = "nothing_is_left_of_a_command";
    if std::env::var_os(ROLE).is_none() {
        let name = "network::nothing_remains_of_a_timed_out_command_with_open_connections";
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        let told = program.args([name, "--exact", "--nocapture"]).env(ROLE, "1").output().unwrap();
        skip::pass_on(&told);
        assert!(told.status.success(), "{told:?}");
        return;
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let Some(jail) = jail(&[&format!("localhost:{port}")]) else { return };
    let marker = marker(86500);
    let text =
        format!("(setsid sleep {marker} &); curl -sS --max-time {marker} http://localhost:{port}/ & sleep {marker}");
    // The command times out after it has connected; on a slow machine, in the second round.
    let mut connected = false;
    for (seconds, cancelled) in [(3, false), (30, false), (300, true)] {
        if connected && !cancelled {
            continue;
        }
        let (cancel, time) = (CancellationToken::new(), Duration::from_secs(seconds));
        let run = jail.shell.run(Command::new(text.clone()).timeout(time), cancel.clone(), None);
        let (done, connection) = tokio::join!(run, async {
            // The connection opens before anything is sent on it.
            let accepted = tokio::time::timeout(time, listener.accept()).await.ok()?;
            let mut connection = accepted.unwrap().0;
            let mut head = [0; 16];
            connection.read_exact(&mut head).await.ok()?;
            assert_eq!(&head, b"GET / HTTP/1.1\r\n");
            if cancelled {
                assert_eq!(proxies(), 1);
                cancel.cancel();
            }
            Some(connection)
        });
        let exit = done.unwrap().exit;
        assert_eq!(exit, if cancelled { Exit::Cancelled } else { Exit::TimedOut { after: time } });
        running_with(&marker).iter().for_each(|pid| dies(pid));
        // A thread that was joined is listed for a moment longer.
        let deadline = Instant::now() + LIMIT;
        while proxies() > 0 {
            assert!(Instant::now() < deadline, "a proxy is left");
            std::thread::yield_now();
        }
        // The server sees the connection close too.
        if let Some(mut connection) = connection {
            let _ = ends(connection.read_to_end(&mut Vec::new())).await;
            connected = true;
        }
    }
    assert!(connected);
}

#[tokio::test]
async fn each_command_has_its_own_allow_list() {
    let server = Server::start();
    let host = format!("localhost:{}", server.port);
    let (Some(open), Some(shut)) = (jail(&[&host]), jail(&[])) else { return };
    let text = format!("curl -sS -o /dev/null -w '%{{http_code}}' --noproxy '' http://{host}/");
    let (open, shut) = tokio::join!(open.run(&text), shut.run(&text));
    assert_eq!((open.output.as_str(), shut.output.as_str()), ("200", "403"));
}

#[test]
fn the_report_mentions_the_allow_list() {
    let report = sandbox().probe();
    if report.reason.is_none() {
        assert!(report.parts.iter().any(|part| part.name == "allow-list of hosts" && part.available), "{report}");
    }
}

#[tokio::test]
async fn commands_are_refused_where_network_namespaces_are_unavailable() {
    let Some(jail) = jail(&["example.org"]) else { return };
    let (wrapped, real) = (jail.path("helper"), helper());
    let script = format!(
        "#!/bin/sh\nexec unshare -Ur sh -c 'echo 0 > /proc/sys/user/max_net_namespaces && exec \"$@\"' sh {real} \"$@\"\n"
    );
    executables::make(&wrapped, script);
    let shell = jail.shell.clone().sandbox(Sandbox::helper(wrapped));
    let error = shell.run(Command::new("touch ran"), CancellationToken::new(), None).await.unwrap_err();
    assert!(matches!(&error, ShellError::NoSandbox(report) if report.level == Level::None), "{error}");
    assert!(error.to_string().contains("make namespaces") && !jail.path("ran").exists(), "{error}");
}

fn pattern(text: &str) -> HostPattern {
    text.parse().unwrap()
}

#[test]
fn host_patterns_cover_exactly_what_they_state() {
    let exact = pattern("Example.ORG.");
    assert!(exact.covers("example.org", 443) && exact.covers("EXAMPLE.org.", 80));
    for other in ["www.example.org", "example.org.evil.net", "notexample.org", "example.or", "", "127.0.0.1"] {
        assert!(!exact.covers(other, 443), "{other}");
    }
    assert!(!exact.covers("example.org", 22) && !exact.covers("example.org", 8080));
    let below = pattern("*.example.org:8443");
    assert!(below.covers("a.example.org", 8443) && below.covers("a.b.example.org", 8443));
    for other in ["example.org", "aexample.org", ".example.org", "a.example.org.net"] {
        assert!(!below.covers(other, 8443), "{other}");
    }
    assert!(!below.covers("a.example.org", 443));
    let address = pattern("[::FFFF:10.0.0.1]:5432");
    assert!(address.covers("10.0.0.1", 5432) && address.to_string() == "10.0.0.1:5432");
    assert!(pattern("2001:db8::1").covers("[2001:DB8:0::1]", 80));
}

#[test]
fn an_invalid_host_pattern_is_rejected_with_a_reason() {
    for text in [
        "",
        "*",
        "*.",
        "a*.org",
        "*.*.org",
        "https://a.org",
        "a.org/x",
        "a.org:",
        "a.org:0",
        "a.org:65536",
        "a.org:+1",
        "a..org",
        "-a.org",
        "a b.org",
        "a.org:80:80",
        "user@a.org",
        "127.1",
        "1",
        "0x7f.1",
        "300.1.1.1",
        "*.127.0.0.1",
        "*.[::1]",
        "[::1",
        "::1]",
        "[fe80::1%1]",
        "0.0.0.0",
        "[::]:80",
        "224.0.0.1",
        "münchen.de",
        "a.org\n",
        "a\0",
    ] {
        let error = text.parse::<HostPattern>().unwrap_err();
        assert!(error.text == text && !error.reason.is_empty(), "{error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_valid_host_pattern_or_rejected(text in "\\PC{0,40}") {
        if let Ok(pattern) = text.parse::<HostPattern>() {
            prop_assert_eq!(&pattern.to_string().parse::<HostPattern>().unwrap(), &pattern);
        }
    }

    #[test]
    fn a_host_pattern_survives_being_written_and_parsed(star in any::<bool>(), name in "[a-zA-Z0-9_]{1,8}(\\.[a-zA-Z0-9-]{1,6}){0,3}\\.?", port in proptest::option::of(1u16..)) {
        let text = format!("{}{name}{}", if star { "*." } else { "" }, port.map(|port| format!(":{port}")).unwrap_or_default());
        if let Ok(pattern) = text.parse::<HostPattern>() {
            prop_assert_eq!(&pattern.to_string().parse::<HostPattern>().unwrap(), &pattern);
            let other = text.to_ascii_uppercase().parse::<HostPattern>().unwrap();
            prop_assert_eq!(&other, &pattern);
            let host = if star { format!("x.{name}") } else { name.clone() };
            prop_assert!(pattern.covers(&host, port.unwrap_or(443)));
            prop_assert!(pattern.covers(&host.to_ascii_uppercase(), port.unwrap_or(443)));
            let longer = format!("x{host}");
            prop_assert!(!pattern.covers(&longer, port.unwrap_or(443)) || star);
            prop_assert!(!pattern.covers(&host, port.map_or(8080, |port| port ^ 1)));
        }
    }
}
