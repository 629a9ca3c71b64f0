//! A PostgreSQL server of a test's own, in a temporary directory and reached over a socket in it: no port, no password. It
//! ends when it is dropped.
#![cfg(all(unix, feature = "postgres"))]

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the server may take to listen.
const PATIENCE: Duration = Duration::from_secs(120);
/// Who runs the server where a test is run by root, which it refuses: nobody.
const NOBODY: u32 = 65_534;

/// The server.
pub(crate) struct PostgresServer {
    dir: tempfile::TempDir,
    server: Child,
}

impl PostgresServer {
    /// Starts a server; `None`, said loudly, where this machine has none.
    #[allow(clippy::print_stderr, reason = "a test that is left out says so")]
    pub(crate) fn start() -> Option<PostgresServer> {
        let Some(bin) = binaries() else {
            eprintln!("LEFT OUT: no PostgreSQL server is installed here (Debian: apt-get install postgresql)");
            return None;
        };
        let dir = tempfile::tempdir().expect("a temporary directory");
        let data = dir.path().join("data");
        std::fs::create_dir(&data).expect("a directory");
        let is_root = dir.path().metadata().expect("it is there").uid() == 0;
        if is_root {
            [dir.path(), &data]
                .iter()
                .for_each(|dir| chown(dir, Some(NOBODY), Some(NOBODY)).expect("it is given away"));
        }
        let command = |name: &str| {
            let mut command = Command::new(bin.join(name));
            if is_root {
                command.uid(NOBODY).gid(NOBODY);
            }
            command.current_dir(dir.path()).env_clear().env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null());
            command
        };
        let made = command("initdb").args(["-A", "trust", "-U", "agent", "--no-sync", "-D"]).arg(&data).output();
        let made = made.expect("initdb starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let log = std::fs::File::create(dir.path().join("log")).expect("a file");
        let server = command("postgres")
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-D"])
            .arg(&data)
            .arg("-k")
            .arg(dir.path())
            .stderr(log)
            .spawn();
        let mut server = PostgresServer { server: server.expect("the server starts"), dir };
        let started = Instant::now();
        while let Err(error) = postgres::Client::connect(&server.url("postgres"), postgres::NoTls) {
            let ended = server.server.try_wait().expect("the server is waited for");
            let log = || std::fs::read_to_string(server.dir.path().join("log")).unwrap_or_default();
            assert!(ended.is_none() && started.elapsed() < PATIENCE, "the server does not answer: {error}\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    /// The address of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgresql://agent@/{database}?host={}", self.dir.path().display())
    }

    /// A database of its own.
    pub(crate) fn database(&self, name: &str) -> String {
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(name)
    }

    /// Does something in a database.
    pub(crate) fn sql(&self, database: &str, text: &str) {
        let mut client = postgres::Client::connect(&self.url(database), postgres::NoTls).expect("the server answers");
        client.batch_execute(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // At once, with all that it has started.
        let _ = Command::new("kill").args(["-QUIT", &self.server.id().to_string()]).status();
        let _ = self.server.wait();
    }
}

/// Where the programs of a server are.
fn binaries() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut places: Vec<PathBuf> = debian.map(|version| version.path().join("bin")).collect();
    places.sort();
    places.extend(std::env::split_paths(&path));
    let has = |dir: &Path| ["initdb", "postgres"].iter().all(|name| dir.join(name).is_file());
    places.into_iter().rev().find(|dir| has(dir))
}
