//! Test files (cli.md 5): cases that run a workflow on a scripted model, snapshots of its prompts, reports.
//!
//! The same cases run from the command line (`agent-run test`) and inside `cargo test`:
//!
//! ```no_run
//! #[test]
//! fn workflows_do_what_their_tests_say() {
//!     agent_run::testing::assert_passes(env!("CARGO_MANIFEST_DIR"));
//! }
//! ```
//!
//! [`Suite::load`] reads test files and checks them as a whole; [`Suite::run`] runs the cases, each in a world of its own
//! with a fixed clock, on a paused timer, so that delays and retries take no time.

mod case;
mod check;
mod coverage;
mod expect;
mod exprs;
mod fill;
mod find;
mod init;
mod judge;
mod junit;
mod load;
mod model;
mod report;
mod run;
mod snapshot;
mod stubs;
mod subset;

pub use case::Case;
pub use coverage::{Coverage, FileCoverage, MissedBranch, MissedTemplate};
pub use find::is_test_file;
pub use init::{First, first_test};
pub use load::{Broken, Loaded, Suite, SuiteFile};
pub use report::{CaseReport, CaseStatus, Problem, Report};
pub use run::{RunTests, SnapshotMode};
pub use snapshot::{Pending, SnapshotError, SnapshotFile};

/// Runs every test file of the project at `root` and panics with a readable report when a case fails; snapshots are never
/// written. For use inside `cargo test`.
///
/// # Panics
/// When a test file is wrong or a case fails: that is its purpose.
#[allow(clippy::panic, reason = "an assertion")]
#[track_caller]
pub fn assert_passes(root: impl AsRef<std::path::Path>) {
    let loaded = Suite::load(root.as_ref(), &[]);
    if let Some(text) = loaded.findings_text() {
        panic!("{text}");
    }
    let report = loaded.suite.run(&RunTests { snapshots: SnapshotMode::Compare, ..RunTests::default() });
    assert!(report.passed(), "{}", report.text(&loaded.suite));
}
