//! Opening web pages in a browser.

use std::process::{Command, Stdio};
use std::thread;

use crate::model_choice::env;

/// Opens the address of a web page if there is a desktop. Other addresses are ignored, because a desktop also opens
/// files and programs by address. Failures are ignored too: the caller has already shown the address.
pub(crate) fn open(address: &str) {
    if !is_page(address) {
        return;
    }
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let has_desktop = cfg!(target_os = "macos") || env("DISPLAY").is_some() || env("WAYLAND_DISPLAY").is_some();
    if has_desktop {
        let quiet =
            Command::new(opener).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        if let Ok(mut started) = quiet {
            // Reap the child, so that a long-running server leaves no zombie behind.
            let waits = thread::Builder::new().name("deepagents-browser".to_owned());
            // If no thread can be started, one zombie remains.
            let _ = waits.spawn(move || started.wait());
        }
    }
}

/// Whether an address is that of a web page: any host over https, only this machine over http.
fn is_page(address: &str) -> bool {
    let Some((scheme, rest)) = address.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let is_here = ["localhost", "127.0.0.1", "[::1]"].iter().any(|here| {
        let port = authority.strip_prefix(here);
        port.is_some_and(|port| {
            port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
        })
    });
    match scheme.to_ascii_lowercase().as_str() {
        "https" => !authority.is_empty(),
        "http" => is_here,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_page;

    #[test]
    fn only_web_pages_are_opened_in_the_browser() {
        for page in
            ["https://issuer.example/authorize?x=1", "http://127.0.0.1:8123/", "http://localhost/a", "http://[::1]:9?a"]
        {
            assert!(is_page(page), "{page}");
        }
        for other in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "http://issuer.example/",
            "http://localhost.evil.example/",
            "http://127.0.0.1@evil.example/",
            "-x",
            "https://",
            "vscode://x/y",
            "http://localhost:80@evil.example",
        ] {
            assert!(!is_page(other), "{other}");
        }
    }
}
