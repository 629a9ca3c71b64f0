//! Running cases: in parallel, each in a world and on a model of its own, on a paused timer.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::engine::{Engine, Input, RunOptions};
use crate::llm::{Llm, Request};
use crate::process::{Document, Event, Process};
use crate::world::SystemWorld;

use super::case::Case;
use super::coverage;
use super::expect;
use super::exprs::is_of;
use super::load::{Suite, SuiteFile};
use super::model::{CaseModel, Exchange};
use super::report::{CaseReport, CaseStatus, Problem, Report};
use super::snapshot;
use super::stubs::CaseStubs;

/// What is done with snapshots that differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotMode {
    /// They fail; the new text is left beside them as `.snap.new`.
    #[default]
    Pend,
    /// They fail; nothing is written.
    Compare,
    /// They are overwritten.
    Update,
}

/// How tests are run.
#[derive(Clone, Debug, Default)]
pub struct RunTests {
    /// What is done with snapshots that differ.
    pub snapshots: SnapshotMode,
    /// Only cases whose file and name contain one of these texts.
    pub filter: Vec<String>,
    /// No further case is begun after one has failed.
    pub fail_fast: bool,
    /// Cases at one time; as many as there are processors when `None`.
    pub jobs: Option<usize>,
    /// Stale snapshots are removed.
    pub prune: bool,
    /// The model that judges, as `provider/id`, before that of the checks.
    pub judge: Option<String>,
    /// What is rendered is noted, for [`Suite::coverage`].
    pub coverage: bool,
}

/// What a case left behind.
pub(super) struct Outcome<'a> {
    pub(super) suite: &'a Suite,
    pub(super) file: &'a SuiteFile,
    pub(super) case: &'a Case,
    pub(super) process: &'a Process,
    pub(super) document: Document,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) events: Vec<Event>,
    /// Questions that the case has no answer to.
    pub(super) unanswered: Vec<String>,
    pub(super) options: &'a RunTests,
}

/// Kinds of bodies that reach out of the program.
pub(super) const OUTSIDE: &[&str] = &["exec", "http"];

impl Suite {
    /// Runs the cases.
    pub fn run(&self, options: &RunTests) -> Report {
        let started = Instant::now();
        if options.coverage {
            let agents = self.files.iter().flat_map(|file| &file.program.agents);
            agents.for_each(|agent| agent.templates.watch());
        }
        let chosen: Vec<(usize, usize)> = self.chosen(&options.filter);
        let jobs = options.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let jobs = jobs.clamp(1, chosen.len().max(1));
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let done: Mutex<Vec<(usize, CaseReport)>> = Mutex::new(Vec::with_capacity(chosen.len()));
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    let mut runner = Runner::default();
                    while let Some((file, case)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let file_of = &self.files[*file];
                        let report = runner.run(self, file_of, &file_of.cases[*case], options);
                        if options.fail_fast && report.status == CaseStatus::Failed {
                            stop.store(true, Ordering::Relaxed);
                        }
                        let at = self.files[..*file].iter().map(|file| file.cases.len()).sum::<usize>() + case;
                        done.lock().unwrap_or_else(PoisonError::into_inner).push((at, report));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(at, _)| *at);
        let mut report = Report { cases: done.into_iter().map(|(_, case)| case).collect(), ..Report::default() };
        report_unused(&mut report);
        self.find_stale(&mut report, options);
        report.ms = started.elapsed().as_secs_f64() * 1000.0;
        report
    }

    /// The cases that a filter leaves, by file and place in it.
    fn chosen(&self, filter: &[String]) -> Vec<(usize, usize)> {
        let fits = |file: &SuiteFile, case: &Case| {
            let name = format!("{}::{}", file.path, case.name);
            filter.is_empty() || filter.iter().any(|text| name.contains(text.as_str()))
        };
        let cases = self.files.iter().enumerate().flat_map(|(at, file)| {
            let fitting = file.cases.iter().enumerate().filter(move |(_, case)| fits(file, case));
            fitting.map(move |(case, _)| (at, case))
        });
        cases.collect()
    }

    /// Finds snapshots of these test files that no case has any more. A case that failed or was not run keeps all of its own.
    fn find_stale(&self, report: &mut Report, options: &RunTests) {
        let mut dirs: Vec<PathBuf> = self.files.iter().map(|file| snapshot::place(&file.path).0).collect();
        dirs.sort();
        dirs.dedup();
        let used: BTreeSet<&str> =
            report.cases.iter().flat_map(|case| case.snapshots.iter().map(String::as_str)).collect();
        for dir in dirs {
            let entries = std::fs::read_dir(self.root.join(&dir)).into_iter().flatten().flatten();
            let mut names: Vec<String> =
                entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            for name in names {
                let Some(stem) = name.strip_suffix(".new").unwrap_or(&name).strip_suffix(".snap") else { continue };
                let path = dir.join(&name);
                if used.contains(stem) || !self.may_be_stale(&dir, stem, report) {
                    continue;
                }
                if options.prune && std::fs::remove_file(self.root.join(&path)).is_ok() {
                    report.pruned += 1;
                } else {
                    report.stale.push(path.to_string_lossy().replace('\\', "/"));
                }
            }
        }
    }

    /// Whether a snapshot belongs to a test file that was run, and to none of its cases that could not show all they have.
    fn may_be_stale(&self, dir: &std::path::Path, stem: &str, report: &Report) -> bool {
        let mine = |file: &&SuiteFile| {
            let (of, prefix) = snapshot::place(&file.path);
            of == dir && stem.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.starts_with("__"))
        };
        let mut files = self.files.iter().filter(mine).peekable();
        files.peek().is_some()
            && files.all(|file| {
                let (_, prefix) = snapshot::place(&file.path);
                let whole = |case: &Case| {
                    let ran = report.cases.iter().find(|run| run.file == file.path && run.name == case.name);
                    ran.is_some_and(|run| {
                        run.status == CaseStatus::Passed || !run.snapshots.is_empty() && only_prompts(run)
                    })
                };
                let mut of_stem = file
                    .cases
                    .iter()
                    .filter(|case| stem.starts_with(&format!("{prefix}__{}__", snapshot::file_part(&case.name))));
                of_stem.all(whole)
            })
    }
}

/// Whether nothing but prompts is wrong, so that the run itself went to its end.
fn only_prompts(run: &CaseReport) -> bool {
    run.problems.iter().all(|problem| problem.what == "prompts")
}

/// Replies that no row of a case uses are a mistake of the case.
fn report_unused(report: &mut Report) {
    let mut from = 0;
    while from < report.cases.len() {
        let of = |case: &CaseReport| (case.file.clone(), case.span);
        let key = of(&report.cases[from]);
        let to = report.cases[from..].iter().position(|case| of(case) != key).map_or(report.cases.len(), |n| from + n);
        let rows = &mut report.cases[from..to];
        from = to;
        if rows.iter().any(|row| row.status == CaseStatus::Skipped) {
            continue;
        }
        let Some((first, rest)) = rows.split_first_mut() else { continue };
        let unused =
            first.unused.iter().filter(|(name, _)| rest.iter().all(|row| row.unused.iter().any(|(n, _)| n == name)));
        let problems: Vec<Problem> = unused
            .map(|(what, span)| {
                let message = format!("{what} was never used; take it out, or find out why the run did not get there");
                Problem::new("unused", *span, message)
            })
            .collect();
        if !problems.is_empty() {
            first.status = CaseStatus::Failed;
            first.problems.extend(problems);
        }
    }
}

/// One thread's means of running cases.
#[derive(Default)]
struct Runner {
    /// A runtime whose clock stands while there is nothing to do but wait.
    paused: Option<tokio::runtime::Runtime>,
    /// A runtime for cases that reach out of the program.
    live: Option<tokio::runtime::Runtime>,
}

impl Runner {
    fn runtime(&mut self, live: bool) -> std::io::Result<&tokio::runtime::Runtime> {
        let slot = if live { &mut self.live } else { &mut self.paused };
        if slot.is_none() {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all().start_paused(!live);
            *slot = Some(builder.build()?);
        }
        slot.as_ref().ok_or_else(|| std::io::Error::other("there is no runtime"))
    }

    fn run(&mut self, suite: &Suite, file: &SuiteFile, case: &Case, options: &RunTests) -> CaseReport {
        let started = Instant::now();
        let mut report = CaseReport {
            file: file.path.clone(),
            name: case.name.clone(),
            span: case.span,
            status: CaseStatus::Passed,
            problems: Vec::new(),
            ms: 0.0,
            pending: Vec::new(),
            updated: 0,
            not_judged: 0,
            reached: Vec::new(),
            unused: Vec::new(),
            snapshots: Vec::new(),
        };
        if let Some(why) = &case.skip {
            report.status = CaseStatus::Skipped;
            report.problems.push(Problem::new("skip", case.span, why.clone()));
            return report;
        }
        self.perform(suite, file, case, options, &mut report);
        if !report.problems.is_empty() {
            report.status = CaseStatus::Failed;
        }
        report.ms = started.elapsed().as_secs_f64() * 1000.0;
        report
    }

    fn perform(&mut self, suite: &Suite, file: &SuiteFile, case: &Case, options: &RunTests, report: &mut CaseReport) {
        let mut run = match begin(suite, file, case) {
            Ok(run) => run,
            Err(why) => {
                let span = case.parts.inputs.first().map_or(case.span, |given| given.key);
                report.problems.push(Problem::new("start", span, why));
                return;
            }
        };
        match self.runtime(case.parts.live) {
            Ok(runtime) => drop(runtime.block_on(run.process.run())),
            Err(error) => {
                report.problems.push(Problem::new("start", case.span, format!("no runtime: {error}")));
                return;
            }
        }
        let outcome = Outcome {
            suite,
            file,
            case,
            document: run.process.document(),
            process: &run.process,
            unanswered: run.stubs.unanswered(),
            exchanges: run.model.take(),
            events: std::mem::take(&mut *run.events.lock().unwrap_or_else(PoisonError::into_inner)),
            options,
        };
        self.compare(&outcome, &run.model, &run.stubs, report);
    }

    /// Compares what came with what was expected.
    fn compare(&mut self, outcome: &Outcome<'_>, model: &CaseModel, stubs: &CaseStubs, report: &mut CaseReport) {
        report.reached = coverage::reached(&outcome.document, &outcome.events);
        expect::answers(outcome, model, report);
        let (problems, unused) = stubs.finish();
        report.problems.extend(problems.into_iter().map(|message| Problem::new("stubs", outcome.case.span, message)));
        let named = |(what, name, span)| match what {
            "answer" => (format!("an answer to `{name}`"), span),
            what => (format!("the stub of the {what} `{name}`, or a turn of it,"), span),
        };
        report.unused.extend(unused.into_iter().map(named));
        match self.runtime(true) {
            Ok(runtime) => expect::compare(outcome, runtime, report),
            Err(error) => {
                report.problems.push(Problem::new("start", outcome.case.span, format!("no runtime: {error}")))
            }
        }
        expect::prompts(outcome, report);
    }
}

/// A case that is ready to run.
struct Begun {
    process: Process,
    model: Arc<CaseModel>,
    stubs: Arc<CaseStubs>,
    events: Arc<Mutex<Vec<Event>>>,
}

fn begin(suite: &Suite, file: &SuiteFile, case: &Case) -> Result<Begun, String> {
    let world = SystemWorld::new(&suite.root).with_fixed_clock(case.parts.now);
    let engine = Engine::new(file.program.clone(), Arc::new(world));
    let model = Arc::new(CaseModel::new(case.parts.script.clone(), case.parts.sampled));
    let stubs = Arc::new(CaseStubs::new(&case.parts, outside(file)));
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let heard = events.clone();
    let run = RunOptions {
        goal: case.goal.clone(),
        returns: case.returns.clone(),
        config: case.parts.config.clone(),
        model: Some(model.clone() as Arc<dyn Llm>),
        stubs: Some(stubs.clone()),
        llm_options: case.parts.llm.clone(),
        no_date_line: true,
        yes: true,
        observer: Some(Arc::new(move |event: &Event| {
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
        })),
        ..RunOptions::default()
    };
    let inputs: Vec<Input> = case.parts.inputs.iter().map(|given| given.input.clone()).collect();
    let process = engine.start(&file.agent.name, inputs, run).map_err(|error| error.to_string())?;
    Ok(Begun { process, model, stubs, events })
}

impl Suite {
    /// The first request that an action of a case sends; nothing is compared.
    ///
    /// # Errors
    /// Why there is none: no such case, a case that cannot begin, an action that it does not reach.
    pub fn request(&self, case: &str, action: &str) -> Result<Request, String> {
        let cases = self.files.iter().flat_map(|file| file.cases.iter().map(move |case| (file, case)));
        let Some((file, found)) = cases.clone().find(|(_, found)| found.name == case) else {
            let names: Vec<&str> = cases.map(|(_, case)| case.name.as_str()).collect();
            let help = crate::diag::suggest::near_or_all(case, names, "the cases");
            return Err(format!("there is no case `{case}`; {help}"));
        };
        let mut begun = begin(self, file, found)?;
        let mut runner = Runner::default();
        let runtime = runner.runtime(found.parts.live).map_err(|error| error.to_string())?;
        runtime.block_on(begun.process.run());
        let document = begun.process.document();
        let request = begun.model.take().into_iter().find(|exchange| is_of(&exchange.request.name, action));
        request.map(|exchange| exchange.request).ok_or_else(|| {
            let ran: Vec<&str> = document.history.iter().map(|entry| entry.action.as_str()).collect();
            format!(
                "the case `{case}` does not come to a call of `{action}`: it is {} after [{}]",
                document.status.word(),
                ran.join(", ")
            )
        })
    }
}

/// The actions of a program that reach out of it.
fn outside(file: &SuiteFile) -> BTreeSet<String> {
    let actions = file.program.agents.iter().flat_map(|agent| &agent.actions);
    actions.filter(|action| OUTSIDE.contains(&action.body.kind())).map(|action| action.name.clone()).collect()
}
