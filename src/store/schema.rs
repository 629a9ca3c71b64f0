//! The tables of the SQLite store, as steps from one version to the next.

use rusqlite::{Connection, TransactionBehavior};

/// What brings a store from each version to the next; `user_version` says how many were done. Steps are only added.
const MIGRATIONS: &[&str] = &[
    "CREATE TABLE processes (
         n INTEGER PRIMARY KEY,
         process TEXT NOT NULL UNIQUE,
         parent TEXT,
         agent TEXT NOT NULL,
         target TEXT NOT NULL,
         status TEXT NOT NULL,
         goal TEXT,
         cost_usd REAL NOT NULL,
         started_at TEXT NOT NULL,
         updated_at TEXT NOT NULL,
         used TEXT NOT NULL,
         lines INTEGER NOT NULL,
         owner TEXT,
         wanted TEXT
     );
     CREATE INDEX processes_by_parent ON processes (parent);
     CREATE TABLE journal (
         n INTEGER NOT NULL,
         line INTEGER NOT NULL,
         kind TEXT NOT NULL,
         body TEXT NOT NULL,
         PRIMARY KEY (n, line)
     ) WITHOUT ROWID;",
    "CREATE TABLE contexts (
         context TEXT NOT NULL,
         at INTEGER NOT NULL,
         type TEXT NOT NULL,
         name TEXT,
         value TEXT NOT NULL,
         PRIMARY KEY (context, at)
     ) WITHOUT ROWID;
     CREATE TABLE numbers (next INTEGER NOT NULL);
     INSERT INTO numbers VALUES (1);",
    "CREATE TABLE replies (
         n INTEGER PRIMARY KEY,
         key TEXT NOT NULL UNIQUE,
         at TEXT NOT NULL,
         bytes INTEGER NOT NULL,
         body TEXT NOT NULL
     );",
    // Lines lie in the order in which they came: those of processes that run side by side share pages, and each commit
    // writes few. Clustered by process, a thousand processes would have a thousand pages written at every step.
    "ALTER TABLE journal RENAME TO clustered;
     CREATE TABLE journal (
         at INTEGER PRIMARY KEY,
         n INTEGER NOT NULL,
         line INTEGER NOT NULL,
         kind TEXT NOT NULL,
         body TEXT NOT NULL
     );
     INSERT INTO journal (n, line, kind, body) SELECT n, line, kind, body FROM clustered ORDER BY n, line;
     DROP TABLE clustered;
     CREATE UNIQUE INDEX journal_by_line ON journal (n, line);",
    // A row for the lines that came together, not one for each: a third of the rows.
    "ALTER TABLE journal RENAME TO single;
     CREATE TABLE journal (
         at INTEGER PRIMARY KEY,
         n INTEGER NOT NULL,
         records TEXT NOT NULL,
         events TEXT NOT NULL
     );
     INSERT INTO journal (n, records, events)
         SELECT n, iif(kind = 'record', body || char(10), ''), iif(kind = 'event', body || char(10), '')
         FROM single ORDER BY n, line;
     DROP TABLE single;
     CREATE INDEX journal_by_process ON journal (n);",
];

/// Brings a store to the present version; one that is newer is refused and left as it is.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), String> {
    let have = have(connection)?;
    if have == MIGRATIONS.len() {
        return Ok(());
    }
    migrate_to(connection, MIGRATIONS.len())
}

fn have(connection: &Connection) -> Result<usize, String> {
    let version: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(|error| error.to_string())?;
    match usize::try_from(version) {
        Ok(have) if have <= MIGRATIONS.len() => Ok(have),
        _ => Err(format!(
            "it is of version {version}, and this program knows stores up to version {}; use a newer agent-run",
            MIGRATIONS.len()
        )),
    }
}

/// Brings a store to a version.
pub(super) fn migrate_to(connection: &mut Connection, version: usize) -> Result<(), String> {
    let wrong = |error: rusqlite::Error| error.to_string();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(wrong)?;
    // Another program may have been quicker.
    let have = have(&transaction)?;
    for step in MIGRATIONS.iter().take(version).skip(have) {
        transaction.execute_batch(step).map_err(wrong)?;
    }
    let reached = i64::try_from(have.max(version)).unwrap_or(i64::MAX);
    transaction.pragma_update(None, "user_version", reached).map_err(wrong)?;
    transaction.commit().map_err(wrong)
}
