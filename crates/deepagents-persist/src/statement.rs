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

type Word = (&'static str, &'static str, &'static str);

/// Each macro with its expansions for SQLite and Postgres. An expansion may contain macros listed after it.
const WORDS: [Word; 23] = [
    ("{thread}", THREAD, THREAD),
    ("{item}", ITEM, ITEM),
    // A name may be too long for a Postgres index.
    ("{this item}", "namespace = $2 AND name = $3", "namespace = $2 AND md5(name) = md5($3) AND name = $3"),
    ("{item key}", "(namespace, name)", "(namespace, md5(name))"),
    ("{families}", FAMILIES, FAMILIES),
    ("{and theirs}", AND_THEIRS, AND_THEIRS),
    ("{listed}", LISTED, LISTED),
    ("{after time asc}", AFTER_TIME_ASC, AFTER_TIME_ASC),
    ("{after time desc}", AFTER_TIME_DESC, AFTER_TIME_DESC),
    ("{after start asc}", AFTER_START_ASC, AFTER_START_ASC),
    ("{after start desc}", AFTER_START_DESC, AFTER_START_DESC),
    ("{has prefix}", "substr(id, 1, length(CAST($3 AS text))) = $3", "starts_with(id, CAST($3 AS text))"),
    ("{top level}", TOP_LEVEL, TOP_LEVEL),
    ("{by parent}", BY_PARENT, BY_PARENT),
    ("{live}", LIVE, LIVE),
    ("{live thread}", LIVE_THREAD, LIVE_THREAD),
    ("{expired thread}", EXPIRED_THREAD, EXPIRED_THREAD),
    ("{worked below}", WORKED_BELOW, WORKED_BELOW),
    ("{bytes}", BYTES, BYTES),
    ("{for update}", "", "FOR UPDATE"),
    ("{for key share}", "", "FOR KEY SHARE"),
    // The server's time, unless one is injected.
    ("{now}", "$1", "coalesce(CAST($1 AS bigint), (extract(epoch FROM clock_timestamp()) * 1000)::bigint)"),
    ("$", "?", "$"),
];

const THREAD: &str = "key, id, head, status, owner, lease_until, metadata, created_at, updated_at, expires_at, \
                      bytes, {now}, parent";
const ITEM: &str = "item.namespace, item.name, item.value, item.version, item.created_at, item.updated_at, \
                    item.expires_at, item.size";
/// Selects the threads that meet a condition, written between this and [`AND_THEIRS`], and all their descendants.
const FAMILIES: &str = "WITH RECURSIVE family (id) AS (SELECT id FROM thread WHERE";
const AND_THEIRS: &str = "UNION SELECT thread.id FROM thread JOIN family ON thread.parent = family.id) \
                          SELECT id FROM family";
/// Matches threads with the status `$2`, if it is not null, and the prefix `$3`.
const LISTED: &str = "{live thread} AND (CAST($2 AS text) IS NULL OR status = $2) AND {has prefix}";
/// Matches threads after the one with the name `$7` and the time `$8`.
const AFTER_TIME_ASC: &str = "(updated_at > CAST($8 AS bigint) OR (updated_at = $8 AND id > $7))";
const AFTER_TIME_DESC: &str = "(updated_at < CAST($8 AS bigint) OR (updated_at = $8 AND id > $7))";
const AFTER_START_ASC: &str = "(+created_at > CAST($8 AS bigint) OR (+created_at = $8 AND id > $7))";
const AFTER_START_DESC: &str = "(+created_at < CAST($8 AS bigint) OR (+created_at = $8 AND id > $7))";
/// Matches threads with any parent if `$4` is 1, and otherwise, with a null `$5`, threads without a parent. Planners
/// know that most threads have none.
const TOP_LEVEL: &str = "(CAST($4 AS bigint) = 1 OR parent IS NULL OR parent = CAST($5 AS text))";
/// Matches any parent if `$4` is 1, otherwise the parent `$5`, which may be NULL.
const BY_PARENT: &str = "(CAST($4 AS bigint) = 1 OR parent IS NOT DISTINCT FROM CAST($5 AS text))";
const LIVE: &str = "(expires_at IS NULL OR expires_at > {now})";
/// A thread does not expire while it or one of its descendants is leased.
const LIVE_THREAD: &str = "(expires_at IS NULL OR expires_at > {now} OR lease_until > {now} OR {worked below})";
const EXPIRED_THREAD: &str = "(expires_at <= {now} AND lease_until <= {now} AND NOT {worked below})";
/// The IDs of descendants lie between `id/` and `id0` in byte order.
const WORKED_BELOW: &str = "EXISTS (SELECT 1 FROM thread AS below WHERE below.id > thread.id || '/' \
                            AND below.id < thread.id || '0' AND below.parent IS NOT NULL \
                            AND below.lease_until > {now})";
const BYTES: &str = "CAST(coalesce(sum(bytes), 0) AS bigint)";

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
