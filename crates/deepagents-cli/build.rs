//! Options of the linker for the program.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=startup.ld");
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    if var("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    // A hundred thousand addresses are set when the program is loaded. Packed they are 0.1 MB instead of 2.5, in the file
    // and in memory. Loaders of before glibc 2.36 cannot read that, so it is done where the program is built for this very system.
    if var("HOST") == var("TARGET") && var("CARGO_CFG_TARGET_ENV") == "gnu" && glibc() >= Some((2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    // The functions that run at the start are a twelfth of the code, but the system maps 64 kB around each of them. Next to
    // each other, they take 8 MB less memory. Only `lld` and GNU's `ld` read such a script.
    let chosen = !var("RUSTC_LINKER").is_empty() || var("CARGO_ENCODED_RUSTFLAGS").contains("link");
    if var("PROFILE") == "release" && !chosen && reads_scripts() && !var("CARGO_MANIFEST_DIR").is_empty() {
        println!("cargo::rustc-link-arg-bins=-T{}/startup.ld", var("CARGO_MANIFEST_DIR"));
    }
}

/// Whether the linker that the C compiler calls is `lld` or GNU's `ld`.
fn reads_scripts() -> bool {
    let Ok(output) = Command::new("cc").arg("-Wl,--version").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().is_some_and(|line| line.starts_with("GNU ld ") || line.contains("LLD "))
}

/// The version of this system's C library, where that is glibc.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
