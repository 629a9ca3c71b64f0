//! What several tests need: the repository's files, temporary projects, the program itself, literate cases.

pub(crate) mod literate;
pub(crate) mod mcp_server;
pub(crate) mod mock_llm;
pub(crate) mod postgres;
pub(crate) mod project;
pub(crate) mod published;
pub(crate) mod wires;

use std::path::{Path, PathBuf};

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files under `dir` whose name ends with one of `ends`, sorted; hidden names and `target` are left out.
pub(crate) fn files(dir: &Path, ends: &[&str]) -> Vec<PathBuf> {
    let mut out = Vec::new();
    collect(dir, ends, &mut out);
    out.sort();
    out
}

fn collect(dir: &Path, ends: &[&str], out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            collect(&path, ends, out);
        } else if ends.iter().any(|end| name.ends_with(end)) {
            out.push(path);
        }
    }
}

/// A path relative to the repository's root, with `/`.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// The text of a file.
pub(crate) fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
