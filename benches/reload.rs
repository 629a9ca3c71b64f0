//! Hot reload: `cargo bench --bench reload`. From a saved file to the new program in force, without the wait for quiet
//! (50 ms) before it. Figures and their meaning: `docs/performance.md`.

mod support;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use agent_run::compile::Entry;
use agent_run::engine::Reloader;
use agent_run::world::SystemWorld;
use divan::{Bencher, black_box};
use tempfile::TempDir;

/// Files of a project.
const FILES: [usize; 3] = [10, 100, 1_000];

fn main() {
    divan::main();
}

/// A project of about so many files, and a reloader that has it in force.
struct Edited {
    dir: TempDir,
    reloader: Reloader,
    /// Edits so far.
    count: usize,
}

impl Edited {
    fn new(files: usize, entry: Entry) -> Edited {
        let dir = tempfile::tempdir().expect("a temporary directory");
        support::project::write_project(dir.path(), files);
        let mut reloader = Reloader::new(Arc::new(SystemWorld::new(dir.path())), entry);
        assert!(reloader.reload().swapped, "the project has mistakes");
        Edited { dir, reloader, count: 0 }
    }

    /// Saves a file in which a text is another each time.
    fn save(&mut self, file: &str, text: &str) {
        let path = self.dir.path().join(file);
        let old = fs::read_to_string(&path).expect("it is there");
        let from = if self.count == 0 { text.to_owned() } else { format!("{text} {}", self.count) };
        self.count += 1;
        fs::write(path, old.replacen(&from, &format!("{text} {}", self.count), 1)).expect("it can be written");
    }

    /// What follows once it is quiet: the edit is seen, compiled, and in force.
    fn reload(&mut self) {
        assert!(self.reloader.is_stale(), "the edit is not seen");
        assert!(black_box(self.reloader.reload()).swapped, "nothing has changed");
    }
}

/// Without an edit before: the whole project is read and compiled.
#[divan::bench(args = FILES)]
fn start_up(bencher: Bencher, files: usize) {
    let project = Edited::new(files, Entry::Project);
    bencher.bench_local(|| {
        let world = Arc::new(SystemWorld::new(project.dir.path()));
        black_box(Reloader::new(world, Entry::Project).reload());
    });
}

/// A description in one workflow of the project.
#[divan::bench(args = FILES)]
fn edit_of_a_workflow(bencher: Bencher, files: usize) {
    let mut project = Edited::new(files, Entry::Project);
    bencher.bench_local(|| {
        project.save("workflows/flow0003.yaml", "Answers requests of kind 3");
        project.reload();
    });
}

/// The same, where only the agent of the workflow was asked for, as in `run --watch`.
#[divan::bench(args = FILES)]
fn edit_of_the_one_workflow(bencher: Bencher, files: usize) {
    let mut project = Edited::new(files, Entry::File(PathBuf::from("workflows/flow0003.yaml")));
    bencher.bench_local(|| {
        project.save("workflows/flow0003.yaml", "Answers requests of kind 3");
        project.reload();
    });
}

/// A template that twenty workflows use.
#[divan::bench(args = FILES)]
fn edit_of_a_template(bencher: Bencher, files: usize) {
    let mut project = Edited::new(files, Entry::Project);
    bencher.bench_local(|| {
        project.save("prompts/desk000/report.jinja", "Desk 000: write a report");
        project.reload();
    });
}

/// The project's name, which no agent is made of.
#[divan::bench(args = FILES)]
fn edit_of_the_project_file(bencher: Bencher, files: usize) {
    let mut project = Edited::new(files, Entry::Project);
    bencher.bench_local(|| {
        project.save("agent-run.yaml", "name: made-up");
        project.reload();
    });
}

/// The model that all agents use: their lists of models are made anew.
#[divan::bench(args = FILES)]
fn edit_of_the_default_model(bencher: Bencher, files: usize) {
    let mut project = Edited::new(files, Entry::Project);
    bencher.bench_local(|| {
        project.save("agent-run.yaml", "default: demo/script");
        project.reload();
    });
}

/// What is in every agent that sees it: all are compiled anew.
#[divan::bench(args = FILES)]
fn edit_of_a_type_of_the_project_file(bencher: Bencher, files: usize) {
    let mut project = Edited::new(files, Entry::Project);
    let file = project.dir.path().join("agent-run.yaml");
    let text = fs::read_to_string(&file).expect("it is there");
    fs::write(&file, format!("{text}types:\n  Ticket: {{title: {{type: string, description: What it is about}}}}\n"))
        .expect("it can be written");
    project.reload();
    bencher.bench_local(|| {
        project.save("agent-run.yaml", "description: What it is about");
        project.reload();
    });
}

/// A template that nothing draws in yet, and its going.
#[divan::bench(args = FILES)]
fn a_new_template_and_its_going(bencher: Bencher, files: usize) {
    let mut project = Edited::new(files, Entry::Project);
    let path = project.dir.path().join("prompts/shared/new.jinja");
    bencher.bench_local(|| {
        fs::write(&path, "Later.").expect("it can be written");
        assert!(!black_box(project.reloader.reload()).is_refused());
        fs::remove_file(&path).expect("it is there");
        assert!(!black_box(project.reloader.reload()).is_refused());
    });
}
