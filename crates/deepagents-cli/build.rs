//! Options of the linker for the program.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A hundred thousand addresses are set when the program is loaded. Packed they are 0.1 MB instead of 2.5, in the file
    // and in memory. Loaders of before glibc 2.36 cannot read that, so it is done where the program is built for this very system.
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let here = std::env::var("HOST").is_ok_and(|host| is("TARGET", &host));
    if here && is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") && glibc() >= Some((2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this system's C library, where that is glibc.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
