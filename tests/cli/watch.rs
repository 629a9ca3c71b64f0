//! `--watch`: edits of real files, as a person at a terminal sees them.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

const FLOW: &str = "agent: test\ntypes: {Draft: string, End: string}\nactions:\n  draft: {inputs: UserInput, output: Draft, set: \
                    first}\n  finish: {inputs: Draft, output: End, set: '{{ draft }} old'}\ngoals: {done: {output: End}}\n";

/// A command that goes on until it is ended; its lines as they come, those of stderr with a mark.
struct Running {
    child: Child,
    lines: Receiver<String>,
    /// Lines that nobody has asked for yet: the two pipes are read side by side, so neither is ahead of the other.
    seen: Vec<String>,
}

impl Running {
    fn start(root: &Path, args: &[&str]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_agent-run"))
            .args(args)
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let (tell, lines) = channel();
        let out: Box<dyn Read + Send> = Box::new(child.stdout.take().expect("a pipe"));
        let err: Box<dyn Read + Send> = Box::new(child.stderr.take().expect("a pipe"));
        for (mark, pipe) in [("", out), ("! ", err)] {
            let tell = tell.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let _ = tell.send(format!("{mark}{line}"));
                }
            });
        }
        Running { child, lines, seen: Vec::new() }
    }

    /// Takes the first line that has this in it; waits until there is one.
    fn until(&mut self, part: &str) -> String {
        loop {
            if let Some(at) = self.seen.iter().position(|line| line.contains(part)) {
                return self.seen.remove(at);
            }
            match self.lines.recv_timeout(Duration::from_secs(60)) {
                Ok(line) => self.seen.push(line),
                Err(_) => panic!("no line with `{part}` came; others:\n{}", self.seen.join("\n")),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("workflows")).expect("made");
    std::fs::write(dir.path().join("workflows/test.yaml"), FLOW).expect("written");
    std::fs::write(dir.path().join("agent-run.yaml"), "models: {default: openai/gpt-4.1-mini}\n").expect("written");
    dir
}

#[test]
fn check_watch_checks_again_at_each_edit() {
    let dir = project();
    let file = dir.path().join("workflows/test.yaml");
    let mut check = Running::start(dir.path(), &["check", "--watch"]);
    check.until("no mistakes found");
    std::fs::write(&file, FLOW.replace("inputs: Draft", "inputs: Drafft")).expect("written");
    check.until("! error[unknown-type]");
    check.until("1 error");
    let beside = dir.path().join("workflows/test.yaml.new");
    std::fs::write(&beside, FLOW).expect("written");
    std::fs::rename(&beside, &file).expect("renamed");
    check.until("no mistakes found");
}

#[test]
fn test_watch_runs_the_cases_again_at_each_edit() {
    let dir = project();
    let file = dir.path().join("workflows/test.yaml");
    std::fs::create_dir(dir.path().join("tests")).expect("made");
    let cases = "workflow: ../workflows/test.yaml\ncases: {a: {input: x, expect: {output: {value: first old}}}}\n";
    std::fs::write(dir.path().join("tests/test.yaml"), cases).expect("written");
    let mut test = Running::start(dir.path(), &["test", "--watch"]);
    test.until("1 passed");
    std::fs::write(&file, FLOW.replace("old", "new")).expect("written");
    test.until("1 failed");
    std::fs::write(dir.path().join("tests/test.yaml"), cases.replace("expect", "expekt")).expect("written");
    test.until("! error[unknown-key]");
    std::fs::write(dir.path().join("tests/test.yaml"), cases.replace("old", "new")).expect("written");
    test.until("1 passed");
    // A test file that appears later is taken up.
    std::fs::write(dir.path().join("tests/more.yaml"), cases).expect("written");
    test.until("1 passed, 1 failed");
}

#[test]
fn an_edited_theme_is_heard_from_then_on() {
    let dir = project();
    let root = dir.path();
    let theme = root.join("butler.yaml");
    std::fs::write(root.join("agent-run.yaml"), "logging: {personality: butler.yaml}\n").expect("written");
    std::fs::write(&theme, "succeeded: ['{action}, as you wished']\n").expect("written");
    let mut run = Running::start(root, &["run", "workflows/test.yaml", "hello", "--watch", "--no-store"]);
    run.until("draft, as you wished");
    run.until("! waits for an edit");
    std::fs::write(&theme, "succeeded: ['{action}, if it must be']\n").expect("written");
    run.until("!   changed personality of the log");
    std::fs::write(root.join("workflows/test.yaml"), FLOW.replace("old", "new")).expect("written");
    run.until("draft, if it must be");
}

#[cfg(unix)]
#[test]
fn run_watch_announces_edits_by_name_and_runs_again() {
    let dir = project();
    let file = dir.path().join("workflows/test.yaml");
    let mut run = Running::start(dir.path(), &["run", "workflows/test.yaml", "hello", "--watch", "--no-store"]);
    assert_eq!(run.until("first old"), "first old");
    run.until("! waits for an edit");
    std::fs::write(&file, FLOW.replace("inputs: Draft", "inputs: Drafft")).expect("written");
    run.until("! not reloaded");
    std::fs::write(&file, format!("# the same\n{FLOW}")).expect("written");
    run.until("! the files say again what is in force");
    std::fs::write(&file, FLOW.replace("old", "new")).expect("written");
    run.until("! reloaded");
    run.until("!   changed set of finish");
    assert_eq!(run.until("first new"), "first new");
    run.until("! waits for an edit");
    let interrupted = Command::new("kill").args(["-INT", &run.child.id().to_string()]).status().expect("kill");
    assert!(interrupted.success());
    // Its pipes close when it ends; a lost signal is a failure, not a hang.
    while run
        .lines
        .recv_timeout(Duration::from_secs(60))
        .map_err(|end| assert_eq!(end, RecvTimeoutError::Disconnected, "Ctrl-C was lost"))
        .is_ok()
    {}
    assert_eq!(run.child.wait().expect("it ends").code(), Some(0));
}
