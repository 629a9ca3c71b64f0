//! `git`: the files of a repository at one commit, fetched by the system's `git` and kept.
//!
//! What `ref` names is looked up once: the commit is written down beside the files, and later runs use it without
//! asking, until `references --update` looks again. `git` runs with an environment of its own: no settings of the user
//! or the system, no prompts, no hooks, no submodules, no filters, and no way but `https`, `ssh` and `file`;
//! `http` of this machine alone.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Mutex;

use crate::action::context::{Context, Failure, FailureKind};
use crate::tool::Tool;
use crate::tool::builtin::failure;
use crate::tool::builtin::root::Root;
use crate::world::World;

use super::directory::{Filter, Tree, looks, whole, words};
use super::remote::{DIR, digest, make_dir, write};
use super::{Content, Kept, Material, Mode, Reach};

/// How long `git` may take for one command.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The most bytes that are fetched, and that files of a commit have together.
const BYTES_MAX: u64 = 512 * 1024 * 1024;
/// The most files of a commit.
const FILES_MAX: usize = 200_000;
/// How often the size of what is fetched is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How much of what `git` says is read, in bytes, and shown, in characters.
const SAID_BYTES_MAX: u64 = 64 * 1024 * 1024;
const SHOWN_CHARS: usize = 400;
/// What it runs with of the user's environment: how it reaches the network and keys, and where programs are.
const KEPT: &[&str] = &[
    "PATH",
    "HOME",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
];
/// Its settings, whatever the user's are.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.symlinks=false",
    "core.autocrlf=false",
    "core.fsmonitor=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "credential.helper=",
    "fetch.fsckObjects=true",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.ssh.allow=always",
    "protocol.file.allow=always",
    "submodule.recurse=false",
];

/// A repository at one commit.
#[derive(Debug)]
pub struct Repository {
    name: String,
    url: String,
    /// A branch, tag or commit; `HEAD` where none is declared.
    of: String,
    filter: Filter,
    /// The directory of the files, once it is there.
    here: Mutex<Option<PathBuf>>,
}

/// Which commit a name was found to be.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Lock {
    url: String,
    r#ref: String,
    commit: String,
    since: String,
}

/// Why a text is no URL of a repository; `None` when it is one.
pub fn bad_url(url: &str) -> Option<String> {
    let is_plain = url.chars().all(|c| !c.is_whitespace() && !c.is_control()) && !url.starts_with('-');
    let scheme = url.split_once("://");
    match scheme {
        _ if !is_plain => Some("this is not the URL of a repository".to_owned()),
        Some(("https" | "ssh", rest)) if !rest.trim_start_matches('/').is_empty() && !rest.starts_with(['/', '-']) => {
            None
        }
        Some(("file", rest)) if rest.starts_with('/') => None,
        Some(("http", _)) if is_of_this_machine(url) => None,
        Some(("https" | "ssh" | "file", _)) => Some("this is not the URL of a repository".to_owned()),
        Some((scheme, _)) => Some(format!("repositories are not fetched by `{scheme}`")),
        // `git@github.com:org/repo.git`
        None => {
            let is_short = url.split_once(':').is_some_and(|(host, path)| {
                host.contains('@') && !host.contains('/') && !path.is_empty() && !path.starts_with([':', '-'])
            });
            (!is_short).then(|| "this is not the URL of a repository".to_owned())
        }
    }
}

/// Whether a URL is of a server on this machine, which is asked without encryption.
fn is_of_this_machine(url: &str) -> bool {
    let host = reqwest::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Why a text is no name of a branch, tag or commit; `None` when it may be one.
pub fn bad_ref(name: &str) -> Option<String> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "~^:?*[\\".contains(c);
    let is_wrong = name.is_empty() || name.starts_with(['-', '+', '/']) || name.contains("..") || name.contains(is_odd);
    is_wrong.then(|| format!("`{name}` is not the name of a branch, tag or commit"))
}

impl Repository {
    /// The repository at a URL, as the reference `name`.
    pub fn new(name: &str, url: &str, of: Option<&str>, filter: Filter) -> Repository {
        let of = of.unwrap_or("HEAD").to_owned();
        Repository { name: name.to_owned(), url: url.to_owned(), of, filter, here: Mutex::new(None) }
    }

    /// The URL without user and password.
    fn shown(&self) -> String {
        match reqwest::Url::parse(&self.url) {
            Ok(mut url) if matches!(url.scheme(), "https" | "http") => {
                let _ = (url.set_username(""), url.set_password(None));
                url.to_string()
            }
            _ => self.url.clone(),
        }
    }

    fn dir(&self, root: &Path) -> PathBuf {
        root.join(DIR).join(format!("git-{}", digest(&format!("{} {}", self.url, self.of))))
    }

    fn lock(&self, root: &Path) -> Option<Lock> {
        serde_json::from_slice(&std::fs::read(self.dir(root).join("lock.json")).ok()?).ok()
    }

    /// The directory of the files, if they are here.
    fn checked_out(&self, root: &Path) -> Option<PathBuf> {
        let lock = self.lock(root)?;
        Some(self.dir(root).join(lock.commit)).filter(|tree| tree.is_dir())
    }

    /// The directory of the files, fetched where they are not here.
    async fn files(&self, cx: &dyn Context) -> Result<PathBuf, Failure> {
        let mut here = self.here.lock().await;
        if let Some(tree) = here.as_ref().filter(|tree| tree.is_dir()) {
            return Ok(tree.clone());
        }
        let Some(root) = cx.world().root().map(Path::to_owned) else {
            return Err(failure("the project is not on disk, so no repository can be kept"));
        };
        let tree = match self.checked_out(&root) {
            Some(tree) => tree,
            None => {
                let known = self.lock(&root).map(|lock| lock.commit);
                self.fetch(cx, &root, known.as_deref()).await?.1
            }
        };
        *here = Some(tree.clone());
        Ok(tree)
    }

    /// Fetches a commit, or the one that `ref` names now; gives its id and directory.
    async fn fetch(&self, cx: &dyn Context, root: &Path, commit: Option<&str>) -> Result<(String, PathBuf), Failure> {
        cx.permit(self.permission(), &self.subject())?;
        let dir = self.dir(root);
        make_dir(&dir).map_err(|why| failure(format!("`{DIR}` cannot be written: {why}")))?;
        let part = Part(dir.join(format!(".{}.part", ulid::Ulid::generate())));
        let (bare, files) = (part.0.join("repository"), part.0.join("files"));
        std::fs::create_dir_all(&files).map_err(|why| failure(format!("`{DIR}` cannot be written: {why}")))?;
        let git = Git { world: cx.world(), bare: &bare, files: &files, url: &self.url, shown: self.shown() };
        git.run(&["init", "-q", "--bare", "--template=", &bare.to_string_lossy()]).await?;
        let of = commit.unwrap_or(&self.of);
        let fetched =
            git.run(&["fetch", "-q", "--depth=1", "--no-tags", "--no-recurse-submodules", &self.url, of]).await;
        let found = match fetched {
            Ok(_) => git.run(&["rev-parse", "--verify", "-q", "FETCH_HEAD^{commit}"]).await?,
            // Not every server gives a commit that no branch ends with: it is among what they all lead to.
            Err(failure) if is_commit(of) => {
                let all = [
                    "fetch",
                    "-q",
                    "--no-recurse-submodules",
                    &self.url,
                    "+refs/heads/*:refs/heads/*",
                    "+refs/tags/*:refs/tags/*",
                ];
                git.run(&all).await?;
                let wanted = format!("{of}^{{commit}}");
                git.run(&["rev-parse", "--verify", "-q", &wanted]).await.map_err(|_| failure)?
            }
            Err(failure) => return Err(failure),
        };
        let commit = found.trim().to_owned();
        if !is_commit(&commit) {
            return Err(failure(format!("{} has no commit `{of}`", self.shown())));
        }
        let listed = git.run(&["ls-tree", "-r", "-l", "-z", &commit]).await?;
        fits(&listed).map_err(|why| failure(format!("{} at `{of}`: {why}", self.shown())))?;
        if !listed.is_empty() {
            git.run(&["checkout", "-q", "-f", &commit, "--", "."]).await?;
        }
        let tree = dir.join(&commit);
        if !tree.is_dir() {
            // Another process may have been faster; its files are the same.
            if let Err(why) = std::fs::rename(&files, &tree)
                && !tree.is_dir()
            {
                return Err(failure(format!("`{DIR}` cannot be written: {why}")));
            }
        }
        let since = cx.world().now().to_string();
        let lock = Lock { url: self.shown(), r#ref: self.of.clone(), commit: commit.clone(), since };
        let bytes = serde_json::to_vec_pretty(&lock).unwrap_or_default();
        write(&dir.join("lock.json"), &bytes).map_err(|why| failure(format!("`{DIR}` cannot be written: {why}")))?;
        Ok((commit, tree))
    }
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether the files of a commit, as `ls-tree -l -z` lists them, are few and small enough.
fn fits(listed: &str) -> Result<(), String> {
    let sizes = listed.split('\0').filter(|line| !line.is_empty()).map(|line| {
        let about = line.split('\t').next().unwrap_or_default();
        about.split_whitespace().nth(3).and_then(|size| size.parse::<u64>().ok()).unwrap_or(0)
    });
    let (mut files, mut bytes) = (0usize, 0u64);
    for size in sizes {
        files += 1;
        bytes = bytes.saturating_add(size);
    }
    if files > FILES_MAX {
        return Err(format!("it has {files} files, more than the {FILES_MAX} that are taken"));
    }
    if bytes > BYTES_MAX {
        return Err(format!("its files have {bytes} bytes, more than the {} MiB that are taken", BYTES_MAX >> 20));
    }
    Ok(())
}

/// A directory that is removed when it is done with.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The system's `git` on one repository.
struct Git<'a> {
    world: &'a dyn World,
    bare: &'a Path,
    files: &'a Path,
    url: &'a str,
    shown: String,
}

impl Git<'_> {
    /// Runs a command and gives what it prints.
    async fn run(&self, arguments: &[&str]) -> Result<String, Failure> {
        // Nothing from elsewhere leads to a server of this machine.
        let is_local = is_of_this_machine(self.url);
        let mut command = Command::new("git");
        command.env_clear().current_dir(self.files);
        command.envs(KEPT.iter().filter_map(|name| Some((*name, self.world.env(name)?))));
        for (name, value) in [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "true"),
            ("SSH_ASKPASS", "true"),
            ("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
            ("GIT_PROTOCOL_FROM_USER", "0"),
            ("GIT_ALLOW_PROTOCOL", if is_local { "https:ssh:file:http" } else { "https:ssh:file" }),
            ("GIT_LFS_SKIP_SMUDGE", "1"),
            ("LC_ALL", "C"),
        ] {
            command.env(name, value);
        }
        command.env("GIT_DIR", self.bare).env("GIT_WORK_TREE", self.files);
        if arguments.first() == Some(&"init") {
            command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
        }
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        if is_local {
            command.args(["-c", "protocol.http.allow=always"]);
        }
        command.args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(|why| match why.kind() {
            std::io::ErrorKind::NotFound => failure("the program `git` is not there; install it"),
            _ => failure(format!("`git` cannot be run: {why}")),
        })?;
        let _group = Group(child.id());
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let read = async {
            if let Some(stdout) = stdout {
                let _ = stdout.take(SAID_BYTES_MAX).read_to_end(&mut out).await;
            }
        };
        let read_errors = async {
            if let Some(stderr) = stderr {
                let _ = stderr.take(SAID_BYTES_MAX).read_to_end(&mut errors).await;
            }
        };
        let done = async { tokio::join!(read, read_errors, child.wait()).2 };
        let status = tokio::select! {
            status = tokio::time::timeout(TIMEOUT, done) => status,
            () = self.too_large() => {
                let most = BYTES_MAX >> 20;
                return Err(failure(format!("{} is larger than the {most} MiB that are fetched", self.shown)));
            }
        };
        let what = arguments.first().copied().unwrap_or_default();
        match status {
            Err(_) => {
                let message = format!("`git {what}` of {} did not end within {} s", self.shown, TIMEOUT.as_secs());
                Err(Failure::new(FailureKind::Timeout, message))
            }
            Ok(Err(why)) => Err(failure(format!("`git {what}` cannot be waited for: {why}"))),
            Ok(Ok(status)) if status.success() => Ok(String::from_utf8_lossy(&out).into_owned()),
            Ok(Ok(_)) => {
                let said = String::from_utf8_lossy(&errors).replace(self.url, &self.shown);
                let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
                let said: String = said.join("; ").chars().take(SHOWN_CHARS).collect();
                Err(failure(format!("`git {what}` of {} failed: {said}", self.shown)))
            }
        }
    }

    /// Ends once the repository is too large.
    async fn too_large(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let bare = self.bare.to_owned();
            let size = tokio::task::spawn_blocking(move || size(&bare, 0)).await.unwrap_or(0);
            if size > BYTES_MAX {
                return;
            }
        }
    }
}

/// The bytes below a directory.
fn size(dir: &Path, depth: usize) -> u64 {
    const DEPTH_MAX: usize = 8;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() && depth < DEPTH_MAX => size(&entry.path(), depth + 1),
        Ok(about) => about.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Kills `git` with all that it started, unless it has ended.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(pid) = self.0.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw) {
            // An error means that nothing of the group is left.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

#[async_trait]
impl Tree for Repository {
    async fn root(&self, cx: &dyn Context) -> Result<Root, Failure> {
        let tree = self.files(cx).await?;
        Ok(Root::new(&tree)?.taking(words(&self.name), self.filter.question()))
    }

    fn permission(&self) -> &'static str {
        if self.url.starts_with("file:") { "files:read" } else { "internet" }
    }

    fn subject(&self) -> String {
        self.shown()
    }
}

#[async_trait]
impl Material for Repository {
    fn kind(&self) -> &'static str {
        "git"
    }

    fn place(&self) -> String {
        match self.of.as_str() {
            "HEAD" => self.shown(),
            of => format!("{} {of}", self.shown()),
        }
    }

    fn is_own(&self) -> bool {
        false
    }

    async fn content(&self, cx: &dyn Context, mode: Mode, reach: Reach) -> Result<Content, Failure> {
        let is_here = || cx.world().root().is_some_and(|root| self.checked_out(root).is_some());
        match mode {
            Mode::Prompt if reach == Reach::Kept && !is_here() => {
                Ok(Content::Missing(format!("{} is not kept here yet; a run fetches it", self.shown())))
            }
            Mode::Prompt => whole(self, cx).await,
            Mode::Auto | Mode::Tools => Ok(Content::Nothing),
        }
    }

    fn tools(self: Arc<Self>, prefix: &str) -> Vec<Tool> {
        let tools = looks(self, prefix).into_iter();
        // A first call fetches the repository.
        tools.map(|tool| Tool { timeout: TIMEOUT * 3, ..tool }).collect()
    }

    fn kept(&self, root: &Path) -> Option<Kept> {
        let lock = self.lock(root)?;
        self.checked_out(root)?;
        Some(Kept { since: lock.since, state: Some(lock.commit), bytes: None })
    }

    async fn ping(&self, cx: &dyn Context) -> Result<String, Failure> {
        cx.permit(self.permission(), &self.subject())?;
        let Some(root) = cx.world().root().map(Path::to_owned) else {
            return Err(failure("the project is not on disk, so no repository can be kept"));
        };
        let dir = self.dir(&root);
        make_dir(&dir).map_err(|why| failure(format!("`{DIR}` cannot be written: {why}")))?;
        let part = Part(dir.join(format!(".{}.part", ulid::Ulid::generate())));
        std::fs::create_dir_all(&part.0).map_err(|why| failure(format!("`{DIR}` cannot be written: {why}")))?;
        let git = Git { world: cx.world(), bare: &part.0, files: &part.0, url: &self.url, shown: self.shown() };
        let listed = git.run(&["ls-remote", "-q", &self.url]).await?;
        let is_it = |name: &str| {
            name == self.of
                || ["refs/heads/", "refs/tags/"].iter().any(|kind| name.strip_prefix(kind) == Some(&self.of))
        };
        let mut refs = listed.lines().filter_map(|line| line.split_once('\t'));
        match refs.find(|(_, name)| is_it(name)) {
            Some((commit, _)) => Ok(format!("`{}` is {}", self.of, commit.get(..12).unwrap_or(commit))),
            None if is_commit(&self.of) => Ok("it is there".to_owned()),
            None => Err(failure(format!("{} has no branch or tag `{}`", self.shown(), self.of))),
        }
    }

    async fn refresh(&self, cx: &dyn Context) -> Result<Option<String>, Failure> {
        let Some(root) = cx.world().root().map(Path::to_owned) else { return Ok(None) };
        let before = self.lock(&root).map(|lock| lock.commit);
        let (commit, tree) = self.fetch(cx, &root, None).await?;
        *self.here.lock().await = Some(tree);
        // Processes may still look into the files that were in force; older ones are of no use.
        let kept = [Some(commit.clone()), before];
        for entry in std::fs::read_dir(self.dir(&root)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_commit(&name) && !kept.contains(&Some(name)) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        Ok(Some(format!("commit {}", &commit[..12])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_repositories_are_known_and_nothing_else_is_run() {
        for url in [
            "https://example.com/org/repo.git",
            "ssh://git@example.com/x",
            "file:///srv/repo",
            "git@example.com:org/repo.git",
        ] {
            assert_eq!(bad_url(url), None, "{url}");
        }
        for url in [
            "ext::sh -c x",
            "ext::sh",
            "--upload-pack=x",
            "https://",
            "https:///x",
            "http://example.com/x",
            "git://example.com/x",
            "file://host/x",
            "ssh://-oProxyCommand=x/y",
            "example.com/x",
            "../repo",
            "",
            "a@b:-x",
        ] {
            assert!(bad_url(url).is_some(), "{url}");
        }
        for name in ["main", "v1.0", "feature/x", "0123456789abcdef0123456789abcdef01234567"] {
            assert_eq!(bad_ref(name), None, "{name}");
        }
        for name in ["", "-x", "+x:y", "a..b", "a b", "main^", "x:refs/heads/y"] {
            assert!(bad_ref(name).is_some(), "{name}");
        }
    }

    #[test]
    fn commits_of_too_many_or_too_large_files_are_refused() {
        let line = |size: u64| format!("100644 blob 0123 {size:>7}\ta b.md\0");
        assert_eq!(fits(&line(5).repeat(3)), Ok(()));
        assert!(fits(&line(BYTES_MAX).repeat(2)).is_err_and(|why| why.contains("512 MiB")));
        assert!(fits(&line(1).repeat(FILES_MAX + 1)).is_err_and(|why| why.contains("files")));
    }
}
