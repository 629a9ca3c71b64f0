//! Journals in a PostgreSQL database, in tables of the schema `agent_run`.
//!
//! One thread writes ([`Writer`]), on one connection. Each program holds an advisory lock for as long as it is connected;
//! the lease of a process names the lock of its program, and is free once that lock is. A connection that breaks is made
//! anew for what comes next; what was under way then was not kept, and its process stops until it is resumed.

mod tls;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use postgres::{Client, Config, GenericClient, Row as PgRow, Transaction};
use serde_json::Value;

use self::tls::Tls;
use super::writer::{self, Writer};
use super::{Batch, Kept, REPLIES_PER_LOOK, ReplyLimits, Row, Store, StoreError, ended_in_sql};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a program waits for another that writes.
const BUSY_MS: u64 = 10_000;
/// The advisory lock under which the tables are brought to the present version.
const MIGRATING: i64 = 0x6167_656e_7472_756e;

/// What brings the tables from each version to the next; `version` says how many were done. Steps are only added.
const MIGRATIONS: &[&str] = &["CREATE TABLE processes (
         n BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
         process TEXT NOT NULL UNIQUE,
         parent TEXT,
         agent TEXT NOT NULL,
         target TEXT NOT NULL,
         status TEXT NOT NULL,
         goal TEXT,
         cost_usd DOUBLE PRECISION NOT NULL,
         started_at TEXT NOT NULL,
         updated_at TEXT NOT NULL,
         used TEXT NOT NULL,
         lines BIGINT NOT NULL,
         owner BIGINT,
         wanted TEXT
     );
     CREATE INDEX processes_by_parent ON processes (parent);
     CREATE INDEX processes_by_owner ON processes (owner) WHERE owner IS NOT NULL;
     CREATE TABLE journal (
         n BIGINT NOT NULL,
         line BIGINT NOT NULL,
         kind TEXT NOT NULL,
         body TEXT NOT NULL,
         PRIMARY KEY (n, line)
     );
     CREATE TABLE contexts (
         context TEXT NOT NULL,
         at BIGINT NOT NULL,
         type TEXT NOT NULL,
         name TEXT,
         value TEXT NOT NULL,
         PRIMARY KEY (context, at)
     );
     CREATE SEQUENCE numbers;
     CREATE TABLE replies (
         n BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
         key TEXT NOT NULL UNIQUE,
         at TEXT NOT NULL,
         bytes BIGINT NOT NULL,
         body TEXT NOT NULL
     );"];

/// The processes that belong to `$1`, itself too.
const TREE: &str = "WITH RECURSIVE tree(n, process) AS (
     SELECT n, process FROM processes WHERE process = $1 UNION
     SELECT processes.n, processes.process FROM processes JOIN tree ON processes.parent = tree.process)";

const COLUMNS: &str =
    "process, parent, agent, target, status, goal, cost_usd, started_at, updated_at, used, lines FROM processes";

/// A store on a server.
pub struct PostgresStore {
    /// The server and database, as errors name them.
    shown: Arc<str>,
    writer: Writer<Link>,
    /// The number of this program's advisory lock.
    owner: i64,
}

/// The connection, which may break.
struct Link {
    config: Config,
    owner: i64,
    shown: Arc<str>,
    client: Client,
}

/// What the writer's thread does.
struct Hand;

impl PostgresStore {
    /// Opens the store in the database that a URL (`postgresql://user:password@host/database`) or a list of `key=value`
    /// names; its tables are made when they are not there. `sslmode=require` in it wants an encrypted connection.
    ///
    /// # Errors
    /// Says why it cannot be used, without the password: the server cannot be reached, the tables are newer.
    pub fn open(url: &str) -> Result<PostgresStore, StoreError> {
        let wrong = || {
            StoreError::Failed(
                "`store.postgres` is no address of a database; write `postgresql://USER:PASSWORD@HOST/DATABASE`"
                    .to_owned(),
            )
        };
        // The parser's own words could hold the password.
        let mut config: Config = url.parse().map_err(|_| wrong())?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("agent-run");
        }
        let shown: Arc<str> = shown(&config).into();
        // Ids are as good as random, and there is one for each program.
        let owner = ulid::Ulid::generate().random().to_le_bytes();
        let owner = i64::from_le_bytes(std::array::from_fn(|at| owner[at]));
        let (link_shown, link_config) = (shown.clone(), config);
        let writer = Writer::start(move || {
            let client = connect(&link_config, owner, &link_shown)?;
            Ok((Link { config: link_config, owner, shown: link_shown, client }, Hand))
        })?;
        Ok(PostgresStore { shown, writer, owner })
    }

    fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Client) -> Result<Result<T, StoreError>, postgres::Error> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let shown = self.shown.clone();
        self.writer.ask(move |link| job(link.client()?).unwrap_or_else(|error| Err(failed(&shown, &error))))
    }
}

impl Link {
    /// The connection; a new one where it has broken.
    fn client(&mut self) -> Result<&mut Client, StoreError> {
        if self.client.is_closed() {
            self.client = connect(&self.config, self.owner, &self.shown)?;
        }
        Ok(&mut self.client)
    }
}

/// The database as errors may name it.
fn shown(config: &Config) -> String {
    let host = config.get_hosts().first().map(|host| match host {
        postgres::config::Host::Tcp(name) => name.clone(),
        postgres::config::Host::Unix(path) => path.display().to_string(),
    });
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("{database} at {}", host.unwrap_or_default())
}

/// Connects, takes the program's lock, and brings the tables to the present version.
fn connect(config: &Config, owner: i64, shown: &str) -> Result<Client, StoreError> {
    let wrong = |why: String| StoreError::Failed(format!("the store `{shown}` cannot be used: {why}"));
    let tls = Tls::of_the_system().map_err(|error| wrong(error.to_string()))?;
    let mut client = config.connect(tls).map_err(|error| {
        wrong(format!("{}; is the server there, and are `store.postgres` and the password right?", words(&error)))
    })?;
    let failed = |error: postgres::Error| wrong(words(&error));
    client
        .batch_execute(&format!("SET lock_timeout = {BUSY_MS}; SET client_min_messages = warning"))
        .map_err(failed)?;
    migrate(&mut client).map_err(failed)?.map_err(wrong)?;
    client.batch_execute("SET search_path = agent_run").map_err(failed)?;
    let taken: bool = client.query_one("SELECT pg_try_advisory_lock($1)", &[&owner]).map_err(failed)?.get(0);
    if !taken {
        // The server has not noticed yet that the connection before this one is gone.
        client.execute("SELECT pg_advisory_lock($1)", &[&owner]).map_err(failed)?;
    }
    Ok(client)
}

/// Brings the tables to the present version; newer ones are refused and left as they are.
fn migrate(client: &mut Client) -> Result<Result<(), String>, postgres::Error> {
    let known = i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX);
    if version(client)? == known {
        return Ok(Ok(()));
    }
    let mut transaction = client.transaction()?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATING])?;
    // Another program may have been quicker.
    let have = version(&mut transaction)?;
    if have > known {
        return Ok(Err(format!(
            "it is of version {have}, and this program knows stores up to version {known}; use a newer agent-run"
        )));
    }
    if have == 0 {
        transaction.batch_execute(
            "CREATE SCHEMA IF NOT EXISTS agent_run; CREATE TABLE agent_run.version (n INTEGER NOT NULL);
             INSERT INTO agent_run.version VALUES (0)",
        )?;
    }
    transaction.batch_execute("SET LOCAL search_path = agent_run")?;
    for step in MIGRATIONS.iter().skip(usize::try_from(have).unwrap_or_default()) {
        transaction.batch_execute(step)?;
    }
    transaction.execute("UPDATE agent_run.version SET n = $1", &[&known])?;
    transaction.commit()?;
    Ok(Ok(()))
}

/// The version of the tables; 0 where there are none.
fn version(client: &mut impl GenericClient) -> Result<i32, postgres::Error> {
    let there: bool = client.query_one("SELECT to_regclass('agent_run.version') IS NOT NULL", &[])?.get(0);
    Ok(if there { client.query_one("SELECT n FROM agent_run.version", &[])?.get(0) } else { 0 })
}

/// What went wrong, as the server says it.
fn words(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(told) => match told.hint() {
            Some(hint) => format!("{} ({hint})", told.message()),
            None => told.message().to_owned(),
        },
        None => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            text
        }
    }
}

fn failed(shown: &str, error: &postgres::Error) -> StoreError {
    use postgres::error::SqlState;
    let cure = match error.code() {
        Some(code) if *code == SqlState::DISK_FULL => "; the disk is full: make room, then `agent-run resume` goes on",
        Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => "; another program has held it for too long",
        None if error.is_closed() => "; once the server is there again, `agent-run resume` goes on",
        _ => "",
    };
    StoreError::Failed(format!("the store `{shown}`: {}{cure}", words(error)))
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl writer::Hand<Link> for Hand {
    /// A batch that is refused is left out of the transaction.
    fn append(&mut self, link: &mut Link, batches: &[Box<Batch>]) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let (owner, shown) = (link.owner, link.shown.clone());
        let client = link.client()?;
        let mut kept = || -> Result<Vec<Result<(), StoreError>>, postgres::Error> {
            let mut transaction = client.transaction()?;
            let results = batches.iter().map(|batch| append_one(&mut transaction, batch, owner));
            let results = results.collect::<Result<_, _>>()?;
            transaction.commit()?;
            Ok(results)
        };
        kept().map_err(|error| failed(&shown, &error))
    }

    fn wanted(&mut self, link: &mut Link) -> Vec<String> {
        let owner = link.owner;
        let Ok(client) = link.client() else { return Vec::new() };
        let wanted = "SELECT process FROM processes WHERE owner = $1 AND wanted = 'end' AND parent IS NULL";
        // A store that cannot be read now is read again soon.
        let rows = client.query(wanted, &[&owner]).unwrap_or_default();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

/// The new lines of a batch, after those that there were.
const LINES: &str = "INSERT INTO journal (n, line, kind, body)
     SELECT made.n, $1 + line.at - 1, line.kind, line.body
     FROM made, unnest($2::text[], $3::text[]) WITH ORDINALITY AS line(kind, body, at)";

fn append_one(
    transaction: &mut Transaction<'_>,
    batch: &Batch,
    owner: i64,
) -> Result<Result<(), StoreError>, postgres::Error> {
    let row = &batch.row;
    let (before, many) = (count(row.lines), count(batch.lines.len() as u64));
    let (kinds, bodies): (Vec<&str>, Vec<&str>) =
        batch.lines.iter().map(|line| (line.kind, line.body.as_str())).unzip();
    let update = format!(
        "WITH made AS (
             UPDATE processes SET status = $4, goal = $5, cost_usd = $6, updated_at = $7, used = $8, lines = lines + $9
             WHERE process = $10 AND owner = $11 AND lines = $1 RETURNING n),
         kept AS ({LINES}) SELECT n FROM made"
    );
    let made = transaction.query_opt(
        &update,
        &[
            &before,
            &kinds,
            &bodies,
            &row.status,
            &row.goal,
            &row.cost_usd,
            &row.updated_at,
            &row.used,
            &many,
            &row.process,
            &owner,
        ],
    )?;
    if made.is_none() && row.lines > 0 {
        return Ok(Err(refused(transaction, row, owner)?));
    }
    if made.is_none() {
        let insert = format!(
            "WITH made AS (
                 INSERT INTO processes (process, parent, agent, target, status, goal, cost_usd, started_at, updated_at,
                     used, lines, owner) VALUES ($4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
                 ON CONFLICT (process) DO NOTHING RETURNING n),
             kept AS ({LINES}) SELECT n FROM made"
        );
        let made = transaction.query_opt(
            &insert,
            &[
                &before,
                &kinds,
                &bodies,
                &row.process,
                &row.parent,
                &row.agent,
                &row.target,
                &row.status,
                &row.goal,
                &row.cost_usd,
                &row.started_at,
                &row.updated_at,
                &row.used,
                &many,
                &owner,
            ],
        )?;
        if made.is_none() {
            return Ok(Err(StoreError::Held(row.process.clone())));
        }
    }
    if row.has_ended() {
        // What an action started and left behind ends with it.
        let end = format!(
            "{TREE} UPDATE processes SET status = 'killed', updated_at = $2
             WHERE process <> $1 AND process IN (SELECT process FROM tree) AND status NOT IN {}",
            ended_in_sql()
        );
        transaction.execute(&end, &[&row.process, &row.updated_at])?;
    }
    if let Some((context, objects)) = &batch.context {
        transaction.execute("DELETE FROM contexts WHERE context = $1", &[context])?;
        for (at, object) in objects.iter().enumerate() {
            transaction.execute(
                "INSERT INTO contexts (context, at, type, name, value) VALUES ($1, $2, $3, $4, $5)",
                &[context, &count(at as u64), &object.type_name, &object.name, &object.value.to_string()],
            )?;
        }
    }
    Ok(Ok(()))
}

/// Why a batch was not taken.
fn refused(transaction: &mut Transaction<'_>, row: &Row, owner: i64) -> Result<StoreError, postgres::Error> {
    let holder = transaction.query_opt("SELECT owner FROM processes WHERE process = $1", &[&row.process])?;
    Ok(match holder.map(|holder| holder.get::<_, Option<i64>>(0)) {
        None => StoreError::Unknown(row.process.clone()),
        Some(Some(holder)) if holder == owner => {
            StoreError::Failed(format!("the journal of {} has a gap: something before this was not kept", row.process))
        }
        Some(_) => StoreError::Held(row.process.clone()),
    })
}

/// Whether the program with this lock still runs.
fn is_alive(transaction: &mut Transaction<'_>, owner: i64) -> Result<bool, postgres::Error> {
    // Held until the transaction ends only: a lock that can be had is no program's.
    let free: bool = transaction.query_one("SELECT pg_try_advisory_xact_lock($1)", &[&owner])?.get(0);
    Ok(!free)
}

fn row(row: &PgRow) -> Row {
    Row {
        process: row.get(0),
        parent: row.get(1),
        agent: row.get(2),
        target: row.get(3),
        status: row.get(4),
        goal: row.get(5),
        cost_usd: row.get(6),
        started_at: row.get(7),
        updated_at: row.get(8),
        used: row.get(9),
        lines: u64::try_from(row.get::<_, i64>(10)).unwrap_or_default(),
    }
}

impl Store for PostgresStore {
    fn append(&self, batch: Batch) -> BoxFuture<'static, Result<(), StoreError>> {
        self.writer.append(batch)
    }

    fn lines<'a>(&'a self, process: &'a str, kind: &'static str) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let process = process.to_owned();
        self.ask(move |client| {
            let select = "SELECT body FROM journal WHERE n = (SELECT n FROM processes WHERE process = $1) AND kind = $2
                          ORDER BY line";
            Ok(Ok(client.query(select, &[&process, &kind])?.iter().map(|row| row.get(0)).collect()))
        })
    }

    fn row<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<Option<Row>, StoreError>> {
        let process = process.to_owned();
        self.ask(move |client| {
            let found = client.query_opt(&format!("SELECT {COLUMNS} WHERE process = $1"), &[&process])?;
            Ok(Ok(found.as_ref().map(row)))
        })
    }

    fn rows(&self) -> BoxFuture<'_, Result<Vec<Row>, StoreError>> {
        self.ask(|client| {
            let found = client.query(&format!("SELECT {COLUMNS} WHERE parent IS NULL ORDER BY n"), &[])?;
            Ok(Ok(found.iter().map(row).collect()))
        })
    }

    fn children<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<Vec<Row>, StoreError>> {
        let process = process.to_owned();
        self.ask(move |client| {
            let found = client.query(&format!("SELECT {COLUMNS} WHERE parent = $1 ORDER BY n"), &[&process])?;
            Ok(Ok(found.iter().map(row).collect()))
        })
    }

    fn claim<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let (process, me) = (process.to_owned(), self.owner);
        self.ask(move |client| {
            let mut transaction = client.transaction()?;
            let select = "SELECT owner FROM processes WHERE process = $1 FOR UPDATE";
            let holder = transaction.query_opt(select, &[&process])?;
            let Some(holder) = holder else { return Ok(Err(StoreError::Unknown(process))) };
            if let Some(holder) = holder.get::<_, Option<i64>>(0)
                && holder != me
                && is_alive(&mut transaction, holder)?
            {
                return Ok(Err(StoreError::Held(process)));
            }
            // The lease of a process is that of all that belongs to it.
            let take = format!(
                "{TREE} UPDATE processes SET owner = $2, wanted = NULL WHERE process IN (SELECT process FROM tree)"
            );
            transaction.execute(&take, &[&process, &me])?;
            transaction.commit()?;
            Ok(Ok(()))
        })
    }

    fn release<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let (process, me) = (process.to_owned(), self.owner);
        self.writer.ends().remove(&process);
        self.ask(move |client| {
            let give = format!(
                "{TREE} UPDATE processes SET owner = NULL, wanted = NULL
                 WHERE owner = $2 AND process IN (SELECT process FROM tree)"
            );
            client.execute(&give, &[&process, &me])?;
            Ok(Ok(()))
        })
    }

    fn ask_to_end<'a>(&'a self, process: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let process = process.to_owned();
        self.ask(move |client| {
            let found = client.execute("UPDATE processes SET wanted = 'end' WHERE process = $1", &[&process])?;
            Ok(if found == 0 { Err(StoreError::Unknown(process)) } else { Ok(()) })
        })
    }

    fn on_asked_to_end(&self, process: &str, end: Box<dyn Fn() + Send + Sync>) {
        self.writer.ends().insert(process.to_owned(), end);
    }

    fn next_number(&self) -> Result<u64, StoreError> {
        let answer = self.ask(|client| {
            let number: i64 = client.query_one("SELECT nextval('numbers')", &[])?.get(0);
            Ok(Ok(u64::try_from(number).unwrap_or_default()))
        });
        futures::executor::block_on(answer)
    }

    fn context<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Vec<Kept>, StoreError>> {
        let id = id.to_owned();
        self.ask(move |client| {
            let found =
                client.query("SELECT type, name, value FROM contexts WHERE context = $1 ORDER BY at", &[&id])?;
            let kept = |row: &PgRow| {
                let value: String = row.get(2);
                let value = serde_json::from_str(&value).unwrap_or(Value::Null);
                Kept { type_name: row.get(0), name: row.get(1), value }
            };
            Ok(Ok(found.iter().map(kept).collect()))
        })
    }

    fn reply<'a>(&'a self, key: &'a str, since: &'a str) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        let (key, since) = (key.to_owned(), since.to_owned());
        self.ask(move |client| {
            let found = client.query_opt("SELECT body, at FROM replies WHERE key = $1", &[&key])?;
            let fresh = found.filter(|row| row.get::<_, &str>(1) >= since.as_str());
            Ok(Ok(fresh.map(|row| row.get(0))))
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
        let (most, bytes, size) = (count(limits.count), count(limits.bytes), count(body.len() as u64));
        self.ask(move |client| {
            let mut transaction = client.transaction()?;
            // One that is replaced is the newest again.
            transaction.execute("DELETE FROM replies WHERE key = $1", &[&key])?;
            let insert = "INSERT INTO replies (key, at, bytes, body) VALUES ($1, $2, $3, $4)
                          ON CONFLICT (key) DO UPDATE SET at = $2, bytes = $3, body = $4 RETURNING n";
            let n: i64 = transaction.query_one(insert, &[&key, &at, &size, &body])?.get(0);
            // To look through all of them at each one would cost more than a few too many.
            if n % REPLIES_PER_LOOK == 0 {
                transaction.execute(
                    "DELETE FROM replies WHERE n IN (
                         SELECT n FROM (SELECT n, SUM(bytes) OVER newer AS bytes, COUNT(*) OVER newer AS place
                                        FROM replies WINDOW newer AS (ORDER BY n DESC)) AS summed
                         WHERE place > $1 OR bytes > $2::bigint)",
                    &[&most, &bytes],
                )?;
            }
            transaction.commit()?;
            Ok(Ok(()))
        })
    }

    fn prune(&self, keep: u64) -> BoxFuture<'_, Result<(), StoreError>> {
        self.ask(move |client| {
            let mut transaction = client.transaction()?;
            let oldest = format!(
                "SELECT process FROM processes WHERE parent IS NULL AND status IN {} ORDER BY n DESC OFFSET $1",
                ended_in_sql()
            );
            for row in transaction.query(&oldest, &[&count(keep)])? {
                let process: String = row.get(0);
                transaction
                    .execute(&format!("{TREE} DELETE FROM journal WHERE n IN (SELECT n FROM tree)"), &[&process])?;
                transaction
                    .execute(&format!("{TREE} DELETE FROM processes WHERE n IN (SELECT n FROM tree)"), &[&process])?;
            }
            transaction.commit()?;
            Ok(Ok(()))
        })
    }
}
