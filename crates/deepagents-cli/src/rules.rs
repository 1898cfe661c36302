//! Rules about files and commands, read from a file.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use deepagents::fs::permissions::{AccessMode, CommandRule, Permissions, Rule};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exit::WrongUsage;
use crate::small_file::without_mark;

/// The checked rules of a file; part of an agent's shape.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<AnyRule>", into = "Vec<AnyRule>")]
pub(crate) struct Rules {
    given: Vec<AnyRule>,
    compiled: Permissions,
}

/// A rule about files or about commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum AnyRule {
    Commands(CommandRule),
    Files(Rule),
}

impl Rules {
    /// Reads a file. Errors name the number of the rule.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not a JSON list of rules, or has a rule that can match nothing.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let name = file.display();
        let wrong = |why: String| WrongUsage::new(format!("the rules `{name}` {why}"));
        let text = fs::read_to_string(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let given: Vec<Value> = serde_json::from_str(without_mark(&text)).map_err(|error| {
            wrong(format!(
                "are not a JSON list of {{\"operations\", \"paths\", \"mode\"}} and {{\"commands\", \"mode\"}}: {error}"
            ))
        })?;
        Ok(Self::from_values(&name.to_string(), given).map_err(|error| WrongUsage::new(error.to_string()))?)
    }

    /// Checks rules given by the source `name`.
    ///
    /// # Errors
    /// Returns an error if a rule is invalid or can match nothing.
    pub(crate) fn from_values(name: &str, given: Vec<Value>) -> Result<Self> {
        let mut rules = Vec::new();
        for (rule, number) in given.into_iter().zip(1..) {
            let wrong = |why: &dyn Display| anyhow!("rule {number} of `{name}`: {why}");
            let rule = read(rule).map_err(|why| wrong(&why))?;
            rule.check().map_err(|why| wrong(&why))?;
            if let Some(earlier) = rules.iter().position(|earlier: &AnyRule| earlier.covers(&rule)) {
                return Err(wrong(&format!(
                    "it can never apply, because rule {} comes first and covers all of it",
                    earlier + 1
                )));
            }
            rules.push(rule);
        }
        Self::try_from(rules)
    }

    /// Whether there are no rules.
    pub(crate) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Returns an error if there are rules about commands, but commands are not run.
    pub(crate) fn check_commands(&self, are_run: bool) -> Result<()> {
        match self.given.iter().position(|rule| matches!(rule, AnyRule::Commands(_))) {
            Some(at) if !are_run => bail!(WrongUsage::new(format!(
                "rule {} is about commands, which are off, so it can never apply; give --execute as well, or remove it",
                at + 1
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the rules for an agent.
    pub(crate) fn permissions(&self) -> Permissions {
        self.compiled.clone()
    }
}

impl TryFrom<Vec<AnyRule>> for Rules {
    type Error = anyhow::Error;

    fn try_from(given: Vec<AnyRule>) -> Result<Self> {
        let (mut files, mut commands) = (Vec::new(), Vec::new());
        for rule in given.clone() {
            match rule {
                AnyRule::Commands(rule) => commands.push(rule),
                AnyRule::Files(rule) => files.push(rule),
            }
        }
        // A final rule about all commands sets the default, which also applies to files that the shell opens.
        let rest = commands.pop_if(|rule: &mut CommandRule| rule.commands == ["*"]);
        let otherwise = rest.map_or(AccessMode::Allow, |rule| rule.mode);
        let compiled = Permissions::new(files)?.with_commands(commands, otherwise)?;
        Ok(Self { given, compiled })
    }
}

impl From<Rules> for Vec<AnyRule> {
    fn from(rules: Rules) -> Self {
        rules.given
    }
}

/// Parses a rule; its fields tell whether it is about files or commands.
fn read(rule: Value) -> Result<AnyRule, serde_json::Error> {
    if rule.get("commands").is_some() {
        serde_json::from_value(rule).map(AnyRule::Commands)
    } else {
        serde_json::from_value(rule).map(AnyRule::Files)
    }
}

impl AnyRule {
    fn check(&self) -> Result<(), String> {
        match self {
            Self::Commands(rule) => Permissions::default()
                .with_commands([rule.clone()], AccessMode::Allow)
                .map(drop)
                .map_err(|error| error.to_string()),
            Self::Files(rule) => Permissions::new([rule.clone()]).map(drop).map_err(|error| error.to_string()),
        }
    }

    /// Whether this rule covers every pattern of another one: each is among its own patterns, or its own include `/**`,
    /// for all operations of the other.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Files(first), Self::Files(rule)) => {
                let says = |path: &String| first.paths.iter().any(|known| known == path || known == "/**");
                rule.operations.iter().all(|operation| first.operations.contains(operation))
                    && rule.paths.iter().all(says)
            }
            (Self::Commands(first), Self::Commands(rule)) => {
                // An `allow` rule matches a command narrowly, the other modes more widely; so an earlier `allow` does
                // not cover a later `ask` or `deny`.
                let as_wide = first.mode != AccessMode::Allow || rule.mode == AccessMode::Allow;
                let says = |command: &String| first.commands.contains(command);
                as_wide && rule.commands.iter().all(says)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Rules, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        Rules::read(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_rules_file_may_hold_file_rules_and_command_rules() {
        let rules = read(
            r#"[{"operations":["write"],"paths":["/docs/**"],"mode":"deny"},{"commands":["git push"],"mode":"ask"}]"#,
        );
        let rules = rules.unwrap();
        assert!(!rules.is_empty() && rules.check_commands(true).is_ok());
        assert!(rules.check_commands(false).unwrap_err().to_string().contains("rule 2 is about commands"));
        let again: Rules = serde_json::from_value(serde_json::to_value(&rules).unwrap()).unwrap();
        assert_eq!(again.given, rules.given);
    }

    #[test]
    fn a_final_rule_for_all_commands_also_covers_files_the_shell_opens() {
        let rules = read(r#"[{"commands":["echo *"],"mode":"allow"},{"commands":["*"],"mode":"deny"}]"#).unwrap();
        let mode = |command: &str| rules.permissions().decide_command(command).mode;
        assert_eq!(mode("echo x"), AccessMode::Allow);
        for other in ["touch a", "echo x > a", "echo $(touch a)", "echo x; touch a", "$x"] {
            assert_eq!(mode(other), AccessMode::Deny, "{other}");
        }
    }

    #[test]
    fn a_rule_that_can_never_match_is_an_error_that_names_it() {
        let good = r#"{"operations":["read"],"paths":["/a"],"mode":"deny"}"#;
        for (wrong, why) in [
            (r#"{"operations":["read"],"paths":[],"mode":"deny"}"#, "names no paths"),
            (r#"{"operations":[],"paths":["/b"],"mode":"deny"}"#, "names no operations"),
            (r#"{"operations":["read"],"paths":["b/**"],"mode":"deny"}"#, "begin with a slash"),
            (r#"{"operations":["read"],"paths":["/b/../c"],"mode":"deny"}"#, "/b/../c"),
            (r#"{"operations":["read"],"paths":["/b"],"mod":"deny"}"#, "unknown field `mod`"),
            (r#"{"operations":["read"],"paths":["/b"],"mode":"forbid"}"#, "forbid"),
            (r#"{"commands":[],"mode":"deny"}"#, "names none"),
            (r#"{"commands":["a | b"],"mode":"deny"}"#, "a | b"),
            (r#"{"commands":["a"],"paths":["/b"]}"#, "paths"),
            (r#""/b""#, "invalid"),
            (good, "rule 1 comes first"),
        ] {
            let error = read(&format!("[{good}, {wrong}]")).unwrap_err();
            assert!(error.starts_with("rule 2 of") && error.contains(why), "{wrong}: {error}");
        }
        assert!(read("{}").unwrap_err().contains("are not a JSON list"));
    }
}
