//! `exec`: a program, never a shell: cleared environment, working directory in the project, time and output limits.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration as StdDuration;

use futures::{FutureExt, TryFutureExt};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;

use crate::decl::{Data as WrittenData, Defs, Duration, List, Name, Read, ReadCx, Table, Template};
use crate::diag::Diagnostic;
use crate::llm::Secret;
use crate::prompt::{Data, TemplateId};
use crate::source::Node;
use crate::{record, words};

use super::context::{Context, Failure, FailureKind};
use super::lower::LowerCx;
use super::sandbox::{self, Means, Rules};
use super::shared::{excerpt, is_text, lasting, redacted, redacted_failure, render, render_data, stub};
use super::{ActionKind, Body, Needs, Written};

/// How long a program may run when nothing is said.
const TIMEOUT: StdDuration = StdDuration::from_secs(60);
/// The most that a program may write to its output (runtime.md 7).
const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How much of what a program writes to its error output is kept.
const ERRORS_BYTES_MAX: usize = 64 * 1024;
/// How much of it a message shows, in characters.
const EXCERPT_CHARS: usize = 600;
/// The only variable that a program finds in its environment beside those of `env`: where programs are.
const PATH: &str = sandbox::SEARCHED;

/// The kind `exec`.
pub(super) struct Exec;

impl ActionKind for Exec {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn summary(&self) -> &'static str {
        "Runs a program without a shell; its output becomes the action's"
    }

    fn example(&self) -> &'static str {
        "exec: {command: [fortune, -s], stdin: \"{{ user_input.content }}\", expect: text, timeout: 10s}"
    }

    fn schema(&self, defs: &mut Defs) -> Value {
        ExecDecl::schema(defs)
    }

    fn read(&self, node: &Node, cx: &mut ReadCx) -> Option<Arc<dyn Written>> {
        ExecDecl::read(node, cx).map(|exec| Arc::new(exec) as Arc<dyn Written>)
    }
}

words! {
    /// How the output of a program is read.
    pub(super) enum Expect = "an `expect`" {
        /// As JSON.
        Json = "json",
        /// As it is.
        Text = "text",
    }
}

record! {
    /// A program to run.
    pub(super) struct ExecDecl = "a program" [short: command] {
        /// The program and its arguments.
        req command: List<Template>,
        /// What it reads: text as it is, anything else as JSON.
        opt stdin: WrittenData,
        /// Its environment, which is empty otherwise; `${env:NAME}` is allowed here.
        def env: Table<Template> = Table::default(),
        /// Where it runs, within the project.
        opt cwd: Name,
        /// How its output is read; without it as text where the action's output is a text, else as JSON.
        opt expect: Expect,
        /// How long it may run.
        opt timeout: Duration,
    }
}

impl Written for ExecDecl {
    fn lower(&self, cx: &mut dyn LowerCx) -> Option<Arc<dyn Body>> {
        let command: Vec<Option<TemplateId>> = self.command.iter().map(|argument| cx.template(argument, &[])).collect();
        let Some(program) = self.command.0.first() else {
            let diagnostic = Diagnostic::error("wrong-shape", self.place.0, "`command` is empty");
            cx.report(diagnostic.help("write the program and its arguments: `[program, argument]`"));
            return None;
        };
        if command.len() == 1 && program.0.value.split_whitespace().count() > 1 && !program.0.value.contains('{') {
            let words: Vec<&str> = program.0.value.split_whitespace().collect();
            cx.report(
                Diagnostic::warning(
                    "one-word-command",
                    program.0.span,
                    "this is taken as the name of one program; there is no shell",
                )
                .help(format!("write `[{}]`", words.join(", "))),
            );
        }
        let stdin = self.stdin.as_ref().map(|stdin| cx.data(stdin, None, &[]));
        let env: Vec<Option<EnvVar>> = self
            .env
            .iter()
            .map(|(name, value)| {
                let secrets = cx.environment(value);
                let value = cx.template(value, &[]);
                Some(EnvVar { name: name.value.clone(), value: value?, secrets: secrets? })
            })
            .collect();
        let cwd = match &self.cwd {
            None => PathBuf::new(),
            Some(cwd) => match crate::world::normal(Path::new(&cwd.value)) {
                Some(inside) => inside,
                None => {
                    let message = format!("`{}` leads out of the project", cwd.value);
                    cx.report(
                        Diagnostic::error("path-escapes", cwd.span, message).help("write a path within the project"),
                    );
                    return None;
                }
            },
        };
        let is_text = match self.expect {
            Some(expect) => expect == Expect::Text,
            None => is_text(cx.types(), cx.output()),
        };
        Some(Arc::new(ExecBody {
            program: program.0.value.clone(),
            command: command.into_iter().collect::<Option<_>>()?,
            stdin: match stdin {
                Some(stdin) => Some(stdin?),
                None => None,
            },
            env: env.into_iter().collect::<Option<_>>()?,
            cwd,
            is_text,
            timeout: self.timeout.map_or(TIMEOUT, |timeout| timeout.0),
        }))
    }
}

#[derive(Debug)]
struct ExecBody {
    /// The program as written, for `plan -v`.
    program: String,
    command: Vec<TemplateId>,
    stdin: Option<Data>,
    env: Vec<EnvVar>,
    /// Relative to the project.
    cwd: PathBuf,
    is_text: bool,
    timeout: StdDuration,
}

#[derive(Debug)]
struct EnvVar {
    name: String,
    value: TemplateId,
    /// `${env:…}` as written, and what it stands for.
    secrets: Vec<(String, Secret)>,
}

/// A program, ready to run.
struct Run {
    program: String,
    arguments: Vec<String>,
    env: Vec<(String, String)>,
    cwd: PathBuf,
    stdin: Option<String>,
    /// What it may touch, and what sees to that.
    rules: Rules,
    means: Means,
}

impl ExecBody {
    fn run(&self, cx: &dyn Context) -> Result<Run, Failure> {
        let mut words = self.command.iter().map(|id| render(cx, *id)).collect::<Result<Vec<_>, _>>()?.into_iter();
        let program = words.next().unwrap_or_default();
        if program.trim().is_empty() || program.contains('\0') {
            return Err(Failure::new(FailureKind::Exec, "the program's name is empty"));
        }
        let env = self.env.iter().map(|var| {
            let mut value = render(cx, var.value)?;
            for (written, secret) in &var.secrets {
                value = value.replace(written, secret.expose());
            }
            Ok((var.name.clone(), value))
        });
        let stdin = match &self.stdin {
            None => None,
            Some(data) => match render_data(cx, data)? {
                Value::String(text) => Some(text),
                other => Some(other.to_string()),
            },
        };
        let root = cx.world().root().map(Path::to_owned).unwrap_or_default();
        let cwd = std::path::absolute(root.join(&self.cwd)).unwrap_or_else(|_| root.join(&self.cwd));
        let network = cx.is_allowed("internet", &program);
        let rules = Rules { read: vec![root], write: vec![cwd.clone()], network };
        let env = env.collect::<Result<_, Failure>>()?;
        Ok(Run { program, arguments: words.collect(), env, cwd, stdin, rules, means: sandbox::means().clone() })
    }

    fn result(&self, text: String, program: &str) -> Result<Value, Failure> {
        if self.is_text {
            let text = text.strip_suffix('\n').unwrap_or(&text);
            return Ok(Value::from(text.strip_suffix('\r').unwrap_or(text)));
        }
        serde_json::from_str(text.trim()).map_err(|why| {
            let shown = excerpt(&text, 120);
            Failure::new(
                FailureKind::Exec,
                format!("the output of `{program}` is not JSON ({why}): {shown:?}; for its text write `expect: text`"),
            )
        })
    }
}

#[async_trait::async_trait]
impl Body for ExecBody {
    fn kind(&self) -> &'static str {
        "exec"
    }

    fn needs(&self) -> Needs {
        Needs { permissions: vec!["exec".to_owned()], endpoints: vec![self.program.clone()], ..Needs::default() }
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        self.done(cx).await.map_err(|failure| redacted_failure(failure, self.secrets()))
    }
}

impl ExecBody {
    fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.env.iter().flat_map(|var| var.secrets.iter().map(|(_, secret)| secret))
    }

    async fn done(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let run = self.run(cx)?;
        if cx.dry_run() {
            cx.permit("exec", &run.program)?;
            return stub(cx);
        }
        if let Means::Nothing(why) = &run.means {
            cx.notice("unconfined", &format!("programs run without a sandbox: {why}"));
        }
        let limit = cx.time_left().map_or(self.timeout, |left| left.min(self.timeout));
        let program = run.program.clone();
        let done = async {
            cx.permit("exec", &program)?;
            let text = match tokio::time::timeout(limit, output(run)).await {
                Ok(result) => result?,
                Err(_) => {
                    let message = format!("`{program}` did not end within {} and was stopped", lasting(limit));
                    return Err(Failure::new(FailureKind::Timeout, message));
                }
            };
            self.result(redacted(text, self.secrets()), &program)
        };
        // What is taken down of it must not hold a secret either.
        let done = done.map_err(|failure| redacted_failure(failure, self.secrets()));
        cx.effect("exec", done.boxed()).await
    }
}

/// Kills a program with all that it started, unless it has ended.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let pid = self.0.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // An error means that nothing of the group is left.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

/// A script that a tool runs: like the program of an `exec` body, in a directory that it does not write.
#[derive(Debug)]
pub struct Script {
    /// What is permitted, such as the script's path relative to the project.
    pub subject: String,
    /// The program: a name that is looked for on the system, or an absolute path.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The directory that it runs in.
    pub dir: PathBuf,
    /// What it reads.
    pub stdin: Option<String>,
    /// How long it may run.
    pub timeout: StdDuration,
}

/// What a program left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit status; `None` when a signal ended it.
    pub status: Option<i32>,
    /// Its output.
    pub stdout: String,
    /// The beginning of its error output.
    pub stderr: String,
}

impl Script {
    /// Runs it to its end, whatever its exit status is, with permission and in the sandbox; not under `--dry-run`.
    ///
    /// # Errors
    /// When it is not permitted, cannot be run, takes too long or writes too much, or no text.
    pub async fn run(self, cx: &dyn Context) -> Result<Ended, Failure> {
        cx.permit("exec", &self.subject)?;
        let root = cx.world().root().map(Path::to_owned).unwrap_or_default();
        let network = cx.is_allowed("internet", &self.subject);
        let means = sandbox::means().clone();
        if let Means::Nothing(why) = &means {
            cx.notice("unconfined", &format!("programs run without a sandbox: {why}"));
        }
        let limit = cx.time_left().map_or(self.timeout, |left| left.min(self.timeout));
        let rules = Rules { read: vec![root, self.dir.clone()], write: Vec::new(), network };
        let run = Run {
            program: self.program,
            arguments: self.arguments,
            env: Vec::new(),
            cwd: self.dir,
            stdin: self.stdin,
            rules,
            means,
        };
        match tokio::time::timeout(limit, ended(&run)).await {
            Ok(ended) => ended,
            Err(_) => {
                let message = format!("`{}` did not end within {} and was stopped", self.subject, lasting(limit));
                Err(Failure::new(FailureKind::Timeout, message))
            }
        }
    }
}

/// Runs a program to its end and gives what it wrote; an exit status other than 0 is a failure.
async fn output(run: Run) -> Result<String, Failure> {
    let ended = ended(&run).await?;
    if ended.status == Some(0) {
        return Ok(ended.stdout);
    }
    let words = excerpt(&ended.stderr, EXCERPT_CHARS);
    let words = if words.is_empty() { excerpt(&ended.stdout, EXCERPT_CHARS) } else { words };
    let status = match ended.status {
        Some(code) => format!("ended with status {code}"),
        None => "was ended by a signal".to_owned(),
    };
    let words = if words.is_empty() { String::new() } else { format!(": {words}") };
    Err(Failure::new(FailureKind::Exec, format!("`{}` {status}{words}", run.program)))
}

/// Runs a program to its end; dropped before, the program's whole group is killed.
async fn ended(run: &Run) -> Result<Ended, Failure> {
    let mut child = spawn(run)?;
    let _group = Group(child.id());
    let (stdout, stderr, stdin) = (child.stdout.take(), child.stderr.take(), child.stdin.take());
    let feed = async {
        if let (Some(mut pipe), Some(text)) = (stdin, &run.stdin) {
            // A program that does not read all of its input is no error.
            let _ = pipe.write_all(text.as_bytes()).await;
        }
    };
    let (out, errors, ()) = tokio::join!(read(stdout, OUTPUT_BYTES_MAX), read(stderr, ERRORS_BYTES_MAX), feed);
    let (out, is_cut) = out;
    if is_cut {
        let message = format!("`{}` wrote more than the 16 MiB that are read and was stopped", run.program);
        return Err(Failure::new(FailureKind::Exec, message));
    }
    let status = child.wait().await.map_err(|why| exec_failure(&run.program, &why))?;
    let stderr = String::from_utf8_lossy(&errors.0).into_owned();
    match String::from_utf8(out) {
        Ok(stdout) => Ok(Ended { status: status.code(), stdout, stderr }),
        // Of a program that has failed, what it says is only shown.
        Err(bytes) if !status.success() => {
            let stdout = String::from_utf8_lossy(bytes.as_bytes()).into_owned();
            Ok(Ended { status: status.code(), stdout, stderr })
        }
        Err(_) => {
            let message = format!("the output of `{}` is not UTF-8 text", run.program);
            Err(Failure::new(FailureKind::Exec, message))
        }
    }
}

fn exec_failure(program: &str, why: &std::io::Error) -> Failure {
    let message = match why.kind() {
        std::io::ErrorKind::NotFound => format!("there is no program `{program}`, or no such working directory"),
        _ => format!("`{program}` cannot be run: {why}"),
    };
    Failure::new(FailureKind::Exec, message)
}

fn spawn(run: &Run) -> Result<Child, Failure> {
    let program = file_of(run)?;
    let mut command = sandbox::command(&run.means, &run.rules, &run.cwd, &program, &run.arguments);
    command.env_clear().env("PATH", PATH).envs(run.env.iter().map(|(name, value)| (name, value)));
    if !run.cwd.as_os_str().is_empty() {
        command.current_dir(&run.cwd);
    }
    let stdin = if run.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
    command.spawn().map_err(|why| exec_failure(&run.program, &why))
}

/// The file of the program: a name is looked for where the program's own `PATH` says, a path is within the working
/// directory or absolute.
fn file_of(run: &Run) -> Result<PathBuf, Failure> {
    let found = match run.program.contains('/') {
        true => Some(run.cwd.join(&run.program)),
        false => {
            let own = run.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_str());
            sandbox::find(&run.program, own.unwrap_or(PATH))
        }
    };
    let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let found = found.filter(|file| file.exists()).ok_or_else(missing);
    let found = if run.cwd.as_os_str().is_empty() || run.cwd.is_dir() { found } else { Err(missing()) };
    found.map_err(|why| exec_failure(&run.program, &why))
}

/// Reads at most `bytes_max` bytes, and whether there was more; of more the rest is dropped as it comes only when the
/// limit is that of error output.
async fn read(pipe: Option<impl AsyncRead + Unpin>, bytes_max: usize) -> (Vec<u8>, bool) {
    let Some(mut pipe) = pipe else { return (Vec::new(), false) };
    let (mut kept, mut chunk, mut is_cut) = (Vec::new(), vec![0; 16 * 1024], false);
    loop {
        match pipe.read(&mut chunk).await {
            Ok(0) | Err(_) => return (kept, is_cut),
            Ok(count) => {
                let room = bytes_max - kept.len();
                kept.extend_from_slice(&chunk[..count.min(room)]);
                is_cut |= count > room;
                if is_cut && bytes_max == OUTPUT_BYTES_MAX {
                    return (kept, true);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(program: &str, arguments: &[&str]) -> Run {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Run {
            program: program.to_owned(),
            arguments,
            env: Vec::new(),
            cwd: PathBuf::new(),
            stdin: None,
            rules: Rules::default(),
            means: Means::Nothing("a test"),
        }
    }

    #[tokio::test]
    async fn the_environment_is_cleared_but_for_what_is_declared() {
        let mut env = run("env", &[]);
        env.env = vec![("TOKEN".to_owned(), "abc".to_owned())];
        let text = output(env).await.unwrap();
        let mut names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
        names.sort_unstable();
        assert_eq!(names, ["PATH", "TOKEN"]);
    }

    #[tokio::test]
    async fn arguments_reach_the_program_without_a_shell() {
        assert_eq!(output(run("echo", &["$HOME; ls", "*"])).await.unwrap(), "$HOME; ls *\n");
    }

    #[tokio::test]
    async fn input_is_fed_and_failure_shows_the_error_output() {
        let mut cat = run("cat", &[]);
        cat.stdin = Some("hello".to_owned());
        assert_eq!(output(cat).await.unwrap(), "hello");
        let failure = output(run("sh", &["-c", "echo broken >&2; exit 3"])).await.unwrap_err();
        assert_eq!(failure.message, "`sh` ended with status 3: broken");
        let failure = output(run("no-such-program", &[])).await.unwrap_err();
        assert!(failure.message.contains("no program `no-such-program`"), "{failure}");
    }

    #[tokio::test]
    async fn too_much_output_is_refused() {
        let failure = output(run("yes", &[])).await.unwrap_err();
        assert!(failure.message.contains("16 MiB"), "{failure}");
    }

    #[tokio::test]
    async fn a_dropped_run_takes_its_children_along() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("late");
        let script = format!("(sleep 1; touch {}) & sleep 5", file.display());
        let _ = tokio::time::timeout(StdDuration::from_millis(300), output(run("sh", &["-c", &script]))).await;
        tokio::time::sleep(StdDuration::from_millis(1_200)).await;
        assert!(!file.exists(), "a child of the program outlived it");
    }
}
