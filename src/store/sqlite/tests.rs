//! The SQLite store: order, leases, migrations, files that are no store, a full disk.

use std::sync::mpsc::channel;

use super::super::Line;
use super::*;

fn batch(process: &str, before: u64, status: &str) -> Batch {
    let row = Row {
        process: process.into(),
        agent: "a".into(),
        target: "a.yaml".into(),
        status: status.into(),
        started_at: "2025-01-01T00:00:00Z".into(),
        updated_at: "2025-01-01T00:00:00Z".into(),
        used: "{}".into(),
        lines: before,
        ..Row::default()
    };
    Batch { row, lines: vec![Line { kind: "record", body: format!("{before}") }], context: None }
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(".agent-run/state.db");
    (dir, path)
}

#[tokio::test]
async fn lines_are_kept_in_order_and_outlive_the_program() {
    let (_dir, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let all = (0..100).map(|at| store.append(batch("P1", at, "running")));
    for kept in all.collect::<Vec<_>>() {
        kept.await.unwrap();
    }
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    let expected: Vec<String> = (0..100).map(|at| at.to_string()).collect();
    assert_eq!(store.lines("P1", "record").await.unwrap(), expected);
    assert_eq!(store.row("P1").await.unwrap().unwrap().lines, 100);
    assert!(store.lines("P1", "event").await.unwrap().is_empty() && store.row("P2").await.unwrap().is_none());
}

#[tokio::test]
async fn a_batch_that_does_not_follow_is_refused_and_the_others_are_kept() {
    let (_dir, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let kept = [batch("P1", 0, "running"), batch("P1", 5, "running"), batch("P2", 0, "running")];
    let kept = kept.map(|batch| store.append(batch));
    let results = futures::future::join_all(kept).await;
    assert_eq!((results[0].is_ok(), results[2].is_ok()), (true, true));
    let refused = results[1].as_ref().unwrap_err().to_string();
    assert_eq!(refused, "the journal of P1 has a gap: something before this was not kept");
    assert_eq!(store.lines("P1", "record").await.unwrap().len(), 1);
}

#[tokio::test]
async fn two_programs_do_not_run_one_process_and_a_dead_ones_lease_is_taken_over() {
    let (_dir, path) = place();
    let first = SqliteStore::open(&path).unwrap();
    let second = SqliteStore::open(&path).unwrap();
    first.append(batch("P1", 0, "running")).await.unwrap();
    let held = Err(StoreError::Held("P1".into()));
    assert_eq!(second.claim("P1").await, held);
    assert_eq!(second.append(batch("P1", 1, "running")).await, held);
    assert_eq!(second.append(batch("P1", 0, "running")).await, held, "an id is given once");
    assert_eq!(second.claim("P9").await, Err(StoreError::Unknown("P9".into())));
    drop(first);
    second.claim("P1").await.unwrap();
    second.append(batch("P1", 1, "running")).await.unwrap();
    second.release("P1").await.unwrap();
    let third = SqliteStore::open(&path).unwrap();
    third.claim("P1").await.unwrap();
    assert_eq!(second.claim("P1").await, held);
}

#[tokio::test]
async fn another_program_can_ask_for_the_end() {
    let (_dir, path) = place();
    let first = SqliteStore::open(&path).unwrap();
    let second = SqliteStore::open(&path).unwrap();
    first.append(batch("P1", 0, "running")).await.unwrap();
    let (heard, hears) = channel();
    first.on_asked_to_end("P1", Box::new(move || assert!(heard.send(()).is_ok())));
    second.ask_to_end("P1").await.unwrap();
    hears.recv_timeout(Duration::from_secs(20)).expect("it is told");
    assert_eq!(second.ask_to_end("P7").await, Err(StoreError::Unknown("P7".into())));
}

#[tokio::test]
async fn numbers_are_given_once_whichever_program_asks() {
    let (_dir, path) = place();
    let first = SqliteStore::open(&path).unwrap();
    let second = SqliteStore::open(&path).unwrap();
    let given = [first.next_number(), second.next_number(), first.next_number()].map(Result::unwrap);
    assert_eq!(given, [1, 2, 3]);
}

#[tokio::test]
async fn only_the_newest_that_have_ended_are_kept() {
    let (_dir, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    for (process, status) in [("P1", "completed"), ("P2", "waiting"), ("P3", "failed"), ("P4", "killed")] {
        store.append(batch(process, 0, status)).await.unwrap();
    }
    let mut child = batch("C1", 0, "completed");
    child.row.parent = Some("P1".into());
    store.append(child).await.unwrap();
    store.prune(2).await.unwrap();
    let left: Vec<String> = store.rows().await.unwrap().into_iter().map(|row| row.process).collect();
    assert_eq!(left, ["P2", "P3", "P4"]);
    assert!(store.row("C1").await.unwrap().is_none() && store.lines("P1", "record").await.unwrap().is_empty());
}

#[tokio::test]
async fn what_a_process_leaves_behind_ends_with_it() {
    let (_dir, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    store.append(batch("P1", 0, "running")).await.unwrap();
    let mut child = batch("C1", 0, "running");
    child.row.parent = Some("P1".into());
    store.append(child).await.unwrap();
    store.append(batch("P1", 1, "completed")).await.unwrap();
    assert_eq!(store.children("P1").await.unwrap()[0].status, "killed");
}

#[tokio::test]
async fn an_older_store_is_brought_forward_and_a_newer_one_is_left_alone() {
    let (_dir, path) = place();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut connection = connect(&path).unwrap();
    schema::migrate_to(&mut connection, 1).unwrap();
    let insert =
        "INSERT INTO processes VALUES (1, 'P1', NULL, 'a', 'a.yaml', 'waiting', NULL, 0, '', '', '{}', 0, NULL, NULL)";
    connection.execute_batch(insert).unwrap();
    let lines = "INSERT INTO journal VALUES (1, 0, 'record', 'a'), (1, 1, 'event', 'b'), (1, 2, 'record', 'c');
                 UPDATE processes SET lines = 3";
    connection.execute_batch(lines).unwrap();
    drop(connection);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.rows().await.unwrap()[0].process, "P1");
    // Its journal is what it was, and goes on.
    assert_eq!(store.lines("P1", "record").await.unwrap(), ["a", "c"]);
    store.claim("P1").await.unwrap();
    store.append(batch("P1", 3, "waiting")).await.unwrap();
    assert_eq!(store.lines("P1", "record").await.unwrap(), ["a", "c", "3"]);
    assert_eq!((store.next_number().unwrap(), store.context("x").await.unwrap()), (1, vec![]));
    drop(store);
    let connection = connect(&path).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    let refused = SqliteStore::open(&path).err().unwrap().to_string();
    assert!(refused.contains("version 99") && refused.contains("use a newer agent-run"), "{refused}");
    let connection = connect(&path).unwrap();
    let count: i64 = connection.query_row("SELECT count(*) FROM processes", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
}

#[test]
fn a_file_that_is_no_store_is_refused_and_stays() {
    let (_dir, path) = place();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = "this is no store, whatever its name says. ".repeat(50);
    std::fs::write(&path, &text).unwrap();
    let refused = SqliteStore::open(&path).err().unwrap().to_string();
    assert!(refused.contains("not a database") && refused.contains("move it away"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_full_disk_is_told_and_what_was_kept_stays() {
    let (_dir, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    store.append(batch("P1", 0, "running")).await.unwrap();
    let limit = store.ask(|connection| {
        let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
        Ok(Ok(()))
    });
    limit.await.unwrap();
    let mut large = batch("P1", 1, "running");
    large.lines[0].body = "x".repeat(1 << 20);
    let full = store.append(large).await.unwrap_err().to_string();
    assert!(full.contains("disk is full") && full.contains("resume"), "{full}");
    assert_eq!(store.lines("P1", "record").await.unwrap(), ["0"]);
    assert_eq!(store.row("P1").await.unwrap().unwrap().lines, 1);
}

#[tokio::test]
async fn replies_outlive_the_program_age_and_the_oldest_go_first() {
    let (_dir, path) = place();
    let limits = ReplyLimits { count: 20, bytes: 1_000_000 };
    let store = SqliteStore::open(&path).unwrap();
    for number in 0..32 {
        store.keep_reply(&format!("k{number}"), format!("r{number}"), "2025-01-02T00:00:00Z", limits).await.unwrap();
    }
    store.keep_reply("k31", "again".to_owned(), "2025-01-03T00:00:00Z", limits).await.unwrap();
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.reply("k31", "2025-01-01T00:00:00Z").await.unwrap().as_deref(), Some("again"));
    assert_eq!(store.reply("k30", "2025-01-02T00:00:01Z").await.unwrap(), None, "it is too old");
    assert_eq!(store.reply("k0", "2025-01-01T00:00:00Z").await.unwrap(), None, "there were too many");
    assert_eq!(store.reply("k20", "2025-01-01T00:00:00Z").await.unwrap().as_deref(), Some("r20"));
    let few = ReplyLimits { count: 100, bytes: 10 };
    for number in 32..48 {
        store.keep_reply(&format!("k{number}"), "12345".to_owned(), "2025-01-02T00:00:00Z", few).await.unwrap();
    }
    assert_eq!(store.reply("k20", "2025-01-01T00:00:00Z").await.unwrap(), None, "they had too many bytes");
}
