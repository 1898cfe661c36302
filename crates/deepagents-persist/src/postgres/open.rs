//! Connecting: checks the schema's ownership and version, and migrates it.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, Object, Pool, Runtime};

use super::error::explain;
use super::releases::Releases;
use super::{Postgres, PostgresEngine, PostgresOptions};
use crate::error::DatabaseError;
use crate::schema::STEADY;

/// Extra time to wait for a response beyond the server's own statement timeout.
const RESPONSE_GRACE: Duration = Duration::from_secs(1);

/// Advisory lock that serialises migrations of one schema by concurrently starting processes. Other schemas do not
/// wait.
const MIGRATION_LOCK: i64 = 0x6461_6774;

/// The migrations from an empty schema to the current one. The schema's version is the number applied.
const MIGRATIONS: [&str; 7] = [FIRST, KEYS, PARENTS, VERSIONS, STEADY, TIMES, STOPS];

const FIRST: &str = "
    CREATE SEQUENCE epoch;
    CREATE TABLE thread (
        key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text COLLATE \"C\" NOT NULL UNIQUE,
        head bigint NOT NULL DEFAULT 0,
        status text NOT NULL DEFAULT 'empty',
        epoch bigint NOT NULL DEFAULT 0,
        owner text,
        lease_until bigint NOT NULL DEFAULT 0,
        metadata text NOT NULL DEFAULT '{}',
        created_at bigint NOT NULL,
        updated_at bigint NOT NULL,
        ttl bigint,
        expires_at bigint,
        bytes bigint NOT NULL DEFAULT 0
    );
    CREATE INDEX thread_expires ON thread (expires_at) WHERE expires_at IS NOT NULL;
    CREATE TABLE event (
        thread bigint NOT NULL REFERENCES thread ON DELETE CASCADE,
        position bigint NOT NULL,
        at bigint NOT NULL,
        status text,
        bytes bigint NOT NULL,
        how bigint NOT NULL,
        body text NOT NULL,
        PRIMARY KEY (thread, position)
    );
    CREATE TABLE snapshot (
        thread bigint NOT NULL REFERENCES thread ON DELETE CASCADE,
        position bigint NOT NULL,
        bytes bigint NOT NULL,
        how bigint NOT NULL,
        body text NOT NULL,
        PRIMARY KEY (thread, position)
    );
    CREATE TABLE blob (hash bytea PRIMARY KEY, body text NOT NULL);
    CREATE TABLE blob_ref (
        thread bigint NOT NULL REFERENCES thread ON DELETE CASCADE,
        position bigint NOT NULL,
        snapshot boolean NOT NULL,
        hash bytea NOT NULL REFERENCES blob,
        PRIMARY KEY (thread, position, snapshot, hash)
    );
    CREATE INDEX blob_ref_hash ON blob_ref (hash);
    CREATE TABLE item (
        namespace bytea NOT NULL,
        name text COLLATE \"C\" NOT NULL,
        value text NOT NULL,
        version bigint NOT NULL,
        created_at bigint NOT NULL,
        updated_at bigint NOT NULL,
        expires_at bigint
    );
    CREATE UNIQUE INDEX item_place ON item (namespace, md5(name));
    CREATE INDEX item_expires ON item (expires_at) WHERE expires_at IS NOT NULL;
";

/// An index on key prefixes lists keys in order, since a key may be too long for an index entry.
const KEYS: &str = "
    ALTER TABLE item ADD COLUMN size bigint NOT NULL DEFAULT 0;
    UPDATE item SET size = octet_length(value);
    CREATE INDEX item_keys ON item (namespace, left(name, 64));
";

/// Indexes for finding children by parent, and resumable threads by status.
const PARENTS: &str = "
    ALTER TABLE thread ADD COLUMN parent text COLLATE \"C\";
    CREATE INDEX thread_parent ON thread (parent, updated_at) WHERE parent IS NOT NULL;
    CREATE INDEX thread_claimable ON thread (updated_at, id) WHERE status IN ('empty', 'open');
";

/// Item versions are never reused. Blobs may contain NUL, which Postgres text cannot.
const VERSIONS: &str = "
    CREATE TABLE deleted_version (last bigint NOT NULL);
    INSERT INTO deleted_version VALUES (0);
    CREATE FUNCTION note_deleted_version() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
        BEGIN
            UPDATE deleted_version SET last = OLD.version WHERE last < OLD.version;
            RETURN NULL;
        END
    $$;
    CREATE TRIGGER item_deleted AFTER DELETE ON item FOR EACH ROW EXECUTE FUNCTION note_deleted_version();
    ALTER TABLE blob ALTER COLUMN body TYPE bytea USING convert_to(body, 'UTF8');
";

/// The indexes for thread listings. The one by last change stores minutes, so that appends update it at most once a
/// minute. Threads of the same minute are sorted when they are read.
const TIMES: &str = "
    ALTER TABLE thread ADD COLUMN minute bigint NOT NULL GENERATED ALWAYS AS (updated_at / 60000) STORED;
    CREATE INDEX thread_updated ON thread (minute);
    CREATE INDEX thread_created ON thread (created_at);
";

/// Why the last run of a thread ended, also as of each record. Runs that ended before have no reason, and programs that
/// have the database open since before write none: then the reason of an earlier run is removed.
const STOPS: &str = "
    ALTER TABLE thread ADD COLUMN stop text;
    ALTER TABLE event ADD COLUMN stop text;
    CREATE FUNCTION forget_stop() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            NEW.stop := NULL;
            RETURN NEW;
        END
    $$;
    CREATE TRIGGER thread_stop BEFORE UPDATE OF status ON thread FOR EACH ROW
        WHEN (NEW.stop = OLD.stop AND NEW.status <> OLD.status) EXECUTE FUNCTION forget_stop();
";

/// Opens a pool of connections to a database, and migrates the schema.
pub(super) async fn connect(
    options: PostgresOptions,
    database: &str,
    manager: Manager,
) -> Result<Postgres, DatabaseError> {
    let schema = options.schema_name();
    let name: Arc<str> = format!("{database}.{schema}").into();
    let pool = Pool::builder(manager)
        .max_size(options.connections.max(1))
        .wait_timeout(Some(options.acquire_timeout))
        .create_timeout(Some(options.connect_timeout))
        .recycle_timeout(Some(options.connect_timeout))
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| DatabaseError::Other { database: name.to_string(), reason: error.to_string() })?;
    // The server's own timeout is reported first while the server still responds.
    let limit = options.statement_timeout.saturating_add(RESPONSE_GRACE);
    let engine = PostgresEngine { pool, database: name, limit, clock: options.clock, releases: Releases::default() };
    migrate(&engine, &schema).await?;
    Ok(Postgres { engine: Arc::new(engine) })
}

async fn migrate(engine: &PostgresEngine, schema: &str) -> Result<(), DatabaseError> {
    let mut checkout = engine.checkout().await?;
    let database = engine.database.to_string();
    let known = MIGRATIONS.len() as i64;
    let found = take_steps(checkout.client()?, schema, known).await.map_err(|error| explain(&database, &error))?;
    checkout.give_back();
    match found {
        Some(found) if found > known => Err(DatabaseError::NewerSchema { database, found, known }),
        Some(_) => Ok(()),
        None => {
            let reason = "the schema contains tables of something else".to_owned();
            Err(DatabaseError::Foreign { database, reason })
        }
    }
}

/// Applies the missing migrations, up to version `known`. Returns the version that was found, or `None` if the schema
/// contains tables of something else.
async fn take_steps(client: &mut Object, schema: &str, known: i64) -> Result<Option<i64>, tokio_postgres::Error> {
    let change = client.transaction().await?;
    // Migrating large tables may take arbitrarily long, and so does waiting for another process that does.
    change.batch_execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0").await?;
    change.execute("SELECT pg_advisory_xact_lock(hashtextextended($2, $1))", &[&MIGRATION_LOCK, &schema]).await?;
    // While a change of a table waits for a lock, everybody else waits behind it.
    change.batch_execute("SET LOCAL lock_timeout TO DEFAULT").await?;
    let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = $1";
    let tables: Vec<String> = change.query(tables, &[&schema]).await?.iter().map(|row| row.get(0)).collect();
    let found: i64 = if tables.iter().any(|table| table == "deepagents_version") {
        change.query_one("SELECT version FROM deepagents_version", &[]).await?.try_get(0)?
    } else if tables.is_empty() {
        0
    } else {
        return Ok(None);
    };
    if found < known {
        if found == 0 {
            change.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"")).await?;
            change.batch_execute("CREATE TABLE deepagents_version (version bigint NOT NULL)").await?;
            change.batch_execute("INSERT INTO deepagents_version VALUES (0)").await?;
        }
        for step in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(usize::MAX)) {
            change.batch_execute(step).await?;
        }
        change.execute("UPDATE deepagents_version SET version = $1", &[&known]).await?;
        change.commit().await?;
    }
    Ok(Some(found))
}
