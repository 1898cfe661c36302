//! SQL statements, written once for both databases.

use std::sync::OnceLock;

/// A statement with the parameters `$1`, `$2`, …. Where the databases differ, it uses the macros in [`WORDS`].
#[derive(Debug)]
pub(crate) struct Statement {
    sqlite: Text,
    postgres: Text,
}

#[derive(Debug)]
struct Text {
    template: &'static str,
    expanded: OnceLock<String>,
}

/// A macro with its expansions for SQLite and Postgres.
type Word = (&'static str, &'static str, &'static str);

const fn shared(word: &'static str, expansion: &'static str) -> Word {
    (word, expansion, expansion)
}

/// The macros. An expansion may contain macros listed after it.
const WORDS: [Word; 29] = [
    shared(
        "{thread}",
        "key, id, head, status, owner, lease_until, metadata, created_at, updated_at, expires_at, bytes, {now}, \
         parent, stop",
    ),
    shared(
        "{item}",
        "item.namespace, item.name, item.value, item.version, item.created_at, item.updated_at, item.expires_at, \
         item.size",
    ),
    // A name may be too long for a Postgres index.
    ("{this item}", "namespace = $2 AND name = $3", "namespace = $2 AND md5(name) = md5($3) AND name = $3"),
    ("{wanted item}", "name = wanted.value", "md5(name) = md5(wanted.value) AND name = wanted.value"),
    ("{item key}", "(namespace, name)", "(namespace, md5(name))"),
    // The elements of the JSON array `$3`, with their positions as keys.
    (
        "{wanted}",
        "json_each($3) AS wanted",
        "json_array_elements_text(CAST(CAST($3 AS text) AS json)) WITH ORDINALITY AS wanted (value, key)",
    ),
    // The hashes in the JSON array `$1`.
    (
        "{given hashes}",
        "SELECT unhex(value) FROM json_each($1)",
        "SELECT decode(value, 'hex') FROM json_array_elements_text(CAST(CAST($1 AS text) AS json))",
    ),
    shared("{is unused}", "NOT EXISTS (SELECT 1 FROM blob_ref r WHERE r.hash = blob.hash)"),
    // The threads that meet a condition, written between these two, and all their descendants.
    shared("{families}", "WITH RECURSIVE family (id) AS (SELECT id FROM thread WHERE"),
    shared(
        "{and theirs}",
        "UNION SELECT thread.id FROM thread JOIN family ON thread.parent = family.id) SELECT id FROM family",
    ),
    // Threads with the status `$2`, if it is not null, and the prefix `$3`.
    shared("{listed}", "{live thread} AND (CAST($2 AS text) IS NULL OR status = $2) AND {has prefix}"),
    // Threads after the one with the name `$7` and the time `$8`.
    shared("{after time asc}", "(updated_at > CAST($8 AS bigint) OR (updated_at = $8 AND id > $7))"),
    shared("{after time desc}", "(updated_at < CAST($8 AS bigint) OR (updated_at = $8 AND id > $7))"),
    shared("{after start asc}", "(+created_at > CAST($8 AS bigint) OR (+created_at = $8 AND id > $7))"),
    shared("{after start desc}", "(+created_at < CAST($8 AS bigint) OR (+created_at = $8 AND id > $7))"),
    ("{has prefix}", "substr(id, 1, length(CAST($3 AS text))) = $3", "starts_with(id, CAST($3 AS text))"),
    // Threads with any parent if `$4` is 1, and otherwise, with a null `$5`, threads without a parent. Planners know
    // that most threads have none.
    shared("{top level}", "(CAST($4 AS bigint) = 1 OR parent IS NULL OR parent = CAST($5 AS text))"),
    // Any parent if `$4` is 1, otherwise the parent `$5`, which may be NULL.
    shared("{by parent}", "(CAST($4 AS bigint) = 1 OR parent IS NOT DISTINCT FROM CAST($5 AS text))"),
    shared("{at positions}", "thread = $1 AND position >= $2 AND position < $3"),
    shared("{live}", "(expires_at IS NULL OR expires_at > {now})"),
    // A thread does not expire while it or one of its descendants is leased.
    shared("{live thread}", "(expires_at IS NULL OR expires_at > {now} OR lease_until > {now} OR {worked below})"),
    shared("{expired thread}", "(expires_at <= {now} AND lease_until <= {now} AND NOT {worked below})"),
    // The IDs of descendants lie between `id/` and `id0` in byte order.
    shared(
        "{worked below}",
        "EXISTS (SELECT 1 FROM thread AS below WHERE below.id > thread.id || '/' AND below.id < thread.id || '0' \
         AND below.parent IS NOT NULL AND below.lease_until > {now})",
    ),
    shared("{bytes}", "CAST(coalesce(sum(bytes), 0) AS bigint)"),
    ("{for update}", "", "FOR UPDATE"),
    ("{for update skip locked}", "", "FOR UPDATE SKIP LOCKED"),
    ("{for key share}", "", "FOR KEY SHARE"),
    // The server's time, unless one is injected.
    ("{now}", "$1", "coalesce(CAST($1 AS bigint), (extract(epoch FROM clock_timestamp()) * 1000)::bigint)"),
    ("$", "?", "$"),
];

impl Statement {
    pub(crate) const fn new(template: &'static str) -> Self {
        Self::per_database(template, template)
    }

    /// Creates a statement with separate text for each database. The SQLite text may omit trailing parameters, and may
    /// be empty for a no-op.
    pub(crate) const fn per_database(sqlite: &'static str, postgres: &'static str) -> Self {
        Self { sqlite: Text::new(sqlite), postgres: Text::new(postgres) }
    }

    pub(crate) fn sqlite(&self) -> &str {
        self.sqlite.expanded(|word| word.1)
    }

    pub(crate) fn postgres(&self) -> &str {
        self.postgres.expanded(|word| word.2)
    }
}

impl Text {
    const fn new(template: &'static str) -> Self {
        Self { template, expanded: OnceLock::new() }
    }

    fn expanded(&self, meaning: fn(&Word) -> &'static str) -> &str {
        let expand = || WORDS.iter().fold(self.template.to_owned(), |text, word| text.replace(word.0, meaning(word)));
        self.expanded.get_or_init(expand)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_use_the_placeholders_and_keywords_of_each_database() {
        let statement = Statement::new("DELETE FROM item WHERE {this item} AND {live} {for update}");
        assert_eq!(
            statement.sqlite(),
            "DELETE FROM item WHERE namespace = ?2 AND name = ?3 AND (expires_at IS NULL OR expires_at > ?1) "
        );
        assert!(statement.postgres().contains("md5($3)") && statement.postgres().ends_with("FOR UPDATE"));
        assert!(!statement.postgres().contains(['{', '?']));
    }
}
