//! The program is killed at random instants while every example runs: after each start it goes on, what was completed is
//! never asked for again, and no object is lost or doubled.
//!
//! What goes in, what models reply and what people answer is the first case that completes of an example's test file. A run in this
//! program without any kill says what must come, and writes down which request has which reply; a server on loopback
//! gives these to the real program, which is killed. All examples share one store, several at a time.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use agent_run::compile::{Entry, compile};
use agent_run::engine::{Engine, Input, RunOptions};
use agent_run::llm::{Capabilities, DeltaSink, Llm, LlmError, NoSink, OutputMode, Reply, Request, Script, Scripted};
use agent_run::process::{Document, Event, Status, What};
use agent_run::store::{Row, SqliteStore, Store};
use agent_run::world::{FIXED_NOW, SystemWorld};
use serde_json::{Map, Value, json};

use super::Dice;
use crate::support::mock_llm::{Answer, MockLlm, Received};
use crate::support::project::{Project, program};
use crate::support::{files, relative, root, text};

/// In the ordinary suite one example in so many is run, another share each time, and each is killed once: all of them take
/// too long for every day. `AGENT_RUN_CRASHES` asks for a number of kills, over all examples.
const ONE_IN: usize = 3;
/// Examples under way at once, in programs of their own on one store.
const AT_ONCE: usize = 3;
/// How long the program may take once it is not killed.
const PATIENCE: Duration = Duration::from_secs(60);
/// A key that must be in no journal.
const KEY: &str = "sk-secret-in-no-journal";

/// Tools with an effect that the server sees: what their request holds, and the step that it belongs to.
const TOOLS: &[(&str, &str)] = &[
    ("/horoscope", "fetch_horoscope#1/http1"),
    ("list_directory", "list#1/tool:list_pages#1"),
    ("read_text_file", "read#1/tool:read_page#1"),
    ("/hit/one", "hit#1/tool:hit#1"),
];

/// An example, and what it is run with.
struct Subject {
    /// The workflow, relative to the project.
    file: String,
    /// `run`, or `chat`.
    verb: &'static str,
    inputs: Vec<Input>,
    args: Vec<String>,
    script: Script,
    /// By the action, tool or chat that asks, in order.
    answers: HashMap<String, Vec<Value>>,
}

/// What happens where nothing is killed.
#[derive(Clone)]
struct Whole {
    document: Value,
    /// Calls of models, and of tools.
    usage: [u64; 2],
    /// Sub-processes.
    children: usize,
    /// How often each request came.
    requests: BTreeMap<String, usize>,
    /// What a person answered, by the step that asked.
    answers: HashMap<String, Value>,
}

/// Replies by request.
type Book = Arc<Mutex<HashMap<String, Result<Reply, String>>>>;

/// Everything that is a step and no example has: a tool with a request, parts side by side, a sub-process below a tool.
const EVERYTHING: &str = "agent: everything
types: {Topic: string, Hit: {n: string}, Story: string, Inner: string, Word: {word: string}, End: string}
inputs: UserInput
concurrency: 2
tools:
  hit: {description: Counts, parameters: {name: string}, http: {url: '{{ config.url }}/hit/{{ name }}', allow_private: true}}
config: {url: MOCK_URL}
actions:
  topic: {inputs: UserInput, output: Topic, prompt: a topic}
  hit: {inputs: Topic, output: Hit, call: {tool: hit, with: {name: one}}}
  story:
    inputs: Topic
    output: Story
    scatter_gather:
      over: \"['a', 'b', 'c']\"
      do: {prompt: 'part {{ item }}'}
      of: Topic
      gather: {prompt: put together}
  inner: {inputs: [Story, Hit], output: Inner, agent: inner}
  word: {inputs: Inner, output: Word, ask: {prompt: A word?}}
  end: {inputs: [Word, Story], output: End, prompt: 'the end, {{ word.word }}'}
goals: {done: {output: End}}
";

const INNER: &str = "agent: inner
types: {Story: string, Middle: string, Word: {word: string}, Inner: string}
inputs: Story
actions:
  middle: {inputs: Story, output: Middle, prompt: the middle}
  ask: {inputs: Middle, output: Word, ask: {prompt: A word inside?}}
  inner: {inputs: [Middle, Word], output: Inner, prompt: 'inside, {{ word.word }}'}
goals: {done: {output: Inner}}
";

fn everything() -> Subject {
    let replies =
        json!({"topic": "sea", "story": {"reply": "waves"}, "inner": "deep", "middle": "mid", "end": "the end"});
    let answers = [("word", json!({"word": "one"})), ("ask", json!({"word": "two"}))];
    Subject {
        file: "workflows/everything.yaml".to_owned(),
        verb: "run",
        inputs: vec![Input::Text("go".to_owned())],
        args: vec!["go".to_owned()],
        script: Script::from_replies_by_action(&replies).expect("a script"),
        answers: answers.into_iter().map(|(name, answer)| (name.to_owned(), vec![answer])).collect(),
    }
}

/// Every agent under `workflows/`, with the first case of its test file.
fn subjects() -> Vec<Subject> {
    let mut subjects = vec![everything()];
    for file in files(&root().join("workflows"), &[".yaml", ".toml"]) {
        let workflow = text(&file);
        if !workflow.lines().any(|line| line.starts_with("agent:") || line.starts_with("agent =")) {
            continue;
        }
        let stem = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let tests: Value = serde_yaml::from_str(&text(&root().join(format!("tests/{stem}.yaml")))).expect("YAML");
        let mut cases = tests["cases"].as_object().into_iter().flat_map(|cases| cases.values());
        let case =
            cases.find(|case| ["completed", ""].contains(&case["expect"]["status"].as_str().unwrap_or_default()));
        let case = case.unwrap_or_else(|| panic!("tests/{stem}.yaml has no case that completes"));
        subjects.push(subject(relative(&file), workflow.contains("\nchat"), &tests["defaults"], case));
    }
    subjects
}

fn subject(file: String, is_chat: bool, defaults: &Value, case: &Value) -> Subject {
    let layered = |key: &str| {
        let layers = [&defaults[key], &case[key]].map(|layer| layer.as_object().cloned().unwrap_or_default());
        layers.into_iter().flatten().collect::<Map<String, Value>>()
    };
    let (mut inputs, mut args) = (Vec::new(), Vec::new());
    if let Some(text) = case["input"].as_str() {
        inputs.push(Input::Text(text.to_owned()));
        args.push(text.to_owned());
    }
    for (name, value) in layered("inputs") {
        args.extend(["--input".to_owned(), format!("{name}={value}")]);
        inputs.push(Input::Typed(name, value));
    }
    let answers = layered("answers").into_iter().map(|(name, answer)| match answer {
        Value::Array(answers) => (name, answers),
        Value::Bool(yes) => (name, vec![json!({ "confirm": yes })]),
        answer => (name, vec![answer]),
    });
    Subject {
        script: Script::from_replies_by_action(&Value::Object(layered("replies"))).expect("a script"),
        verb: if is_chat { "chat" } else { "run" },
        answers: answers.collect(),
        file,
        inputs,
        args,
    }
}

/// Where all processes are kept.
struct Keeps {
    /// As this program reads it.
    store: Arc<dyn Store>,
    /// As the project file says it.
    written: Value,
}

/// The project: what the repository ships, with models and servers at `url`, and processes in the store of `keeps`.
fn project(url: &str, keeps: &Keeps) -> Project {
    let project = Project::of_the_repository();
    project.write("workflows/everything.yaml", EVERYTHING.replace("MOCK_URL", url));
    project.write("workflows/inner.yaml", INNER);
    let settings = json!({
        "project": {"name": "examples"},
        "providers": {"demo": {"kind": "openai", "base_url": format!("{url}/v1"), "api_key": KEY}},
        "mcp_servers": {"handbook": {"url": format!("{url}/mcp")}},
        "models": {"default": "demo/script"},
        "store": keeps.written,
    });
    project.write("agent-run.yaml", settings.to_string());
    project
}

/// A request to a model as it is told apart from others: without how the answer is to come.
fn key(body: &Value) -> String {
    let mut body = body.clone();
    if let Some(body) = body.as_object_mut() {
        body.remove("stream");
        body.remove("stream_options");
    }
    body.to_string()
}

/// What a request is about; none for what belongs to no step.
fn about(received: &Received) -> Option<String> {
    if received.path.ends_with("/chat/completions") {
        return Some(key(&received.body));
    }
    let tool = TOOLS.iter().find(|(held, _)| received.path.contains(held) || received.text.contains(held));
    tool.map(|(held, _)| (*held).to_owned())
}

/// Answers as models and servers do: from the book, with the number of the request as the tokens that were sent.
fn answer(book: &Book, url: &str, received: &Received) -> Answer {
    if received.path.ends_with("/mcp") {
        return mcp_answer(&received.body);
    }
    if received.path.contains("/horoscope") {
        return Answer::json(200, &json!({"horoscope": "A good day for maps."}));
    }
    if received.path.contains("/hit/") {
        return Answer::json(200, &json!({"n": "hit"}));
    }
    let book = book.lock().unwrap_or_else(PoisonError::into_inner);
    match book.get(&key(&received.body)) {
        Some(Ok(reply)) => reply_on_the_wire(received, reply),
        Some(Err(_)) => Answer::json(400, &json!({"error": {"message": format!("«{}»", received.number)}})),
        None => {
            let message = format!("nothing like this was asked at {url}: {}", received.text);
            Answer::json(400, &json!({"error": {"message": message}}))
        }
    }
}

fn reply_on_the_wire(received: &Received, reply: &Reply) -> Answer {
    let called = |(index, (id, name, arguments)): (usize, (&str, &str, &Value))| {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        json!({"index": index, "id": id, "type": "function", "function": function})
    };
    let calls: Vec<Value> = reply.tool_calls().enumerate().map(called).collect();
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    let mut message = json!({"role": "assistant", "content": reply.text()});
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let usage = json!({"prompt_tokens": received.number + 1, "completion_tokens": 1});
    if received.body["stream"] == true {
        return Answer::openai_stream(&[
            json!({"model": "script", "choices": [{"index": 0, "delta": message}]}),
            json!({"model": "script", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}),
            json!({"model": "script", "choices": [], "usage": usage}),
        ]);
    }
    let choices = json!([{"index": 0, "message": message, "finish_reason": finish}]);
    Answer::json(
        200,
        &json!({"id": "1", "object": "chat.completion", "model": "script", "choices": choices, "usage": usage}),
    )
}

/// The server of the handbook, over HTTP.
fn mcp_answer(body: &Value) -> Answer {
    let text =
        |text: &str| json!({"content": [{"type": "text", "text": text}], "structuredContent": {"content": text}});
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let result = match body["method"].as_str().unwrap_or_default() {
        "initialize" => json!({"protocolVersion": body["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "handbook", "version": "1"}}),
        "tools/list" => json!({"tools": [
            {"name": "list_directory", "description": "lists", "inputSchema": schema},
            {"name": "read_text_file", "description": "reads", "inputSchema": schema},
        ]}),
        "tools/call" if body["params"]["name"] == "list_directory" => text("[FILE] returns.md"),
        "tools/call" => text("Bicycles can be given back within 30 days, ridden for 100 km at most."),
        // A notification, or the wish for a stream of the server's own.
        _ if body.is_null() => return Answer::bytes(405, "text/plain", ""),
        _ => return Answer::bytes(202, "text/plain", ""),
    };
    Answer::json(200, &json!({"jsonrpc": "2.0", "id": body["id"], "result": result}))
}

/// The wire of a real provider, whose replies come from a script and are written down.
struct Writing {
    wire: Arc<dyn Llm>,
    script: Arc<Scripted>,
    book: Book,
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
}

#[async_trait::async_trait]
impl Llm for Writing {
    fn capabilities(&self, model: &str) -> Capabilities {
        self.wire.capabilities(model)
    }
    fn wire(&self, request: &Request) -> Value {
        self.wire.wire(request)
    }
    fn output_mode(&self, model: &str, schema: &Value) -> OutputMode {
        self.wire.output_mode(model, schema)
    }
    async fn call(&self, request: &Request, _: &dyn DeltaSink) -> Result<Reply, LlmError> {
        let key = key(&self.wire.wire(request));
        let count = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            let count = asked.entry(key.clone()).or_insert(0);
            *count += 1;
            *count
        };
        let known = self.book.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let reply = match known {
            // What is asked twice is answered alike: which of the two comes first is no one's business.
            Some(Ok(reply)) if count > 1 => return Ok(reply),
            _ => self.script.call(request, &NoSink).await,
        };
        let kept = reply.clone().map_err(|error| error.message.clone());
        self.book.lock().unwrap_or_else(PoisonError::into_inner).insert(key, kept);
        reply
    }
}

/// Runs an example in this program, and writes down what happens.
async fn whole(subject: &Subject, root: &Path, server: &MockLlm, book: &Book) -> Whole {
    let world = SystemWorld::new(root).with_fixed_clock(FIXED_NOW);
    let compiled = compile(&world, Entry::File(subject.file.clone().into()));
    let program = compiled.program.unwrap_or_else(|| panic!("{}: {:?}", subject.file, compiled.diagnostics));
    let engine = Engine::new(program, Arc::new(world));
    let script = Arc::new(Scripted::new(subject.script.clone()));
    let asked: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
    let (kept, counts) = (book.clone(), asked.clone());
    let wrap = move |wire: Arc<dyn Llm>| -> Arc<dyn Llm> {
        Arc::new(Writing { wire, script: script.clone(), book: kept.clone(), asked: counts.clone() })
    };
    let options = RunOptions { wrap_llm: Some(Arc::new(wrap)), config: config(server), ..RunOptions::default() };
    let options =
        RunOptions { config: if has_horoscope(subject) { options.config } else { Default::default() }, ..options };
    let children: Arc<Mutex<usize>> = Arc::default();
    let counts = children.clone();
    let observer = move |event: &Event| {
        let is_child = matches!(&event.what, What::ProcessCreated { parent: Some(_), .. });
        *counts.lock().unwrap_or_else(PoisonError::into_inner) += usize::from(is_child);
    };
    let options = RunOptions { observer: Some(Arc::new(observer)), ..options };
    let agent = engine.agent(None).expect("an agent").name.clone();
    let mut process = engine.start(&agent, subject.inputs.clone(), options).expect("it starts");
    let (mut answers, mut given) = (HashMap::new(), HashMap::new());
    while process.run().await == Status::Waiting {
        let pending = process.waiting().expect("a question").clone();
        let asks = match &pending.question.kind {
            agent_run::engine::QuestionKind::ConfirmTool { tool, .. } => tool.clone(),
            _ => pending.question.action.clone(),
        };
        let prepared = subject.answers.get(&asks).or_else(|| subject.answers.get(&pending.question.action));
        let prepared = prepared.unwrap_or_else(|| panic!("{}: `{asks}` has no answer", subject.file));
        let number: &mut usize = given.entry(asks).or_insert(0);
        let answer = prepared[(*number).min(prepared.len() - 1)].clone();
        *number += 1;
        process.answer(answer.clone()).await.expect("the answer fits");
        answers.insert(pending.path, answer);
    }
    let document = process.document();
    assert_eq!(document.status, Status::Completed, "{}: {:?}", subject.file, document.failure);
    engine.close().await;
    let mut requests = asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for received in server.received() {
        if let Some(about) = about(&received).filter(|_| !received.path.ends_with("/chat/completions")) {
            *requests.entry(about).or_insert(0) += 1;
        }
    }
    let children = *children.lock().unwrap_or_else(PoisonError::into_inner);
    let usage = [document.usage.llm_calls, document.usage.tool_calls];
    Whole { document: shape(&document), usage, children, requests, answers }
}

fn has_horoscope(subject: &Subject) -> bool {
    subject.file.ends_with("star-news.yaml")
}

fn config(server: &MockLlm) -> indexmap::IndexMap<String, Value> {
    [("horoscope_url".to_owned(), Value::from(format!("{}/horoscope", server.url())))].into_iter().collect()
}

/// What must be the same: everything but times, tokens and the id.
fn shape(document: &Document) -> Value {
    shape_of(&serde_json::to_value(document).expect("a document is JSON"))
}

fn shape_of(document: &Value) -> Value {
    let history = document["history"].as_array().into_iter().flatten();
    let history: Vec<Value> = history
        .map(|entry| {
            let models = entry["llm"].as_array().into_iter().flatten().map(|note| note["model"].clone());
            let tools = entry["tools"].as_array().into_iter().flatten().map(|note| note["name"].clone());
            // What runs side by side comes in any order.
            let mut calls: Vec<String> = models.chain(tools).map(|name| name.to_string()).collect();
            calls.sort();
            json!([entry["action"], entry["status"], entry["attempts"], calls])
        })
        .collect();
    json!({
        "status": document["status"], "goal": document["goal"], "output": document["output"], "history": history,
        "plans": document["plans"], "blackboard": document["blackboard"],
    })
}

/// What is in the journals of a process and those that belong to it.
#[derive(Default)]
struct Kept {
    /// Requests that were answered.
    numbers: BTreeSet<usize>,
    /// Steps that were completed, by process.
    steps: BTreeSet<(String, String)>,
    /// Sub-processes.
    children: usize,
}

async fn kept(store: &dyn Store, process: &str) -> Kept {
    let (mut kept, mut left) = (Kept::default(), vec![process.to_owned()]);
    while let Some(process) = left.pop() {
        for line in store.lines(&process, "record").await.expect("the store is read") {
            assert!(!line.contains(KEY), "{line}");
            let record: Value = serde_json::from_str(&line).expect("a record is JSON");
            if record["record"] != "step" {
                continue;
            }
            let path = record["path"].as_str().expect("a step has a path").to_owned();
            assert!(kept.steps.insert((process.clone(), path.clone())), "the step {path} was completed twice");
            let notes = record["done"]["llm"].as_array().into_iter().flatten();
            kept.numbers
                .extend(notes.filter_map(|note| note["input_tokens"].as_u64()).map(|tokens| tokens as usize - 1));
            let told = record["done"]["failure"]["message"].as_str().unwrap_or_default();
            kept.numbers
                .extend(told.split('«').skip(1).filter_map(|rest| rest.split('»').next()?.parse::<usize>().ok()));
        }
        for child in store.children(&process).await.expect("the store is read") {
            kept.children += 1;
            left.push(child.process);
        }
    }
    kept
}

impl Kept {
    /// How often each request is in the journals.
    fn requests(&self, received: &[Received]) -> BTreeMap<String, usize> {
        let mut requests = BTreeMap::new();
        for about in self.numbers.iter().filter_map(|number| about(received.get(*number)?)) {
            *requests.entry(about).or_insert(0) += 1;
        }
        for (held, path) in TOOLS {
            if self.steps.iter().any(|(_, step)| step == path) {
                *requests.entry((*held).to_owned()).or_insert(0) += 1;
            }
        }
        requests
    }
}

/// What all kills came to.
#[derive(Debug, Default)]
struct Figures {
    processes: usize,
    kills: usize,
    starts: usize,
    requests: usize,
    in_flight: usize,
    answers: usize,
}

/// One example with its server.
struct Bench<'a> {
    subject: &'a Subject,
    whole: Whole,
    server: MockLlm,
    project: Project,
    store: Arc<dyn Store>,
    runtime: tokio::runtime::Handle,
    /// How long a start takes that is not killed, as the last such one did.
    lasts: Cell<Duration>,
    /// Connections that the run in this program left open.
    idle: usize,
}

impl Bench<'_> {
    fn start(&self, args: &[String]) -> Child {
        let mut command = Command::new(program());
        command.args(args).args(["--now", "2025-01-01T00:00:00Z"]).current_dir(self.project.path());
        command.env_clear().env("HOME", self.project.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("the program starts")
    }

    fn begin(&self) -> Vec<String> {
        let mut args = vec![self.subject.verb.to_owned(), self.subject.file.clone()];
        args.extend(self.subject.args.iter().cloned());
        if has_horoscope(self.subject) {
            args.extend(["--set".to_owned(), format!("horoscope_url={}/horoscope", self.server.url())]);
        }
        args
    }

    /// The processes of this example, the newest last.
    fn rows(&self) -> Vec<Row> {
        let rows = self.runtime.block_on(self.store.rows()).expect("the store is read");
        rows.into_iter().filter(|row| row.target == self.subject.file).collect()
    }

    /// How a process goes on: with the answer that it waits for, if it waits.
    fn go_on(&self, row: &Row, figures: &mut Figures) -> Vec<String> {
        let mut args = vec!["resume".to_owned(), row.process.clone()];
        if row.status == "waiting" {
            let lines = self.runtime.block_on(self.store.lines(&row.process, "record")).expect("the store is read");
            let mut records = lines.iter().map(|line| serde_json::from_str::<Value>(line).expect("a record is JSON"));
            let waiting = records.rfind(|record| record["record"] == "waiting").expect("the question");
            let path = waiting["pending"]["path"].as_str().expect("the step that asks");
            // A call that may not be made twice and was under way when the program ended: a person says that it may.
            let again = path.ends_with("/again").then(|| json!({"confirm": true}).to_string());
            let answer = again.or_else(|| self.whole.answers.get(path).map(ToString::to_string));
            let answer = answer.unwrap_or_else(|| panic!("{}: {path}", self.subject.file));
            args.extend(["--form".to_owned(), answer]);
            figures.answers += 1;
        }
        args
    }

    /// Runs the example to its end through so many kills, and checks all that was asked.
    fn run(&self, kills: usize, dice: &mut Dice, figures: &mut Figures) {
        let known: BTreeSet<String> = self.rows().into_iter().map(|row| row.process).collect();
        let (mut row, mut left): (Option<Row>, usize) = (None, kills);
        let file = &self.subject.file;
        loop {
            let before = match &row {
                Some(row) => self.runtime.block_on(kept(&*self.store, &row.process)),
                None => Kept::default(),
            };
            let came = self.server.received().len();
            let args = match &row {
                Some(row) => self.go_on(row, figures),
                None => self.begin(),
            };
            let mut child = self.start(&args);
            figures.starts += 1;
            let began = Instant::now();
            let killed = left > 0 && self.kill(&mut child, came, dice);
            let output = child.wait_with_output().expect("the program was waited for");
            if !killed {
                self.lasts.set(began.elapsed());
            }
            if killed {
                left -= 1;
                figures.kills += 1;
            }
            self.runtime.block_on(self.server.settled(self.idle));
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            let new = self.rows().into_iter().filter(|row| !known.contains(&row.process)).collect::<Vec<_>>();
            assert!(new.len() <= 1, "{file}: one process was begun: {new:?}");
            let received = self.server.received();
            let (had, asked) = (before.requests(&received), counted(&received[came..]));
            for (what, count) in &asked {
                let most = self.whole.requests.get(what).copied().unwrap_or_default();
                let done = had.get(what).copied().unwrap_or_default();
                assert!(
                    done + count <= most,
                    "{file}: {done} of {most} were done, and {count} more asked: {what}\n{stderr}"
                );
            }
            row = new.into_iter().next();
            let after = match &row {
                Some(row) => self.runtime.block_on(kept(&*self.store, &row.process)),
                None => Kept::default(),
            };
            let lost: usize = asked
                .iter()
                .map(|(what, count)| {
                    let (had, has) = (had.get(what).copied().unwrap_or_default(), after.requests(&received));
                    (had + count).saturating_sub(has.get(what).copied().unwrap_or_default())
                })
                .sum();
            assert!(killed || lost == 0, "{file}: {lost} answers were not kept\n{stderr}");
            figures.requests += asked.values().sum::<usize>();
            figures.in_flight += lost;
            let Some(row) = &row else {
                assert!(killed, "{file}: nothing was begun\n{stderr}");
                continue;
            };
            match row.status.as_str() {
                "completed" => break self.check(row, &after, &received, figures),
                "waiting" | "running" | "not_started" => {
                    assert!(killed || row.status == "waiting", "{file}: {args:?} left it {}\n{stderr}", row.status);
                }
                other => panic!("{file}: it is {other}\n{stderr}"),
            }
        }
    }

    /// Kills the program at some instant, or when it asks for something; false when it has ended before.
    fn kill(&self, child: &mut Child, came: usize, dice: &mut Dice) -> bool {
        let most = self.whole.requests.values().sum::<usize>() as u64;
        let on_request = (dice.roll(2) == 0 && most > 0).then(|| came + dice.roll(most) as usize);
        let (started, lasts) = (Instant::now(), self.lasts.get().as_micros() as u64);
        let mut until =
            started + Duration::from_micros(dice.roll(if on_request.is_some() { 3 * lasts } else { lasts }));
        let mut waits_for = on_request;
        loop {
            if let Some(number) = waits_for
                && self.server.received().len() > number
            {
                waits_for = None;
                until = Instant::now() + Duration::from_micros(dice.roll(3_000));
            }
            if Instant::now() >= until {
                // What has ended and not been waited for is not killed.
                if child.try_wait().expect("the program is waited for").is_some() {
                    return false;
                }
                child.kill().expect("it is killed");
                return child.wait().expect("it has ended").code().is_none();
            }
            if child.try_wait().expect("the program is waited for").is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// What there is in the end is what there is without any kill.
    fn check(&self, row: &Row, kept: &Kept, received: &[Received], figures: &mut Figures) {
        let output = self.project.run(&["show", &row.process, "--json"]).exits(0);
        let (shape, usage) = (shape_of(&output.json()), &output.json()["usage"]);
        // A call that was under way at a kill may have been counted: it is made again, and has cost twice.
        for (of, least) in [("llm_calls", self.whole.usage[0]), ("tool_calls", self.whole.usage[1])] {
            assert!(usage[of].as_u64() >= Some(least), "the {of} of {}, {}: {usage}", self.subject.file, row.process);
        }
        for (part, expected) in self.whole.document.as_object().expect("a mapping") {
            assert_eq!(shape[part], *expected, "the {part} of {}, {}", self.subject.file, row.process);
        }
        assert_eq!(kept.requests(received), self.whole.requests, "{}", self.subject.file);
        assert_eq!(kept.children, self.whole.children, "{}", self.subject.file);
        figures.processes += 1;
    }
}

fn counted(received: &[Received]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for about in received.iter().filter_map(about) {
        *counts.entry(about).or_insert(0) += 1;
    }
    counts
}

#[test]
fn while_every_example_runs_all_complete_and_nothing_is_repeated_lost_or_doubled() {
    let mut subjects = subjects();
    let wanted = wanted();
    if wanted.is_none() {
        let (share, mut at) = (std::process::id() as usize % ONE_IN, 0);
        subjects.retain(|_| {
            at += 1;
            at == 1 || at % ONE_IN == share
        });
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path: PathBuf = dir.path().join("state.db");
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&path).expect("a store"));
    kill_all(&subjects, wanted, Keeps { store, written: json!({ "sqlite": path }) });
    let connection = rusqlite::Connection::open(&path).expect("the store");
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("an answer");
    assert_eq!(sound, "ok");
}

/// The same with processes on a server: the lease of a program that was killed is free once its connection is gone.
#[cfg(all(unix, feature = "postgres"))]
#[test]
fn the_same_where_a_server_keeps_the_processes() {
    let Some(server) = crate::support::postgres::PostgresServer::start() else { return };
    let mut subjects = subjects();
    let wanted = wanted();
    if wanted.is_none() {
        subjects.truncate(3);
    }
    let url = server.database("killed");
    let store: Arc<dyn Store> = Arc::new(agent_run::store::PostgresStore::open(&url).expect("a store"));
    kill_all(&subjects, wanted, Keeps { store, written: json!({ "postgres": url }) });
}

/// How many kills were asked for.
fn wanted() -> Option<usize> {
    std::env::var("AGENT_RUN_CRASHES").ok().and_then(|text| text.parse().ok())
}

/// Kills the program so often while the examples run, or once for each of them, and checks all that was asked.
fn kill_all(subjects: &[Subject], wanted: Option<usize>, keeps: Keeps) {
    let kills = wanted.unwrap_or(subjects.len());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    // One run without a kill says how long a start takes on this machine now.
    let (_, lasts) = killed(&subjects[0], 0, 0, &keeps, &runtime, None);
    let next = Mutex::new(subjects.iter().enumerate());
    let total = Mutex::new(Figures::default());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let one = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((at, subject)) = one else { return };
                    let share = (kills + subjects.len() - 1 - at) / subjects.len();
                    let (figures, _) = killed(subject, at, share, &keeps, &runtime, Some(lasts));
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    total.processes += figures.processes;
                    total.kills += figures.kills;
                    total.starts += figures.starts;
                    total.requests += figures.requests;
                    total.in_flight += figures.in_flight;
                    total.answers += figures.answers;
                }
            });
        }
    });
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    if wanted.is_some() {
        report(subjects.len(), &total);
    }
    assert!(total.kills >= kills, "{total:?}");
}

#[allow(clippy::print_stdout, reason = "whoever asks for a number of kills wants the figures")]
fn report(examples: usize, total: &Figures) {
    let Figures { processes, kills, starts, requests, in_flight, answers } = total;
    println!(
        "{examples} examples, {processes} processes, {kills} kills, {starts} starts: all completed. {requests} calls came \
         to the server, {in_flight} of them were in flight at a kill and were made again; {answers} answers of people"
    );
}

fn killed(
    subject: &Subject,
    at: usize,
    kills: usize,
    keeps: &Keeps,
    runtime: &tokio::runtime::Runtime,
    lasts: Option<Duration>,
) -> (Figures, Duration) {
    let book = Book::default();
    let answers = book.clone();
    let server = runtime.block_on(MockLlm::start(move |received| answer(&answers, "the mock server", received)));
    let project = project(&server.url(), keeps);
    let whole = runtime.block_on(whole(subject, project.path(), &server, &book));
    let handle = runtime.handle().clone();
    let first = Cell::new(lasts.unwrap_or(PATIENCE));
    let idle = server.open();
    let store = keeps.store.clone();
    let bench = Bench { subject, whole, server, project, store, runtime: handle, lasts: first, idle };
    let (mut dice, mut figures) = (Dice(0x5eed ^ ((kills as u64) << 8) ^ at as u64), Figures::default());
    if lasts.is_none() {
        bench.run(0, &mut dice, &mut figures);
    }
    while figures.kills < kills {
        // Up to four kills for one process, so that it is killed while it goes on, too.
        let some = 1 + dice.roll(4) as usize;
        bench.run(some.min(kills - figures.kills), &mut dice, &mut figures);
    }
    (figures, bench.lasts.get())
}
