//! Names of tools that a model is given, made of those of servers.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// What the name of every tool of a server begins with; no other tool has such a name.
pub const PREFIX: &str = "mcp__";

/// Characters of a name that providers take.
const MOST: usize = 64;
/// Characters of the mark that tells names apart which would look alike.
const MARK: usize = 8;

/// The name that a model is given for a tool of a server: `mcp__SERVER__TOOL`.
///
/// What providers refuse becomes `_`; a name that has lost something by that, or by its length, ends with a mark made of
/// what it was. So a name depends on its own server and tool alone, and stays the same whatever other tools there are.
///
/// ```
/// use deepagents_mcp::tool_name;
/// assert_eq!(tool_name("github", "create_issue"), "mcp__github__create_issue");
/// assert_ne!(tool_name("s", "a/b"), tool_name("s", "a.b"));
/// ```
pub fn tool_name(server: &str, tool: &str) -> String {
    let plain = format!("{PREFIX}{}__{}", legal(server), legal(tool));
    // Where the border between server and tool cannot be seen, two pairs could have one name.
    let is_clear = !server.contains("__") && !server.ends_with('_') && !server.is_empty() && !tool.is_empty();
    let is_whole = plain.len() <= MOST && legal(server) == server && legal(tool) == tool;
    if is_clear && is_whole {
        return plain;
    }
    let mut mark = String::new();
    for byte in Sha256::digest(format!("{server}\0{tool}")).iter().take(MARK / 2) {
        // Writing to a string does not fail.
        let _ = write!(mark, "{byte:02x}");
    }
    let kept: String = plain.chars().take(MOST - MARK - 1).collect();
    format!("{kept}_{mark}")
}

fn legal(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_stays_as_it_is() {
        assert_eq!(tool_name("alpha", "read_file"), "mcp__alpha__read_file");
        assert_eq!(tool_name("my-server", "_x"), "mcp__my-server___x");
    }

    #[test]
    fn names_are_legal_and_different_whatever_the_server_calls_its_tools() {
        let long = "x".repeat(90);
        let longer = "x".repeat(91);
        let names = [
            ("my server.v2", "get.weather"),
            ("s", "a/b"),
            ("s", "a.b"),
            ("s", "a_b"),
            ("s", "größe"),
            ("s", "gr__e"),
            ("s", &long),
            ("s", &longer),
            ("s", ""),
            ("", "s"),
            ("a", "b__c"),
            ("a__b", "c"),
            ("a", "_b"),
            ("a_", "b"),
        ];
        let mut made: Vec<String> = names.iter().map(|(server, tool)| tool_name(server, tool)).collect();
        for name in &made {
            assert!(name.len() <= 64 && legal(name) == *name && name.starts_with(PREFIX), "{name}");
        }
        made.sort_unstable();
        made.dedup();
        assert_eq!(made.len(), names.len());
        assert!(tool_name("my server.v2", "get.weather").contains("get_weather"));
    }
}
