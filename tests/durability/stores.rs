//! What every store must hold, of each that there is: in memory, in a file, on a server.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use agent_run::store::{Batch, Kept, Line, MemoryStore, ReplyLimits, Row, SqliteStore, Store, StoreError};
use serde_json::json;

/// How long something that must come is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A place of a store.
trait Place {
    /// The store, opened by a program; by another one each time, where programs share it.
    fn open(&self) -> Arc<dyn Store>;
}

fn batch(process: &str, before: u64, status: &str) -> Batch {
    let row = Row {
        process: process.into(),
        agent: "a".into(),
        target: "a.yaml".into(),
        status: status.into(),
        started_at: "2025-01-01T00:00:00Z".into(),
        updated_at: "2025-01-01T00:00:01Z".into(),
        used: json!({"total": {"actions": before}}).to_string(),
        cost_usd: 0.25,
        lines: before,
        ..Row::default()
    };
    Batch { row, lines: vec![Line { kind: "record", body: format!("{before}") }], context: None }
}

fn below(parent: &str, batch: Batch) -> Batch {
    Batch { row: Row { parent: Some(parent.into()), ..batch.row }, ..batch }
}

async fn status(store: &dyn Store, process: &str) -> Option<String> {
    store.row(process).await.expect("it is read").map(|row| row.status)
}

/// What holds of one program's store.
async fn holds(store: &dyn Store) {
    keeps_lines_in_order(store).await;
    refuses_gaps(store).await;
    ends_what_belongs_to_what_has_ended(store).await;
    keeps_contexts(store).await;
    keeps_replies(store).await;
    forgets_the_oldest_that_have_ended(store).await;
    let numbers = [store.next_number(), store.next_number(), store.next_number()].map(|number| number.expect("one"));
    assert_eq!(numbers, [1, 2, 3]);
    let unknown = StoreError::Unknown("NONE".into());
    assert_eq!(store.claim("NONE").await, Err(unknown.clone()));
    assert_eq!(store.ask_to_end("NONE").await, Err(unknown));
    assert_eq!(store.row("NONE").await, Ok(None));
    assert_eq!(store.lines("NONE", "record").await, Ok(vec![]));
}

async fn keeps_lines_in_order(store: &dyn Store) {
    // None is waited for before all were given.
    let all: Vec<_> = (0..300)
        .map(|at| {
            let mut one = batch("LINES", 2 * at, if at < 299 { "running" } else { "waiting" });
            one.lines.push(Line { kind: "event", body: json!({"é": "\u{0}\"'\n€", "at": at}).to_string() });
            store.append(one)
        })
        .collect();
    for kept in all {
        kept.await.expect("it is kept");
    }
    let expected: Vec<String> = (0..300).map(|at| (2 * at).to_string()).collect();
    assert_eq!(store.lines("LINES", "record").await, Ok(expected));
    let events = store.lines("LINES", "event").await.expect("they are read");
    assert_eq!((events.len(), &events[299]), (300, &json!({"é": "\u{0}\"'\n€", "at": 299}).to_string()));
    let expected = Row { lines: 600, ..batch("LINES", 598, "waiting").row };
    assert_eq!(store.row("LINES").await, Ok(Some(expected)));
}

async fn refuses_gaps(store: &dyn Store) {
    let three = [batch("GAP", 0, "running"), batch("GAP", 5, "running"), batch("NEXT", 0, "running")];
    let results = futures::future::join_all(three.map(|batch| store.append(batch))).await;
    assert!(results[0].is_ok() && results[1].is_err() && results[2].is_ok(), "{results:?}");
    assert!(results[1].as_ref().is_err_and(|error| error.to_string().contains("the journal of GAP has a gap")));
    assert!(store.append(batch("GAP", 0, "running")).await.is_err(), "an id is given once");
    assert_eq!(store.lines("GAP", "record").await, Ok(vec!["0".to_owned()]));
    store.append(batch("GAP", 1, "running")).await.expect("the next one is taken");
}

async fn ends_what_belongs_to_what_has_ended(store: &dyn Store) {
    for one in [
        batch("TOP", 0, "running"),
        below("TOP", batch("MIDDLE", 0, "running")),
        below("MIDDLE", batch("BOTTOM", 0, "waiting")),
        below("TOP", batch("DONE", 0, "completed")),
        batch("TOP", 1, "killed"),
    ] {
        store.append(one).await.expect("it is kept");
    }
    let children: Vec<(String, String)> =
        store.children("TOP").await.expect("they are read").into_iter().map(|row| (row.process, row.status)).collect();
    let expected = [("MIDDLE", "killed"), ("DONE", "completed")];
    assert_eq!(children, expected.map(|(process, status)| (process.to_owned(), status.to_owned())));
    assert_eq!(status(store, "BOTTOM").await.as_deref(), Some("killed"));
    let roots = store.rows().await.expect("they are read");
    assert!(roots.iter().all(|row| row.parent.is_none()) && roots.iter().any(|row| row.process == "TOP"));
}

async fn keeps_contexts(store: &dyn Store) {
    let kept =
        |n: i64| Kept { type_name: "Rate".into(), name: (n > 1).then(|| "rate".into()), value: json!({ "n": n }) };
    let with =
        |before, kept: Vec<Kept>| Batch { context: Some(("home".into(), kept)), ..batch("CONTEXT", before, "running") };
    assert_eq!(store.context("home").await, Ok(vec![]));
    store.append(with(0, vec![kept(1), kept(2)])).await.expect("it is kept");
    assert_eq!(store.context("home").await, Ok(vec![kept(1), kept(2)]));
    store.append(with(1, vec![kept(3)])).await.expect("it is kept");
    assert_eq!((store.context("home").await, store.context("other").await), (Ok(vec![kept(3)]), Ok(vec![])));
}

async fn keeps_replies(store: &dyn Store) {
    let limits = |count, bytes| ReplyLimits { count, bytes };
    let (day, later) = ("2025-01-02T00:00:00Z", "2025-01-03T00:00:00Z");
    for number in 0..32 {
        let key = format!("k{number}");
        store.keep_reply(&key, format!("r{number}"), day, limits(20, 1_000_000)).await.expect("it is kept");
    }
    store.keep_reply("k31", "again".to_owned(), later, limits(20, 1_000_000)).await.expect("it is kept");
    assert_eq!(store.reply("k31", later).await, Ok(Some("again".to_owned())));
    assert_eq!(store.reply("k30", later).await, Ok(None), "it is too old");
    assert_eq!(store.reply("k0", day).await, Ok(None), "there were too many");
    assert_eq!(store.reply("k20", day).await, Ok(Some("r20".to_owned())));
    for number in 32..64 {
        let key = format!("k{number}");
        store.keep_reply(&key, "12345".to_owned(), day, limits(100, 10)).await.expect("it is kept");
    }
    assert_eq!(store.reply("k20", day).await, Ok(None), "they had too many bytes");
}

async fn forgets_the_oldest_that_have_ended(store: &dyn Store) {
    store.prune(0).await.expect("it is done");
    for (process, status) in [("K1", "completed"), ("K2", "waiting"), ("K3", "failed"), ("K4", "killed")] {
        store.append(batch(process, 0, status)).await.expect("it is kept");
    }
    store.append(below("K1", batch("KC", 0, "completed"))).await.expect("it is kept");
    store.append(below("KC", batch("KCC", 0, "completed"))).await.expect("it is kept");
    store.prune(2).await.expect("it is done");
    for (process, stays) in [("K1", false), ("KC", false), ("KCC", false), ("K2", true), ("K3", true), ("K4", true)] {
        assert_eq!(status(store, process).await.is_some(), stays, "{process}");
        assert_eq!(store.lines(process, "record").await.expect("they are read").is_empty(), !stays, "{process}");
    }
    // What has not ended stays, however many there are.
    store.prune(0).await.expect("it is done");
    assert_eq!(status(store, "K2").await.as_deref(), Some("waiting"));
    assert_eq!(status(store, "K3").await, None);
}

/// What holds of several programs on one store.
async fn is_shared(place: &dyn Place) {
    let (first, second) = (place.open(), place.open());
    let held = || Err(StoreError::Held("LEASE".into()));
    first.append(batch("LEASE", 0, "running")).await.expect("it is kept");
    first.append(below("LEASE", batch("INNER", 0, "running"))).await.expect("it is kept");
    assert_eq!(second.row("LEASE").await.expect("it is read").map(|row| row.lines), Some(1));
    assert_eq!(second.claim("LEASE").await, held());
    assert_eq!(second.append(batch("LEASE", 1, "running")).await, held());
    assert_eq!(second.append(batch("LEASE", 0, "running")).await, held(), "an id is given once");
    let numbers = [first.next_number(), second.next_number(), first.next_number()].map(|number| number.expect("one"));
    assert!(numbers[0] < numbers[1] && numbers[1] < numbers[2], "{numbers:?}");

    let (heard, hears) = channel();
    first.on_asked_to_end("LEASE", Box::new(move || heard.send(()).unwrap_or_default()));
    second.ask_to_end("LEASE").await.expect("it is asked");
    hears.recv_timeout(PATIENCE).expect("it is told");

    // A program that is gone holds nothing, and what belongs to its processes goes with them.
    drop(first);
    second.claim("LEASE").await.expect("it is free");
    second.append(batch("LEASE", 1, "running")).await.expect("it is kept");
    second.append(below("LEASE", batch("INNER", 1, "running"))).await.expect("it is kept");
    let third = place.open();
    assert_eq!(third.claim("LEASE").await, held());
    second.release("LEASE").await.expect("it is given back");
    third.claim("LEASE").await.expect("it is free");
    assert_eq!(second.claim("LEASE").await, held());
    assert_eq!(second.append(batch("LEASE", 2, "running")).await, held());

    // Many at once: each line is there once, in its order.
    let programs = [place.open(), place.open(), place.open()];
    let writing = programs.iter().enumerate().map(|(program, store)| async move {
        for at in 0..40 {
            store.append(batch(&format!("MANY{program}"), at, "running")).await.expect("it is kept");
        }
    });
    futures::future::join_all(writing).await;
    for program in 0..3 {
        let expected: Vec<String> = (0..40).map(|at| at.to_string()).collect();
        assert_eq!(third.lines(&format!("MANY{program}"), "record").await, Ok(expected));
    }
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future);
}

#[test]
fn in_memory() {
    block_on(holds(&MemoryStore::default()));
}

struct File(tempfile::TempDir);

impl Place for File {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(&self.0.path().join(".agent-run/state.db")).expect("it opens"))
    }
}

#[test]
fn in_a_file() {
    let place = File(tempfile::tempdir().expect("a directory"));
    block_on(holds(&*place.open()));
    block_on(is_shared(&place));
}

#[cfg(all(unix, feature = "postgres"))]
mod server {
    use agent_run::store::PostgresStore;

    use super::*;
    use crate::support::postgres::PostgresServer;
    use crate::support::project::Project;

    struct Database(String);

    impl Place for Database {
        fn open(&self) -> Arc<dyn Store> {
            Arc::new(PostgresStore::open(&self.0).expect("it opens"))
        }
    }

    #[test]
    fn on_a_server() {
        let Some(server) = PostgresServer::start() else { return };
        let place = Database(server.database("contract"));
        block_on(holds(&*place.open()));
        block_on(is_shared(&place));
        a_broken_connection_is_made_anew(&server);
        a_newer_store_is_left_alone(&server);
        processes_are_kept_there(&server);
    }

    fn a_broken_connection_is_made_anew(server: &PostgresServer) {
        let place = Database(server.database("broken"));
        let store = place.open();
        block_on(async { store.append(batch("P1", 0, "running")).await.expect("it is kept") });
        server.sql("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'broken'");
        block_on(async {
            // The first may find out that it is gone; then there is another, and the lease is what it was.
            let first = store.append(batch("P1", 1, "running")).await;
            let at = if first.is_ok() { 2 } else { 1 };
            store.append(batch("P1", at, "running")).await.expect("it is kept");
            assert_eq!(place.open().claim("P1").await, Err(StoreError::Held("P1".into())));
        });
    }

    fn a_newer_store_is_left_alone(server: &PostgresServer) {
        let place = Database(server.database("newer"));
        block_on(async { place.open().append(batch("P1", 0, "running")).await.expect("it is kept") });
        server.sql("newer", "UPDATE agent_run.version SET n = 99");
        let refused = PostgresStore::open(&place.0).err().expect("it is refused").to_string();
        assert!(refused.contains("version 99") && refused.contains("use a newer agent-run"), "{refused}");
        server.sql("newer", "UPDATE agent_run.version SET n = 1");
        block_on(async { assert!(place.open().row("P1").await.expect("it is read").is_some()) });
    }

    fn processes_are_kept_there(server: &PostgresServer) {
        let project = crate::durability::paying().file("agent-run.yaml", "store: {postgres: '${env:DATABASE_URL}'}\n");
        let run = ["run", "workflows/paying.yaml", "go", "--now", "2025-01-01T00:00:00Z"];
        let unset = project.run(&run).exits(2);
        assert!(unset.stderr.contains("`store.postgres` wants DATABASE_URL, which is not set"), "{unset}");
        let project = project.env("DATABASE_URL", &server.database("runs"));
        project.run(&run).exits(3);
        project.run(&run).exits(3);
        assert!(!project.path().join(".agent-run").exists());
        let form = r#"{"confirm": true}"#;
        let done = project.run(&["resume", "P1", "--form", form, "--json"]).exits(0).json();
        assert_eq!(done["output"]["value"], "paid 5");
        project.run(&["kill", "P2"]).exits(0);
        let listed = project.run(&["ps", "--json"]).exits(0).json();
        assert_eq!((&listed[0]["status"], &listed[1]["status"]), (&json!("completed"), &json!("killed")));
        gone(&project);
    }

    fn gone(project: &Project) {
        let project = Project::new()
            .file("workflows/paying.yaml", project.read("workflows/paying.yaml"))
            .file("agent-run.yaml", "store: {postgres: 'postgresql://u:secret-word@/x?host=/nowhere'}\n");
        let refused = project.run(&["run", "workflows/paying.yaml", "go"]).exits(1);
        assert!(refused.stderr.contains("the store `x at /nowhere` cannot be used"), "{refused}");
        assert!(refused.stderr.contains("--no-store") && !refused.stderr.contains("secret-word"), "{refused}");
        project.write("agent-run.yaml", "store: {postgres: 'no address with secret-word'}\n");
        let refused = project.run(&["ps"]).exits(1);
        assert!(refused.stderr.contains("is no address of a database"), "{refused}");
        assert!(!refused.stderr.contains("secret-word"), "{refused}");
    }
}

#[cfg(not(feature = "postgres"))]
#[test]
fn without_the_feature_a_server_is_refused_with_the_line_that_enables_it() {
    let project =
        super::paying().file("agent-run.yaml", "store: {postgres: 'postgresql://u:secret-word@localhost/x'}\n");
    let refused = project.run(&["run", "workflows/paying.yaml", "go"]).exits(1);
    assert!(refused.stderr.contains("cargo install --path . --features postgres"), "{refused}");
    assert!(refused.stderr.contains("--no-store") && !refused.stderr.contains("secret-word"), "{refused}");
    project.run(&["run", "workflows/paying.yaml", "go", "--no-store"]).exits(3);
}
