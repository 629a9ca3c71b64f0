//! The report as JUnit XML.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report as Xml, TestCase, TestCaseStatus, TestSuite};

use super::report::{CaseStatus, Report};

impl Report {
    /// The report as JUnit XML: a suite for each test file.
    ///
    /// # Errors
    /// When it cannot be written as XML.
    pub fn to_junit(&self) -> Result<String, String> {
        let time = |ms: f64| Duration::try_from_secs_f64(ms.max(0.0) / 1000.0).unwrap_or_default();
        let mut xml = Xml::new("agent-run");
        xml.set_time(time(self.ms));
        let mut rest = self.cases.as_slice();
        while let Some(first) = rest.first() {
            let of_file = rest.iter().take_while(|case| case.file == first.file).count();
            let (cases, others) = rest.split_at(of_file);
            rest = others;
            let mut suite = TestSuite::new(first.file.as_str());
            suite.set_time(time(cases.iter().map(|case| case.ms).sum()));
            for case in cases {
                let message = case.message().unwrap_or_default();
                let status = match case.status {
                    CaseStatus::Passed => TestCaseStatus::success(),
                    CaseStatus::Skipped => {
                        let mut status = TestCaseStatus::skipped();
                        status.set_message(message);
                        status
                    }
                    CaseStatus::Failed => {
                        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                        let what = case.problems.first().map_or("failure", |problem| problem.what);
                        status.set_type(what);
                        status.set_message(message.lines().next().unwrap_or_default());
                        status.set_description(message.as_str());
                        status
                    }
                };
                let mut entry = TestCase::new(case.name.as_str(), status);
                entry.set_classname(first.file.as_str());
                entry.set_time(time(case.ms));
                suite.add_test_case(entry);
            }
            xml.add_test_suite(suite);
        }
        xml.to_string().map_err(|error| error.to_string())
    }
}
