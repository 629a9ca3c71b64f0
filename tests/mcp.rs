//! MCP servers: a small one that misbehaves (`support/mcp_server.rs`), and the official ones of the npm registry.
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use agent_run::compile::Entry;
use agent_run::engine::{Input, Reloader, RunOptions};
use agent_run::llm::Secret;
use agent_run::tool::mcp::{CallError, Client, Progress, Reach, START_TIMEOUT, ServerConfig};
use agent_run::world::SystemWorld;
use serde_json::{Map, Value, json};

use crate::support::mcp_server::{BEHAVIOUR, command, entry};
use crate::support::mock_llm::{Answer, MockLlm, Received};
use crate::support::project::{Output, Project};

/// The test server with a behaviour, for the library.
fn config(behaviour: &str) -> ServerConfig {
    ServerConfig {
        reach: Reach::Program {
            command: command().into_iter().map(Secret::new).collect(),
            env: vec![(BEHAVIOUR.to_owned(), Secret::new(behaviour))],
            cwd: PathBuf::new(),
        },
        timeout: None,
        restarts: 1,
        secrets: Vec::new(),
    }
}

async fn started(behaviour: &str) -> Client {
    Client::start("test", &config(behaviour), Path::new(""), START_TIMEOUT).await.expect("the server starts")
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

async fn called(client: &Client, tool: &str, arguments: Value) -> Result<Value, CallError> {
    client.call(tool, object(arguments), &|_| ()).await
}

/// A project with the server and one action that calls a tool of it; the rest of the tool and the server as given.
fn project(server: &str, tool: &str, with: &str) -> Project {
    let workflow = format!(
        "agent: caller
description: Calls a tool of a server
inputs: UserInput
types: {{Said: string}}
tools:
  used: {{description: The tool, parameters: {{text?: string, file?: string, name?: string}}, mcp: {{server: test, tool: {tool}}}}}
actions:
  call: {{description: Call it, inputs: UserInput, output: Said, call: {{tool: used, with: {with}}}, achieves: It was called}}
"
    );
    Project::new()
        .file("agent-run.yaml", format!("project: {{name: test}}\nmcp_servers:\n  test: {server}\n"))
        .file("workflows/caller.yaml", workflow)
}

fn run(project: &Project) -> Output {
    project.run(&["run", "workflows/caller.yaml", "--json", "x"])
}

fn failure(output: Output) -> String {
    output.exits(1).json()["failure"]["message"].as_str().expect("a message").to_owned()
}

#[test]
fn a_tool_of_a_server_is_called_in_a_cleared_environment() {
    let output = run(&project(&entry("sound", ""), "environment", "{}")).exits(0).json();
    assert_eq!(output["output"]["value"], format!("{BEHAVIOUR} PATH"));
    assert_eq!(output["history"][0]["tools"][0]["name"], "used");
    assert_eq!(output["history"][0]["tools"][0]["status"], "ok");
}

#[test]
fn a_server_that_cannot_start_is_named_with_its_last_words() {
    let message = failure(run(&project(&entry("broken", ""), "echo", "{}")));
    assert!(message.starts_with("the MCP server `test` cannot be started"), "{message}");
    assert!(
        message.contains(
            "it ended with status 3; its last words:\n    reading the configuration\n    no key is set; give TOKEN"
        ),
        "{message}"
    );
    let message = failure(run(&project("{command: [no-such-program]}", "echo", "{}")));
    assert!(message.contains("there is no program `no-such-program`") && message.contains("PATH"), "{message}");
    let message = failure(run(&project(&entry("refuses", ""), "echo", "{}")));
    assert!(message.contains("it refused the handshake: not for you"), "{message}");
    let message = failure(run(&project("{url: 'http://127.0.0.1:1/mcp'}", "echo", "{}")));
    assert!(message.contains("the MCP server `test` cannot be started (`http://127.0.0.1:1/mcp`)"), "{message}");
}

#[test]
fn a_server_that_ends_is_started_again_and_the_call_repeated_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("once").display().to_string();
    let output = run(&project(&entry("sound", ""), "die_once", &format!("{{file: '{file}'}}"))).exits(0).json();
    assert_eq!(output["output"]["value"], "the second time");
    let message = failure(run(&project(&entry("sound", ""), "die", "{}")));
    assert!(message.contains("ended before it answered `die`: it ended with status 7"), "{message}");
    assert!(message.contains("the disk is full"), "{message}");
}

#[test]
fn a_server_that_is_not_ready_in_time_is_named_with_its_last_words() {
    let project = project(&entry("mute", ""), "echo", "{}");
    let workflow = project.read("workflows/caller.yaml").replace("mcp: {", "timeout: 2s, mcp: {");
    project.write("workflows/caller.yaml", workflow);
    let message = failure(run(&project));
    assert!(message.contains("cannot be started") && message.contains("it was not ready within"), "{message}");
    assert!(message.contains("waiting for the database"), "{message}");
}

#[test]
fn a_server_that_fails_again_and_again_is_not_tried_for_ever() {
    let project = project(&entry("broken", ", restarts: 1"), "echo", "{}");
    let workflow =
        project.read("workflows/caller.yaml").replace("call: {tool", "retry: {attempts: 4, backoff: 1ms}, call: {tool");
    project.write("workflows/caller.yaml", workflow);
    let message = failure(run(&project));
    assert!(message.starts_with("the MCP server `test` failed 2 times in a row: it ended with status 3"), "{message}");
}

#[test]
fn a_group_that_no_source_serves_makes_its_actions_unavailable() {
    let workflow = "agent: asks
description: Asks a model with tools, or without
inputs: UserInput
types: {Answer: string}
tools: {look: {description: Looks, set: here}}
tool_groups:
  web: {description: The web, from: [{mcp: test}, {tools: [look], include: ['search*']}]}
actions:
  search: {description: With the web, inputs: UserInput, output: Answer, tools: web, prompt: 'Find {{ user_input.content }}', achieves: There is an answer}
";
    let project = Project::new()
        .file("agent-run.yaml", "models: {default: openai/x}\nmcp_servers: {test: {url: 'https://x.example.com', headers: {A: '${env:KEY}'}}}\n")
        .file("workflows/asks.yaml", workflow);
    let found = |output: Output, code: &str| -> Option<String> {
        let document = output.json();
        let all = document["diagnostics"].as_array().expect("a list").clone();
        all.iter().find(|one| one["code"] == code).map(|one| one["message"].as_str().expect("words").to_owned())
    };
    let message = found(project.run(&["check", "--json"]), "unserved-group").expect("a finding");
    assert_eq!(
        message,
        "no source serves the tool group `web`: the MCP server `test` needs the environment variable `KEY`, which is \
         not set; its `include` and `exclude` leave no tool"
    );
    let plan = project.run(&["plan", "workflows/asks.yaml"]).exits(4);
    assert!(plan.to_string().contains("no source serves the tool group `web`"), "{plan}");
    let project = project.env("KEY", "sk-very-secret");
    assert_eq!(found(project.run(&["check", "--json"]), "unserved-group"), None);
    project.run(&["plan", "workflows/asks.yaml"]).exits(0);
}

#[test]
fn tools_that_cannot_be_offered_are_told_of() {
    let workflow = "agent: asks
description: Asks a model with the tools of a server
inputs: UserInput
types: {Answer: string}
tool_groups:
  odd: {description: Odd tools, from: [{mcp: test, prefix: PREFIX}]}
actions:
  ask: {description: Ask, inputs: UserInput, output: Answer, tools: odd, prompt: 'Find {{ user_input.content }}', achieves: There is an answer}
";
    let project = Project::new()
        .file("agent-run.yaml", format!("models: {{default: openai/x}}\nmcp_servers: {{test: {}}}\n", entry("odd", "")))
        .file("script.yaml", "replies: [{reply: Here}]\n");
    // The longer of the two names that can be offered is over 64 characters with this prefix.
    for (prefix, told) in [("odd_", 2), (&*format!("{:_<47}", "odd"), 3)] {
        project.write("workflows/asks.yaml", workflow.replace("PREFIX", prefix));
        let line = ["run", "workflows/asks.yaml", "--script", "script.yaml", "--events", "events.jsonl", "x"];
        let output = project.run(&line).exits(0);
        let events = project.read("events.jsonl");
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).expect("an event"));
        let notices: Vec<Value> = events.filter(|event| event["key"] == "tool-left-out").collect();
        assert_eq!(notices.len(), told, "{notices:?}");
        let said = |at: usize| notices[at]["message"].as_str().expect("words");
        assert!(
            said(0).starts_with("the MCP server `test` has a tool `wrong` that cannot be offered: its"),
            "{}",
            said(0)
        );
        assert!(output.stderr.contains("a tool `no.schema` that cannot be offered"), "{output}");
        if told == 3 {
            assert!(
                said(2).contains("`dots_and_slashes_2`: with its prefix the name has 65 characters"),
                "{}",
                said(2)
            );
        }
    }
}

#[test]
fn a_call_that_must_not_be_repeated_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("once").display().to_string();
    let project = project(&entry("sound", ""), "die_once", &format!("{{file: '{file}'}}"));
    let workflow = project.read("workflows/caller.yaml").replace("mcp: {", "idempotent: false, mcp: {");
    project.write("workflows/caller.yaml", workflow);
    let message = failure(run(&project));
    assert!(message.contains("ended before it answered `die_once`"), "{message}");
}

#[test]
fn one_server_serves_the_whole_run_with_its_sub_processes_and_ends_with_it() {
    let project = project(&entry("sound", ""), "count", "{file: pids}");
    let nested = "agent: outer
description: Calls twice, once in a sub-process
inputs: UserInput
types: {Said: string, All: string}
tools: {used: {description: Counts, parameters: {file: string}, mcp: {server: test, tool: count}}}
actions:
  inner: {description: In a sub-process, inputs: UserInput, output: Said, agent: caller}
  own: {description: Here, inputs: Said, output: All, call: {tool: used, with: {file: pids}}, achieves: It was called twice}
";
    project.write("workflows/outer.yaml", nested);
    project.run(&["run", "workflows/outer.yaml", "--json", "x"]).exits(0);
    let pids = project.read("pids");
    let pids: Vec<&str> = pids.split_whitespace().collect();
    assert_eq!(pids.len(), 2);
    assert_eq!(pids[0], pids[1], "the same server answered both");
    assert!(!Path::new(&format!("/proc/{}", pids[0])).exists(), "the server has ended with the run");
}

#[tokio::test]
async fn an_edit_starts_a_server_anew_only_if_its_own_declaration_has_changed() {
    let project = project(&entry("sound", ""), "count", "{file: pids}");
    let world = Arc::new(SystemWorld::new(project.path()));
    let mut reloader = Reloader::new(world, Entry::File("workflows/caller.yaml".into()));
    let edits: [&dyn Fn(); 4] = [
        &|| (),
        &|| {
            let workflow = project.read("workflows/caller.yaml");
            project.write("workflows/caller.yaml", workflow.replace("Calls a tool of a server", "Another"));
        },
        &|| {
            let file = project.read("agent-run.yaml");
            project.write("agent-run.yaml", format!("{file}  other: {{url: 'http://127.0.0.1:1/mcp'}}\n"));
        },
        &|| {
            let file = project.read("agent-run.yaml");
            project.write("agent-run.yaml", file.replace(&entry("sound", ""), &entry("sound", ", timeout: 50s")));
        },
    ];
    for edit in edits {
        edit();
        let reload = reloader.reload();
        assert!(reload.swapped, "{:?}", reload.diagnostics);
        let engine = reloader.engine().expect("a program");
        let options = RunOptions { yes: true, ..RunOptions::default() };
        let mut process = engine.start("caller", vec![Input::Text("x".to_owned())], options).expect("it begins");
        process.run().await;
        assert_eq!(process.document().failure, None);
    }
    let pids = project.read("pids");
    let pids: Vec<&str> = pids.split_whitespace().collect();
    assert_eq!(pids.len(), 4);
    assert_eq!((pids[0], pids[1]), (pids[1], pids[2]), "the server goes on");
    assert_ne!(pids[2], pids[3], "its own declaration has changed");
}

#[test]
fn a_secret_that_a_server_echoes_is_redacted() {
    let server = entry("sound", "").replace("{MCP_TEST", "{TOKEN: '${env:TOKEN}', MCP_TEST");
    let project = project(&server, "variable", "{name: TOKEN}").env("TOKEN", "sk-very-secret");
    let output = run(&project).exits(0);
    assert!(output.stdout.contains("[redacted]") && !output.stdout.contains("sk-very-secret"), "{output}");
}

#[test]
fn a_variable_that_is_not_set_is_a_warning_and_a_failure_of_the_call() {
    let server = entry("sound", "").replace("{MCP_TEST", "{TOKEN: '${env:TOKEN}', MCP_TEST");
    let project = project(&server, "echo", "{}");
    let checked = project.run(&["check"]).exits(0);
    assert!(checked.stdout.contains("missing-env") || checked.stderr.contains("missing-env"), "{checked}");
    let message = failure(run(&project));
    assert!(message.contains("the MCP server `test` needs the environment variable `TOKEN`"), "{message}");
    assert!(message.contains("agent-run.yaml:3:"), "{message}");
}

#[test]
fn what_the_project_denies_is_not_called_and_a_dry_run_calls_nothing() {
    let project = project("{command: [no-such-program]}", "echo", "{}");
    let denied = format!("{}permissions: {{deny: ['mcp:test']}}\n", project.read("agent-run.yaml"));
    let dry = project.run(&["run", "workflows/caller.yaml", "--json", "--dry-run", "x"]).exits(0).json();
    assert!(dry["output"]["value"].as_str().is_some_and(|text| text.contains("echo")), "{dry}");
    project.write("agent-run.yaml", denied);
    let document = run(&project).exits(1).json();
    assert_eq!(document["failure"]["kind"], "permission", "{document}");
}

#[test]
fn mistakes_in_a_server_are_found_where_they_stand() {
    for (server, code, column) in [
        ("{command: [npx], url: 'http://localhost'}", "two-forms", 31),
        ("{command: [npx], headers: {A: b}}", "two-forms", 36),
        ("{url: 'http://localhost/mcp', env: {A: b}}", "two-forms", 45),
        ("{command: [npx], cwd: ../x}", "path-escapes", 31),
        ("{command: [npx -y server]}", "one-word-command", 20),
        ("{timeout: 5s}", "missing-key", 3),
        ("{url: localhost}", "bad-url", 15),
    ] {
        let document = project(server, "echo", "{}").run(&["check", "--json"]).json();
        let found = document["diagnostics"].as_array().and_then(|all| all.iter().find(|found| found["code"] == code));
        let found = found.unwrap_or_else(|| panic!("{server}: {document}"));
        assert_eq!((&found["line"], &found["column"]), (&json!(3), &json!(column)), "{server}: {found}");
    }
}

/// A project whose model calls tools as a script says.
fn desk(servers: &str, tools: &str, list: &str, script: &str) -> Project {
    let workflow = format!(
        "agent: desk
description: Answers
inputs: UserInput
types: {{Said: string}}
{tools}
actions:
  answer: {{description: Answer, inputs: UserInput, output: Said, tools: {list}, prompt: x, achieves: It was answered}}
"
    );
    let project = "providers: {demo: {kind: scripted, file: script.yaml}}\nmodels: {default: demo/model}\n";
    Project::new()
        .file("agent-run.yaml", format!("{project}mcp_servers:\n{servers}"))
        .file("workflows/desk.yaml", workflow)
        .file("script.yaml", format!("replies:\n  - turns: {script}\n"))
}

#[test]
fn a_tool_without_parameters_is_described_by_its_server() {
    let server = format!("  test: {}\n", entry("sound", ""));
    let project = desk(
        &server,
        "tools: {say: {mcp: {server: test, tool: echo}}, wrong: {mcp: {server: test, tool: ecko}}}",
        "[say]",
        "[{call: [{tool: say, with: {text: ''}}, {tool: say, with: {text: hello}}]}, {reply: It said so.}]",
    );
    let of = |args: &[&str]| project.run(&[&["tools"], args].concat());
    let schema = of(&["schema", "workflows/desk.yaml", "answer", "--json"]).exits(0).json();
    assert_eq!(schema[0]["name"], "say");
    assert_eq!(schema[0]["description"], "echo");
    assert_eq!(schema[0]["inputSchema"]["properties"]["text"]["minLength"], 1, "{schema}");
    let output = project.run(&["run", "workflows/desk.yaml", "--json", "--show-prompts", "x"]).exits(0);
    assert_eq!(output.json()["history"][0]["tools"].as_array().map(Vec::len), Some(2), "{output}");
    assert!(output.stderr.contains("shorter than 1 character"), "{output}");
    let unknown = of(&["list", "workflows/desk.yaml"]).exits(2);
    assert!(unknown.stderr.contains("the MCP server `test` has no tool `ecko`; did you mean `echo`?"), "{unknown}");
}

#[test]
fn a_tool_whose_server_cannot_say_its_parameters_is_offered_and_tells_why() {
    let project = desk(
        "  test: {command: [no-such-program]}\n",
        "tools: {say: {description: Says it, mcp: {server: test, tool: echo}}}",
        "[say]",
        "[{call: [{tool: say, with: {text: hello}}]}, {reply: It failed.}]",
    );
    let output = project.run(&["run", "workflows/desk.yaml", "--json", "x"]).exits(0);
    assert_eq!(output.json()["history"][0]["tools"][0]["status"], "error", "{output}");
    assert!(
        output.stderr.contains("the parameters of the tool `say` are not known: the MCP server `test`"),
        "{output}"
    );
}

#[test]
fn a_source_that_fails_is_told_while_another_one_serves() {
    let server = format!("  test: {}\n  gone: {{command: [no-such-program]}}\n", entry("sound", ""));
    let project = desk(
        &server,
        "tool_groups: {web: {description: All, from: [{mcp: gone}, {mcp: test, include: [echo]}]}}",
        "[web]",
        "[{call: [{tool: echo, with: {text: hello}}]}, {reply: It said so.}]",
    );
    let output = project.run(&["run", "workflows/desk.yaml", "--json", "--events", "events.jsonl", "x"]).exits(0);
    assert_eq!(output.json()["history"][0]["tools"][0]["status"], "ok", "{output}");
    let told = "the tool group `web` goes without one of its sources: the MCP server `gone` cannot be started";
    assert!(output.stderr.contains(told), "{output}");
    let events = project.read("events.jsonl");
    assert!(events.lines().any(|line| line.contains("source-left-out") && line.contains(told)), "{events}");
}

#[test]
fn every_command_that_starts_a_server_ends_it() {
    let server = format!("  test: {}\n", entry("sound", ""));
    let tools = "tools: {count: {description: Counts, parameters: {file: string}, mcp: {server: test, tool: count}}, any: {mcp: {server: test, tool: echo}}}";
    let project = desk(&server, tools, "[count]", "[{reply: Nothing.}]");
    let is_gone = |pid: &str| !Path::new(&format!("/proc/{pid}")).exists();
    for arguments in [
        &["tools", "call", "workflows/desk.yaml", "count", "{\"file\": \"pids\"}"][..],
        &["tools", "call", "workflows/desk.yaml", "count", "{\"file\": \"/no/such/directory/pids\"}"],
        &["tools", "tree", "workflows/desk.yaml"],
    ] {
        project.run(arguments);
    }
    let pids = project.read("pids");
    assert!(!pids.trim().is_empty() && pids.split_whitespace().all(is_gone), "{pids}");
}

#[tokio::test]
async fn a_server_that_wants_a_sign_in_is_explained() {
    let refusing = |status: u16, header: Option<&'static str>| async move {
        MockLlm::start(move |_: &Received| {
            let answer = Answer::bytes(status, "text/plain", "no");
            header.map_or(answer.clone(), |value| answer.header("www-authenticate", value))
        })
        .await
    };
    for (status, challenge, headers, words) in [
        (401, None, vec![], "it wants a sign-in, and no `Authorization` is sent"),
        (401, Some("Bearer realm=\"x\""), vec![], "it wants a sign-in, and no `Authorization` is sent"),
        (401, Some("Bearer"), vec!["Authorization"], "it does not take what is sent as `Authorization`"),
        (403, None, vec!["X-Api-Key"], "it is forbidden: what is sent as `X-Api-Key` has not the rights"),
        (403, Some("Bearer error=\"insufficient_scope\""), vec![], "it is forbidden: no header that signs in is sent"),
    ] {
        let server = refusing(status, challenge).await;
        let headers = headers.into_iter().map(|name| (name.to_owned(), Secret::new("sk-very-secret"))).collect();
        let reach = Reach::Address { url: Secret::new(format!("{}/mcp", server.url())), headers };
        let config = ServerConfig { reach, timeout: None, restarts: 1, secrets: vec![Secret::new("sk-very-secret")] };
        let error = Client::start("docs", &config, Path::new(""), START_TIMEOUT).await.err().expect("it refuses");
        assert!(error.contains(words) && error.contains(&status.to_string()), "{status}: {error}");
        assert!(!error.contains("sk-very-secret"), "{error}");
    }
}

#[tokio::test]
async fn the_list_is_read_page_by_page_and_again_when_it_changes() {
    let client = started("sound").await;
    let names = |tools: &agent_run::tool::mcp::ServerTools| -> Vec<String> {
        tools.tools.iter().map(|tool| tool.name.clone()).collect()
    };
    let tools = client.tools().await.expect("a list");
    assert_eq!(names(&tools), ["echo", "fail"]);
    assert!(std::sync::Arc::ptr_eq(&tools, &client.tools().await.expect("a list")), "it is not asked for again");
    let schema = tools.tools[0].schema.as_ref().expect("the server's schema");
    assert_eq!(schema.value()["properties"]["text"]["minLength"], 1);
    assert!(schema.validate(json!({"text": ""})).is_err() && schema.validate(json!({"text": "a"})).is_ok());
    // The note stands before the result, so it was heard when the call has ended.
    called(&client, "grow", json!({})).await.expect("a result");
    assert_eq!(names(&client.tools().await.expect("a list")), ["echo", "fail", "grown"]);
}

#[tokio::test]
async fn a_tool_that_cannot_be_offered_does_not_take_the_others_along() {
    let tools = started("odd").await.tools().await.expect("a list");
    let names: Vec<&str> = tools.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["dots_and_slashes", "dots_and_slashes_2"]);
    let left_out: Vec<&str> = tools.left_out.iter().map(|left| left.tool.as_str()).collect();
    assert_eq!(left_out, ["wrong", "no.schema"]);
    let endless = started("endless").await.tools().await.expect_err("no list");
    assert!(endless.to_string().contains("pages"), "{endless}");
}

#[tokio::test]
async fn results_keep_their_kind() {
    let client = started("sound").await;
    assert_eq!(called(&client, "structured", json!({})).await, Ok(json!({"n": 1})));
    let pictures = json!(["two of them", {"mime": "image/png", "data": "QUJD"}, {"mime": "image/gif", "data": "REVG"}, "[resource x://b: b]"]);
    assert_eq!(called(&client, "pictures", json!({})).await, Ok(pictures));
    assert_eq!(called(&client, "fail", json!({})).await, Err(CallError::Refused("the shelf is empty".to_owned())));
    let strange = called(&client, "strange", json!({})).await.expect_err("no result");
    assert!(matches!(&strange, CallError::Refused(words) if words.contains("not what the protocol says")), "{strange}");
    // The server goes on after each.
    assert_eq!(called(&client, "echo", json!({"text": "here"})).await, Ok(json!("here")));
}

#[tokio::test]
async fn a_result_that_is_too_long_is_refused_and_the_server_goes_on() {
    let client = started("sound").await;
    let refused = called(&client, "huge", json!({})).await.expect_err("too long");
    assert!(matches!(&refused, CallError::Refused(words) if words.contains("16 MiB")), "{refused}");
    assert_eq!(called(&client, "echo", json!({"text": "here"})).await, Ok(json!("here")));
}

#[tokio::test]
async fn progress_is_heard_in_order() {
    let client = started("sound").await;
    let heard: Mutex<Vec<Progress>> = Mutex::default();
    let note = |progress: Progress| heard.lock().expect("no panic").push(progress);
    assert_eq!(client.call("progress", Map::new(), &note).await, Ok(json!("baked")));
    let heard = heard.into_inner().expect("no panic");
    assert!(!heard.is_empty() && heard.windows(2).all(|two| two[0].progress < two[1].progress), "{heard:?}");
    assert_eq!((heard[0].total, heard[0].message.as_deref()), (Some(3.0), Some("baking")));
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("state");
    let client = started("sound").await;
    let mut call = Box::pin(called(&client, "hang", json!({"file": file.to_str()})));
    let reads = |what: &'static str| {
        let file = file.clone();
        move || std::fs::read_to_string(&file).is_ok_and(|text| text == what)
    };
    let is_called = until(reads("called"));
    tokio::select! {
        ended = &mut call => panic!("{ended:?}"),
        () = is_called => {}
    }
    drop(call);
    until(reads("cancelled")).await;
}

/// Waits until something holds.
async fn until(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), wait).await.expect("it comes to hold");
}

/// Where the official servers are; installed at the first use. `None` where there is no Node or no registry.
fn official(server: &str) -> Option<PathBuf> {
    static INSTALL: Mutex<Option<bool>> = Mutex::new(None);
    let dir = crate::support::root().join("target/servers");
    let file = dir.join(format!("node_modules/@modelcontextprotocol/server-{server}/dist/index.js"));
    let mut installed = INSTALL.lock().expect("no panic");
    if installed.is_none() && !file.exists() {
        std::fs::create_dir_all(&dir).expect("the directory is made");
        std::fs::copy(crate::support::root().join("tests/servers/package.json"), dir.join("package.json"))
            .expect("the list of servers is copied");
        let npm = std::process::Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
            .arg(&dir)
            .output();
        *installed = Some(npm.is_ok_and(|output| output.status.success()));
    }
    if file.exists() && std::process::Command::new("node").arg("--version").output().is_ok() {
        return Some(file);
    }
    eprintln!("SKIPPED: Node, or the MCP server `{server}` of the npm registry, is not there");
    None
}

/// An official server over standard input and output.
fn node(file: &Path, arguments: &[&str], env: &[(&str, &str)]) -> ServerConfig {
    let words = ["node", file.to_str().expect("a text")].into_iter().chain(arguments.iter().copied());
    ServerConfig {
        reach: Reach::Program {
            command: words.map(Secret::new).collect(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect(),
            cwd: PathBuf::new(),
        },
        ..config("")
    }
}

/// What holds of the server `everything` over either transport.
async fn everything(client: &Client) {
    let tools = client.tools().await.expect("a list");
    assert!(tools.left_out.is_empty(), "{:?}", tools.left_out);
    let sum = tools.tools.iter().find(|tool| tool.name == "get-sum").expect("the tool");
    assert!(sum.parameters.fields["a"].required, "{:?}", sum.parameters);
    assert_eq!(called(client, "get-sum", json!({"a": 1, "b": 2})).await, Ok(json!("The sum of 1 and 2 is 3.")));
    let weather = called(client, "get-structured-content", json!({"location": "Chicago"})).await.expect("a result");
    assert!(weather["temperature"].is_number(), "{weather}");
    let image = called(client, "get-tiny-image", json!({})).await.expect("a result");
    assert!(image.as_array().is_some_and(|parts| parts.iter().any(|part| part["mime"] == "image/png")), "{image}");
    let wrong = called(client, "get-sum", json!({"a": "x"})).await.expect_err("a complaint");
    assert!(matches!(wrong, CallError::Refused(_)), "{wrong}");
    let heard: Mutex<Vec<f64>> = Mutex::default();
    let note = |progress: Progress| heard.lock().expect("no panic").push(progress.progress);
    let long = object(json!({"duration": 0.1, "steps": 2}));
    client.call("trigger-long-running-operation", long, &note).await.expect("a result");
    assert!(!heard.into_inner().expect("no panic").is_empty(), "progress was heard");
}

#[tokio::test]
async fn the_official_server_everything_over_standard_input_and_output() {
    let Some(file) = official("everything") else { return };
    let client =
        Client::start("everything", &node(&file, &[], &[]), Path::new(""), START_TIMEOUT).await.expect("it starts");
    everything(&client).await;
    client.close().await;
}

#[tokio::test]
async fn the_official_server_everything_over_http() {
    let Some(file) = official("everything") else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|at| at.local_addr()).expect("a free port").port();
    let mut server = tokio::process::Command::new("node")
        .arg(&file)
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the server starts");
    until(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
    let reach = Reach::Address {
        url: Secret::new(format!("http://127.0.0.1:{port}/mcp")),
        headers: vec![("X-Token".to_owned(), Secret::new("sk-very-secret"))],
    };
    let config = ServerConfig { reach, ..config("") };
    let client = Client::start("everything", &config, Path::new(""), START_TIMEOUT).await.expect("it answers");
    everything(&client).await;
    server.kill().await.expect("it is killed");
    let gone = called(&client, "echo", json!({"message": "x"})).await.expect_err("nobody answers");
    assert!(matches!(&gone, CallError::Gone(words) if !words.contains("sk-very-secret")), "{gone}");
}

#[tokio::test]
async fn the_official_server_filesystem_keeps_to_its_directory() {
    let Some(file) = official("filesystem") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().canonicalize().expect("a path");
    std::fs::write(root.join("note.txt"), "Buy milk").expect("the file is written");
    let config = node(&file, &[root.to_str().expect("a text")], &[]);
    let client = Client::start("files", &config, Path::new(""), START_TIMEOUT).await.expect("it starts");
    let read = |path: PathBuf| json!({"path": path.to_str()});
    let text = called(&client, "read_text_file", read(root.join("note.txt"))).await.expect("the text");
    assert!(text.to_string().contains("Buy milk"), "{text}");
    let outside = called(&client, "read_text_file", read("/etc/hostname".into())).await.expect_err("a complaint");
    assert!(matches!(outside, CallError::Refused(_)), "{outside}");
}

#[tokio::test]
async fn the_official_server_memory_remembers() {
    let Some(file) = official("memory") else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let kept = dir.path().join("memory.jsonl");
    let config = node(&file, &[], &[("MEMORY_FILE_PATH", kept.to_str().expect("a text"))]);
    let client = Client::start("memory", &config, Path::new(""), START_TIMEOUT).await.expect("it starts");
    let ada = json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["likes tea"]}]});
    called(&client, "create_entities", ada).await.expect("a result");
    client.close().await;
    let client = Client::start("memory", &config, Path::new(""), START_TIMEOUT).await.expect("it starts again");
    let found = called(&client, "search_nodes", json!({"query": "tea"})).await.expect("a result");
    assert_eq!(found["entities"][0]["name"], "Ada");
}

#[test]
fn the_example_answers_from_the_handbook() {
    let Some(file) = official("filesystem") else { return };
    let project = Project::of_the_repository();
    let server = r#"[npx, -y, "@modelcontextprotocol/server-filesystem@2026.8.31", .]"#;
    let declared = project.read("agent-run.yaml");
    assert!(declared.contains(server), "the example starts the version that is tested");
    project.write("agent-run.yaml", declared.replace(server, &format!("[node, {}, .]", file.display())));
    let question = "I rode my new bike 50 km. Can I give it back?";
    let script = "prompts/scripts/handbook-desk.yaml";
    let run = ["run", "workflows/handbook-desk.yaml", "--json", "--no-store", "--script", script, question];
    let document = project.run(&run).exits(0).json();
    assert_eq!(document["output"]["value"]["page"], "returns.md", "{document:#}");
    assert_eq!(document["usage"]["tool_calls"], 2, "{document:#}");
}
