//! Hot reload: what is edited is in force at the next planning step, and what is broken never is.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Input, failure, output, ran};
use crate::compile::Entry;
use crate::engine::{Engine, Reload, ReloadPolicy, Reloader, RunOptions};
use crate::llm::Script;
use crate::process::{Event, Process, Status, What};
use crate::program::Program;
use crate::store::{MemoryStore, Store};
use crate::world::watch::Watch;
use crate::world::{MemoryWorld, ReadError, World};

const FILE: &str = "workflows/test.yaml";

const TWO: &str = "agent: test
types: {Draft: string, End: string}
actions:
  draft: {inputs: UserInput, output: Draft, set: first}
  finish: {inputs: Draft, output: End, set: '{{ draft }} old'}
goals: {done: {output: End}}
";

/// A project that is edited while it runs.
struct Project {
    world: Arc<MemoryWorld>,
    reloader: Reloader,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Project {
    fn new(workflow: &str) -> Project {
        let world =
            MemoryWorld::with_files([(FILE, workflow), ("agent-run.yaml", "models: {default: openai/gpt-4.1-mini}\n")]);
        let world = Arc::new(world);
        let mut reloader = Reloader::new(world.clone(), Entry::File(FILE.into()));
        let first = reloader.reload();
        assert!(first.swapped, "{:#?}", first.diagnostics);
        Project { world, reloader, events: Arc::default() }
    }

    fn engine(&self) -> &Engine {
        self.reloader.engine().expect("a first program")
    }

    fn start(&self, options: RunOptions) -> Process {
        let heard = self.events.clone();
        let observer = Arc::new(move |event: &Event| heard.lock().unwrap().push(event.clone()));
        let options =
            RunOptions { no_date_line: true, reload: ReloadPolicy::Adopt, observer: Some(observer), ..options };
        self.engine().start("test", vec![Input::Text("hello".to_owned())], options).expect("it begins")
    }

    fn save(&mut self, workflow: &str) -> Reload {
        self.world.save(FILE, workflow);
        self.reloader.reload()
    }

    fn events(&self, is: impl Fn(&What) -> bool) -> Vec<What> {
        self.events.lock().unwrap().iter().map(|event| event.what.clone()).filter(|what| is(what)).collect()
    }

    fn reloads(&self) -> Vec<What> {
        self.events(|what| matches!(what, What::ProgramReloaded { .. } | What::ReloadRefused { .. }))
    }
}

fn told(reload: &Reload) -> Vec<String> {
    reload.changes.iter().map(ToString::to_string).collect()
}

fn reloaded(changes: &[&str]) -> What {
    What::ProgramReloaded { changes: changes.iter().map(|text| (*text).to_owned()).collect(), hidden: Vec::new() }
}

#[tokio::test]
async fn reloads_changed_action() {
    let mut project = Project::new(TWO);
    let mut process = project.start(RunOptions::default());
    process.tick().await;
    let reload = project.save(&TWO.replace("old", "new"));
    assert_eq!((reload.swapped, told(&reload)), (true, vec!["changed set of finish".to_owned()]));
    assert_eq!(process.run().await, Status::Completed);
    assert_eq!(output(&process.document()), json!("first new"));
    assert_eq!(project.reloads(), [reloaded(&["changed set of finish"])]);
}

#[tokio::test]
async fn a_changed_prompt_is_in_the_next_call_of_its_model() {
    let text = "agent: test\ntypes: {Draft: string, End: string}\nactions:\n  draft: {inputs: UserInput, output: Draft, set: \
                first}\n  finish: {inputs: Draft, output: End, prompt: 'Polish {{ draft }}'}\ngoals: {done: {output: End}}\n";
    let mut project = Project::new(text);
    let script = Script::from_value(&json!({"replies": [{"reply": "done"}]})).expect("a script");
    let mut process = project.start(RunOptions { script: Some(script), ..RunOptions::default() });
    process.tick().await;
    let reload = project.save(&text.replace("Polish", "Shorten"));
    assert_eq!(told(&reload), ["changed prompt of finish"]);
    process.run().await;
    let asked = project.events(|what| matches!(what, What::LlmRequest { .. }));
    let [What::LlmRequest { messages, .. }] = asked.as_slice() else { panic!("{asked:?}") };
    assert!(messages[0].to_string().contains("Shorten first"), "{messages:?}");
}

#[tokio::test]
async fn doesnt_reload_on_whitespace() {
    let mut project = Project::new(TWO);
    let mut process = project.start(RunOptions::default());
    process.tick().await;
    let before = project.engine().program();
    let spaced = format!("# why not\n\n{}", TWO.replace("  draft:", "\n  draft:   "));
    let reload = project.save(&spaced);
    assert!(!reload.swapped && reload.changes.is_empty());
    assert!(Arc::ptr_eq(&before, &project.engine().program()));
    process.run().await;
    assert_eq!(project.reloads(), []);
}

#[tokio::test]
async fn rolls_back_on_error() {
    let mut project = Project::new(TWO);
    let mut process = project.start(RunOptions::default());
    process.tick().await;
    let before = project.engine().program();
    let broken = project.save(&TWO.replace("inputs: Draft", "inputs: Drafft"));
    assert!(broken.is_refused() && !broken.swapped && !broken.diagnostics.is_empty());
    assert!(Arc::ptr_eq(&before, &project.engine().program()));
    process.run().await;
    assert_eq!(output(&process.document()), json!("first old"));
    let refused = project.reloads();
    let [What::ReloadRefused { reasons }] = refused.as_slice() else { panic!("{refused:?}") };
    assert!(reasons[0].starts_with("workflows/test.yaml:5:"), "{reasons:?}");
    // The cure clears the diagnostics, and what is in force need not change for it.
    let cured = project.save(TWO);
    assert!(cured.cured && !cured.swapped && cured.diagnostics.is_empty());
    let mut again = project.start(RunOptions::default());
    again.run().await;
    assert_eq!(project.reloads().len(), 1);
}

#[tokio::test]
async fn adds_missing_file_later() {
    let world = Arc::new(MemoryWorld::with_files([("agent-run.yaml", "models: {default: openai/gpt-4.1-mini}\n")]));
    let mut reloader = Reloader::new(world.clone(), Entry::File(FILE.into()));
    let first = reloader.reload();
    assert!(first.is_refused() && reloader.engine().is_none());
    let asked = |reloader: &Reloader, file: &str| reloader.asked().iter().any(|(path, _)| path.to_str() == Some(file));
    assert!(asked(&reloader, FILE), "{:?}", reloader.asked());
    world.save(FILE, format!("import: shared.yaml\n{TWO}"));
    let second = reloader.reload();
    assert!(second.is_refused() && second.diagnostics.iter().any(|found| found.code == "file-not-found"));
    assert!(asked(&reloader, "workflows/shared.yaml"), "{:?}", reloader.asked());
    world.save("workflows/shared.yaml", "config: {tone: kind}\n");
    let third = reloader.reload();
    assert!(third.swapped && third.cured);
    assert_eq!(told(&third), ["added agent test"]);
    let mut process =
        reloader.engine().unwrap().start("test", vec![Input::Text("x".into())], RunOptions::default()).unwrap();
    assert_eq!(process.run().await, Status::Completed);
}

const ASKS: &str = "agent: test
types:
  Draft: string
  Word: {word: string}
  End: string
actions:
  draft: {inputs: UserInput, output: Draft, set: first}
  question: {inputs: Draft, output: Word, call: {tool: word}}
  finish: {inputs: [Draft, Word], output: End, set: '{{ draft }} {{ word.word }} old'}
goals: {done: {output: End}}
tools:
  word: {description: A word, confirm: 'Old question?', set: {word: then}}
";

#[tokio::test]
async fn reload_while_waiting_for_human() {
    let mut project = Project::new(ASKS);
    let mut process = project.start(RunOptions::default());
    assert_eq!(process.run().await, Status::Waiting);
    let edited = ASKS.replace("Old question", "New question").replace(" old'", " new'");
    assert_eq!(told(&project.save(&edited)), ["changed tool word", "changed set of finish"]);
    // The action in flight finishes as it started.
    assert_eq!(process.waiting().unwrap().question.prompt, "Old question?");
    process.answer(json!({"confirm": true})).await.expect("it fits the form that was asked");
    assert_eq!(process.run().await, Status::Completed);
    let document = process.document();
    assert_eq!(
        (output(&document), ran(&document)),
        (json!("first then new"), vec!["draft".into(), "question".into(), "finish".into()])
    );
}

#[tokio::test]
async fn a_process_that_has_adopted_a_program_goes_on_in_another_one() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut project = Project::new(ASKS);
    project.engine().clone().with_store(store.clone());
    let mut process = project.start(RunOptions::default());
    process.tick().await;
    let edited = ASKS.replace("Old question", "New question").replace(" old'", " new'");
    assert!(project.save(&edited).swapped);
    assert_eq!(process.run().await, Status::Waiting);
    let id = process.core().id.clone();
    drop((process, project));

    let mut other = Project::new(&edited);
    other.engine().clone().with_store(store);
    let options = RunOptions { reload: ReloadPolicy::Adopt, ..RunOptions::default() };
    let mut process = other.engine().resume(&id, options).await.expect("it fits the program that it had adopted");
    assert_eq!(process.waiting().expect("it waits").question.prompt, "New question?");
    // And it adopts again.
    assert_eq!(told(&other.save(&edited.replace(" new'", " newest'"))), ["changed set of finish"]);
    process.answer(json!({"confirm": true})).await.expect("it fits the form");
    assert_eq!(process.run().await, Status::Completed);
    let document = process.document();
    assert_eq!(
        (output(&document), ran(&document)),
        (json!("first then newest"), vec!["draft".into(), "question".into(), "finish".into()])
    );
}

/// A file that is being saved: the first readings after an edit find only a part of it, each another one if it has a
/// number in it.
struct Saving {
    rest: MemoryWorld,
    file: Mutex<Saved>,
}

/// What is there in the end, how many readings find less, and what they find.
struct Saved {
    whole: String,
    early: usize,
    part: String,
}

impl Saved {
    fn now(whole: &str) -> Saved {
        Saved { whole: whole.to_owned(), early: 0, part: String::new() }
    }
}

impl World for Saving {
    fn read_bytes(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        if path != Path::new(FILE) {
            return self.rest.read_bytes(path);
        }
        let mut file = self.file.lock().unwrap();
        if file.early == 0 {
            return Ok(file.whole.clone().into_bytes());
        }
        file.early -= 1;
        Ok(file.part.replace("{N}", &file.early.to_string()).into_bytes())
    }

    fn list(&self, dir: &Path) -> Vec<PathBuf> {
        self.rest.list(dir)
    }

    fn exists(&self, path: &Path) -> bool {
        self.rest.exists(path)
    }

    fn env(&self, name: &str) -> Option<String> {
        self.rest.env(name)
    }

    fn now(&self) -> jiff::Timestamp {
        self.rest.now()
    }

    fn new_id(&self) -> String {
        self.rest.new_id()
    }
}

#[test]
fn a_file_that_is_empty_for_a_moment_takes_no_agent_away() {
    let rest = [(FILE, ""), ("agent-run.yaml", "models: {default: openai/gpt-4.1-mini}\n")];
    let world = Arc::new(Saving { rest: MemoryWorld::with_files(rest), file: Mutex::new(Saved::now(TWO)) });
    let dir = tempfile::tempdir().expect("a directory");
    let mut watch = Watch::new(dir.path()).expect("it is watched");
    let (stop, wake) = (AtomicBool::new(false), watch.waker());
    let mut reloader = Reloader::new(world.clone(), Entry::File(FILE.into()));
    let (tell, heard) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| reloader.follow(&mut watch, &stop, |reload| drop(tell.send(told(reload)))));
        let next = || heard.recv_timeout(Duration::from_secs(60)).expect("a reload");
        assert_eq!(next(), ["added agent test"]);
        let save = |whole: &str, early: usize, part: &str| {
            *world.file.lock().unwrap() = Saved { whole: whole.to_owned(), early, part: part.to_owned() };
            wake();
        };
        // It is empty when the edit is seen, when it is compiled, and when it is looked at once more.
        save(&TWO.replace("old", "new"), 4, "");
        assert_eq!(next(), ["changed set of finish"]);
        assert_eq!(world.file.lock().unwrap().early, 0);
        // A first piece that would do by itself: it is waited for, and what it lacks is never taken away.
        let (piece, _) = TWO.split_once("  finish").expect("an action");
        save(&TWO.replace("old", "newer"), 4, &format!("{piece}goals: {{done: {{output: Draft}}}}"));
        assert_eq!(next(), ["changed set of finish"]);
        // One that is another at each reading is no state of it at all.
        save(&TWO.replace("old", "newest"), 40, &TWO.replace("first", "{N}"));
        assert_eq!(next(), ["changed set of finish"]);
        // One that stays empty is one.
        save("", 0, "");
        assert_eq!(next(), ["removed agent test"]);
        stop.store(true, Ordering::SeqCst);
        wake();
    });
}

#[tokio::test]
async fn a_pinned_process_keeps_its_program_and_the_next_one_has_the_new() {
    let pinned = format!("{TWO}reload: pin\n");
    let mut project = Project::new(&pinned);
    let mut process = project.start(RunOptions::default());
    process.tick().await;
    assert!(project.save(&pinned.replace("old", "new")).swapped);
    let mut later = project.start(RunOptions::default());
    process.run().await;
    later.run().await;
    assert_eq!(output(&process.document()), json!("first old"));
    assert_eq!(output(&later.document()), json!("first new"));
    assert_eq!(project.reloads(), []);
}

#[tokio::test]
async fn objects_that_no_longer_fit_are_hidden_and_reported() {
    let text = "agent: test\ntypes:\n  Draft: {text: string}\n  End: string\nactions:\n  draft: {inputs: UserInput, output: \
                Draft, set: {text: hi}, can_rerun: true}\n  finish: {inputs: Draft, output: End, set: '{{ draft.text }} pages'}\n\
                goals: {done: {output: End}}\n";
    let mut project = Project::new(text);
    let mut process = project.start(RunOptions::default());
    process.tick().await;
    let strict =
        text.replace("{text: string}", "{text: string, page: integer}").replace("{text: hi}", "{text: hi, page: 3}");
    let reload = project.save(&strict.replace("draft.text", "draft.page"));
    assert!(reload.swapped, "{:#?}", reload.diagnostics);
    assert_eq!(process.run().await, Status::Completed);
    assert_eq!(
        (output(&process.document()), ran(&process.document())),
        (json!("3 pages"), vec!["draft".into(), "draft".into(), "finish".into()])
    );
    let reloads = project.reloads();
    let [What::ProgramReloaded { hidden, .. }] = reloads.as_slice() else { panic!("{reloads:?}") };
    assert_eq!((hidden.len(), hidden[0].object, hidden[0].r#type.as_str()), (1, 1, "Draft"));
    assert!(hidden[0].why.contains("page"), "{hidden:?}");
    assert_eq!(project.events(|what| *what == What::ObjectHidden { object: 1 }).len(), 1);
}

#[tokio::test]
async fn a_new_field_with_a_default_fills_what_is_there() {
    let text = "agent: test\ntypes:\n  Draft: {text: string}\n  End: string\nactions:\n  draft: {inputs: UserInput, output: \
                Draft, set: {text: hi}}\n  finish: {inputs: Draft, output: End, set: '{{ draft.text }}'}\n\
                goals: {done: {output: End}}\n";
    let mut project = Project::new(text);
    let mut process = project.start(RunOptions::default());
    process.tick().await;
    let wider = text.replace("{text: string}", "{text: string, tone: {type: string, default: kind}}");
    let reload = project.save(&wider.replace("draft.text", "draft.tone"));
    assert!(reload.swapped, "{:#?}", reload.diagnostics);
    process.run().await;
    assert_eq!((output(&process.document()), ran(&process.document()).len()), (json!("kind"), 2));
}

#[tokio::test]
async fn what_has_run_stays_run_wherever_its_action_stands_now() {
    let mut project = Project::new(TWO);
    let mut process = project.start(RunOptions::default());
    process.tick().await;
    let moved = TWO
        .replace("{Draft: string, End: string}", "{Extra: string, End: string, Draft: string}")
        .replace("actions:\n", "actions:\n  other: {inputs: UserInput, output: Extra, set: extra}\n")
        .replace("inputs: Draft", "inputs: [Extra, Draft]")
        .replace("old", "and {{ extra }}");
    let reload = project.save(&moved);
    assert!(reload.swapped, "{:#?}", reload.diagnostics);
    assert_eq!(process.run().await, Status::Completed);
    let document = process.document();
    assert_eq!(
        (output(&document), ran(&document)),
        (json!("first and extra"), vec!["draft".into(), "other".into(), "finish".into()])
    );
}

#[tokio::test]
async fn an_action_that_failed_for_good_is_tried_again_once_it_was_changed() {
    let text = "agent: test\ntypes: {Draft: string, End: string, Other: string}\nactions:\n  flaky: {inputs: UserInput, output: \
                Draft, on_error: replan, call: {tool: bad}}\n  slow: {inputs: UserInput, output: Other, cost: 5, set: other}\n  \
                bridge: {inputs: Other, output: Draft, cost: 5, set: bridged}\n  finish: {inputs: Draft, output: End, set: '{{ draft }}'}\n\
                goals: {done: {output: End}}\ntools:\n  bad: {description: Fails, set: '{{ 1 // 0 }}'}\n";
    let mut project = Project::new(text);
    let mut process = project.start(RunOptions::default());
    process.tick().await;
    assert_eq!(ran(&process.document()), ["flaky failed"]);
    let reload = project.save(&text.replace("call: {tool: bad}", "set: cured"));
    assert!(reload.swapped, "{:#?}", reload.diagnostics);
    process.run().await;
    assert_eq!(
        (output(&process.document()), ran(&process.document())),
        (json!("cured"), vec!["flaky failed".into(), "flaky".into(), "finish".into()])
    );
}

#[tokio::test]
async fn a_program_that_the_run_cannot_take_is_refused_once_and_the_run_goes_on() {
    let mut project = Project::new(TWO);
    let mut process = project.start(RunOptions { goal: Some("done".into()), ..RunOptions::default() });
    process.tick().await;
    assert!(project.save(&TWO.replace("done:", "ended:")).swapped);
    assert_eq!(process.run().await, Status::Completed);
    assert_eq!(output(&process.document()), json!("first old"));
    let reloads = project.reloads();
    let [What::ReloadRefused { reasons }] = reloads.as_slice() else { panic!("{reloads:?}") };
    assert!(reasons[0].contains("no goal `done`"), "{reasons:?}");
}

#[tokio::test]
async fn limits_of_the_file_count_from_now_on_and_those_of_the_run_stay() {
    let limited = TWO.replace("agent: test\n", "agent: test\nlimits: {actions: 5}\n");
    for (of_run, expected) in [(None, Status::Terminated), (Some(9), Status::Completed)] {
        let mut project = Project::new(&limited);
        let mut options = RunOptions::default();
        options.limits.actions = of_run;
        let mut process = project.start(options);
        process.tick().await;
        assert_eq!(told(&project.save(&limited.replace("actions: 5", "actions: 1"))), ["changed limits"]);
        assert_eq!(process.run().await, expected);
        if of_run.is_none() {
            assert!(failure(&process.document()).1.contains("limit of 1 action"), "{:?}", process.failure());
        }
    }
}

#[tokio::test]
async fn config_of_the_command_line_stays_over_a_changed_file() {
    let text = TWO
        .replace("agent: test\n", "agent: test\nconfig: {tone: dull, place: here}\n")
        .replace("old", "{{ config.tone }} {{ config.place }}");
    let mut project = Project::new(&text);
    let config = [("tone".to_owned(), Value::from("bright"))].into_iter().collect();
    let mut process = project.start(RunOptions { config, ..RunOptions::default() });
    process.tick().await;
    project.save(&text.replace("dull", "drab").replace("here", "there"));
    process.run().await;
    assert_eq!(output(&process.document()), json!("first bright there"));
}

#[tokio::test]
async fn sub_processes_take_the_new_program_at_their_own_planning_steps() {
    let parent = "agent: test\ntypes: {End: string, Word: {word: string}, Story: string}\nactions:\n  run_child: {inputs: \
                  UserInput, output: Story, agent: child}\n  finish: {inputs: Story, output: End, set: '{{ story }}!'}\ngoals: \
                  {done: {output: End}}\n";
    let child = "agent: child\ntypes: {Word: {word: string}, Story: string}\nactions:\n  question: {inputs: UserInput, output: \
                 Word, call: {tool: word}}\n  tell: {inputs: Word, output: Story, set: 'old {{ word.word }}', achieves: told}\ntools:\n  word: {description: A word, confirm: Which?, set: {word: one}}\n";
    let world = Arc::new(MemoryWorld::with_files([
        (FILE, parent),
        ("workflows/child.yaml", child),
        ("agent-run.yaml", "models: {default: openai/gpt-4.1-mini}\n"),
    ]));
    let mut reloader = Reloader::new(world.clone(), Entry::File(FILE.into()));
    assert!(reloader.reload().swapped);
    let mut project = Project { world, reloader, events: Arc::default() };
    let mut process = project.start(RunOptions::default());
    assert_eq!(process.run().await, Status::Waiting);
    project.world.save("workflows/child.yaml", child.replace("old {{", "new {{"));
    assert_eq!(told(&project.reloader.reload()), ["changed set of tell"]);
    process.answer(json!({"confirm": true})).await.unwrap();
    assert_eq!(process.run().await, Status::Completed);
    assert_eq!(output(&process.document()), json!("new one!"));
}

/// A process in a loop while its file changes: `RELOAD_SOAK=N` edits instead of a few hundred.
#[tokio::test]
async fn soak_of_edits_valid_and_broken() {
    let edits: u64 = std::env::var("RELOAD_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let looping = |version: u64| {
        let a = format!("a: {{inputs: UserInput, output: A, can_rerun: true, set: '{version}'}}");
        let b = format!("b: {{inputs: A, output: B, can_rerun: true, set: '{{{{ a }}}} {version}'}}");
        // Both actions of one program carry one version; every other program has them the other way round.
        let (one, two) = if version.is_multiple_of(2) { (a, b) } else { (b, a) };
        let extra = if version.is_multiple_of(3) { ", C: string" } else { "" };
        format!(
            "agent: test\nlimits: {{actions: 1000000000}}\nplanner: utility\ntypes: {{A: string, B: string{extra}, Never: string, End: string}}\nactions:\n  \
             {one}\n  {two}\n  end: {{inputs: Never, output: End, set: x}}\ngoals: {{never: {{output: End}}}}\n"
        )
    };
    let mut project = Project::new(&looping(0));
    let options = RunOptions { reload: ReloadPolicy::Adopt, ..RunOptions::default() };
    let mut process = project.engine().start("test", vec![Input::Text("go".into())], options).expect("it begins");
    let mut in_force = 0;
    let mut programs: Vec<Weak<Program>> = Vec::new();
    for version in 1..=edits {
        let text = looping(version);
        let (text, is_valid) = match version % 5 {
            0 => (text.replace("goals:", "gaols:"), false),
            1 => (text[..text.len() / 2].to_owned() + "\n  {{", false),
            _ => (text, true),
        };
        let reload = project.save(&text);
        assert_eq!(
            (reload.swapped, reload.is_refused()),
            (is_valid, !is_valid),
            "{version}: {:#?}",
            reload.diagnostics
        );
        if is_valid {
            in_force = version;
        }
        process.tick().await;
        let document = process.document();
        assert!(matches!(document.status, Status::Running), "{version}: {:?}", document.failure);
        let last = document.blackboard.last().expect("an object");
        let written: Vec<&str> = last.value.as_str().unwrap_or_default().split(' ').collect();
        assert_eq!(written.last().copied(), Some(in_force.to_string().as_str()), "{version}: {last:?}");
        // What is no longer in force is gone: the one that is, and the one that the process may hold on to.
        programs.push(Arc::downgrade(&project.engine().program()));
        programs.retain(|program| program.strong_count() > 0);
        let mut alive: Vec<_> = programs.iter().map(Weak::as_ptr).collect();
        alive.dedup();
        assert!(alive.len() <= 2, "{version}: {} programs are alive", alive.len());
    }
}

/// A workflow of many texts, so that a program is worth its memory.
#[cfg(target_os = "linux")]
fn wordy(version: usize) -> String {
    let mut text = "agent: test\ntypes: {A: string, End: string}\ngoals: {done: {output: End}}\nactions:\n  end: {inputs: A, output: End, set: '{{ a }}'}\n".to_owned();
    for at in 0..24 {
        text += &format!(
            "  a{at}: {{inputs: UserInput, output: A, prompt: 'Version {version}, {{{{ user_input.content | trim }}}} {{% if now() %}}{at}{{% endif %}}'}}\n"
        );
    }
    text
}

/// Memory that the process has, in KiB.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says so");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Reloads stay within the memory that the first of them took. The measured part runs in a process of its own, where no
/// other test takes memory; a second one keeps every program on purpose, and must be found out.
#[cfg(target_os = "linux")]
#[test]
#[allow(clippy::print_stdout, reason = "what was measured is told to the test that started this one")]
fn soak_of_memory() {
    const SET: &str = "AGENT_RUN_SOAK_OF_MEMORY";
    const WARM: usize = 60;
    const EDITS: usize = 240;
    const MOST_KIB: u64 = 4 * 1024;
    let Ok(leaks) = std::env::var(SET) else {
        for leaks in ["no", "yes"] {
            let test = std::env::current_exe().expect("a test");
            let alone = ["engine::tests::reloading::soak_of_memory", "--exact", "--nocapture"];
            let ran = std::process::Command::new(test).args(alone).env(SET, leaks).output().expect("it starts");
            let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
            assert_eq!(ran.status.success(), leaks == "no", "with a leak: {leaks}\n{said}");
            assert!(said.contains("KiB for"), "it measured nothing\n{said}");
        }
        return;
    };
    let mut project = Project::new(&wordy(0));
    let mut kept = Vec::new();
    let mut at_first = 0;
    for version in 1..=WARM + EDITS {
        let is_broken = version % 4 == 0;
        let text = wordy(version);
        let reload = project.save(if is_broken { &text[..text.len() - 3] } else { &text });
        assert_eq!(reload.is_refused(), is_broken, "{version}: {:#?}", reload.diagnostics);
        kept.extend((leaks == "yes").then(|| project.engine().program()));
        if version == WARM {
            at_first = resident();
        }
    }
    let grown = resident().saturating_sub(at_first);
    println!("{grown} KiB for {EDITS} edits, {} programs kept", kept.len());
    assert!(grown <= MOST_KIB, "{EDITS} reloads took {grown} KiB");
}
