//! Where references reach: every prompt that may have them, and what is said of them to people.

use crate::support::project::Project;

/// An agent with prompts in an action, a tool, a tool with a model of its own and a condition.
const CLERK: &str = "agent: clerk
inputs: UserInput
types: {Draft: {text: string}, Answer: string}
config: {house: Acme}
references:
  style: {text: 'Write as {{ config.house }} does.'}
  rules: {text: Bikes are not taken back., mode: tools}
defaults: {references: [style, rules]}
conditions:
  plain: {inputs: Draft, prompt: 'Is this in style? {{ draft.text }}'}
tools:
  rate:
    description: Rates a text
    parameters: {text: string}
    prompt: 'Rate this: {{ text }}'
  dig:
    description: Looks deeper
    parameters: {what: string}
    agentic: {tools: [rate]}
actions:
  draft: {inputs: UserInput, output: Draft, tools: [rate, dig], references: [], prompt: '{{ user_input.content }}'}
  answer: {inputs: Draft, output: Answer, pre: plain, set: '{{ draft.text }}'}
goals: {done: {output: Answer}}
";

const SCRIPT: &str = "replies:
  - when: {action: draft}
    turns: [{call: [{tool: rate, with: {text: x}}, {tool: dig, with: {what: y}}]}, {reply: {text: Hello}}]
  - when: {action: rate}
    turns: [{call: [{tool: rules_read}]}, {reply: Good}]
  - when: {action: dig}
    turns: [{call: [{tool: rules_read}]}, {reply: Dug}]
  - when: {action: plain}
    turns: [{call: [{tool: rules_read}]}, {reply: {holds: true, confidence: 1, why: So it is}}]
";

fn clerk(workflow: &str) -> Project {
    Project::new()
        .file("agent-run.yaml", "models: {default: demo/any}\nproviders: {demo: {kind: scripted, file: script.yaml}}\n")
        .file("script.yaml", SCRIPT)
        .file("workflows/clerk.yaml", workflow)
}

/// The prompts that were sent, by who sent them: `(caller, text)`.
fn prompts(stderr: &str) -> Vec<(String, String)> {
    let parts = stderr.split("── prompt of ").skip(1);
    parts.map(|part| (part.split(',').next().unwrap_or_default().to_owned(), part.to_owned())).collect()
}

#[test]
fn defaults_reach_prompts_of_tools_inner_loops_and_conditions_with_their_tools() {
    let ran = clerk(CLERK).run(&["run", "workflows/clerk.yaml", "-p", "--no-store", "hello"]).exits(0);
    let prompts = prompts(&ran.stderr);
    for caller in ["rate", "dig", "plain"] {
        let own: Vec<&String> = prompts.iter().filter(|(of, _)| of == caller).map(|(_, text)| text).collect();
        assert_eq!(own.len(), 2, "{caller}: {ran}");
        let notes = ["Reference `style`:\n    Write as Acme does.", "Its tools: `rules_search`, `rules_read`."];
        assert!(notes.iter().all(|note| own[0].contains(note)), "{caller}: {ran}");
        assert!(own[1].contains("Bikes are not taken back."), "{caller}: {ran}");
    }
    let of_action = prompts.iter().filter(|(of, _)| of == "draft");
    assert!(
        of_action.clone().count() == 2 && of_action.clone().all(|(_, text)| !text.contains("Reference `")),
        "{ran}"
    );
}

#[test]
fn a_tool_with_a_model_of_its_own_and_a_references_tool_of_one_name_are_refused() {
    let workflow = CLERK
        .replace("  dig:", "  rules_read: {description: Reads, parameters: {}, set: x}\n  dig:")
        .replace("agentic: {tools: [rate]}", "agentic: {tools: [rate, rules_read]}");
    let refused = clerk(&workflow).run(&["check", "workflows/clerk.yaml"]).exits(2);
    assert!(refused.stderr.contains("tool-collision") && refused.stderr.contains("`rules_read`"), "{refused}");
}

#[test]
fn a_person_who_is_asked_about_the_prompt_of_a_condition_is_waited_for() {
    let workflow = "agent: clerk\ninputs: UserInput\ntypes: {Draft: {text: string}, Answer: string}\nconditions:\n  \
        plain: {inputs: Draft, prompt: 'Is this in style? {{ draft.text }}'}\nguardrails:\n  \
        look: {check: prompt, pattern: in style, action: ask}\nactions:\n  \
        draft: {inputs: UserInput, output: Draft, set: {text: '{{ user_input.content }}'}}\n  \
        answer: {inputs: Draft, output: Answer, pre: plain, set: '{{ draft.text }}'}\ngoals: {done: {output: Answer}}\n";
    let project =
        clerk(workflow).file("yes.yaml", "replies:\n  - reply: {holds: true, confidence: 1, why: So it is}\n");
    let waits =
        project.run(&["run", "workflows/clerk.yaml", "--script", "yes.yaml", "--json", "hello"]).exits(3).json();
    assert_eq!(waits["waiting"]["action"], "plain");
    let id = waits["process"].as_str().unwrap_or_default();
    let resumed = project.run(&["resume", id, "--script", "yes.yaml", "--form", "{\"confirm\": true}", "--json"]);
    assert_eq!(resumed.exits(0).json()["output"]["value"], "hello");
}

#[test]
fn commands_that_take_an_agent_name_the_likely_one() {
    let project = clerk(CLERK);
    let each: &[&[&str]] = &[
        &["run", "clark", "hello"],
        &["plan", "clark"],
        &["check", "clark"],
        &["render", "clark", "draft"],
        &["graph", "clark"],
        &["domain", "clark"],
        &["chat", "clark"],
        &["tools", "list", "clark"],
        &["tools", "tree", "clark"],
        &["tools", "schema", "clark"],
        &["tools", "call", "clark", "rate", "{}"],
        &["models", "clark"],
        &["references", "clark"],
        &["skills", "clark"],
    ];
    for args in each {
        let refused = project.run(args).exits(2);
        let says = ["there is no agent `clark`", "did you mean `clerk`?"];
        assert!(says.iter().all(|part| refused.stderr.contains(part)), "{refused}");
    }
    for verb in ["models", "skills", "references"] {
        let document = project.run(&[verb, "clark", "--json"]).exits(2).json();
        assert_eq!(document["diagnostics"][0]["code"], "unknown-agent", "{verb}");
    }
}

#[test]
fn a_plan_tells_what_tools_and_references_of_prompts_may_touch() {
    let workflow = CLERK
        .replace("  rules:", "  know: {skills: skills}\n  code: {git: 'https://example.com/code.git'}\n  rules:")
        .replace("references: [style, rules]", "references: [style, rules, know, code]")
        .replace("  rate:", "  list: {description: Lists, parameters: {}, exec: [ls, -l]}\n  rate:")
        .replace("tools: [rate, dig]", "tools: [rate, dig, builtin:fetch]")
        .replace("agentic: {tools: [rate]}", "agentic: {tools: [rate, list]}");
    let skill = "---\nname: count\ndescription: Counts.\n---\nCount.\n";
    let project = clerk(&workflow)
        .file("skills/count/SKILL.md", skill)
        .file("skills/count/scripts/count.sh", "#!/bin/sh\necho 1\n");
    let planned = project.run(&["plan", "workflows/clerk.yaml", "-v"]).exits(0);
    for line in [
        "  tool list: exec ls\n",
        "  tool fetch_page: internet\n",
        "  reference know: files:read skills\n",
        "  reference know: exec skills\n",
        "  reference code: internet https://example.com/code.git\n",
    ] {
        assert!(planned.stdout.contains(line), "{line}: {planned}");
    }
    assert!(!planned.stdout.contains("reference style"), "{planned}");
}

#[test]
fn whole_texts_that_are_long_are_warned_of_and_told_by_the_run_where_check_cannot_know() {
    let text = "A line of a manual.\n".repeat(5_000);
    let workflow = CLERK.replace(
        "rules: {text: Bikes are not taken back., mode: tools}",
        "rules: {directory: docs, mode: prompt}\n  manual: {file: manual.md, mode: prompt}",
    );
    let workflow = workflow.replace("references: [style, rules]", "references: [style, rules, manual]");
    let script = SCRIPT.replace("{call: [{tool: rules_read}]}, ", "");
    let project = clerk(&workflow).file("manual.md", &text).file("docs/a.md", &text).file("script.yaml", script);
    let checked = project.run(&["check"]).exits(0);
    let says = "warning[long-reference]: the reference `manual` puts about 25000 tokens into its prompts, all of them in each request";
    assert_eq!(checked.stderr.matches("long-reference").count(), 1, "{checked}");
    assert!(checked.stderr.contains(says) && checked.stderr.contains("workflows/clerk.yaml:8:18"), "{checked}");
    let ran = project.run(&["run", "workflows/clerk.yaml", "--no-store", "hello"]).exits(0);
    assert_eq!(ran.stderr.matches("`rules` puts about 25").count(), 1, "{ran}");
}
