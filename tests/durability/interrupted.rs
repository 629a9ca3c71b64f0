//! The program is killed, or another one comes, while a process has a call under way: a server on loopback does not answer
//! until it is over.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::mock_llm::{Answer, MockLlm, Received};
use crate::support::project::{Output, Project, program};

/// How long something that must come is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A project with a server beside it.
struct Place {
    project: Project,
    server: MockLlm,
    runtime: Runtime,
}

impl Place {
    /// A place with these files, in which `URL` is the server's address; `answer` gets the number of the request among
    /// those of its path.
    fn new(files: &[(&str, &str)], answer: impl Fn(&Received, usize) -> Answer + Send + Sync + 'static) -> Place {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let counts = std::sync::Mutex::new(std::collections::HashMap::<String, usize>::new());
        let server = runtime.block_on(MockLlm::start(move |received| {
            let number = {
                let mut counts = counts.lock().expect("no answer panics");
                let count = counts.entry(received.path.clone()).or_insert(0);
                *count += 1;
                *count
            };
            answer(received, number)
        }));
        let project = Project::new()
            .file(
                "agent-run.yaml",
                format!(
                    "providers: {{local: {{kind: openai, base_url: '{}/v1'}}}}\nmodels: {{default: local/m}}\n",
                    server.url()
                ),
            )
            .env("NO_PROXY", "*");
        for (path, text) in files {
            project.write(path, text.replace("URL", &server.url()));
        }
        Place { project, server, runtime }
    }

    /// Starts the program and waits until so many requests of a path have come.
    fn start_until(&self, args: &[&str], path: &str, count: usize) -> Child {
        let mut command = Command::new(program());
        command.args(args).current_dir(self.project.path()).env_clear().env("HOME", self.project.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let started = Instant::now();
        while self.came(path) < count {
            let ended = child.try_wait().expect("the program is waited for");
            assert!(ended.is_none() && started.elapsed() < PATIENCE, "`{path}` was not asked for");
            std::thread::sleep(Duration::from_millis(1));
        }
        child
    }

    /// Kills the program outright.
    fn kill(&self, mut child: Child) {
        child.kill().expect("it is killed");
        child.wait().expect("it has ended");
        self.runtime.block_on(async {});
    }

    fn came(&self, path: &str) -> usize {
        self.server.received().iter().filter(|received| received.path.ends_with(path)).count()
    }

    fn run(&self, args: &[&str]) -> Output {
        self.project.run(args)
    }

    fn shown(&self) -> Value {
        self.run(&["show", "@last", "--json"]).exits(0).json()
    }
}

/// Text from a model, however it is asked for.
fn reply(received: &Received, text: &str) -> Answer {
    Answer::text_for(received, text)
}

const PAYING: &str = "agent: paying
types: {Sum: integer, Receipt: {text: string}}
inputs: UserInput
tools:
  pay: {description: Pays, parameters: {sum: integer}, idempotent: false, http: {method: POST, url: 'URL/pay', allow_private: true}}
actions:
  read: {inputs: UserInput, output: Sum, prompt: 'How much? {{ user_input.content }}'}
  pay: {inputs: Sum, output: Receipt, call: {tool: pay, with: {sum: '{{ sum }}'}}}
goals: {paid: {output: Receipt}}
";

fn paying() -> Place {
    Place::new(&[("workflows/paying.yaml", PAYING)], |received, number| match received.path.as_str() {
        "/pay" if number == 1 => Answer::json(200, &json!({"text": "paid"})).stall_after(0),
        "/pay" => Answer::json(200, &json!({"text": "paid"})),
        _ => reply(received, "5"),
    })
}

/// Killed during the payment, and resumed until it asks whether to pay again.
fn paid_perhaps() -> Place {
    let place = paying();
    let child = place.start_until(&["run", "workflows/paying.yaml", "five"], "/pay", 1);
    place.kill(child);
    assert_eq!(place.shown()["status"], "running");
    let asked = place.run(&["resume", "@last"]).exits(3);
    assert!(asked.stderr.contains("The tool `pay` was being called when the program ended"), "{asked}");
    assert!(asked.stderr.contains("may have done its work. Call it again?"), "{asked}");
    let shown = place.shown();
    assert_eq!((&shown["status"], &shown["waiting"]["action"]), (&json!("waiting"), &json!("pay")));
    place
}

#[test]
fn a_call_that_must_not_be_repeated_waits_for_a_persons_word_and_is_repeated_with_it() {
    let place = paid_perhaps();
    // Asking costs nothing, however often the program is started again.
    place.run(&["resume", "@last"]).exits(3);
    assert_eq!((place.came("/pay"), place.came("/chat/completions")), (1, 1));
    let done = place.run(&["resume", "@last", "--form", r#"{"confirm": true}"#, "--json"]).exits(0).json();
    assert_eq!(done["output"]["value"], json!({"text": "paid"}));
    assert_eq!((place.came("/pay"), place.came("/chat/completions")), (2, 1));
}

#[test]
fn a_call_that_must_not_be_repeated_is_not_without_a_persons_word() {
    let place = paid_perhaps();
    let done = place.run(&["resume", "@last", "--form", r#"{"confirm": false}"#, "--json"]);
    assert_eq!(place.came("/pay"), 1, "{done}");
    let done = done.exits(1).json();
    assert_eq!(done["failure"]["message"], "refused by the person");
}

#[test]
fn what_waits_for_no_answer_takes_none_and_goes_on_without() {
    let place = Place::new(&[("workflows/slow.yaml", SLOW)], |received, number| match number {
        1 => reply(received, "").stall_after(0),
        _ => reply(received, r#"{"text": "quick"}"#),
    });
    let child = place.start_until(&["run", "workflows/slow.yaml", "go"], "/chat/completions", 1);
    place.kill(child);
    let before = place.shown();
    let refused = place.run(&["resume", "@last", "--form", r#"{"text": "x"}"#]).exits(1);
    assert!(refused.stderr.contains("waits for no answer: it is running"), "{refused}");
    assert!(refused.stderr.contains("agent-run resume "), "{refused}");
    assert_eq!(place.shown(), before);
    assert_eq!(place.came("/chat/completions"), 1);
    place.run(&["resume", "@last"]).exits(0);
}

const SLOW: &str = "agent: slow
types: {Answer: {text: string}}
inputs: UserInput
actions:
  answer: {inputs: UserInput, output: Answer, prompt: {user: 'Answer {{ user_input.content }}', only: [text]}, on_error: fail}
goals: {answered: {output: Answer}}
";

#[test]
fn two_programs_do_not_run_one_process_and_one_can_end_that_of_another() {
    let parent = "agent: outer\ntypes: {Answer: {text: string}, End: string}\ninputs: UserInput\nactions:\n  \
                  ask: {inputs: UserInput, output: Answer, agent: slow}\n  end: {inputs: Answer, output: End, set: x}\n\
                  goals: {done: {output: End}}\n";
    let files = [("workflows/outer.yaml", parent), ("workflows/slow.yaml", SLOW)];
    let place = Place::new(&files, |received, _| reply(received, "").stall_after(0));
    let child = place.start_until(&["run", "workflows/outer.yaml", "go"], "/chat/completions", 1);
    let held = place.run(&["resume", "@last"]).exits(1);
    assert!(held.stderr.contains("is being run by another program"), "{held}");
    let inner = inner_of(&place);
    assert_eq!(inner["status"], "running");
    let asked = place.run(&["kill", "@last"]).exits(0);
    assert!(asked.stderr.contains("asked to end"), "{asked}");
    let output = child.wait_with_output().expect("it ends");
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The sub-process that was asking ends with the one that it belongs to.
    assert_eq!((&place.shown()["status"], &inner_of(&place)["status"]), (&json!("killed"), &json!("killed")));
    assert_eq!(place.came("/chat/completions"), 1);
}

/// The sub-process of the newest process.
fn inner_of(place: &Place) -> Value {
    let shown = place.run(&["show", "@last"]).exits(0).stdout;
    let line = shown.lines().find(|line| line.starts_with("ran ")).unwrap_or_else(|| panic!("{shown}"));
    let id = line.split(' ').nth(3).expect("its id").trim_end_matches(':').to_owned();
    place.run(&["show", &id, "--json"]).exits(0).json()
}

/// A wait in a sub-process in a tool call in a parallel map.
const DEEP: &str = "agent: deep
types: {Answer: string, Word: {word: string}, Lines: {lines: list<string>}}
inputs: UserInput
tools:
  ask_around: {description: Asks, parameters: {topic: string}, agent: {name: asker, with: {UserInput: {content: '{{ topic }}'}}}}
actions:
  collect:
    inputs: UserInput
    output: Lines
    scatter_gather:
      over: \"['red', 'blue']\"
      do: {call: {tool: ask_around, with: {topic: '{{ item }}'}}}
      of: Word
      gather: {set: {lines: \"{{ results | map(attribute='word') | list }}\"}}
goals: {done: {output: Lines}}
";

const ASKER: &str = "agent: asker
types: {Draft: {text: string}, Word: {word: string}}
inputs: UserInput
actions:
  draft: {inputs: UserInput, output: Draft, prompt: {user: 'Draft {{ user_input.content }}', only: [text]}}
  ask: {inputs: Draft, output: Word, ask: {prompt: 'A word for {{ draft.text }}?'}}
goals: {asked: {output: Word}}
";

#[test]
fn waits_in_sub_processes_in_tool_calls_in_a_parallel_map_go_up_and_their_answers_down() {
    let files = [("workflows/deep.yaml", DEEP), ("workflows/asker.yaml", ASKER)];
    let place = Place::new(&files, |received, _| {
        let color = if received.text.contains("Draft red") { "red" } else { "blue" };
        reply(received, &json!({ "text": color }).to_string())
    });
    place.run(&["run", "workflows/deep.yaml", "go"]).exits(3);
    let shown = place.shown();
    let first = shown["waiting"]["prompt"].as_str().expect("a question").to_owned();
    assert!(first == "A word for red?" || first == "A word for blue?", "{first}");
    let word = |prompt: &str| json!({ "word": if prompt.contains("red") { "rose" } else { "sky" } }).to_string();
    place.run(&["resume", "@last", "--form", r#"{"word": 7}"#]).exits(2);
    place.run(&["resume", "@last", "--form", &word(&first)]).exits(3);
    let second = place.shown()["waiting"]["prompt"].as_str().expect("a question").to_owned();
    assert_ne!(first, second);
    let done = place.run(&["resume", "@last", "--form", &word(&second), "--json"]).exits(0).json();
    assert_eq!(done["output"]["value"], json!({"lines": ["rose", "sky"]}));
    assert_eq!(place.came("/chat/completions"), 2, "no draft is asked for again");
}

#[test]
fn a_sub_process_that_waits_ends_with_the_one_that_it_belongs_to() {
    let files = [("workflows/deep.yaml", DEEP), ("workflows/asker.yaml", ASKER)];
    let place = Place::new(&files, |received, _| reply(received, &json!({"text": "red"}).to_string()));
    place.run(&["run", "workflows/deep.yaml", "go"]).exits(3);
    let inner = inner_of(&place);
    assert_eq!(inner["status"], "waiting");
    let id = inner["process"].as_str().expect("an id").to_owned();
    let refused = place.run(&["resume", &id, "--form", r#"{"word": "x"}"#]).exits(2);
    assert!(refused.stderr.contains("belongs to") && refused.stderr.contains("agent-run resume"), "{refused}");
    place.run(&["kill", &id]).exits(2);
    place.run(&["kill", "@last"]).exits(0);
    assert_eq!((&place.shown()["status"], &inner_of(&place)["status"]), (&json!("killed"), &json!("killed")));
}

const TALK: &str = "agent: talk
inputs: UserMessage?
limits: {llm_calls: 1}
chat: {}
actions:
  respond: {trigger: UserMessage, inputs: UserMessage, output: AssistantMessage, prompt: {user: 'Say {{ user_message.content }}', only: [content]}}
";

#[test]
fn limits_of_a_chat_count_for_each_message_also_when_it_is_resumed() {
    let place = Place::new(&[("workflows/talk.yaml", TALK)], |received, number| match number {
        2 => reply(received, "").stall_after(0),
        _ => reply(received, r#"{"content": "yes"}"#),
    });
    place.run(&["chat", "workflows/talk.yaml", "--input", r#"UserMessage={"content": "one"}"#]).exits(0);
    let two = r#"{"content": "two"}"#;
    let child = place.start_until(&["resume", "@last", "--form", two], "/chat/completions", 2);
    place.kill(child);
    // The first message had its call, and so has the second.
    place.run(&["resume", "@last"]).exits(3);
    let replies = |shown: &Value| {
        let conversation =
            shown["blackboard"].as_array().into_iter().flatten().find(|object| object["type"] == "Conversation");
        conversation.map_or(0, |object| object["value"]["messages"].as_array().map_or(0, Vec::len))
    };
    assert_eq!(replies(&place.shown()), 4);
    place.run(&["resume", "@last", "--form", r#"{"content": "three"}"#]).exits(3);
    assert_eq!((replies(&place.shown()), place.came("/chat/completions")), (6, 4));
}

#[test]
fn an_agent_that_was_put_together_for_a_goal_is_put_together_again() {
    let reader = "agent: reader\ndescription: Reads\ninputs: UserInput\ntypes: {Note: {text: string}}\nactions:\n  \
                  note: {inputs: UserInput, output: Note, prompt: {user: 'Note {{ user_input.content }}', only: [text]}, achieves: There is a note}\n";
    let poet = "agent: poet\ndescription: Writes poems\ninputs: Note\ntypes: {Note: {text: string}, Word: {word: string}, Poem: {text: string}}\n\
                actions:\n  ask: {inputs: Note, output: Word, ask: {prompt: 'A word?'}}\n  \
                write: {inputs: [Note, Word], output: Poem, set: {text: 'o {{ note.text }} {{ word.word }}'}}\n\
                goals: {poem: {output: Poem, description: There is a poem}}\n";
    let files = [("workflows/reader.yaml", reader), ("workflows/poet.yaml", poet)];
    let place = Place::new(&files, |received, _| {
        let ranking = json!({"ranking": [{"name": "poet.poem", "confidence": 0.9, "why": "A poem"}]});
        let note = json!({"text": "sea"});
        reply(received, &if received.text.contains("ranking") { ranking } else { note }.to_string())
    });
    let waiting = place.run(&["run", "--open", "a poem please"]).exits(3);
    assert!(waiting.stderr.contains("agent-run resume "), "{waiting}");
    assert_eq!(place.shown()["agent"], "open-poem");
    let done = place.run(&["resume", "@last", "--form", r#"{"word": "blue"}"#, "--json"]).exits(0).json();
    assert_eq!(done["output"]["value"], json!({"text": "o sea blue"}));
    assert_eq!(place.came("/chat/completions"), 2, "one ranking and one note");

    place.run(&["run", "--open", "a poem please"]).exits(3);
    place.project.write("workflows/poet.yaml", poet.replace("goals: {poem:", "goals: {verse:"));
    let changed = place.run(&["resume", "@last", "--form", r#"{"word": "blue"}"#]).exits(2);
    assert!(changed.stderr.contains("poem"), "{changed}");
    assert_eq!(place.shown()["status"], "waiting");
}

/// A page that is another one each time it is asked for, and an action whose model calls a tool before it replies.
const READING: &str = "agent: reading
types: {Answer: {text: string}}
inputs: UserInput
references: {site: {web_page: 'URL/page'}}
tools: {note: {description: Notes, parameters: {}, set: noted}}
actions:
  answer: {inputs: UserInput, output: Answer, references: site, tools: note, prompt: '{{ user_input.content }}'}
goals: {answered: {output: Answer}}
";

#[test]
fn a_page_that_has_changed_is_for_a_resumed_process_what_it_was() {
    let place = Place::new(&[("workflows/reading.yaml", READING)], |received, number| {
        let call = json!([{"id": "c1", "type": "function", "function": {"name": "note", "arguments": "{}"}}]);
        let calls = json!({"id": "1", "object": "chat.completion", "model": "m", "choices": [
            {"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": call}, "finish_reason": "tool_calls"}]});
        match (received.path.as_str(), number) {
            ("/page", number) => Answer::bytes(200, "text/plain", format!("Edition {number} of the page")),
            (_, 1) => Answer::json(200, &calls),
            (_, 2) => reply(received, "").stall_after(0),
            _ => reply(received, r#"{"text": "read"}"#),
        }
    });
    // Killed while the second reply is waited for: the first one, and the page, have come.
    let child = place.start_until(&["run", "workflows/reading.yaml", "go"], "/chat/completions", 2);
    place.kill(child);
    place.run(&["resume", "@last"]).exits(0);
    assert_eq!((place.came("/page"), place.came("/chat/completions")), (1, 3));
    let sent: Vec<String> = place.server.received().iter().map(|received| received.text.clone()).collect();
    let prompts: Vec<&String> = sent.iter().filter(|text| text.contains("Reference `site`")).collect();
    assert_eq!(prompts.len(), 3);
    assert!(prompts.iter().all(|text| text.contains("Edition 1 of the page")), "{prompts:#?}");
    // A new process asks again.
    place.run(&["run", "workflows/reading.yaml", "go"]).exits(0);
    assert_eq!(place.came("/page"), 2);
}
