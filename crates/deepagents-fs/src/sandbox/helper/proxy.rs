//! Connects the sandbox to the program's proxy.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use super::failure::{At, Failure};
use super::read_exact;
use crate::sandbox::protocol::Message;

/// Listens on the loopback of the command's network, sends the socket to the program, and waits until the program
/// accepts connections from it. Returns the variables that tell commands where the proxy is.
#[allow(clippy::disallowed_methods, reason = "the proxy's own socket")]
pub(super) fn open(direct: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let step = "open a way to the proxy";
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).at(step)?;
    let address = format!("http://{}", listener.local_addr().at(step)?);
    hand_over(&listener).at(step)?;
    drop(listener);
    read_exact(&mut [0])?;
    let direct = direct.join(",");
    let ways = ["http_proxy", "https_proxy", "all_proxy"].map(|name| (name, &address));
    let all = ways.into_iter().chain([("no_proxy", &direct)]);
    Ok(all.flat_map(|(name, value)| [name.to_owned(), name.to_uppercase()].map(|name| (name, value.clone()))).collect())
}

fn hand_over(listener: &TcpListener) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(&Message::Listening)?;
    line.push(b'\n');
    let sockets = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut passed = SendAncillaryBuffer::new(&mut space);
    passed.push(SendAncillaryMessage::ScmRights(&sockets));
    let sent = rustix::net::sendmsg(rustix::stdio::stdin(), &[IoSlice::new(&line)], &mut passed, SendFlags::NOSIGNAL)?;
    if sent == line.len() { Ok(()) } else { Err(std::io::ErrorKind::WriteZero.into()) }
}
