//! What came of a run of tests, for people and for machines.

use serde::Serialize;
use serde_json::{Value, json};

use crate::source::Span;

use super::load::Suite;
use super::snapshot::Pending;

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseStatus {
    /// All that was expected came.
    Passed,
    /// Something did not.
    Failed,
    /// It was not run.
    Skipped,
}

impl CaseStatus {
    /// `passed`, `failed` or `skipped`.
    pub fn word(self) -> &'static str {
        match self {
            CaseStatus::Passed => "passed",
            CaseStatus::Failed => "failed",
            CaseStatus::Skipped => "skipped",
        }
    }
}

/// One thing that is not as expected.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// What it is: `status`, `ran`, `checks`, `prompts`, …
    pub what: &'static str,
    /// What is wrong, in a line or several.
    pub message: String,
    /// Where in the test file it is expected.
    pub span: Option<Span>,
    /// For a prompt: the old text and the new.
    pub texts: Option<(String, String)>,
}

impl Problem {
    /// A problem without texts.
    pub fn new(what: &'static str, span: impl Into<Option<Span>>, message: impl Into<String>) -> Problem {
        Problem { what, message: message.into(), span: span.into(), texts: None }
    }

    /// The message with the difference of the texts.
    pub fn full(&self) -> String {
        match &self.texts {
            Some((old, new)) => format!("{}\n{}", self.message, crate::diag::diff::plain(old, new)),
            None => self.message.clone(),
        }
    }
}

/// What came of one case.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// The test file, relative to the root.
    pub file: String,
    /// The case.
    pub name: String,
    /// Where it stands.
    pub span: Span,
    /// How it ended.
    pub status: CaseStatus,
    /// What was not as expected; why it was skipped.
    pub problems: Vec<Problem>,
    /// Milliseconds.
    pub ms: f64,
    /// Snapshots that wait for a decision.
    pub pending: Vec<Pending>,
    /// Snapshots that were written under `--update`.
    pub updated: usize,
    /// Questions to a judge that were not asked, because no model is configured.
    pub not_judged: usize,
    /// The actions that ran, sub-processes' among them, and the goal that was reached.
    pub(super) reached: Vec<String>,
    /// Own replies that were not used: action and place.
    pub(super) unused: Vec<(String, Span)>,
    /// The snapshots that it has, by their file names.
    pub(super) snapshots: Vec<String>,
}

impl CaseReport {
    /// The message of the case: all that is wrong, or why it was skipped.
    pub fn message(&self) -> Option<String> {
        let all: Vec<String> = self.problems.iter().map(Problem::full).collect();
        (!all.is_empty()).then(|| all.join("\n"))
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The cases in the order of files and places.
    pub cases: Vec<CaseReport>,
    /// Snapshots that no case has, relative to the root.
    pub stale: Vec<String>,
    /// Stale snapshots that were removed.
    pub pruned: usize,
    /// The whole, in milliseconds.
    pub ms: f64,
}

impl CaseReport {
    /// The snapshots of its prompts, relative to the root.
    pub fn snapshot_files(&self) -> Vec<std::path::PathBuf> {
        let dir = super::snapshot::place(&self.file).0;
        self.snapshots.iter().map(|stem| dir.join(format!("{stem}.snap"))).collect()
    }
}

impl Report {
    /// How many cases ended so.
    pub fn count(&self, status: CaseStatus) -> usize {
        self.cases.iter().filter(|case| case.status == status).count()
    }

    /// Whether no case failed.
    pub fn passed(&self) -> bool {
        self.count(CaseStatus::Failed) == 0
    }

    /// The document of `test --json` (cli.md 5).
    pub fn to_json(&self) -> Value {
        let case = |case: &CaseReport| {
            json!({
                "file": case.file,
                "name": case.name,
                "status": case.status.word(),
                "message": case.message(),
                "ms": (case.ms * 1000.0).round() / 1000.0,
            })
        };
        json!({
            "passed": self.count(CaseStatus::Passed),
            "failed": self.count(CaseStatus::Failed),
            "skipped": self.count(CaseStatus::Skipped),
            "cases": self.cases.iter().map(case).collect::<Vec<_>>(),
            "stale": self.stale,
        })
    }

    /// The cases that failed, as plain text.
    pub fn text(&self, suite: &Suite) -> String {
        let mut out = String::new();
        for case in self.cases.iter().filter(|case| case.status == CaseStatus::Failed) {
            out += &format!("{} {} failed\n", suite.place(case.span), case.name);
            for problem in &case.problems {
                let place = problem.span.map(|span| format!("{}: ", suite.place(span))).unwrap_or_default();
                out += &format!("  {place}{}: {}\n", problem.what, problem.full().replace('\n', "\n    "));
            }
        }
        out + &self.summary()
    }

    /// One line: how many passed, failed and were skipped.
    pub fn summary(&self) -> String {
        let mut parts = vec![format!("{} passed", self.count(CaseStatus::Passed))];
        for status in [CaseStatus::Failed, CaseStatus::Skipped] {
            if self.count(status) > 0 {
                parts.push(format!("{} {}", self.count(status), status.word()));
            }
        }
        parts.join(", ")
    }
}
