//! `--watch`: edits of real files, as a person at a terminal sees them.

use std::io::{BufRead, BufReader, Read, Write};
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent-run"));
        command.args(args).stdin(Stdio::null());
        Running::spawn(root, command)
    }

    fn spawn(root: &Path, mut command: Command) -> Running {
        let mut child = command
            .current_dir(root)
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

/// Files of a project in which a script answers each call once in each run.
fn scripted(root: &Path, files: &[(&str, &str)]) {
    let own = [
        ("agent-run.yaml", "models: {default: demo/a}\nproviders: {demo: {kind: scripted, file: script.yaml}}\n"),
        ("script.yaml", "replies: [{when: {action: say}, turns: [{reply: only once}]}]\n"),
    ];
    for (path, text) in own.iter().chain(files) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("made");
        std::fs::write(path, text).expect("written");
    }
}

const SAYING: &str = "agent: test\ntypes: {End: string}\nactions:\n  say: {inputs: UserInput, output: End, prompt: 'Say one', \
                      achieves: Said}\n";

#[test]
fn each_run_begins_the_scripts_of_the_project_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    scripted(dir.path(), &[("workflows/test.yaml", SAYING)]);
    let mut run = Running::start(dir.path(), &["run", "workflows/test.yaml", "hello", "--watch", "--no-store"]);
    for word in ["two", "three", "four"] {
        assert_eq!(run.until("only once"), "only once");
        run.until("! waits for an edit");
        std::fs::write(dir.path().join("workflows/test.yaml"), SAYING.replace("one", word)).expect("written");
        run.until("!   changed prompt of say");
    }
    assert_eq!(run.until("only once"), "only once");
}

#[test]
fn an_edited_reference_is_in_the_next_prompt() {
    let dir = tempfile::tempdir().expect("a directory");
    let flow = format!(
        "{SAYING}defaults: {{references: [note, sheet, shared]}}\nreferences:\n  note: {{text: Old note, mode: prompt}}\n  \
         sheet: {{file: data/sheet.md, mode: prompt}}\n"
    );
    let set = "references: {shared: {text: Old set, mode: prompt}}\n";
    let files =
        [("workflows/test.yaml", flow.as_str()), ("data/sheet.md", "Old sheet\n"), ("references/set.yaml", set)];
    scripted(dir.path(), &files);
    let args = ["run", "workflows/test.yaml", "hello", "--watch", "--no-store", "--show-prompts"];
    let mut run = Running::start(dir.path(), &args);
    for (path, old) in
        [("workflows/test.yaml", "Old note"), ("data/sheet.md", "Old sheet"), ("references/set.yaml", "Old set")]
    {
        run.until(old);
        run.until("only once");
        run.until("! waits for an edit");
        run.seen.clear();
        let path = dir.path().join(path);
        let text = std::fs::read_to_string(&path).expect("it is there");
        std::fs::write(path, text.replace(old, &old.replace("Old", "New"))).expect("written");
        run.until("!   changed reference");
        run.until(&old.replace("Old", "New"));
    }
}

/// The shell at a terminal, which `script` of util-linux makes.
#[cfg(target_os = "linux")]
#[test]
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn the_shell_announces_edits_above_the_line() {
    let has_it = Command::new("script").arg("--version").output();
    if !has_it.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("util-linux")) {
        eprintln!("SKIPPED: there is no `script` of util-linux here");
        return;
    }
    let dir = project();
    let file = dir.path().join("workflows/test.yaml");
    let command = format!("{} shell", env!("CARGO_BIN_EXE_agent-run"));
    let mut shell = Command::new("script");
    shell.args(["-qefc", &command, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::piped());
    let mut shell = Running::spawn(dir.path(), shell);
    shell.until("Ctrl-D leaves");
    // Written again and again: when the watch has begun cannot be seen from outside.
    let mut edits = 0;
    while !shell.seen.iter().any(|line| line.contains("changed set of finish")) {
        assert!(edits < 60, "nothing was announced:\n{}", shell.seen.join("\n"));
        edits += 1;
        std::fs::write(&file, FLOW.replace("old", &format!("new{edits}"))).expect("written");
        while let Ok(line) = shell.lines.recv_timeout(Duration::from_secs(1)) {
            shell.seen.push(line);
        }
    }
    shell.seen.clear();
    std::fs::write(&file, FLOW.replace("inputs: Draft", "inputs: Drafft")).expect("written");
    shell.until("not reloaded");
    std::fs::write(&file, FLOW).expect("written");
    shell.until("changed set of finish");
    // What `reload` says is of the files as they are now.
    let mut keys = shell.child.stdin.take().expect("a pipe");
    keys.write_all(b"reload\r").expect("typed");
    shell.until("checked 2 files");
    keys.write_all(b"exit\r").expect("typed");
    assert!(shell.child.wait().expect("it ends").success());
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
