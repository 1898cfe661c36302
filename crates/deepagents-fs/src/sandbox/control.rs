//! The program's end of the socket to the sandbox helper.

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

/// Maximum number of bytes that a helper may send.
const MAX_REPORT_BYTES: usize = 64 << 10;

/// Communication between the program and the helper of one command.
#[derive(Debug)]
pub(crate) struct Control {
    socket: UnixStream,
    /// Hosts for the command's proxy, which starts when the helper sends its listening socket. `None` if the command
    /// has no proxy.
    allowed: Option<Vec<HostPattern>>,
    proxy: Option<Proxy>,
    messages: Vec<u8>,
    open: bool,
}

impl Control {
    pub(crate) fn new(socket: UnixStream, allowed: Option<Vec<HostPattern>>) -> Self {
        Self { socket, allowed, proxy: None, messages: Vec::new(), open: true }
    }

    /// Sends the plan. If the helper has already died, its exit status reports that.
    pub(crate) fn plan(&self, plan: &[u8], timeout: Duration) -> std::io::Result<()> {
        self.socket.set_write_timeout(Some(timeout))?;
        let _ = (&self.socket).write_all(plan);
        Ok(())
    }

    /// Returns the socket to poll for messages; `None` once no more will come.
    pub(crate) fn waiting(&self) -> Option<BorrowedFd<'_>> {
        self.open.then(|| self.socket.as_fd())
    }

    /// Receives messages from the helper, without blocking.
    pub(crate) fn receive(&mut self) {
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
        self.messages.extend_from_slice(buffer.get(..length).unwrap_or_default());
        self.open = self.messages.len() <= MAX_REPORT_BYTES;
        let socket = passed.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
            _ => None,
        });
        if let Some(socket) = socket {
            self.serve(socket);
        }
    }

    /// Starts the proxy and tells the helper to continue, or to end if that failed.
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
                self.messages = serde_json::to_vec(&failed).unwrap_or_default();
                self.open = false;
            }
        }
    }

    /// Tells the helper to end the command. Returns whether the helper could be told.
    pub(crate) fn end(&self) -> bool {
        self.socket.shutdown(Shutdown::Write).is_ok()
    }

    /// Stops the proxy. Returns everything the helper sent, and the hosts that the proxy refused.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Vec<String>) {
        // The helper has ended, so only what is in the socket remains.
        let mut before = usize::MAX;
        while self.open && self.messages.len() != before {
            before = self.messages.len();
            self.receive();
        }
        (self.messages, self.proxy.map(Proxy::finish).unwrap_or_default())
    }
}
