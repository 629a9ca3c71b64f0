//! Which files of a project are test files.

use std::path::{Path, PathBuf};

use indexmap::IndexSet;

use crate::compile::{PROJECT_FILES, tests_dir};
use crate::world::World;

/// The test files of a project, in the order of their paths: those of its directory of tests, or at `paths` (files or
/// directories, relative to the root; a file that is named is one whatever it holds). What lies in a project of its own
/// below is none of this one's.
pub(super) fn test_files(world: &dyn World, paths: &[PathBuf]) -> Vec<PathBuf> {
    let tests = [PathBuf::from(tests_dir(world))];
    let paths = if paths.is_empty() { &tests } else { paths };
    let mut found: IndexSet<PathBuf> = IndexSet::new();
    for path in paths {
        let listed = world.list(path);
        let is_file = listed.as_slice() == std::slice::from_ref(path) || listed.is_empty() && world.read(path).is_ok();
        if is_file {
            found.insert(path.clone());
            continue;
        }
        let of_others: Vec<PathBuf> = listed
            .iter()
            .filter(|file| file.file_name().is_some_and(|name| PROJECT_FILES.iter().any(|project| name == *project)))
            .filter_map(|file| file.parent().map(Path::to_owned))
            .filter(|dir| dir != path && !dir.as_os_str().is_empty())
            .collect();
        let is_own = |file: &&PathBuf| !of_others.iter().any(|dir| file.starts_with(dir));
        found.extend(listed.iter().filter(is_own).filter(|file| is_test_file(world, file)).cloned());
    }
    found.into_iter().collect()
}

/// Whether a file is YAML or TOML with a mapping `cases`, or a file as `workflow`, at its top. Other data that lies
/// beside test files is not.
pub fn is_test_file(world: &dyn World, path: &Path) -> bool {
    let ending = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    if !matches!(ending, "yaml" | "yml" | "toml") {
        return false;
    }
    world.read(path).is_ok_and(|text| is_test_text(&text))
}

fn is_test_text(text: &str) -> bool {
    let lines = text.trim_start_matches('\u{feff}').lines();
    let mut lines = lines.filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')).peekable();
    let files = [".yaml", ".yml", ".toml"];
    let mut found = false;
    while let Some(line) = lines.next() {
        if value_of(line, "agent").is_some() {
            return false;
        }
        let names_file = |value: &str| value.is_empty() || files.iter().any(|end| value.contains(end));
        found |= value_of(line, "workflow").is_some_and(names_file);
        let has_items = lines.peek().is_some_and(|line| line.trim_start().starts_with("- "));
        let is_mapping = |value: &str| value.starts_with(['{', '.', ']']) || (value.is_empty() && !has_items);
        found |= value_of(line, "cases").is_some_and(is_mapping);
    }
    found
}

/// What stands behind a key at the top of a file, in YAML or TOML, without its comment.
fn value_of<'l>(line: &'l str, key: &str) -> Option<&'l str> {
    let rest = line.trim_start_matches(['[', '"', '\'']).strip_prefix(key)?;
    let rest = rest.trim_start_matches(['"', '\'']).trim_start();
    let value = match rest.starts_with(['.', ']']) {
        true => rest,
        false => rest.strip_prefix([':', '='])?,
    };
    Some(value.split(" #").next().unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::MemoryWorld;

    #[test]
    fn data_beside_test_files_is_none() {
        let tests = [
            "workflow: ../workflows/a.yaml\n",
            "# first\nimport: b.yaml\ncases:\n\n  # one\n  a: {}\n",
            "cases: {a: {}}\n",
            "\"cases\":\n  a: {}\n",
            "workflow = \"../a.toml\"\n",
            "[cases.a]\ninput = \"x\"\n",
            "cases: # all\n  a: {}\n",
        ];
        for text in tests {
            assert!(is_test_text(text), "{text}");
        }
        let others = [
            "cases:\n  - a\n",
            "cases:\n- a\n",
            "cases: [1, 2]\n",
            "cases: 12\n",
            "workflow: release\njobs: {}\n",
            "agent: a\nworkflow: b.yaml\n",
            "fixtures:\n  cases: {a: {}}\n",
            "# cases: {}\n",
            "casesOf: {a: {}}\n",
            "",
        ];
        for text in others {
            assert!(!is_test_text(text), "{text}");
        }
    }

    #[test]
    fn they_are_looked_for_under_tests_and_not_in_projects_below() {
        let test = "workflow: ../workflows/a.yaml\n";
        let world = MemoryWorld::with_files([
            ("tests/b.yaml", test),
            ("tests/deep/a.yml", test),
            ("tests/data.yaml", "cases: [1]\n"),
            ("tests/data.json", "{\"cases\": {}}"),
            ("tests/other/agent-run.yaml", "project: {}\n"),
            ("tests/other/tests/c.yaml", test),
            ("elsewhere/d.yaml", test),
        ]);
        let found = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            let found = test_files(&world, &paths).into_iter();
            found.map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found(&[]), ["tests/b.yaml", "tests/deep/a.yml"]);
        assert_eq!(found(&["elsewhere", "tests/data.yaml"]), ["elsewhere/d.yaml", "tests/data.yaml"]);
    }
}
