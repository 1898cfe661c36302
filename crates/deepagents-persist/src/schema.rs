//! Migrations that are the same on both databases.

/// No index contains a column that changes on each append, so an append updates no index.
pub(crate) const STEADY: &str = "
    DROP INDEX thread_parent;
    DROP INDEX thread_claimable;
    CREATE INDEX thread_parent ON thread (parent) WHERE parent IS NOT NULL;
    CREATE INDEX thread_claimable ON thread (id) WHERE status IN ('empty', 'open');
";
