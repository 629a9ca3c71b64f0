//! A temporary project and the program run in it, hermetically: no environment, no colors, its own directory.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long the program may take before a test calls it hung.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A directory that goes away with this value.
pub(crate) struct Project {
    dir: tempfile::TempDir,
    env: Vec<(String, String)>,
}

impl Project {
    /// An empty directory, which belongs to no project above it.
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir_in(outside()).expect("a temporary directory"), env: Vec::new() }
    }

    /// A copy of what this repository ships: project file, workflows, prompts, references.
    pub(crate) fn of_the_repository() -> Self {
        let project = Self::new();
        let root = super::root();
        for place in ["workflows", "prompts", "references"] {
            for file in super::files(&root.join(place), &[""]) {
                project.write(&super::relative(&file), super::text(&file));
            }
        }
        project.write("agent-run.yaml", super::text(&root.join("agent-run.yaml")));
        project
    }

    /// Writes a file, with the directories it needs.
    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.dir.path().join(path);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).expect("directories are made");
        }
        std::fs::write(path, text).expect("the file is written");
    }

    /// The text of a file.
    pub(crate) fn read(&self, path: &str) -> String {
        super::text(&self.path().join(path))
    }

    /// The same with a file more.
    pub(crate) fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.write(path, text);
        self
    }

    /// The same with an environment variable for the program.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs the program with these arguments.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.run_with_stdin(args, "")
    }

    /// Runs the program with these arguments and this standard input.
    pub(crate) fn run_with_stdin(&self, args: &[&str], stdin: &str) -> Output {
        let mut child = Command::new(program())
            .args(args)
            .current_dir(self.path())
            .env_clear()
            .env("NO_COLOR", "1")
            .env("COLUMNS", "100")
            .env("HOME", self.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut pipe = child.stdin.take().expect("standard input is piped");
        // A program that ends before it has read everything is no failure of the test.
        let _ = pipe.write_all(stdin.as_bytes());
        drop(pipe);
        let command = format!("agent-run {}", args.join(" "));
        let (id, started) = (child.id(), Instant::now());
        let waiter = std::thread::spawn(move || child.wait_with_output());
        while !waiter.is_finished() {
            if started.elapsed() > TIMEOUT {
                let _ = Command::new("kill").arg("-9").arg(id.to_string()).status();
                panic!("`{command}` hangs");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let output = waiter.join().expect("the waiter does not panic").expect("the program was waited for");
        Output {
            command,
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }
}

/// A directory for temporary ones that is in no project: a project file that someone left in the usual one would be the root of
/// all of them.
fn outside() -> &'static Path {
    static OUTSIDE: OnceLock<PathBuf> = OnceLock::new();
    OUTSIDE.get_or_init(|| {
        let all = [std::env::temp_dir(), "/var/tmp".into(), "/dev/shm".into()];
        let found = all.iter().find(|dir| dir.is_dir() && !is_in_project(dir));
        found
            .unwrap_or_else(|| panic!("{all:?} are all in a project; remove its `agent-run.yaml` or `workflows`"))
            .clone()
    })
}

/// Whether a project file or a directory of workflows stands in a directory or above it.
fn is_in_project(dir: &Path) -> bool {
    let marks = ["agent-run.yaml", "agent-run.yml", "agent-run.toml", "workflows"];
    dir.ancestors().any(|dir| marks.iter().any(|mark| dir.join(mark).exists()))
}

#[test]
fn a_directory_in_a_project_is_known() {
    let project = Project::new();
    assert!(!is_in_project(project.path()));
    std::fs::create_dir_all(project.path().join("a/b")).expect("directories are made");
    project.write("agent-run.yaml", "project: {name: stray}\n");
    assert!(is_in_project(&project.path().join("a/b")));
}

/// The program under test.
pub(crate) fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_agent-run"))
}

/// What the program did.
pub(crate) struct Output {
    command: String,
    code: Option<i32>,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

impl Output {
    /// The same, after a check of the exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// The exit code; `None` when a signal ended the program.
    pub(crate) fn code(&self) -> Option<i32> {
        self.code
    }

    /// The one JSON document on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(value) => value,
            Err(error) => panic!("stdout is not one JSON document ({error})\n{self}"),
        }
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { command, code, stdout, stderr } = self;
        write!(f, "`{command}` exited with {code:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}
