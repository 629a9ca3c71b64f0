//! Repositories by HTTP: a real `git` fetches from git's own server program, which a few lines of CGI put on loopback.
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::support::project::Project;

use super::references::{call, project};

fn git(dir: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"];
    let mut git = Command::new("git");
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").current_dir(dir);
    let output = git.args(identity).args(arguments).output().expect("git runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The requests that came, by their first lines.
type Heard = Arc<Mutex<Vec<String>>>;

/// Git's own server program, where it is installed.
fn backend() -> Option<PathBuf> {
    let output = Command::new("git").arg("--exec-path").output().ok()?;
    let path = Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("git-http-backend");
    path.is_file().then_some(path)
}

/// A server of the repositories below a directory; gives its address and what it was asked for.
fn serve(backend: PathBuf, root: PathBuf) -> (String, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let base = format!("http://{}", listener.local_addr().expect("it is bound"));
    let heard: Heard = Arc::default();
    let ear = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (backend, root, ear) = (backend.clone(), root.clone(), ear.clone());
            std::thread::spawn(move || answer(stream, &backend, &root, &ear));
        }
    });
    (base, heard)
}

/// One request, by CGI (RFC 3875).
fn answer(mut stream: TcpStream, backend: &Path, root: &Path, heard: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let Some(first) = lines.first().cloned() else { return };
    let header = |name: &str| {
        let found =
            lines.iter().find_map(|line| line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)));
        found.map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    heard.lock().expect("no panic").push(first.clone());
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    reader.read_exact(&mut body).expect("the body comes");
    let mut cgi = Command::new(backend);
    cgi.env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1").env("REQUEST_METHOD", method);
    cgi.env("PATH_INFO", path).env("QUERY_STRING", query).env("CONTENT_TYPE", header("content-type"));
    cgi.env("HTTP_CONTENT_ENCODING", header("content-encoding")).env("GIT_PROTOCOL", header("git-protocol"));
    cgi.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
    let mut child = cgi
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server program starts");
    child.stdin.take().expect("it is piped").write_all(&body).expect("it reads");
    let output = child.wait_with_output().expect("it ends").stdout;
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(output.len());
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK").to_owned();
    let _ = write!(stream, "HTTP/1.1 {status}\r\nconnection: close\r\n{head}\r\n\r\n");
    let _ = stream.write_all(output.get(end + 4..).unwrap_or_default());
}

/// A repository with files and skills behind a server; `None` where there is no `git` for it.
fn origin() -> Option<(tempfile::TempDir, String, Heard)> {
    let Some(backend) = backend() else {
        eprintln!("SKIPPED: there is no `git http-backend` here");
        return None;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let work = dir.path().join("code");
    let skill = |name: &str| format!("---\nname: {name}\ndescription: Does {name}.\n---\nDo {name}.\n");
    for (path, text) in [
        ("src/main.rs", "fn one() {}\n".to_owned()),
        ("skills/count/SKILL.md", skill("count")),
        ("skills/count/guide.md", "Count twice.\n".to_owned()),
        ("skills/write/SKILL.md", skill("write")),
    ] {
        let path = work.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories are made");
        std::fs::write(path, text).expect("a file");
    }
    git(&work, &["init", "-q"]);
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "one"]);
    let (base, heard) = serve(backend, dir.path().to_owned());
    Some((dir, format!("{base}/code/.git"), heard))
}

fn commit_of(project: &Project) -> String {
    let listed = project.run(&["references", "--json"]).exits(0).json();
    listed[0]["kept"]["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_repository_is_fetched_by_http_from_this_machine_by_branch_and_by_commit() {
    let Some((dir, url, heard)) = origin() else { return };
    let work = dir.path().join("code");
    let first = git(&work, &["rev-parse", "HEAD"]);
    let code = project(&format!("  code: {{git: '{url}', ref: main}}\n"), "code").env("NO_PROXY", "*");
    let read = |project: &Project| call(project, "code_read", "{\"path\": \"src/main.rs\"}").exits(0).stdout;
    assert_eq!(read(&code).trim(), "fn one() {}");
    assert!(commit_of(&code).contains(&first), "{}", commit_of(&code));
    let asked = heard.lock().expect("no panic").len();
    assert!(asked >= 2, "the server was asked");
    read(&code);
    assert_eq!(heard.lock().expect("no panic").len(), asked, "what is kept is used without asking");
    std::fs::write(work.join("src/main.rs"), "fn two() {}\n").expect("written");
    git(&work, &["commit", "-qam", "two"]);
    code.run(&["references", "--update"]).exits(0);
    assert_eq!(read(&code).trim(), "fn two() {}");
    // A commit that no branch ends with: the server gives it among what the branches lead to.
    let pinned = project(&format!("  code: {{git: '{url}', ref: {first}}}\n"), "code").env("NO_PROXY", "*");
    assert_eq!(read(&pinned).trim(), "fn one() {}");
    let gone = project(&format!("  code: {{git: '{}', mode: tools}}\n", url.replace("/code/", "/none/")), "code");
    let failed = call(&gone.env("NO_PROXY", "*"), "code_read", "{\"path\": \"src/main.rs\"}").exits(1);
    assert!(failed.stderr.contains("git fetch") || failed.stderr.contains("not found"), "{failed}");
    let elsewhere = project("  code: {git: 'http://example.com/code.git'}\n", "code").run(&["check"]).exits(2);
    assert!(elsewhere.stderr.contains("repositories are not fetched by `http`"), "{elsewhere}");
}

#[test]
fn of_a_repository_those_skills_are_offered_that_include_takes() {
    let Some((_dir, url, _)) = origin() else { return };
    let some =
        project(&format!("  know: {{skills: '{url}', include: ['skills/count/**']}}\n"), "know").env("NO_PROXY", "*");
    some.run(&["run", "workflows/a.yaml", "hello", "--no-store"]).exits(0);
    let system = super::references::system(&some);
    assert!(system.contains("<name>count</name>") && !system.contains("<name>write</name>"), "{system}");
    let read = call(&some, "know_read_resource", "{\"name\": \"count\", \"path\": \"guide.md\"}").exits(0);
    assert_eq!(read.stdout.trim(), "Count twice.");
    let left_out = call(&some, "know_activate", "{\"name\": \"write\"}").exits(1);
    assert!(left_out.stderr.contains("there is no skill `write`"), "{left_out}");
}
