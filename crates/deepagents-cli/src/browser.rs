//! Opening addresses in a browser.

use std::process::{Command, Stdio};
use std::thread;

use crate::model_choice::env;

/// Opens an address where there is a desktop to open it on. Whoever calls has shown the address, so it is no matter if not.
pub(crate) fn open(address: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let has_desktop = cfg!(target_os = "macos") || env("DISPLAY").is_some() || env("WAYLAND_DISPLAY").is_some();
    if has_desktop {
        let quiet =
            Command::new(opener).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        if let Ok(mut started) = quiet {
            // A program that serves for days leaves no process behind that has ended.
            thread::spawn(move || started.wait());
        }
    }
}
