//! Decides which names are those of secrets, and which values are secrets. Source code and its documentation contain
//! many names, types, calls and placeholders after such a name; those are kept.

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// In quotes, or as a value in structured data.
    Quoted,
    /// Directly after `=`, as in files of variables.
    Assigned,
    /// Without quotes.
    Bare,
    /// Without quotes, where only code can be unquoted.
    Code,
}

/// The kind of secret that a name indicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Secrecy {
    /// A password; people also choose passwords of letters only.
    Password,
    /// A key.
    Key,
    /// A token, which may also mean a unit of text.
    Token,
}

/// Parts of a name after the secret word that mean it is about a secret and does not hold one.
const ABOUT: &[&str] = &[
    "algorithm",
    "arn",
    "audience",
    "budget",
    "cancel",
    "changed",
    "class",
    "cost",
    "count",
    "counter",
    "description",
    "dir",
    "directory",
    "disabled",
    "enabled",
    "endpoint",
    "env",
    "error",
    "estimate",
    "expiration",
    "expires",
    "expiry",
    "field",
    "file",
    "filename",
    "format",
    "header",
    "help",
    "hint",
    "id",
    "ids",
    "index",
    "input",
    "issuer",
    "kind",
    "label",
    "len",
    "length",
    "lifetime",
    "limit",
    "list",
    "manager",
    "max",
    "message",
    "min",
    "mode",
    "name",
    "names",
    "number",
    "param",
    "parameter",
    "params",
    "parser",
    "path",
    "pattern",
    "placeholder",
    "policy",
    "position",
    "prompt",
    "provider",
    "ref",
    "regex",
    "required",
    "scope",
    "scopes",
    "service",
    "size",
    "source",
    "state",
    "status",
    "store",
    "stream",
    "text",
    "title",
    "ttl",
    "type",
    "types",
    "uri",
    "url",
    "usage",
    "version",
    "window",
];

/// Parts of a name before `token` that make it a unit of text or a cursor.
const NO_TOKEN: &[&str] = &[
    "cancel",
    "cancellation",
    "continuation",
    "cursor",
    "max",
    "min",
    "next",
    "num",
    "page",
    "pagination",
    "per",
    "progress",
    "sync",
    "total",
];

/// Placeholder words and types.
const NO_VALUE: &[&str] = &[
    "anything",
    "changeit",
    "credentials",
    "default",
    "disabled",
    "enabled",
    "encrypted",
    "expected",
    "forgotten",
    "function",
    "generated",
    "incorrect",
    "mandatory",
    "metadata",
    "missing",
    "nullable",
    "nullptr",
    "optional",
    "protected",
    "provided",
    "redacted",
    "required",
    "supported",
    "unchanged",
    "undefined",
    "unspecified",
];

expression!(
    PLACEHOLDER = r"(?i)^(?:\$[A-Za-z_]\w*|\$[\{{(].*|<.*>?|%.*%|\{{.*\}}|\[(?:REDACTED|MASKED)_.*|x+|\.+|your[_-].*|\(\?.*)$|\\[wds]|\*\*\*|…|\$\{{|\{{[\w.$: ]*\}}"
);
expression!(CODE = r"^[&*!]*[A-Za-z_$][\w$]*(?:(?:::|\.|->|\?\.)[\w$]+)*(?:!?[(\[{{<>]|::|\?\.)");
expression!(NAMES = r"^[&*!]*[A-Za-z_$][\w$]*(?:(?:\.|->|\|\|?|&&)[A-Za-z_$][\w$]*)*[!?)|:]*$");
expression!(NUMBER = r"^(?:0x[0-9A-Fa-f_]{{1,16}}|[0-9][0-9_.]*)(?:[fiu](?:8|16|32|64|128|size))?\)*$");
expression!(PATH = r"^(?:[A-Za-z][A-Za-z0-9+.-]*://|(?:~|\.{{1,2}})?/[\w.-]+/[^+=]*$)");

/// Returns `true` if a value stands for another: a variable, a template placeholder, a redaction mark.
pub(super) fn is_placeholder(value: &str) -> bool {
    PLACEHOLDER.iter().any(|placeholder| placeholder.is_match(value))
}

/// Returns `true` if a value contains a word for a secret, such as `access_token`.
pub(super) fn speaks_of_secrets(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let spoken =
        ["secret", "token", "passw", "api_key", "api-key", "apikey", "access_key", "privatekey", "private_key", "pass"];
    !value.contains(|c: char| c.is_ascii_digit()) && spoken.iter().any(|word| lower.contains(word))
}

/// Splits a name into its parts in lower case: `dbPassword` and `db_password` have two.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut small = false;
    for c in name.chars() {
        let begins = c.is_ascii_uppercase() && small;
        if matches!(c, '_' | '-') || begins {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| !matches!(c, '_' | '-')) {
            part.push(c.to_ascii_lowercase());
        }
        small = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns the kind of secret that a name indicates, if any.
pub(super) fn secrecy(name: &str) -> Option<Secrecy> {
    let own = name.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let parts = parts(own);
    let part = |at: usize| parts.get(at).map_or("", String::as_str);
    let is_upper = !own.contains(|c: char| c.is_ascii_lowercase());
    let kind = |at: usize| match part(at) {
        "passwordless" | "oldpwd" => None,
        // A count such as `max_token` or a cursor such as `next_token` is not a secret.
        "token" if at > 0 && NO_TOKEN.contains(&part(at - 1)) => None,
        "pat" if at > 0 && ["azure", "gh", "git", "github", "gitlab"].contains(&part(at - 1)) => Some(Secrecy::Key),
        "pass" if at > 0 && at + 1 == parts.len() && is_upper => Some(Secrecy::Password),
        "key" if at > 0 => {
            let of = ["access", "account", "api", "encryption", "private", "secret", "signing", "storage"];
            of.contains(&part(at - 1)).then_some(Secrecy::Key)
        }
        word if ["passw", "passphrase", "pwd"].iter().any(|secret| word.contains(secret)) => Some(Secrecy::Password),
        word if ["secret", "apikey", "accesskey", "accountkey", "privatekey"].iter().any(|key| word.contains(key)) => {
            (!word.starts_with("secretar") && word != "secrets").then_some(Secrecy::Key)
        }
        word if word.ends_with("token") => Some(Secrecy::Token),
        _ => None,
    };
    let (at, kind) = (0..parts.len()).find_map(|at| Some((at, kind(at)?)))?;
    let is_question = ["has", "is", "use", "uses"].contains(&part(0));
    let about = is_question || parts.iter().skip(at + 1).any(|part| ABOUT.contains(&part.as_str()) || part == "tokens");
    (!about).then_some(kind)
}

/// Returns `true` if the value under a secret's name is a secret.
pub(super) fn is_secret(name: &str, value: &str, secrecy: Secrecy, style: Style) -> bool {
    let count = value.chars().count();
    let digits = value.chars().filter(char::is_ascii_digit).count();
    let is_password = secrecy == Secrecy::Password;
    let long_enough = count >= 8 || count >= 6 && is_password && digits > 0 && digits < count;
    if style == Style::Code || !long_enough || is_placeholder(value) || is_path(name, value) {
        return false;
    }
    // A redaction hash; those of earlier versions have sixteen digits.
    let is_hash = name.ends_with("_hash") && [8, 16].contains(&count) && value.chars().all(|c| c.is_ascii_hexdigit());
    if is_hash || NO_VALUE.contains(&value.to_ascii_lowercase().as_str()) {
        return false;
    }
    // A file of variables has literal values, not identifiers.
    let literal =
        style == Style::Quoted || style == Style::Assigned && !name.contains(|c: char| c.is_ascii_lowercase());
    if value.contains(char::is_whitespace) {
        return is_password && value.starts_with(char::is_alphanumeric) && !speaks_of_secrets(value);
    }
    if !literal && is_code(value, secrecy, digits) {
        return false;
    }
    if digits == 0 && value.chars().all(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-' | '.' | '/' | ':')) {
        return !speaks_of_secrets(value) && (is_password || is_random(value, secrecy));
    }
    // A size or a time is not a token.
    is_password && digits == count || !NUMBER.iter().any(|number| number.is_match(value))
}

/// Returns `true` if a value is the location of a secret.
fn is_path(name: &str, value: &str) -> bool {
    let directory = name.to_ascii_lowercase().ends_with("pwd") && value.contains(['/', '\\']);
    directory || PATH.iter().any(|path| path.is_match(value))
}

/// Returns `true` if letters alone may form a key: keywords and names are shorter, or contain capitals and hyphens.
fn is_random(value: &str, secrecy: Secrecy) -> bool {
    let one = value.chars().all(|c| c.is_ascii_lowercase()) || value.chars().all(|c| c.is_ascii_uppercase());
    let least = match (secrecy, one) {
        (Secrecy::Token, true) => 12,
        (_, true) => 8,
        (_, false) => 20,
    };
    value.len() >= least
}

/// Returns `true` if an unquoted value is a name, a type or a call in source code.
fn is_code(value: &str, secrecy: Secrecy, digits: usize) -> bool {
    if value.starts_with([':', '=', '>', '(', '[', '{', '<', '|', '&', '*'])
        || CODE.iter().any(|code| code.is_match(value))
    {
        return true;
    }
    if !NAMES.iter().any(|names| names.is_match(value)) {
        return false;
    }
    let (mut small, mut humps) = (false, 0);
    for c in value.chars() {
        humps += usize::from(small && c.is_ascii_uppercase());
        small = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    let joined = humps > 0 || value.contains(['_', '.', '|', '>']);
    let is_type = value.starts_with(|c: char| c.is_ascii_uppercase());
    // Words are longer than the runs between capitals in random text.
    let worded = value.len() >= 4 * (humps + 1);
    match digits {
        0 => joined || is_type && secrecy != Secrecy::Password,
        // `Uint8Array`, `sha256_digest`, `WIN32_ERROR`; identifiers rarely have more digits.
        1..=3 if value.contains('_') => {
            secrecy != Secrecy::Password || !value.contains(|c: char| c.is_ascii_lowercase())
        }
        1..=5 => secrecy != Secrecy::Password && is_type && humps > 0 && worded,
        _ => false,
    }
}
