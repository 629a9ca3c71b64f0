//! Journals in a SQLite file.
//!
//! One thread writes ([`Writer`]). The file is in WAL mode: what was committed outlives the program being killed at any instant. Each
//! program holds a lock on a file of its own beside the store; the lease of a process names its program, and is free
//! once that program's lock is.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, Transaction, TransactionBehavior, params};
use serde_json::Value;

use super::writer::{self, Writer};
use super::{Batch, Kept, Line, REPLIES_PER_LOOK, ReplyLimits, Row, Store, StoreError, ended_in_sql, schema};

/// How long a program waits for another that writes.
const BUSY: Duration = Duration::from_secs(10);

/// A store in a file.
pub struct SqliteStore {
    path: Arc<str>,
    /// Before `owner`: what is to be written is, before the leases are free.
    writer: Writer<Connection>,
    owner: Owner,
}

/// What the writer's thread does.
struct Hand {
    owner: String,
    path: Arc<str>,
}

/// This program, as leases name it.
struct Owner {
    name: String,
    dir: PathBuf,
    /// Locked as long as the program lives.
    _lock: File,
}

impl SqliteStore {
    /// Opens the store in a file, which is made when it is not there; its directory too.
    ///
    /// # Errors
    /// Says why it cannot be used: the directory cannot be written, the file is no store or a newer one.
    pub fn open(path: &Path) -> Result<SqliteStore, StoreError> {
        let wrong = |why: String| StoreError::Failed(format!("the store `{}` cannot be used: {why}", path.display()));
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !dir.is_dir() {
            std::fs::create_dir_all(dir).map_err(|error| wrong(unwritable(&error)))?;
            // What is kept of runs does not belong into a repository.
            let _ = std::fs::write(dir.join(".gitignore"), "*\n");
        }
        let mut connection = connect(path).map_err(|error| wrong(words(&error)))?;
        schema::migrate(&mut connection).map_err(wrong)?;
        let owner = Owner::new(&dir.join("programs")).map_err(|error| wrong(unwritable(&error)))?;
        let path: Arc<str> = path.display().to_string().into();
        let hand = Hand { owner: owner.name.clone(), path: path.clone() };
        let writer = Writer::start(move || Ok((connection, hand)))?;
        Ok(SqliteStore { path, writer, owner })
    }

    /// Does something with the connection, on the writer's thread, after all that was appended before.
    fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> rusqlite::Result<Result<T, StoreError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let path = self.path.clone();
        self.writer.ask(move |connection| job(connection).unwrap_or_else(|error| Err(failed(&path, &error))))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.dir.join(&self.name));
    }
}

impl Owner {
    fn new(dir: &Path) -> std::io::Result<Owner> {
        std::fs::create_dir_all(dir)?;
        let name = ulid::Ulid::generate().to_string();
        let lock = File::create(dir.join(&name))?;
        lock.lock()?;
        Ok(Owner { name, dir: dir.to_owned(), _lock: lock })
    }
}

/// Whether the program of this name still runs.
fn is_alive(dir: &Path, owner: &str) -> bool {
    let path = dir.join(owner);
    let Ok(file) = File::open(&path) else { return false };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => true,
        _ => {
            let _ = std::fs::remove_file(path);
            false
        }
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    // The file is brought together with its log by a later program, not by one that ends: that would cost each run.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

fn unwritable(error: &std::io::Error) -> String {
    format!("{error}; its directory cannot be written: correct its permissions, or run with `--no-store`")
}

/// What went wrong, with a cure where there is one.
fn words(error: &rusqlite::Error) -> String {
    use rusqlite::ErrorCode;
    let cure = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            "; it is damaged or something else: move it away, and a new one is made"
        }
        Some(ErrorCode::DiskFull) => "; the disk is full: make room, then `agent-run resume` goes on",
        Some(ErrorCode::SystemIoFailure) => {
            "; it could not be written: make room if the disk is full, then `agent-run resume` goes on"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "; it cannot be written: correct its permissions, or run with `--no-store`"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "; another program has held it for too long",
        _ => "",
    };
    format!("{error}{cure}")
}

fn failed(path: &str, error: &rusqlite::Error) -> StoreError {
    StoreError::Failed(format!("the store `{path}`: {}", words(error)))
}

impl writer::Hand<Connection> for Hand {
    /// A batch that is refused is left out of the transaction.
    fn append(
        &mut self,
        connection: &mut Connection,
        batches: &[Box<Batch>],
    ) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let kept: rusqlite::Result<Vec<_>> = (|| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let results = batches.iter().map(|batch| append_one(&transaction, batch, &self.owner));
            let results = results.collect::<rusqlite::Result<_>>()?;
            transaction.commit()?;
            Ok(results)
        })();
        kept.map_err(|error| failed(&self.path, &error))
    }

    fn wanted(&mut self, connection: &mut Connection) -> Vec<String> {
        let wanted = || -> rusqlite::Result<Vec<String>> {
            let mut select = connection.prepare_cached(
                "SELECT process FROM processes WHERE owner = ?1 AND wanted = 'end' AND parent IS NULL",
            )?;
            select.query_map(params![self.owner], |row| row.get(0))?.collect()
        };
        // A store that cannot be read now is read again soon.
        wanted().unwrap_or_default()
    }
}

fn append_one(transaction: &Transaction<'_>, batch: &Batch, owner: &str) -> rusqlite::Result<Result<(), StoreError>> {
    let row = &batch.row;
    let count = i64::try_from(batch.lines.len()).unwrap_or(i64::MAX);
    let before = i64::try_from(row.lines).unwrap_or(i64::MAX);
    let mut update = transaction.prepare_cached(
        "UPDATE processes SET status = ?2, goal = ?3, cost_usd = ?4, updated_at = ?5, used = ?6, lines = lines + ?7
         WHERE process = ?1 AND owner = ?8 AND lines = ?9 RETURNING n",
    )?;
    let values =
        params![row.process, row.status, row.goal, row.cost_usd, row.updated_at, row.used, count, owner, before];
    let n: Option<i64> = update.query_row(values, |row| row.get(0)).optional()?;
    let n = match n {
        Some(n) => n,
        None if row.lines == 0 => {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO processes (process, parent, agent, target, status, goal, cost_usd, started_at, updated_at,
                     used, lines, owner) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
                 ON CONFLICT (process) DO NOTHING RETURNING n",
            )?;
            let values = params![
                row.process,
                row.parent,
                row.agent,
                row.target,
                row.status,
                row.goal,
                row.cost_usd,
                row.started_at,
                row.updated_at,
                row.used,
                count,
                owner
            ];
            let made: Option<i64> = insert.query_row(values, |row| row.get(0)).optional()?;
            let Some(n) = made else { return Ok(Err(StoreError::Held(row.process.clone()))) };
            n
        }
        None => return Ok(Err(refused(transaction, row, owner)?)),
    };
    let (records, events) = (joined(&batch.lines, "record"), joined(&batch.lines, "event"));
    let mut insert = transaction.prepare_cached("INSERT INTO journal (n, records, events) VALUES (?1, ?2, ?3)")?;
    insert.execute(params![n, records, events])?;
    if row.has_ended() {
        // What an action started and left behind ends with it.
        let end = format!(
            "WITH RECURSIVE tree(process) AS (
                 SELECT process FROM processes WHERE parent = ?1 UNION
                 SELECT processes.process FROM processes JOIN tree ON processes.parent = tree.process)
             UPDATE processes SET status = 'killed', updated_at = ?2
             WHERE process IN (SELECT process FROM tree) AND status NOT IN {}",
            ended_in_sql()
        );
        transaction.prepare_cached(&end)?.execute(params![row.process, row.updated_at])?;
    }
    if let Some((context, objects)) = &batch.context {
        transaction.execute("DELETE FROM contexts WHERE context = ?1", params![context])?;
        let mut insert = transaction
            .prepare_cached("INSERT INTO contexts (context, at, type, name, value) VALUES (?1, ?2, ?3, ?4, ?5)")?;
        for (at, object) in objects.iter().enumerate() {
            let at = i64::try_from(at).unwrap_or(i64::MAX);
            insert.execute(params![context, at, object.type_name, object.name, object.value.to_string()])?;
        }
    }
    Ok(Ok(()))
}

/// The lines of a kind, each with its end. JSON in one line has no such character.
fn joined(lines: &[Line], kind: &str) -> String {
    let of_kind = || lines.iter().filter(|line| line.kind == kind);
    let mut text = String::with_capacity(of_kind().map(|line| line.body.len() + 1).sum());
    for line in of_kind() {
        text.push_str(&line.body);
        text.push('\n');
    }
    text
}

/// Why a batch was not taken.
fn refused(transaction: &Transaction<'_>, row: &Row, owner: &str) -> rusqlite::Result<StoreError> {
    let mut select = transaction.prepare_cached("SELECT owner FROM processes WHERE process = ?1")?;
    let holder: Option<Option<String>> = select.query_row(params![row.process], |row| row.get(0)).optional()?;
    Ok(match holder {
        None => StoreError::Unknown(row.process.clone()),
        Some(Some(holder)) if holder == owner => {
            StoreError::Failed(format!("the journal of {} has a gap: something before this was not kept", row.process))
        }
        Some(_) => StoreError::Held(row.process.clone()),
    })
}

const COLUMNS: &str =
    "process, parent, agent, target, status, goal, cost_usd, started_at, updated_at, used, lines FROM processes";

fn row(row: &SqlRow<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        process: row.get(0)?,
        parent: row.get(1)?,
        agent: row.get(2)?,
        target: row.get(3)?,
        status: row.get(4)?,
        goal: row.get(5)?,
        cost_usd: row.get(6)?,
        started_at: row.get(7)?,
        updated_at: row.get(8)?,
        used: row.get(9)?,
        lines: u64::try_from(row.get::<_, i64>(10)?).unwrap_or_default(),
    })
}

impl Store for SqliteStore {
    fn append(&self, batch: Batch) -> BoxFuture<'static, Result<(), StoreError>> {
        self.writer.append(batch)
    }

    fn lines<'a>(&'a self, process: &'a str, kind: &'static str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let process = process.to_owned();
        self.ask(move |connection| {
            let column = if kind == "record" { "records" } else { "events" };
            let mut select = connection.prepare_cached(&format!(
                "SELECT {column} FROM journal WHERE n = (SELECT n FROM processes WHERE process = ?1) ORDER BY at"
            ))?;
            let mut lines = Vec::new();
            let mut batches = select.query(params![process])?;
            while let Some(batch) = batches.next()? {
                lines.extend(batch.get_ref(0)?.as_str()?.split_terminator('\n').map(str::to_owned));
            }
            Ok(Ok(lines))
        })
    }

    fn row<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<Option<Row>, StoreError>> {
        let process = process.to_owned();
        self.ask(move |connection| {
            let mut select = connection.prepare_cached(&format!("SELECT {COLUMNS} WHERE process = ?1"))?;
            Ok(Ok(select.query_row(params![process], row).optional()?))
        })
    }

    fn rows(&self) -> BoxFuture<'_, Result<Vec<Row>, StoreError>> {
        self.ask(|connection| {
            let mut select = connection.prepare_cached(&format!("SELECT {COLUMNS} WHERE parent IS NULL ORDER BY n"))?;
            let rows = select.query_map([], row)?.collect::<Result<_, _>>()?;
            Ok(Ok(rows))
        })
    }

    fn children<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        let process = process.to_owned();
        self.ask(move |connection| {
            let mut select = connection.prepare_cached(&format!("SELECT {COLUMNS} WHERE parent = ?1 ORDER BY n"))?;
            let rows = select.query_map(params![process], row)?.collect::<Result<_, _>>()?;
            Ok(Ok(rows))
        })
    }

    fn claim<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let (process, me, dir) = (process.to_owned(), self.owner.name.clone(), self.owner.dir.clone());
        self.ask(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let holder: Option<Option<String>> = transaction
                .query_row("SELECT owner FROM processes WHERE process = ?1", params![process], |row| row.get(0))
                .optional()?;
            match holder {
                None => return Ok(Err(StoreError::Unknown(process))),
                Some(Some(holder)) if holder != me && is_alive(&dir, &holder) => {
                    return Ok(Err(StoreError::Held(process)));
                }
                Some(_) => {}
            }
            // The lease of a process is that of all that belongs to it.
            transaction.execute(
                "WITH RECURSIVE tree(process) AS (
                     VALUES (?1) UNION
                     SELECT processes.process FROM processes JOIN tree ON processes.parent = tree.process)
                 UPDATE processes SET owner = ?2, wanted = NULL WHERE process IN (SELECT process FROM tree)",
                params![process, me],
            )?;
            transaction.commit()?;
            Ok(Ok(()))
        })
    }

    fn release<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let (process, me) = (process.to_owned(), self.owner.name.clone());
        self.writer.ends().remove(&process);
        self.ask(move |connection| {
            connection.execute(
                "WITH RECURSIVE tree(process) AS (
                     VALUES (?1) UNION
                     SELECT processes.process FROM processes JOIN tree ON processes.parent = tree.process)
                 UPDATE processes SET owner = NULL, wanted = NULL
                 WHERE owner = ?2 AND process IN (SELECT process FROM tree)",
                params![process, me],
            )?;
            Ok(Ok(()))
        })
    }

    fn ask_to_end<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let process = process.to_owned();
        self.ask(move |connection| {
            let count =
                connection.execute("UPDATE processes SET wanted = 'end' WHERE process = ?1", params![process])?;
            Ok(if count == 0 { Err(StoreError::Unknown(process)) } else { Ok(()) })
        })
    }

    fn on_asked_to_end(&self, process: &str, end: Box<dyn Fn() + Send + Sync>) {
        self.writer.ends().insert(process.to_owned(), end);
    }

    fn next_number(&self) -> Result<u64, StoreError> {
        let answer = self.ask(|connection| {
            let mut next = connection.prepare_cached("UPDATE numbers SET next = next + 1 RETURNING next - 1")?;
            let number: i64 = next.query_row([], |row| row.get(0))?;
            Ok(Ok(u64::try_from(number).unwrap_or_default()))
        });
        futures::executor::block_on(answer)
    }

    fn context<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Vec<Kept>, StoreError>> {
        let id = id.to_owned();
        self.ask(move |connection| {
            let mut select =
                connection.prepare_cached("SELECT type, name, value FROM contexts WHERE context = ?1 ORDER BY at")?;
            let kept = |row: &SqlRow<'_>| {
                let value: String = row.get(2)?;
                let value = serde_json::from_str(&value).unwrap_or(Value::Null);
                Ok(Kept { type_name: row.get(0)?, name: row.get(1)?, value })
            };
            let objects = select.query_map(params![id], kept)?.collect::<Result<_, _>>()?;
            Ok(Ok(objects))
        })
    }

    fn reply<'a>(&'a self, key: &'a str, since: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        let (key, since) = (key.to_owned(), since.to_owned());
        self.ask(move |connection| {
            let mut select = connection.prepare_cached("SELECT body FROM replies WHERE key = ?1 AND at >= ?2")?;
            Ok(Ok(select.query_row(params![key, since], |row| row.get(0)).optional()?))
        })
    }

    fn keep_reply<'a>(
        &'a self,
        key: &'a str,
        body: String,
        at: &'a str,
        limits: ReplyLimits,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let (key, at) = (key.to_owned(), at.to_owned());
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (count, bytes, size) = (whole(limits.count), whole(limits.bytes), whole(body.len() as u64));
        self.ask(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute(
                "INSERT OR REPLACE INTO replies (key, at, bytes, body) VALUES (?1, ?2, ?3, ?4)",
                params![key, at, size, body],
            )?;
            // To look through all of them at each one would cost more than a few too many.
            if transaction.last_insert_rowid() % REPLIES_PER_LOOK == 0 {
                transaction.execute(
                    "DELETE FROM replies WHERE n IN (
                         SELECT n FROM (SELECT n, SUM(bytes) OVER newer AS bytes, COUNT(*) OVER newer AS place
                                        FROM replies WINDOW newer AS (ORDER BY n DESC))
                         WHERE place > ?1 OR bytes > ?2)",
                    params![count, bytes],
                )?;
            }
            transaction.commit()?;
            Ok(Ok(()))
        })
    }

    fn prune(&self, keep: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        let keep = i64::try_from(keep).unwrap_or(i64::MAX);
        self.ask(move |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let ended = ended_in_sql();
            // All of them at once: their lines lie side by side.
            for table in ["journal", "processes"] {
                let delete = format!(
                    "WITH RECURSIVE
                         oldest AS (
                             SELECT n, process FROM processes WHERE parent IS NULL
                                 AND status IN {ended}
                             ORDER BY n DESC LIMIT -1 OFFSET ?1),
                         tree(n, process) AS (
                             SELECT n, process FROM oldest UNION
                             SELECT processes.n, processes.process
                             FROM processes JOIN tree ON processes.parent = tree.process)
                     DELETE FROM {table} WHERE n IN (SELECT n FROM tree)"
                );
                transaction.prepare_cached(&delete)?.execute(params![keep])?;
            }
            transaction.commit()?;
            Ok(Ok(()))
        })
    }
}

#[cfg(test)]
mod tests;
