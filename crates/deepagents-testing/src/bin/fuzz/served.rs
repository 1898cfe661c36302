//! Fuzzes the server's inputs (requests, tokens, keys) and the responses that it gets from other servers.
#![allow(clippy::disallowed_methods, reason = "the other ends of sockets")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::remote::RemoteConfig;
use deepagents::subagents::RemoteSubAgent;
use deepagents::{DeepAgent, InterruptPolicy, MemoryJournal};
use deepagents_core::store::MemoryStore;
use deepagents_server::{JwtTokens, Server};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::targets::Check;

/// Time limit for a response. A stream that stays open has sent its head by then.
const HEAD_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit for a response that must arrive, generous enough for a busy machine.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The response body of the other server.
type Answer = Arc<Mutex<Vec<u8>>>;

fn runtime() -> Result<Runtime> {
    // Fails if a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?)
}

/// Builds a server whose agent needs approval for its tool call.
fn server() -> Result<Server> {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::rules().always(Turn::with(|request| match request.messages.iter().next_back() {
        Some(last) if last.as_tool().is_none() => Turn::call("write_file", json!({"file_path": "/a", "content": "b"})),
        _ => Turn::text("Done."),
    }));
    let asks: InterruptPolicy = serde_json::from_value(json!({"write_file": true}))?;
    let agent = DeepAgent::builder().model(model.build()).journal(journal.clone()).interrupt_on(asks).build()?;
    Ok(Server::new(journal, Arc::new(MemoryStore::default())).agent("agent", agent)?)
}

fn serve(runtime: &Runtime, server: Server) -> Result<SocketAddr> {
    runtime.block_on(async {
        let running = server.start().await?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(running.serve(listener, std::future::pending()));
        Ok(address)
    })
}

/// Sends a request and returns the first bytes of the response.
fn status(address: SocketAddr, request: &[u8]) -> Result<String, String> {
    status_within(address, request, HEAD_TIMEOUT)
}

fn status_within(address: SocketAddr, request: &[u8], timeout: Duration) -> Result<String, String> {
    let told = |error: std::io::Error| format!("the server is gone: {error}");
    let mut client = TcpStream::connect(address).map_err(told)?;
    client.set_read_timeout(Some(timeout)).map_err(told)?;
    // The server may close the connection early.
    let _ = client.write_all(request);
    let mut answer = [0; 12];
    let _ = client.read_exact(&mut answer);
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Every request gets a response, and never a server error. The first line of the input is the method and path, the
/// rest the body.
pub(crate) fn requests() -> Result<Check> {
    let runtime = runtime()?;
    let address = serve(&runtime, server()?)?;
    Ok(Box::new(move |input| {
        // Keeps the server's runtime alive.
        let _ = &runtime;
        let (line, body) = match input.iter().position(|byte| *byte == b'\n') {
            Some(at) => input.split_at(at),
            None => (input, &b"\n"[..]),
        };
        let body = body.get(1..).unwrap_or_default();
        let mut request = line.to_vec();
        request.extend(format!(
            " HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        ).into_bytes());
        request.extend(body);
        let status = status(address, &request)?;
        if status.starts_with("HTTP/1.1 5") { Err(status) } else { Ok(()) }
    }))
}

/// Whatever its head, a request never causes a server error, and later requests are still answered. The input is
/// everything that is sent.
pub(crate) fn heads() -> Result<Check> {
    let runtime = runtime()?;
    let address = serve(&runtime, server()?)?;
    let mut tried = 0_u32;
    Ok(Box::new(move |input| {
        let _ = &runtime;
        // Samples have plain newlines as line ends.
        let mut request = Vec::with_capacity(input.len() + 64);
        for byte in input {
            request.extend(if *byte == b'\n' { &b"\r\n"[..] } else { std::slice::from_ref(byte) });
        }
        // The server waits for the end of an unfinished head, but this test does not.
        let answer = status_within(address, &request, Duration::from_millis(50))?;
        if answer.starts_with("HTTP/1.1 5") {
            return Err(answer);
        }
        tried += 1;
        if tried.is_multiple_of(64) {
            let request = b"GET /ok HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            let next = status_within(address, request, RESPONSE_TIMEOUT)?;
            if !next.starts_with("HTTP/1.1 200") {
                return Err(format!("the next request was answered {next}"));
            }
        }
        Ok(())
    }))
}

/// Starts a server that answers each request with the shared body and the given content type.
fn answering(content_type: &'static str) -> Result<(String, Answer)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let answer = Answer::default();
    let given = answer.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let body = given.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // A client may disconnect early.
            let _ = answer_one(stream, content_type, &body);
        }
    });
    Ok((url, answer))
}

fn answer_one(mut stream: TcpStream, content_type: &str, body: &[u8]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(HEAD_TIMEOUT))?;
    let (mut head, mut bytes) = (Vec::<u8>::new(), [0; 4096]);
    // The request is read only so that closing the socket does not discard the response.
    while !head.windows(4).any(|part| part == b"\r\n\r\n") {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            count => head.extend(bytes.get(..count).unwrap_or_default()),
        }
    }
    let line = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(line.as_bytes())?;
    stream.write_all(body)
}

/// A key that has signed nothing.
const KEYS: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","alg":"ES256","use":"sig","kid":"k","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;

/// `{"alg":"ES256","kid":"k"}` and claims that would be accepted, with a signature of zeros.
pub(crate) const TOKEN: &str = "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xIiwiYXVkIjoiZnV6eiIsInN1YiI6ImFkYSIsImV4cCI6NDEwMjQ0NDgwMH0.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn guarded() -> Result<(Runtime, SocketAddr, Answer)> {
    let (keys, answer) = answering("application/json")?;
    *answer.lock().unwrap_or_else(PoisonError::into_inner) = KEYS.as_bytes().to_vec();
    let tokens = JwtTokens::with_keys_at(keys, "http://127.0.0.1", "fuzz")?.refresh_pause(Duration::ZERO);
    let runtime = runtime()?;
    let address = serve(&runtime, server()?.authenticate(tokens))?;
    Ok((runtime, address, answer))
}

fn refused(address: SocketAddr, token: &[u8]) -> Result<(), String> {
    let mut request = b"GET /info HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer ".to_vec();
    request.extend(token.iter().filter(|byte| **byte > b' ' && **byte < 0x7f));
    request.extend(b"\r\n\r\n");
    let status = status(address, &request)?;
    if status.starts_with("HTTP/1.1 4") || status.starts_with('\0') { Ok(()) } else { Err(status) }
}

/// A token that the issuer has not signed is rejected.
pub(crate) fn tokens() -> Result<Check> {
    let (runtime, address, _) = guarded()?;
    Ok(Box::new(move |input| {
        let _ = &runtime;
        refused(address, input)
    }))
}

/// Damaged keys admit nobody.
pub(crate) fn keys() -> Result<Check> {
    let (runtime, address, answer) = guarded()?;
    Ok(Box::new(move |input| {
        let _ = &runtime;
        *answer.lock().unwrap_or_else(PoisonError::into_inner) = input.to_vec();
        match refused(address, TOKEN.as_bytes()) {
            // Without any readable keys, the server cannot judge tokens.
            Err(status) if status.starts_with("HTTP/1.1 503") => Ok(()),
            judged => judged,
        }
    }))
}

/// The response of another server ends the sub-agent's call there, with a result or an error, but never the run.
fn remote(content_type: &'static str, config: fn(&str) -> Result<RemoteConfig>) -> Result<Check> {
    let (url, answer) = answering(content_type)?;
    // A task that reports progress is waited for until the deadline, which is short here.
    let config = config(&url)?.retry_timeout(Duration::from_millis(20)).deadline(HEAD_TIMEOUT);
    let runtime = runtime()?;
    let model = ScriptedModel::rules().always(Turn::with(|request| match request.messages.iter().next_back() {
        Some(last) if last.as_tool().is_none() => {
            Turn::call("task", json!({"description": "Do it.", "subagent_type": "there"}))
        }
        _ => Turn::text("Done."),
    }));
    let there = RemoteSubAgent::new("there", "Works.", config)?;
    let agent = DeepAgent::builder().model(model.build()).sub_agent(there).build()?;
    Ok(Box::new(move |input| {
        *answer.lock().unwrap_or_else(PoisonError::into_inner) = input.to_vec();
        let outcome = runtime.block_on(agent.invoke("Begin.")).map_err(|error| error.to_string())?;
        if outcome.text() == "Done." { Ok(()) } else { Err(format!("{:?}", outcome.stop)) }
    }))
}

pub(crate) fn remote_stream() -> Result<Check> {
    remote("text/event-stream", |url| RemoteConfig::langgraph(url, "there").context("the address"))
}

pub(crate) fn remote_answers() -> Result<Check> {
    remote("application/json", |url| RemoteConfig::a2a(url).context("the address"))
}
