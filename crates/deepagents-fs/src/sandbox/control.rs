//! The program's end of the socket to its helper.

use std::io::{ErrorKind, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use super::hosts::HostPattern;
use super::protocol::Message;
use super::proxy::Proxy;

/// Bytes that a helper has to say at most.
const WORDS: usize = 64 << 10;

/// What passes between the program and the helper of one command.
#[derive(Debug)]
pub(crate) struct Control {
    socket: UnixStream,
    /// For the command's proxy, which the helper's listening socket starts. None where there is no such network.
    allowed: Option<Vec<HostPattern>>,
    proxy: Option<Proxy>,
    said: Vec<u8>,
    open: bool,
}

impl Control {
    pub(crate) fn new(socket: UnixStream, allowed: Option<Vec<HostPattern>>) -> Self {
        Self { socket, allowed, proxy: None, said: Vec::new(), open: true }
    }

    /// Sends the plan. A helper that died at once shows in how it ended, not here.
    pub(crate) fn plan(&self, plan: &[u8], patience: Duration) -> std::io::Result<()> {
        self.socket.set_write_timeout(Some(patience))?;
        let _ = (&self.socket).write_all(plan);
        Ok(())
    }

    /// What to wait on until the helper says something; none once it will not any more.
    pub(crate) fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.open.then(|| self.socket.as_fd())
    }

    /// Takes what the helper says, without waiting.
    pub(crate) fn hear(&mut self) {
        let mut buffer = [0; 4 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut passed = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT;
        #[cfg(target_os = "linux")]
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let received = rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(&mut buffer)], &mut passed, flags);
        let length = match received.map(|received| received.bytes).map_err(|error| error.kind()) {
            Err(ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Err(_) | Ok(0) => {
                self.open = false;
                return;
            }
            Ok(length) => length,
        };
        self.said.extend_from_slice(buffer.get(..length).unwrap_or_default());
        self.open = self.said.len() <= WORDS;
        let socket = passed.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
            _ => None,
        });
        if let Some(socket) = socket {
            self.serve(socket);
        }
    }

    /// Starts the proxy and tells the helper to go on, or to end.
    fn serve(&mut self, socket: OwnedFd) {
        let Some(allowed) = self.allowed.take() else { return };
        match Proxy::start(TcpListener::from(socket), allowed) {
            Ok(proxy) => {
                self.proxy = Some(proxy);
                let _ = (&self.socket).write_all(b"+");
            }
            Err(error) => {
                self.end();
                let failed = Message::Failed { step: "start the proxy".to_owned(), reason: error.to_string() };
                self.said = serde_json::to_vec(&failed).unwrap_or_default();
                self.open = false;
            }
        }
    }

    /// Tells the helper that the command is not wanted any more; whether that could be told.
    pub(crate) fn end(&self) -> bool {
        self.socket.shutdown(Shutdown::Write).is_ok()
    }

    /// All that the helper said, and what its command asked the proxy for in vain. The proxy is no more.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Vec<String>) {
        // What is in the socket is all there is to come.
        let mut before = usize::MAX;
        while self.open && self.said.len() != before {
            before = self.said.len();
            self.hear();
        }
        (self.said, self.proxy.map(Proxy::finish).unwrap_or_default())
    }
}
