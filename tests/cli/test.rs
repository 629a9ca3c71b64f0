//! `test`: cases, what is expected of them, snapshots, reports.

use serde_json::json;

use super::project;
use crate::support::project::{Output, Project};

/// A test file of the workflow `ask`.
fn with_tests(cases: &str) -> Project {
    project().file("tests/ask.yaml", format!("workflow: ../workflows/ask.yaml\ncases:\n{cases}"))
}

const GOOD: &str = "  answers:
    input: What?
    replies: {answer: {text: Forty-two}}
    expect:
      status: completed
      goal: answer
      ran: [answer]
      plan: [answer]
      output: {type: Answer, value: {text: Forty-two}}
      failure: ~
      llm_calls: 1
      tool_calls: 0
      cost: 0
      checks: [\"output.text == 'Forty-two'\", \"calls('answer')[0].prompt == 'Answer this: What?'\", \"ran('answer')\"]
      events: [{event: planned}, {event: action_finished, status: succeeded}]
      prompts: snapshot
";

fn snapshots(project: &Project) -> Vec<String> {
    let dir = project.path().join("tests/snapshots");
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    names.sort();
    names
}

fn good() -> Project {
    with_tests(&GOOD.replace("      failure: ~\n", ""))
}

/// The message of the first case.
#[track_caller]
fn message(output: &Output) -> String {
    output.json()["cases"][0]["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_snapshot_is_pending_then_accepted_then_compared() {
    let project = good();
    let first = project.run(&["test", "--json"]).exits(1);
    assert!(message(&first).contains("has no snapshot yet"), "{first}");
    assert_eq!(snapshots(&project), ["ask__answers__answer.snap.new"]);
    project.run(&["test", "--update"]).exits(0);
    assert_eq!(snapshots(&project), ["ask__answers__answer.snap"]);
    let document = project.run(&["test", "--json"]).exits(0).json();
    assert_eq!((&document["passed"], &document["failed"], &document["skipped"]), (&json!(1), &json!(0), &json!(0)));
    let case = &document["cases"][0];
    assert_eq!((&case["file"], &case["name"]), (&json!("tests/ask.yaml"), &json!("answers")));
    assert_eq!((&case["status"], &case["message"]), (&json!("passed"), &json!(null)));
    assert!(case["ms"].is_number());
}

#[test]
fn a_changed_prompt_fails_with_its_action_and_line_and_nothing_is_written_in_ci() {
    let project = good();
    project.run(&["test", "--update"]).exits(0);
    let workflow = project.read("workflows/ask.yaml").replace("Answer this:", "Answer that:");
    project.write("workflows/ask.yaml", workflow);
    for flag in [vec!["test", "--json", "--ci"], vec!["test", "--json"]] {
        let output = project.run(&flag).exits(1);
        let text = message(&output);
        assert!(text.contains("the prompt of `answer` has changed"), "{text}");
        assert!(text.contains("   4 - Answer this: What?\n   4 + Answer that: What?"), "{text}");
        assert_eq!(snapshots(&project).len(), if flag.contains(&"--ci") { 1 } else { 2 }, "{output}");
    }
    let old = project.read("tests/snapshots/ask__answers__answer.snap");
    assert!(old.contains("Answer this:"), "the snapshot is kept until it is accepted");
}

#[test]
fn review_accepts_rejects_and_skips() {
    let project = good();
    project.run(&["test", "--update"]).exits(0);
    let workflow = project.read("workflows/ask.yaml").replace("Answer this:", "Answer that:");
    project.write("workflows/ask.yaml", workflow);
    let skipped = project.run_with_stdin(&["test", "--review"], "s\n").exits(1);
    assert!(skipped.stdout.contains("1 skipped"), "{skipped}");
    assert_eq!(snapshots(&project).len(), 2);
    let rejected = project.run_with_stdin(&["test", "--review"], "d\nr\n").exits(1);
    assert!(rejected.stdout.contains("1 rejected"), "{rejected}");
    assert_eq!(snapshots(&project), ["ask__answers__answer.snap"]);
    let left = project.run_with_stdin(&["test", "--review"], "").exits(1);
    assert!(left.stdout.contains("1 skipped"), "{left}");
    project.write("tests/ask.yaml", project.read("tests/ask.yaml").replace("Answer this: What?", "Answer that: What?"));
    let accepted = project.run_with_stdin(&["test", "--review"], "x\na\n").exits(0);
    assert!(accepted.stdout.contains("1 accepted") && accepted.stderr.contains("`x` is none of them"), "{accepted}");
    project.run(&["test"]).exits(0);
}

#[test]
fn what_is_not_as_expected_is_told_with_its_place() {
    let project = with_tests(
        "  wrong:
    input: What?
    replies: {answer: {text: Forty-two}}
    expect:
      status: failed
      ran: [answer, answer]
      output: {value: {text: Forty}}
      checks: [\"output.text | length < 5\"]
      llm_calls: {at_least: 2}
      events: [{event: waiting}]
",
    );
    let output = project.run(&["test"]).exits(1);
    for line in [
        "status: expected failed, found completed  tests/ask.yaml:7:7",
        "ran: expected [answer, answer], found [answer]  tests/ask.yaml:8:12",
        "output: `text`: expected \"Forty\", found \"Forty-two\"  tests/ask.yaml:9:23",
        "checks: `output.text | length < 5` does not hold: `output.text | length` is 9  tests/ask.yaml:10:16",
        "llm_calls: expected at least 2, found 1  tests/ask.yaml:11:18",
        "events: no event {\"event\":\"waiting\"} came",
        "0 passed, 1 failed",
    ] {
        assert!(output.stdout.contains(line), "no line {line:?}\n{output}");
    }
}

#[test]
fn a_run_that_stops_says_how_far_it_came_and_what_is_missing() {
    let project = with_tests("  silent:\n    input: What?\n");
    let text = message(&project.run(&["test", "--json"]).exits(1));
    assert!(text.contains("the model is asked by `answer`, and there is no reply: add `answer: {\"text\":"), "{text}");
    assert!(text.contains("expected completed, found failed"), "{text}");
    assert!(text.contains("it came so far: answer (failed)"), "{text}");
}

#[test]
fn replies_that_are_not_used_fail_the_case() {
    let project = with_tests(
        "  greedy:\n    input: What?\n    replies: {answer: {turns: [{reply: {text: a}}, {reply: {text: b}}]}}\n",
    );
    let text = message(&project.run(&["test", "--json"]).exits(1));
    assert!(text.contains("the last turn of the 2 of `answer` was never used"), "{text}");
}

#[test]
fn errors_delays_and_retries_of_models_take_no_time() {
    let project = with_tests(
        "  patient:
    input: What?
    replies: {answer: {turns: [{error: {status: 429, retry_after: 50}, delay: 100s}, {reply: {text: ok}, delay: 3h}]}}
    expect: {output: {value: {text: ok}}}
",
    );
    // A run on the real clock would be stopped as one that hangs.
    project.run(&["test"]).exits(0);
}

#[test]
fn replies_are_made_up_from_the_types_where_that_is_asked_for() {
    let project =
        with_tests("  first:\n    input: What?\n    replies: sampled\n    expect: {output: {type: Answer}}\n");
    project.run(&["test"]).exits(0);
}

#[test]
fn a_case_with_each_is_run_for_every_row() {
    let project = with_tests(
        "  says:
    each:
      short: {word: hi, size: 2}
      long: {word: hello, size: 5}
    input: '{{ word }}?'
    replies: {answer: {text: '{{ word }}!'}}
    expect:
      output: {value: {text: '{{ word }}!'}}
      checks: [output.text | length == size + 1]
",
    );
    let document = project.run(&["test", "--json"]).exits(0).json();
    let names: Vec<&str> =
        document["cases"].as_array().expect("cases").iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(names, ["says.short", "says.long"]);
    let one = project.run(&["test", "--json", "tests/ask.yaml::says.long"]).exits(0).json();
    assert_eq!(one["passed"], 1);
}

#[test]
fn fixtures_are_shared_by_import() {
    let project = project()
        .file("tests/shared/people.yaml", "defaults: {now: '2030-05-05T05:05:05Z'}\nfixtures:\n  ada: {input: I am Ada}\n")
        .file(
            "tests/ask.yaml",
            "import: shared/people.yaml\nworkflow: ../workflows/ask.yaml\nfixtures:\n  yes: {replies: {answer: {text: 'yes'}}}\n\
             cases:\n  a:\n    use: [ada, yes]\n    expect:\n      checks: [\"calls('answer')[0].prompt == 'Answer this: I am Ada'\", \
             \"last('UserInput').timestamp == '2030-05-05T05:05:05Z'\"]\n",
        );
    project.run(&["test"]).exits(0);
    project.write("tests/shared/people.yaml", "import: ../ask.yaml\nfixtures: {}\n");
    let output = project.run(&["test", "--json"]).exits(2).json();
    let cycle =
        output["diagnostics"].as_array().expect("findings").iter().find(|found| found["code"] == "import-cycle");
    assert_eq!(cycle.expect("a cycle")["file"], "tests/shared/people.yaml");
}

#[test]
fn mistakes_in_test_files_are_found_before_anything_runs() {
    let project = with_tests(
        "  a:
    inptu: hi
    replies: {anser: x}
    tools: {search: x}
    use: nobody
    expect:
      ran: [anwer]
      output: {type: Answr, value: {}}
      checks: [output.txt == 1, \"calls('anser') == []\"]
  b:
    inputs: {UserInput: {content: 1}}
    expect: {output: {value: {txt: x}}, status: done}
",
    );
    let document = project.run(&["test", "--json"]).exits(2).json();
    let found: Vec<String> = document["diagnostics"]
        .as_array()
        .expect("diagnostics")
        .iter()
        .map(|d| format!("{}:{} {}", d["line"], d["column"], d["code"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(
        found,
        [
            "4:5 unknown-key",
            "5:15 unknown-action",
            "6:13 unknown-tool",
            "7:10 unknown-fixture",
            "9:13 unknown-action",
            "10:22 unknown-type",
            "11:40 unknown-action",
            "13:35 wrong-type",
            "14:31 unknown-field",
            "14:49 unknown-word",
        ],
        "{document:#}"
    );
    assert!(document["diagnostics"][0]["help"].as_str().expect("help").contains("did you mean `input`?"));
}

#[test]
fn a_broken_workflow_is_shown_and_nothing_runs() {
    let project = good();
    let workflow = project.read("workflows/ask.yaml").replace("user_input.content", "user_input.contents");
    project.write("workflows/ask.yaml", workflow);
    let document = project.run(&["test", "--json"]).exits(2).json();
    assert_eq!(document["diagnostics"][0]["code"], "unknown-field");
    assert_eq!(document["diagnostics"][0]["file"], "workflows/ask.yaml");
}

#[test]
fn a_snapshot_that_was_cut_off_is_an_error_and_is_never_overwritten() {
    let project = good();
    project.run(&["test", "--update"]).exits(0);
    let path = "tests/snapshots/ask__answers__answer.snap";
    let whole = project.read(path);
    for (broken, why) in [
        (String::new(), "the file is empty"),
        (whole.lines().take(2).collect::<Vec<_>>().join("\n"), "the header has no second line"),
        (whole.replacen("---\n", "", 1), "the first line is not `---`"),
        (whole.replace("── user", "<<<<<<< ours"), "conflict marker of git"),
    ] {
        project.write(path, &broken);
        for flags in [vec!["test", "--json"], vec!["test", "--json", "--update"], vec!["test", "--json", "--prune"]] {
            let output = project.run(&flags).exits(1);
            assert!(message(&output).contains(why), "{output}");
            assert_eq!(project.read(path), broken, "{flags:?}");
        }
    }
}

#[test]
fn stale_snapshots_are_reported_and_pruned_unless_a_case_could_not_show_its_own() {
    let project = good();
    project.run(&["test", "--update"]).exits(0);
    let kept = project.read("tests/snapshots/ask__answers__answer.snap");
    project.write("tests/snapshots/ask__gone__answer.snap", &kept);
    project.write("tests/snapshots/other.snap", "not ours");
    let document = project.run(&["test", "--json"]).exits(0).json();
    assert_eq!(document["stale"], json!(["tests/snapshots/ask__gone__answer.snap"]));
    // A case that fails before it asks keeps what it has.
    let tests = project.read("tests/ask.yaml");
    project.write("tests/ask.yaml", tests.replace("    replies: {answer: {text: Forty-two}}\n", ""));
    project.write(
        "workflows/ask.yaml",
        project.read("workflows/ask.yaml").replace("inputs: UserInput\ntypes", "inputs: [UserInput, Answer]\ntypes"),
    );
    project.run(&["test", "--prune"]).exits(1);
    assert_eq!(snapshots(&project), ["ask__answers__answer.snap", "other.snap"]);
}

#[test]
fn a_case_can_be_skipped_filtered_and_the_rest_left_out_after_a_failure() {
    let project = with_tests(
        "  off: {skip: later, input: x}\n  one: {input: x}\n  two: {input: x, replies: sampled}\n  three: {input: x, replies: sampled}\n",
    );
    let document = project.run(&["test", "--json", "--jobs", "1", "--fail-fast"]).exits(1).json();
    assert_eq!((&document["passed"], &document["failed"], &document["skipped"]), (&json!(0), &json!(1), &json!(1)));
    assert_eq!(document["cases"][0]["message"], "later");
    let document = project.run(&["test", "--json", "--filter", "::two", "--filter", "three"]).exits(0).json();
    assert_eq!(document["passed"], 2);
    project.run(&["test", "--filter", "nothing"]).exits(2);
}

#[test]
fn a_judge_is_asked_only_where_a_model_is_configured() {
    let cases = "  a:\n    input: x\n    replies: sampled\n    expect:\n      checks: [{judge: {prompt: 'Is {{ output.text }} an answer?', at_least: 0.8}}]\n";
    let project = with_tests(cases);
    let output = project.run(&["test"]).exits(0);
    assert!(output.stdout.contains("1 check not judged"), "{output}");
    let script = |score: &str| {
        format!("replies:\n  - when: {{action: judge}}\n    reply: {{why: It is vague, score: {score}}}\n")
    };
    project.write("script.yaml", script("0.4"));
    let text = message(&project.run(&["test", "--json", "--judge", "demo/judge"]).exits(1));
    assert!(text.contains("the judge (demo/judge) gives 0.40, and at least 0.8 is expected: It is vague"), "{text}");
    project.write("script.yaml", script("0.9"));
    project.run(&["test", "--judge", "demo/judge"]).exits(0);
    project.run(&["test", "--judge", "openai/gpt-4.1"]).exits(0);
}

#[test]
fn only_files_with_cases_are_test_files() {
    let project =
        project().file("tests/data/notes.yaml", "a: 1\n").file("tests/nested/agent-run.yaml", "project: {name: n}\n");
    project.write("tests/nested/tests/x.yaml", "workflow: nowhere.yaml\ncases: {}\n");
    let output = project.run(&["test"]).exits(2);
    assert!(output.stderr.contains("there are no test files"), "{output}");
    let check = |project: &Project| project.run(&["check", "--json"]).exits(0).json()["checked"].clone();
    assert_eq!(check(&project)["test_files"], 0);
    project.write("tests/x.yaml", "workflow: ../workflows/ask.yaml\ncases: {a: {input: x, replies: sampled}}\n");
    let checked = check(&project);
    assert_eq!((&checked["test_files"], &checked["cases"]), (&json!(1), &json!(1)));
    assert_eq!(checked["not_checked"], json!([]));
}

#[test]
fn check_finds_what_is_wrong_in_test_files_as_test_does() {
    let cases = "  a:\n    input: x\n    replies: {answr: {text: hi}}\n    expekt: {}\n    now: soon\n";
    let project = with_tests(cases).file("tests/b.yaml", "workflow: ../workflows/aks.yaml\ncases: {}\n");
    let found = |args: &[&str]| project.run(args).exits(2).json()["diagnostics"].clone();
    let all = found(&["check", "--json"]);
    assert_eq!(all, found(&["test", "--json"]));
    let codes: Vec<&str> = all.as_array().expect("a list").iter().filter_map(|found| found["code"].as_str()).collect();
    assert_eq!(codes, ["unknown-action", "unknown-key", "wrong-shape", "file-not-found"]);
    assert_eq!(found(&["check", "--json", "tests/b.yaml"]).as_array().map(Vec::len), Some(1));
    assert_eq!(found(&["check", "--json", "tests"]), all);
    project.run(&["check", "workflows"]).exits(0);
    project.run(&["check", "workflows/ask.yaml"]).exits(0);
    // Mistakes of a workflow are told once, of one outside of the project's workflows too.
    let broken = "agent: broken\nactions: {a: {prompt: x}\n";
    for path in ["workflows/ask.yaml", "elsewhere/ask.yaml"] {
        let project = with_tests("  a: {replies: sampled}\n").file(path, broken);
        project.write("tests/ask.yaml", format!("workflow: ../{path}\ncases: {{a: {{}}}}\n"));
        let output = project.run(&["check", "--json"]).exits(2).json();
        assert_eq!(output["errors"], 1, "{path}: {output:#}");
        assert_eq!(output["diagnostics"][0]["file"], path);
    }
}

#[test]
fn coverage_names_the_templates_and_branches_that_no_case_reaches() {
    let project = with_tests("  a:\n    input: x\n    replies: sampled\n");
    let prompt = "    prompt: |\n      Answer:\n      {% if user_input.content ~ '' == 'x' %}\n      {{ user_input.content }}\n      {% else %}\n      Shortly.\n      {% endif %}\n      {% include 'more.jinja' %}\n";
    let ask = project.read("workflows/ask.yaml");
    let (before, after) = ask.split_once("    prompt: 'Answer this: {{ user_input.content }}'\n").unwrap();
    let again = "  again:\n    description: Ask again\n    inputs: Answer\n    output: Answer\n    prompt: 'Again: {{ answer.text }}'\n    pre: answer.text == 'never'\n";
    project.write("workflows/ask.yaml", format!("{before}{prompt}{after}{again}"));
    project.write("prompts/more.jinja", "More:\n{% for c in [1, 2] if c > 5 %}{{ c }}{% endfor %}\n");
    let document = project.run(&["test", "--json", "--coverage"]).exits(0).json();
    let of = &document["coverage"]["workflows"][0];
    let line = |file: &str, text: &str| {
        project.read(file).lines().position(|line| line.contains(text)).map(|at| at + 1).unwrap_or_default()
    };
    let (workflow, more) = ("workflows/ask.yaml", "prompts/more.jinja");
    assert_eq!((&of["templates"], &of["branches"]), (&json!(3), &json!(3)), "{of}");
    assert_eq!(
        of["templates_missed"],
        json!([{"file": workflow, "line": line(workflow, "Again:"), "text": "Again: {{ answer.text }}"}])
    );
    assert_eq!(
        of["branches_missed"],
        json!([
            {"file": more, "line": 2, "what": "`for` never has an element", "text": "c > 5", "rendered": true},
            {"file": workflow, "line": line(workflow, "{% if"), "what": "`if` always holds",
                "text": "user_input.content ~ '' == 'x'", "rendered": true},
        ])
    );
    let output = project.run(&["test", "--coverage"]).exits(0);
    assert!(output.stdout.contains("2 of 3 templates, 1 of 3 branches of templates"), "{output}");
    assert!(output.stdout.contains("`for` never has an element: c > 5  prompts/more.jinja:2"), "{output}");
}

#[test]
fn coverage_sees_personas_and_empty_loops_and_asks_nothing_of_what_is_stubbed() {
    let workflow = "agent: mail\ndescription: Sends a mail\ninputs: UserInput\npersonas:\n  clerk:\n    name: Ann\n    persona: \"{% if user_input.content == 'x' %}kind{% else %}brief{% endif %}\"\n    objective: help\n    voice: >\n      calm,\n      {{ user_input.content | upper }}\ntypes:\n  Sent: {text: string}\ntools:\n  send_mail:\n    description: Sends a mail\n    parameters: {to: string}\n    exec: {command: [echo, '{{ to | upper }}']}\nactions:\n  send:\n    description: Send it\n    inputs: UserInput\n    output: Sent\n    tools: [send_mail]\n    persona: clerk\n    prompt: \"{% for c in ['a'] if c == user_input.content %}{{ c }}{% else %}none{% endfor %}\"\n    achieves: It is sent\n";
    let tests = "workflow: ../workflows/mail.yaml\ncases: {a: {input: x, replies: sampled}}\n";
    let project = project().file("workflows/mail.yaml", workflow).file("tests/mail.yaml", tests);
    let found = |project: &Project| {
        let document = project.run(&["test", "--json", "--coverage"]).exits(0).json();
        let of = document["coverage"]["workflows"][0].clone();
        let missed = of["branches_missed"].as_array().expect("a list").iter();
        let missed: Vec<String> =
            missed.map(|of| format!("{}: {} {}", of["line"], of["what"].as_str().unwrap(), of["text"])).collect();
        (of["templates"].clone(), of["templates_missed"].clone(), missed)
    };
    let lines = |text: &str| workflow.lines().position(|line| line.contains(text)).map(|at| at + 1).unwrap_or_default();
    let (if_line, for_line) = (lines("{% if"), lines("{% for"));
    assert_eq!(
        found(&project),
        (
            json!(5),
            json!([]),
            vec![
                format!("{if_line}: `if` always holds \"user_input.content == 'x'\""),
                format!("{for_line}: `for` never has an element \"c == user_input.content\""),
            ]
        )
    );
    project.write("tests/mail.yaml", tests.replace("input: x", "input: a"));
    let missed = found(&project).2;
    assert_eq!(
        missed,
        [
            format!("{if_line}: `if` never holds \"user_input.content == 'x'\""),
            format!("{for_line}: `for` is never empty \"c == user_input.content\""),
        ]
    );
}

#[test]
fn people_agree_to_calls_of_tools_or_do_not() {
    let workflow = "agent: mail\ndescription: Sends a mail\ninputs: UserInput\ntypes:\n  Sent: {text: string}\ntools:\n  send_mail:\n    description: Sends a mail\n    parameters: {to: string}\n    confirm: 'Send a mail to {{ to }}?'\n    exec: {command: [echo, '{}']}\nactions:\n  send:\n    description: Send it\n    inputs: UserInput\n    output: Sent\n    tools: [send_mail]\n    prompt: 'Send this: {{ user_input.content }}'\n    achieves: It is sent\n";
    let tests = "workflow: ../workflows/mail.yaml\ndefaults:\n  input: Hello\n  replies: {send: {turns: [{call: [{tool: send_mail, with: {to: lind}}]}, {reply: {text: done}}]}}\n  tools: {send_mail: {sent: true}}\ncases:\n  agrees: {answers: {send_mail: true}, expect: {checks: [\"tool_calls('send_mail')[0].ok\"]}}\n  refuses: {answers: {send_mail: false}, expect: {checks: [\"not tool_calls('send_mail')[0].ok\"]}}\n  waits: {expect: {status: waiting}}\n";
    let project = project().file("workflows/mail.yaml", workflow).file("tests/mail.yaml", tests);
    let output = project.run(&["test"]).exits(0);
    assert!(output.stdout.contains("3 passed"), "{output}");
    // Without an answer no one agrees.
    project.write("tests/mail.yaml", tests.replace("{answers: {send_mail: true}, expect: ", "{expect: "));
    let text = message(&project.run(&["test", "--json"]).exits(1));
    let why = "why: the tool `send_mail` asks a person (\"Send a mail to lind?\") and the case has no answer: \
               add `answers: {send_mail: true}`";
    assert!(text.contains(why), "{text}");
    project.write("tests/mail.yaml", tests.replace("send_mail: true}, exp", "send_mail: []}, exp"));
    project.run(&["test"]).exits(1);
}
