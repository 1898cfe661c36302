//! The fuzz targets and the guarantees that must hold for all inputs.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::Result;
use deepagents_core::journal;
use deepagents_fs::VPath;
use deepagents_fs::edit::{self, Edit};
use deepagents_fs::permissions::{AccessMode, CommandRule, Operation, Permissions, Rule};
use deepagents_fs::sandbox::{HostPattern, Proxy};
use deepagents_fs::search::GlobQuery;
use deepagents_models::{Anthropic, Dialect, ModelConfig, OpenAiChat};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

/// Checks one input. The error says which guarantee was broken.
pub(crate) type Check = Box<dyn FnMut(&[u8]) -> Result<(), String>>;

pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) samples: &'static [&'static str],
    pub(crate) start: fn() -> Result<Check>,
}

pub(crate) const TARGETS: [Target; 15] = [
    Target {
        name: "paths",
        samples: &["/a/b.txt", "a//./b", "/a/../b", "C:\\x\\y", "~/x", "/\u{e9}/\u{202e}"],
        start: paths,
    },
    Target {
        name: "patterns",
        samples: &["/src/**/*.rs", "{a,b{c,d}}/*", "[!a-z]?x", "/**/.env", "\\*\\{x", "a/**/b/**/c", "[[:alpha:]]"],
        start: patterns,
    },
    Target {
        name: "rules",
        samples: &[
            r#"[{"operations":["read","write"],"paths":["/secrets/**","/**/*.pem"],"mode":"deny"}]"#,
            r#"[{"operations":["write"],"paths":["/{a,b}/*"],"mode":"ask"},{"operations":["read"],"paths":["/**"]}]"#,
        ],
        start: rules,
    },
    Target {
        name: "edits",
        samples: &["one\ntwo\r\nthree\n", "\u{feff}x\ny", "aaaaaaaa", "x\u{0}y\u{e9}"],
        start: edits,
    },
    Target {
        name: "commands",
        samples: &[
            "git push origin main",
            "cd sub && cargo test 2>&1 | tail -n 5",
            "for f in *.rs; do echo \"$f\"; done",
            "cat <<'EOF' > out\ntext $(x)\nEOF",
            "X=$(env A=1 sh -c 'git push') timeout 5 xargs rm -rf",
            "case $x in a|b) `y`;; esac; f() { ${z:-w}; }",
        ],
        start: commands,
    },
    Target {
        name: "proxy",
        samples: &[
            "GET http://127.0.0.1:9/ HTTP/1.1\r\nHost: example.org\r\n\r\n",
            "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n",
            "POST http://[::1]:80/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc",
        ],
        start: proxy,
    },
    Target {
        name: "anthropic",
        samples: &[
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"ls\",\"input\":{}}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"path\\\":1}\"}}\n\nevent: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":9}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
            "{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"stop_reason\":\"end_turn\",\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}",
        ],
        start: anthropic,
    },
    Target {
        name: "openai",
        samples: &[
            "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"tool_calls\":[{\"index\":0,\"id\":\"t\",\"function\":{\"name\":\"ls\",\"arguments\":\"{\\\"a\\\"\"}}]}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
            "{\"id\":\"c\",\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"hi\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}",
        ],
        start: openai,
    },
    Target {
        name: "journal",
        samples: &[
            r#"{"v":2,"record":"run_started","run":"run_2aebf53d6214b7389afab5dc","at":"2026-11-22T12:34:56.789Z"}"#,
            r#"{"v":2,"record":"update","update":[["messages",[{"put":{"role":"user","id":"m","content":[{"type":"text","text":"Write."}]}}]]]}"#,
            r#"{"v":2,"record":"step","machine":{"phase":"tools","turn":1,"calls":1,"limit":9999,"idle":0,"stop":"done"}}"#,
            r#"{"v":2,"record":"tool_started","call":{"turn":0,"index":0},"wire_id":"c","name":"ls","repeatable":false}"#,
            r#"{"v":99,"record":"later"}"#,
        ],
        start: journal_records,
    },
    Target {
        name: "requests",
        samples: &[
            "POST /runs/wait\n{\"assistant_id\":\"agent\",\"input\":{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}}",
            "POST /threads/t/runs/stream\n{\"assistant_id\":\"agent\",\"if_not_exists\":\"create\",\"stream_mode\":[\"values\",\"debug\"],\"input\":{\"messages\":[{\"type\":\"human\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}]}}",
            "POST /threads/t/runs/wait\n{\"assistant_id\":\"agent\",\"command\":{\"resume\":{\"decisions\":[{\"type\":\"approve\"}]}}}",
            "POST /threads/t/state\n{\"values\":{\"messages\":[{\"role\":\"tool\",\"tool_call_id\":\"x\",\"content\":\"y\"}],\"files\":{\"/a\":\"b\"}},\"as_node\":\"tools\"}",
            "POST /threads/t/history\n{\"limit\":3,\"before\":{\"configurable\":{\"checkpoint_id\":\"1\"}}}",
            "POST /threads/search\n{\"metadata\":{\"a\":1},\"status\":\"idle\",\"sort_by\":\"updated_at\",\"limit\":5}",
            "POST /threads/t/commands\n{\"id\":1,\"method\":\"run.start\",\"params\":{\"assistant_id\":\"agent\",\"input\":{\"messages\":[]}}}",
            "POST /threads/t/stream/events\n{\"channels\":[\"values\",\"messages\"],\"since\":3}",
            "POST /runs/crons\n{\"assistant_id\":\"agent\",\"schedule\":\"*/5 0-6,8 1 1 *\",\"timezone\":\"Europe/Oslo\",\"input\":{}}",
            "POST /store/items/search\n{\"namespace_prefix\":[\"a\"],\"filter\":{\"x\":{\"$gt\":1}},\"query\":\"words\"}",
            "PUT /store/items\n{\"namespace\":[\"a\"],\"key\":\"k\",\"value\":{\"x\":2},\"ttl\":0.5}",
            "POST /a2a/agent\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"message/send\",\"params\":{\"message\":{\"role\":\"user\",\"messageId\":\"m\",\"parts\":[{\"kind\":\"text\",\"text\":\"hi\"}]}}}",
            "POST /a2a/agent\n{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"tasks/get\",\"params\":{\"id\":\"t\",\"historyLength\":2}}",
            "POST /mcp\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"agent\",\"arguments\":{\"message\":\"hi\"}}}",
            "GET /threads/t/history?limit=3&before=%7B%22x%22%3A1%7D\n",
            "GET /threads/t/runs?limit=2&offset=1&status=success&select=run_id&select=status\n",
            "GET /store/items?namespace=a.b&key=k&refresh_ttl=true\n",
            "GET /threads/t/runs/0197a000-0000-7000-8000-000000000000/stream?stream_mode=values&cancel_on_disconnect=1\n",
            "GET /assistants/agent/graph?xray=2\n",
        ],
        start: crate::served::requests,
    },
    Target {
        name: "heads",
        samples: &[
            "GET /threads/t/stream?stream_mode=lifecycle HTTP/1.1\nhost: localhost\nlast-event-id: 1-2\naccept: text/event-stream\nconnection: close\n\n",
            "POST /runs/stream HTTP/1.1\nhost: 127.0.0.1:2024\norigin: http://localhost:3000\nx-api-key: k\nauthorization: Bearer a.b.c\ncontent-type: application/json; charset=utf-8\ntransfer-encoding: chunked\nconnection: close\n\n18\n{\"assistant_id\":\"agent\"}\n0\n\n",
            "OPTIONS /threads HTTP/1.1\nhost: [::1]:80\norigin: null\naccess-control-request-method: PATCH\naccess-control-request-headers: x-api-key, content-type\nconnection: close\n\n",
            "GET /threads/t/stream HTTP/1.1\nhost: localhost\nconnection: Upgrade\nupgrade: websocket\nsec-websocket-version: 13\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\nsec-websocket-protocol: v2, token.x\n\n",
            "GET / HTTP/1.1\nhost: localhost\naccept-encoding: gzip;q=0.5, br\nif-none-match: \"a\", W/\"b\"\nrange: bytes=0-9,20-\naccept-language: de;q=0.1\nconnection: close\n\n",
            "POST /mcp HTTP/1.1\nhost: localhost\nmcp-session-id: x\nmcp-protocol-version: 2025-11-25\naccept: application/json, text/event-stream\ncontent-type: application/json\ncontent-length: 46\nconnection: close\n\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}",
            "POST /a2a/agent HTTP/1.1\nhost: localhost\na2a-version: 1.0\na2a-extensions: https://a.example/x\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\ntracestate: a=b\nbaggage: c=d\ncontent-type: application/json\ncontent-length: 2\nconnection: close\n\n{}",
        ],
        start: crate::served::heads,
    },
    Target { name: "tokens", samples: &[crate::served::TOKEN], start: crate::served::tokens },
    Target {
        name: "keys",
        samples: &[
            r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"k","alg":"ES256","x":"AAAA","y":"BBBB"}]}"#,
            r#"{"keys":[{"kty":"RSA","kid":"k","alg":"RS256","n":"AQAB","e":"AQAB"},{"kty":"oct","kid":"k","k":"AAAA"}]}"#,
        ],
        start: crate::served::keys,
    },
    Target {
        name: "remote",
        samples: &[
            "event: metadata\ndata: {\"run_id\":\"r\"}\nid: 1\n\nevent: messages|tools:1\ndata: [{\"type\":\"AIMessageChunk\",\"id\":\"m\",\"content\":\"hi\"},{\"langgraph_node\":\"model\"}]\n\nevent: values\ndata: {\"messages\":[{\"type\":\"ai\",\"id\":\"m\",\"content\":\"hi\",\"usage_metadata\":{\"input_tokens\":3,\"output_tokens\":2}}]}\n\n",
            "event: values\ndata: {\"__interrupt__\":[{\"id\":\"i\",\"value\":{\"action_requests\":[{\"name\":\"x\",\"args\":{}}],\"review_configs\":[]}}]}\n\n",
            "event: error\ndata: {\"error\":\"E\",\"message\":\"no\"}\n\n",
        ],
        start: crate::served::remote_stream,
    },
    Target {
        name: "a2a",
        samples: &[
            r#"{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t","contextId":"c","status":{"state":"completed"},"artifacts":[{"artifactId":"a","parts":[{"kind":"text","text":"hi"}]}]}}"#,
            r#"{"name":"there","url":"http://127.0.0.1:9/","capabilities":{"streaming":false},"skills":[],"protocolVersion":"0.3.0"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no task"}}"#,
        ],
        start: crate::served::remote_answers,
    },
];

fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

/// A parsed path parses to itself and never leads above the root.
fn paths() -> Result<Check> {
    Ok(Box::new(|input| {
        let Ok(path) = VPath::parse(&text(input)) else { return Ok(()) };
        let again = VPath::parse(path.as_str()).map_err(|error| format!("{path} is no path any more: {error}"))?;
        let sound =
            again == path && path.as_str().starts_with('/') && path.as_str().split('/').all(|part| part != "..");
        if sound { Ok(()) } else { Err(format!("{path} is not in its own form, {again}")) }
    }))
}

/// A pattern is either rejected or usable.
fn patterns() -> Result<Check> {
    let path = VPath::parse("/src/deep/main.rs")?;
    Ok(Box::new(move |input| {
        let pattern = text(input);
        let _ = GlobQuery::new(&pattern, VPath::root());
        if let Ok(rules) = Permissions::new([Rule::new(AccessMode::Deny, [pattern.into_owned()])]) {
            let _ = rules.decide_tree(Operation::Write, &path);
        }
        Ok(())
    }))
}

/// If a path is denied, everything below it is denied.
fn rules() -> Result<Check> {
    let paths: Vec<VPath> =
        ["/", "/secrets/key", "/a/b", "/x.pem"].into_iter().map(VPath::parse).collect::<Result<_, _>>()?;
    Ok(Box::new(move |input| {
        let Ok(rules) = serde_json::from_slice::<Vec<Rule>>(input) else { return Ok(()) };
        let Ok(rules) = Permissions::new(rules) else { return Ok(()) };
        for path in &paths {
            for operation in [Operation::Read, Operation::Write] {
                let (one, tree) = (rules.decide(operation, path).mode, rules.decide_tree(operation, path).mode);
                if one == AccessMode::Deny && tree != AccessMode::Deny {
                    return Err(format!("{path} is denied, and with all below it {tree:?}"));
                }
            }
        }
        Ok(())
    }))
}

/// An edit replaces what it names or changes nothing.
fn edits() -> Result<Check> {
    let path = VPath::parse("/f")?;
    Ok(Box::new(move |input| {
        let (content, rest) = input.split_at(input.len() / 2);
        let (old, new) = rest.split_at(rest.len() / 2);
        let edit = Edit { old: text(old).into_owned(), new: text(new).into_owned(), replace_all: input.len() % 2 == 0 };
        match edit::apply(&path, content, std::slice::from_ref(&edit)) {
            Ok((_, replaced)) if replaced.iter().all(|count| *count > 0) => Ok(()),
            Ok((_, replaced)) => Err(format!("{replaced:?} replacements are a success")),
            Err(_) => Ok(()),
        }
    }))
}

/// A command gets a decision, and the narrow rule derived from it allows it.
fn commands() -> Result<Check> {
    let listed = [CommandRule::new(AccessMode::Deny, ["git push", "rm -rf *"])];
    let rules = Permissions::default().with_commands(listed, AccessMode::Ask)?;
    Ok(Box::new(move |input| {
        let command = text(input);
        let _ = rules.decide_command(&command);
        let Some(narrow) = CommandRule::narrow_for(&command) else { return Ok(()) };
        let narrow =
            Permissions::default().with_commands([narrow], AccessMode::Ask).map_err(|error| error.to_string())?;
        let mode = narrow.decide_command(&command).mode;
        if mode == AccessMode::Allow { Ok(()) } else { Err(format!("its own rule says {mode:?}")) }
    }))
}

/// The proxy connects only to the one allowed host, and a client gets a response or a closed connection.
#[allow(clippy::disallowed_methods, reason = "the client of the proxy")]
fn proxy() -> Result<Check> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let proxy = Proxy::start(listener, vec!["nowhere.invalid".parse::<HostPattern>()?])?;
    Ok(Box::new(move |input| {
        // Keeps the proxy alive.
        let _ = &proxy;
        let told = |error: std::io::Error| format!("the proxy is gone: {error}");
        let mut client = TcpStream::connect(address).map_err(told)?;
        client.set_read_timeout(Some(Duration::from_secs(1))).map_err(told)?;
        // The proxy may close the connection early.
        let _ = client.write_all(input).and_then(|()| client.shutdown(Shutdown::Write));
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        let good = answer.windows(12).any(|part| part == b"HTTP/1.1 200");
        if good { Err(format!("it was let through: {}", answer.escape_ascii())) } else { Ok(()) }
    }))
}

fn headers(input: &[u8]) -> HeaderMap {
    let kind = if input.starts_with(b"{") { "application/json" } else { "text/event-stream" };
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))])
}

fn anthropic() -> Result<Check> {
    let model = Anthropic::new("fuzz", ModelConfig::default())?;
    Ok(Box::new(move |input| {
        let _ = model.decode(200, &headers(input), input);
        let _ = model.decode(429, &headers(input), input);
        Ok(())
    }))
}

fn openai() -> Result<Check> {
    let config = ModelConfig { base_url: Some("http://localhost/v1".to_owned()), ..ModelConfig::default() };
    let model = OpenAiChat::new(Dialect::custom(), "fuzz", config)?;
    Ok(Box::new(move |input| {
        let _ = model.decode(200, &headers(input), input);
        let _ = model.decode(500, &headers(input), input);
        Ok(())
    }))
}

/// A parsed record is serialised unchanged.
fn journal_records() -> Result<Check> {
    Ok(Box::new(|input| {
        let Ok(record) = journal::decode("fuzz", 0, &text(input)) else { return Ok(()) };
        let once = journal::encode(&record).map_err(|error| format!("it cannot be written: {error}"))?;
        let again = journal::decode("fuzz", 0, &once).map_err(|error| format!("{once} cannot be read: {error}"))?;
        let twice = journal::encode(&again).map_err(|error| format!("it cannot be written: {error}"))?;
        if once == twice { Ok(()) } else { Err(format!("{once} became {twice}")) }
    }))
}
