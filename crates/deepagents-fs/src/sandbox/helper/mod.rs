//! The helper: a single-threaded process that becomes the sandbox.
//!
//! The first stage creates the namespaces and waits until the second stage ends or the program closes the socket. The
//! second stage is the first process in the namespaces: it builds the file system, drops all privileges, starts the
//! command and reaps orphaned processes. When it ends, the kernel kills everything left in the sandbox.

mod confine;
mod failure;
pub(super) mod find;
mod guard;
mod inner;
mod limits;
mod loopback;
mod mounts;
mod outer;
mod proxy;
mod root_fs;
mod rules;
mod seccomp;

use std::ffi::OsString;
use std::io::Write;

use serde::de::DeserializeOwned;

use self::failure::{At, Failure};
use super::protocol::{INNER, Message, OUTER};

/// If the arguments name a stage, does its work and ends the process.
pub(super) fn take_over(mut args: impl Iterator<Item = OsString>) {
    let Some(stage) = args.nth(1) else { return };
    let result = if stage == OUTER {
        outer::run()
    } else if stage == INNER {
        inner::run()
    } else {
        return;
    };
    let code = result.unwrap_or_else(|Failure { step, reason }| {
        // If the program is gone, there is nobody to tell.
        let _ = send(&Message::Failed { step: step.to_owned(), reason });
        125
    });
    std::process::exit(code);
}

/// Reads the next plan from the program.
fn read_plan<T: DeserializeOwned>() -> Result<T, Failure> {
    let mut length = [0; 4];
    read_exact(&mut length)?;
    let mut body = vec![0; usize::try_from(u32::from_le_bytes(length)).at("read the plan")?];
    read_exact(&mut body)?;
    serde_json::from_slice(&body).at("read the plan")
}

/// Reads exactly the requested bytes, without buffering: the rest is for the next stage.
fn read_exact(mut buffer: &mut [u8]) -> Result<(), Failure> {
    while !buffer.is_empty() {
        match rustix::io::read(rustix::stdio::stdin(), &mut *buffer) {
            Ok(0) => return Err(Failure::new("read the plan", "the program is gone")),
            Ok(length) => buffer = buffer.get_mut(length..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).at("read the plan"),
        }
    }
    Ok(())
}

/// Sends a message to the program.
fn send(message: &Message) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    std::os::unix::net::UnixStream::from(socket).write_all(&line)
}
