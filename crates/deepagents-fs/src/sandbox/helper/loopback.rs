//! Brings up the loopback of a new network namespace, which starts down.

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

const RTM_NEWLINK: u16 = 16;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
/// Loopback is the first interface of every network namespace.
const LOOPBACK: i32 = 1;
const IFF_UP: u32 = 1;

/// Brings the loopback up. The kernel handles the request before the call returns.
pub(super) fn up() -> rustix::io::Result<()> {
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut request = Vec::with_capacity(32);
    request.extend(32u32.to_ne_bytes());
    request.extend(RTM_NEWLINK.to_ne_bytes());
    request.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    // Sequence number and port, chosen by the kernel.
    request.extend([0; 8]);
    // Any family and type.
    request.extend([0; 4]);
    request.extend(LOOPBACK.to_ne_bytes());
    request.extend(IFF_UP.to_ne_bytes());
    request.extend(IFF_UP.to_ne_bytes());
    rustix::net::send(&socket, &request, SendFlags::empty())?;
    let mut answer = [0; 64];
    let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::DONTWAIT)?;
    // Length, type, flags, sequence number and port, followed by the error, which is 0 on success.
    match answer.get(..length) {
        Some([_, _, _, _, k0, k1, _, _, _, _, _, _, _, _, _, _, e0, e1, e2, e3, ..])
            if u16::from_ne_bytes([*k0, *k1]) == NLMSG_ERROR =>
        {
            match i32::from_ne_bytes([*e0, *e1, *e2, *e3]) {
                0 => Ok(()),
                error => Err(Errno::from_raw_os_error(-error)),
            }
        }
        _ => Err(Errno::PROTO),
    }
}
