//! All integration tests, in one binary: one link instead of ten. `README.md` says how to add a case.

mod support;

mod cli;
mod confirming;
mod durability;
mod events;
mod mcp;
mod mistakes;
mod providers;
mod published;
mod readme;
mod schemas;
mod skills;
mod suite;
#[cfg(feature = "otlp")]
mod telemetry;
mod tidy;
mod tool_fuzz;
mod transcripts;
mod workflows;

/// A file that no `mod` names would be a test that silently never runs.
#[test]
fn no_test_file_is_forgotten() {
    let roots = [("main.rs", include_str!("main.rs")), ("cli/mod.rs", include_str!("cli/mod.rs"))];
    for (root, text) in roots {
        let dir = support::root().join("tests").join(root);
        let dir = dir.parent().expect("a file has a directory");
        for entry in std::fs::read_dir(dir).expect("the directory is there").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let module = match name.strip_suffix(".rs") {
                Some("main" | "mod") => continue,
                Some(module) => module.to_owned(),
                None if entry.path().join("mod.rs").exists() => name,
                None => continue,
            };
            assert!(text.contains(&format!("mod {module};")), "tests/{root} has no `mod {module};`");
        }
    }
}
