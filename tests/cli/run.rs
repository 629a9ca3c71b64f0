//! `run`.

use serde_json::{Value, json};

use super::project;

#[test]
fn the_document_has_its_keys_in_their_order() {
    let document = project().run(&["run", "workflows/ask.yaml", "--json", "What?"]).exits(0).json();
    let keys: Vec<&String> = document.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys,
        [
            "process",
            "agent",
            "status",
            "goal",
            "output",
            "history",
            "plans",
            "blackboard",
            "usage",
            "waiting",
            "failure"
        ]
    );
    assert_eq!(document["agent"], "ask");
    assert_eq!(document["status"], "completed");
    assert_eq!(document["goal"], "answer");
    assert_eq!(document["output"], json!({"type": "Answer", "value": {"text": "Forty-two"}}));
    assert_eq!(document["plans"], json!([["answer"]]));
    assert_eq!((&document["waiting"], &document["failure"]), (&Value::Null, &Value::Null));
    let step = &document["history"][0];
    assert_eq!(
        (&step["action"], &step["status"], &step["attempts"]),
        (&json!("answer"), &json!("succeeded"), &json!(1))
    );
    assert_eq!(step["llm"][0]["model"], "demo/any");
    assert_eq!((&step["llm"][0]["input_tokens"], &step["llm"][0]["output_tokens"]), (&json!(10), &json!(5)));
    assert_eq!(document["usage"]["llm_calls"], 1);
    let types: Vec<&Value> = document["blackboard"].as_array().expect("a list").iter().map(|o| &o["type"]).collect();
    assert_eq!(types, ["UserInput", "Answer"]);
}

#[test]
fn a_script_fixes_the_clock_and_the_ids() {
    let project = project();
    let args = ["run", "workflows/ask.yaml", "--json", "--script", "script.yaml", "What?"];
    let (first, second) = (project.run(&args).exits(0).json(), project.run(&args).exits(0).json());
    assert_eq!(first["process"], "P1");
    assert_eq!(first["history"][0]["started_at"], "2025-01-01T00:00:00Z");
    assert_eq!(first["output"], second["output"]);
}

#[test]
fn the_result_is_on_stdout_and_everything_else_is_not() {
    let output = project().run(&["run", "workflows/echo.yaml", "hello"]).exits(0);
    assert!(output.stdout.contains("hello!"), "{output}");
    assert!(!output.stdout.contains('\u{1b}') && !output.stderr.contains('\u{1b}'), "no colors: {output}");
    assert!(output.stderr.contains("echo"), "a plain line for each step: {output}");
}

#[test]
fn quiet_says_the_result_only() {
    let output = project().run(&["run", "-q", "workflows/echo.yaml", "hello"]).exits(0);
    assert_eq!(output.stderr, "", "{output}");
    assert!(output.stdout.contains("hello!"), "{output}");
}

#[test]
fn a_file_alone_is_run() {
    project().run(&["workflows/echo.yaml", "hello"]).exits(0);
}

#[test]
fn an_agent_is_run_by_its_name() {
    let document = project().run(&["run", "echo", "--json", "hello"]).exits(0).json();
    assert_eq!(document["output"]["value"], json!({"text": "hello!", "length": 5}));
}

#[test]
fn flags_stand_before_or_after_the_verb() {
    let project = project();
    project.run(&["--json", "run", "echo", "x"]).exits(0).json();
    project.run(&["run", "echo", "x", "--json"]).exits(0).json();
}

#[test]
fn the_project_may_be_elsewhere() {
    let (project, other) = (project(), crate::support::project::Project::new());
    let place = project.path().to_string_lossy().into_owned();
    other.run(&["--project", &place, "run", "echo", "x"]).exits(0);
}

#[test]
fn typed_inputs_come_from_flags_files_and_standard_input() {
    let project = project().file("in.json", r#"{"content": "from a file"}"#);
    let said = |output: crate::support::project::Output| output.exits(0).json()["output"]["value"]["text"].clone();
    let flag = ["run", "echo", "--json", "--input", r#"UserInput={"content": "typed"}"#];
    assert_eq!(said(project.run(&flag)), "typed!");
    assert_eq!(said(project.run(&["run", "echo", "--json", "--input", "UserInput=@in.json"])), "from a file!");
    let stdin = project.run_with_stdin(&["run", "echo", "--json", "--input", "UserInput=-"], r#"{"content": "piped"}"#);
    assert_eq!(said(stdin), "piped!");
    let untyped = ["run", "echo", "--json", "--input", r#"{"content": "untyped"}"#];
    assert_eq!(said(project.run(&untyped)), "untyped!");
}

#[test]
fn a_missing_input_is_named_with_a_line_to_copy() {
    let output = project().run(&["run", "workflows/echo.yaml"]).exits(2);
    assert!(output.stderr.contains("UserInput"), "{output}");
    assert!(output.stderr.contains("agent-run run workflows/echo.yaml"), "{output}");
}

#[test]
fn an_input_that_does_not_validate_is_refused() {
    let output = project().run(&["run", "echo", "--input", r#"UserInput={"contents": "x"}"#]).exits(2);
    assert!(output.stderr.contains("contents"), "{output}");
}

#[test]
fn an_unknown_type_is_answered_with_the_nearest() {
    let output = project().run(&["run", "echo", "--input", r#"UserImput={"content": "x"}"#]).exits(2);
    assert!(output.stderr.contains("`UserInput`"), "{output}");
}

#[test]
fn an_unknown_file_or_agent_is_answered_with_the_nearest() {
    let output = project().run(&["run", "workflows/ecko.yaml", "x"]).exits(2);
    assert!(output.stderr.contains("echo.yaml"), "{output}");
    let output = project().run(&["run", "ecko", "x"]).exits(2);
    assert!(output.stderr.contains("`echo`"), "{output}");
}

#[test]
fn an_unknown_flag_is_answered_with_the_nearest() {
    let output = project().run(&["run", "echo", "--jsn", "x"]).exits(2);
    assert!(output.stderr.contains("--json"), "{output}");
}

#[test]
fn config_is_set_from_outside() {
    let document = project().run(&["run", "echo", "--json", "--set", "mark=?", "x"]).exits(0).json();
    assert_eq!(document["output"]["value"]["text"], "x?");
    let output = project().run(&["run", "echo", "--set", "mrak=?", "x"]).exits(2);
    assert!(output.stderr.contains("`mark`"), "{output}");
}

#[test]
fn a_role_gets_another_model() {
    let project = project();
    let args = ["run", "ask", "--json", "--llm", "default=demo/other", "x"];
    assert_eq!(project.run(&args).exits(0).json()["history"][0]["llm"][0]["model"], "demo/other");
    let output = project.run(&["run", "ask", "--llm", "default=dmo/other", "x"]).exits(2);
    assert!(output.stderr.contains("demo"), "{output}");
}

#[test]
fn a_limit_ends_the_run_with_exit_5() {
    let document = project().run(&["run", "ask", "--json", "--max-actions", "0", "x"]);
    assert!(matches!(document.code(), Some(2 | 5)), "{document}");
    let tokens = project().run(&["run", "ask", "--json", "--max-tokens", "1", "x"]);
    let document = tokens.json();
    assert!(matches!(document["status"].as_str(), Some("completed" | "terminated")), "{document:#}");
}

#[test]
fn an_action_that_fails_is_exit_1_with_its_cause() {
    let project = project().file("bad.yaml", "replies: [{error: {status: 400, message: no such model}}]\n");
    let output = project.run(&["run", "ask", "--json", "--script", "bad.yaml", "x"]).exits(1);
    let document = output.json();
    assert_eq!((&document["status"], &document["failure"]["action"]), (&json!("failed"), &json!("answer")));
    assert_eq!(document["failure"]["kind"], "llm");
    assert!(document["failure"]["message"].as_str().is_some_and(|text| text.contains("no such model")), "{document:#}");
}

#[test]
fn a_model_that_refuses_is_a_failure_of_its_own() {
    let project = project().file("bad.yaml", "replies: [{refuse: I would rather not}]\n");
    let document = project.run(&["run", "ask", "--json", "--script", "bad.yaml", "x"]).exits(1).json();
    assert_eq!(document["failure"]["kind"], "refusal");
}

#[test]
fn a_reply_that_stays_wrong_is_shown_with_its_errors() {
    let project = project().file("bad.yaml", "replies: [{reply: {txt: Forty-two}}]\n");
    let document = project.run(&["run", "ask", "--json", "--script", "bad.yaml", "x"]).exits(1).json();
    assert_eq!(document["failure"]["kind"], "validation");
    assert_eq!(document["history"][0]["llm"].as_array().map(Vec::len), Some(3), "{document:#}");
}

#[test]
fn a_reply_that_is_mended_is_a_result() {
    let script = "replies: [{turns: [{raw: 'not { json'}, {reply: {text: 7}}, {reply: {text: at last}}]}]\n";
    let project = project().file("slow.yaml", script);
    let document = project.run(&["run", "ask", "--json", "--script", "slow.yaml", "x"]).exits(0).json();
    assert_eq!(document["output"]["value"]["text"], "at last");
}

#[test]
fn a_script_without_a_fitting_rule_says_so() {
    let project = project().file("none.yaml", "replies: [{when: {action: anser}, reply: {text: x}}]\n");
    let document = project.run(&["run", "ask", "--json", "--script", "none.yaml", "x"]).exits(1).json();
    let message = document["failure"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("anser") && message.contains("answer"), "{document:#}");
}

#[test]
fn a_broken_script_is_a_broken_file() {
    let project = project().file("bad.yaml", "replies:\n  - whne: {action: answer}\n    reply: x\n");
    let output = project.run(&["run", "ask", "--script", "bad.yaml", "x"]).exits(2);
    assert!(output.stderr.contains("`when`"), "{output}");
}

#[test]
fn events_are_lines_of_json() {
    let project = project();
    project.run(&["run", "ask", "--events", "events.jsonl", "x"]).exits(0);
    let events = project.read("events.jsonl");
    assert!(events.lines().count() >= 4, "{events}");
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).expect("a line is JSON");
        assert!(event.is_object(), "{event}");
    }
}

#[test]
fn prompts_and_responses_are_shown_on_demand() {
    let output = project().run(&["run", "ask", "-p", "-r", "How many?"]).exits(0);
    assert!(output.stderr.contains("Answer this: How many?"), "{output}");
    assert!(output.stderr.contains("Forty-two"), "{output}");
}

#[test]
fn a_goal_or_a_type_is_chosen() {
    let project = project();
    assert_eq!(project.run(&["run", "echo", "--json", "--goal", "echo", "x"]).exits(0).json()["goal"], "echo");
    assert_eq!(
        project.run(&["run", "echo", "--json", "--returns", "Echo", "x"]).exits(0).json()["output"]["type"],
        "Echo"
    );
    let output = project.run(&["run", "echo", "--goal", "ecko", "x"]).exits(2);
    assert!(output.stderr.contains("`echo`"), "{output}");
}

#[test]
fn what_is_not_there_yet_is_refused_with_its_place() {
    let text = "agent: person
inputs: UserInput
types: {Story: string}
references: {guide: {rag: {documents: docs/*.md}}}
actions:
  tell: {inputs: UserInput, output: Story, references: guide, prompt: x, achieves: Told}
";
    let project = project().file("workflows/person.yaml", text);
    let output = project.run(&["run", "workflows/person.yaml", "x"]).exits(2);
    assert!(output.stderr.contains("not supported yet") && output.stderr.contains("person.yaml:6"), "{output}");
}

#[test]
fn secrets_are_not_shown() {
    let key = "sk-very-secret-0123456789";
    let project = project()
        .file("agent-run.yaml", "models: {default: far/any}\nproviders: {far: {kind: openai, base_url: 'http://127.0.0.1:9/v1', api_key: '${env:KEY}'}}\n")
        .env("KEY", key);
    for args in [&["run", "ask", "--json", "-v", "-p", "x"][..], &["models", "--json"], &["check", "--json"]] {
        let output = project.run(args);
        assert!(!output.stdout.contains(key) && !output.stderr.contains(key), "{output}");
    }
}

/// A workflow that names no model at all.
const NO_MODEL: &str = "agent: bare\ninputs: UserInput\ntypes:\n  Answer: {text: string}\nactions:\n  answer:\n    inputs: UserInput\n    output: Answer\n    prompt: '{{ user_input.content }}'\n    achieves: There is an answer\n";

#[test]
fn a_workflow_without_a_model_runs_on_a_script_and_on_the_model_of_the_command_line() {
    let providers = "providers: {demo: {kind: scripted, file: script.yaml}}\n";
    let project = crate::support::project::Project::new()
        .file("agent-run.yaml", providers)
        .file("script.yaml", super::ANSWERS)
        .file("workflows/bare.yaml", NO_MODEL);
    let document = project.run(&["run", "bare", "hi", "--json", "--script", "script.yaml"]).exits(0).json();
    assert_eq!(document["output"]["value"]["text"], "Forty-two");
    let document = project.run(&["run", "bare", "hi", "--json", "--llm", "default=demo/any"]).exits(0).json();
    assert_eq!(document["history"][0]["llm"][0]["model"], "demo/any");
    let failed = project.run(&["run", "bare", "hi", "--json"]).exits(1).json();
    assert!(failed["failure"]["message"].as_str().is_some_and(|message| message.contains("--llm default=")));
}

#[test]
fn a_model_for_a_role_or_provider_that_is_not_there_is_refused() {
    let project = project();
    for (wrong, said) in [("bst=demo/any", "bst"), ("default=demo", "PROVIDER/demo"), ("default=dmo/any", "`demo`")] {
        let output = project.run(&["run", "ask", "hi", "--llm", wrong]).exits(2);
        assert!(output.stderr.contains(said), "{wrong}: {output}");
    }
}

#[test]
fn with_json_a_command_that_cannot_be_done_prints_the_document_of_check() {
    let project = project();
    let wrong: [&[&str]; 5] = [
        &["run", "ask", "--json"],
        &["run", "ask", "hi", "--json", "--goal", "answr"],
        &["run", "ask", "hi", "--json", "--input", "UserInput={"],
        &["run", "ask", "hi", "--json", "--no-such-flag"],
        &["run", "nothing-there", "hi", "--json"],
    ];
    for args in wrong {
        let document = project.run(args).exits(2).json();
        assert_eq!(document["errors"], 1, "{args:?}");
        let code = if args[1] == "nothing-there" { "unknown-agent" } else { "command-line" };
        assert_eq!(document["diagnostics"][0]["code"], code, "{args:?}");
    }
}

#[test]
fn config_keeps_the_kind_of_its_values() {
    let project = project();
    let said = |setting: &str| project.run(&["run", "echo", "a", "--json", "--set", setting]);
    assert_eq!(said("mark=7").exits(0).json()["output"]["value"]["text"], "a7");
    let numbered = super::ECHO.replace("{mark: '!'}", "{mark: 3}");
    project.write("workflows/echo.yaml", numbered);
    let output = project.run(&["run", "echo", "a", "--set", "mark=many"]).exits(2);
    assert!(output.stderr.contains("`mark` is an integer"), "{output}");
}

#[test]
fn the_limit_on_time_ends_what_is_under_way() {
    let slow = "agent: slow\ninputs: UserInput\nactions:\n  wait: {inputs: UserInput, delay: 30s, set: {}, achieves: Waited}\n";
    let project = project().file("workflows/slow.yaml", slow);
    let started = std::time::Instant::now();
    let document = project.run(&["run", "slow", "a", "--json", "--timeout", "200ms"]).exits(5).json();
    assert!(started.elapsed() < std::time::Duration::from_secs(20));
    assert_eq!((&document["status"], &document["failure"]["kind"]), (&json!("terminated"), &json!("limit")));
    assert_eq!(document["failure"]["message"], "the limit on time of 200 ms is reached");
}

#[test]
fn a_secret_that_a_program_echoes_is_not_shown() {
    let leak = "agent: leak\ninputs: UserInput\ntypes:\n  Out: string\nactions:\n  tell:\n    inputs: UserInput\n    output: Out\n    exec: {command: [sh, -c, 'echo $KEY; echo $KEY >&2; exit $CODE'], env: {KEY: '${env:SECRET_KEY}', CODE: '{{ user_input.content }}'}, expect: text}\n    achieves: Told\n";
    let project = project().file("workflows/leak.yaml", leak).env("SECRET_KEY", "hush-123456");
    for code in ["0", "3"] {
        let output = project.run(&["run", "leak", code, "--yes", "--json", "-v"]);
        assert!(!output.stdout.contains("hush-123456") && !output.stderr.contains("hush-123456"), "{output}");
        assert!(output.stdout.contains("[redacted]"), "{output}");
    }
}

#[test]
fn what_a_sub_agent_cannot_do_yet_is_refused_before_anything_runs() {
    let types = "inputs: UserInput\ntypes: {Story: string}\ngoals: {told: Story}\n";
    let outer = format!("agent: outer\n{types}actions:\n  tell: {{inputs: UserInput, output: Story, agent: inner}}\n");
    let inner = format!(
        "agent: inner\nreferences: {{guide: {{rag: {{documents: docs/*.md}}}}}}\n{types}actions:\n  tell: {{inputs: UserInput, output: Story, references: guide, prompt: x}}\n"
    );
    let project = project().file("workflows/outer.yaml", outer).file("workflows/inner.yaml", inner);
    let output = project.run(&["run", "workflows/outer.yaml", "x"]).exits(2);
    assert!(output.stderr.contains("not supported yet: the source `rag` of the reference `guide`, which comes in a later version (workflows/inner.yaml:7:"), "{output}");
}

#[test]
fn what_ends_a_supervisor_is_told_though_it_is_no_step() {
    let text = "agent: kitchen\nplanner: supervisor\nmodels: {default: demo/script}\ninputs: UserInput\ntypes: {Story: string}\nactions:\n  tell: {inputs: UserInput, output: Story, set: x, achieves: Told}\n";
    let project = project()
        .file("workflows/kitchen.yaml", text)
        .file("empty.yaml", "replies: [{when: {action: other}, reply: x}]\n");
    let output = project.run(&["run", "kitchen", "x", "--script", "empty.yaml"]).exits(1);
    assert!(
        output.stderr.contains("llm in supervisor: no rule of the script answers the call of `supervisor`"),
        "{output}"
    );
    let bare = text.replace("models: {default: demo/script}\n", "");
    let project = project.file("workflows/kitchen.yaml", bare).file("agent-run.yaml", "{}\n");
    // As with other calls: the model may come with the command.
    project.run(&["check", "kitchen"]).exits(0);
    let output = project.run(&["run", "kitchen", "x"]).exits(1);
    assert!(
        output.stderr.contains("llm in supervisor: no model is chosen; set `models: {default: provider/id}`"),
        "{output}"
    );
    project.write("tells.yaml", "replies: [{when: {action: supervisor}, turns: [{call: [{tool: tell, with: {}}]}]}]\n");
    project.run(&["run", "kitchen", "x", "--script", "tells.yaml"]).exits(0);
    let listed = project.run(&["models"]).exits(0);
    assert!(listed.stdout.contains("not set, and some prompts name no model"), "{listed}");
}
