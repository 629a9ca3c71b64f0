//! Seeded mistakes (`mistakes/*.md`): each is refused before a model is called, at the right place, with the right
//! suggestion first. A case is an edit of the project under `mistakes/base/`, or further files in it.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agent_run::compile::{Entry, compile};
use agent_run::diag::render::json;
use agent_run::world::SystemWorld;
use serde_json::Value;

use crate::support::literate::{Case, cases};
use crate::support::project::Project;
use crate::support::{files, relative, root, text};

/// Fewer cases than this were lost, not fixed.
const CASES_MIN: usize = 70;
/// At least so many of a hundred cases have the right suggestion first.
const SUGGESTIONS_PERCENT_MIN: usize = 90;

/// A place: file, line, column.
type Place = (String, u64, u64);

/// A case made ready: its project, and where its findings must stand.
struct Seeded {
    project: Project,
    places: Vec<Place>,
}

/// Applies a case's edits and files to the base project, and takes the `«…»` marks out.
fn seed(case: &Case, port: u16) -> Seeded {
    let base = root().join("tests/mistakes/base");
    let mut texts: Vec<(String, String)> = files(&base, &[""])
        .iter()
        .map(|file| (relative(file).replace("tests/mistakes/base/", ""), text(file)))
        .collect();
    for (info, block) in &case.expected {
        let Some(path) = info.strip_prefix("diff") else { panic!("{}: an unknown block `{info}`", case.name) };
        let path = if path.is_empty() { "workflows/desk.yaml" } else { path.trim() };
        let (_, text) =
            texts.iter_mut().find(|(name, _)| name == path).unwrap_or_else(|| panic!("{}: no file {path}", case.name));
        *text = edit(text, &block.text, &case.name);
    }
    texts.extend(case.files.iter().map(|(path, block)| (path.clone(), block.text.clone())));
    let (project, mut places) = (Project::new(), Vec::new());
    for (path, text) in texts {
        let text = text.replace("PORT", &port.to_string()).replace('⇥', "\t");
        for (index, line) in text.lines().enumerate() {
            let mut plain = 0;
            for c in line.chars() {
                match c {
                    '«' => places.push((path.clone(), index as u64 + 1, plain + 1)),
                    '»' => {}
                    _ => plain += 1,
                }
            }
        }
        project.write(&path, text.replace(['«', '»'], ""));
    }
    assert!(!places.is_empty(), "{}: no `«…»` says where the finding stands", case.name);
    Seeded { project, places }
}

/// Applies one hunk: context and `-` lines are looked for, once, and context and `+` lines stand in their place.
fn edit(text: &str, hunk: &str, name: &str) -> String {
    let (mut old, mut new) = (String::from("\n"), String::from("\n"));
    for line in hunk.lines() {
        let (sign, rest) = (line.chars().next().unwrap_or(' '), line.get(1..).unwrap_or_default());
        if sign != '+' {
            old += &format!("{rest}\n");
        }
        if sign != '-' {
            new += &format!("{rest}\n");
        }
    }
    let text = format!("\n{text}");
    // A hunk that only adds after its context is found by the context; one that only adds is found by nothing.
    assert_eq!(text.matches(&old).count(), 1, "{name}: the hunk must fit once:\n{hunk}");
    text.replacen(&old, &new, 1)[1..].to_owned()
}

/// A server that refuses everybody and counts them. It goes with the test.
struct Server {
    port: u16,
    calls: Arc<AtomicUsize>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        });
        Self { port, calls }
    }
}

/// What is wrong with how a case was refused.
#[derive(Default)]
struct Verdict {
    refused: Vec<String>,
    placed: Vec<String>,
    suggested: Option<String>,
}

fn judge(case: &Case) -> Verdict {
    let server = Server::start();
    let Seeded { project, places } = seed(case, server.port);
    let mut verdict = Verdict::default();
    let ends = case.note("ends").unwrap_or("2");
    let file = case.note("run").unwrap_or("workflows/desk.yaml");
    let severity = case.note("found").unwrap_or("error");
    let warned = severity == "warning";
    if ends != "none" {
        let run = project.run(&["run", file, "--json", "The heating is broken"]);
        if run.code() != ends.parse().ok() {
            verdict.refused.push(format!("expected exit {ends}: {run}"));
        }
        if server.calls.load(Ordering::SeqCst) > 0 {
            verdict.refused.push("a model was called".to_owned());
        }
    }
    let document = check(&project);
    if (document["errors"] == 0) != warned {
        verdict.refused.push(format!("{} errors", document["errors"]));
    }
    let findings: Vec<&Value> = document["diagnostics"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|finding| warned || finding["severity"] == severity)
        .collect();
    let place = |finding: &Value| {
        let number = |key: &str| finding[key].as_u64().unwrap_or_default();
        (finding["file"].as_str().unwrap_or_default().to_owned(), number("line"), number("column"))
    };
    for expected in &places {
        if !findings.iter().any(|finding| place(finding) == *expected) {
            verdict.placed.push(format!("no {severity} at {expected:?}"));
        }
    }
    for finding in &findings {
        if !places.contains(&place(finding)) && !warned {
            verdict.placed.push(format!("one more at {:?}: {}", place(finding), finding["message"]));
        }
    }
    let first = findings.iter().find(|finding| place(finding) == places[0]).or(findings.first());
    let wanted = case.note("first").unwrap_or_else(|| panic!("{}: no `first:`", case.name));
    let said = first.map(|finding| {
        let help = finding["help"].as_str().and_then(|help| help.lines().next());
        format!("{}; {}", finding["message"].as_str().unwrap_or_default(), help.unwrap_or("no help"))
    });
    if !said.as_ref().is_some_and(|said| said.contains(wanted)) {
        verdict.suggested = Some(format!("wanted `{wanted}` first, found {said:?}"));
    }
    verdict
}

/// The `check` document of a project.
fn check(project: &Project) -> Value {
    let compiled = compile(&SystemWorld::new(project.path()), Entry::Project);
    let found = compiled.diagnostics.sorted(&compiled.sources);
    json(&found, &compiled.sources, compiled.checked.to_json())
}

#[test]
fn the_base_project_is_sound() {
    let case = Case { name: "base".into(), ..Case::default() };
    let base = root().join("tests/mistakes/base");
    let project = Project::new();
    for file in files(&base, &[""]) {
        project.write(&relative(&file).replace("tests/mistakes/base/", ""), text(&file).replace("PORT", "9"));
    }
    let document = check(&project);
    project.run(&["plan", "workflows/desk.yaml"]).exits(0);
    assert_eq!((&document["errors"], &document["warnings"]), (&0.into(), &0.into()), "{}: {document:#}", case.name);
}

#[test]
fn every_case_is_well_formed() {
    for file in files(&root().join("tests/mistakes"), &[".md"]) {
        for case in cases(&file) {
            assert!(case.note("first").is_some(), "{}: no `first:`", case.name);
            seed(&case, 9);
        }
    }
}

#[test]
fn every_mistake_is_refused_at_its_place_with_the_right_suggestion() {
    let only = std::env::var("CASE").ok();
    let all: Vec<(String, Case)> = files(&root().join("tests/mistakes"), &[".md"])
        .iter()
        .flat_map(|file| cases(file).into_iter().map(|case| (format!("{}:{}", relative(file), case.line), case)))
        .filter(|(_, case)| only.as_ref().is_none_or(|only| case.name.contains(only.as_str())))
        .collect();
    let (next, verdicts) = (Arc::new(AtomicUsize::new(0)), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((place, case)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let verdict = judge(case);
                    verdicts.lock().expect("no judge panics").push((place.clone(), case, verdict));
                }
            });
        }
    });
    let mut verdicts = verdicts.into_inner().expect("no judge panics");
    verdicts.sort_by(|(a, ..), (b, ..)| a.cmp(b));

    let mut report = String::new();
    let (mut refused, mut placed, mut suggested) = (0, 0, 0);
    let mut known = 0;
    for (place, case, verdict) in &verdicts {
        refused += usize::from(verdict.refused.is_empty());
        placed += usize::from(verdict.placed.is_empty());
        suggested += usize::from(verdict.suggested.is_none());
        // Wrong behaviour that is known is asserted, not ignored: who cures it removes the note.
        let is_exact = verdict.placed.is_empty() && verdict.suggested.is_none();
        if case.note("known").is_some() {
            known += 1;
            if is_exact {
                let _ = writeln!(report, "{place}: {}: this is right now; remove `known:`", case.name);
                placed -= 1;
            }
        }
        let name = &case.name;
        let wrong = verdict.refused.iter().chain(&verdict.placed).chain(&verdict.suggested);
        for line in wrong {
            let _ = writeln!(report, "{place}: {name}: {line}");
        }
    }
    let total = verdicts.len();
    let score =
        format!("{total} mistakes: {refused} refused, {placed} at their place, {suggested} with the right suggestion");
    // Shown by `cargo test -- --nocapture`, and whenever the test fails.
    let _ = writeln!(std::io::stdout(), "{score}");
    let good = refused == total && placed + known == total && suggested * 100 >= total * SUGGESTIONS_PERCENT_MIN;
    assert!(good, "{report}\n{score}");
    assert!(only.is_some() || total >= CASES_MIN, "{score}");
}
