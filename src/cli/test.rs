//! `test [PATH…]`: runs the test files and shows what came of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::compile::Memories;
use crate::compile::PROJECT_FILES;
use crate::diag::diff::{Change, Line, lines as diff_lines};
use crate::diag::{Severity, render};
use crate::engine::{PlanOptions, RunOptions};
use crate::testing::{
    CaseReport, CaseStatus, Coverage, First, Loaded, Problem, Report, RunTests, SnapshotMode, Suite, first_test,
};
use crate::world::watch::Watch;
use crate::world::{Snapshot, SystemWorld, World};

use super::args::{Global, TestArgs};
use super::loaded::{Clock, Outcome, load, render_options};
use super::output::{BOLD, CYAN, DIM, GREEN, RED, YELLOW};
use super::project::root_of_command;
use super::{Exit, Fault, Out, test_review};

/// Removed lines of a difference.
const REMOVED: anstyle::Style = anstyle::AnsiColor::Red.on_default();
/// Lines around each change of a difference.
const AROUND: usize = 2;

/// Runs the tests.
pub(super) fn test(args: &TestArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    if let Some(workflow) = &args.init {
        return init(workflow, global, out);
    }
    let (root, paths, mut filter) = located(args, global)?;
    filter.extend(args.filter.iter().cloned());
    if args.watch {
        return watched(args, &root, &paths, filter, out);
    }
    let loaded = Suite::load(&root, &paths);
    show_findings(&loaded, out);
    if loaded.has_errors() {
        return Ok(Exit::Wrong);
    }
    let suite = &loaded.suite;
    if suite.files.is_empty() {
        return Err(no_tests());
    }
    let report = suite.run(&options(args, filter.clone()));
    if report.cases.is_empty() && !filter.is_empty() {
        let names = suite.files.iter().flat_map(|file| file.cases.iter().map(|case| case.name.as_str()));
        let near = filter.first().and_then(|text| crate::diag::suggest::did_you_mean(text, names));
        let fault = Fault::wrong(format!("no case contains `{}`", filter.join("` or `")));
        return Err(fault.help(near.unwrap_or_else(|| "cases are named `file::name`".to_owned())));
    }
    if let Some(file) = &args.junit {
        let xml = report.to_junit().map_err(|error| Fault::failed(format!("the report is no XML: {error}")))?;
        std::fs::write(file, xml)
            .map_err(|error| Fault::failed(format!("`{}` cannot be written: {error}", file.display())))?;
    }
    if out.json {
        let mut document = report.to_json();
        if args.coverage {
            document["coverage"] = serde_json::json!(suite.coverage(&report));
        }
        out.document(&document);
    } else {
        show(suite, &report, args.review, out);
        if args.coverage {
            show_coverage(&suite.coverage(&report), out);
        }
    }
    if args.review {
        return test_review::review(&report, &root, out);
    }
    Ok(if report.passed() { Exit::Done } else { Exit::Failed })
}

fn options(args: &TestArgs, filter: Vec<String>) -> RunTests {
    RunTests {
        snapshots: mode(args),
        filter,
        fail_fast: args.fail_fast,
        jobs: args.jobs.map(usize::from),
        prune: args.prune,
        judge: args.judge.clone(),
        coverage: args.coverage,
    }
}

fn no_tests() -> Fault {
    Fault::wrong("there are no test files").help(
        "a test file is YAML under `tests/` with `workflow` and `cases`; `agent-run test --init WORKFLOW` writes a first one",
    )
}

/// Runs the tests, and runs them again at each edit, until the command is interrupted.
fn watched(args: &TestArgs, root: &Path, paths: &[PathBuf], filter: Vec<String>, out: &Out) -> Result<Exit, Fault> {
    let options = options(args, filter);
    let mut watch = Watch::new(root)?;
    let (mut snapshot, mut memories) = (Snapshot::new(Arc::new(SystemWorld::new(root))), Memories::default());
    loop {
        let loaded = Suite::load_in(&snapshot, root, paths, &mut memories);
        show_findings(&loaded, out);
        if !loaded.has_errors() && loaded.suite.files.is_empty() {
            out.fault(&no_tests());
        } else if !loaded.has_errors() {
            let report = loaded.suite.run(&options);
            show(&loaded.suite, &report, false, out);
            if args.coverage {
                show_coverage(&loaded.suite.coverage(&report), out);
            }
            // Snapshots that are accepted elsewhere count as edits.
            for file in report.cases.iter().flat_map(CaseReport::snapshot_files) {
                let _ = snapshot.read(&file);
            }
        }
        watch.aim(&snapshot.asked())?;
        out.note(out.paint_err(DIM, "waits for an edit; Ctrl-C ends"));
        watch.wait_for_edit(&snapshot)?;
        snapshot = snapshot.next();
        memories.next_round();
        out.note(if out.live { "\x1b[2J\x1b[H" } else { "" });
    }
}

/// Writes a first test file for a workflow.
fn init(workflow: &str, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let loaded = match load(workflow, Clock::default(), None, global, out)? {
        Outcome::Ready(loaded) => loaded,
        Outcome::Ended(exit) => return Ok(exit),
    };
    let plan = |given| {
        let planned = loaded.engine.plan(&loaded.agent.name, given, RunOptions::default(), &PlanOptions::default());
        // Without a plan no one is known to be asked.
        planned.map(|plan| plan.steps.into_iter().map(|step| step.action).collect()).unwrap_or_default()
    };
    let First { path, text } = first_test(&loaded.agent, &loaded.agent.file, &plan).map_err(Fault::failed)?;
    let root = loaded.engine.world_root().ok_or_else(|| Fault::failed("the project is not on disk"))?;
    let file = root.join(&path);
    if file.exists() {
        return Err(Fault::wrong(format!("there is a `{path}` already")).help("add a case to it"));
    }
    let written = file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&file, text));
    written.map_err(|error| Fault::failed(format!("`{path}` cannot be written: {error}")))?;
    if out.json {
        out.document(&serde_json::json!({"written": path}));
    } else {
        out.line(format!("{path} is written"));
        out.note(format!("run it: agent-run test {path} --review"));
    }
    Ok(Exit::Done)
}

/// What is done with snapshots.
fn mode(args: &TestArgs) -> SnapshotMode {
    let in_ci = args.ci || std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"));
    match (args.update, in_ci) {
        (true, _) => SnapshotMode::Update,
        (false, true) => SnapshotMode::Compare,
        (false, false) => SnapshotMode::Pend,
    }
}

/// The project of the paths, the paths relative to it, and the cases that they name.
fn located(args: &TestArgs, global: &Global) -> Result<(PathBuf, Vec<PathBuf>, Vec<String>), Fault> {
    let (mut paths, mut filter) = (Vec::new(), Vec::new());
    let mut root: Option<PathBuf> = None;
    for written in &args.paths {
        let (path, case) = written.split_once("::").map_or((written.as_str(), None), |(path, case)| (path, Some(case)));
        let found = std::fs::canonicalize(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => super::project::missing_file(Path::new(path)),
            _ => Fault::wrong(format!("`{path}` cannot be read: {error}")),
        })?;
        let own = match &global.project {
            Some(_) => root_of_command(global)?,
            None => root_of(&found),
        };
        if root.get_or_insert_with(|| own.clone()) != &own {
            return Err(Fault::wrong(format!("`{}` and `{path}` belong to different projects", args.paths[0]))
                .help("test them one by one"));
        }
        let inside = found
            .strip_prefix(&own)
            .map_err(|_| Fault::wrong(format!("`{path}` is not in the project `{}`", own.display())))?;
        if let Some(case) = case {
            filter.push(format!("{}::{case}", inside.to_string_lossy().replace('\\', "/")));
        }
        paths.push(inside.to_owned());
    }
    let root = match root {
        Some(root) => root,
        None => root_of_command(global)?,
    };
    Ok((root, paths, filter))
}

/// The project that a test file or directory belongs to.
pub(super) fn root_of(path: &Path) -> PathBuf {
    let own = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    let with_project = own.ancestors().find(|dir| PROJECT_FILES.iter().any(|name| dir.join(name).is_file()));
    let with_workflows = || own.ancestors().find(|dir| dir.join("workflows").is_dir());
    with_project.or_else(with_workflows).unwrap_or(own).to_owned()
}

fn show_findings(loaded: &Loaded, out: &Out) {
    let sources = &loaded.suite.sources;
    if out.json && loaded.has_errors() {
        // One document: that of the test files when something is wrong there, else that of the first workflow.
        let (findings, sources) = match loaded.broken.first() {
            Some(broken) if !loaded.findings.iter().any(|found| found.severity == Severity::Error) => {
                (&broken.findings, &broken.sources)
            }
            _ => (&loaded.findings, sources),
        };
        out.document(&render::json(findings, sources, serde_json::json!({"test_files": loaded.suite.files.len()})));
        return;
    }
    let mut text = render::human(&loaded.findings, sources, render_options(out.color_err));
    for broken in &loaded.broken {
        text += &render::human(&broken.findings, &broken.sources, render_options(out.color_err));
    }
    if !text.is_empty() {
        Out { quiet: out.quiet && !loaded.has_errors(), ..*out }.note(text.trim_end());
    }
}

/// Shows the report; what is reviewed next is shown there.
fn show(suite: &Suite, report: &Report, reviewed: bool, out: &Out) {
    let mut file = "";
    for case in &report.cases {
        if out.quiet && case.status != CaseStatus::Failed {
            continue;
        }
        if case.file != file {
            file = &case.file;
            out.line(out.paint(BOLD, file));
        }
        show_case(suite, case, reviewed, out);
    }
    if !out.quiet {
        show_end(report, reviewed, out);
    }
}

fn show_coverage(coverage: &Coverage, out: &Out) {
    for of in &coverage.workflows {
        let counted = |all: usize, missed: &[String], what: &str| {
            let text = format!("{} of {all} {what}", all - missed.len());
            let text = out.paint(if missed.is_empty() { GREEN } else { YELLOW }, text);
            if missed.is_empty() { text } else { format!("{text} (not {})", missed.join(", ")) }
        };
        let actions = counted(of.actions, &of.actions_missed, "actions");
        let goals = counted(of.goals, &of.goals_missed, "goals");
        let count = |all: usize, missed: usize, what: &str| {
            out.paint(if missed == 0 { GREEN } else { YELLOW }, format!("{} of {all} {what}", all - missed))
        };
        let templates = count(of.templates, of.templates_missed.len(), "templates");
        let branches = count(of.branches, of.branches_missed.len(), "branches of templates");
        out.line(format!("{}: {actions}, {goals}, {templates}, {branches}", of.workflow));
        for missed in &of.templates_missed {
            let place = out.paint(DIM, format!("{}:{}", missed.file, missed.line));
            out.line(format!("  the template is not rendered: {}  {place}", out.paint(BOLD, &missed.text)));
        }
        for missed in of.branches_missed.iter().filter(|missed| missed.rendered) {
            let place = out.paint(DIM, format!("{}:{}", missed.file, missed.line));
            out.line(format!("  {}: {}  {place}", missed.what, out.paint(BOLD, &missed.text)));
        }
    }
}

fn show_case(suite: &Suite, case: &CaseReport, reviewed: bool, out: &Out) {
    let ms = out.paint(DIM, format!("{:.1} ms", case.ms));
    match case.status {
        CaseStatus::Passed => {
            let updated = match case.updated {
                0 => String::new(),
                1 => out.paint(YELLOW, "  1 snapshot written"),
                n => out.paint(YELLOW, format!("  {n} snapshots written")),
            };
            out.line(format!("  {} {}  {ms}{updated}", out.paint(GREEN, "✓"), case.name));
        }
        CaseStatus::Skipped => {
            let why = case.problems.first().map(|problem| problem.message.as_str()).unwrap_or_default();
            out.line(format!(
                "  {} {}  {}",
                out.paint(YELLOW, "-"),
                case.name,
                out.paint(DIM, format!("skipped: {why}"))
            ));
        }
        CaseStatus::Failed => {
            out.line(format!("  {} {}  {ms}", out.paint(RED, "✗"), out.paint(BOLD, &case.name)));
            for problem in &case.problems {
                show_problem(suite, problem, reviewed, out);
            }
        }
    }
}

fn show_problem(suite: &Suite, problem: &Problem, reviewed: bool, out: &Out) {
    let mut lines = problem.message.lines();
    let first = lines.next().unwrap_or_default();
    let place = problem.span.map(|span| suite.place(span)).unwrap_or_default();
    out.line(format!("      {} {first}  {}", out.paint(RED, format!("{}:", problem.what)), out.paint(DIM, place)));
    for line in lines {
        out.line(format!("        {line}"));
    }
    if let Some((old, new)) = problem.texts.as_ref().filter(|_| !reviewed) {
        for line in diff_lines(old, new, AROUND) {
            out.line(format!("        {}", diff_line(&line, out)));
        }
    }
}

/// One line of a difference; words that changed stand out.
pub(super) fn diff_line(line: &Line, out: &Out) -> String {
    let (mark, style) = match line.change {
        Change::Gap => return out.paint(CYAN, "     ⋯"),
        Change::Same => return out.paint(DIM, format!("{:>4}   {}", line.number, line.text())),
        Change::Removed => ('-', REMOVED),
        Change::Added => ('+', GREEN),
    };
    let head = out.paint(style, format!("{:>4} {mark} ", line.number));
    let pieces = line.pieces.iter().map(|(changed, text)| match changed {
        true => out.paint(style.bold().underline(), text),
        false => out.paint(style, text),
    });
    format!("{head}{}", pieces.collect::<String>())
}

fn show_end(report: &Report, reviewed: bool, out: &Out) {
    let pending: usize = report.cases.iter().map(|case| case.pending.len()).sum();
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    if pending > 0 && !reviewed {
        let text = format!(
            "{pending} snapshot{} to review: `agent-run test --review` walks through them, `--update` accepts all",
            plural(pending)
        );
        out.line(out.paint(YELLOW, text));
    }
    match report.stale.as_slice() {
        [] => {}
        stale => {
            let names = stale.iter().map(|path| format!("\n  {path}")).collect::<String>();
            let text = format!(
                "{} snapshot{} that no case has any more (`--prune` removes them):{names}",
                stale.len(),
                plural(stale.len())
            );
            out.line(out.paint(YELLOW, text));
        }
    }
    if report.pruned > 0 {
        out.line(format!("{} stale snapshot{} removed", report.pruned, plural(report.pruned)));
    }
    let not_judged: usize = report.cases.iter().map(|case| case.not_judged).sum();
    if not_judged > 0 {
        let text = format!(
            "{not_judged} check{} not judged: no model is configured (`--judge provider/id`)",
            plural(not_judged)
        );
        out.line(out.paint(YELLOW, text));
    }
    let style = if report.passed() { GREEN.bold() } else { RED };
    let time = out.paint(DIM, format!("in {:.0} ms", report.ms));
    out.line(format!("{} {time}", out.paint(style, report.summary())));
}
