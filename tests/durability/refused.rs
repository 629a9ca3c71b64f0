//! Stores that cannot be used: each is told with its cure, and nothing that was kept is lost.

use std::path::Path;
use std::process::Command;

use super::{PAYING, paying};
use crate::support::project::{Project, program};

const RUN: [&str; 3] = ["run", "workflows/paying.yaml", "go"];

/// A project with a process that waits, and the bytes of its store.
fn kept() -> Project {
    let project = paying();
    project.run(&[&RUN[..], &["--now", "2025-01-01T00:00:00Z"]].concat()).exits(3);
    project
}

fn store(project: &Project) -> std::path::PathBuf {
    project.path().join(".agent-run/state.db")
}

/// Brings the log into the store's file, so that there is one file to look at.
fn settle(path: &Path) {
    let connection = rusqlite::Connection::open(path).expect("the store opens");
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("a checkpoint");
}

#[test]
fn a_store_of_a_newer_version_is_refused_by_every_verb_and_left_as_it_is() {
    let project = kept();
    let path = store(&project);
    let connection = rusqlite::Connection::open(&path).expect("the store opens");
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a version");
    connection.pragma_update(None, "user_version", 99).expect("a version");
    drop(connection);
    settle(&path);
    let before = std::fs::read(&path).expect("the store");
    for args in
        [&RUN[..], &["ps"], &["show", "P1"], &["resume", "P1", "--form", r#"{"confirm": true}"#], &["kill", "P1"]]
    {
        let refused = project.run(args).exits(1);
        assert!(refused.stderr.contains("version 99") && refused.stderr.contains("use a newer agent-run"), "{refused}");
    }
    assert_eq!(std::fs::read(&path).expect("the store"), before);
    // And a run without the store is as good as ever.
    project.run(&[&RUN[..], &["--no-store"]].concat()).exits(3);
    let connection = rusqlite::Connection::open(&path).expect("the store opens");
    connection.pragma_update(None, "user_version", version).expect("a version");
    drop(connection);
    project.run(&["resume", "P1", "--form", r#"{"confirm": true}"#]).exits(0);
}

#[test]
fn a_store_that_is_damaged_inside_is_told() {
    let project = kept();
    let path = store(&project);
    settle(&path);
    let mut bytes = std::fs::read(&path).expect("the store");
    // The head stays: it still looks like a store.
    bytes.iter_mut().skip(4_096).for_each(|byte| *byte = 0xAA);
    std::fs::write(&path, &bytes).expect("the store is written");
    for args in [&["ps"][..], &["resume", "P1", "--form", r#"{"confirm": true}"#]] {
        let refused = project.run(args).exits(1);
        assert!(refused.stderr.contains("malformed") && refused.stderr.contains("move it away"), "{refused}");
    }
}

#[test]
fn a_journal_that_breaks_off_is_told_with_its_place_and_the_others_go_on() {
    let project = kept();
    project.run(&[&RUN[..], &["--now", "2025-01-01T00:00:00Z"]].concat()).exits(3);
    let connection = rusqlite::Connection::open(store(&project)).expect("the store opens");
    let cut = "UPDATE journal SET records = substr(records, 1, length(records) - 9) WHERE at =
               (SELECT min(at) FROM journal WHERE n = 1 AND records LIKE '%\"started\"%')";
    assert_eq!(connection.execute(cut, []).expect("it is cut"), 1);
    drop(connection);
    let form = ["--form", r#"{"confirm": true}"#];
    let refused = project.run(&[&["resume", "P1"][..], &form].concat()).exits(1);
    assert!(refused.stderr.contains("the journal of P1 is damaged in record 2 of "), "{refused}");
    assert!(refused.stderr.contains("which breaks off") && refused.stderr.contains("agent-run show P1"), "{refused}");
    let shown = project.run(&["show", "P1", "--json"]).exits(0).json();
    assert_eq!(shown["status"], "waiting");
    project.run(&[&["resume", "P2"][..], &form].concat()).exits(0);
    project.run(&["kill", "P1"]).exits(0);
}

#[test]
fn where_nothing_can_be_written_it_is_told_and_a_run_without_a_store_works() {
    let project = paying();
    // Not even who may write everywhere can write there.
    let (place, own) = match Path::new("/proc/self").is_dir() {
        true => ("/proc/state.db".to_owned(), false),
        false => ("closed/state.db".to_owned(), true),
    };
    if own {
        let dir = project.path().join("closed");
        std::fs::create_dir(&dir).expect("a directory");
        let mut permissions = std::fs::metadata(&dir).expect("a directory").permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(&dir, permissions).expect("it is closed");
    }
    project.write("agent-run.yaml", format!("store: {{sqlite: {place}}}\n"));
    let refused = project.run(&RUN).exits(1);
    assert!(refused.stderr.contains("cannot be written") && refused.stderr.contains("--no-store"), "{refused}");
    project.run(&[&RUN[..], &["--no-store"]].concat()).exits(3);
    project.write("agent-run.yaml", "store: {sqlite: workflows/paying.yaml/state.db}\n");
    let refused = project.run(&RUN).exits(1);
    assert!(
        refused.stderr.contains("workflows/paying.yaml/state.db") && refused.stderr.contains("--no-store"),
        "{refused}"
    );
    assert_eq!(project.read("workflows/paying.yaml"), PAYING);
}

/// Runs the program with a limit on the size of files, in blocks of 512 bytes: what a full disk is to it.
fn with_little_room(project: &Project, blocks: u32, args: &[&str]) -> std::process::Output {
    let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).arg(program()).args(args).current_dir(project.path());
    command.env_clear().env("HOME", project.path()).env("NO_COLOR", "1").output().expect("a shell")
}

#[cfg(unix)]
#[test]
fn a_full_disk_ends_the_run_and_it_goes_on_once_there_is_room() {
    let steps: String =
        (1..40).map(|at| format!("  a{at}: {{inputs: N{}, output: N{at}, prompt: step {at}}}\n", at - 1)).collect();
    let types: String = (0..40).map(|at| format!("  N{at}: {{text: string}}\n")).collect();
    let workflow =
        format!("agent: long\ninputs: N0\ntypes:\n{types}actions:\n{steps}goals: {{done: {{output: N39}}}}\n");
    let script = format!("replies:\n  - reply: {{text: {}}}\n", "x".repeat(2_000));
    let project = Project::new()
        .file("agent-run.yaml", "models: {default: openai/m}\n")
        .file("workflows/long.yaml", workflow)
        .file("script.yaml", script);
    let args = ["run", "workflows/long.yaml", "--input", "N0={\"text\": \"go\"}", "--script", "script.yaml"];
    let full = with_little_room(&project, 400, &args);
    let stderr = String::from_utf8_lossy(&full.stderr);
    assert_eq!(full.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("make room") && stderr.contains("agent-run resume"), "{stderr}");
    let shown = project.run(&["show", "P1", "--json"]).exits(0).json();
    assert_eq!(shown["status"], "running");
    let done = shown["history"].as_array().expect("a list").len();
    assert!(done > 0 && done < 39, "{done} of 39 actions were kept");
    let resumed = project.run(&["resume", "P1", "--script", "script.yaml", "--json"]).exits(0).json();
    assert_eq!(resumed["history"].as_array().expect("a list").len(), 39);
}
