//! Servers that are child processes, over stdin and stdout.

mod flood;
mod lines;
pub(crate) mod message;
mod process;
mod session;
mod shallow;
mod stderr;

use std::io;
use std::process::Stdio;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::Empty;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use lines::MessageLines;
pub(crate) use process::Ending;
use process::Process;
pub(crate) use stderr::StderrTail;

use crate::config::StdioConfig;
use crate::error::McpError;
use crate::servers::Shared;

/// The environment variables that a server inherits, if set: enough to find programs, the home directory and the
/// locale, but no keys. These are the variables that official SDKs pass on, and those for certificates and temporary
/// files.
pub const SAFE_VARIABLES: [&str; 15] = [
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];

/// What is said of a server that closed its pipes instead of answering.
pub(crate) const ENDED: &str = "it ended before it answered";

/// The pipes of a server, and its process, which ends when they are closed.
pub(crate) struct StdioTransport {
    stdout: MessageLines<ChildStdout>,
    stdin: AsyncRwTransport<RoleClient, Empty, ChildStdin>,
    process: Process,
}

/// A started server.
pub(crate) struct Started {
    pub(crate) transport: StdioTransport,
    /// Receives the exit status.
    pub(crate) ending: Ending,
    /// Completes when stderr reaches EOF.
    pub(crate) drained: JoinHandle<()>,
}

/// Starts a server.
pub(crate) fn start(name: &str, config: &StdioConfig, shared: &Shared, tail: &StderrTail) -> Result<Started, McpError> {
    let failed =
        |source| McpError::Spawn { server: name.to_owned(), command: config.command.clone(), source: Arc::new(source) };
    let options = &shared.options;
    let directory = config.cwd.as_ref().or(options.root.as_ref());
    let path = config.env.get("PATH").or_else(|| options.env.get("PATH"));
    let mut command = session::command(&config.command, path.map(AsRef::as_ref), directory.map(AsRef::as_ref));
    command.args(&config.args).env_clear().envs(&options.env).envs(&config.env);
    if let Some(directory) = directory {
        command.current_dir(directory);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|source| failed(in_directory(source, directory)))?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let process = Process::new(child, shared.groups.clone());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(failed(io::Error::other("it has no pipes")));
    };
    let log =
        options.log_dir.as_ref().map(|folder| folder.join(format!("{}.log", crate::text::distinct_file_name(name))));
    let drained = tokio::spawn(stderr::drain(stderr, tail.clone(), log));
    let ending = process.ending();
    let stdin = AsyncRwTransport::new_client(tokio::io::empty(), stdin);
    let transport = StdioTransport { stdout: MessageLines::new(stdout, tail.clone()), stdin, process };
    Ok(Started { transport, ending, drained })
}

/// Names the working directory in a spawn error if that is what is missing: the system reports only that something does
/// not exist.
#[allow(clippy::disallowed_methods, reason = "the directory is one that a program is started in")]
fn in_directory(source: io::Error, directory: Option<&std::path::PathBuf>) -> io::Error {
    match directory.filter(|directory| !directory.is_dir()) {
        Some(directory) => {
            let words = format!("the directory `{}`, in which it would start, does not exist", directory.display());
            io::Error::new(source.kind(), words)
        }
        None => source,
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sent = self.stdin.send(message);
        async move {
            sent.await.map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => io::Error::new(error.kind(), ENDED),
                _ => error,
            })
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.stdout.next()
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        let closed = self.stdin.close().await;
        self.process.end().await;
        closed
    }
}
