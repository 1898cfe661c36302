//! The loopback of a new network namespace, which starts switched off.

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

const RTM_NEWLINK: u16 = 16;
const NLM_F_REQUEST: u16 = 1;
/// The loopback is the first interface of every network namespace.
const LOOPBACK: i32 = 1;
const IFF_UP: u32 = 1;

/// Switches it on. The kernel acts on the request before the call returns.
pub(super) fn up() -> rustix::io::Result<()> {
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut request = Vec::with_capacity(32);
    request.extend(32u32.to_ne_bytes());
    request.extend(RTM_NEWLINK.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence and port, both the kernel's to choose.
    request.extend([0; 8]);
    // Family and type, any.
    request.extend([0; 4]);
    request.extend(LOOPBACK.to_ne_bytes());
    request.extend(IFF_UP.to_ne_bytes());
    request.extend(IFF_UP.to_ne_bytes());
    rustix::net::send(&socket, &request, SendFlags::empty()).map(drop)
}
