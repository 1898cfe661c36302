//! Tool names for the model, derived from those of servers.

use crate::text;

/// Prefix of every MCP tool name. No other tool uses it.
pub const PREFIX: &str = "mcp__";

/// Maximum length of a tool name that providers accept.
const MAX_NAME_LENGTH: usize = 64;
/// Length of the hash that distinguishes names which would otherwise be equal.
const HASH_LENGTH: usize = 8;

/// Returns the name under which the model sees a server's tool: `mcp__SERVER__TOOL`.
///
/// Characters that providers refuse become `_`. A name changed that way, or cut to the maximum length, ends with a hash
/// of the original, and so does one that looks as if it did. A name therefore depends only on its own server and tool,
/// and no server can take the name of another's tool by ending its own with that hash.
///
/// ```
/// use deepagents_mcp::tool_name;
/// assert_eq!(tool_name("github", "create_issue"), "mcp__github__create_issue");
/// assert_ne!(tool_name("s", "a/b"), tool_name("s", "a.b"));
/// ```
pub fn tool_name(server: &str, tool: &str) -> String {
    let plain = format!("{PREFIX}{}__{}", legal(server), legal(tool));
    // If the boundary between server and tool is ambiguous, two pairs could yield the same name.
    let is_clear = !server.contains("__") && !server.ends_with('_') && !server.is_empty() && !tool.is_empty();
    let is_clear = is_clear && !ends_with_hash(&plain);
    let is_whole = plain.len() <= MAX_NAME_LENGTH && legal(server) == server && legal(tool) == tool;
    if is_clear && is_whole {
        return plain;
    }
    let mark = text::hash(&format!("{server}\0{tool}"), HASH_LENGTH / 2);
    let kept: String = plain.chars().take(MAX_NAME_LENGTH - HASH_LENGTH - 1).collect();
    format!("{kept}_{mark}")
}

/// Whether a name ends as those do that have a hash.
fn ends_with_hash(name: &str) -> bool {
    let end = name.rsplit('_').next().unwrap_or_default();
    end.len() == HASH_LENGTH && end.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
}

fn legal(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_is_kept() {
        assert_eq!(tool_name("alpha", "read_file"), "mcp__alpha__read_file");
        assert_eq!(tool_name("my-server", "_x"), "mcp__my-server___x");
        assert_eq!(tool_name("s", "get_abcdef1"), "mcp__s__get_abcdef1");
    }

    #[test]
    fn tool_names_are_legal_and_unique_whatever_the_server_calls_them() {
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

    #[test]
    fn a_name_that_ends_with_the_hash_of_another_is_not_that_others_name() {
        for (server, tool, forger) in [("a__b", "c", "a"), ("z__b", "c", "z"), ("my.server", "c", "my_server")] {
            let theirs = tool_name(server, tool);
            let forged = theirs.strip_prefix(&format!("{PREFIX}{forger}__")).unwrap();
            assert_ne!(tool_name(forger, forged), theirs);
        }
    }
}
