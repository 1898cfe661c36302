//! Names that Windows takes for other names.

/// Device names, whatever follows the first dot.
const DEVICES: [&str; 7] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"];

/// Returns the reason a name cannot be used on Windows: it would open another file, a stream of a file, or a device.
pub(super) fn windows_alias(name: &str) -> Option<&'static str> {
    let short = name.split('~').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if name.contains(':') {
        Some("a colon names a stream of a file")
    } else if name.ends_with(['.', ' ']) {
        Some("dots and blanks at its end are dropped")
    } else if short {
        Some("it may be the short name of another file")
    } else if is_device(name.split('.').next().unwrap_or_default().trim_end()) {
        Some("it is the name of a device")
    } else {
        None
    }
}

fn is_device(stem: &str) -> bool {
    let stem = stem.to_uppercase();
    let numbered = ["COM", "LPT"].into_iter().find_map(|port| stem.strip_prefix(port));
    let mut digits = numbered.unwrap_or_default().chars();
    let is_port = matches!((digits.next(), digits.next()), (Some('0'..='9' | '¹' | '²' | '³'), None));
    DEVICES.contains(&stem.as_str()) || is_port
}

#[cfg(test)]
mod tests {
    use super::windows_alias;

    #[test]
    fn names_that_windows_treats_as_aliases_are_recognised() {
        for name in [
            "a:b", "GIT~1", "git~12.x", ".git.", ".git ", "con", "NUL.txt", "Aux ", "com1", "LPT9.log", "com²", "com0",
            "clock$",
        ] {
            assert!(windows_alias(name).is_some(), "{name}");
        }
        for name in [".git", "a~b", "~", "console", "com", "com10", "nullable.rs", "a b.txt", "...slug]"] {
            assert!(windows_alias(name).is_none(), "{name}");
        }
    }
}
