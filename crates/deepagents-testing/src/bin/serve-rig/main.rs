//! Serves agents described by a file, for the test suites of clients.
//!
//! ```text
//! serve-rig FILE [--port N]      0, the default, is a free port
//! ```
//!
//! The file describes agents in the format of the conformance scenarios, and a model server. `${NAME}` expands to an
//! environment variable. Everything is kept in memory. The program prints `listening http://127.0.0.1:PORT` when the
//! server is ready, and ends on SIGTERM or SIGINT.
#![allow(clippy::print_stdout, reason = "a program's output")]

mod build;

use std::io::{Write, stderr};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use deepagents::MemoryJournal;
use deepagents::core::store::MemoryStore;
use deepagents_server::{Server, WebhookPolicy};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If this fails, there is nowhere left to report to.
            let _ = writeln!(stderr(), "serve-rig: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn serve() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let file = args.next().context("usage: serve-rig FILE [--port N]")?;
    let port: u16 = match args.next().as_deref() {
        Some("--port") => args.next().context("--port takes a number")?.parse()?,
        Some(other) => anyhow::bail!("`{other}` is not known; usage: serve-rig FILE [--port N]"),
        None => 0,
    };
    let text = std::fs::read_to_string(&file).with_context(|| format!("reading {file}"))?;
    let rig: build::Rig = serde_json::from_str(&build::expand(&text)?)?;
    let journal = Arc::new(MemoryJournal::new());
    let mut server = Server::new(journal.clone(), Arc::new(MemoryStore::default()));
    if rig.webhooks.allow_loopback {
        server = server.webhooks(WebhookPolicy::default().allow_loopback());
    }
    for (name, spec) in &rig.agents {
        server = server.agent(name, build::agent(&rig, spec, journal.clone())?)?;
        if let Some(description) = &spec.description {
            server = server.description(description);
        }
    }
    let server = server.start().await?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening http://{}", listener.local_addr()?);
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let end = async {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    };
    Ok(server.serve(listener, end).await?)
}
