//! The project's store on the command line: where it is, which process is meant.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::compile::PROJECT_FILES;
use crate::compile::env::resolve;
use crate::process::journal::Spent;
use crate::process::{Document, Event, Status};
use crate::source::{Sources, read};
use crate::store::{Row, SqliteStore, Store, StoreError};
use crate::world::SystemWorld;

use super::{Exit, Fault};

/// Where a project keeps its processes, unless it says otherwise.
const PLACE: &str = ".agent-run/state.db";

/// Opens the store of the project at `root`.
pub(super) fn open(root: &Path) -> Result<Arc<dyn Store>, Fault> {
    let store = match place(root)? {
        Place::File(path) => SqliteStore::open(&path).map(|store| Arc::new(store) as Arc<dyn Store>),
        Place::Server(url) => on_server(&url),
    };
    store.map_err(|error| Fault::from(error).help("`--no-store` runs without keeping anything"))
}

/// Opens the store of a project that something was run in; one without a store has no processes.
pub(super) fn open_existing(root: &Path) -> Result<Option<Arc<dyn Store>>, Fault> {
    match place(root)? {
        Place::File(path) if !path.is_file() => Ok(None),
        Place::File(path) => Ok(Some(Arc::new(SqliteStore::open(&path)?))),
        Place::Server(url) => Ok(Some(on_server(&url)?)),
    }
}

/// Where a store is.
enum Place {
    /// In a file.
    File(PathBuf),
    /// In the PostgreSQL database of this address, which holds a password.
    Server(String),
}

#[cfg(feature = "postgres")]
fn on_server(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(crate::store::PostgresStore::open(url)?))
}

#[cfg(not(feature = "postgres"))]
fn on_server(_: &str) -> Result<Arc<dyn Store>, StoreError> {
    Err(StoreError::Failed(
        "this agent-run was built without PostgreSQL, which `store.postgres` of the project file wants; build it with \
         `cargo install --path . --features postgres`, or leave `store.postgres` out to keep processes in `.agent-run/state.db`"
            .to_owned(),
    ))
}

/// Where the project file says that the store is; the file need not be sound otherwise.
fn place(root: &Path) -> Result<Place, Fault> {
    let file = PROJECT_FILES.iter().map(|name| root.join(name)).find(|file| file.is_file());
    let settings = file.and_then(|file| {
        let text = std::fs::read_to_string(&file).ok()?;
        let mut sources = Sources::new();
        let id = sources.add(file.to_string_lossy(), text);
        Some(read(id, sources.get(id)).0?.to_json())
    });
    let settings = settings.unwrap_or_default();
    let store = &settings["store"];
    let world = SystemWorld::new(root);
    let value = |key: &str| {
        let Some(written) = store[key].as_str() else { return Ok(None) };
        let resolved = resolve(written, &world);
        match resolved.missing.as_slice() {
            [] => Ok(Some(resolved.value)),
            missing => Err(Fault::wrong(format!("`store.{key}` wants {}, which is not set", missing.join(" and ")))
                .help(format!("set it: `export {}=…`", missing[0]))
                .help("`--no-store` runs without keeping anything")),
        }
    };
    if let Some(url) = value("postgres")? {
        return Ok(Place::Server(url));
    }
    Ok(Place::File(root.join(value("sqlite")?.as_deref().unwrap_or(PLACE))))
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        match &error {
            StoreError::Unknown(_) => Fault::wrong(error.to_string()).help("`agent-run ps` lists them"),
            StoreError::Failed(_) | StoreError::Held(_) => Fault::failed(error.to_string()),
        }
    }
}

/// The process that an id, the beginning of one, or `@last` means.
pub(super) fn meant(store: &Option<Arc<dyn Store>>, id: &str) -> Result<(Arc<dyn Store>, Row), Fault> {
    let none = || Fault::from(StoreError::Unknown(id.to_owned()));
    let Some(store) = store else { return Err(none()) };
    let rows = futures::executor::block_on(store.rows())?;
    if id == "@last" {
        let last = rows.into_iter().next_back();
        return Ok((store.clone(), last.ok_or_else(|| Fault::wrong("there is no process in the store"))?));
    }
    if let Some(row) = futures::executor::block_on(store.row(id))? {
        return Ok((store.clone(), row));
    }
    let fitting: Vec<Row> = rows.into_iter().filter(|row| row.process.starts_with(id)).collect();
    match fitting.as_slice() {
        [only] => Ok((store.clone(), only.clone())),
        [] => Err(none()),
        several => Err(Fault::wrong(format!("`{id}` may be any of {} processes", several.len()))
            .help("give more of the id, or `@last` for the newest")),
    }
}

/// Everything about a stored process.
pub(super) fn document(store: &Arc<dyn Store>, row: &Row) -> Result<(Document, Vec<Event>), Fault> {
    let lines = futures::executor::block_on(store.lines(&row.process, "event"))?;
    let unreadable = |error: serde_json::Error| Fault {
        exit: Exit::Failed,
        ..Fault::wrong(format!("the journal of {}: {error}", row.process))
    };
    let events: Vec<Event> =
        lines.iter().map(|line| serde_json::from_str(line)).collect::<Result<_, _>>().map_err(unreadable)?;
    let spent: Spent = serde_json::from_str(&row.used).unwrap_or_default();
    Ok((Document::told(&row.process, &row.agent, status(row), &spent, &events), events))
}

/// The status of a stored process.
pub(super) fn status(row: &Row) -> Status {
    serde_json::from_value(serde_json::Value::from(row.status.clone())).unwrap_or(Status::NotStarted)
}
